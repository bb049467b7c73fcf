"""More that random networks are made of (random_networks_steps.py): layers and functions that fewer programs have, masks and lengths that belong to rows."""
import torch
import torch.nn.functional as F
from random_networks_steps import ALL, ROWS_FIRST, heads, step
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


# ---- images of any number of dimensions

def dims_of(b):
    return {"line": 1, "image": 2, "volume": 3}[b.kind]


@step("line", "image", "volume", first=True)
def strided(b, shape):
    kind, stride, dilation = getattr(nn, f"Conv{dims_of(b)}d"), b.pick([1, 2]), b.pick([1, 2])
    return b.layer(kind(shape[1], b.pick([2, 3]), 3, stride=stride, padding=2, dilation=dilation, bias=b.chance(0.7), padding_mode=b.pick(["zeros", "replicate"])))


@step("line", "image", "volume")
def enlarged(b, shape):
    if max(shape[2:]) > 5:
        return torch.tanh
    return b.layer(getattr(nn, f"ConvTranspose{dims_of(b)}d")(shape[1], 2, 3, stride=2, padding=1, output_padding=1, dilation=b.pick([1, 2])))


@step("line", "image", "volume")
def neighbours(b, shape):
    """Norms over channels and over pieces."""
    choices = [nn.LocalResponseNorm(b.pick([1, 2, 3]), alpha=0.5)]
    if dims_of(b) < 3 and min(shape[2:]) > 1:
        pool = getattr(nn, f"LPPool{dims_of(b)}d")(b.pick([1, 2, 3]), 2)
        choices.append(lambda x: pool(x.abs() + 0.1))
    return b.pick(choices)


@step("image")
def shuffled(b, shape):
    def wide(x):
        return torch.cat([x, x.sin(), x.cos(), x.tanh()], 1)

    def crossed(x):
        if torch.__version__.startswith("1."):  # no derivative there
            return wide(x).unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)
        return F.channel_shuffle(wide(x), 2)

    choices = [crossed, lambda x: F.pixel_unshuffle(F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2)), 2)]
    choices += [lambda x: F.pixel_shuffle(wide(x), 2)] if max(shape[2:]) < 9 else []
    return b.pick(choices)


@step("image")
def sampled(b, shape):
    """At places of each row's own, which a table or the image gives."""
    mode, padding = b.pick(["bilinear", "nearest", "bicubic"]), b.pick(["zeros", "border", "reflection"])
    size, corners = b.pick([(3, 4), tuple(shape[2:])]), b.chance(0.5)

    def turned(x):
        grid = F.affine_grid(b.table(2, 3)[b.rows] * 0.4 + torch.eye(2, 3, dtype=x.dtype), (len(x), x.shape[1], *size), align_corners=corners)
        return F.grid_sample(x, grid.to(x.dtype), mode=mode, padding_mode=padding, align_corners=corners)

    def own(x):
        return F.grid_sample(x, torch.stack([x[:, 0].tanh(), x[:, -1].sin()], -1) * 0.9, mode="bilinear", padding_mode=padding, align_corners=corners)

    return b.pick([turned, turned, own])


# ---- sequences with lengths and masks

def lengths_of(b, steps):
    """For each row, from 1 to all."""
    return b.table(dtype=torch.long, limit=steps)[b.rows] + 1


def padding_of(b, steps):
    return torch.arange(steps) >= lengths_of(b, steps).unsqueeze(1)


def steps_of(b, shape):
    return shape[0 if b.kind == "time" else 1]


@step("series", "time", times=2)
def packed(b, shape):
    steps, batch_first, is_sorted = steps_of(b, shape), b.kind == "series", b.chance(0.3)
    layer = b.layer(b.pick([nn.RNN, nn.GRU, nn.LSTM])(shape[-1], 4, num_layers=b.pick([1, 2]), batch_first=batch_first, bidirectional=b.chance(0.3)))

    def run(x):
        lengths = lengths_of(b, steps)
        lengths = lengths.sort(descending=True).values if is_sorted else lengths
        out, _ = layer(pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=is_sorted))
        return pad_packed_sequence(out, batch_first=batch_first, total_length=steps)[0]

    return run


@step("series", "time", times=2)
def masked_attention(b, shape):
    steps = steps_of(b, shape)
    layer = b.layer(nn.MultiheadAttention(shape[-1], heads(b, shape), batch_first=b.kind == "series", dropout=b.pick([0, 0.2]), add_bias_kv=b.chance(0.2)))
    causal = torch.ones(steps, steps).triu(1).bool()
    attn_mask = b.pick([None, causal, torch.zeros(steps, steps, dtype=b.dtype).masked_fill(causal, -2.0)])
    is_padded, weights = b.chance(0.7), b.chance(0.5)

    def run(x):
        padding = padding_of(b, steps) if is_padded else None
        if is_padded and attn_mask is not None and attn_mask.is_floating_point():
            padding = torch.zeros(padding.shape, dtype=x.dtype).masked_fill(padding, float("-inf"))
        return layer(x, x, x, key_padding_mask=padding, attn_mask=attn_mask, need_weights=weights)[0]

    return run


@step("series", "time")
def masked_encoder(b, shape):
    steps = steps_of(b, shape)
    layer = b.layer(nn.TransformerEncoderLayer(shape[-1], heads(b, shape), 8, dropout=b.pick([0.0, 0.1]), batch_first=b.kind == "series", norm_first=b.chance(0.5)))
    causal, batch_first = b.pick([None, torch.ones(steps, steps).triu(1).bool()]), b.kind == "series"

    def run(x):
        padding = padding_of(b, steps)
        empty = padding if batch_first else padding.t()
        return layer(x, src_mask=causal, src_key_padding_mask=padding).masked_fill(empty.unsqueeze(2), 0)  # padded places are nobody's: eval has others there

    return run


# ---- gates, groups of rows, complex numbers

@step(*ALL)
def gated(b, shape):
    dim = b.pick([-1, len(shape) - 1] + ([1] if b.kind != "time" else []))
    return b.pick([lambda x: F.glu(torch.cat([x, x.sin()], dim), dim), lambda x: F.glu(torch.cat([x.cos(), x], dim), dim)])


@step("flat")
def long_cell(b, shape):
    layer = b.layer(nn.LSTMCell(shape[1], shape[1], bias=b.chance(0.7)))
    return b.pick([lambda x: layer(x)[0], lambda x: layer(x, layer(x))[1], lambda x: layer(x, (x.sin(), x.cos()))[0]])


@step("flat", times=2)
def grouped(b, shape):
    """What rows of a group have together, by numbers that a table gives."""
    width = shape[1]

    def group():
        return b.table(dtype=torch.long, limit=5)[b.rows]

    def columns():
        return b.table(width, dtype=torch.long, limit=width)[b.rows]

    def sums(x):
        return torch.zeros(5, width, dtype=x.dtype)

    return b.pick([
        lambda x: sums(x).index_add(0, group(), x)[group()], lambda x: x - sums(x).scatter_add(0, group().view(-1, 1).expand_as(x), x).tanh()[group()],
        lambda x: torch.zeros_like(x).scatter_add(1, columns(), x), lambda x: x.scatter_add(1, columns(), x.sin()), lambda x: x.index_add(1, torch.zeros(1, dtype=torch.long), x[:, -1:]),
        lambda x: sums(x).scatter_reduce(0, group().view(-1, 1).expand_as(x), x, "mean")[group()], lambda x: x.index_copy(1, torch.tensor([0]), x[:, -1:].tanh()),
        lambda x: x + sums(x).index_put((group(),), x, accumulate=True)[group()], lambda x: x.index_copy(0, torch.tensor([0]), x[-1:] * 0.5), lambda x: x.index_fill(0, torch.tensor([0]), 0.5)])


@step(*ALL)
def complex_numbers(b, shape):
    """Imaginary parts and back; no absolute value of what may be zero but for rounding."""
    last = shape[-1]
    weight = b.parameter(last, last)
    return b.pick([lambda x: torch.complex(x, x.cos() + 2).abs(), lambda x: (torch.complex(x, x.sin()) ** 2).imag, lambda x: torch.fft.rfft(x, dim=-1).real,
                   lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=-1) * 0.5, n=last, dim=-1), lambda x: torch.view_as_real(torch.complex(x, x.cos())).sum(-1),
                   lambda x: (torch.complex(x, -x) @ torch.complex(weight, weight.sin())).real, lambda x: torch.polar(x.abs() + 0.5, x).imag,
                   lambda x: (torch.complex(x, x.cos()).conj() * 2j).real, lambda x: torch.view_as_complex(torch.stack([x, x.tanh()], -1)).exp().real.tanh()])


@step(*ROWS_FIRST)
def along_rows(b, shape):
    return b.pick([lambda x: x.cumprod(0) * 0.5, lambda x: x.logcumsumexp(0), lambda x: x.cummax(0)[0], lambda x: x - x.median(0, keepdim=True)[0], lambda x: x - x.kthvalue(1, 0, keepdim=True)[0],
                   lambda x: x - x.quantile(0.3, 0, keepdim=True), lambda x: x + x.std(0, unbiased=False, keepdim=True), lambda x: torch.cat(x.tensor_split(3)), lambda x: x.renorm(2, 0, 1.0),
                   lambda x: x * x.norm(1, 0, keepdim=True).tanh()])
