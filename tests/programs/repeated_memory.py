"""Divided rows in which elements share memory (expanded, windows that overlap), and an operator that needs all of them: each element has its own gradient."""
import torch
from torch import nn

torch.manual_seed(1)
layer = nn.Linear(6, 8)
rows = torch.randn(12, 6)
order = torch.tensor([3, 1, 0, 2, 5, 7, 11, 9, 8, 4, 6, 10])
weights, per_copy = torch.arange(18.0).view(6, 3), torch.arange(24.0).view(3, 8)
mask = torch.tensor([[1.0], [0.0], [2.0]])


def tell(name, *tensors):
    print(name, *("%.3f" % number for tensor in tensors for number in tensor.flatten()[17:24].tolist()))


def windows(name, loss_of):
    layer.zero_grad()
    loss_of(layer(rows).unfold(1, 3, 1)).backward()
    tell(name, layer.weight.grad, layer.bias.grad)


def copies(name, picked, hook=None):
    layer.zero_grad()
    expanded = layer(rows).unsqueeze(1).expand(-1, 3, -1)
    if hook:
        expanded.register_hook(hook)
    expanded.retain_grad()
    (picked(expanded) * per_copy).sum().backward()
    tell(name, expanded.grad, expanded.grad.flip(0), layer.weight.grad)


windows("slice", lambda each: (each[1:] * weights).sum())
windows("order", lambda each: (each[order] * weights).sum())
windows("flip", lambda each: (each.flip(0) * weights).sum())
windows("cumsum", lambda each: (each.cumsum(0) * weights).sum())
windows("max", lambda each: (each.max(0)[0] * weights).sum())
windows("sequence", lambda each: (each.transpose(0, 1)[:, 2:] * weights[:, None]).sum())
for name, picked in ("slice", lambda all: all[1:]), ("order", lambda all: all[order]), ("sort", lambda all: all.sort(0)[0]):
    copies(name, picked)
    copies(name + ", masked", picked, lambda gradient: gradient * mask)
    copies(name + ", clipped", picked, lambda gradient: gradient.clamp(max=9))
expanded = layer(rows).unsqueeze(0).expand(2, -1, -1)
tell("asked for", *torch.autograd.grad((expanded[:, 1:] * per_copy[:2, None]).sum(), expanded))
twice = layer(rows).unsqueeze(1).expand(-1, 3, -1)
(first,) = torch.autograd.grad((twice[1:].pow(3) * per_copy).sum(), twice, create_graph=True)
layer.zero_grad()
first.pow(2).sum().backward()
tell("again", first, layer.weight.grad)
try:
    layer(rows).unsqueeze(1).expand(-1, 3, -1)[2:].mul_(2)
except RuntimeError as error:
    print("written", str(error)[:60])
with torch.no_grad():
    tell("values", layer(rows).unfold(1, 3, 1)[order], layer(rows).unsqueeze(1).expand(-1, 3, -1)[1:])
