"""Hooks of parameters that read, set and change the parameter's own .grad, and backwards within such hooks. Before 2.1 libtorch calls them when it adds."""
import functools
import threading

import torch
from torch import nn

thread = threading.Thread(target=torch.ones, args=[1])  # from now on threads wait for each other at leaves
thread.start()
thread.join()
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(33, 5)
few = torch.randn(2, 5)  # not divided


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def prepare(net, before):
    """What is there when a backward begins: nothing, zeros or something."""
    net.zero_grad(set_to_none=True)
    if before != "nothing":
        net(x).pow(2).sum().backward()
    if before == "zeros":
        net.zero_grad(set_to_none=False)


def word(gradient):
    return None if gradient is None else f"{gradient.double().sum().item():.9g} {gradient.reshape(-1)[-1].item():.9g}"


def show(name, net):
    print(name, *(word(p.grad) for p in net.parameters()))


class Same(torch.autograd.Function):
    """What has come when the backward reaches it is final."""

    @staticmethod
    def forward(context, values):
        return values.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * 1


def around(hook, before, batch=x):
    """Of each parameter, in two steps."""
    for place in range(4):
        net = model()
        parameter = list(net.parameters())[place]
        prepare(net, before)
        handle = parameter.register_hook(lambda gradient: hook(net, parameter, gradient))
        for _ in range(2):
            net[2](Same.apply(net[1](net[0](batch)))).pow(2).sum().backward()
            show(before, net)
        handle.remove()
        net(x).sum().backward()
        show("afterwards", net)


def sets(net, parameter, gradient):
    parameter.grad = 0.01 * parameter.detach()


def adds(net, parameter, gradient):
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    parameter.grad.add_(0.01 * parameter.detach())


def decays(net, parameter, gradient):
    if parameter.grad is not None:
        parameter.grad.mul_(0.5).sub_(0.01)
    return gradient.clamp(-3, 3)


def zeroes(net, parameter, gradient):
    print("had", word(parameter.grad))
    parameter.grad = torch.zeros_like(parameter)


def removes(net, parameter, gradient):
    print("had", word(parameter.grad))
    net.zero_grad(set_to_none=True)


def takes_this_one(net, parameter, gradient):
    parameter.grad = gradient.clone()


def takes_what_comes(net, parameter, gradient):
    parameter.grad = gradient * 2
    return gradient / 4


def sets_parts(net, parameter, gradient):
    """What is computed from the batch: rows, or a part of a sum."""
    features = x.tanh() if parameter.shape[-1] == 5 else torch.cat((x, x), 1)[:, : parameter.shape[-1]]
    parameter.grad = features.sum(0).expand_as(parameter) * 1


inside = threading.local()


def once(function):
    """Not within itself."""

    @functools.wraps(function)
    @torch.enable_grad()
    def hook(net, parameter, gradient):
        if getattr(inside, "hook", False):
            return None
        inside.hook = True
        try:
            return function(net, parameter, gradient)
        finally:
            inside.hook = False

    return hook


@once
def within(net, parameter, gradient):
    print("before", word(parameter.grad))
    net(x).sum().backward()
    print("then", word(parameter.grad))
    parameter.grad.mul_(0.5)


@once
def within_called_back(net, parameter, gradient):
    rows = Same.apply(net[0](Same.apply(x.clone().requires_grad_())))
    print("before", word(parameter.grad))
    net[2](Same.apply(net[1](rows))).sum().backward()
    print("then", word(parameter.grad))
    other = torch.ones(33, 1).requires_grad_()
    (Same.apply(x * other)).sum().backward()
    print("last", word(parameter.grad), word(other.grad))


@once
def within_few(net, parameter, gradient):
    net(few).sum().backward()
    print("then", word(parameter.grad))


@torch.enable_grad()
def refuses_within(net, parameter, gradient):
    if getattr(inside, "refuses", False):
        parameter.grad = torch.ones_like(parameter)
        raise ValueError("not this one")
    inside.refuses = True
    try:
        net(x).sum().backward()
    except ValueError:
        print("caught", word(parameter.grad))
    inside.refuses = False


for case in (sets, adds, decays, zeroes, removes, takes_this_one, takes_what_comes, sets_parts, within, within_called_back, within_few, refuses_within):
    print(case.__name__)
    for before in ("nothing", "zeros", "something"):
        around(case, before)
for case in (sets, takes_this_one, sets_parts, within):
    print(case.__name__, "undivided")
    around(case, "nothing", few)


def large():
    """Of a size that is summed where it lies."""
    torch.manual_seed(2)
    wide, narrow = nn.Linear(5, 3000), nn.Linear(3000, 3)
    net = nn.Sequential(wide, nn.Tanh(), narrow)
    handles = [wide.weight.register_hook(lambda gradient: adds(net, wide.weight, gradient))]
    handles.append(narrow.weight.register_hook(lambda gradient: within(net, narrow.weight, gradient)))
    for set_to_none in (True, False, False):
        for _ in range(2):
            net(x).pow(2).mean().backward()
            show("large", net)
        net.zero_grad(set_to_none=set_to_none)
    for handle in handles:
        handle.remove()


def rows():
    """Of a leaf whose rows are divided."""
    for function in (sets, adds, takes_this_one, zeroes):
        hidden, weight = model()[0](x).detach().requires_grad_(), nn.Parameter(torch.ones(4, 2))
        hidden.register_hook(lambda gradient: function(nn.Module(), hidden, gradient))
        for _ in range(3):
            (Same.apply(hidden) @ weight).tanh().sum().backward()
            print("rows", word(hidden.grad), word(weight.grad), hidden.grad.shape)
        hidden.grad.zero_()


def sparse():
    for function in (sets, takes_this_one):
        table = nn.Embedding(9, 5, sparse=True)
        table.weight.register_hook(lambda gradient: function(table, table.weight, gradient))
        for _ in range(2):
            (Same.apply(table(torch.arange(33) % 7)) * x).sum().backward()
            print("sparse", word(table.weight.grad.to_dense()))


def differentiated_again():
    net = model()
    parameter = net[0].weight
    parameter.register_hook(lambda gradient: sets(net, parameter, gradient))
    for _ in range(2):
        net(x).pow(2).sum().backward(create_graph=True)
        show("graph", net)
        parameter.grad.pow(2).sum().backward()
        show("again", net)
        net.zero_grad()


large()
rows()
sparse()
differentiated_again()
