"""Layers that use views of their parameters, and one that is tied: python tied_views.py STEPS [asked]. asked: the gradients are asked for by autograd.grad."""
import sys

import torch

torch.manual_seed(0)
first, tied = torch.nn.Linear(16, 32), torch.nn.Parameter(torch.randn(4, 32))
x, y = torch.randn(12, 16), torch.randint(4, (12,))
parameters = [*first.parameters(), tied]
for step in range(int(sys.argv[1])):
    hidden = (x @ first.weight.t() + first.bias).relu()
    loss = torch.nn.functional.cross_entropy(hidden @ tied.t() + first(x) @ tied[:].t(), y)
    if "asked" in sys.argv:
        gradients = torch.autograd.grad(loss, parameters)
    else:
        loss.backward()
        gradients = [parameter.grad for parameter in parameters]
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter, gradient in zip(parameters, gradients):
            parameter -= 0.1 * gradient
            parameter.grad = None
