"""A tensor that is given the memory of another one, or of a storage (set_): what is written to one reaches the other, and nobody else."""
import torch
from torch import nn

torch.manual_seed(1)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)


def tell(what, *tensors):
    print(what, *("%.4f" % number for tensor in tensors for number in tensor.detach().flatten().tolist()))


def hidden():
    with torch.no_grad():
        return layer(rows).clone()


def refused(what, act):
    try:
        act()
    except RuntimeError:
        print(what, "refused")


d, y = hidden(), hidden() * 2
d.set_(y)
y[3] = 1
y.add_(1)
tell("set", d[2:5])
d.mul_(2)
tell("and back", y[2:5], y.sum())

d, y = torch.zeros(3), hidden()
d.set_(y)
y.add_(1)
tell("whole from rows", d[2:5], d.sum(0))
d.mul_(3)
tell("back", y[1:4])

d, y = hidden(), torch.zeros(2, 3)
d.set_(y)
y.add_(1)
tell("rows from whole", d, d.sum())
d.add_(1)
tell("back", y)

d, y = hidden(), hidden()
view = y[3]
d.set_(y)
view.fill_(4)
tell("view of source", d[3], y[3])

d, y = hidden(), hidden() * 3
view = d[3]
old = d.detach()
d.set_(y)
view.fill_(4)
tell("view of before", d[3], view, old[3], old.sum())
d.add_(1)
tell("still", view, y[3], d[3])
old.mul_(2)
tell("still", view)

d, y = hidden(), hidden()
row = y[3]
d.set_(row)
row.fill_(2)
tell("from a row", d, y[3])
d.add_(1)
tell("back", row, y[2:5])

d, s = hidden(), hidden().sum(0)
d.set_(s)
s.mul_(2)
tell("from a sum", d)
d.add_(1)
tell("back", s)

s, y = hidden().sum(0), hidden()
s.set_(y)
y[2] = 1
tell("a sum from rows", s[1:4], s.sum(0))

s, y = hidden().sum(0), torch.ones(4)
s.set_(y)
y[2] = 5
tell("a sum from a whole", s, s.sum())

d = hidden()
d.set_()
print("nothing", tuple(d.shape), d.numel())

d, y = hidden(), hidden()
d.set_(y.storage(), 6, (3, 2), (2, 1))
y.add_(1)
tell("storage", d)
d.mul_(2)
tell("back", y[1:3])

d, y = hidden(), hidden()
array = d.numpy()
d.set_(y)
array[3] = 7
tell("array of before", d[3])
array2 = d.numpy()
array2[2] = 6
tell("array", y[2], d[2])

d = hidden()
d.set_(d)
tell("itself", d[2])

d, y = hidden(), layer(rows)
refused("history", lambda: d.set_(y))
tell("as it was", d[2:4])
d.add_(1)
tell("as it was", d[2:4])

leaf = hidden().requires_grad_()
y = hidden() * 2
with torch.no_grad():
    leaf.set_(y)
(leaf * 3)[2:].pow(2).sum().backward()
tell("leaf", leaf.grad, leaf[3])

p = nn.Linear(4, 6)
w = torch.ones(6, 4)
with torch.no_grad():
    p.weight.set_(w)
p(rows).pow(2).mean().backward()
tell("parameter", p.weight.grad)
with torch.no_grad():
    p.weight.sub_(p.weight.grad); tell("of w", w)
d, y = hidden(), hidden()
part = y[:, 1:3]
d.set_(part)
part.add_(1)
tell("columns", d[2:4], d.sum(), y[2])
d.mul_(2)
tell("back", y[3])

d, y = hidden(), hidden()
d.set_(y.t())
y.add_(1)
tell("turned", d[:, 2:4], d.sum(1))
