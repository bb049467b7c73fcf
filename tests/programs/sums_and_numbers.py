"""Sums over the batch with numbers of Python, with zeros and infinities."""
import os

import torch

torch.manual_seed(0)
model, batch = torch.nn.Linear(6, 5), torch.randn(13, 6)
hidden = model(batch)
hits, loss = (hidden > 0).sum(0), hidden.mean()


def show(name, tensor):
    print(name, tensor.dtype, tuple(tensor.shape), " ".join(f"{value:.6g}" for value in tensor.detach().double().flatten().tolist()))


for name, tensor in [("hits", hits), ("few", (hidden > 0).sum(dtype=torch.int32)), ("loss", loss), ("wide", hidden.double().sum(0))]:
    for number in [0.5, 1, True]:
        show(f"{name} + {number}", tensor + number)
        show(f"{number} + {name}", number + tensor)
        if number is not True:
            show(f"{name} - {number}", tensor - number)
            show(f"{number} - {name}", number - tensor)
    show(f"{name} + tensor", tensor + torch.tensor(2.5, dtype=torch.double))
    show(f"{name} + vector", tensor + torch.arange(5))
    show(f"{name} * 2.5", tensor * 2.5)
    show(f"{name} / 3", tensor / 3)

some = (torch.arange(13) < 2)[:, None] * hidden.detach().abs()
for name, tensor in [("some", some.sum()), ("each", some.sum(0)), ("loss", loss)]:
    for number in [0, 0.0, float("inf"), torch.zeros(()), torch.zeros(5), torch.tensor([1.0, 0, 2, 0, float("inf")])]:
        word = "%s" % (number if not torch.is_tensor(number) else number.tolist())
        show(f"{name} / {word}", tensor / number)
        show(f"{name} * {word}", tensor * number)

seconds = 0.1234567 * (1 + int(os.environ.get("ACCEL_RUN_RANK", 0)))  # as a clock gives them: for the log alone
rates = [(hidden > 0).float().sum() / seconds, loss.detach() / seconds, torch.stack([loss.detach(), torch.tensor(seconds)])]
hits += 1
loss = loss + 0.1
loss.backward()
show("gradient", model.weight.grad.norm())

hidden = model(batch)
(hidden.sum(0).sgn().sum() * hidden.mean() + hidden.sum().sgn()).backward()  # derivatives that have no memory, as they are zero everywhere
show("gradient of signs", model.weight.grad.norm())

# memory of which nothing is left, or taken: another rank has other things there
def empty(*sizes):
    return torch.empty(*sizes).fill_(0.25 + int(os.environ.get("ACCEL_RUN_RANK", 0)))


model.zero_grad()
hidden = model(batch)
places = torch.arange(13)[:, None].expand(13, 5)
for name, value in [("addmv", torch.addmv(empty(13), hidden, torch.ones(5), beta=0)),
                    ("select_scatter", torch.select_scatter(torch.select_scatter(empty(13, 2), hidden.sum(1), 1, 0), hidden.prod(1), 1, 1)),
                    ("index_reduce", empty(13, 5).index_reduce(0, torch.arange(13), hidden, "amax", include_self=False)),
                    ("scatter_reduce", empty(13, 5).scatter_reduce(1, torch.arange(5).expand(13, 5), hidden, "amax", include_self=False))]:
    value.pow(2).mean().backward(retain_graph=True)
    show(f"gradient of {name}", model.weight.grad.norm())
