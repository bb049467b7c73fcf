"""isinstance(tensor, torch.FloatTensor), tensor.type(), tensor.new(...) and tensor.new_tensor(...), which look at a tensor in ways of their own."""
import warnings

import torch
from torch.overrides import TorchFunctionMode
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
# a tensor that is its own data
w, h = l.weight, l(x).detach()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for tensor in (w, h):
        for made in (tensor.new_tensor(tensor), tensor.new_tensor(data=tensor), tensor.new(tensor)):
            print(tuple(made.shape), "%.4f" % made.sum().item())


class Told(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if function.__name__ in ("new", "new_tensor"):
            print(function.__name__, arguments[0] is h, tuple(arguments[0].shape), "%.4f" % arguments[0].sum().item())
        return function(*arguments, **(keywords or {}))


class Own(torch.Tensor):
    pass


with Told():
    print(h.new_tensor([1.0]).item(), tuple(h.new(2, 3).shape), w.new_tensor(2.0).item())
print([type(tensor.as_subclass(Own).new_tensor([1.0])).__name__ for tensor in (h, w.detach())])
