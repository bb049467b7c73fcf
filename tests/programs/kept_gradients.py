"""Gradients that the program holds by another name than .grad: what hooks and custom functions keep a view of, what it has given itself, in any form."""
import copy
import resource

import torch
from torch import nn

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
model, images = nn.Linear(6, 24), torch.randn(24, 6)


def words(*tensors):
    return " ".join(f"{tensor.abs().sum().item():.8g}" for tensor in tensors)


def kept_by_hooks(width):
    kept, layer = {}, nn.Linear(width, width)
    for name, parameter in layer.named_parameters():
        parameter.register_hook(lambda gradient, name=name: kept.__setitem__(name, gradient.detach()))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for step in range(4):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        layer(torch.randn(25, width)).pow(2).mean().backward()
        print("hooks", width, step, words(kept["weight"], kept["bias"], layer.weight.grad, layer.bias.grad))
        nn.utils.clip_grad_norm_(layer.parameters(), 0.01)
        print("clipped", words(kept["weight"], kept["bias"]))
        kept["bias"].clamp_(-1e-4, 1e-4)
        print("written", words(layer.bias.grad))
        optimizer.step()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weight):
        ctx.save_for_backward(rows, weight)
        return rows @ weight

    @staticmethod
    def backward(ctx, gradient):
        rows, weight = ctx.saved_tensors
        own = rows.t() @ gradient
        Product.kept = own.detach()
        return gradient @ weight.t(), own


def kept_by_a_function(width):
    weight, rows = nn.Parameter(torch.full((width, 120), 0.1)), torch.randn(24, width)
    for _ in range(2):
        Product.apply(rows, weight).pow(2).mean().backward()
        weight.grad.mul_(3)
        print("function", width, words(Product.kept, weight.grad))
        Product.kept.mul_(0.5)
        print("function", width, words(Product.kept, weight.grad))
    weight.grad = None
    print("left", words(Product.kept))


def given_to_a_parameter():
    for name, make in ("rows", lambda h: h.detach() * 1), ("sum", lambda h: (h.t() @ h).detach()):
        for is_divided in True, False:
            parameter = nn.Parameter(torch.ones(24, 24))
            parameter.grad = held = make(model(images))
            if is_divided:
                (model(images) @ parameter).mean().backward()
                print("given", name, words(held, parameter.grad))
            for _ in range(2):
                parameter.pow(2).sum().backward()
                print("given", name, words(held, parameter.grad))
            parameter.grad.zero_()
            print("zeroed", name, words(held, parameter.grad))


def given_to_a_result():
    means = model(images).mean(0)
    means.retain_grad()
    means.grad = model(images).mean(0).detach()
    means.pow(2).sum().backward()
    print("sum", words(means.grad))
    for give in lambda h: h.detach().t(), lambda h: (h.t() @ h).detach():
        h = model(images)
        h.retain_grad()
        h.grad = give(h)
        h.pow(2).mean().backward()
        print("rows", words(h.grad))
    leaf = model(images).detach().requires_grad_()
    leaf.grad = leaf.detach().t().contiguous()
    leaf.pow(2).mean().backward()
    print("leaf", words(leaf.grad))


def of_one_result_by_several_backwards():
    weight = nn.Parameter(torch.ones(24, 24))
    doubled = weight * 2
    doubled.retain_grad()
    for loss in (model(images) @ doubled).mean(), doubled.pow(2).sum(), doubled.sin().sum(), (model(images) @ doubled).mean():
        loss.backward(retain_graph=True)
        print("several", words(doubled.grad, weight.grad))
    for give in lambda h: h.detach() * 1, lambda h: (h.t() @ h).detach():
        doubled = weight * 2
        doubled.retain_grad()
        doubled.grad = give(model(images))
        doubled.pow(2).sum().backward()
        print("replicated", words(doubled.grad))


def kept_of_many_steps():
    """What is no longer seen is not looked after any more: a step's time and memory stay."""
    layer, kept = nn.Linear(100, 100), []
    layer.weight.register_hook(lambda gradient: kept.append(gradient.detach()))

    def steps(count):
        for _ in range(count):
            layer.zero_grad(set_to_none=True)
            output = layer(torch.randn(8, 100))
            output.mean().backward()
            torch.nn.utils.clip_grad_value_(layer.parameters(), 0.01)
            copy.deepcopy([layer.weight.grad, output.detach()[0]])  # Python has seen their storages
            del kept[:-1]

    steps(60)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steps(400)
    print("many", words(*kept), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 20000)


for width in 6, 100:
    kept_by_hooks(width)
    kept_by_a_function(width)
kept_of_many_steps()
given_to_a_parameter()
given_to_a_result()
of_one_result_by_several_backwards()
