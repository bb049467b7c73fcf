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


def twins_looked_at():
    """Rows of both were looked at, and none of one is held: nothing is refused, in a program that has had threads, too."""
    weight = torch.full((6,), 1.5, requires_grad=True)
    x = layer(rows).detach()
    tell("differences", x.detach()[0] - x.detach()[1])
    x[3].mul_(weight)
    (x * 2).sum().backward()
    held = [x.detach()[i] for i in range(12)]
    tell("list", *held)
    del held
    layer.zero_grad()
    out = layer(rows)
    kept = out.detach()[0]
    print("printed", len(str(out)) > 40)
    out.relu_()
    (out * 3).sum().backward()
    tell("all", weight.grad, layer.weight.grad, kept)


def beside(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def missed_with_history():
    """Another thread's write is seen first without gradients, or not at all: its history comes where it is used, and its rows stay."""
    weight = torch.full((6,), 1.5, requires_grad=True)
    for mode in torch.no_grad, torch.inference_mode:
        weight.grad = None
        h = layer(rows)
        r = h[3]
        beside(lambda: h.mul_(weight))
        with mode():
            tell("looked", r, r * 2)
        r.square().sum().backward()
        tell("learned", weight.grad, h[3])
    weight.grad = None
    h = layer(rows)
    r = h[3]
    beside(lambda: h[5].mul_(weight))
    r.mul_(2)
    tell("others", h[5])
    h.sum().backward()
    tell("learned", weight.grad)
    h = layer(rows)
    r = h[3]
    loss = (weight * r).sum()
    beside(lambda: h.data[5].zero_())
    tell("data", h[5])
    loss.backward()
    tell("learned", weight.grad)
    x = layer(rows).detach()
    r = x[3]
    beside(lambda: x.index_fill_(0, torch.tensor([5]), 0.))
    r.numpy()[0] = 9
    tell("pointed", x)
    m = x.to("meta")
    r = m[3]
    beside(lambda: m.mul_(2))
    beside(lambda: m.index_fill_(0, torch.tensor([1], device="meta"), 2.))
    print("without values", r.shape, m[1].shape)


def of_one_thread_after_another():
    """Writes of this thread's own to what it holds rows of, where another thread has been."""
    layer.zero_grad()
    h = layer(rows)
    part = h[2:6]
    with torch.no_grad():
        h.mul_(2)
        part[1].fill_(5.)
    (h.square().sum() + part.square().sum()).backward()
    tell("no grad", h, part, layer.weight.grad)
    leaf = layer(rows).detach().requires_grad_()
    row = leaf[3]
    with torch.no_grad():
        leaf.mul_(2)
        row.fill_(5)
    tell("leaf", leaf)
    h = layer(rows)
    part = h[2:6]
    array = part.detach().numpy()
    with torch.no_grad():
        h.mul_(2)
    array[1] = 5
    tell("array", h)
    for some in torch.arange(12).view(12, 1) == 0, [1, 4]:
        h = layer(rows)
        part = h[2:6]
        if isinstance(some, list):
            h[some] = 0.
        else:
            h.masked_fill_(some, 0.)
        tell("some", torch.autograd.grad((part * part).sum(), h)[0])
    layer.zero_grad()
    h = layer(rows)
    part = h[2:6]
    with torch.no_grad():
        h.masked_fill_(torch.arange(12).view(12, 1) == 3, 0.)
    (part[0].square().sum() + part[1].exp().sum()).backward()
    tell("saved", layer.weight.grad)
    for k in range(6):
        h = layer(rows).detach()
        part = h[0:10]
        mask, others = torch.arange(12).view(12, 1) == 1, torch.arange(12).view(12, 1) == 9
        other = threading.Thread(target=lambda: h.masked_fill_(others, 0.))
        other.start()
        if k % 2:
            part.index_fill_(0, torch.tensor([1]), 3.)
        else:
            h.masked_fill_(mask, 3.)
        other.join()
        tell("both", part[9], part[1])


def history_by_another():
    """The history of a tensor is that of all its rows, whichever were written, and whatever is written as values later."""
    for write in lambda h: h.add_(1), lambda h: h.data.zero_():
        layer.zero_grad()
        h = layer(rows)
        row = h[3]
        beside(lambda: h.mul_(2))
        with torch.no_grad():
            write(h)
        row.sum().backward()
        tell("values", layer.weight.grad, row)
    h = layer(rows)
    row = h[3]
    beside(lambda: h[5].mul_(2.))
    tell("asked for", torch.autograd.grad(row.sum() + h.sum(), h)[0])
    narrow = nn.Linear(4, 1)(rows)
    row = narrow.expand(12, 4)[3]
    beside(lambda: narrow.mul_(2.))
    with torch.no_grad():
        tell("expanded", row)
    row.sum().backward()
    flags = layer(rows) > -9
    row = flags[3]
    row[row] = False
    tell("chosen by itself", flags[3].float(), flags.sum())
    h = layer(rows).detach()
    flags = h > 99
    row, mask = h[3], flags[3]
    beside(lambda: (h.zero_(), flags.fill_(True)))
    row.masked_fill_(mask, 7.)
    tell("chosen by what was missed", h)


def missed_by_another():
    """A write with a history by another thread, and then values alone."""
    weight = torch.full((6,), 1.5, requires_grad=True)
    for write in lambda h: h.data[5].zero_(), lambda h: h.detach().numpy()[5].fill(0):
        layer.zero_grad()
        h = layer(rows)
        r = h[3]
        beside(lambda: h.mul_(weight))
        write(h)
        r.square().sum().backward()
        tell("missed", weight.grad, layer.weight.grad, h[5])


twins()
twins_looked_at()
beside(print)
data_writes()
of_one_thread_after_another()
history_by_another()
missed_by_another()
missed_with_history()
