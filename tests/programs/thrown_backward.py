"""Backwards that throw, and what the program has as gradients then: by its hooks, and because nothing can be added to an expanded gradient."""
import torch
from torch import nn

from footprint import resident

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(33, 5)


class Same(torch.autograd.Function):
    """What has come when the backward reaches it is final."""

    @staticmethod
    def forward(context, values):
        return values.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient


def model():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    net(x).sum().backward()
    return net


def refuse(*gradients):
    raise ValueError("not this one")


def try_backward(loss):
    try:
        loss.backward()
    except (RuntimeError, ValueError) as error:
        print("caught", type(error).__name__)


def show(name, net):
    print(name, *(None if p.grad is None else f"{p.grad.sum().item():.9g}" for p in net.parameters()))


def hooks_that_throw():
    for place in range(4):
        net = model()
        parameter = list(net.parameters())[place]
        handle = parameter.register_hook(refuse)
        try_backward(net(x).pow(2).sum())
        handle.remove()
        print("of its own", f"{parameter.grad.sum().item():.9g}")
        net.zero_grad()
        net(x).sum().backward()
        show("afterwards", net)


def sets_and_throws(net, parameter, kept, how):
    def hook(gradient):
        if how == "empties":
            net.zero_grad(set_to_none=True)
        else:
            parameter.grad = kept if how == "kept" else gradient * 2
        refuse()

    return hook


def hooks_that_set_and_throw():
    for how in "empties", "kept", "parts":
        for set_to_none in False, True:
            for place in range(4):
                net = model()
                net.zero_grad(set_to_none=set_to_none)
                parameter = list(net.parameters())[place]
                kept = torch.full_like(parameter, 3)
                parameter.register_hook(sets_and_throws(net, parameter, kept, how))
                try_backward(net(x).pow(2).sum())
                print(how, None if parameter.grad is None else f"{parameter.grad.sum().item():.9g}", kept.sum().item())


def expanded_among_others():
    for place in range(4):
        for function in (lambda h: h, Same.apply):
            net = model()
            parameter = list(net.parameters())[place]
            parameter.grad = torch.tensor(2.0).expand_as(parameter)
            try_backward(function(net[2](function(net[1](net[0](x))))).pow(2).sum())
            print("expanded", parameter.grad.sum().item(), *(p.grad is None for p in net.parameters()))
            parameter.grad = None
            net.zero_grad()
            net(x).sum().backward()
            show("afterwards", net)


def what_had_come_before():
    """In one pass, without anything that makes gradients final on the way."""
    for place in range(4):
        net = model()
        parameter = list(net.parameters())[place]
        for other in net.parameters():
            other.grad = None if other.dim() == 1 and place % 2 else torch.full_like(other, 3)
        parameter.grad = torch.tensor(2.0).expand_as(parameter)
        try_backward(net(x).pow(2).sum())
        show("had come", net)


def expanded_rows():
    net = model()
    z, w = net(x).detach().requires_grad_(), net(x).detach().requires_grad_()
    for expanded in torch.tensor(2.0).expand(33, 3), net(x).detach()[:, :1].expand(33, 3):
        z.grad, w.grad = expanded, torch.ones(33, 3)
        try_backward((z * w).sum())
        print("rows", f"{z.grad.sum().item():.9g}", z.grad.stride(), w.grad is None)


def nothing_is_kept():
    net = nn.Linear(500, 1000)
    rows = torch.randn(8, 500)
    for round_ in range(40):  # of four megabytes each
        if round_ == 10:
            before = resident()
        net.weight.grad = torch.ones(1, 1).expand(1000, 500)
        try:
            net(rows).sum().backward()
        except RuntimeError:
            pass
    print("kept", resident() - before > 64 << 20)  # it may as well have fallen


class Tried(torch.autograd.Function):
    """Its backward tries one that throws when it has come to leaves of its own, and then one that does not, with other such leaves."""

    net, kept = None, []

    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return values * 2

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        for throws in (True, False) * 2:
            with torch.enable_grad():
                scales = [torch.full_like(values, 2).requires_grad_() for _ in range(40)]  # some lie where those before lay
                inner = values.detach() * 3
                if throws:
                    inner.requires_grad_().register_hook(refuse)
                try_backward((Tried.net(inner) * sum(scales)[:, :3]).pow(2).mean())
                if not throws:
                    print("tried", f"{sum(scale.grad.sum().item() for scale in scales):.9g}")
            del scales, inner
        show("meanwhile", Tried.net)
        return gradient


def within_another():
    Tried.net = model()
    Tried.net.requires_grad_(False)
    for _ in range(3):
        net = model()
        Tried.apply(net[0](x)[:, :1].expand(33, 5)).tanh().pow(2).mean().backward()
        show("around", net)


hooks_that_throw()
hooks_that_set_and_throw()
within_another()
expanded_among_others()
what_had_come_before()
expanded_rows()
nothing_is_kept()
