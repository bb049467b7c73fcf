"""Arrays of one memory, in a forked child, too, no operator between what is written to one and what is read from the other: of all of a tensor and of its columns, through DLPack."""
import os
import sys

import torch
from torch import nn

torch.manual_seed(1)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)


def tell(what, tensor):
    print(what, *("%.4f" % number for number in tensor.flatten().tolist()))


def hidden():
    with torch.no_grad():
        return layer(rows).clone()


def numbers(what, *arrays):
    print(what, *("%.4f" % number for array in arrays for number in array.ravel()))


def pairs_of_arrays():
    """No operator between what is written to one and what is read from the other."""
    every = lambda h: h.numpy()
    for name, one, other in (
        ("columns after all", every, lambda h: h[:, 1:3].numpy()),
        ("columns before all", lambda h: h[:, 1:3].numpy(), every),
        ("columns", lambda h: h[:, 1:4].numpy(), lambda h: h[:, 2:5].numpy()),
        ("a column, twice", lambda h: h[:, 1].numpy(), lambda h: h[:, 1].numpy()),
        ("turned", lambda h: h.t().numpy(), lambda h: h[:, 2].numpy()),
        ("capsule after all", every, lambda h: torch.from_dlpack(h).numpy()),
        ("capsule before all", lambda h: torch.from_dlpack(h).numpy(), every),
        ("capsule of columns", every, lambda h: torch.from_dlpack(h[:, 2:]).numpy()),
        ("sum and part", None, lambda s: s[1:4].numpy()),
        ("sum, viewed", None, lambda s: s.view(2, 3).numpy()),
        ("part of a sum, capsule", None, lambda s: torch.from_dlpack(s[1:5]).numpy()),
    ):
        for first in False, True:
            seen = hidden() if one and other else hidden().sum(0)
            ask = one or every, other or every
            arrays = [ask[first](seen), ask[not first](seen)]
            arrays[0][...] += 1
            arrays[1][0] = 9
            numbers(name, *arrays)
            tell("tensor", seen)
            seen.mul_(2)
            numbers(name, *arrays)


def as_other_types():
    for first in False, True:
        h = hidden()
        both = torch.complex(h[:, :3].contiguous(), h[:, 3:].contiguous())
        asks = [lambda: both.numpy(), lambda: torch.view_as_real(both).numpy(), lambda: torch.from_dlpack(torch.view_as_real(both)).numpy(), lambda: both.imag.numpy()]
        arrays = [ask() for ask in (reversed(asks) if first else asks)]
        arrays[0][3] = 5
        arrays[3][4] = 7
        for array in arrays:
            print("types", str(array[2:5].tolist()).replace(" ", ""))
        tell("tensor", torch.view_as_real(both))
    total = hidden()[:, 1:].sum(0)
    pairs = torch.view_as_complex(total[:4].view(2, 2))
    array, taken = total.numpy(), torch.from_dlpack(pairs).numpy()
    taken[1] = 3 + 4j
    numbers("pairs of an odd number", array)


def in_a_child():
    h = hidden()
    columns, total = h[:, 1:3], h.sum(0)
    viewed = total.view(2, 3)
    for tensor in columns, viewed, total, h.t():
        tensor.numpy()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        tell("columns", columns)
        tell("sums", viewed)
        columns.add_(1)
        tell("written", h.t()[1])
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    tell("parent", h)


pairs_of_arrays()
as_other_types()
in_a_child()
