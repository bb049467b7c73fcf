"""A tensor with a history is given another one's data (x.data = y), divided or whole: its gradient flows on as it did."""
import copy

import torch

torch.manual_seed(1)
first, second = torch.nn.Linear(4, 4).double(), torch.nn.Linear(4, 2).double()
for step in range(3):
    x = torch.randn(7, 4).double()
    h = first(x)
    rows = h * 1
    rows.data = x.detach().clone()  # whole for divided
    mean = h.mean(0) * 1
    mean.data = torch.arange(4.0).double()  # whole for a sum over the batch
    weight = first.weight * 1
    weight.data = h[:4].detach()  # divided for whole
    turned = h * 2
    turned.data = torch.randn(4, 7).double().t()
    halved = h * 3
    halved.data = halved.data * 0.5
    loss = second(rows.tanh()).square().mean() + (mean * mean).sum() + (weight @ first.bias).sum() + turned.tanh().sum() + (halved * halved).mean()
    parameters = list(first.parameters()) + list(second.parameters())
    first.zero_grad()
    second.zero_grad()
    loss.backward()
    print("%.6f" % loss.item(), *["%.6f" % parameter.grad.norm() for parameter in parameters])
    print(copy.deepcopy(rows.detach()).sum().item() == rows.sum().item(), turned.stride())
    print(tuple(rows.shape), "%.6f %.6f" % (rows.sum().item(), weight.norm().item()))
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.data = parameter.data - 0.1 * parameter.grad
    first.bias.data = h.detach().mean(0)
leaf = first(x).detach().requires_grad_()
leaf.data = x.flip(0)
(leaf.sigmoid() @ second.weight.t()).sum().backward()
print(tuple(leaf.grad.shape), "%.6f %.6f" % (leaf.grad.norm().item(), leaf.norm().item()))
print(" ".join("%.6f" % parameter.norm().item() for parameter in parameters))
# its own: a conversion that has nothing to do returns the tensor itself
own = first(x).detach()
own.data = own.contiguous()
total = first(x).detach().sum(0)
total.data = total.cpu()
row = own[3]
row.data = row.contiguous()
row.zero_()
holder = torch.nn.Module()
holder.features = torch.nn.Parameter(first(x).detach())
holder.to("cpu").double()
twin = first(x) * 1
twin.data = twin
(twin.square().sum() + (holder.features * x).sum()).backward()
print(tuple(own.shape), "%.6f" % own.sum().item(), " ".join("%.6f" % value for value in total.tolist()), own[3].tolist())
print(tuple(holder.features.shape), "%.6f %.6f" % (holder.features.grad.norm().item(), first.weight.grad.norm().item()))
