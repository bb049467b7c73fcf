"""Cases of rule_sweep.py: every class of torch.nn. Each stands behind a layer that has divided the batch (nn.NAME); one that has parameters also
meets the batch first (nn.NAME:first), and a batch whose own gradient the program wants (nn.NAME:input). What stands behind the colon is a variant."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from rule_sweep_case import CASES, CHANNELS, CLASSES, FLAT, SIDE, TIME


def plain_call(module, h, t):
    return module(h)


def module_case(make, use, data):
    def run(m, t):
        torch.manual_seed(t.rows)
        m.under_test = make()
        return use(m.under_test, data(m, t), t)

    return run


def leaf(m, t, kind):
    return m.keep(t.raw(kind).clone().requires_grad_())


def modules(kind, use=plain_call, **makers):
    """Classes that take a tensor of this kind (Tools.raw), as functions that make one; NAME__variant for more than one."""
    for key, make in makers.items():
        name = key.split("__")[0]
        if not hasattr(nn, name):
            continue  # of a newer torch
        full = "nn." + key.replace("__", ":")
        CASES[full] = module_case(make, use, lambda m, t: m.behind(kind, t))
        if not name.startswith("Lazy") and any(True for _ in make().parameters()):
            variant = full + ("_" if "__" in key else ":")
            CASES[variant + "first"] = module_case(make, use, lambda m, t: t.raw(kind))
            if kind != "tokens":
                CASES[variant + "input"] = module_case(make, use, lambda m, t: leaf(m, t, kind))


def evaluated(use=plain_call):
    """Without history and dropout: the fast paths."""

    def run(module, h, t):
        with torch.no_grad():
            return use(module.eval(), h, t)

    return run


# ---- element by element, and what looks at one row at a time
modules(
    "flat",
    Linear=lambda: nn.Linear(FLAT, 5),
    Linear__plain=lambda: nn.Linear(FLAT, 5, bias=False),
    LazyLinear=lambda: nn.LazyLinear(5),
    Identity=lambda: nn.Identity(),
    Sequential=lambda: nn.Sequential(nn.Linear(FLAT, 7), nn.ReLU(inplace=True), nn.Linear(7, 3)),
    ELU=lambda: nn.ELU(),
    ELU__inplace=lambda: nn.ELU(inplace=True),
    CELU=lambda: nn.CELU(),
    SELU=lambda: nn.SELU(),
    GELU=lambda: nn.GELU(),
    GELU__tanh=lambda: nn.GELU(approximate="tanh"),
    GLU=lambda: nn.GLU(),
    Hardshrink=lambda: nn.Hardshrink(),
    Hardsigmoid=lambda: nn.Hardsigmoid(),
    Hardswish=lambda: nn.Hardswish(),
    Hardtanh=lambda: nn.Hardtanh(),
    LeakyReLU=lambda: nn.LeakyReLU(0.2, inplace=True),
    LogSigmoid=lambda: nn.LogSigmoid(),
    LogSoftmax=lambda: nn.LogSoftmax(1),
    LogSoftmax__rows=lambda: nn.LogSoftmax(0),
    Mish=lambda: nn.Mish(),
    PReLU=lambda: nn.PReLU(),
    PReLU__each=lambda: nn.PReLU(FLAT),
    RReLU=lambda: nn.RReLU(),
    ReLU=lambda: nn.ReLU(),
    ReLU__inplace=lambda: nn.ReLU(inplace=True),
    ReLU6=lambda: nn.ReLU6(),
    SiLU=lambda: nn.SiLU(),
    Sigmoid=lambda: nn.Sigmoid(),
    Softmax=lambda: nn.Softmax(1),
    Softmax__rows=lambda: nn.Softmax(0),
    Softmin=lambda: nn.Softmin(1),
    Softplus=lambda: nn.Softplus(),
    Softshrink=lambda: nn.Softshrink(),
    Softsign=lambda: nn.Softsign(),
    Tanh=lambda: nn.Tanh(),
    Tanhshrink=lambda: nn.Tanhshrink(),
    Threshold=lambda: nn.Threshold(0.1, 2.0),
    Dropout=lambda: nn.Dropout(0.4),
    AlphaDropout=lambda: nn.AlphaDropout(0.3),
    LayerNorm=lambda: nn.LayerNorm(FLAT),
    LayerNorm__plain=lambda: nn.LayerNorm(FLAT, elementwise_affine=False),
    RMSNorm=lambda: nn.RMSNorm(FLAT),
    BatchNorm1d=lambda: nn.BatchNorm1d(FLAT),
    BatchNorm1d__momentum=lambda: nn.BatchNorm1d(FLAT, momentum=None),
    GroupNorm__flat=lambda: nn.GroupNorm(3, FLAT),
    Unflatten=lambda: nn.Unflatten(1, (3, 4)),
    ZeroPad1d=lambda: nn.ZeroPad1d(1),
)
modules("series", Flatten=lambda: nn.Flatten(), Flatten__from_rows=lambda: nn.Flatten(0, 1), LayerNorm__two=lambda: nn.LayerNorm((TIME, FLAT)))
modules("flat", evaluated(), BatchNorm1d__eval=lambda: nn.BatchNorm1d(FLAT), Dropout__eval=lambda: nn.Dropout(0.4), RReLU__eval=lambda: nn.RReLU())

# ---- two inputs
modules(
    "flat",
    lambda module, h, t: module(h, t.noise),
    Bilinear=lambda: nn.Bilinear(FLAT, FLAT, 3),
    CosineSimilarity=lambda: nn.CosineSimilarity(),
    CosineSimilarity__rows=lambda: nn.CosineSimilarity(0),
    PairwiseDistance=lambda: nn.PairwiseDistance(),
    PairwiseDistance__one=lambda: nn.PairwiseDistance(1, keepdim=True),
)

# ---- signals, images, volumes
for kind, n in (("line", 1), ("image", 2), ("volume", 3)):
    three = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}[n]
    pads = (1, 2) * n

    def named(name, make, kind=kind, n=n, use=plain_call):
        modules(kind, use, **{name.replace("#", str(n)): make})

    def of(name, n=n):
        """The class of this number of dimensions, looked up when a case runs: older releases lack some."""
        return lambda *a, **k: getattr(nn, f"{name}{n}d")(*a, **k)

    named("Conv#d", lambda of=of: of("Conv")(CHANNELS, 2, 3))
    named("Conv#d__strided", lambda of=of: of("Conv")(CHANNELS, 4, 2, stride=2, padding=1, dilation=2, groups=2, bias=False))
    named("Conv#d__same", lambda of=of: of("Conv")(CHANNELS, 2, 3, padding="same"))
    named("Conv#d__circular", lambda of=of: of("Conv")(CHANNELS, 2, 3, padding=1, padding_mode="circular"))
    named("Conv#d__reflect", lambda of=of: of("Conv")(CHANNELS, 2, 3, padding=1, padding_mode="reflect"))
    named("ConvTranspose#d", lambda of=of: of("ConvTranspose")(CHANNELS, 2, 3))
    named("ConvTranspose#d__strided", lambda of=of: of("ConvTranspose")(CHANNELS, 4, 3, stride=2, padding=1, output_padding=1, groups=2))
    named("LazyConv#d", lambda of=of: of("LazyConv")(2, 3))
    named("LazyConvTranspose#d", lambda of=of: of("LazyConvTranspose")(2, 3))
    named("MaxPool#d", lambda of=of: of("MaxPool")(2))
    named("MaxPool#d__indices", lambda of=of: of("MaxPool")(2, return_indices=True))
    named("MaxPool#d__dilated", lambda of=of: of("MaxPool")(2, stride=1, padding=1, dilation=2, ceil_mode=True))
    named("MaxUnpool#d", lambda of=of: of("MaxUnpool")(2), use=lambda module, h, t, n=n: module(*getattr(nn.functional, f"max_pool{n}d")(h, 2, return_indices=True)))
    named("AvgPool#d", lambda of=of: of("AvgPool")(2))
    named("AvgPool#d__padded", lambda of=of: of("AvgPool")(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False))
    named("LPPool#d", lambda of=of: of("LPPool")(2, 2), use=lambda module, h, t: module(h.abs() + 0.1))
    named("AdaptiveAvgPool#d", lambda of=of, three=three: of("AdaptiveAvgPool")(three))
    named("AdaptiveAvgPool#d__one", lambda of=of: of("AdaptiveAvgPool")(1))
    named("AdaptiveMaxPool#d", lambda of=of, three=three: of("AdaptiveMaxPool")(three, return_indices=True))
    named("ConstantPad#d", lambda of=of, pads=pads: of("ConstantPad")(pads, 0.5))
    named("ZeroPad#d", lambda of=of, pads=pads: of("ZeroPad")(pads))
    named("ReflectionPad#d", lambda of=of, pads=pads: of("ReflectionPad")(pads))
    named("ReplicationPad#d", lambda of=of, pads=pads: of("ReplicationPad")(pads))
    named("CircularPad#d", lambda of=of, pads=pads: of("CircularPad")(pads))
    named("Dropout#d", lambda of=of: of("Dropout")(0.4))
    named("BatchNorm#d", lambda of=of: of("BatchNorm")(CHANNELS))
    named("BatchNorm#d__plain", lambda of=of: of("BatchNorm")(CHANNELS, affine=False, track_running_stats=False))
    named("LazyBatchNorm#d", lambda of=of: of("LazyBatchNorm")())
    named("InstanceNorm#d", lambda of=of: of("InstanceNorm")(CHANNELS))
    named("InstanceNorm#d__affine", lambda of=of: of("InstanceNorm")(CHANNELS, affine=True))
    named("InstanceNorm#d__running", lambda of=of: of("InstanceNorm")(CHANNELS, track_running_stats=True))
    named("LazyInstanceNorm#d", lambda of=of: of("LazyInstanceNorm")())
    if n > 1:
        named("FractionalMaxPool#d", lambda of=of, n=n: of("FractionalMaxPool")(2, output_size=(2,) * n))
modules(
    "image",
    GroupNorm=lambda: nn.GroupNorm(2, CHANNELS),
    GroupNorm__plain=lambda: nn.GroupNorm(CHANNELS, CHANNELS, affine=False),
    LayerNorm__image=lambda: nn.LayerNorm((CHANNELS, SIDE, SIDE)),
    RMSNorm__image=lambda: nn.RMSNorm((SIDE,)),
    LocalResponseNorm=lambda: nn.LocalResponseNorm(2),
    CrossMapLRN2d=lambda: nn.CrossMapLRN2d(2),
    Softmax2d=lambda: nn.Softmax2d(),
    PixelShuffle=lambda: nn.PixelShuffle(2),
    PixelUnshuffle=lambda: nn.PixelUnshuffle(2),
    ChannelShuffle=lambda: nn.ChannelShuffle(2),
    FeatureAlphaDropout=lambda: nn.FeatureAlphaDropout(0.4),
    Unfold=lambda: nn.Unfold(2, stride=2),
    Upsample=lambda: nn.Upsample(scale_factor=2),
    Upsample__bilinear=lambda: nn.Upsample(size=(4, 9), mode="bilinear"),
    Upsample__bicubic=lambda: nn.Upsample(scale_factor=1.5, mode="bicubic", align_corners=True),
    UpsamplingNearest2d=lambda: nn.UpsamplingNearest2d(scale_factor=2),
    UpsamplingBilinear2d=lambda: nn.UpsamplingBilinear2d(scale_factor=2),
    BatchNorm2d__twice=lambda: nn.Sequential(nn.BatchNorm2d(CHANNELS), nn.ReLU(), nn.Conv2d(CHANNELS, 3, 1), nn.BatchNorm2d(3)),
)
modules("image", lambda module, h, t: module(nn.functional.unfold(h, 2, stride=2)), Fold=lambda: nn.Fold((SIDE, SIDE), 2, stride=2))
modules("image", lambda module, h, t: module(h, output_size=(12, 13)), ConvTranspose2d__sized=lambda: nn.ConvTranspose2d(CHANNELS, 2, 2, stride=2))
modules("line", Upsample__linear=lambda: nn.Upsample(scale_factor=2, mode="linear"))
modules("volume", Upsample__trilinear=lambda: nn.Upsample(scale_factor=2, mode="trilinear"))

# ---- indices
modules("tokens", Embedding=lambda: nn.Embedding(10, 5), Embedding__padding=lambda: nn.Embedding(10, 5, padding_idx=2), Embedding__norm=lambda: nn.Embedding(10, 5, max_norm=0.5),
        Embedding__frequency=lambda: nn.Embedding(10, 5, scale_grad_by_freq=True),
        EmbeddingBag=lambda: nn.EmbeddingBag(10, 5), EmbeddingBag__sum=lambda: nn.EmbeddingBag(10, 5, mode="sum", padding_idx=2), EmbeddingBag__max=lambda: nn.EmbeddingBag(10, 5, mode="max"))  # fmt: skip
modules("tokens", lambda module, h, t: module(h.flatten(), torch.arange(t.rows) * TIME), EmbeddingBag__offsets=lambda: nn.EmbeddingBag(10, 5))

# ---- recurrent layers: the batch first or second, several layers, dropout between them, both directions, a carried state
for name in ("RNN", "GRU", "LSTM"):
    kind = getattr(nn, name)

    def carried(module, h, t):
        """Half of the time, then the other half from the state that was left; the state detached in between, as for truncated gradients."""
        first, state = module(h[:, :2])
        state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state
        return (first, *module(h[:, 2:], state))

    def given_state(module, h, t):
        state = torch.linspace(-1, 1, t.rows * 3).view(1, t.rows, 3)
        return module(h, (state, state * 0.5) if isinstance(module, nn.LSTM) else state)

    def packed(module, h, t):
        lengths = (t.target % TIME + 1).sort(descending=True).values
        output, state = module(pack_padded_sequence(h, lengths, batch_first=True))
        return pad_packed_sequence(output, batch_first=True)[0], state

    def packed_unsorted(module, h, t):
        output, state = module(pack_padded_sequence(h, t.target % TIME + 1, batch_first=True, enforce_sorted=False))
        return pad_packed_sequence(output, batch_first=True)[0], state

    modules("series", **{
        name: lambda kind=kind: kind(FLAT, 3, batch_first=True),
        name + "__plain": lambda kind=kind: kind(FLAT, 3, batch_first=True, bias=False),
        name + "__deep": lambda kind=kind: kind(FLAT, 3, 2, batch_first=True, dropout=0.4, bidirectional=True),
        name + "__both_ways": lambda kind=kind: kind(FLAT, 3, batch_first=True, bidirectional=True),
    })  # fmt: skip
    modules("series", evaluated(), **{name + "__eval": lambda kind=kind: kind(FLAT, 3, 2, batch_first=True, dropout=0.4)})
    modules("series", lambda module, h, t: module(h.transpose(0, 1)), **{name + "__time_first": lambda kind=kind: kind(FLAT, 3, 2)})
    modules("series", carried, **{name + "__carried": lambda kind=kind: kind(FLAT, 3, batch_first=True)})
    modules("series", given_state, **{name + "__state": lambda kind=kind: kind(FLAT, 3, batch_first=True)})
    modules("series", packed, **{name + "__packed": lambda kind=kind: kind(FLAT, 3, batch_first=True)})
    modules("series", packed_unsorted, **{name + "__packed_unsorted": lambda kind=kind: kind(FLAT, 3, 2, batch_first=True, bidirectional=True)})
modules("series", lambda module, h, t: module(pack_sequence([h[0], h[1, :3], h[2, :2]])).__getitem__(1), GRU__packed_list=lambda: nn.GRU(FLAT, 3))
modules("series", RNN__relu=lambda: nn.RNN(FLAT, 3, batch_first=True, nonlinearity="relu"), LSTM__projected=lambda: nn.LSTM(FLAT, 4, batch_first=True, proj_size=2))
modules("flat", RNNCell=lambda: nn.RNNCell(FLAT, 3), RNNCell__relu=lambda: nn.RNNCell(FLAT, 3, nonlinearity="relu"), GRUCell=lambda: nn.GRUCell(FLAT, 3), LSTMCell=lambda: nn.LSTMCell(FLAT, 3, bias=False))


def unrolled(module, h, t):
    """A cell stepped through time from a state of the program's own."""
    state = torch.zeros(t.rows, 3)
    if isinstance(module, nn.LSTMCell):
        state = (state, state + 0.1)
    outputs = []
    for step in range(TIME):
        state = module(h[:, step], state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outputs, 1)


modules("series", unrolled, RNNCell__unrolled=lambda: nn.RNNCell(FLAT, 3), GRUCell__unrolled=lambda: nn.GRUCell(FLAT, 3), LSTMCell__unrolled=lambda: nn.LSTMCell(FLAT, 3))

# ---- attention
CAUSAL = torch.ones(TIME, TIME).triu(1).bool()


def padding(t):
    return torch.arange(TIME) > t.target.unsqueeze(1)


def other_sequence(h):
    """What an encoder would have made of another batch."""
    return h.flip(2) * 0.5


def attends(**options):
    def run(module, h, t):
        given = {name: value(t) if callable(value) else value for name, value in options.items()}
        return module(h, h, h, **given)

    return run


ATTENTION = lambda **options: lambda: nn.MultiheadAttention(FLAT, 2, batch_first=True, **options)  # noqa: E731
modules("series", attends(), MultiheadAttention=ATTENTION(), MultiheadAttention__dropout=ATTENTION(dropout=0.3), MultiheadAttention__bias=ATTENTION(add_bias_kv=True, add_zero_attn=True), MultiheadAttention__plain=ATTENTION(bias=False))
modules("series", attends(need_weights=False), MultiheadAttention__no_weights=ATTENTION())
modules("series", attends(need_weights=False, attn_mask=CAUSAL), MultiheadAttention__causal=ATTENTION())
modules("series", attends(key_padding_mask=padding), MultiheadAttention__padding=ATTENTION())
modules("series", attends(key_padding_mask=padding, attn_mask=CAUSAL, average_attn_weights=False), MultiheadAttention__both_masks=ATTENTION())
modules("series", evaluated(attends()), MultiheadAttention__eval=ATTENTION(dropout=0.3))
modules("series", evaluated(attends(key_padding_mask=padding)), MultiheadAttention__eval_padding=ATTENTION())
modules("series", lambda module, h, t: module(h, other_sequence(h), other_sequence(h)), MultiheadAttention__other_keys=ATTENTION())
modules("series", lambda module, h, t: module(h, other_sequence(h)[:, :, :5], other_sequence(h)[:, :, 5:]), MultiheadAttention__other_sizes=ATTENTION(kdim=5, vdim=7))
modules("series", lambda module, h, t: module(*[h.transpose(0, 1)] * 3), MultiheadAttention__time_first=lambda: nn.MultiheadAttention(FLAT, 2))

LAYER = dict(d_model=FLAT, nhead=2, dim_feedforward=8, batch_first=True)
modules("series", TransformerEncoderLayer=lambda: nn.TransformerEncoderLayer(**LAYER), TransformerEncoderLayer__norm_first=lambda: nn.TransformerEncoderLayer(**LAYER, norm_first=True, activation="gelu"),
        TransformerEncoder=lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER), 2))  # fmt: skip
modules("series", evaluated(), TransformerEncoderLayer__eval=lambda: nn.TransformerEncoderLayer(**LAYER), TransformerEncoder__eval=lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER), 2))
modules("series", lambda module, h, t: module(h, src_key_padding_mask=padding(t)), TransformerEncoderLayer__padding=lambda: nn.TransformerEncoderLayer(**LAYER), TransformerEncoder__padding=lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER), 2))
modules("series", evaluated(lambda module, h, t: module(h, src_key_padding_mask=padding(t)).masked_fill(padding(t).unsqueeze(2), 0)),
        TransformerEncoderLayer__eval_padding=lambda: nn.TransformerEncoderLayer(**LAYER), TransformerEncoder__eval_padding=lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER), 2))  # fmt: skip
modules("series", lambda module, h, t: module(h, CAUSAL), TransformerEncoderLayer__causal=lambda: nn.TransformerEncoderLayer(**LAYER))
modules("series", evaluated(lambda module, h, t: module(h, CAUSAL)), TransformerEncoderLayer__eval_causal=lambda: nn.TransformerEncoderLayer(**LAYER))
modules("series", lambda module, h, t: module(h.transpose(0, 1)), TransformerEncoderLayer__time_first=lambda: nn.TransformerEncoderLayer(FLAT, 2, 8))
modules("series", lambda module, h, t: module(h, other_sequence(h)), TransformerDecoderLayer=lambda: nn.TransformerDecoderLayer(**LAYER), TransformerDecoder=lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**LAYER), 2))
modules("series", lambda module, h, t: module(h, h * 2, tgt_mask=CAUSAL, memory_key_padding_mask=padding(t)), TransformerDecoderLayer__masks=lambda: nn.TransformerDecoderLayer(**LAYER))
modules("series", evaluated(lambda module, h, t: module(h, other_sequence(h))), TransformerDecoderLayer__eval=lambda: nn.TransformerDecoderLayer(**LAYER))
modules("series", lambda module, h, t: module(h, h[:, :3]), Transformer=lambda: nn.Transformer(FLAT, 2, 1, 1, 8, batch_first=True))
modules("series", evaluated(lambda module, h, t: module(h, h[:, :3])), Transformer__eval=lambda: nn.Transformer(FLAT, 2, 1, 1, 8, batch_first=True))

# ---- losses as modules (each kind of reduction and weight: rule_sweep_functions.py)
modules("scores", lambda module, h, t: module(h, t.target), CrossEntropyLoss=lambda: nn.CrossEntropyLoss(), MultiMarginLoss=lambda: nn.MultiMarginLoss())
modules("scores", lambda module, h, t: module(h.log_softmax(1), t.target), NLLLoss=lambda: nn.NLLLoss())
modules("image", lambda module, h, t: module(h.log_softmax(1), t.image_target), NLLLoss2d=lambda: nn.NLLLoss2d())
modules("scores", lambda module, h, t: module(h, t.noise[:, :CLASSES]), MSELoss=lambda: nn.MSELoss(), L1Loss=lambda: nn.L1Loss(), SmoothL1Loss=lambda: nn.SmoothL1Loss(), HuberLoss=lambda: nn.HuberLoss())
modules("scores", lambda module, h, t: module(h.sigmoid(), t.noise[:, :CLASSES].sigmoid()), BCELoss=lambda: nn.BCELoss())
modules("scores", lambda module, h, t: module(h, t.noise[:, :CLASSES].sigmoid()), BCEWithLogitsLoss=lambda: nn.BCEWithLogitsLoss(), PoissonNLLLoss=lambda: nn.PoissonNLLLoss(), MultiLabelSoftMarginLoss=lambda: nn.MultiLabelSoftMarginLoss())
modules("scores", lambda module, h, t: module(h.log_softmax(1), t.noise[:, :CLASSES].softmax(1)), KLDivLoss=lambda: nn.KLDivLoss(reduction="batchmean"))
modules("scores", lambda module, h, t: module(h, t.label_sets), MultiLabelMarginLoss=lambda: nn.MultiLabelMarginLoss())
modules("scores", lambda module, h, t: module(h[:, 0], t.sign), SoftMarginLoss=lambda: nn.SoftMarginLoss(), HingeEmbeddingLoss=lambda: nn.HingeEmbeddingLoss())
modules("scores", lambda module, h, t: module(h[:, 0], h[:, 1], t.sign), MarginRankingLoss=lambda: nn.MarginRankingLoss())
modules("scores", lambda module, h, t: module(h, t.noise[:, :CLASSES], t.sign), CosineEmbeddingLoss=lambda: nn.CosineEmbeddingLoss())
modules("scores", lambda module, h, t: module(h, t.noise[:, :CLASSES], -t.noise[:, :CLASSES]), TripletMarginLoss=lambda: nn.TripletMarginLoss(swap=True), TripletMarginWithDistanceLoss=lambda: nn.TripletMarginWithDistanceLoss())
modules("scores", lambda module, h, t: module(h, t.noise[:, :CLASSES], h.exp()), GaussianNLLLoss=lambda: nn.GaussianNLLLoss())
modules("series", lambda module, h, t: module(h.transpose(0, 1).log_softmax(2), t.tokens[:, :2] + 1, torch.full((t.rows,), TIME), t.target % 2 + 1), CTCLoss=lambda: nn.CTCLoss())
modules("flat", lambda module, h, t: module(h, t.target), AdaptiveLogSoftmaxWithLoss=lambda: nn.AdaptiveLogSoftmaxWithLoss(FLAT, CLASSES, [2, 4]), LinearCrossEntropyLoss=lambda: nn.LinearCrossEntropyLoss(FLAT, CLASSES))

# Classes without a case, and why.
NO_CASE = {
    "Module": "base class", "Container": "base class", "RNNBase": "base class", "RNNCellBase": "base class",
    "ModuleDict": "a list of others", "ModuleList": "a list of others", "ParameterDict": "a list of others", "ParameterList": "a list of others",
    "Parameter": "no module", "Buffer": "no module", "UninitializedBuffer": "no module", "UninitializedParameter": "no module", "LinearCrossEntropyOptions": "no module",
    "DataParallel": "several GPUs in one process", "SyncBatchNorm": "refuses to run without GPUs",
}  # fmt: skip
