"""Cases of rule_sweep.py: pieces, order, indices, arithmetic, comparisons, reductions, linear algebra."""
import math  # noqa: F401

import torch
import torch.nn.functional as F
import torch.utils.checkpoint  # noqa: F401

from rule_sweep_case import CASES, CHANNELS, CLASSES, FLAT, SIDE, TIME, case, table  # noqa: F401


def last_row(t):
    return (torch.arange(t.rows) == t.rows - 1).unsqueeze(1).float()


def ramp(t):
    return (torch.arange(t.rows) * 2.0 - (t.rows - 1)).unsqueeze(1)


def nothing(h, t):
    """Zeros, as a sum over the batch of what is not."""
    return (h.detach() * 0 + ramp(t)).sum(0)


def sum_with(h, t, first, last):
    """A sum over the batch to whose first and last row these are added."""
    rows = torch.zeros(t.rows)
    rows[0], rows[-1] = first, last
    return (h.detach() + rows.unsqueeze(1)).sum(0)


def infinities(h, t):
    return sum_with(h, t, -math.inf, math.inf)


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
    any_of_sums=lambda h, m, t: torch.cat([nothing(h, t).any().view(1), nothing(h, t).any(0).view(1), nothing(h, t).view(3, 4).any(1)]).float(),
    any_dims_of_sums=lambda h, m, t: nothing(h, t).view(3, 4).any((0, 1)).float(),
    infinite_sums=lambda h, m, t: torch.stack([f(infinities(h, t)).float() for f in (torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf)]),
    isfinite_of_sums=lambda h, m, t: torch.isfinite(sum_with(h, t, 0, math.inf)).float(),
    isreal_of_sums=lambda h, m, t: torch.isreal(torch.complex(h.detach(), h.detach() * 0 + ramp(t)).sum(0)).float(),
    nansum_of_sums=lambda h, m, t: torch.nansum(sum_with(h, t, 0, math.nan)),
    instance_norm_of_sums=lambda h, m, t: F.instance_norm(h.sum(0).view(1, 3, 4)),
    pad_of_sums=lambda h, m, t: F.pad(h.sum(0), (1, 1), value=2.0),
    nan_to_num_of_sums=lambda h, m, t: torch.nan_to_num(infinities(h, t), 1.0),
    acosh_of_sums=lambda h, m, t: torch.acosh((h.abs() + 1).sum(0)) + torch.arccosh((h.abs() + 2).sum(0)),
    max_pool_of_sums=lambda h, m, t: F.max_pool1d(h.sum(0).view(1, 1, -1), 3),
    max_pool2d_of_sums=lambda h, m, t: F.max_pool2d(h.sum(0).view(1, 3, 4), 2),
    max_pool3d_of_sums=lambda h, m, t: F.max_pool3d(h.sum(0).view(1, 2, 2, 3), (2, 2, 3)),
    conv_transpose_of_sums=lambda h, m, t: F.conv_transpose1d(h.sum(0).view(1, 1, -1), h[:, :3].sum(0).view(1, 1, 3)),
    squeeze_before_rows=lambda h, m, t: h.t().unsqueeze(0).squeeze(),
    transpose_in_place=lambda h, m, t: (h * 1).transpose_(0, 1),
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
    amax_features=lambda h, m, t: h.amax(1),
    amin_features=lambda h, m, t: h.amin(-1, keepdim=True),
    std_features=lambda h, m, t: h.std(1),
    std_correction=lambda h, m, t: torch.ops.aten.std.correction(h, [1], correction=0, keepdim=True),
    var_correction=lambda h, m, t: torch.ops.aten.var.correction(h, [-1], correction=0),
    var_mean_features=lambda h, m, t: list(torch.var_mean(h, 1)),
    var_mean_correction=lambda h, m, t: list(torch.ops.aten.var_mean.correction(h, [1], correction=0)),
    std_mean_correction=lambda h, m, t: list(torch.ops.aten.std_mean.correction(h, [1], correction=0)),
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
    nansum_dim=lambda h, m, t: h.nansum(1),
    nansum_rows=lambda h, m, t: h.nansum(0, keepdim=True),
    nanmean_dim=lambda h, m, t: h.nanmean(1),
    prod=lambda h, m, t: h.prod(1),
    prod_rows=lambda h, m, t: h.tanh().prod(0),
    logsumexp=lambda h, m, t: h.logsumexp(1),
    logsumexp_rows=lambda h, m, t: h.logsumexp(0),
    any_rows=lambda h, m, t: (h > 1).any(0).float(),
    all_dim=lambda h, m, t: (h > -2).all(1).float(),
    any_all=lambda h, m, t: (h > 1).any().float(),
    any_last=lambda h, m, t: (h.abs() + last_row(t) * 99 > 90).any().float(),  # in one rank's rows, not in rank 0's
    all_but_last=lambda h, m, t: (h.abs() + last_row(t) * 99 < 90).all().float(),
    is_all_true=lambda h, m, t: torch._is_all_true(h.abs() + last_row(t) * 99 < 90).float(),
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
    svdvals=lambda h, m, t: torch.linalg.svdvals(h)[:6],  # three of twelve are zero: their vectors, and so the derivative, are LAPACK's choice
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
    partial_out_product=lambda h, m, t: written_row(lambda row: torch.mul(h.detach().sum(0), 0.5, out=row)) + h,
    partial_out_sum=lambda h, m, t: written_row(lambda row: torch.add(h.detach().sum(0), 1, out=row)) + h,
    partial_out_quotient=lambda h, m, t: written_row(lambda row: torch.div(h.detach().mean(0), 2, out=row)) + h,
    partial_other_names=lambda h, m, t: h.sum(0).multiply_(2).negative().divide(3).subtract(1).divide_(2),
    replicated_accumulator=lambda h, m, t: torch.zeros(()).add_(h.sum()),
)


def written_row(write):
    """A tensor of the program's own, one row of which an operator has written."""
    table = torch.zeros(3, FLAT)
    write(table[1])
    return table.sum(0)


def square(h):
    """A well conditioned symmetric matrix of each row."""
    rows = h.view(-1, 3, 4)
    return rows @ rows.transpose(1, 2) + 2 * torch.eye(3)


def matrices(m, t):
    """A matrix for each row, far from singular."""
    return m.behind("image", t) * 0.3 + torch.eye(SIDE) * 2


EACH_MATRIX = {
    "triu_each": lambda x: x.triu(1), "qr_each": lambda x: [part.abs() for part in torch.linalg.qr(x)], "lu_each": lambda x: list(torch.linalg.lu(x)),
    "lu_factor_each": lambda x: torch.linalg.lu_factor_ex(x)[0], "pinv_each": lambda x: torch.linalg.pinv(x, rtol=1e-6), "fft_complex": lambda x: torch.fft.fft(torch.complex(x, x.flip(-1))),
    "cholesky_each": lambda x: torch.cholesky(x @ x.mT), "grid_sample_volume": lambda x: torch.nn.functional.grid_sample(x.unsqueeze(2), x[:, :3, :3].unflatten(-1, (2, 3)).tanh()),
}  # fmt: skip
for name, function in EACH_MATRIX.items():
    CASES[name] = (lambda function: lambda m, t: function(matrices(m, t)))(function)
