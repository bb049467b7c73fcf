"""Threads that write rows of one tensor each, of types that have next to no operators (float8, uint16), and of others; and one that writes a row's part while
another looks at other columns."""
import threading

import torch
from torch import nn

torch.manual_seed(1)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)
names = "float8_e4m3fn float8_e5m2 uint16 float16 bfloat16 complex64 complex128 int32 bool uint8".split()


def beside(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def numbers(tensor):
    return " ".join("%.3f" % number for number in tensor.to(torch.complex64).real.flatten().tolist())


for dtype in (getattr(torch, name) for name in names if hasattr(torch, name)):
    with torch.no_grad():
        hidden = layer(rows).abs().to(dtype)
    row, others = hidden[3], hidden[5:7]
    beside(lambda: row.copy_(torch.ones(6).to(dtype)), lambda: others.copy_(torch.full((2, 6), 2.0).to(dtype)))
    print(dtype, numbers(hidden[2:8]), numbers(row))
    beside(lambda: hidden[1].copy_(row), lambda: hidden[8].copy_(others[1]))
    print(dtype, numbers(hidden))

with torch.no_grad():
    zeros = layer(rows) * 0
beside(lambda: zeros.index_copy_(0, torch.tensor([1]), torch.full((1, 6), -0.0)), lambda: zeros[3].fill_(1))
print("signs", numbers(torch.copysign(torch.ones(6), zeros[1])), numbers(zeros[3]))
zeros = zeros.to(torch.complex128)
beside(lambda: zeros.index_copy_(0, torch.tensor([1]), torch.complex(torch.full((1, 6), -0.0), torch.full((1, 6), float("nan"))).to(torch.complex128)), lambda: zeros[3].fill_(1))
print("signs", numbers(torch.copysign(torch.ones(6), zeros[1].real.float())), zeros[1].imag.isnan().sum().item(), numbers(zeros[3]))


def write_chosen(tensor, how, number):
    """Rows 1 and 4 of the tensor, and no other."""
    places, mask = torch.tensor([4, 1]), torch.tensor([k in (1, 4) for k in range(len(tensor))])
    if how == 0:
        tensor.index_copy_(0, places, torch.full((2, 6), number))
    elif how == 1:
        tensor[places] = number
    elif how == 2:
        tensor.index_add_(0, places, torch.full((2, 6), number))
    elif how == 3:
        tensor[mask] = number
    else:
        tensor.index_fill_(-2, places, number)


total = 0
for k in range(60):
    with torch.no_grad():
        hidden = (layer(rows) * 8).round()
    row, part = hidden[3], hidden[1:9]
    beside(lambda: write_chosen(hidden if k % 2 else part, k % 5, k + 1.0),
           lambda: row.add_(1), lambda: hidden[10].mul_(k))
    beside(lambda: write_chosen(part if k % 2 else hidden, (k + 1) % 5, k * 3.0),
           lambda: row.add_(part[5]), lambda: hidden[10].mul_(k))
    total += (hidden.double() * torch.arange(1, 73).view(12, 6)).sum().item() + row.sum().item() + part.sum().item()
print("chosen rows", total)
some, some_of_part = torch.zeros(12, 6, dtype=torch.bool), torch.zeros(8, 6, dtype=torch.bool)
some[1] = some_of_part[0] = some[4, 2:] = True
total = 0
for k in range(60):
    with torch.no_grad():
        hidden = (layer(rows) * 8).round()
    row, part, columns = hidden[3], hidden[1:9], hidden[1, 3:]
    beside(lambda: [hidden.__setitem__(([1, 4], [0, 0]), j) for j in range(3)] if k % 6 == 0 else
           [hidden.__setitem__(some, j) for j in range(3)] if k % 6 == 1 else
           [part.masked_fill_(some_of_part, j) for j in range(3)] if k % 6 == 2 else
           [part.__setitem__(some_of_part, j) for j in range(3)] if k % 6 == 3 else
           [hidden.scatter_(0, torch.tensor([[1] * 6, [4] * 6]), float(j)) for j in range(3)] if k % 6 == 4 else
           [hidden.index_add_(1, torch.tensor([0]), torch.ones(12, 1)) for j in range(3)],
           lambda: [columns.add_(1) for _ in range(3)] if k % 6 == 0 else
           [hidden[10][3:].add_(1) for _ in range(3)] if k % 6 == 5 else [row.add_(1) for _ in range(3)])
    total += (hidden.double() * torch.arange(1, 73).view(12, 6)).sum().item() + row.sum().item() + part.sum().item()
print("chosen elements", total)
leaf, together = layer(rows).detach().requires_grad_(), threading.Barrier(2)


def set_values(row, value):
    values = leaf[row].data
    together.wait()
    values.fill_(value)


beside(lambda: set_values(1, 1), lambda: set_values(8, 2))
print("leaf", numbers(leaf.detach()))
total = 0
for _ in range(60):
    with torch.no_grad():
        hidden = layer(rows).clone()
    row = hidden[:, 2:][3]
    thread = threading.Thread(target=lambda: row.add_(1))
    thread.start()
    columns = hidden[:, :2].numpy()
    thread.join()
    total += hidden.sum().item() + float(columns.sum())
print("looked at beside", "%.3f" % total)

# What an operator writes is not told by its arguments: out= may make it larger, and another type has other elements.
factors = torch.randn(12, 6)


def rows_at_a_time(write):
    beside(*(lambda first=first: [write(i) for i in range(first, 12, 4)] for first in range(4)))


for _ in range(10):
    with torch.no_grad():
        hidden = layer(rows).clone()
        pairs = torch.complex(layer(rows), hidden)
    rows_at_a_time(lambda i: torch.mul(factors[i], 2.0, out=hidden[i]))
    print("out", torch.equal(hidden, factors * 2.0))
    rows_at_a_time(lambda i: hidden[i].view(torch.int32).fill_(i))
    print("as integers", hidden.view(torch.int32).sum(1).tolist())
    rows_at_a_time(lambda i: pairs[i].imag.zero_())
    print("imaginary", pairs.imag.abs().sum().item(), numbers(pairs.real))
