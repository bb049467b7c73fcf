"""Hooks that hold their own tensor, as many are written, make a cycle that Python's collector ends: how many such tensors are left is printed."""
import gc
import threading
import weakref

import torch

torch.manual_seed(1)
model, made = torch.nn.Linear(6, 3), []


def note(tensor):
    made.append(weakref.ref(tensor))
    return tensor


def of_a_parameter():
    p = note(torch.nn.Parameter(torch.ones(3)))
    p.register_hook(lambda g, p=p: g + 1e-2 * p.detach())
    (model(torch.randn(23, 6)) * p).pow(2).mean().backward()
    return p.grad


def of_a_plain_dictionary():
    p = note(torch.nn.Parameter(torch.ones(3)))
    p._backward_hooks = {0: lambda g: g / g.norm()}
    (model(torch.randn(23, 6)) * p).pow(2).mean().backward()
    return p.grad


def of_an_input():
    x = note(torch.randn(23, 6).requires_grad_())
    x.register_hook(lambda g: g / x.norm())
    model(x).pow(2).mean().backward()
    return x.grad


def of_rows_let_go():
    out = note(model(torch.randn(23, 6)))
    out.register_hook(lambda g, norm=out.norm().item(): g / norm)
    out.pow(2).mean().backward()
    return model.weight.grad


def repeat(make):
    for _ in range(20):
        print(make.__name__, f"{make().norm().item():.5g}")


def count(name):
    gc.collect()
    print(name, "left", sum(reference() is not None for reference in made))
    made.clear()


for make in of_a_parameter, of_a_plain_dictionary, of_an_input, of_rows_let_go:
    repeat(make)
    count(make.__name__)
    thread = threading.Thread(target=repeat, args=(make,))
    thread.start()
    thread.join()
    count("in a thread")
