"""Views of some of a batch's columns: their rows, copies and numpy arrays lie in memory as in one process, so that the same things share it.   columns.py"""

import copy
import pickle

import numpy
import torch

torch.manual_seed(0)
encoder, decoder = torch.nn.Linear(5, 8), torch.nn.Linear(4, 5)
data = torch.randn(13, 5)


def report(name, *values):
    print(name, *(f"{value:.5f}" if isinstance(value, float) else value for value in values))


def frames():
    waves = encoder(data).view(13, 2, 4)
    for channel in 0, 1:
        for turned in False, True:
            wave = encoder(data).view(13, 2, 4)[:, channel]
            spectrum = torch.stft(wave, 2, 1, center=False, window=torch.ones(2), return_complex=True)
            windows = wave.as_strided((13, 2, 2), (wave.stride(0), 2, 1)) if not turned else wave.as_strided((4, 13), (1, wave.stride(0))).t()
            encoder.zero_grad()
            (spectrum.abs().pow(2).sum() + windows.pow(2).mean()).backward()
            report("frames", channel, windows.stride(), windows.sum().item(), spectrum.abs().sum().item(), encoder.weight.grad.norm().item())
    report("all", waves.as_strided((13, 4), (8, 1)).sum().item())


def copies():
    ways = {"contiguous": lambda v: v.contiguous(), "reshape": lambda v: v.reshape(-1), "flatten": lambda v: v.flatten(), "ravel": lambda v: v.ravel(),
            "to": lambda v: v.to(torch.float32), "unfold": lambda v: v.unfold(0, 2, 2), "numpy": lambda v: torch.from_numpy(v.detach().numpy().reshape(-1)),
            "transposed": lambda v: v.mT.contiguous(), "in two": lambda v: v[:4].reshape(2, -1),
            "ascontiguousarray": lambda v: torch.from_numpy(numpy.ascontiguousarray(v.detach().numpy()))}
    parts = {"all": lambda v: v, "rows": lambda v: v[2:10], "every other": lambda v: v[::2], "columns": lambda v: v.T[:, 2:8], "picked": lambda v: v[[1, 2, 5, 8]],
             "expanded": lambda v: v[:, :1].expand(13, 4)[8:12], "repeated": lambda v: v[4:8, None].expand(4, 2, 4)}
    for has_history in (False, True):
        for way, way_of in ways.items():
            for part, take in parts.items():
                batch = encoder(data)
                batch = batch * 1 if has_history else batch.detach()
                mean, spread = batch.chunk(2, 1) if way == "to" else (batch[:, :4], batch[:, 4:])
                with torch.set_grad_enabled(has_history):
                    try:
                        copied = way_of(take(mean if way != "ravel" else spread))
                        if copied.is_contiguous():
                            copied += 1
                        report(f"{way} of {part}", has_history, batch.sum().item(), copied.sum().item(), copied.stride(), copied.is_contiguous())
                    except RuntimeError as error:
                        report(f"{way} of {part}", has_history, str(error)[:24])


def draws():
    for part in (lambda v: v[8:], lambda v: v[2:12:3], lambda v: v[:9].T):
        for draw in (lambda v: v.normal_(), lambda v: v.uniform_(), lambda v: v.bernoulli_(0.5)):
            mean = encoder(data).detach()[:, 2:6]
            draw(part(mean))
            loss = (decoder(mean) - data).pow(2).mean()
            report("drawn", loss.item(), torch.rand(1).item())


def overlapping():
    batch = encoder(data)
    lagged = batch.detach()[:, 3:].unfold(1, 2, 1)
    log = batch.detach().tolist()
    targets = torch.tensor(lagged.numpy().mean(-1))
    report("lagged", log[0][3], (batch[:, 1:5] - targets).pow(2).mean().item())
    written = batch.detach()[:, 4:].unfold(1, 3, 1).numpy()
    written[:, :, 0] = 7.0
    report("written", *batch[0].tolist(), batch.sum().item())
    steps = torch.nn.GRU(5, 6)(torch.randn(4, 13, 5))[0].detach()
    report("steps", float(steps.numpy().sum()), *torch.tensor(steps[-1:].expand(4, 13, 6).tolist())[0, 0].tolist(), float(steps[1:].unfold(0, 2, 1).numpy().sum()))


def layouts():
    mean, spread = encoder(data).chunk(2, 1)
    every, block = encoder(data)[:, ::2], encoder(data).view(13, 2, 4)[:, 1]
    for view in (mean, spread, every, block):
        rows = view[3:11]
        report("rows", rows.stride(), rows.is_contiguous(), rows.detach().numpy().strides, rows.detach().numpy().flags["C_CONTIGUOUS"], rows.sum().item())
        try:
            rows.view(-1)
            report("viewed")
        except RuntimeError:
            report("not viewed")
        rows.pow(2).sum().backward(retain_graph=True)
    report("gradient", encoder.weight.grad.abs().sum().item())


def parts_of_a_written_batch():
    for split in (lambda v: v.split(4, 1), lambda v: v.chunk(2, 1), lambda v: v.unbind(1)):
        encoder.zero_grad()
        batch = encoder(data) * 1
        parts = split(batch)
        first, before = parts[0][:2], parts[1][2:4].mul(3).sum()
        batch += 1
        (batch.sum() + before).backward()
        report("split", encoder.weight.grad.abs().sum().item(), first.detach().sum().item())
        try:
            (first * 2).sum().backward()
            report("used")
        except RuntimeError:
            report("refused")


def two_columns():
    rows = {"rows": lambda v: v[1:3], "later rows": lambda v: v[3:5], "steps": lambda v: v[1:9:2], "most": lambda v: v[1:]}
    for part, take in rows.items():
        for split in (lambda v: (v[:, :4], v[:, 4:]), lambda v: v.chunk(2, 1), lambda v: v.unbind(1)[2:4], lambda v: (v[:, ::2], v[:, 1::2])):
            for has_history in (False, True):
                with torch.set_grad_enabled(has_history):
                    batch = (encoder(data) * 2).detach()
                    one, other = split(batch)
                    own, others = take(one), rows["rows"](other)
                    batch.mul_(3)
                    own.add_(1)
                    others.add_(1)
                    before = others.sum().item()
                    own.mul_(2)
                    report(f"two columns, {part}", batch.sum().item(), before, own.sum().item(), others.sum().item())


def masks_over_one_row():
    """The mask lets the last rank alone write, what all rows are then: as here or, in ranks, libtorch's error of memory that is written twice."""
    last = torch.arange(len(data)) == len(data) - 1

    def write(gradient):
        try:
            gradient[mask.expand_as(gradient) if mask.dim() > 1 else mask] = 0.25
            report("written or refused", gradient.sum().item() == 0.25 * gradient.numel())
        except RuntimeError as error:
            report("written or refused", "more than one element" in str(error))

    for mask in (last, last.unsqueeze(1)):
        hidden = encoder(data)
        hidden.register_hook(write)
        hidden.sum().backward()
    encoder.zero_grad()


def one_row_for_all():
    losses = {"a sum": lambda h: h.sum(), "a sum of columns": lambda h: h.sum(0)[:2].sum(), "of some": lambda h: h[:, :2].sum(), "a mean": lambda h: h.mean()}

    def look(gradient):
        copy = gradient[1:5].contiguous()
        copy.mul_(3)
        report("copied", gradient.sum().item(), copy.sum().item(), gradient.stride(), gradient[1:5].reshape(-1).stride(), gradient[1:5].numpy().strides)
        try:
            gradient[1:3].mul_(2)
            report("written", gradient.sum().item())
        except RuntimeError as error:
            report(str(error)[:24])
        report("seen", gradient.numpy().strides, float(gradient.numpy().sum()))

    for name, loss in losses.items():
        hidden = encoder(data)
        hidden.register_hook(look)
        encoder.zero_grad()
        loss(hidden).backward()
        report(f"the gradient of {name}", encoder.weight.grad.sum().item())


def as_they_are_read():
    for view in (lambda z: z.conj(), lambda z: z.conj().imag):
        batch = torch.view_as_complex(encoder(data).detach().view(13, 4, 2))
        lazy = view(batch)
        report("copied", copy.deepcopy(lazy).sum().abs().item(), pickle.loads(pickle.dumps(lazy))[3].sum().abs().item())
        row, others = (batch.imag if lazy.is_neg() else batch)[2], lazy[2:4]
        row.mul_(3)
        before = others.sum().abs().item()
        others.add_(2)
        report("written in turn", before, row.sum().abs().item(), others.sum().abs().item(), batch.sum().abs().item())


def shared():
    def column(batch):
        return batch[:, 0]

    order = torch.arange(13).roll(5)
    for write in (lambda b: column(b)[1:].add_(column(b)[:-1]), lambda b: b[:, :4][1:].copy_(b[:, :4][:-1]), lambda b: column(b).index_add_(0, order, column(b)),
                  lambda b: column(b).put_(order, column(b)), lambda b: b[1:].copy_(b.detach()[:-1])):
        batch = encoder(data).detach()
        try:
            write(batch)
            report("shared", batch.sum().item(), batch[7:].sum().item())
        except RuntimeError as error:
            report(str(error)[:24])
    batch = encoder(data).detach()
    other = batch.detach()
    row = other[2]
    other.data = torch.zeros(13, 8)
    row.add_(100)
    batch.mul_(2)
    report("left", batch.sum().item(), row.sum().item(), other.sum().item())


copies()
draws()
as_they_are_read()
shared()
one_row_for_all()
masks_over_one_row()
overlapping()
two_columns()
layouts()
parts_of_a_written_batch()
frames()
