"""Cases of rule_sweep.py: operators that work along the rows themselves, dimension 0 or -2 (rows.NAME): order, running results, pieces, reductions, writes to
some rows."""
import torch
import torch.nn.functional as F

from rule_sweep_case import FLAT
from rule_sweep_case import table as enter

SOME = torch.tensor([0, 5, 2])


def table(kind, **functions):
    enter(kind, **{"rows." + name: function for name, function in functions.items()})


def targets(t):
    """For each row and column a row, some of them several times."""
    return (t.target.view(-1, 1) + torch.arange(FLAT)) % t.rows


def written(change):
    """The batch, after a change in place."""

    def run(h, m, t):
        x = h * 1
        change(x, m, t)
        return x

    return run


def own(m, t):
    return m.other(t.flat)


def refused(draw):
    """A draw into what may not be written to, a leaf that wants a gradient for one: the stream, shown by "next", stays where it was."""

    def write(h, m, t):
        try:
            draw(h)
        except RuntimeError:
            return h * 2

    return write


# ---- order and running results
table(
    "flat",
    draw_refused=refused(lambda h: h.detach().requires_grad_().normal_()),
    draw_refused_view=refused(lambda h: h.detach().requires_grad_()[:, :3].uniform_()),
    draw_refused_piece=refused(lambda h: h.chunk(2, 1)[0].normal_()),
    rrelu_refused=refused(lambda h: F.rrelu(h.detach().requires_grad_(), training=True, inplace=True)),
    logical_xor_of_sums=lambda h, m, t: torch.logical_xor((h.detach() * 0 + torch.arange(t.rows).view(-1, 1) * 2 - (t.rows - 1)).sum(0), h.detach().abs().sum(0)).float(),
    zeta_of_sums=lambda h, m, t: torch.special.zeta(*((h.detach() * 0 + total / t.rows).sum(0) for total in (2.5, 1.5))),
    cumprod=lambda h, m, t: h.cumprod(0),
    cumprod_from_last=lambda h, m, t: h.cumprod(-2),
    cumprod_in_place=written(lambda x, m, t: x.cumprod_(0)),
    cumsum_in_place=written(lambda x, m, t: x.cumsum_(0)),
    cumsum_double=lambda h, m, t: h.cumsum(-2, dtype=torch.double),
    cumsum_out=lambda h, m, t: torch.cumsum(h.detach(), 0, out=torch.empty(0)) * h,
    logcumsumexp=lambda h, m, t: h.logcumsumexp(0),
    cummax=lambda h, m, t: list(h.cummax(0)),
    cummin=lambda h, m, t: list(h.cummin(-2)),
    sort=lambda h, m, t: list(h.sort(0)),
    sort_descending=lambda h, m, t: list(h.sort(0, descending=True)),
    sort_stable=lambda h, m, t: list(torch.sort((h * 2).round(), stable=True, dim=0)),
    argsort_descending=lambda h, m, t: h.argsort(0, descending=True).float(),
    topk=lambda h, m, t: list(h.topk(3, 0)),
    topk_smallest=lambda h, m, t: list(h.topk(2, -2, largest=False)),
    kthvalue=lambda h, m, t: list(h.kthvalue(2, 0)),
    kthvalue_kept=lambda h, m, t: list(h.kthvalue(3, -2, keepdim=True)),
    median=lambda h, m, t: list(h.median(0)),
    median_kept=lambda h, m, t: list(h.median(-2, keepdim=True)),
    nanmedian=lambda h, m, t: list(h.masked_fill(t.mask, float("nan")).nanmedian(0)),
    nanmedian_all=lambda h, m, t: h.masked_fill(t.mask, float("nan")).nanmedian(),
    mode=lambda h, m, t: list((h * 2).round().mode(0)),
    mode_kept=lambda h, m, t: list((h * 2).round().mode(0, keepdim=True)),
    quantile=lambda h, m, t: h.quantile(0.3, 0),
    quantile_several=lambda h, m, t: h.quantile(torch.tensor([0.2, 0.7]), 0, keepdim=True),
    quantile_nearest=lambda h, m, t: h.quantile(0.3, -2, interpolation="nearest"),
    nanquantile=lambda h, m, t: h.masked_fill(t.mask, float("nan")).nanquantile(0.3, 0),
    unique=lambda h, m, t: [part.float() for part in torch.unique((h > 0).long(), dim=0, return_inverse=True, return_counts=True)],
    unique_consecutive=lambda h, m, t: [part.float() for part in torch.unique_consecutive((h[:, :1] > 0).long(), dim=0, return_inverse=True, return_counts=True)],
    rot90=lambda h, m, t: h.rot90(),
    flipud=lambda h, m, t: torch.flipud(h),
    flip_both=lambda h, m, t: h.flip(0, 1),
    roll_both=lambda h, m, t: h.roll((2, 3), (0, 1)),
    diff_twice=lambda h, m, t: h.diff(n=2, dim=0),
    diff_with=lambda h, m, t: h.diff(dim=0, prepend=t.noise[:1], append=own(m, t)[:2]),
    gradient=lambda h, m, t: torch.gradient(h, dim=0),
    trapezoid=lambda h, m, t: torch.trapezoid(h, dx=0.5, dim=0),
    cumulative_trapezoid=lambda h, m, t: torch.cumulative_trapezoid(h, dim=0),
    renorm=lambda h, m, t: h.renorm(2, 0, 1.0),
    fft=lambda h, m, t: torch.view_as_real(torch.fft.fft(h, n=8, dim=0)),
    rfft=lambda h, m, t: torch.fft.irfft(torch.fft.rfft(h, dim=-2) * 2, dim=-2),
    fftshift=lambda h, m, t: torch.fft.fftshift(h, dim=0),
    softmin=lambda h, m, t: F.softmin(h, -2),
    log_softmax=lambda h, m, t: h.log_softmax(-2),
    glu=lambda h, m, t: F.glu(h, 0),
    cosine_similarity=lambda h, m, t: F.cosine_similarity(h, own(m, t), dim=0),
    normalize=lambda h, m, t: F.normalize(h, p=1, dim=-2),
)

# ---- reductions
table(
    "flat",
    amin=lambda h, m, t: h.amin(0, keepdim=True),
    aminmax=lambda h, m, t: list(torch.aminmax(h, dim=0, keepdim=True)),
    max_kept=lambda h, m, t: list(h.max(-2, keepdim=True)),
    min=lambda h, m, t: list(h.min(0)),
    argmin=lambda h, m, t: h.argmin(0, keepdim=True).float(),
    argmax_from_last=lambda h, m, t: h.argmax(-2).float(),
    all=lambda h, m, t: (h > -1).all(0, keepdim=True).float(),
    any=lambda h, m, t: (h > 1).any(-2, keepdim=True).float(),
    count_nonzero=lambda h, m, t: (h > 0).count_nonzero(0).float(),
    sum_kept=lambda h, m, t: h.sum(-2, keepdim=True) + h,
    mean_kept=lambda h, m, t: h.mean((0, 1), keepdim=True) * h,
    nanmean=lambda h, m, t: h.masked_fill(t.mask, float("nan")).nanmean(0, keepdim=True),
    prod_kept=lambda h, m, t: h.tanh().prod(0, keepdim=True),
    logsumexp_kept=lambda h, m, t: h.logsumexp((0, 1), keepdim=True) - h,
    std_biased=lambda h, m, t: h.std(0, unbiased=False, keepdim=True),
    std_correction=lambda h, m, t: torch.ops.aten.std.correction(h, [0], correction=0, keepdim=True),
    var_correction=lambda h, m, t: torch.ops.aten.var.correction(h, [0, 1], correction=2),
    var_mean_correction=lambda h, m, t: list(torch.ops.aten.var_mean.correction(h, [-2], correction=0, keepdim=True)),
    std_mean_biased=lambda h, m, t: list(torch.std_mean(h, 0, unbiased=False)),
    norm_one=lambda h, m, t: h.norm(1, 0, keepdim=True),
    norm_three=lambda h, m, t: h.norm(3, 0),
    norm_largest=lambda h, m, t: torch.linalg.vector_norm(h, float("inf"), 0),
    norm_of_matrix=lambda h, m, t: torch.linalg.matrix_norm(h, 1),
    vector_norm_both=lambda h, m, t: torch.linalg.vector_norm(h, 2, (0, 1), keepdim=True) * h,
)

# ---- pieces
table(
    "flat",
    tensor_split=lambda h, m, t: list(h.tensor_split(3)),
    tensor_split_at=lambda h, m, t: list(h.tensor_split((1, 4))),
    tensor_split_tensor=lambda h, m, t: list(torch.tensor_split(h, torch.tensor([2, 5]))),
    vsplit=lambda h, m, t: list(torch.vsplit(h, [3])),
    chunk=lambda h, m, t: list(h.chunk(3)),
    split=lambda h, m, t: list(h.split([2, 1, t.rows - 3], -2)),
    unbind=lambda h, m, t: list(h.unbind(-2))[:4],
    narrow_copy=lambda h, m, t: torch.narrow_copy(h.detach(), 0, 1, 3),
    unfold_step=lambda h, m, t: h.unfold(-2, 3, 3),
    select_last=lambda h, m, t: h.select(-2, -1) * h.select(0, 0),
    take_along=lambda h, m, t: torch.take_along_dim(h, h.argsort(0)[:3], 0),
    gather_own=lambda h, m, t: h.gather(0, targets(t)),
    index_select_some=lambda h, m, t: h.index_select(-2, SOME),
)

# ---- writes to some rows, from the program's own tensor and from another batch
table(
    "flat",
    index_copy=lambda h, m, t: h.index_copy(0, SOME, t.noise[:3]),
    index_copy_all=lambda h, m, t: h.index_copy(0, t.order, own(m, t)),
    index_copy_into=lambda h, m, t: torch.zeros(t.rows, FLAT).index_copy(0, t.order, h),
    index_copy_in_place=written(lambda x, m, t: x.index_copy_(-2, SOME, own(m, t)[1:4])),
    index_fill=lambda h, m, t: h.index_fill(0, SOME, 1.5),
    index_fill_in_place=written(lambda x, m, t: x.index_fill_(-2, SOME, 0.5)),
    index_add=lambda h, m, t: h.index_add(0, torch.tensor([0, 2, 2]), t.noise[:3], alpha=2),
    index_add_all=lambda h, m, t: h.index_add(0, t.target, own(m, t)),
    index_add_in_place=written(lambda x, m, t: x.index_add_(0, t.order, t.noise)),
    index_put_accumulate=lambda h, m, t: h.index_put((t.target,), own(m, t), accumulate=True),
    scatter=lambda h, m, t: h.scatter(0, t.order[:2].view(-1, 1).expand(-1, FLAT), t.noise[:2]),
    scatter_value=lambda h, m, t: h.scatter(0, t.order[:2].view(-1, 1).expand(-1, FLAT), 0.5),
    scatter_all=lambda h, m, t: torch.zeros(t.rows, FLAT).scatter(0, t.order.view(-1, 1).expand(-1, FLAT), h),
    scatter_add=lambda h, m, t: h.scatter_add(0, targets(t), own(m, t)),
    scatter_add_in_place=written(lambda x, m, t: x.scatter_add_(-2, targets(t), t.noise)),
    scatter_multiply=lambda h, m, t: h.detach().scatter(0, t.order[:2].view(-1, 1).expand(-1, FLAT), t.noise[:2], reduce="multiply"),
    put=lambda h, m, t: h.put(torch.tensor([0, FLAT, 3 * FLAT + 1]), torch.tensor([0.1, 0.2, 0.3])),
    put_accumulate=written(lambda x, m, t: x.put_(torch.tensor([0, FLAT, FLAT]), torch.tensor([0.1, 0.2, 0.3]), accumulate=True)),
    select_scatter=lambda h, m, t: torch.select_scatter(h, t.noise[0], 0, 2),
    select_scatter_own=lambda h, m, t: torch.select_scatter(h, own(m, t)[1], -2, 3),
    slice_scatter=lambda h, m, t: torch.slice_scatter(h, own(m, t)[1:4], 0, 2, 5, 1),  # 1.13 makes up a step that is not given
    diagonal_scatter=lambda h, m, t: torch.diagonal_scatter(h, t.noise[0, : min(t.rows, FLAT)]),
    fill_diagonal=written(lambda x, m, t: x.fill_diagonal_(0.5)),
)
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    table("flat", **{
        f"scatter_reduce_{reduce}": lambda h, m, t, reduce=reduce: h.scatter_reduce(0, targets(t), own(m, t), reduce),
        f"scatter_reduce_{reduce}_alone": lambda h, m, t, reduce=reduce: h.scatter_reduce(-2, targets(t), t.noise, reduce, include_self=False),
        f"scatter_reduce_{reduce}_into": lambda h, m, t, reduce=reduce: torch.ones(6, FLAT).scatter_reduce(0, t.target.view(-1, 1).expand(-1, FLAT), h, reduce),
        f"scatter_reduce_{reduce}_columns": lambda h, m, t, reduce=reduce: h.scatter_reduce(1, targets(t) % FLAT, own(m, t), reduce),
    })  # fmt: skip
for reduce in ("prod", "mean", "amax", "amin"):
    table("flat", **{f"index_reduce_{reduce}": lambda h, m, t, reduce=reduce: h.detach().index_reduce(0, t.target, t.noise, reduce, include_self=reduce != "amax")})
