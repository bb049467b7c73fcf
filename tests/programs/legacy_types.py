"""isinstance(tensor, torch.FloatTensor), tensor.type(), tensor.new(...) and tensor.new_tensor(...), which look at a tensor in ways of their own."""
import torch
torch.manual_seed(0)
l = torch.nn.Linear(4,3); x = torch.randn(9,4); h = l(x)
for t in [l.weight, h, x, l.weight.detach(), h.sum(), l.weight.double()]:
    print([isinstance(t, k) for k in (torch.FloatTensor, torch.DoubleTensor, torch.Tensor, torch.LongTensor)], t.type(), t.is_sparse, str(t.device))
print(isinstance(3, torch.FloatTensor), isinstance(l.weight, torch.nn.Parameter))
print(l.weight.new(2,3).zero_(), l.weight.new([1.,2]), l.weight.new_tensor([1,2,3]), l.weight.new(h.size()).shape, h.new(h.size()).shape, h.new_tensor([[1.]]), h.new_tensor(3.5).item())
print(l.weight.new().shape, h.new(torch.zeros(2).size()).shape)
print((h + h.new(h.size()).fill_(2) + l.weight.new(3).fill_(1)).sum().item())
print(type(h.new_tensor(data=[2.0])), l.weight.new_zeros(3))
print(h.type(torch.DoubleTensor).sum().item(), h.detach().type("torch.FloatTensor").sum().item(), h.type_as(x).sum().item())
