"""Cases of rule_sweep.py: every function of torch.nn.functional, behind a layer that has divided the batch (F.NAME:variant). Losses with every
reduction."""
import inspect

import torch
import torch.nn.functional as F

from rule_sweep_case import CASES, CHANNELS, CLASSES, FLAT, SIDE, TIME


def functions(kind, **calls):
    for key, call in calls.items():
        name = key.split("__")[0]
        if hasattr(F, name):
            CASES["F." + key.replace("__", ":")] = (lambda call: lambda m, t: call(m.behind(kind, t), m, t))(call)


# ---- losses: what they are given; with each reduction, and with another divided batch in place of the plain one where that can be
def losses(kind, reductions=("none", "mean", "sum"), **calls):
    for key, call in calls.items():
        for reduction in reductions:
            functions(kind, **{f"{key}{'_' if '__' in key else '__'}{reduction}": lambda h, m, t, call=call, reduction=reduction: call(h, m, t, reduction=reduction)})


def real(t):
    return t.noise[:, :CLASSES]


def other(m, t):
    return m.other(t.flat)[:, :CLASSES]


WEIGHTS = torch.linspace(0.1, 1, CLASSES)
for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"):
    function = getattr(F, name)
    losses("scores", **{
        name: lambda h, m, t, function=function, **o: function(h, real(t), **o),
        name + "__divided": lambda h, m, t, function=function, **o: function(h, other(m, t), **o),
        name + "__right": lambda h, m, t, function=function, **o: function(real(t), h, **o),
    })  # fmt: skip
losses(
    "scores",
    soft_margin_loss=lambda h, m, t, **o: F.soft_margin_loss(h[:, 0], t.sign, **o),
    hinge_embedding_loss=lambda h, m, t, **o: F.hinge_embedding_loss(h[:, 0], t.sign, margin=0.7, **o),
    margin_ranking_loss=lambda h, m, t, **o: F.margin_ranking_loss(h[:, 0], h[:, 1], t.sign, margin=0.2, **o),
    cosine_embedding_loss=lambda h, m, t, **o: F.cosine_embedding_loss(h, real(t), t.sign, margin=0.1, **o),
    cosine_embedding_loss__divided=lambda h, m, t, **o: F.cosine_embedding_loss(h, other(m, t), t.sign, **o),
    triplet_margin_loss=lambda h, m, t, **o: F.triplet_margin_loss(h, real(t), other(m, t), swap=True, **o),
    triplet_margin_with_distance_loss=lambda h, m, t, **o: F.triplet_margin_with_distance_loss(h, real(t), other(m, t), distance_function=lambda a, b: (a - b).abs().max(1).values, **o),
    poisson_nll_loss=lambda h, m, t, **o: F.poisson_nll_loss(h, real(t).abs() * 4, full=True, **o),
    poisson_nll_loss__plain=lambda h, m, t, **o: F.poisson_nll_loss(h.abs(), real(t).abs(), log_input=False, **o),
    gaussian_nll_loss=lambda h, m, t, **o: F.gaussian_nll_loss(h, real(t), h.exp(), full=True, **o),
    gaussian_nll_loss__one=lambda h, m, t, **o: F.gaussian_nll_loss(h, real(t), torch.ones(t.rows, 1) * 0.5, **o),
    binary_cross_entropy=lambda h, m, t, **o: F.binary_cross_entropy(h.sigmoid(), real(t).sigmoid(), **o),
    binary_cross_entropy__weight=lambda h, m, t, **o: F.binary_cross_entropy(h.sigmoid(), real(t).sigmoid(), weight=WEIGHTS, **o),
    binary_cross_entropy__row_weight=lambda h, m, t, **o: F.binary_cross_entropy(h.sigmoid(), real(t).sigmoid(), weight=t.sign.abs().view(-1, 1), **o),
    binary_cross_entropy_with_logits=lambda h, m, t, **o: F.binary_cross_entropy_with_logits(h, real(t).sigmoid(), **o),
    binary_cross_entropy_with_logits__weights=lambda h, m, t, **o: F.binary_cross_entropy_with_logits(h, real(t).sigmoid(), weight=real(t).abs(), pos_weight=WEIGHTS, **o),
    multi_margin_loss=lambda h, m, t, **o: F.multi_margin_loss(h, t.target, **o),
    multi_margin_loss__weight=lambda h, m, t, **o: F.multi_margin_loss(h, t.target, p=2, margin=0.5, weight=WEIGHTS, **o),
    multilabel_margin_loss=lambda h, m, t, **o: F.multilabel_margin_loss(h, t.label_sets, **o),
    multilabel_soft_margin_loss=lambda h, m, t, **o: F.multilabel_soft_margin_loss(h, real(t).sigmoid(), **o),
    multilabel_soft_margin_loss__weight=lambda h, m, t, **o: F.multilabel_soft_margin_loss(h, real(t).sigmoid(), weight=WEIGHTS, **o),
    nll_loss=lambda h, m, t, **o: F.nll_loss(h.log_softmax(1), t.target, **o),
    nll_loss__weight=lambda h, m, t, **o: F.nll_loss(h.log_softmax(1), t.target, weight=WEIGHTS, ignore_index=2, **o),
    cross_entropy=lambda h, m, t, **o: F.cross_entropy(h, t.target, **o),
    cross_entropy__weight=lambda h, m, t, **o: F.cross_entropy(h, t.target, weight=WEIGHTS, **o),
    cross_entropy__ignore=lambda h, m, t, **o: F.cross_entropy(h, t.target, ignore_index=2, **o),
    cross_entropy__ignore_first=lambda h, m, t, **o: F.cross_entropy(h, torch.where(torch.arange(t.rows) < t.rows // 2, -100, t.target), weight=WEIGHTS, **o),
    cross_entropy__smooth=lambda h, m, t, **o: F.cross_entropy(h, t.target, label_smoothing=0.1, **o),
    cross_entropy__smooth_all=lambda h, m, t, **o: F.cross_entropy(h, t.target, weight=WEIGHTS, ignore_index=2, label_smoothing=0.1, **o),
    cross_entropy__probabilities=lambda h, m, t, **o: F.cross_entropy(h, real(t).softmax(1), **o),
    cross_entropy__probabilities_all=lambda h, m, t, **o: F.cross_entropy(h, real(t).softmax(1), weight=WEIGHTS, label_smoothing=0.2, **o),
    cross_entropy__divided_target=lambda h, m, t, **o: F.cross_entropy(h, other(m, t).argmax(1), **o),
    cross_entropy__divided_probabilities=lambda h, m, t, **o: F.cross_entropy(h, other(m, t).softmax(1), **o),
    cross_entropy__one_row=lambda h, m, t, **o: F.cross_entropy(h[1], t.target[1], **o),
)
losses(
    "image",
    nll_loss__image=lambda h, m, t, **o: F.nll_loss(h.log_softmax(1), t.image_target, weight=WEIGHTS[:CHANNELS], **o),
    cross_entropy__image=lambda h, m, t, **o: F.cross_entropy(h, t.image_target, ignore_index=1, **o),
    cross_entropy__image_smooth=lambda h, m, t, **o: F.cross_entropy(h, t.image_target, weight=WEIGHTS[:CHANNELS], label_smoothing=0.1, **o),
    cross_entropy__image_probabilities=lambda h, m, t, **o: F.cross_entropy(h, t.raw("image").softmax(1), **o),
    mse_loss__image=lambda h, m, t, **o: F.mse_loss(h, t.raw("image"), **o),
)
losses("line", cross_entropy__line=lambda h, m, t, **o: F.cross_entropy(h, t.image_target.flatten(1), **o))
losses("scores", ("none", "batchmean", "mean", "sum"), kl_div=lambda h, m, t, **o: F.kl_div(h.log_softmax(1), real(t).softmax(1), **o), kl_div__log=lambda h, m, t, **o: F.kl_div(real(t).log_softmax(1), h.log_softmax(1), log_target=True, **o))  # fmt: skip


def ctc(h, t, targets, **options):
    return F.ctc_loss(h.log_softmax(2), targets, torch.full((t.rows,), h.shape[0]), t.target % 2 + 1, **options)


losses(
    "series",
    ctc_loss=lambda h, m, t, **o: ctc(h.transpose(0, 1), t, t.tokens[:, :2] + 1, **o),
    ctc_loss__joined=lambda h, m, t, **o: ctc(h.transpose(0, 1), t, t.tokens.flatten()[: int((t.target % 2 + 1).sum())] + 1, zero_infinity=True, **o),
    ctc_loss__lists=lambda h, m, t, **o: F.ctc_loss(h.transpose(0, 1).log_softmax(2), t.tokens[:, :2] + 1, tuple([TIME] * t.rows), tuple([2] * t.rows), **o),
)
losses("flat", ("mean", "sum"), linear_cross_entropy=lambda h, m, t, **o: F.linear_cross_entropy(h, m.matrix[:CLASSES], t.target, **o))

# ---- activations and their twins
for name in sorted(dir(F)):
    if name.rstrip("_") in ("relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid", "hardshrink", "softshrink", "softsign", "softplus", "tanhshrink",
                            "gelu", "logsigmoid", "sigmoid", "tanh", "rrelu"):  # fmt: skip
        functions("flat", **{name: lambda h, m, t, function=getattr(F, name): function(h * 1.5)})
for name in ("relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid", "rrelu", "dropout", "alpha_dropout", "feature_alpha_dropout"):
    functions("flat", **{name + "__inplace": lambda h, m, t, function=getattr(F, name): function(h * 1.5, inplace=True)})
functions(
    "flat",
    threshold=lambda h, m, t: F.threshold(h, 0.1, 2),
    threshold_=lambda h, m, t: F.threshold_(h * 1, 0.1, 2),
    rrelu__training=lambda h, m, t: F.rrelu(h, training=True),
    prelu=lambda h, m, t: F.prelu(h, m.slope),
    glu=lambda h, m, t: F.glu(h),
    softmax=lambda h, m, t: F.softmax(h, 1, dtype=torch.double),
    softmin=lambda h, m, t: F.softmin(h, 0),
    log_softmax=lambda h, m, t: F.log_softmax(h, -1, dtype=torch.double),
    gumbel_softmax=lambda h, m, t: F.gumbel_softmax(h, hard=True),
    gumbel_softmax__rows=lambda h, m, t: F.gumbel_softmax(h, dim=0),
    dropout=lambda h, m, t: F.dropout(h, 0.3),
    alpha_dropout=lambda h, m, t: F.alpha_dropout(h, 0.3, training=True),
    dropout1d=lambda h, m, t: F.dropout1d(h.view(-1, 3, 4), 0.3),
    linear=lambda h, m, t: F.linear(h, m.matrix, m.slope),
    bilinear=lambda h, m, t: F.bilinear(h[:, :5], h[:, 5:10], m.table.view(2, 5, 5)),
    layer_norm=lambda h, m, t: F.layer_norm(h, (FLAT,), m.slope, m.slope * 2),
    layer_norm__rows=lambda h, m, t: F.layer_norm(h, h.shape),
    rms_norm=lambda h, m, t: F.rms_norm(h, (FLAT,), m.slope),
    normalize=lambda h, m, t: F.normalize(h, p=3),
    normalize__rows=lambda h, m, t: F.normalize(h, dim=0),
    one_hot=lambda h, m, t: F.one_hot(h.argmax(1), FLAT) * h,
    one_hot__open=lambda h, m, t: F.one_hot(h.argmax(1)),
    cosine_similarity=lambda h, m, t: F.cosine_similarity(h, m.other(t.flat)),
    cosine_similarity__all=lambda h, m, t: F.cosine_similarity(h.unsqueeze(1), h.unsqueeze(0), dim=-1),
    cosine_similarity__one=lambda h, m, t: F.cosine_similarity(h, t.noise[0]),
    pairwise_distance=lambda h, m, t: F.pairwise_distance(h, m.other(t.flat)),
    pairwise_distance__one=lambda h, m, t: F.pairwise_distance(h, t.noise[0]),
    pdist=lambda h, m, t: F.pdist(h),
    embedding=lambda h, m, t: F.embedding(h.argmax(1) % 10, m.table),
    embedding_bag=lambda h, m, t: F.embedding_bag(t.tokens, m.table),
    embedding_bag__weights=lambda h, m, t: F.embedding_bag(h.argsort(1)[:, :TIME] % 10, m.table, per_sample_weights=h[:, :TIME], mode="sum"),
    batch_norm=lambda h, m, t: F.batch_norm(h, torch.zeros(FLAT), torch.ones(FLAT), m.slope, m.slope, training=True),
    pad=lambda h, m, t: F.pad(h, (1, 2), value=0.5),
    pad__rows=lambda h, m, t: F.pad(h, (0, 0, 1, 1)),
    pad__cut=lambda h, m, t: F.pad(h, (-1, 2)),
)

# ---- images
functions(
    "image",
    conv2d=lambda h, m, t: F.conv2d(h, m.matrix[:8].reshape(2, 4, 3, 4), padding=1),
    conv_transpose2d=lambda h, m, t: F.conv_transpose2d(h, m.matrix[:8].reshape(4, 2, 3, 4), stride=2),
    conv2d__divided_weight=lambda h, m, t: F.conv2d(t.raw("image")[:1], h[:2, :, :3, :3]),
    conv2d__one=lambda h, m, t: F.conv2d(h[1], m.matrix[:8].reshape(2, 4, 3, 4)),
    group_norm=lambda h, m, t: F.group_norm(h, 2, m.slope[:4]),
    instance_norm=lambda h, m, t: F.instance_norm(h, weight=m.slope[:4]),
    local_response_norm=lambda h, m, t: F.local_response_norm(h, 3),
    unfold=lambda h, m, t: F.unfold(h, 2, dilation=2, padding=1),
    fold=lambda h, m, t: F.fold(F.unfold(h, 2), (SIDE, SIDE), 2),
    affine_grid=lambda h, m, t: F.affine_grid(h[:, 0, :2, :3], (t.rows, 1, 4, 5), align_corners=False),
    grid_sample=lambda h, m, t: F.grid_sample(h, F.affine_grid(h[:, 0, :2, :3], (t.rows, 1, 4, 5), align_corners=False), align_corners=False),
    grid_sample__plain=lambda h, m, t: F.grid_sample(h, t.raw("image").permute(0, 2, 3, 1)[..., :2].tanh(), mode="nearest", padding_mode="border", align_corners=True),
    interpolate=lambda h, m, t: F.interpolate(h, scale_factor=1.5, mode="bilinear"),
    interpolate__antialias=lambda h, m, t: F.interpolate(h, size=(4, 4), mode="bicubic", antialias=True),
    interpolate__area=lambda h, m, t: F.interpolate(h, size=(3, 4), mode="area"),
    interpolate__exact=lambda h, m, t: F.interpolate(h, size=(4, 4), mode="nearest-exact"),
    upsample=lambda h, m, t: F.upsample(h, scale_factor=2),
    upsample_nearest=lambda h, m, t: F.upsample_nearest(h, scale_factor=2),
    upsample_bilinear=lambda h, m, t: F.upsample_bilinear(h, scale_factor=2),
    pixel_shuffle=lambda h, m, t: F.pixel_shuffle(h, 2),
    pixel_unshuffle=lambda h, m, t: F.pixel_unshuffle(h, 3),
    channel_shuffle=lambda h, m, t: F.channel_shuffle(h, 2),
    native_channel_shuffle=lambda h, m, t: F.native_channel_shuffle(h.detach(), 2),
    dropout2d=lambda h, m, t: F.dropout2d(h, 0.4),
    feature_alpha_dropout=lambda h, m, t: F.feature_alpha_dropout(h, 0.3, training=True),
    pad__reflect=lambda h, m, t: F.pad(h, (1, 1, 2, 1), mode="reflect"),
    pad__replicate=lambda h, m, t: F.pad(h, (1, 1, 2, 1), mode="replicate"),
    pad__circular=lambda h, m, t: F.pad(h, (1, 1, 2, 1), mode="circular"),
    max_pool2d=lambda h, m, t: F.max_pool2d(h[2], 2),
)
functions("line", conv1d=lambda h, m, t: F.conv1d(h, m.matrix[:2].view(2, 4, 3), stride=2), conv_transpose1d=lambda h, m, t: F.conv_transpose1d(h, m.matrix[:4].view(4, 3, 4)), conv_tbc=lambda h, m, t: F.conv_tbc(h.permute(2, 0, 1).contiguous(), m.matrix[:6].view(3, 4, 6), m.slope[:6]))  # fmt: skip
functions("volume", conv3d=lambda h, m, t: F.conv3d(h, m.matrix[:8].view(3, 4, 2, 2, 2)), conv_transpose3d=lambda h, m, t: F.conv_transpose3d(h, m.matrix[:8].view(4, 3, 2, 2, 2)), dropout3d=lambda h, m, t: F.dropout3d(h, 0.4))
for kind, n in (("line", 1), ("image", 2), ("volume", 3)):
    for name in (f"max_pool{n}d", f"avg_pool{n}d"):
        functions(kind, **{name + "__functional": lambda h, m, t, function=getattr(F, name): function(h, 2)})
    for name in (f"adaptive_max_pool{n}d", f"adaptive_avg_pool{n}d"):
        functions(kind, **{name: lambda h, m, t, function=getattr(F, name): function(h, 2)})
    functions(kind, **{
        f"max_unpool{n}d": lambda h, m, t, n=n: getattr(F, f"max_unpool{n}d")(*getattr(F, f"max_pool{n}d")(h, 2, return_indices=True), 2),
        f"max_pool{n}d_with_indices": lambda h, m, t, n=n: getattr(F, f"max_pool{n}d_with_indices")(h, 2),
        f"adaptive_max_pool{n}d_with_indices": lambda h, m, t, n=n: getattr(F, f"adaptive_max_pool{n}d_with_indices")(h, 2),
        f"lp_pool{n}d": lambda h, m, t, n=n: getattr(F, f"lp_pool{n}d")(h.abs() + 0.1, 3, 2),
    })  # fmt: skip
    if n > 1:
        functions(kind, **{
            f"fractional_max_pool{n}d": lambda h, m, t, n=n: getattr(F, f"fractional_max_pool{n}d")(h, 2, output_ratio=(0.5,) * n),
            f"fractional_max_pool{n}d_with_indices": lambda h, m, t, n=n: getattr(F, f"fractional_max_pool{n}d_with_indices")(h, 2, output_size=(2, 4, 4)[3 - n :]),
        })  # fmt: skip

# ---- attention in all its backends: by hand, fused, on the CPU's flash kernel, with a mask, with dropout
HEADS = dict(
    plain={}, causal=dict(is_causal=True), scaled=dict(scale=0.3), dropout=dict(dropout_p=0.4), mask=dict(attn_mask=torch.ones(TIME, TIME).tril().bool()), added=dict(attn_mask=torch.linspace(-1, 1, TIME).expand(TIME, TIME))
)


def heads(h):
    return h.view(h.shape[0], h.shape[1], 2, -1).transpose(1, 2)


def attention(h, t, backend=None, **options):
    queries = heads(h)
    options = {name: value(t) if callable(value) else value for name, value in options.items()}
    if backend is None:
        return F.scaled_dot_product_attention(queries, queries * 0.5, queries + 1, **options)
    with torch.nn.attention.sdpa_kernel(backend):
        return F.scaled_dot_product_attention(queries, queries * 0.5, queries + 1, **options)


HEADS["row_mask"] = dict(attn_mask=lambda t: (torch.arange(TIME) <= t.target.view(-1, 1, 1, 1)))
for name, options in HEADS.items():
    functions("series", **{"scaled_dot_product_attention__" + name: lambda h, m, t, options=options: attention(h, t, **options)})
    for backend in ("MATH", "FLASH_ATTENTION"):
        if hasattr(torch.nn, "attention") and (backend == "MATH" or name in ("plain", "causal")):
            functions("series", **{f"scaled_dot_product_attention__{name}_{backend.lower()}": lambda h, m, t, options=options, backend=backend: attention(h, t, getattr(torch.nn.attention.SDPBackend, backend), **options)})
functions(
    "series",
    scaled_dot_product_attention__one_head=lambda h, m, t: F.scaled_dot_product_attention(h, h, h * 2),
    scaled_dot_product_attention__keys=lambda h, m, t: F.scaled_dot_product_attention(h, h[:, :3] * 2, t.raw("series")[:, :3]),
    scaled_dot_product_attention__grouped=lambda h, m, t: F.scaled_dot_product_attention(heads(h), heads(h)[:, :1], heads(h)[:, :1], enable_gqa=True),
    multi_head_attention_forward=lambda h, m, t: F.multi_head_attention_forward(
        *[h.transpose(0, 1)] * 3, FLAT, 2, m.matrix.repeat(3, 1), m.slope.repeat(3), None, None, False, 0.0, m.matrix, m.slope
    ),
)

# Functions without a case, and why.
NO_CASE = {
    "assert_int_or_pair": "no operator", "boolean_dispatch": "no operator", "handle_torch_function": "no operator", "has_torch_function": "no operator",
    "has_torch_function_unary": "no operator", "has_torch_function_variadic": "no operator", "grouped_mm": "refuses to run without GPUs", "scaled_grouped_mm": "refuses to run without GPUs", "scaled_mm": "eight bit floats",
    "Callable": "a type", "List": "a type", "Optional": "a type", "Tuple": "a type", "Union": "a type",
}  # fmt: skip


def names():
    return [name for name in dir(F) if not name.startswith("_") and callable(getattr(F, name)) and not inspect.isclass(getattr(F, name))]
