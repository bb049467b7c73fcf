"""Writing to what a layer computed, in place: rows, slices of rows, elements, through views, before and after they are read."""
import torch
from torch.nn import functional

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
parameters = [*first.parameters(), *second.parameters()]


def show(name, tensor):
    print(f"{name} {tuple(tensor.shape)} {tensor.double().norm().item():.5f} {tensor.reshape(-1)[-1].item():.5f}")


def row(h):
    h[3] = 1
    h[-1] = h[0] * 2


def rows(h):
    h[2:5] = 0.5
    h[10:14] = second.weight[0].repeat(4, 1)
    h[::4] *= 3


def elements(h):
    h[7, 2] = 4
    h[20, 1:3] += second.bias[:2]
    h[[1, 5, 5], [0, 1, 2]] = 7


def by_view(h):
    h.view(23, 2, 4)[5, 1] = 2
    h.select(0, 6).copy_(torch.arange(8.0))
    h.narrow(0, 8, 3).mul_(2).add_(1)
    h.t()[:, 4].fill_(9)


def lists(h):
    h[torch.arange(23), targets] -= 1
    h[targets == 1] = 0
    h.index_fill_(0, torch.tensor([2, 9]), -1.0)
    h.index_copy_(0, torch.tensor([4, 11]), torch.ones(2, 8))
    h.scatter_(0, torch.zeros(1, 8, dtype=torch.long), 5.0)


def kept(h):
    """Views that stay in use see later writes, and the tensor sees theirs."""
    with torch.no_grad():
        top, again, part = h[:3], h[1], h[1:, 2]
        h.mul_(2)
        show("top", top)
        top[1] += 1
        show("again", again)
        again.zero_()
        show("part", part)
        part += 1
        show("top", top)
        values = h.detach().numpy()
        h[2] = 6
        print(f"numpy {values[2].sum():.4f} {values.sum():.4f}")


def arrays(h):
    """numpy arrays of rows: written before and after an operator."""
    with torch.no_grad():
        array = h.detach()[5].numpy()
        array[1:3] = 2
        show("array", h)
        array += 1
        h.add_(1)
        print(f"array {array.sum():.4f}")


def looked_at(h):
    """A view with a history that has been looked at, and is gone, when the memory is written again."""
    values = h.detach().numpy()
    values[0] = 5
    view = h[0]
    print("view", f"{view.sum().item():.4f} {len(str(view))}")
    del view
    values[1] = 2
    show("written again", h)


def many_kept(h):
    """Arrays kept from every step, of rows, of a row and of losses: what is written to one of them later, before an operator or a backward, still arrives."""
    kept = []
    for step in range(24):
        one, other = (first(images) * 1 for _ in range(2))
        loss = functional.cross_entropy(second(one), targets)
        kept += [(array, array.numpy()) for array in (one.detach(), other.detach()[step % 8], loss.detach(), (h.detach() * step)[1:])]
        for age in {step, step // 2}:
            for place, (_, array) in enumerate(kept[4 * age:4 * age + 4]):
                array.reshape(-1)[:2] = step + place
        loss.backward()
        h.mul_(0.5) if step % 6 == 5 and not h.requires_grad else None
    print("kept", *(f"{array.sum():.3f}" for _, array in kept))
    print("tensors", *(f"{tensor.sum().item():.3f}" for tensor, _ in kept))
    early = first(images) * 1
    product = (early * early).sum()
    array = early.detach().numpy()
    product.item()
    array[3:20] = 2  # the backward reads it
    second.weight.grad = first.weight.grad = None
    product.backward()
    show("gradient", first.weight.grad)


def two_of_one(h):
    """An array of a row and one of all rows, written in turns: the row's is taken back before an operator on something else."""
    d = h.detach()
    all_rows, row = d.numpy(), d[1].numpy()
    for step in range(3):
        row[step] = 7
        print("between", f"{(first(images) * 1).sum().item():.4f}")
        all_rows[1:3, step + 1] = -2
        print("after", f"{d.sum().item():.4f} {row.sum():.4f} {all_rows.sum():.4f}")


def shown_anew(h):
    """What an operator writes is seen through arrays of rows and of columns, and is nobody's write through any of them."""
    d = h.detach()
    all_rows, row = d.numpy(), d[1].numpy()
    d.mul_(2)
    all_rows[0] = 1
    print("all rows", f"{d.sum().item():.4f} {row.sum():.4f}")
    all_rows[1] = 5
    d.clamp_(max=9)
    all_rows[1] = 6
    d.clamp_(max=9)
    row[2] = 4
    print("again", f"{d.sum().item():.4f} {row.sum():.4f} {all_rows.sum():.4f}")
    column = d[:, :2][1].numpy()
    d.mul_(3)
    print("columns", f"{d.sum().item():.4f} {row.sum():.4f} {column.sum():.4f}")
    d[1].add_(1)
    print("by a view", f"{d.sum().item():.4f} {row.sum():.4f} {column.sum():.4f}")
    column[1] = -3
    print("by a column", f"{d.sum().item():.4f} {row.sum():.4f} {column.sum():.4f}")


def whole(h):
    h.copy_(torch.sort(h, 0)[0])
    h.clamp_(-1, 1).t_().t_()


for case in [row, rows, elements, by_view, lists, kept, arrays, looked_at, many_kept, two_of_one, shown_anew, whole]:
    for grad in [True, False]:
        hidden = first(images) * 1
        if not grad:
            hidden = hidden.detach()
        case(hidden)
        show(case.__name__, hidden)
        out = second(hidden.tanh())
        loss = functional.cross_entropy(out, targets)
        print(f"loss {loss.item():.5f}")
        loss.backward()
        with torch.no_grad():
            for parameter in parameters:
                if parameter.grad is not None:
                    show("parameter", parameter.grad)
                    parameter -= 0.1 * parameter.grad
                parameter.grad = None

# A batch, and labels, that are written between the forward and the backward: autograd notices by their version.
for written in ["images", "targets"]:
    batch, labels = images.clone(), targets.clone()
    loss = functional.cross_entropy(second(first(batch)), labels)
    (batch if written == "images" else labels).add_(0)
    try:
        loss.backward()
    except RuntimeError as error:
        print(written, str(error).split(":")[0])

# A whole operand of divided rows: kept for the backward, read, written before it, a view of something else.
weights = torch.rand(len(images), 1)
wide = torch.rand(len(images), 2, 3)
for written in [None, "weights", "wide"]:
    rows = first(images)
    products = [rows * weights, rows[:, :3] * wide[:, 0], rows * weights.expand(len(images), rows.shape[1]), rows + weights.t().t()]
    show("products", sum(product.sum() for product in products))
    if written:
        (weights if written == "weights" else wide).mul_(2)
    try:
        sum(product.square().mean() for product in products).backward()
        show("gradient", first.weight.grad)
    except RuntimeError as error:
        print(written, str(error).split(":")[0])
    first.weight.grad = None

# Reads what it writes: libtorch refuses it.
rows = first(images).detach()
try:
    rows.scatter_(0, torch.zeros_like(rows, dtype=torch.long), rows)
except RuntimeError as error:
    print(str(error).split(".")[0])
show("not written", rows)

# A row of what must not be written: nothing has been when libtorch says so.
rows = first(images).detach().requires_grad_()
row = rows[3]
try:
    row.mul_(2)
except RuntimeError as error:
    print(str(error).split(".")[0])
show("not written", row)
show("not written", rows)
# Its values may be.
before = rows.square().sum()
rows[3].data.zero_()
before.backward()
show("kept", rows.grad)
rows.grad = None
rows[4].detach().fill_(2)
with torch.no_grad():
    rows[5].fill_(3)
    rows[6] = 4
rows.square().sum().backward()
show("written", rows)
show("gradient", rows.grad)

# Sizes that libtorch refuses.
rows = first(images)
for sizes in [(-1, -1), (-2, 4), (5, 5), (0, -1), (-1, 0), (len(images) + 1, -1)]:
    try:
        show("sizes", rows.view(sizes))
    except RuntimeError as error:
        print(sizes, error)
