"""Gradients of a divided tensor whose rows are held, and used, after others were written in place: what comes through them goes by way of the tensor."""
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)
weight = torch.full((6,), 2.0, requires_grad=True)


def tell(what, *tensors):
    print(what, *("%.4f" % tensor.detach().double().square().sum().item() for tensor in tensors), flush=True)


def asked_for(h):
    row = h[3]
    h[5].mul_(2.0)
    loss = row.square().sum() + h[5].sum() + h.sum() * 2
    (gradient,) = torch.autograd.grad(loss, h, retain_graph=True)
    loss.backward()
    return gradient, layer.weight.grad


def kept_and_called(h):
    row = h[3]
    h[5].mul_(weight)
    h.retain_grad()
    h.register_hook(lambda gradient: tell("hook", gradient))
    (row * row).sum().backward()
    return h.grad, layer.weight.grad, weight.grad


def read_as_a_whole(h):
    h[5].mul_(weight)
    h[6].mul_(weight)
    h[7] = h[6] * 2
    return torch.autograd.grad(h.cumsum(0).square().sum(), h)


def row_after_row(h):
    for i in range(1, 12):
        h[i] += h[i - 1] * 0.5
    loss = h[11].sum() + h[4].sum()
    (gradient,) = torch.autograd.grad(loss, h, retain_graph=True)
    loss.backward()
    return gradient, layer.weight.grad


def without_a_history_before(h):
    h = h.detach()
    row = h[2]
    h[5].mul_(weight)
    h.retain_grad()
    (row.sum() * 3 + h[5].sum()).backward()
    return h.grad, weight.grad


def of_columns(h):
    row = h[:, :3][4]
    h[4].mul_(weight)
    row.square().sum().backward()
    return layer.weight.grad, weight.grad


def kept_before_and_after(h):
    row = h[3]
    h[5].mul_(2.0)
    after, total, product = row.exp(), row.sum(), h[5] * h[4]
    (after.sum() + total + product.sum()).backward()
    return (layer.weight.grad,)


def modified(h):
    row = h[3]
    before = row * row
    h[5].mul_(2.0)
    after = row + 1
    try:
        before.sum().backward()
    except RuntimeError:
        return (after,)


def twice_differentiated(h):
    row = h[3]
    h[5].mul_(weight)
    (gradient,) = torch.autograd.grad(row.pow(3).sum() + h[5].pow(2).sum(), h, create_graph=True)
    gradient.square().sum().backward()
    return gradient, layer.weight.grad, weight.grad


for case in (asked_for, kept_and_called, read_as_a_whole, row_after_row, without_a_history_before, of_columns, kept_before_and_after, modified,
             twice_differentiated):
    layer.zero_grad()
    weight.grad = None
    tell(case.__name__, *case(layer(rows) * 1.0))
