"""Cases of rule_sweep.py: operators that torch's own functions end in and programs seldom name (inner.NAME). Called by name they have the rules of their
own, which the functions' rules keep from being reached otherwise. Operators that this build has not are no cases."""
import torch

from rule_sweep_case import CASES, CHANNELS, FLAT, SIDE

ATEN = torch.ops.aten


def inner(kind, **calls):
    for key, call in calls.items():
        name = key.removesuffix("__columns").removesuffix("__rows") if key.startswith("_") else key.split("__")[0]
        if hasattr(ATEN, name):
            CASES["inner." + key.replace("__", ".")] = (lambda call, name: lambda m, t: call(getattr(ATEN, name), m.behind(kind, t), m, t))(call, name)


def flag(value):
    """A result that is no tensor."""
    return torch.tensor(float(value))


def only_row(t, row):
    """One in this row, on one rank, else zero."""
    return (torch.arange(t.rows) == row % t.rows).float().view(-1, 1)


def heads(h):
    return h.view(-1, 1, 3, 4)


def volume(h):
    return h.unsqueeze(2)


inner(
    "flat",
    _softmax=lambda f, h, m, t: f(h, 1, False),
    _log_softmax=lambda f, h, m, t: f(h, 1, False),
    split__Tensor=lambda f, h, m, t: f.Tensor(h, 5, 1),
    split__rows=lambda f, h, m, t: f.Tensor(h, 5, 0),
    split__sizes=lambda f, h, m, t: f.sizes(h, [5, 7], 1),
    _reshape_alias=lambda f, h, m, t: f(h, [t.rows, 3, 4], [12, 4, 1]),
    _neg_view=lambda f, h, m, t: f(h).resolve_neg(),
    _conj_physical=lambda f, h, m, t: torch.view_as_real(f(torch.complex(h, h.flip(1)))),
    clip=lambda f, h, m, t: f(h, -0.2, 0.4),
    _prelu_kernel=lambda f, h, m, t: f(h, m.slope),
    native_layer_norm=lambda f, h, m, t: f(h, [FLAT], m.slope, None, 1e-5),
    _upsample_nearest_exact1d=lambda f, h, m, t: f(h.view(-1, 3, 4), [8]),
    _index_put_impl_=lambda f, h, m, t: f(h.clone(), [torch.arange(t.rows), torch.full((t.rows,), 3)], t.noise[:, 0]),
    _index_put_impl___columns=lambda f, h, m, t: f(h.clone(), [None, torch.tensor([0, 3])], t.noise[:, :2]),
    index_reduce=lambda f, h, m, t: f(h, 1, torch.tensor([0, 3]), t.noise[:, :2], "prod"),
    index_reduce__rows=lambda f, h, m, t: f(h.detach(), 0, torch.tensor([0, 3]), t.noise[:2], "amax"),
    _linalg_eigvals=lambda f, h, m, t: torch.view_as_real(f(h.view(-1, 3, 2, 2).matmul(h.view(-1, 3, 2, 2).mT)[:, 0])).sum(1),
    geqrf=lambda f, h, m, t: f(h.detach().view(-1, 4, 3)),
    renorm=lambda f, h, m, t: f(h, 2, 1, 1.0),
    renorm__rows=lambda f, h, m, t: f(h, 2, 0, 1.0),
    _scaled_dot_product_flash_attention_for_cpu=lambda f, h, m, t: f(heads(h), heads(h), heads(h))[0],
    _scaled_dot_product_attention=lambda f, h, m, t: f(heads(h), heads(h), heads(h))[0],
    _fused_sdp_choice=lambda f, h, m, t: flag(f(heads(h), heads(h), heads(h))),
    native_dropout=lambda f, h, m, t: f(h, 0.5, True),
    view__dtype=lambda f, h, m, t: f.dtype(h.detach(), torch.int32) // 65536,
    as_strided=lambda f, h, m, t: f(h, [t.rows, 3], [FLAT, 2]),
    new_empty_strided=lambda f, h, m, t: f(h, [3, 4], [4, 1]).fill_(2.0),
)  # fmt: skip

# What is asked of a batch as a whole.
inner(
    "flat",
    _is_any_true=lambda f, h, m, t: f((h > -9) & (only_row(t, -1) > 0)).float(),
    any__dims=lambda f, h, m, t: [f.dims(h > 0.4, [1]).float(), f.dims(h > 0.9, [0, 1]).float()] if hasattr(f, "dims") else h,
    all__dims=lambda f, h, m, t: [f.dims(h > -0.4, [1]).float(), f.dims(h > -9, [0, 1]).float()] if hasattr(f, "dims") else h,
    equal=lambda f, h, m, t: [flag(f(h, h * 1)), flag(f(h, t.noise)), flag(f(h, h + only_row(t, -1))), flag(f(h, h + only_row(t, 0)))],
    is_same_size=lambda f, h, m, t: [flag(f(h, t.noise)), flag(f(h, t.noise[:1])), flag(f(t.noise, h))],
)

inner(
    "image",
    _convolution=lambda f, h, m, t: f(h, m.image.weight.repeat(1, 2, 1, 1)[:, :CHANNELS], None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True),
    _adaptive_avg_pool2d=lambda f, h, m, t: f(h, [2, 2]),
    _adaptive_avg_pool3d=lambda f, h, m, t: f(volume(h), [1, 2, 2]),
    upsample_nearest3d=lambda f, h, m, t: f(volume(h), [2, SIDE + 2, SIDE + 2]),
    _upsample_nearest_exact3d=lambda f, h, m, t: f(volume(h), [2, SIDE + 2, SIDE + 2]),
    nll_loss2d=lambda f, h, m, t: f(h.log_softmax(1), t.image_target),
    nll_loss_nd=lambda f, h, m, t: f(h.log_softmax(1), t.image_target),
    nll_loss_nd__sum=lambda f, h, m, t: f(h.log_softmax(1), t.image_target, None, 2, -100),
)

inner(
    "scores",
    nll_loss=lambda f, h, m, t: f(h.log_softmax(1), t.target),
    nll_loss__weight=lambda f, h, m, t: f(h.log_softmax(1), t.target, torch.linspace(0.1, 1, h.size(1)), 1, 2),
    cross_entropy_loss=lambda f, h, m, t: f(h, t.target),
    cross_entropy_loss__none=lambda f, h, m, t: f(h, t.target, None, 0),
)

# Derivatives, as functions of custom autograd use them: of a batch and of what flows into it, both divided.
def derivative(of_result, *more):
    return lambda f, h, m, t: f(h * 0.5, (h * 3).sigmoid() if of_result else h, *more)


inner(
    "flat",
    gelu_backward=derivative(False),
    logit_backward=derivative(True),
    sigmoid_backward=derivative(True),
    silu_backward=derivative(False),
    tanh_backward=derivative(True),
    threshold_backward=derivative(False, 0.1),
    native_dropout_backward=lambda f, h, m, t: f(h, t.mask, 2.0),
    native_dropout_backward__divided=lambda f, h, m, t: f(h, h > 0, 2.0),
)


@torch.no_grad()
def bag(m, t, mode):
    """Bags of a divided list of rows: the tokens are what is divided."""
    tokens = m.behind("tokens", t)
    return ATEN._embedding_bag(m.table, tokens.reshape(-1), torch.arange(0, tokens.numel(), tokens.size(1)), False, mode)[0]


for mode, name in enumerate(("sum", "mean", "max")):
    CASES["inner._embedding_bag." + name] = (lambda mode: lambda m, t: bag(m, t, mode))(mode)
