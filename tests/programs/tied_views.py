"""Layers that use views of their parameters, and one that is tied: python tied_views.py STEPS."""
import sys

import torch

torch.manual_seed(0)
first, tied = torch.nn.Linear(16, 32), torch.nn.Parameter(torch.randn(4, 32))
optimizer = torch.optim.SGD([*first.parameters(), tied], 0.1)
x, y = torch.randn(12, 16), torch.randint(4, (12,))
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    hidden = (x @ first.weight.t() + first.bias).relu()
    torch.nn.functional.cross_entropy(hidden @ tied.t() + first(x) @ tied[:].t(), y).backward()
    optimizer.step()
