"""Builds and trains a small random network for each seed, and prints in a line for each what came of it, so that a run of several ranks can be
compared with a plain one (tests/fuzz_networks):

    random_networks.py SEED... [--announce] [--describe] [--double]

--announce: says on standard error which seed begins. --describe: prints the names of the network's parts, and what goes into each, too. --double: the same networks
with all figures in float64, so that what was rounding is gone.
A seed that leaves 4 when divided by 5 may have time before rows (has_time_first).
"""
import inspect
import random
import sys
import warnings

import random_networks_rare  # noqa: F401 (enters its steps)
import torch
from random_networks_losses import LOSSES
from random_networks_steps import FIRST, STEPS
from torch import nn

warnings.simplefilter("ignore")
torch.set_num_threads(1)

INPUTS = {"flat": (6,), "series": (3, 4), "line": (2, 7), "image": (2, 5, 6), "volume": (2, 3, 4, 4)}
ROUGH = [torch.float64, torch.float32, torch.bfloat16]  # from fine to coarse


def has_time_first(seed):
    return seed % 5 == 4


class Builder(nn.Module):
    """Draws the network of one seed; holds its layers, its tables of targets and the numbers of the rows that its last result has."""

    def __init__(self, seed):
        super().__init__()
        self.draw = random.Random(seed)
        self.dtype = self.pick([torch.float64, torch.float64, torch.float32])
        self.dtype = torch.float64 if "--double" in sys.argv else self.dtype
        self.coarsest = self.dtype
        self.layers, self.own = nn.ModuleList(), nn.ParameterList()
        self.steps, self.tables, self.rows = [], {}, None
        self.generator = torch.Generator().manual_seed(seed)
        kinds = ["flat", "flat", "series", "line", "image", "image", "volume"]
        self.kind = self.first_kind = self.pick(["time"] if has_time_first(seed) and self.chance(0.7) else kinds)
        self.size = self.pick([1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17])
        self.tokens = self.sparse = False

    def pick(self, things):
        return self.draw.choice(things)

    def chance(self, probability):
        return self.draw.random() < probability

    def rough(self, dtype):
        """A type for some step's figures; float64 under --double."""
        dtype = torch.float64 if "--double" in sys.argv else dtype
        self.coarsest = max(self.coarsest, dtype, key=ROUGH.index)
        return dtype

    def layer(self, module):
        self.layers.append(module.to(self.dtype))
        return module

    def parameter(self, *size):
        self.own.append(nn.Parameter(torch.randn(*size, dtype=self.dtype) / 2))
        return self.own[-1]

    def table(self, *size, dtype=None, limit=0):
        """The same for each call with the same sizes; 40 rows."""
        key = size, dtype, limit
        if key not in self.tables:
            self.tables[key] = torch.randint(limit, (40, *size), generator=self.generator) if dtype else \
                torch.randn(40, *size, dtype=self.dtype, generator=self.generator)
        return self.tables[key]

    def batch(self, rows):
        if self.tokens:
            return torch.randint(9, (rows, 3), generator=self.generator)
        if self.first_kind == "time":
            return torch.randn(3, rows, 4, dtype=self.dtype, generator=self.generator)
        return torch.randn(rows, *INPUTS[self.first_kind], dtype=self.dtype, generator=self.generator)

    def begin(self):
        """The layer that the batch goes into: a lookup of tokens, or one for numbers."""
        self.tokens = self.kind in ("flat", "series") and self.chance(0.25)
        self.sparse = self.tokens and self.chance(0.4)
        self.probe = self.batch(2)
        if not self.tokens:
            self.add(self.pick(FIRST[self.kind]))
        elif self.kind == "series":
            self.note("embedding", self.layer(nn.Embedding(9, 5, padding_idx=self.pick([None, 0]), max_norm=self.pick([None, None, 1.0]), sparse=self.sparse)), self.kind)
        else:
            mode = self.pick(["sum", "mean"] if self.sparse else ["sum", "mean", "max"])
            self.note("bag", self.layer(nn.EmbeddingBag(9, 5, padding_idx=self.pick([None, 0]), mode=mode, sparse=self.sparse)), self.kind)

    def add(self, maker):
        made = maker(self, tuple(self.probe.shape))
        function, kind = made if isinstance(made, tuple) and not isinstance(made, nn.Module) else (made, self.kind)
        return self.note(maker.__name__, function, kind)

    def note(self, name, function, kind):
        self.eval()
        with torch.no_grad():
            self.probe = function(self.probe)
        self.steps.append((name, function))
        self.kind = kind

    def forward(self, x, rows):
        self.rows = rows
        for _, function in self.steps:
            x = function(x)
        return x


def build(seed):
    """The network with its losses. Sizes are learned from a batch of two rows, too small to be divided."""
    torch.manual_seed(seed)
    b = Builder(seed)
    b.rows = torch.arange(2)
    b.begin()
    for _ in range(b.pick(range(2, 9))):
        if b.probe.numel() < 2000:
            b.add(b.pick(STEPS[b.kind]))
    losses = [(maker.__name__, maker(b, tuple(b.probe.shape)), b.pick([1.0, 0.5])) for maker in (b.pick(LOSSES[b.kind]) for _ in range(b.pick([1, 1, 2])))]
    return b, losses


OPTIMIZERS = [("SGD", {}), ("SGD", dict(momentum=0.9, weight_decay=0.01)), ("SGD", dict(momentum=0.9, nesterov=True)), ("Adam", dict(eps=0.01)), ("AdamW", dict(eps=0.01, amsgrad=True)),
              ("RMSprop", dict(eps=0.1)), ("RMSprop", dict(eps=0.1, centered=True, momentum=0.5)), ("Adagrad", dict(eps=0.1)), ("Adadelta", dict(lr=0.1, eps=0.01)), ("Adamax", dict(eps=0.1)),
              ("NAdam", dict(eps=0.01)), ("RAdam", dict(eps=0.01, weight_decay=0.01)), ("ASGD", {}), ("Rprop", {}), ("LBFGS", dict(max_iter=3, history_size=2))]
OF_SPARSE = ("SGD", {}), ("Adagrad", dict(eps=0.1))


def optimizer_of(b, parameters):
    """Some of them for all tensors at once, where this build has that."""
    name, settings = b.pick(OF_SPARSE if b.sparse else OPTIMIZERS)
    settings = dict(lr=0.01, **settings) if "lr" not in settings else settings
    kind, way = getattr(torch.optim, name), b.pick([None, "foreach", "fused"])
    if way in inspect.signature(kind).parameters and not b.sparse:
        try:
            return kind(parameters, **settings, **{way: True})
        except RuntimeError:  # not on a CPU, before 2.4
            pass
    return kind(parameters, **settings)


def settle(optimizer, parameters):
    """Rprop goes by the sign alone: what is zero but for rounding has none."""
    if isinstance(optimizer, torch.optim.Rprop):
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(parameter.grad.abs() > 1e-6)


def weigh(tensors):
    """One figure of all tensors, with weights that tell elements apart, relative to their size."""
    tensors = [tensor.to_dense() if tensor.is_sparse else tensor for tensor in tensors]
    values = torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors] or [torch.zeros(1, dtype=torch.double)])
    weights = torch.cos(torch.arange(values.numel(), dtype=torch.double) * 0.7) + 0.3
    return f"{float((values * weights).sum() / (1 + values.norm())):.12g} {float(values.norm()):.12g}"


def evaluate(b):
    b.eval()
    with torch.no_grad():
        out = b(b.batch(max(b.size, 4)), torch.arange(max(b.size, 4)))
    b.train()
    return f"evaluated {tuple(out.shape)} {weigh([out])}"


def evaluate_losses(b, losses, batch):
    rows = torch.arange(batch.shape[1 if b.first_kind == "time" else 0])
    out = b(batch, rows)
    return out, sum(weight * loss(out, b.rows) for _, loss, weight in losses)


def closure(b, losses, batch, optimizer):
    optimizer.zero_grad()
    _, total = evaluate_losses(b, losses, batch)
    total.backward()
    return total


def train(b, losses):
    """The words that say what came of three steps."""
    parameters = list(b.parameters())
    optimizer = optimizer_of(b, parameters)
    pieces, clip, none, between = b.pick([1, 1, 2]), b.pick(["", "", "norm", "value"]), b.chance(0.5), b.chance(0.4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if b.chance(0.3) else None
    b.train()
    for number in range(3):
        optimizer.zero_grad(set_to_none=none)
        for _ in range(pieces):
            rows = b.size if number < 2 else max(1, b.size - b.pick([0, 1]))  # the last batch may be smaller
            batch = b.batch(rows)
            out, total = evaluate_losses(b, losses, batch)
            total.backward()
            yield f"loss {total.item():.12g}"
        if clip and not b.sparse:
            getattr(nn.utils, f"clip_grad_{clip}_")(parameters, 0.1)
        yield f"out {tuple(out.shape)} {weigh([out])} gradients {weigh([p.grad for p in parameters if p.grad is not None])}"
        settle(optimizer, parameters)
        optimizer.step(*[lambda: closure(b, losses, batch, optimizer)] if isinstance(optimizer, torch.optim.LBFGS) else [])
        if schedule:
            schedule.step()
        if between:
            yield evaluate(b)
    yield f"parameters {weigh(parameters)} buffers {weigh(b.buffers())} next {torch.rand(()).item():.6g}"


def words_of(seed, describe):
    """What the seed's line says; the first words tell the driver how much rounding there may be."""
    b, losses = build(seed)
    names = [name for name, _ in b.steps] + [name for name, _, _ in losses]
    yield f"{seed} {str(b.coarsest)[6:]} {b.first_kind}:{','.join(names)} {b.size}"
    if describe:
        print(b, *(f"{name}: {function}" for name, function in b.steps), sep="\n", flush=True)
    yield from train(b, losses)


def run(seed, describe):
    words = []
    try:
        words.extend(words_of(seed, describe))
    except Exception as error:  # what libtorch refuses to do, it must refuse alike
        if describe:
            raise
        words = (words or [f"{seed} float64 unbuilt"]) + [f"refused {type(error).__name__}"]
    print(*words, flush=True)


def main():
    for seed in [int(word) for word in sys.argv[1:] if not word.startswith("-")]:
        if "--announce" in sys.argv:
            sys.stderr.write(f"seed {seed}\n")  # one write: nothing comes between
        run(seed, "--describe" in sys.argv)


main()
