"""What operators write besides the rows of their first argument: out= tensors, lists, running statistics, sums over the batch, losses through views,
and gradients that the program has set."""
import torch
from torch.nn import functional

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)
parameters = [*first.parameters(), *second.parameters()]


def show(name, *tensors):
    print(name, *[f"{tuple(t.shape)} {t.double().norm().item():.5f} {t.reshape(-1)[-1].item():.5f}" for t in tensors])


def scores():
    return second(torch.tanh(first(images)))


def positions(*shape):
    return torch.zeros(*shape, dtype=torch.long)


@torch.no_grad()
def out_of_rows(rows):
    """Into whole tensors, and (rows) into divided ones."""
    one, two = (rows[:, 0].clone(), rows[:, :2].clone()) if rows is not None else (torch.zeros(23), torch.zeros(23, 2))
    best = scores().argmin(1) if rows is not None else positions(23)
    torch.max(scores(), 1, out=(one, best))
    show("max", one, best)
    torch.topk(scores(), 2, 1, out=(two, positions(23, 2)))
    show("topk", two)
    torch.aminmax(scores(), dim=1, out=(one, torch.zeros(23)))
    show("aminmax", one)
    full = scores() if rows is not None else torch.zeros(23, 4)
    for name, write in {
        "sort": lambda: torch.sort(scores(), 0, out=(full, positions(23, 4))),
        "xlogy": lambda: torch.xlogy(scores().exp(), scores().exp(), out=full),
        "cumsum": lambda: torch.cumsum(scores(), 0, out=full),
        "bernoulli": lambda: torch.bernoulli(torch.sigmoid(scores()), out=full),
        "add": lambda: torch.add(scores(), 1, out=full),
    }.items():
        write()
        show(name, full)


@torch.no_grad()
def out_of_sums():
    total = scores().sum(0)
    torch.add(torch.ones(4), 1, out=total)
    show("ones", total)
    torch.mean(scores(), 0, out=total)
    show("mean", total)
    torch.max(scores(), 0, out=(total, positions(4)))
    show("largest", total)


@torch.no_grad()
def lists():
    whole, rows, other, total = torch.ones(4), scores(), scores(), scores().sum(0)
    torch._foreach_mul_([whole, rows], 2.0)
    torch._foreach_exp_([rows, other])
    torch._foreach_add_([whole, total], 1.0)
    torch._foreach_neg_([total, rows])
    show("lists", whole, rows, other, total)


@torch.no_grad()
def statistics():
    mean, variance = scores().mean(0), scores().pow(2).mean(0)
    normalised = functional.batch_norm(images[:, :4] + scores(), mean, variance, training=True)
    show("statistics", normalised, mean, variance)


def sums():
    """Barlow Twins: the diagonal of the correlation of two halves of the batch is changed in place."""
    rows = scores()
    correlation = rows.t() @ rows.flip(1)
    correlation.div_(23)
    on = torch.diagonal(correlation).add_(-1).pow_(2).sum()
    off = correlation.flatten()[:-1].view(3, 5)[:, 1:].flatten().pow(2).sum()
    root = rows.pow(2).sum()
    root.sqrt_()
    mean = rows.mean(0)
    mean[1] = 5
    mean[rows.sum(0) > 0] *= 2
    mean[2:].tanh_()
    (on + off + root + mean.sum()).backward()
    show("sums", on, off, root, mean)
    counts = (rows > 0).sum(0)
    counts.clamp_(max=12)
    gram = (rows.t() @ rows).detach()
    gram.fill_diagonal_(3.0)
    bits = rows.detach().sum(0)
    show("counts", counts, gram, bits.view(torch.int32) * 0, bits.sum(dtype=torch.int64))


def views():
    """Roots that have been written through a view since they were computed."""
    loss = scores().pow(2).mean()
    loss.view(1).mul_(3)
    loss.backward()
    loss = scores().pow(2).mean(0)
    loss[1:].add_(3).mul_(2)
    loss.backward(torch.ones(4))
    rows = scores()
    rows[0].mul_(3)
    rows.backward(torch.ones(23, 4))
    for view in [torch.t, torch.flatten, lambda rows: rows[:, 2], lambda rows: rows.t()[1:].unsqueeze(0)]:
        rows = scores() * 1
        stale = view(rows)
        rows.mul_(2).tanh_()
        stale.backward(torch.arange(stale.numel()).reshape(stale.shape) / 10)
        show("stale", stale)


@torch.no_grad()
def bits():
    """A sum seen as another type, of whole numbers, whose every bit is known: written on one side and read on the other, to and fro."""
    total = scores().mul(8).round().sum(0)
    halves, signs = total.view(torch.float16), total.view(torch.int32)
    total.add_(1)
    show("signs", signs.view(torch.float32))
    signs.bitwise_xor_(-2**31)
    show("total", total)
    total[1:3] *= 2
    signs[3] = 0
    show("signs", signs.view(torch.float32), total)
    print(halves.sum().isnan().item(), signs[3].item(), halves[6:].tolist())
    for same in [torch.empty(0).set_(total), torch.ops.aten.lift_fresh(total)]:
        total.mul_(2)
        show("same", same)
        same.add_(1)
        show("total", total)


def gradients():
    """What the program sets as gradients, before a backward of divided rows and one of parameters only."""
    first.weight.grad = torch.zeros(8, 6)
    first.bias.grad = first(images).detach().mean(0)
    second.weight.grad = (scores().t() @ first(images)).detach()
    functional.cross_entropy(scores(), targets).backward()
    second.bias.grad = scores().detach().sum(0)
    (second.bias.pow(2).sum() + first.weight.sum()).backward()
    table = torch.nn.Parameter(torch.ones(23, 4))
    table.grad = scores().detach()
    (table * scores()).sum().backward()
    show("table", table.grad)


def many():
    losses = [(scores().mean() * number).detach() for number in range(40)]  # more than a call has arguments, otherwise
    stacked = torch.stack(losses)
    stacked -= stacked.mean()
    stacked[3] = 2
    joined = torch.cat([loss.view(1) for loss in losses])
    joined /= joined.std()
    scaled = torch._foreach_mul(losses, 0.3)
    scaled[1].add_(1)
    show("many", stacked, joined, *scaled)


out_of_rows(None)
with torch.no_grad():
    out_of_rows(scores())
for case in [out_of_sums, lists, statistics, sums, views, bits, gradients, many]:
    case()
    show("gradients", *[p.grad for p in parameters if p.grad is not None])
