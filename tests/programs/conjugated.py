"""Memory that a program reads in two ways: as what lies there, and conjugated or negated."""
import torch
from torch import nn

torch.manual_seed(1)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)


def tell(what, *tensors):
    print(what, *("%.4f" % number for tensor in tensors for number in tensor.detach().flatten().tolist()))


def turned():
    """A complex tensor, with a history where gradients are on."""
    both = layer(rows)
    return torch.complex(both[:, :3].contiguous(), both[:, 3:].contiguous())


def parts(tensor):
    return torch.view_as_real(tensor.resolve_conj())


def conjugated():
    values = turned()
    for name, ask in (
        ("row", lambda z: z.conj()[3]),
        ("rows", lambda z: z.conj()[2:5]),
        ("part", lambda z: z.conj()[1:, 1]),
        ("chosen", lambda z: z.conj()[[1, 2]]),
        ("joined", lambda z: torch.cat([z.conj(), z.conj()])),
        ("turned", lambda z: z.conj().flip(0)),
        ("expanded", lambda z: z.conj().unsqueeze(0).expand(2, -1, -1)[:, 1:]),
        ("sum", lambda z: z.sum(0).conj()[1:]),
    ):
        print(name, "conjugated", ask(values).is_conj(), "negated", ask(values).imag.is_neg())
        tell("values", parts(ask(values)))
        values = values * 1.25
    for resolved in False, True:
        values = turned()
        row = values.conj()[3]
        row = row.resolve_conj() if resolved else row
        row.mul_(2)
        tell("written", parts(row), parts(values)[2:5])
        values = turned()
        imaginary = values.conj().imag
        row = imaginary[3]
        row = row.resolve_neg() if resolved else row
        row.fill_(2)
        tell("written", row, imaginary[3], parts(values)[2:5])
    values = turned()
    opposite = values.conj()
    some = opposite[2:5]
    opposite[3] = 1 - 2j
    some[0] = 3 + 4j
    tell("both ways", parts(some), parts(values)[1:5])


def conjugated_gradients():
    for ask in (
        lambda z: z.conj()[3:].cumsum(0),
        lambda z: z.conj().flip(0)[3:] * z[3:],
        lambda z: z.conj().unsqueeze(0).expand(2, -1, -1)[:, 1:].cumsum(1),
        lambda z: z.conj().imag[5] * z.real[4],
    ):
        layer.zero_grad()
        asked = ask(turned())
        (asked.abs() if asked.is_complex() else asked).pow(2).sum().backward()
        tell("gradient", layer.weight.grad)
    layer.zero_grad()
    opposite = turned().conj()
    row = opposite[3]
    row.mul_(2 - 1j)
    opposite.mul_(3)
    (row.abs() + opposite[4].imag + opposite.abs().sum()).pow(2).sum().backward()
    tell("written", layer.weight.grad)


with torch.no_grad():
    conjugated()
conjugated()
conjugated_gradients()
