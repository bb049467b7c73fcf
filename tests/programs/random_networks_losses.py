"""The losses of random networks, entered under the kind of result that they take (random_networks.py): (builder, shape) to a function of
result and numbers of its rows. What is compared with comes from a table with a line for each row of the batch.
"""
import torch
import torch.nn.functional as F

LOSSES = {kind: [] for kind in ("flat", "series", "time", "line", "image", "volume")}
ALL = list(LOSSES)


def loss(*kinds, times=1):
    def enter(function):
        for kind in kinds:
            LOSSES[kind] += [function] * times
        return function

    return enter


def reduced(b, function):
    """The loss with a random reduction; none is put together by the program itself."""
    reduction = b.pick(["mean", "mean", "sum", "none"])
    together = b.pick([torch.mean, torch.sum, lambda x: x.flatten()[0], lambda x: (x * 0.5).sum() / x.numel(), lambda x: x.max()])
    scale = 0.01 if reduction == "sum" else 1.0
    return lambda x, rows: (together(function(x, rows, "none")) if reduction == "none" else function(x, rows, reduction)) * scale


@loss(*ALL, times=2)
def regression(b, shape):
    function = b.pick([F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
    batch = 1 if b.kind == "time" else 0
    one = shape[:batch] + shape[batch + 1:]
    if b.chance(0.3):
        return reduced(b, lambda x, rows, reduction: function(x, torch.zeros_like(x), reduction=reduction))
    if batch:
        return reduced(b, lambda x, rows, reduction: function(x, b.table(*one)[rows].transpose(0, 1).contiguous(), reduction=reduction))
    return reduced(b, lambda x, rows, reduction: function(x, b.table(*one)[rows], reduction=reduction))


@loss("flat", times=3)
def classes(b, shape):
    count, ignored = shape[1], b.pick([-100, 0, 1])
    weight = torch.linspace(0.5, 2, count, dtype=b.dtype) if b.chance(0.5) else None
    smoothing = b.pick([0.0, 0.0, 0.2])

    def target(rows):
        return b.table(dtype=torch.long, limit=count)[rows]

    return reduced(b, b.pick([
        lambda x, rows, reduction: F.cross_entropy(x, target(rows), weight, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing),
        lambda x, rows, reduction: F.nll_loss(F.log_softmax(x, 1), target(rows), weight, ignore_index=ignored, reduction=reduction),
        lambda x, rows, reduction: F.multi_margin_loss(x, target(rows), weight=weight, reduction=reduction),
        lambda x, rows, reduction: F.cross_entropy(x, b.table(count)[rows].softmax(1), weight, reduction=reduction)]))


@loss("series", times=2)
def sequence(b, shape):
    count, steps = shape[2], shape[1]
    ignored = b.pick([-100, 0])

    def target(rows):
        return b.table(steps, dtype=torch.long, limit=count)[rows]

    return reduced(b, b.pick([lambda x, rows, reduction: F.cross_entropy(x.transpose(1, 2), target(rows), ignore_index=ignored, reduction=reduction),
                              lambda x, rows, reduction: F.cross_entropy(x.reshape(-1, count), target(rows).view(-1), ignore_index=ignored, reduction=reduction)]))


@loss("time", times=3)
def words(b, shape):
    count, steps = shape[2], shape[0]
    ignored, weight = b.pick([-100, 0]), torch.linspace(0.5, 2, count, dtype=b.dtype) if b.chance(0.5) else None

    def target(rows):
        return b.table(steps, dtype=torch.long, limit=count)[rows].t()

    return reduced(b, b.pick([
        lambda x, rows, reduction: F.cross_entropy(x.reshape(-1, count), target(rows).reshape(-1), weight, ignore_index=ignored, reduction=reduction),
        lambda x, rows, reduction: F.cross_entropy(x.transpose(1, 2), target(rows), weight, ignore_index=ignored, reduction=reduction),
        lambda x, rows, reduction: F.nll_loss(x.flatten(0, 1).log_softmax(-1), target(rows).flatten(), weight, reduction=reduction)]))


@loss("image", "line")
def pixels(b, shape):
    ignored = b.pick([-100, 0])
    return reduced(b, lambda x, rows, reduction: F.cross_entropy(x, b.table(*shape[2:], dtype=torch.long, limit=shape[1])[rows], ignore_index=ignored, reduction=reduction))


@loss("flat", "series", "image", times=2)
def labels(b, shape):
    weight = torch.linspace(0.5, 2, shape[-1], dtype=b.dtype)

    def target(rows):
        return (b.table(*shape[1:])[rows] > 0).to(b.dtype)

    def distribution(rows):
        return b.table(*shape[1:])[rows].softmax(-1)

    return reduced(b, b.pick([lambda x, rows, reduction: F.binary_cross_entropy_with_logits(x, target(rows), pos_weight=weight, reduction=reduction),
                              lambda x, rows, reduction: F.binary_cross_entropy(x.sigmoid(), target(rows), weight, reduction=reduction),
                              lambda x, rows, reduction: F.kl_div(x.log_softmax(-1), distribution(rows), reduction=reduction),
                              lambda x, rows, reduction: F.soft_margin_loss(x, target(rows) * 2 - 1, reduction=reduction),
                              lambda x, rows, reduction: F.poisson_nll_loss(x.tanh(), target(rows), reduction=reduction),
                              lambda x, rows, reduction: F.gaussian_nll_loss(x, target(rows), x.detach().abs() + 1, reduction=reduction)]))


@loss("flat", times=2)
def pairs(b, shape):
    def sign(rows):
        return b.table(dtype=torch.long, limit=2)[rows] * 2 - 1

    def other(rows):
        return b.table(*shape[1:])[rows]

    return reduced(b, b.pick([lambda x, rows, reduction: F.cosine_embedding_loss(x, other(rows), sign(rows), reduction=reduction),
                              lambda x, rows, reduction: F.margin_ranking_loss(x[:, 0], other(rows)[:, 0], sign(rows), margin=0.1, reduction=reduction),
                              lambda x, rows, reduction: F.hinge_embedding_loss(x, sign(rows).unsqueeze(1).expand_as(x), reduction=reduction),
                              lambda x, rows, reduction: F.triplet_margin_loss(x, other(rows), x.flip(0), reduction=reduction),
                              lambda x, rows, reduction: F.multilabel_soft_margin_loss(x, (other(rows) > 0).to(x.dtype), reduction=reduction)]))


@loss("flat")
def label_sets(b, shape):
    """For each row a few classes, ended by -1."""
    count = shape[1]

    def target(rows):
        first = b.table(dtype=torch.long, limit=count)[rows].unsqueeze(1)
        return torch.where(torch.arange(count) > first // 2, -1, (first + torch.arange(count)) % count)

    return reduced(b, lambda x, rows, reduction: F.multilabel_margin_loss(x, target(rows), reduction=reduction))


@loss("series", "time")
def transcripts(b, shape):
    """Labels that are shorter than the sequences, whose places nobody knows."""
    steps, classes = shape[1 if b.kind == "series" else 0], shape[2]
    if classes < 2 or steps > 20:
        return by_hand(b, shape)
    is_series = b.kind == "series"

    def connected(x, rows, reduction):
        x = (x.transpose(0, 1) if is_series else x).log_softmax(-1)
        targets, lengths = b.table(2, dtype=torch.long, limit=classes - 1)[rows] + 1, b.table(dtype=torch.long, limit=2)[rows] + 1
        return F.ctc_loss(x, targets, torch.full((len(rows),), steps), lengths.clamp(max=steps), reduction=reduction, zero_infinity=True)

    return reduced(b, connected)


@loss(*ALL)
def by_hand(b, shape):
    return b.pick([lambda x, rows: x.pow(2).mean(), lambda x, rows: x.norm(), lambda x, rows: x.logsumexp(-1).mean(), lambda x, rows: x.tanh().sum() / 10,
                   lambda x, rows: sum(part.pow(2).mean() for part in x) / len(x), lambda x, rows: x[0].square().sum() * 0.1, lambda x, rows: x.abs().amax(),
                   lambda x, rows: (x - x.mean(0)).square().mean(), lambda x, rows: x.var() if x.numel() > 1 else x.sum(), lambda x, rows: x.abs().topk(1, -1)[0].mean(),
                   lambda x, rows: x.square().mean(tuple(range(1, x.dim()))).sqrt().max(), lambda x, rows: (x.flatten() * x.flatten().flip(0)).mean(),
                   lambda x, rows: torch.cat([x.flatten(), x.detach().flatten()]).cumsum(0).mean() * 0.1, lambda x, rows: x.diff(dim=0).square().sum() * 0.1])
