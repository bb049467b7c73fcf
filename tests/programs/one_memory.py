"""Gradients that share memory: with one that still flows through the graph, with one that a hook or a custom function keeps, with each other; gradients of a
backward with create_graph, which are made anew."""
import torch
from torch import nn

torch.manual_seed(1)
rows = torch.randn(12, 4)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        ctx.save_for_backward(weight)
        return (weight * 8).round() / 8

    @staticmethod
    def backward(ctx, gradient):
        (weight,) = ctx.saved_tensors
        return gradient * (weight.abs() < 9)


class Kept(torch.autograd.Function):
    kept = []

    @staticmethod
    def forward(ctx, weight):
        return weight * 2

    @staticmethod
    def backward(ctx, gradient):
        Kept.kept.append(gradient.detach())
        return gradient * 2


def norms(*tensors):
    return " ".join("%.5f" % tensor.norm().item() for tensor in tensors)


def tell(what, *tensors):
    print(what, norms(*tensors))


def flows_on():
    w, delta, bias = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.zeros(12)), nn.Parameter(torch.zeros(3))
    for _ in range(2):
        nn.functional.linear(rows, Rounded.apply(w) + delta.view(3, 4), bias).pow(2).mean().backward()
        tell("flows on", w.grad, delta.grad, bias.grad)


def steps_in_the_backward():
    a, b = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))
    layer = nn.Linear(4, 3)

    def step(parameter):
        with torch.no_grad():
            parameter -= parameter.grad
        parameter.grad = None

    if not hasattr(a, "register_post_accumulate_grad_hook"):
        return
    for parameter in a, b, *layer.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        (layer(rows) + (a.unsqueeze(0) + b.unsqueeze(0))).pow(2).mean().backward()
        tell("stepped", a, b, *layer.parameters())


def kept():
    w, v, seen = nn.Parameter(torch.randn(12)), nn.Parameter(torch.randn(12)), []
    matrix = w.view(3, 4)
    matrix.register_hook(seen.append)
    (rows @ matrix.t() + rows @ Kept.apply(v.view(3, 4)).t()).pow(2).mean().backward()
    tell("kept", seen[0], w.grad, Kept.kept[0], v.grad)
    query, key, seen = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4)), []
    joined = torch.cat([query, key])
    joined.register_hook(seen.append)
    (rows @ joined.t()).pow(2).mean().backward()
    tell("joined", seen[0], query.grad, key.grad)


def twins():
    a, b, layer = nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6)), nn.Linear(4, 6)
    for _ in range(2):
        a.grad = b.grad = None
        (layer(rows) + (a.unsqueeze(0) + b.unsqueeze(0))).pow(2).mean().backward()
        print("twins", a.grad.data_ptr() == b.grad.data_ptr(), norms(a.grad, b.grad))
        nn.utils.clip_grad_norm_([a, b], 0.01)
        tell("clipped", a.grad, b.grad)
    (layer(rows) + (a.unsqueeze(0) + b.unsqueeze(0))).pow(2).mean().backward()
    tell("added", a.grad, b.grad)


def conjugated():
    """One memory, which the one reads as the conjugate of what the other reads."""
    seen = []
    for keeps in False, True:
        a, b = (nn.Parameter(torch.randn(4, dtype=torch.complex64)) for _ in range(2))
        layer = nn.Linear(4, 4, dtype=torch.complex64)
        joined = a.conj().unsqueeze(0) + b.unsqueeze(0)
        if keeps:
            joined.register_hook(lambda gradient: seen.append(gradient))
        (layer(torch.complex(rows, rows.flip(0))) @ joined.t()).abs().pow(2).mean().backward()
        for word in "conjugated", "halved":
            print(word, *("%.4f" % part.sum().item() for grad in (a.grad, b.grad) for part in (grad.real, grad.imag)))
            for parameter in a, b:
                parameter.grad.mul_(0.5)


def made_anew():
    encoder, decoder = nn.Linear(4, 5), nn.Linear(5, 3)
    hidden = encoder(rows).detach().requires_grad_()
    decoder(hidden).pow(2).mean().backward(create_graph=True)
    first, before = hidden.grad, hidden.grad.norm().item()
    penalty = first.pow(2).sum()
    decoder(hidden).exp().mean().backward(create_graph=True)
    print("anew", before == first.norm().item(), first is hidden.grad, norms(hidden.grad))
    decoder.zero_grad()
    penalty.backward()
    tell("penalty", decoder.weight.grad, hidden.grad)


def without_grad_mode():
    layer = nn.Linear(4, 2)
    loss = layer(rows).pow(2).mean()
    with torch.no_grad():
        (gradient,) = torch.autograd.grad(loss, layer.weight, create_graph=True)
    (layer(rows).mean() + gradient.pow(2).sum()).backward()
    print("without", gradient.requires_grad, norms(gradient, layer.weight.grad))


flows_on()
steps_in_the_backward()
kept()
twins()
conjugated()
made_anew()
without_grad_mode()
