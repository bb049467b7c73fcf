"""Layers that use views of their parameters, and one that is tied: python tied_views.py STEPS."""
import sys

import torch

torch.manual_seed(0)
first, tied = torch.nn.Linear(16, 32), torch.nn.Parameter(torch.randn(4, 32))
x, y = torch.randn(12, 16), torch.randint(4, (12,))
for step in range(int(sys.argv[1])):
    hidden = (x @ first.weight.t() + first.bias).relu()
    torch.nn.functional.cross_entropy(hidden @ tied.t() + first(x) @ tied[:].t(), y).backward()
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter in (*first.parameters(), tied):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
