"""Rows that are held while what they are rows of changes its sizes, its order of dimensions, its memory or its history in place, and writes beside them."""
import torch
from torch import nn


def tell(what, *tensors):
    print(what, *("%.4f" % tensor.detach().double().square().sum().item() for tensor in tensors), flush=True)


torch.manual_seed(0)
layer = nn.Linear(4, 8)
rows = torch.randn(12, 4)


def hidden(*sizes):
    layer.zero_grad()
    return layer(rows).view(12, *sizes) if sizes else layer(rows)


def detached():
    h = hidden()
    row = h[3]
    h.detach_()
    row.sum().backward()
    tell("detached", row, layer.weight.grad)
    h = hidden()
    loss = h[3].square().sum()
    h.detach_()
    loss.backward()
    tell("detached behind its row", layer.weight.grad)
    h = hidden()
    row = h[3]
    with torch.no_grad():
        h.detach_()
        h.mul_(2.0)
    tell("detached and written", row, h, torch.tensor([float(row.requires_grad)]))
    state, outputs = torch.zeros(12, 8), []
    layer.zero_grad()
    for _ in range(3):
        state = torch.tanh(layer(rows) + state)
        outputs.append(state[-1])
        state.detach_()
    sum(output.sum() for output in outputs).backward()
    tell("through time", layer.weight.grad, state)


def turned():
    for sizes in (4, 2), (2, 4), (8,):
        for turn in (lambda h: h.transpose_(-1, -2)), (lambda h: h.swapaxes_(0, 1)), (lambda h: h.unsqueeze_(1)), (lambda h: h.unsqueeze_(0)):
            for is_recorded in False, True:
                h = hidden(*sizes) * 1.0
                h = h if is_recorded else h.detach()
                row, some = h[3], h[2:5]
                before = row.detach().clone()
                turn(h)
                tell(f"turned {sizes} {is_recorded} {torch.equal(before, row)} {tuple(h.shape)} {tuple(row.shape)}", h, row, some)
                row.mul_(2.0)
                tell("written through the row", h, row, some)
                h.add_(1.0)
                tell("written beside it", h, row, some)
                if is_recorded:
                    (row.square().sum() + some[0].sum() + h[0].square().sum()).backward()
                    tell("gradients", layer.weight.grad)


def turned_and_followed():
    weight = torch.full((8, 1), 2.0, requires_grad=True)
    h = hidden().detach()
    row = h[3]
    h.t_()
    h.mul_(weight)
    row.square().sum().backward()
    tell("a history that comes later", h, row, weight.grad)
    h = hidden().detach().unsqueeze(0)
    row = h[0, 3]
    h.squeeze_(0)
    h[3] = 7.0
    tell("squeezed", h, row)


def set_elsewhere():
    h, other = hidden().detach(), hidden().detach() * 2.0
    row = h[3]
    h.set_(other)
    h.mul_(3.0)
    row.add_(1.0)
    tell("other memory", h, other, row)


def kept_before_a_write():
    h = hidden()
    previews = [h.detach()[i] for i in range(2)]
    h.relu_()
    h.sum().backward()
    tell("kept before a write", layer.weight.grad, *previews)


def of_several():
    h = hidden()
    left, _ = h.chunk(2, 1)
    columns = left[:, :1]
    peek = columns[3].detach()
    h.mul_(2.0)
    tell("a view of one of several", h, peek)
    h = hidden()
    row = h.chunk(2, 1)[0][3]
    h.mul_(2.0)
    print(row.argmax().item(), (row > 0).sum().item(), ["%.4f" % value for value in row.tolist()])


for case in detached, turned, turned_and_followed, set_elsewhere, kept_before_a_write, of_several:
    case()
