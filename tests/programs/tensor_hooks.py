"""Hooks of Python on tensors: python tensor_hooks.py CASE. What a hook is shown is printed; models that were pickled whole carry empty hooks."""
import sys

import torch

CASE = sys.argv[1]


def load(path):
    options = {"weights_only": False} if torch.__version__ >= "2" else {}
    return torch.load(path, **options)


def show(gradient):
    print(f"hook {gradient.norm().item():.4f}")


torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
model = torch.nn.Linear(6, 3)
if CASE == "loaded":
    torch.save(model, "model.pt")
    model = load("model.pt")
if CASE == "removed":
    model.weight.register_hook(show).remove()
if CASE == "parameter":
    model.weight.register_hook(show)


def forward(x):
    """The products are gone when the hooks are called: only the graph has them still."""
    doubled = model.weight * 2
    if CASE == "computed":
        doubled.register_hook(show)
    out = model(x) + torch.nn.functional.linear(x, doubled)
    if CASE == "divided":
        out.register_hook(show)
    return out


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = torch.nn.functional.cross_entropy(forward(images), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
