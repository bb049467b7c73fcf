"""What random networks are made of: steps from a tensor of one kind to a tensor of another (random_networks.py).

A step is entered under the kinds that it takes. Called with (builder, shape) it draws what is to be drawn, makes its layers, and returns a function
from tensor to tensor, or that and the new kind. The kinds: flat (rows, features), series (rows, time, features), time (time, rows, features),
line (rows, channels, length), image (rows, channels, height, width), volume (rows, channels, depth, height, width).
"""
import torch
import torch.nn.functional as F
from torch import nn

BATCHES = {"flat": 2, "series": 3, "time": 3, "line": 3, "image": 4, "volume": 5}
STEPS = {kind: [] for kind in BATCHES}
FIRST = {kind: [] for kind in BATCHES}  # those that a network begins with: a batch meets a parameter


def step(*kinds, first=False, times=1):
    def enter(function):
        for kind in kinds:
            STEPS[kind] += [function] * times
            if first:
                FIRST[kind].append(function)
        return function

    return enter


ROWS_FIRST = [kind for kind in BATCHES if kind != "time"]
ALL = list(BATCHES)


def convolution(dims):
    def conv(b, shape):
        kind, channels = getattr(nn, f"Conv{dims}d"), shape[1]
        groups = b.pick([1, channels]) if channels < 5 else 1
        out = groups * b.pick([1, 2, 3])
        layer = b.layer(kind(channels, out, b.pick([1, 3]), padding=1, groups=groups, bias=b.chance(0.7), padding_mode=b.pick(["zeros", "zeros", "circular", "replicate"])))
        return layer

    def transposed(b, shape):
        layer = b.layer(getattr(nn, f"ConvTranspose{dims}d")(shape[1], b.pick([2, 3]), 3, padding=1, bias=b.chance(0.7)))
        return layer

    def pool(b, shape):
        if min(shape[2:]) < 4:
            return getattr(nn, f"Adaptive{b.pick(['Avg', 'Max'])}Pool{dims}d")(2)
        return b.pick([lambda x: getattr(F, f"max_pool{dims}d")(x, 2), lambda x: getattr(F, f"avg_pool{dims}d")(x, 2),
                       getattr(nn, f"AdaptiveAvgPool{dims}d")(3), getattr(nn, f"AdaptiveMaxPool{dims}d")(2)])

    def pad(b, shape):
        mode = b.pick(["constant", "reflect", "replicate", "circular"] if min(shape[2:]) > 1 else ["constant", "replicate"])
        return lambda x: F.pad(x, [1, 0] * dims, mode=mode)

    def norm(b, shape):
        channels = shape[1]
        return b.layer(b.pick([getattr(nn, f"BatchNorm{dims}d")(channels, momentum=b.pick([0.1, None])), getattr(nn, f"BatchNorm{dims}d")(channels, affine=False),
                                getattr(nn, f"BatchNorm{dims}d")(channels, track_running_stats=False), nn.GroupNorm(1, channels), nn.GroupNorm(channels, channels),
                                getattr(nn, f"InstanceNorm{dims}d")(channels), getattr(nn, f"InstanceNorm{dims}d")(channels, affine=True, track_running_stats=True)]))

    def upsample(b, shape):
        if max(shape[2:]) > 8:
            return torch.tanh
        mode = b.pick(["nearest", {1: "linear", 2: "bilinear", 3: "trilinear"}[dims]])
        return lambda x: F.interpolate(x, scale_factor=2, mode=mode)

    kind = {1: "line", 2: "image", 3: "volume"}[dims]
    for function, first, times in ((conv, True, 2), (transposed, True, 1), (pool, False, 1), (pad, False, 1), (norm, False, 2), (upsample, False, 1)):
        step(kind, first=first, times=times)(function)


for dims in (1, 2, 3):
    convolution(dims)


# ---- layers

@step("flat", "series", "time", first=True, times=3)
def linear(b, shape):
    return b.layer(nn.Linear(shape[-1], b.pick([1, 4, 6, 7]), bias=b.chance(0.7)))


@step("flat", "series", "time", first=True)
def product(b, shape):
    weight = b.parameter(shape[-1], 5)
    other = b.parameter(5, shape[-1])
    bias = b.parameter(5)
    letters = "abc"[: len(shape) - 1]
    return b.pick([lambda x: x @ weight, lambda x: x.matmul(weight) + bias, lambda x: torch.einsum(f"{letters}z,zy->{letters}y", x, weight),
                   lambda x: F.linear(x, other, bias), lambda x: torch.tensordot(x, weight, 1), lambda x: torch.einsum(f"yz,{letters}z->{letters}y", other, x)])


@step("flat", first=True)
def addmm(b, shape):
    weight, bias = b.parameter(shape[1], 6), b.parameter(6)
    return b.pick([lambda x: torch.addmm(bias, x, weight), lambda x: torch.addmm(bias, x, weight, beta=0.5, alpha=2), lambda x: x.mm(weight)])


@step("flat", "series", "time")
def shared(b, shape):
    """The same weights twice, once transposed."""
    weight = b.parameter(shape[-1], 5)
    return lambda x: torch.tanh(x @ weight) @ weight.t()


@step("flat")
def bilinear(b, shape):
    layer = b.layer(nn.Bilinear(shape[1], shape[1], 4))
    return lambda x: layer(x, x.sin())


@step("series", "time", first=True, times=2)
def recurrent(b, shape):
    kind = b.pick([nn.RNN, nn.GRU, nn.LSTM])
    layer = b.layer(kind(shape[-1], 4, num_layers=b.pick([1, 2]), batch_first=b.kind == "series", bidirectional=b.chance(0.3), dropout=b.pick([0, 0.3])))
    carried, carry = {}, b.chance(0.5)

    def run(x):
        rows = x.shape[0 if layer.batch_first else 1]
        out, hidden = layer(x, carried.get(rows) if carry else None)
        if carry and layer.training:
            carried[rows] = tuple(part.detach() for part in hidden) if isinstance(hidden, tuple) else hidden.detach()
        return out

    return run


@step("flat")
def cell(b, shape):
    layer = b.layer(b.pick([nn.RNNCell, nn.GRUCell])(shape[1], shape[1]))
    return lambda x: layer(x, layer(x))


def heads(b, shape):
    return b.pick([1, 2]) if shape[-1] % 2 == 0 else 1


@step("series", "time", times=2)
def attention(b, shape):
    layer = b.layer(nn.MultiheadAttention(shape[-1], heads(b, shape), batch_first=b.kind == "series", dropout=b.pick([0, 0.2])))
    weights = b.chance(0.5)
    return b.pick([lambda x: layer(x, x, x, need_weights=weights)[0], lambda x: layer(x, x.tanh(), x, need_weights=weights)[0]])


@step("series")
def dot_product(b, shape):
    causal = b.chance(0.5)
    if hasattr(F, "scaled_dot_product_attention"):
        return lambda x: F.scaled_dot_product_attention(x.unsqueeze(1), x.unsqueeze(1), x.unsqueeze(1), is_causal=causal).squeeze(1)
    return lambda x: torch.bmm(torch.softmax(torch.bmm(x, x.transpose(1, 2)) / 2, -1), x)


@step("series", "time")
def encoder(b, shape):
    more = {"dropout": b.pick([0.0, 0.1]), "batch_first": b.kind == "series", "norm_first": b.chance(0.5)}
    if b.chance(0.3):
        layer = b.layer(nn.TransformerDecoderLayer(shape[-1], heads(b, shape), 8, **more))
        return lambda x: layer(x, x.sin())
    return b.layer(nn.TransformerEncoderLayer(shape[-1], heads(b, shape), 8, **more))


@step("flat", "series", "time", times=2)
def last_norm(b, shape):
    kinds = [nn.LayerNorm(shape[-1]), nn.LayerNorm(shape[-1], elementwise_affine=False)]
    kinds += [nn.RMSNorm(shape[-1])] if hasattr(nn, "RMSNorm") else []
    kinds += [nn.BatchNorm1d(shape[-1]), nn.BatchNorm1d(shape[-1], affine=False)] if b.kind == "flat" else []
    return b.layer(b.pick(kinds))


@step(*ALL)
def dropout(b, shape):
    kind = b.pick([nn.Dropout(0.3), nn.AlphaDropout(0.2), nn.Dropout(0.5)] + ([getattr(nn, f"Dropout{len(shape) - 2}d")(0.3)] if b.kind in ("line", "image", "volume") else []))
    return b.layer(kind)


@step("flat", "series", "line", "image")
def prelu(b, shape):
    return b.layer(nn.PReLU(b.pick([1, shape[1]])))


# ---- element by element

UNARY = [torch.relu, torch.tanh, torch.sigmoid, F.gelu, F.silu, F.mish, F.softplus, F.elu, F.selu, F.celu, F.leaky_relu, F.hardtanh, F.hardswish, F.relu6, F.softsign,
         F.tanhshrink, F.logsigmoid, torch.sin, torch.cos, torch.abs, torch.erf, torch.atan, torch.neg, lambda x: x.clamp(-1, 1.5), lambda x: x * 2 - 1, lambda x: x / 3,
         lambda x: (x * x + 1).sqrt(), lambda x: x.abs().log1p(), lambda x: (x * x + 1).rsqrt(), lambda x: 1 / (x * x + 1), lambda x: x.clamp(-3, 2).exp(),
         lambda x: x.pow(2), lambda x: torch.where(x > 0, x, 0.1 * x), lambda x: x.masked_fill(x > 1, 0.5), lambda x: torch.maximum(x, 0.1 * x), lambda x: x.lerp(x.sin(), 0.3),
         lambda x: torch.addcmul(x, x, x.cos(), value=0.5), lambda x: torch.addcdiv(x, x, x * x + 1), lambda x: x * (x > 0), lambda x: x + x.detach().round(),
         lambda x: torch.hypot(x, x + 2), lambda x: torch.nan_to_num(x), lambda x: x.sign() * x, lambda x: F.threshold(x, 0.1, 0.2), lambda x: F.hardsigmoid(x) * x]
IN_PLACE = [torch.relu_, torch.tanh_, torch.sigmoid_, lambda x: x.mul_(0.5), lambda x: x.add_(1), lambda x: x.clamp_(-1, 1), lambda x: x.div_(2).sub_(0.25), torch.sin_,
            lambda x: x.add_(x.detach().cos()), lambda x: x.masked_fill_(x > 1, 0), lambda x: F.leaky_relu(x, 0.1, inplace=True), lambda x: F.elu(x, inplace=True), lambda x: x.neg_(),
            lambda x: x.copy_(x * 0.5), lambda x: x.addcmul_(x.detach().cos(), x.detach().sin()), lambda x: F.silu(x, inplace=True), lambda x: x.lerp_(x.detach().sin(), 0.5)]


@step(*ALL, times=4)
def unary(b, shape):
    return b.pick(UNARY)


@step(*ALL, times=2)
def in_place(b, shape):
    change, copy = b.pick(IN_PLACE), b.pick([torch.clone, lambda x: x + 0, lambda x: x * 1.5])
    return lambda x: change(copy(x))


@step(*ALL, times=2)
def residual(b, shape):
    change, join = b.pick(UNARY), b.pick([torch.add, torch.sub, torch.mul, lambda x, y: torch.where(x > y, x, y), torch.max, lambda x, y: torch.stack([x, y]).mean(0)])
    return lambda x: join(x, change(x))


@step(*ALL)
def types(b, shape):
    kind = b.rough(b.pick([torch.float32, torch.float64, torch.bfloat16]))
    change = b.pick([torch.neg, lambda x: x * 2, lambda x: x.abs()])
    return lambda x: change(x.to(kind)).to(x.dtype)


@step(*ALL)
def stopped(b, shape):
    change = b.pick(UNARY)

    def without(x):
        with torch.no_grad():
            y = change(x)
        return x + y

    return b.pick([without, lambda x: x + change(x.detach()), lambda x: x * change(x).detach()])


# ---- along and over dimensions

@step(*ALL, times=2)
def features(b, shape):
    dim = b.pick([-1, len(shape) - 1])
    kinds = [lambda x: x.softmax(dim), lambda x: x.log_softmax(dim), lambda x: x.cumsum(dim), lambda x: x.flip(dim), lambda x: x.roll(1, dim), lambda x: x.sort(dim)[0],
             lambda x: x - x.mean(dim, keepdim=True), lambda x: x / (x.std(dim, keepdim=True, unbiased=False) + 1), lambda x: x - x.amax(dim, keepdim=True),
             lambda x: x - x.logsumexp(dim, keepdim=True), lambda x: F.normalize(x + 2, dim=dim), lambda x: x * x.sum(dim, keepdim=True), lambda x: x - x.max(dim, keepdim=True)[0],
             lambda x: x + x.norm(dim=dim, keepdim=True), lambda x: x.gather(dim, x.argsort(dim)), lambda x: x.topk(1, dim)[0] + x, lambda x: x - x.median(dim, keepdim=True)[0],
             lambda x: x.tanh().cumprod(dim), lambda x: x * F.one_hot(x.argmax(dim), x.shape[dim]), lambda x: x - x.var(dim, keepdim=True, unbiased=False),
             lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x.scatter(dim, x.argmax(dim, keepdim=True), 0.5), lambda x: x - x.min(dim, keepdim=True).values]
    return b.pick(kinds)


@step(*ALL, times=2)
def over_rows(b, shape):
    dim = 1 if b.kind == "time" else 0
    kinds = [lambda x: x - x.mean(dim), lambda x: x - x.mean(), lambda x: x / (x.std() + 1), lambda x: x - x.amax(dim), lambda x: x.softmax(dim), lambda x: x.cumsum(dim),
             lambda x: x * x.sum(dim, keepdim=True).tanh(), lambda x: x / (x.detach().norm() + 1), lambda x: x / (x.norm() + 1), lambda x: x - x.var(dim, unbiased=False),
             lambda x: x - x.logsumexp(dim), lambda x: x * float(x.detach().mean()), lambda x: -x if x.sum() > 0.1234 else x, lambda x: x - x.max(), lambda x: x.sort(dim)[0],
             lambda x: x + x.abs().max().item(), lambda x: x - x.median(), lambda x: x - x.mean(tuple(range(x.dim()))), lambda x: x * (x.detach() > 0).sum() / x.numel(),
             lambda x: (x - x.mean(dim, keepdim=True)) / (x.var(dim, keepdim=True, unbiased=False) + 1).sqrt(), lambda x: x + sum(x.detach().flatten().tolist()[:3])]
    kinds = [kind if dim == 0 else lambda x, kind=kind: kind(x.transpose(0, 1)).transpose(0, 1) for kind in kinds] if b.chance(0.5) and dim else kinds
    return b.pick(kinds) if dim == 0 else b.pick(kinds[4:9])


@step("flat")
def among_rows(b, shape):
    return b.pick([lambda x: torch.softmax(x @ x.t(), 1) @ x, lambda x: x + torch.cdist(x, x + 1).mean(1, keepdim=True), lambda x: x @ (x.t() @ x).tanh(),
                   lambda x: torch.einsum("ij,kj->ik", x, x.detach()).tanh().mm(x), lambda x: x * F.cosine_similarity(x, x.roll(1, 0), dim=1).unsqueeze(1),
                   lambda x: torch.bmm(x.unsqueeze(2), x.unsqueeze(1)).sum(2), lambda x: x + torch.outer(x[:, 0], x[0])])


# ---- shapes

@step("line", "image", "volume", "series", times=2)
def flatten(b, shape):
    return b.pick([lambda x: x.flatten(1), lambda x: x.view(x.size(0), -1) if x.is_contiguous() else x.reshape(x.size(0), -1), lambda x: x.reshape(x.shape[0], -1)]), "flat"


@step("line", "image", "volume")
def pooled(b, shape):
    dims = tuple(range(2, len(shape)))
    return b.pick([lambda x: x.mean(dims), lambda x: x.sum(dims), lambda x: x.amax(dims)]), "flat"


@step("image", "volume")
def to_series(b, shape):
    return b.pick([lambda x: x.flatten(2).transpose(1, 2), lambda x: x.flatten(2)]), "series"


@step("line")
def line_to_series(b, shape):
    return b.pick([lambda x: x.transpose(1, 2), lambda x: x.permute(0, 2, 1).contiguous()]), "series"


@step("series")
def series_to_line(b, shape):
    return b.pick([lambda x: x.transpose(1, 2), lambda x: x.permute(0, 2, 1).contiguous(), lambda x: torch.movedim(x, 1, 2)]), "line"


@step("series")
def series_to_flat(b, shape):
    return b.pick([lambda x: x[:, -1], lambda x: x.mean(1), lambda x: x.max(1)[0], lambda x: x.select(1, 0), lambda x: torch.stack(x.unbind(1)).sum(0), lambda x: x.sum(1)]), "flat"


@step("time", times=2)
def time_to_flat(b, shape):
    return b.pick([lambda x: x[-1], lambda x: x.mean(0), lambda x: x.transpose(0, 1).flatten(1), lambda x: x.permute(1, 0, 2).reshape(x.size(1), -1)]), "flat"


@step("flat")
def flat_to_line(b, shape):
    return b.pick([lambda x: x.unsqueeze(1), lambda x: x.view(x.size(0), 1, -1) if x.is_contiguous() else x[:, None]]), "line"


@step("flat")
def flat_to_series(b, shape):
    return b.pick([lambda x: x.unsqueeze(2), lambda x: x[:, None].expand(-1, 3, -1), lambda x: torch.stack([x, x.cos()], 1), lambda x: x.unsqueeze(1).repeat(1, 2, 1)]), "series"


@step("line")
def line_to_image(b, shape):
    return b.pick([lambda x: x.unsqueeze(2), lambda x: x.unsqueeze(-1) * x.unsqueeze(-2)]), "image"


@step("image")
def channels_last(b, shape):
    return lambda x: x.contiguous(memory_format=torch.channels_last)


@step(*ALL, times=2)
def joined(b, shape):
    dim = b.pick([-1, len(shape) - 1])
    half = max(1, shape[-1] // 2)
    return b.pick([lambda x: torch.cat([x, x.sin()], dim), lambda x: torch.cat(x.chunk(2, dim)[::-1], dim), lambda x: x.split(half, dim)[0], lambda x: x[..., :half],
                   lambda x: x.narrow(dim, 0, half), lambda x: torch.cat([part * 2 for part in x.split(half, dim)], dim), lambda x: x[..., [0, -1]],
                   lambda x: x.index_select(dim, torch.tensor([0, 0])), lambda x: x.unfold(dim, half, 1).mean(-1), lambda x: x.repeat_interleave(2, dim)[..., 1:]])


@step("flat", "series")
def row_columns(b, shape):
    """Rows times time as rows, and back."""
    weight = b.parameter(shape[-1], shape[-1])
    return b.pick([lambda x: (x.reshape(-1, shape[-1]) @ weight).view(x.shape), lambda x: F.linear(x.reshape(-1, shape[-1]), weight).reshape(x.size(0), *shape[1:]),
                   lambda x: x.t().tanh().t() if x.dim() == 2 else x.transpose(0, 1).tanh().transpose(0, 1)])


# ---- rows that other dimensions are merged with

@step("time", times=3)
def words(b, shape):
    """Time and rows as one dimension, and back."""
    steps, features = shape[0], shape[-1]
    norm, weight = b.layer(nn.BatchNorm1d(features)), b.parameter(features, features)
    inside = b.pick([norm, torch.tanh, lambda x: x @ weight, lambda x: F.dropout(x, 0.3, b.training), lambda x: F.softmax(x, -1), lambda x: x - x.mean(0), lambda x: x * x.sum(),
                     lambda x: x.cumsum(0), lambda x: torch.cat(x.chunk(steps)[::-1]), lambda x: x + x.abs().max(), lambda x: (x.t() @ x).tanh()[0] + x,
                     lambda x: x + torch.linspace(0, 1, len(x), dtype=x.dtype)[:, None], lambda x: x.masked_fill((torch.arange(len(x)) % 3 == 0)[:, None], 0.5),
                     lambda x: torch.cat([x[:len(x) // steps] * 2, x[len(x) // steps:]]), lambda x: x + torch.randn_like(x) * 0.1, lambda x: x.clone().mul_(0.5)])
    merge = b.pick([lambda x: x.reshape(-1, features), lambda x: x.flatten(0, 1), lambda x: torch.cat(list(x)), lambda x: torch.cat(x.unbind(0))])
    return lambda x: inside(merge(x)).view(steps, -1, features)


@step("flat", times=2)
def twice(b, shape):
    """All rows several times, one after the other, and apart again."""
    join = b.pick([lambda x: torch.cat([x, x.sin()]), lambda x: x.repeat(2, 1), lambda x: x.unsqueeze(0).expand(2, -1, -1).reshape(-1, x.size(1)), lambda x: torch.cat([x, x, x])[:2 * len(x)]])
    apart = b.pick([lambda x: x.chunk(2)[0] * x.chunk(2)[1], lambda x: torch.sub(*x.split(len(x) // 2)), lambda x: x[:len(x) // 2] + x[len(x) // 2:], lambda x: x.view(2, -1, x.size(1)).sum(0),
                            lambda x: torch.max(*x.tensor_split(2)), lambda x: x.unflatten(0, (2, len(x) // 2))[1]])
    layer = b.layer(b.pick([nn.Linear(shape[1], shape[1]), nn.BatchNorm1d(shape[1]), nn.Dropout(0.2)]))
    return lambda x: apart(layer(join(x)))


# ---- rows: both the tensor and the numbers of its rows are changed, so that targets can follow

@step(*ROWS_FIRST, times=2)
def rows(b, shape):
    change = b.pick([lambda x: x.flip(0), lambda x: x.roll(1, 0), lambda x: x[1:] if len(x) > 2 else x, lambda x: x[::2], lambda x: torch.cat([x, x[:1]]),
                     lambda x: x[torch.arange(len(x)) % 3 != 1], lambda x: x.index_select(0, torch.arange(len(x) - 1, -1, -1)), lambda x: torch.cat(x.split(2)[::-1]),
                     lambda x: x.narrow(0, 0, len(x) - len(x) // 4), lambda x: torch.cat(x.chunk(3)), lambda x: torch.cat([x, x]), lambda x: x.repeat_interleave(2, 0)[1::2],
                     lambda x: torch.stack([x[i] for i in range(len(x))]), lambda x: x[torch.arange(len(x)).flip(0)], lambda x: x[:-1] if len(x) > 3 else x])

    def run(x):
        b.rows = change(b.rows)
        return change(x)

    return run


@step(*ROWS_FIRST, times=2)
def written(b, shape):
    def part(change):
        def run(x):
            x = x * 1.25
            change(x)
            return x

        return run

    def assign(where, value):
        return lambda x: x.__setitem__(where, value)

    kinds = [assign(0, 0.5), assign(slice(1, 3), 1.0), assign((slice(None), 0), 0.25), assign((Ellipsis, -1), 2.0), lambda x: x[0].mul_(2), lambda x: x[1:].add_(1),
             lambda x: x.select(0, 0).zero_(), lambda x: x.__setitem__(x > 1, 1.0), lambda x: x[:, 0].mul_(3), lambda x: x.index_fill_(0, torch.tensor([0]), 0.5),
             lambda x: x.narrow(0, 0, 1).fill_(0.1), lambda x: x.__setitem__(torch.arange(len(x)) % 2 == 0, 0.75), lambda x: x[..., 0].copy_(x[..., -1].detach()),
             lambda x: x.__setitem__(slice(None, None, 2), x[::2].detach() * 2), lambda x: x.masked_fill_(torch.arange(len(x)).view(-1, *[1] * (x.dim() - 1)) == 1, 0.3)]
    return part(b.pick(kinds))
