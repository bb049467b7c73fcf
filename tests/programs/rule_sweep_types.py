"""Cases of rule_sweep.py: each type of element through each family of operators (type.NAME:operation). A divided batch is converted, so it has a
history where the type can have one."""
import torch
import torch.nn.functional as F

from rule_sweep_case import CASES, FLAT

FLOATS = ("float64", "float32", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
COMPLEX = ("complex64", "complex128")


def batch(m, t, name):
    h = m.keep(m.flat(t.flat)).clamp(-2, 2)
    dtype = getattr(torch, name)
    if name in INTEGERS:
        return (h.abs() * 10).to(dtype)
    if name == "bool":
        return h > 0.1
    return torch.complex(h, h.flip(1)).to(dtype) if name in COMPLEX else h.to(dtype)


def whole(t, name):
    """The same kind of values, not divided."""
    if name == "bool":
        return t.noise > 0
    return (t.noise.abs() * 10).to(getattr(torch, name)) if name in INTEGERS else t.noise.to(getattr(torch, name))


def operations(names, **functions):
    for name in names:
        for operation, function in functions.items():
            CASES[f"type.{name}:{operation}"] = (lambda name, function: lambda m, t: function(batch(m, t, name), whole(t, name)))(name, function)


def filled(x):
    x = x.clone()
    x[:, 1:3] = x[:, 4:6]
    x[:, 0] = 1
    return x


ALL = FLOATS + INTEGERS + COMPLEX + ("bool",)
operations(
    ALL,
    cat=lambda x, y: torch.cat([x, y], 1),
    cat_rows=lambda x, y: torch.cat([x, y]),
    stack=lambda x, y: torch.stack([x, y]),
    where=lambda x, y: torch.where(y.abs() > 0 if y.dtype != torch.bool else y, x, y),
    index=lambda x, y: x[:, [0, 3, 3]],
    index_rows=lambda x, y: x[[0, 3, 3]],
    gather=lambda x, y: x.gather(1, torch.zeros(x.shape[0], 2, dtype=torch.long)),
    scatter=lambda x, y: x.scatter(1, torch.zeros(x.shape[0], 1, dtype=torch.long), y),
    masked_fill=lambda x, y: x.masked_fill(torch.arange(FLAT) % 3 == 0, 1),
    equal=lambda x, y: (x == y).sum(),
    write=lambda x, y: filled(x),
    roll=lambda x, y: x.roll(1, 1).flip(1),
    views=lambda x, y: x.view(-1, 3, 4).transpose(1, 2).reshape(-1, 12)[:, 1:],
    cumsum=lambda x, y: x.cumsum(1),
    total=lambda x, y: x.sum(),
    rows=lambda x, y: x.sum(0),
    columns=lambda x, y: x.sum(1),
    nonzero=lambda x, y: x.count_nonzero(),
    numbers=lambda x, y: torch.tensor(x.tolist()),
)
operations(FLOATS + INTEGERS + COMPLEX, arithmetic=lambda x, y: x * y + 2 * x - y, in_place=lambda x, y: x.clone().add_(y).mul_(2), product=lambda x, y: x.prod(1), power=lambda x, y: x ** 2)
operations(FLOATS + COMPLEX, matmul=lambda x, y: x @ y.t(), mean=lambda x, y: x.mean(), mean_rows=lambda x, y: x.mean(0), divided=lambda x, y: x / (y.abs() + 1), batched=lambda x, y: x.view(-1, 3, 4) @ y.view(-1, 4, 3), contracted=lambda x, y: x.t() @ y)  # fmt: skip
operations(FLOATS + INTEGERS + ("bool",), sort=lambda x, y: x.sort(1).values, sort_rows=lambda x, y: x.sort(0).values, largest=lambda x, y: x.max(), maximum=lambda x, y: torch.maximum(x, y), argmax=lambda x, y: x.int().argmax(1))
operations(FLOATS, softmax=lambda x, y: x.softmax(1), layer_norm=lambda x, y: F.layer_norm(x, (FLAT,)), mse_loss=lambda x, y: F.mse_loss(x, y), norm=lambda x, y: x.norm(dim=1), gelu=lambda x, y: F.gelu(x), std=lambda x, y: x.std(0), cross_entropy=lambda x, y: F.cross_entropy(x, y.argmax(1)))  # fmt: skip
operations(INTEGERS + ("bool",), bits=lambda x, y: (x & y) | ~x, logic=lambda x, y: torch.logical_xor(x, y), any=lambda x, y: x.any(), all=lambda x, y: x.all(), any_rows=lambda x, y: x.any(0), all_columns=lambda x, y: x.all(1))
operations(COMPLEX, conj=lambda x, y: x.conj() * y, parts=lambda x, y: x.real + x.imag, absolute=lambda x, y: x.abs(), angle=lambda x, y: x.angle(), view=lambda x, y: torch.view_as_real(x), resolved=lambda x, y: x.conj().resolve_conj())
