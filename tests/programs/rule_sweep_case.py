"""What the cases of rule_sweep.py are made of: batches, layers, and the table that they are entered into."""
import torch

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
