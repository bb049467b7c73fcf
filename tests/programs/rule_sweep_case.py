"""What the cases of rule_sweep.py are made of: batches, layers, and the table that they are entered into."""
import torch

torch.manual_seed(1)
torch.set_num_threads(1)

FLAT, CHANNELS, SIDE, TIME, CLASSES = 12, 4, 6, 5, 6


class Tools:
    """What a case may use for a batch of `rows` rows: inputs, targets, a layer of each kind."""

    def __init__(self, rows):
        device = torch.empty(0).device
        generator = torch.Generator("cuda" if device.type == "cuda" else "cpu").manual_seed(rows)  # of where tensors are made unless told otherwise
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
        self.generator = generator
        self.raws = {}

    def raw(self, kind):
        """A batch that is not divided, of the shape that Layers.behind(kind) has."""
        if kind == "tokens":
            return self.tokens
        if kind not in self.raws:
            self.raws[kind] = torch.randn(self.rows, *SHAPES[kind], generator=self.generator)
        return self.raws[kind]

    @property
    def image_target(self):
        return (self.image[:, 0] > 0).long()

    @property
    def label_sets(self):
        """For each row a few classes, ended by -1."""
        return torch.where(torch.arange(CLASSES) > self.target.unsqueeze(1) // 2, -1, (self.target.unsqueeze(1) + torch.arange(CLASSES)) % CLASSES)


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
        self.kept = []  # results of layers whose gradients are compared


    def keep(self, tensor):
        """The gradient that arrives here is compared, too."""
        if tensor.requires_grad and torch.is_grad_enabled():
            tensor.retain_grad()
            self.kept.append(tensor)
        return tensor

    def behind(self, kind, t):
        """A divided batch of this kind, behind a layer of its own."""
        if kind == "tokens":
            return self.flat(self.embedding(t.tokens))[:, :, 0].abs().mul(5).long() % 10
        if kind == "series":
            return self.keep(self.flat(t.series))
        if kind in ("flat", "scores"):
            return self.keep(getattr(self, kind)(t.flat))
        image = self.image(t.image)
        return self.keep(image if kind == "image" else image.flatten(2) if kind == "line" else image.unsqueeze(2).expand(-1, -1, 4, -1, -1) * 1.0)


SHAPES = {"flat": (FLAT,), "scores": (CLASSES,), "series": (TIME, FLAT), "image": (CHANNELS, SIDE, SIDE), "line": (CHANNELS, SIDE * SIDE), "volume": (CHANNELS, 4, SIDE, SIDE)}

CASES = {}


def pieces(result):
    """All tensors of a result, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in pieces(part)]
    return []


def case(function):
    CASES[function.__name__] = function
    return function


def table(kind, **functions):
    """Cases given as functions of one layer's output."""
    for name, function in functions.items():
        CASES[name] = (lambda function: lambda m, t: function(m.keep(getattr(m, kind)(getattr(t, "flat" if kind in ("other", "scores") else kind))), m, t))(function)
