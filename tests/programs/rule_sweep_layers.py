"""Cases of rule_sweep.py: images, losses, sequences, unusual backwards, all rows in another order or behind nothing."""
import math  # noqa: F401

import torch
import torch.nn.functional as F
import torch.utils.checkpoint  # noqa: F401

from rule_sweep_case import CASES, CHANNELS, CLASSES, FLAT, SIDE, TIME, case, table  # noqa: F401


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


def many(m):
    """More rows than are compared one by one."""
    return m.matrix.repeat(3, 1)[:30]


def put_masked(h, mask, values):
    h = h * 1
    h[:, mask] = values
    return h


SOME = torch.arange(FLAT) % 3 != 1

# ---- distances from many rows, products that are written, columns by a mask
table(
    "flat",
    cdist_table=lambda h, m, t: torch.cdist(h, many(m)),
    cdist_table_right=lambda h, m, t: torch.cdist(many(m), h),
    cdist_table_batched=lambda h, m, t: torch.cdist(h.view(-1, 3, 4), many(m)[:, :4]),
    cdist_tables=lambda h, m, t: torch.cdist(h.view(-1, 3, 4), torch.linspace(-1, 1, t.rows * 120).view(-1, 30, 4)),
    cdist_tables_own=lambda h, m, t: torch.cdist(h.view(-1, 3, 4), m.other(t.flat).repeat(1, 10).view(-1, 30, 4)),
    cdist_many_own=lambda h, m, t: torch.cdist(h.view(-1, 3), m.other(t.flat).view(-1, 3)),
    baddbmm_in_place=lambda h, m, t: (h.view(-1, 3, 4) * 1).baddbmm_(h.view(-1, 3, 4)[:, :, :2], m.other(t.flat).view(-1, 2, 6)[:, :, :4]),
    baddbmm_in_place_plain=lambda h, m, t: (h.view(-1, 3, 4) * 1).baddbmm_(t.noise.view(-1, 3, 4)[:, :, :2], m.other(t.flat).view(-1, 2, 6)[:, :, :4]),
    baddbmm_in_place_unfit=lambda h, m, t: (h.view(-1, 3, 4) * 1).baddbmm_(h.view(-1, 3, 4)[:, :2, :2], h.view(-1, 2, 6)[:, :, :4]),
    mask_columns=lambda h, m, t: h[:, SOME],
    mask_columns_none=lambda h, m, t: h[:, SOME & False].sum() + h,
    mask_columns_two=lambda h, m, t: h.view(-1, 3, 4)[:, torch.tensor([True, False, True]), torch.tensor([1, 3])],
    mask_columns_apart=lambda h, m, t: h.view(-1, 2, 3, 2)[:, torch.tensor([True, True]), :, torch.tensor([1, 0])],
    mask_columns_of_rows=lambda h, m, t: h[torch.arange(t.rows), torch.arange(FLAT) == 3],
    mask_columns_first=lambda h, m, t: h.t()[SOME],
    mask_columns_bytes=lambda h, m, t: h[:, SOME.byte()],
    mask_columns_all=lambda h, m, t: h.view(-1, 3, 4)[:, SOME.view(3, 4)],
    mask_columns_own=lambda h, m, t: h[:, h.sum(0) > 0],
    mask_columns_long=lambda h, m, t: h[:, torch.ones(FLAT + 1) > 0],
    mask_columns_put=lambda h, m, t: put_masked(h, SOME, 0.5),
    mask_columns_put_rows=lambda h, m, t: put_masked(h, SOME, t.noise[:, SOME]),
    mask_columns_put_own=lambda h, m, t: put_masked(h, SOME, m.other(t.flat)[:, :8]),
    mask_columns_put_unfit=lambda h, m, t: put_masked(h, SOME, t.noise[:, :3]),
    mask_columns_accumulate=lambda h, m, t: (h * 1).index_put((torch.arange(t.rows), (torch.arange(FLAT) == 3).nonzero()[0]), h[:, SOME][:, 0], accumulate=True),
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


# ---- all rows
table(
    "flat",
    index_rows_from_last=lambda h, m, t: h[t.order - t.rows * (t.order % 2)],
    index_rows_as_columns=lambda h, m, t: (h.t() * 2)[:, t.order],
    index_rows_outside=lambda h, m, t: h[t.order + 1],
    cat_rows_to_nothing=lambda h, m, t: torch.cat([torch.tensor([]), h, t.noise]),
    cat_columns_to_nothing=lambda h, m, t: torch.cat([torch.tensor([], dtype=torch.float64), t.noise, h], 1),
    cat_numbers_to_nothing=lambda h, m, t: torch.cat([torch.tensor([]), h[:, 0]]),
)
