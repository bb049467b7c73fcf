"""Writes through the data of a tensor, of its rows and of views of it: no version of what autograd has kept of them moves; other writes move it. In a program of
one thread, and after a second one."""
import threading

import torch
from torch import nn
torch.manual_seed(1)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)


def tell(what, *tensors):
    print(what, *("%.4f" % number for tensor in tensors for number in tensor.detach().flatten().tolist()), flush=True)


def hidden():
    with torch.no_grad():
        return layer(rows).clone()


def data_writes():
    layer.zero_grad()
    h = layer(rows)
    loss = h.square().sum()
    h[3].data.zero_()
    loss.backward()
    tell("b", layer.weight.grad, h[3])

    layer.zero_grad()
    h = layer(rows)
    a, b = h.split(3, 1)
    loss = a.square().sum()
    a[3].data.zero_()
    loss.backward()
    tell("split", layer.weight.grad, h[3])

    layer.zero_grad()
    h = layer(rows)
    r = h[3]
    loss = r.square().sum()
    h.data.zero_()
    loss.backward()
    tell("d", layer.weight.grad, r)

    layer.zero_grad()
    h = layer(rows)
    c = h[:, 1:]
    r = c[3]
    loss = r.square().sum()
    h[3].data.zero_()
    loss.backward()
    tell("d2", layer.weight.grad, r)

    layer.zero_grad()
    h = layer(rows)
    r = h[3]
    h.mul_(2)
    tell("hist", r)
    (r.square().sum() + h.sum()).backward()
    tell("hist", layer.weight.grad)

    layer.zero_grad()
    h = layer(rows)
    r = h[3]
    r.mul_(2)
    tell("hist", h[2:5])
    (r.square().sum() + h.square().sum()).backward()
    tell("hist", layer.weight.grad)

    layer.zero_grad()
    h = layer(rows)
    r = h[3]
    s = h[2:5]
    r.mul_(2)
    (s.square().sum() + h.square().sum()).backward()
    tell("hist", layer.weight.grad, s)

    layer.zero_grad()
    h = layer(rows)
    r = h[3].detach()
    r.mul_(2)
    (h * 2).sum().backward()
    tell("det", layer.weight.grad, h[3])

    layer.zero_grad()
    h = layer(rows)
    x = h.data
    r = x[3]
    h2 = h.square()
    r.fill_(2)
    h2.sum().backward()
    tell("x", layer.weight.grad, h[3])

    w = hidden().requires_grad_()
    b = w.square().sum()
    w[3].data.zero_()
    b.backward()
    tell("leaf", w.grad)

    layer.zero_grad()
    h = layer(rows)
    r = h[3]
    loss = r.square().sum()
    h.detach().numpy()[3] = 1
    loss.backward()
    tell("numpy", layer.weight.grad, r, h[3])

    h = layer(rows)
    r = h[3]
    loss = r.square().sum()
    h.detach().mul_(2)

    try:
        loss.backward()
        print("no")
    except RuntimeError as error:
        print("refused", "inplace" in str(error))
    h = layer(rows)
    loss = h.square().sum()
    h[3].detach().mul_(2)

    try:
        loss.backward()
        print("no")
    except RuntimeError as error:
        print("refused", "inplace" in str(error))
    with torch.inference_mode():
        h = layer(rows)
        r = h[3]
        r.mul_(2)
        h.mul_(3)
        tell("inf", r, h[3])
    h = hidden()
    with torch.inference_mode():
        r = h[3]
        r.mul_(2)
    tell("inf", h[3])
    h.mul_(2)
    tell("inf", r)


data_writes()
def twins():
    """Rows of tensors that share their memory, which are one copy's or are told apart."""
    weight = torch.full((6,), 1.5, requires_grad=True)
    factor = torch.arange(6.0)
    for one in False, True:
        h = layer(rows)
        first, second = h.data, h.data
        kept = first[3], second[3]
        loss = (weight * (second if one else kept[1])).sum()
        (kept[1] if one else second).mul_(2)
        try:
            loss.backward()
            print("no")
        except RuntimeError as error:
            print("refused", "inplace" in str(error))
    x = layer(rows).detach()
    tell("read", x.detach()[0])
    x[3].mul_(weight)
    (x * factor).sum().backward()
    tell("written", weight.grad, x[3])


def missed_by_another():
    """A write with a history by another thread, and then values alone."""
    weight = torch.full((6,), 1.5, requires_grad=True)
    for write in lambda h: h.data[5].zero_(), lambda h: h.detach().numpy()[5].fill(0):
        layer.zero_grad()
        h = layer(rows)
        r = h[3]
        beside = threading.Thread(target=lambda: h.mul_(weight))
        beside.start()
        beside.join()
        write(h)
        r.square().sum().backward()
        tell("missed", weight.grad, layer.weight.grad, h[5])


twins()
t = threading.Thread(target=print)
t.start()
t.join()
data_writes()
missed_by_another()
