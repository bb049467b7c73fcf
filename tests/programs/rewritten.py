"""Views of rows of a divided tensor that live on while the tensor is written: they show what was written, and their history is then that of the tensor."""
import torch

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
images = torch.randn(13, 4)
layer = torch.nn.Linear(4, 3)


def value(tensor):
    print(f"{tensor.requires_grad} {tensor.sum().item():.9f}")


def scaled(h):
    row, rows = h[2], h[3:7]
    h.mul_(2)
    value(row)
    return row.pow(2).sum() + rows.sin().sum() + h.sum()


def read_before(h):
    row = h[2]
    tripled = row * 3
    h[5] = 1
    return tripled.sum() + row.exp().sum() + h.sin().sum()


def saved_before(h):  # libtorch refuses the backward: what it needs was written
    row = h[2]
    squared = row * row
    h.mul_(2)
    return squared.sum() + h.sum()


def through_another_view(h):
    row, rows = h[2], h[4:8]
    rows.mul_(3)
    value(row)
    return row.exp().sum() + rows.sin().sum() + h.cos().sum()


def in_turn(h):
    low, high = h[:6], h[6:]
    h.add_(1)
    low.mul_(2)
    high.mul_(3)
    value(low)
    value(high)
    return low.sin().sum() + high.cos().sum() + h.pow(2).sum()


def becomes_differentiable(h):
    plain = h.detach()
    row = plain[2]
    value(row)
    plain.mul_(layer.bias.sum())
    value(row)
    return row.pow(2).sum()


def several_outputs(h):  # libtorch refuses the use of the row: it is one of several outputs
    rows = h.unbind(0)
    h.mul_(2)
    return rows[3].sum()


def without_gradients(h):
    row = h[2]
    with torch.no_grad():
        h.mul_(2)
    value(row)
    return row.pow(2).sum() + h.exp().sum()


def overwritten(h):
    row = h[2]
    h.fill_(3)
    value(row)
    return row.exp().sum() + h.sum()


def overwritten_in_part(h):
    rows = h[2:9:2]
    h.masked_fill_(images[:, :3] > 0, 0.25)
    value(rows)
    return rows.cos().sum() + h.sum()


def one_after_another(h):
    row = h[2]
    h.mul_(2)
    h.mul_(3)
    again = h[2]
    h.add_(row.detach().sum())
    return row.sum() * again.sin().sum()


def differentiated_twice(h):
    row = h[2]
    h.mul_(2)
    (gradient,) = torch.autograd.grad(row.pow(2).sum(), layer.weight, create_graph=True)
    return gradient.pow(2).sum()


def sum_as_complex(h):
    total = torch.stack([h.sum(0), h.sin().sum(0)], -1)
    number = torch.view_as_complex(total)
    total.mul_(2)
    return number.abs().sum() + total.sum()


for use in [scaled, read_before, saved_before, through_another_view, in_turn, becomes_differentiable, several_outputs, without_gradients, overwritten,
            overwritten_in_part, one_after_another, differentiated_twice, sum_as_complex]:
    print(use.__name__)
    layer.zero_grad()
    try:
        use(layer(images)).backward()
    except RuntimeError as error:
        print(str(error)[:50])
        continue
    for parameter in layer.parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        print(f"{(gradient.reshape(-1) * torch.arange(1.0, parameter.numel() + 1)).sum().item():.9f}")
