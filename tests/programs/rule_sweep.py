"""Operators of torch, each in a small network: a layer, the operator, a loss, backward. Prints the loss and what the gradients are, so that
a run of several ranks can be compared with a plain one. Cases that are stopped by name can be left out:

    rule_sweep.py [--skip NAME,NAME...] [--only NAME,NAME...] [--from NAME] [--announce]
"""
import math
import sys

import torch
import torch.utils.checkpoint
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_num_threads(1)

FLAT, CHANNELS, SIDE, TIME, CLASSES = 12, 4, 6, 5, 6


class Tools:
    """What a case may use for a batch of `rows` rows: inputs, targets, a layer of each kind."""

    def __init__(self, rows):
        generator = torch.Generator().manual_seed(rows)
        self.rows = rows
        self.flat = torch.randn(rows, 8, generator=generator)
        self.image = torch.randn(rows, 3, SIDE, SIDE, generator=generator)
        self.series = torch.randn(rows, TIME, 8, generator=generator)
        self.target = torch.randint(CLASSES, (rows,), generator=generator)
        self.noise = torch.randn(rows, FLAT, generator=generator)
        self.mask = torch.rand(rows, FLAT, generator=generator) > 0.5
        self.sign = torch.randint(2, (rows,), generator=generator) * 2.0 - 1
        self.order = torch.randperm(rows, generator=generator)
        self.tokens = torch.randint(10, (rows, TIME), generator=generator)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.flat = torch.nn.Linear(8, FLAT)
        self.other = torch.nn.Linear(8, FLAT)
        self.scores = torch.nn.Linear(8, CLASSES)
        self.image = torch.nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.embedding = torch.nn.Embedding(10, 8)
        self.slope = torch.nn.Parameter(torch.full((FLAT,), 0.3))
        self.table = torch.nn.Parameter(torch.randn(10, 5))
        self.matrix = torch.nn.Parameter(torch.randn(FLAT, FLAT) / 4)


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def table(kind, **functions):
    """Cases given as functions of one layer's output."""
    for name, function in functions.items():
        CASES[name] = (lambda function: lambda m, t: function(getattr(m, kind)(getattr(t, "flat" if kind in ("other", "scores") else kind)), m, t))(function)


# ---- pieces, order, indices
table(
    "flat",
    index_select_columns=lambda h, m, t: h.index_select(1, torch.tensor([3, 1, 1])),
    index_select_rows=lambda h, m, t: h.index_select(0, t.order),
    index_columns=lambda h, m, t: h[:, [0, 5, 2]],
    index_rows=lambda h, m, t: h[t.order],
    index_mask=lambda h, m, t: h[t.mask],
    index_row_mask=lambda h, m, t: h[t.sign > 0],
    index_arange=lambda h, m, t: h[torch.arange(t.rows), t.target],
    index_three=lambda h, m, t: h.view(-1, 3, 4)[:, [0, 2], [1, 3]],
    index_apart=lambda h, m, t: h.view(-1, 2, 3, 2)[:, [0, 1], :, [1, 0]],
    index_last=lambda h, m, t: h.view(-1, 3, 4)[:, :, torch.tensor([[0, 1], [2, 3]])],
    index_reversed=lambda h, m, t: h[torch.arange(t.rows - 1, -1, -1)],
    row_select=lambda h, m, t: h[2] * h[3],
    row_slice=lambda h, m, t: h[1:5],
    row_step=lambda h, m, t: h[::2],
    rows_shifted=lambda h, m, t: h[1:] - h[:-1],
    narrow_rows=lambda h, m, t: h.narrow(0, 2, 3),
    halves=lambda h, m, t: h[: t.rows // 2].mean() - h[t.rows // 2:].mean(),
    gather=lambda h, m, t: h.gather(1, t.target.unsqueeze(1)),
    gather_rows=lambda h, m, t: h.gather(0, (torch.arange(3 * FLAT).view(3, FLAT) % t.rows)),
    take_along_dim=lambda h, m, t: torch.take_along_dim(h, h.argsort(1)[:, :3], 1),
    take=lambda h, m, t: torch.take(h, torch.tensor([0, 5, 20])),
    masked_select=lambda h, m, t: torch.masked_select(h, t.mask),
    masked_fill=lambda h, m, t: h.masked_fill(t.mask, 0.5),
    masked_fill_own=lambda h, m, t: h.masked_fill(h > 0.3, 0.5),
    masked_fill_columns=lambda h, m, t: h.masked_fill(torch.arange(FLAT) > 5, 2.0),
    masked_fill_in_place=lambda h, m, t: (h * 1).masked_fill_(t.mask, 0.5),
    masked_scatter=lambda h, m, t: h.masked_scatter(t.mask, t.noise),
    index_put_mask=lambda h, m, t: put_mask(h, t.mask),
    index_put_own_mask=lambda h, m, t: put_mask(h, h > 0.2),
    index_put_columns=lambda h, m, t: put_columns(h),
    slice_assign=lambda h, m, t: slice_assign(h),
    index_add=lambda h, m, t: h.index_add(1, torch.tensor([0, 2]), t.noise[:, :2]),
    index_add_rows=lambda h, m, t: torch.zeros(CLASSES, FLAT).index_add(0, t.target, h),
    index_add_rows_in_place=lambda h, m, t: torch.zeros(CLASSES, FLAT).index_add_(0, t.target, h),
    index_copy=lambda h, m, t: h.index_copy(1, torch.tensor([0, 2]), t.noise[:, :2]),
    index_fill=lambda h, m, t: h.index_fill(1, torch.tensor([0, 2]), 1.5),
    scatter_zeros=lambda h, m, t: torch.zeros(t.rows, FLAT).scatter_(1, h.argmax(1, keepdim=True), 1.0) * h,
    scatter_into=lambda h, m, t: h.scatter(1, t.target.view(-1, 1), 7.0),
    scatter_add=lambda h, m, t: torch.zeros(t.rows, 3).scatter_add(1, torch.arange(FLAT).expand(t.rows, FLAT) % 3, h),
    scatter_like=lambda h, m, t: torch.zeros_like(h).scatter_(1, t.target.view(-1, 1), 1.0) * h,
    scatter_reduce_rows=lambda h, m, t: torch.zeros(CLASSES, FLAT).scatter_add(0, t.target.view(-1, 1).expand(-1, FLAT), h),
    one_hot=lambda h, m, t: F.one_hot(h.argmax(1)).float() * h[:, : int(h.argmax(1).max()) + 1],
    one_hot_classes=lambda h, m, t: F.one_hot(h.argmax(1), FLAT) * h,
    one_hot_target=lambda h, m, t: (F.one_hot(t.target, FLAT) * h).sum(1),
    lookup_table=lambda h, m, t: m.table[h.argmax(1) % 10],
    lookup_two=lambda h, m, t: m.table[h.argmax(1) % 10, h.argmin(1) % 5],
    lookup_select=lambda h, m, t: m.table.index_select(0, h.argmax(1) % 10),
    lookup_embedding=lambda h, m, t: m.embedding(h.argmax(1) % 10),
    nonzero=lambda h, m, t: (h > 0.4).nonzero().float(),
    nonzero_tuple=lambda h, m, t: h[(h > 0.4).nonzero(as_tuple=True)],
    argwhere=lambda h, m, t: torch.argwhere(h > 0.4).float(),
    where=lambda h, m, t: torch.where(h > 0, h, t.noise),
    where_scalar=lambda h, m, t: torch.where(h > 0, h, torch.tensor(0.1)),
    where_columns=lambda h, m, t: torch.where(torch.arange(FLAT) > 3, h, h * 2),
    unique=lambda h, m, t: (h > 0).long().unique().float(),
    unique_inverse=lambda h, m, t: torch.unique((h * 2).round().detach(), return_inverse=True)[1].float(),
    bincount=lambda h, m, t: torch.bincount(h.argmax(1), minlength=FLAT).float(),
    histc=lambda h, m, t: torch.histc(h.detach(), 5, -2, 2),
    searchsorted=lambda h, m, t: torch.searchsorted(torch.linspace(-1, 1, 5), h.detach()).float(),
    bucketize=lambda h, m, t: torch.bucketize(h.detach(), torch.linspace(-1, 1, 5)).float(),
    topk=lambda h, m, t: h.topk(3, 1).values,
    topk_rows=lambda h, m, t: h.topk(2, 0).values,
    topk_all=lambda h, m, t: h.flatten().topk(4).values,
    sort=lambda h, m, t: h.sort(1).values,
    sort_rows=lambda h, m, t: h.sort(0).values,
    argsort=lambda h, m, t: h.argsort(1).float(),
    argsort_rows=lambda h, m, t: h.argsort(0).float(),
    msort=lambda h, m, t: torch.msort(h),
    kthvalue=lambda h, m, t: h.kthvalue(2, 1).values,
    median=lambda h, m, t: h.median(1).values,
    median_all=lambda h, m, t: h.median(),
    mode=lambda h, m, t: (h * 2).round().mode(1).values,
    quantile=lambda h, m, t: h.quantile(0.3, 1),
    quantile_all=lambda h, m, t: h.quantile(0.3),
    flip=lambda h, m, t: h.flip(1),
    flip_rows=lambda h, m, t: h.flip(0),
    roll=lambda h, m, t: h.roll(2, 1),
    roll_rows=lambda h, m, t: h.roll(1, 0),
    roll_flat=lambda h, m, t: h.roll(1),
    cat_rows=lambda h, m, t: torch.cat([h, m.other(t.flat)]),
    cat_rows_plain=lambda h, m, t: torch.cat([h, t.noise]),
    cat_columns=lambda h, m, t: torch.cat([h, t.noise, m.other(t.flat)], 1),
    stack=lambda h, m, t: torch.stack([h, m.other(t.flat)]),
    stack_one=lambda h, m, t: torch.stack([h, t.noise], 1),
    stack_last=lambda h, m, t: torch.stack([h, t.noise], -1),
    hstack=lambda h, m, t: torch.hstack([h, t.noise]),
    vstack=lambda h, m, t: torch.vstack([h, t.noise]),
    repeat=lambda h, m, t: h.repeat(1, 2),
    repeat_rows=lambda h, m, t: h.repeat(2, 1),
    repeat_front=lambda h, m, t: h.repeat(3, 1, 1),
    repeat_interleave=lambda h, m, t: h.repeat_interleave(2, 1),
    repeat_interleave_rows=lambda h, m, t: h.repeat_interleave(2, 0),
    repeat_interleave_tensor=lambda h, m, t: h.repeat_interleave(t.target, 0),
    tile=lambda h, m, t: h.tile(2),
    tile_rows=lambda h, m, t: h.tile(2, 1),
    expand=lambda h, m, t: h.unsqueeze(1).expand(-1, 3, -1),
    expand_as=lambda h, m, t: h.sum(1, keepdim=True).expand_as(h) * h,
    broadcast_to=lambda h, m, t: torch.broadcast_to(h, (2, t.rows, FLAT)),
    meshgrid=lambda h, m, t: torch.meshgrid(h[:, 0], h[:, 1], indexing="ij")[0],
    pairs=lambda h, m, t: h.unsqueeze(0) - h.unsqueeze(1),
    unbind=lambda h, m, t: sum(h.unbind(1)),
    unbind_rows=lambda h, m, t: sum(row * i for i, row in enumerate(h)),
    chunk_rows=lambda h, m, t: h.chunk(2)[0],
    split_rows=lambda h, m, t: h.split(3)[1],
    chunk=lambda h, m, t: h.chunk(3, 1)[1],
    split_sizes=lambda h, m, t: h.split([3, 9], 1)[1],
    tensor_split=lambda h, m, t: h.tensor_split(5, 1)[2],
    transposed=lambda h, m, t: h.t(),
    moved=lambda h, m, t: h.view(-1, 3, 4).movedim(0, 2),
    swapped=lambda h, m, t: h.view(-1, 3, 4).swapaxes(0, 1),
    permuted=lambda h, m, t: h.view(-1, 3, 4).permute(1, 0, 2).reshape(3, -1),
    merged=lambda h, m, t: h.view(-1, 4).relu(),
    split_again=lambda h, m, t: h.view(-1, 4).relu().view(t.rows, 3, 4).sum(1),
    flatten=lambda h, m, t: h.view(-1, 3, 4).flatten(1),
    flatten_all=lambda h, m, t: h.flatten(),
    unflatten=lambda h, m, t: h.unflatten(1, (3, 4)),
    ravel=lambda h, m, t: h.ravel(),
    squeeze=lambda h, m, t: h.unsqueeze(1).squeeze(),
    squeeze_dim=lambda h, m, t: h.unsqueeze(2).squeeze(2),
    diagonal=lambda h, m, t: h.view(-1, 3, 4).diagonal(0, 1, 2),
    diagonal_rows=lambda h, m, t: h.diagonal(),
    diag_embed=lambda h, m, t: torch.diag_embed(h[:, :3]),
    tril=lambda h, m, t: h.view(-1, 3, 4).tril(),
    tril_rows=lambda h, m, t: h.tril(),
    as_strided=lambda h, m, t: h.as_strided((3, 2), (1, 2)),
    unfold_method=lambda h, m, t: h.unfold(1, 3, 2),
    unfold_rows=lambda h, m, t: h.unfold(0, 3, 2),
    block_diag=lambda h, m, t: torch.block_diag(h[:2], h[2:4]),
    combinations=lambda h, m, t: torch.combinations(h[:, 0]),
    kron=lambda h, m, t: torch.kron(h[:, :2], torch.ones(1, 2)),
    pad=lambda h, m, t: F.pad(h, (1, 2)),
    pad_rows=lambda h, m, t: F.pad(h, (0, 0, 1, 1)),
    new_zeros=lambda h, m, t: h.new_zeros(h.shape) + h,
    new_tensor=lambda h, m, t: h.new_tensor([1.0, 2.0]).sum() * h,
    zeros_shape=lambda h, m, t: torch.zeros(h.shape[0], 2) + h[:, :2],
    full_like=lambda h, m, t: torch.full_like(h, 0.5) * h,
    arange_rows=lambda h, m, t: h * torch.arange(h.size(0)).view(-1, 1),
    linspace_rows=lambda h, m, t: h * torch.linspace(0, 1, len(h)).unsqueeze(1),
    clone=lambda h, m, t: h.clone().detach() * h,
    copy_into=lambda h, m, t: torch.zeros(t.rows, FLAT).copy_(h),
    accumulate_in_place=lambda h, m, t: torch.zeros(t.rows, FLAT).add_(h).mul_(h),
    out_argument=lambda h, m, t: torch.add(h.detach(), 1, out=torch.empty(t.rows, FLAT)) * h,
    list_of_rows=lambda h, m, t: torch.stack([h[i] for i in range(3)]),
    sum_of_list=lambda h, m, t: sum(h[:, i] for i in range(3)),
    shuffled=lambda h, m, t: h[torch.randperm(t.rows)],
)


def put_mask(h, mask):
    h = h * 1
    h[mask] = 0.25
    return h


def put_columns(h):
    h = h * 1
    h[:, [1, 3]] = 0.5
    return h


def slice_assign(h):
    h = h * 1
    h[:, 2:4] = h[:, 6:8] * 2
    h[:, 0] = 1.0
    return h


# ---- arithmetic, comparisons, reductions
table(
    "flat",
    clamp_tensors=lambda h, m, t: torch.clamp(h, t.noise.min(1, keepdim=True).values / 4, t.noise.max(1, keepdim=True).values / 4),
    clamp_scalar=lambda h, m, t: h.clamp(-0.5, 0.5),
    clamp_columns=lambda h, m, t: h.clamp(max=torch.linspace(0, 1, FLAT)),
    compare=lambda h, m, t: (h > 0.1).float() + (h <= t.noise).float(),
    compare_equal=lambda h, m, t: (h.argmax(1) == t.target).float(),
    isclose=lambda h, m, t: torch.isclose(h, h * 1.000001).float(),
    maximum=lambda h, m, t: torch.maximum(h, t.noise),
    max_all=lambda h, m, t: h.max(),
    min_all=lambda h, m, t: h.min(),
    amax_rows=lambda h, m, t: h.amax(0),
    max_rows=lambda h, m, t: h.max(0).values,
    max_dim=lambda h, m, t: h.max(1).values,
    aminmax=lambda h, m, t: torch.aminmax(h, dim=1).max,
    argmax_all=lambda h, m, t: h.argmax().float(),
    argmax_rows=lambda h, m, t: h.argmax(0).float(),
    var=lambda h, m, t: h.var(),
    var_rows=lambda h, m, t: h.var(0),
    var_dim=lambda h, m, t: h.var(1),
    std=lambda h, m, t: h.std(),
    std_rows=lambda h, m, t: h.std(0),
    std_mean=lambda h, m, t: sum(torch.std_mean(h, 1)),
    var_mean_rows=lambda h, m, t: sum(torch.var_mean(h, 0)),
    norm=lambda h, m, t: h.norm(),
    norm_dim=lambda h, m, t: h.norm(dim=1),
    norm_rows=lambda h, m, t: h.norm(dim=0),
    norm_one=lambda h, m, t: h.norm(p=1),
    vector_norm=lambda h, m, t: torch.linalg.vector_norm(h),
    matrix_norm=lambda h, m, t: torch.linalg.matrix_norm(h),
    mean_all=lambda h, m, t: h.mean(),
    mean_rows=lambda h, m, t: h.mean(0),
    mean_dim=lambda h, m, t: h.mean(1),
    mean_both=lambda h, m, t: h.mean((0, 1)),
    sum_rows=lambda h, m, t: h.sum(0),
    sum_rows_squared=lambda h, m, t: h.sum(0) ** 2,
    nansum=lambda h, m, t: h.nansum(),
    nanmean=lambda h, m, t: h.nanmean(),
    prod=lambda h, m, t: h.prod(1),
    prod_rows=lambda h, m, t: h.tanh().prod(0),
    logsumexp=lambda h, m, t: h.logsumexp(1),
    logsumexp_rows=lambda h, m, t: h.logsumexp(0),
    any_rows=lambda h, m, t: (h > 1).any(0).float(),
    all_dim=lambda h, m, t: (h > -2).all(1).float(),
    any_all=lambda h, m, t: (h > 1).any().float(),
    count_nonzero=lambda h, m, t: torch.count_nonzero(h > 0).float(),
    cumsum=lambda h, m, t: h.cumsum(1),
    cumsum_rows=lambda h, m, t: h.cumsum(0),
    cumprod=lambda h, m, t: h.cumprod(1),
    cummax=lambda h, m, t: h.cummax(1).values,
    cummax_rows=lambda h, m, t: h.cummax(0).values,
    logcumsumexp=lambda h, m, t: h.logcumsumexp(1),
    diff=lambda h, m, t: h.diff(),
    diff_rows=lambda h, m, t: h.diff(dim=0),
    trapz=lambda h, m, t: torch.trapezoid(h, dim=1),
    softmax_rows=lambda h, m, t: h.softmax(0),
    softmax=lambda h, m, t: h.softmax(1),
    log_softmax_rows=lambda h, m, t: h.log_softmax(0),
    softmin=lambda h, m, t: F.softmin(h, 1),
    gumbel=lambda h, m, t: F.gumbel_softmax(h),
    gumbel_hard=lambda h, m, t: F.gumbel_softmax(h, hard=True),
    prelu=lambda h, m, t: F.prelu(h, m.slope),
    prelu_one=lambda h, m, t: F.prelu(h, m.slope[:1]),
    glu=lambda h, m, t: F.glu(h),
    glu_in=lambda h, m, t: F.glu(h.view(-1, 4, 3), 1),
    rrelu=lambda h, m, t: F.rrelu(h, training=True),
    rrelu_eval=lambda h, m, t: F.rrelu(h),
    normalize=lambda h, m, t: F.normalize(h),
    normalize_rows=lambda h, m, t: F.normalize(h, dim=0),
    standardize=lambda h, m, t: (h - h.mean(0)) / h.std(0),
    cosine_similarity=lambda h, m, t: F.cosine_similarity(h, m.other(t.flat)),
    cosine_similarity_plain=lambda h, m, t: F.cosine_similarity(h, t.noise),
    cosine_similarity_all=lambda h, m, t: F.cosine_similarity(h.unsqueeze(1), h.unsqueeze(0), dim=-1),
    pairwise_distance=lambda h, m, t: F.pairwise_distance(h, t.noise),
    pdist=lambda h, m, t: F.pdist(h),
    cdist=lambda h, m, t: torch.cdist(h, m.table.new_ones(3, FLAT) * 0.5),
    cdist_right=lambda h, m, t: torch.cdist(t.noise[:3], h),
    cdist_own=lambda h, m, t: torch.cdist(h, m.other(t.flat)),
    cdist_batched=lambda h, m, t: torch.cdist(h.view(-1, 3, 4), t.noise.view(-1, 3, 4)),
    cdist_one=lambda h, m, t: torch.cdist(h, t.noise[:3], p=1.0),
    einsum_rows=lambda h, m, t: torch.einsum("bi,ij->bj", h, m.matrix),
    einsum_inner=lambda h, m, t: torch.einsum("bi,bi->b", h, t.noise),
    einsum_outer=lambda h, m, t: torch.einsum("bi,bj->ij", h, t.noise),
    einsum_batched=lambda h, m, t: torch.einsum("bij,bjk->bik", h.view(-1, 3, 4), t.noise.view(-1, 4, 3)),
    einsum_shared=lambda h, m, t: torch.einsum("bij,jk->bik", h.view(-1, 3, 4), m.matrix[:4]),
    einsum_all=lambda h, m, t: torch.einsum("ai,bi->ab", h, h),
    tensordot=lambda h, m, t: torch.tensordot(h, m.matrix, 1),
    outer=lambda h, m, t: torch.outer(h[:, 0], h[:, 1]),
    outer_columns=lambda h, m, t: torch.outer(h[:, 0], m.slope),
    ger=lambda h, m, t: torch.ger(h[:, 0], m.slope),
    dot=lambda h, m, t: h[:, 0].dot(h[:, 1]),
    inner=lambda h, m, t: torch.inner(h, m.matrix),
    gram=lambda h, m, t: h @ h.t(),
    covariance=lambda h, m, t: h.t() @ h,
    cov=lambda h, m, t: torch.cov(h.t()),
    corrcoef=lambda h, m, t: torch.corrcoef(h.t()),
    matmul_right=lambda h, m, t: m.matrix @ h.t(),
    matmul_vector=lambda h, m, t: h @ m.slope,
    mv=lambda h, m, t: torch.mv(h, m.slope),
    vector_matmul=lambda h, m, t: torch.ones(t.rows) @ h,
    bmm=lambda h, m, t: torch.bmm(h.view(-1, 3, 4), h.view(-1, 4, 3)),
    baddbmm=lambda h, m, t: torch.baddbmm(torch.ones(3, 3), h.view(-1, 3, 4), h.view(-1, 4, 3)),
    addbmm=lambda h, m, t: torch.addbmm(torch.ones(3, 3), h.view(-1, 3, 4), h.view(-1, 4, 3)),
    addmm=lambda h, m, t: torch.addmm(m.slope, h, m.matrix, beta=0.5, alpha=2),
    addmv=lambda h, m, t: torch.addmv(torch.ones(t.rows), h, m.slope),
    addr=lambda h, m, t: torch.addr(torch.zeros(t.rows, FLAT), h[:, 0], m.slope),
    addcmul=lambda h, m, t: torch.addcmul(h, t.noise, h, value=0.5),
    matmul_batched=lambda h, m, t: h.view(-1, 3, 4) @ m.matrix[:4],
    matmul_left=lambda h, m, t: m.matrix[:, :3] @ h.view(-1, 3, 4),
    multi_dot=lambda h, m, t: torch.linalg.multi_dot([h, m.matrix, m.matrix]),
    bilinear=lambda h, m, t: F.bilinear(h[:, :5], t.noise[:, :5], m.table.view(2, 5, 5)),
    inverse=lambda h, m, t: torch.linalg.inv(square(h)),
    det=lambda h, m, t: torch.linalg.det(square(h)),
    slogdet=lambda h, m, t: torch.linalg.slogdet(square(h))[1],
    cholesky=lambda h, m, t: torch.linalg.cholesky(square(h)),
    solve=lambda h, m, t: torch.linalg.solve(square(h), t.noise[:, :3].unsqueeze(2)),
    solve_triangular=lambda h, m, t: torch.linalg.solve_triangular(torch.linalg.cholesky(square(h)), t.noise[:, :3].unsqueeze(2), upper=False),
    eigvalsh=lambda h, m, t: torch.linalg.eigvalsh(square(h)),
    svdvals=lambda h, m, t: torch.linalg.svdvals(h),
    svdvals_batched=lambda h, m, t: torch.linalg.svdvals(h.view(-1, 3, 4)),
    pinv=lambda h, m, t: torch.linalg.pinv(square(h)),
    lstsq=lambda h, m, t: torch.linalg.lstsq(h[:, :3], t.noise[:, :1]).solution,
    matrix_exp=lambda h, m, t: torch.matrix_exp(square(h) / 10),
    matrix_power=lambda h, m, t: torch.linalg.matrix_power(square(h), 2),
    trace=lambda h, m, t: (h.t() @ h).trace(),
    cross=lambda h, m, t: torch.cross(h[:, :3], t.noise[:, :3], dim=1),
    fft=lambda h, m, t: torch.fft.fft(h).abs(),
    rfft=lambda h, m, t: torch.fft.irfft(torch.fft.rfft(h) * 2),
    fft_rows=lambda h, m, t: torch.fft.fft(h, dim=0).abs(),
    fft2=lambda h, m, t: torch.fft.fft2(h).abs(),
    complex=lambda h, m, t: torch.complex(h, t.noise).abs(),
    view_as_complex=lambda h, m, t: torch.view_as_complex(h.view(-1, 6, 2)).prod(1).abs(),
    view_as_real=lambda h, m, t: torch.view_as_real(torch.complex(h, h * 2)),
    polar=lambda h, m, t: torch.polar(h.abs(), t.noise).real,
    conj=lambda h, m, t: (torch.complex(h, t.noise).conj() * 2).imag,
    renorm=lambda h, m, t: torch.renorm(h, 2, 1, 1.0),
    lerp=lambda h, m, t: torch.lerp(h, t.noise, 0.3),
    double=lambda h, m, t: h.double() * 2,
    half_and_back=lambda h, m, t: h.half().float(),
    to_long=lambda h, m, t: (h * 10).long().float(),
    type_as=lambda h, m, t: (h > 0).type_as(h) * h,
    in_place_chain=lambda h, m, t: (h * 1).add_(1).mul_(t.noise).clamp_(max=2).div_(2),
    detach_item=lambda h, m, t: h * h.detach().max().item(),
    loss_scaled_by_item=lambda h, m, t: (h ** 2).mean() * (h.detach() > 0).sum().item(),
    partial_algebra=lambda h, m, t: (h.sum() * 2 + h.mean() / 3 - 1) * m.slope.sum(),
    partial_squared=lambda h, m, t: h.mean() ** 2 + h.sum().sqrt().nan_to_num() + torch.exp(h.mean()),
    partial_vector=lambda h, m, t: h.mean(0).softmax(0) + h.sum(0)[:FLAT] / 9,
    partial_stack=lambda h, m, t: torch.stack([h.mean(), h.sum(), h.pow(2).mean()]),
    partial_in_place=lambda h, m, t: h.sum().mul_(2).add_(1),
    partial_and_rows=lambda h, m, t: h - h.mean(0, keepdim=True),
    partial_divided=lambda h, m, t: h / h.sum(),
    partial_compare=lambda h, m, t: h * (h.mean() > 0),
    replicated_accumulator=lambda h, m, t: torch.zeros(()).add_(h.sum()),
)


def square(h):
    """A well conditioned symmetric matrix of each row."""
    rows = h.view(-1, 3, 4)
    return rows @ rows.transpose(1, 2) + 2 * torch.eye(3)


# ---- images
table(
    "image",
    conv_transpose=lambda h, m, t: F.conv_transpose2d(h, m.image.weight[:, :, :2, :2], stride=2),
    conv_grouped=lambda h, m, t: F.conv2d(h, m.table[:4, :4].reshape(4, 1, 2, 2), groups=4),
    conv_own_weight=lambda h, m, t: F.conv2d(torch.ones(1, CHANNELS, 8, 8), h[:2, :, :3, :3]),
    max_pool=lambda h, m, t: F.max_pool2d(h, 2),
    max_pool_indices=lambda h, m, t: F.max_unpool2d(*F.max_pool2d(h, 2, return_indices=True), 2),
    avg_pool=lambda h, m, t: F.avg_pool2d(h, 2),
    adaptive_avg=lambda h, m, t: F.adaptive_avg_pool2d(h, (2, 3)),
    adaptive_avg_one=lambda h, m, t: F.adaptive_avg_pool2d(h, 1).flatten(1),
    adaptive_max=lambda h, m, t: F.adaptive_max_pool2d(h, (2, 3)),
    lp_pool=lambda h, m, t: F.lp_pool2d(h.abs() + 0.1, 2, 2),
    fractional_pool=lambda h, m, t: F.fractional_max_pool2d(h, 2, output_size=3),
    avg_pool_1d=lambda h, m, t: F.avg_pool1d(h.flatten(2), 3),
    max_pool_1d=lambda h, m, t: F.max_pool1d(h.flatten(2), 3),
    adaptive_avg_1d=lambda h, m, t: F.adaptive_avg_pool1d(h.flatten(2), 5),
    adaptive_max_1d=lambda h, m, t: F.adaptive_max_pool1d(h.flatten(2), 5),
    unfold=lambda h, m, t: F.unfold(h, 2),
    fold=lambda h, m, t: F.fold(F.unfold(h, 2, stride=2), (SIDE, SIDE), 2, stride=2),
    grid_sample=lambda h, m, t: F.grid_sample(h, F.affine_grid(torch.eye(2, 3).repeat(t.rows, 1, 1), [t.rows, CHANNELS, 4, 4], align_corners=False), align_corners=False),
    grid_sample_own=lambda h, m, t: F.grid_sample(t.image, h[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False),
    interpolate=lambda h, m, t: F.interpolate(h, scale_factor=2),
    interpolate_size=lambda h, m, t: F.interpolate(h, size=(4, 9)),
    interpolate_bilinear=lambda h, m, t: F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False),
    interpolate_bicubic=lambda h, m, t: F.interpolate(h, size=(5, 5), mode="bicubic", align_corners=True),
    interpolate_area=lambda h, m, t: F.interpolate(h, size=(3, 3), mode="area"),
    interpolate_exact=lambda h, m, t: F.interpolate(h, size=(4, 4), mode="nearest-exact"),
    interpolate_antialias=lambda h, m, t: F.interpolate(h, size=(4, 4), mode="bilinear", antialias=True),
    interpolate_linear=lambda h, m, t: F.interpolate(h.flatten(2), size=20, mode="linear"),
    interpolate_3d=lambda h, m, t: F.interpolate(h.unsqueeze(2), scale_factor=2, mode="trilinear"),
    pixel_shuffle=lambda h, m, t: F.pixel_shuffle(h, 2),
    pixel_unshuffle=lambda h, m, t: F.pixel_unshuffle(h, 2),
    channel_shuffle=lambda h, m, t: F.channel_shuffle(h, 2),
    pad_reflect=lambda h, m, t: F.pad(h, (1, 1, 2, 1), mode="reflect"),
    pad_replicate=lambda h, m, t: F.pad(h, (1, 1, 2, 1), mode="replicate"),
    pad_circular=lambda h, m, t: F.pad(h, (1, 1, 2, 1), mode="circular"),
    pad_constant=lambda h, m, t: F.pad(h, (1, 1, 2, 1), value=0.5),
    dropout2d=lambda h, m, t: F.dropout2d(h, 0.5),
    dropout=lambda h, m, t: F.dropout(h, 0.3),
    alpha_dropout=lambda h, m, t: F.alpha_dropout(h, 0.3, training=True),
    feature_alpha_dropout=lambda h, m, t: F.feature_alpha_dropout(h, 0.3, training=True),
    batch_norm=lambda h, m, t: F.batch_norm(h, torch.zeros(CHANNELS), torch.ones(CHANNELS), training=True),
    batch_norm_eval=lambda h, m, t: F.batch_norm(h, torch.zeros(CHANNELS) + 0.1, torch.ones(CHANNELS) * 2),
    instance_norm=lambda h, m, t: F.instance_norm(h),
    group_norm=lambda h, m, t: F.group_norm(h, 2),
    layer_norm=lambda h, m, t: F.layer_norm(h, h.shape[1:]),
    local_response_norm=lambda h, m, t: F.local_response_norm(h, 2),
    mean_image=lambda h, m, t: h.mean((2, 3)),
    mean_channels=lambda h, m, t: h.mean((0, 2, 3)),
    channels_last=lambda h, m, t: h.contiguous(memory_format=torch.channels_last) * 2,
    softmax2d=lambda h, m, t: h.softmax(1),
    rot90=lambda h, m, t: h.rot90(1, (2, 3)),
    cross_entropy_image=lambda h, m, t: F.cross_entropy(h, (t.image[:, 0] > 0).long()),
    cross_entropy_image_weighted=lambda h, m, t: F.cross_entropy(h, (t.image[:, 0] > 0).long(), weight=torch.tensor([1.0, 0.2, 1, 1])),
)

# ---- losses
table(
    "scores",
    cross_entropy=lambda h, m, t: F.cross_entropy(h, t.target),
    cross_entropy_sum=lambda h, m, t: F.cross_entropy(h, t.target, reduction="sum"),
    cross_entropy_none=lambda h, m, t: F.cross_entropy(h, t.target, reduction="none"),
    cross_entropy_weights=lambda h, m, t: F.cross_entropy(h, t.target, weight=torch.linspace(0.1, 1, CLASSES)),
    cross_entropy_ignore=lambda h, m, t: F.cross_entropy(h, t.target, ignore_index=2),
    cross_entropy_ignore_first=lambda h, m, t: F.cross_entropy(h, torch.where(torch.arange(t.rows) < t.rows // 2, -100, t.target)),
    cross_entropy_smooth=lambda h, m, t: F.cross_entropy(h, t.target, label_smoothing=0.1),
    cross_entropy_smooth_weights=lambda h, m, t: F.cross_entropy(h, t.target, weight=torch.linspace(0.1, 1, CLASSES), label_smoothing=0.1),
    cross_entropy_probabilities=lambda h, m, t: F.cross_entropy(h, t.noise[:, :CLASSES].softmax(1)),
    cross_entropy_one_hot=lambda h, m, t: F.cross_entropy(h, F.one_hot(t.target, CLASSES).float()),
    nll=lambda h, m, t: F.nll_loss(h.log_softmax(1), t.target),
    nll_weighted=lambda h, m, t: F.nll_loss(h.log_softmax(1), t.target, weight=torch.linspace(0.1, 1, CLASSES), reduction="sum"),
    multi_margin=lambda h, m, t: F.multi_margin_loss(h, t.target),
    multilabel_margin=lambda h, m, t: F.multilabel_margin_loss(h, (t.noise[:, :CLASSES] > 0).long()),
    multilabel_soft_margin=lambda h, m, t: F.multilabel_soft_margin_loss(h, (t.noise[:, :CLASSES] > 0).float()),
    hinge_embedding=lambda h, m, t: F.hinge_embedding_loss(h[:, 0], t.sign),
    margin_ranking=lambda h, m, t: F.margin_ranking_loss(h[:, 0], h[:, 1], t.sign),
    soft_margin=lambda h, m, t: F.soft_margin_loss(h[:, 0], t.sign),
    cosine_embedding=lambda h, m, t: F.cosine_embedding_loss(h, t.noise[:, :CLASSES], t.sign),
    triplet=lambda h, m, t: F.triplet_margin_loss(h, t.noise[:, :CLASSES], -t.noise[:, :CLASSES]),
    triplet_distance=lambda h, m, t: F.triplet_margin_with_distance_loss(h, t.noise[:, :CLASSES], -t.noise[:, :CLASSES]),
    poisson=lambda h, m, t: F.poisson_nll_loss(h, t.noise[:, :CLASSES].abs()),
    poisson_full=lambda h, m, t: F.poisson_nll_loss(h, t.noise[:, :CLASSES].abs() * 4, full=True),
    gaussian=lambda h, m, t: F.gaussian_nll_loss(h, t.noise[:, :CLASSES], torch.ones(t.rows, CLASSES) * 0.5),
    gaussian_own=lambda h, m, t: F.gaussian_nll_loss(h, t.noise[:, :CLASSES], h.exp()),
    kl=lambda h, m, t: F.kl_div(h.log_softmax(1), t.noise[:, :CLASSES].softmax(1), reduction="batchmean"),
    kl_mean=lambda h, m, t: F.kl_div(h.log_softmax(1), t.noise[:, :CLASSES].log_softmax(1), reduction="mean", log_target=True),
    mse=lambda h, m, t: F.mse_loss(h, t.noise[:, :CLASSES]),
    mse_broadcast=lambda h, m, t: F.mse_loss(h.mean(1), t.sign),
    rmse=lambda h, m, t: F.mse_loss(h, t.noise[:, :CLASSES]).sqrt(),
    l1=lambda h, m, t: F.l1_loss(h, t.noise[:, :CLASSES]),
    smooth_l1=lambda h, m, t: F.smooth_l1_loss(h, t.noise[:, :CLASSES], reduction="sum"),
    huber=lambda h, m, t: F.huber_loss(h, t.noise[:, :CLASSES], delta=0.5),
    bce=lambda h, m, t: F.binary_cross_entropy(h.sigmoid(), t.noise[:, :CLASSES].sigmoid()),
    bce_weighted=lambda h, m, t: F.binary_cross_entropy(h.sigmoid(), t.noise[:, :CLASSES].sigmoid(), weight=torch.linspace(0.1, 1, CLASSES)),
    bce_logits=lambda h, m, t: F.binary_cross_entropy_with_logits(h, (t.noise[:, :CLASSES] > 0).float()),
    bce_logits_pos=lambda h, m, t: F.binary_cross_entropy_with_logits(h, (t.noise[:, :CLASSES] > 0).float(), pos_weight=torch.linspace(1, 2, CLASSES)),
    bce_row_weight=lambda h, m, t: F.binary_cross_entropy_with_logits(h, (t.noise[:, :CLASSES] > 0).float(), weight=t.sign.abs().view(-1, 1) * 0.5),
    ctc=lambda h, m, t: F.ctc_loss(h.view(1, t.rows, CLASSES).expand(4, -1, -1).log_softmax(2), t.target.clamp(min=1).view(-1, 1), torch.full((t.rows,), 4), torch.ones(t.rows, dtype=torch.long)),
    focal=lambda h, m, t: ((1 - torch.exp(-F.cross_entropy(h, t.target, reduction="none"))) ** 2 * F.cross_entropy(h, t.target, reduction="none")).mean(),
    weighted_rows=lambda h, m, t: (F.cross_entropy(h, t.target, reduction="none") * torch.linspace(0, 1, t.rows)).sum() / t.rows,
    contrastive=lambda h, m, t: F.cross_entropy(F.normalize(h) @ F.normalize(t.noise[:, :CLASSES]).t() / 0.1, torch.arange(t.rows)),
    dice=lambda h, m, t: 1 - 2 * (h.softmax(1) * F.one_hot(t.target, CLASSES)).sum(0) / (h.softmax(1).sum(0) + 1),
    hardest=lambda h, m, t: F.cross_entropy(h, t.target, reduction="none").topk(3).values,
    accuracy=lambda h, m, t: (h.argmax(1) == t.target).float().mean(),
    accuracy_topk=lambda h, m, t: h.topk(2, 1).indices.eq(t.target.view(-1, 1)).any(1).float().sum(),
    confusion=lambda h, m, t: torch.zeros(CLASSES, CLASSES).index_put_((t.target, h.argmax(1)), torch.ones(1), accumulate=True),
    multinomial=lambda h, m, t: h.softmax(1).multinomial(1).float(),
    bernoulli=lambda h, m, t: torch.bernoulli(h.sigmoid()),
    normal=lambda h, m, t: torch.normal(h, 0.5),
    reparametrised=lambda h, m, t: h + h.exp() * torch.randn_like(h),
    random_shape=lambda h, m, t: h * torch.rand(h.shape),
    categorical=lambda h, m, t: torch.distributions.Categorical(logits=h).log_prob(t.target),
    categorical_sample=lambda h, m, t: reinforce(torch.distributions.Categorical(logits=h)),
    normal_distribution=lambda h, m, t: torch.distributions.Normal(h, h.exp()).log_prob(t.noise[:, :CLASSES]),
    normal_sample=lambda h, m, t: torch.distributions.Normal(h, h.exp()).rsample(),
    kl_distributions=lambda h, m, t: torch.distributions.kl_divergence(torch.distributions.Normal(h, h.exp()), torch.distributions.Normal(0.0, 1.0)),
    entropy=lambda h, m, t: torch.distributions.Categorical(logits=h).entropy(),
)


def reinforce(distribution):
    sample = distribution.sample()
    return distribution.log_prob(sample) * sample


# ---- sequences
@case
def embedded(m, t):
    return m.flat(m.embedding(t.tokens))


@case
def embedded_mean(m, t):
    return m.flat(m.embedding(t.tokens).mean(1))


@case
def embedding_bag(m, t):
    return m.flat(F.embedding_bag(t.tokens, m.embedding.weight, mode="mean"))


@case
def positions(m, t):
    h = m.embedding(t.tokens)
    return m.flat(h + m.table[: t.tokens.size(1), :1] + m.embedding(torch.arange(TIME)))


@case
def causal_mask(m, t):
    h = m.flat(t.series)
    scores = h @ h.transpose(1, 2)
    return scores.masked_fill(torch.ones(TIME, TIME).triu(1).bool(), float("-inf")).softmax(-1) @ h


@case
def last_step(m, t):
    return m.flat(t.series)[:, -1]


@case
def packed_lengths(m, t):
    h = m.flat(t.series)
    return h[torch.arange(t.rows), t.target.clamp(max=TIME - 1)]


@case
def length_mask(m, t):
    h = m.flat(t.series)
    mask = (torch.arange(TIME) <= t.target.unsqueeze(1)).float().unsqueeze(2)
    return (h * mask).sum(1) / mask.sum(1)


@case
def language_model(m, t):
    return F.cross_entropy(m.scores(m.embedding(t.tokens)).view(-1, CLASSES), t.tokens.view(-1) % CLASSES)


@case
def language_model_shifted(m, t):
    h = m.scores(m.embedding(t.tokens))
    return F.cross_entropy(h[:, :-1].reshape(-1, CLASSES), t.tokens[:, 1:].reshape(-1) % CLASSES)


@case
def language_model_transposed(m, t):
    return F.cross_entropy(m.scores(m.embedding(t.tokens)).transpose(1, 2), t.tokens % CLASSES)


@case
def pad_sequence(m, t):
    h = m.flat(t.series)
    return torch.nn.utils.rnn.pad_sequence([h[0, :2], h[1, :4]], batch_first=True)


@case
def sparse_operand(m, t):
    return torch.sparse.mm(torch.eye(t.rows).to_sparse(), m.flat(t.flat))


@case
def sparse_result(m, t):
    return (m.flat(t.flat) * t.mask).detach().to_sparse().to_dense()


@case
def checkpointed(m, t):
    return torch.utils.checkpoint.checkpoint(lambda x: m.other(x).relu() * m.flat(x), t.flat, use_reentrant=False)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


@case
def own_function(m, t):
    return Doubled.apply(m.flat(t.flat))


@case
def input_gradient(m, t):
    x = t.flat.clone().requires_grad_()
    m.flat(x).pow(2).sum().backward()
    return m.flat(t.flat) * x.grad.sum(1, keepdim=True)


@case
def explicit_gradient(m, t):
    h = m.flat(t.flat)
    h.backward(t.noise)
    return m.flat(t.flat)


@case
def two_losses(m, t):
    h = m.flat(t.flat)
    h.mean().backward(retain_graph=True)
    return h ** 2


@case
def vector_root(m, t):
    h = m.flat(t.flat)
    h.pow(2).sum(1).backward(torch.ones(t.rows))
    return m.other(t.flat)


@case
def parameters_only(m, t):
    return m.flat(t.flat).mean() + 0.1 * m.matrix.pow(2).sum()


@case
def mixup(m, t):
    x = 0.3 * t.flat + 0.7 * t.flat[t.order]
    return 0.3 * F.cross_entropy(m.scores(x), t.target) + 0.7 * F.cross_entropy(m.scores(x), t.target[t.order])


@case
def table_cut_wrongly(m, t):
    """A table that is no batch meets a layer."""
    return m.flat(torch.eye(8)[:6]).sum() * m.flat(t.flat)


@case
def weight_as_data(m, t):
    return m.flat(m.embedding.weight) @ m.flat(t.flat).t()


@case
def different_batches(m, t):
    return m.flat(t.flat[: t.rows - 1]).sum() + m.other(t.flat).sum()


def weigh(result):
    """One figure of any result, with weights that tell elements apart."""
    result = result.double() if not result.is_complex() else torch.view_as_real(result).double()
    weights = torch.cos(torch.arange(result.numel(), dtype=torch.double) * 0.7) + 0.3
    return (result * weights.view(result.shape)).sum()


def run(name, rows):
    torch.manual_seed(len(name) + rows)
    layers, tools = Layers(), Tools(rows)
    result = CASES[name](layers, tools)
    loss = weigh(result)
    if loss.requires_grad:
        loss.backward()
    parts = [f"{name} {rows} {tuple(result.shape)} {loss.item():.6g}"]
    gradients = [(name, value.grad.double()) for name, value in layers.named_parameters() if value.grad is not None]
    total = math.sqrt(sum(float(gradient.norm()) ** 2 for _, gradient in gradients)) + 1e-3
    if gradients:
        parts.append(f"gradients {total:.6g}")
    for parameter, gradient in gradients:  # relative to all: a gradient that is zero but for rounding must not count
        parts.append(f"{parameter} {float(gradient.norm()) / total:.6g} {float(weigh(gradient)) / total:.6g}")
    parts.append(f"next {torch.rand(()).item():.6g}")
    print(" ".join(parts), flush=True)


def names(option):
    return sys.argv[sys.argv.index(option) + 1].split(",") if option in sys.argv else []


def main():
    skip, only, first = names("--skip"), names("--only"), names("--from")
    for name in list(CASES)[list(CASES).index(first[0]) if first else 0 :]:
        if name in skip or (only and name not in only):
            continue
        for rows in (16, 7):
            if "--announce" in sys.argv:
                sys.stderr.write(f"case {name} {rows}\n")  # one write: nothing comes between
            try:
                run(name, rows)
            except (RuntimeError, ValueError, AttributeError, TypeError, IndexError, NotImplementedError) as error:
                print(name, rows, type(error).__name__, str(error).split("\n")[0][:70], flush=True)


main()
