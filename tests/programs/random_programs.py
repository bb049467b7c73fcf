"""Writes and runs a small random program for each seed, statement by statement, as people write them: views and writes to them, reads, branches on values, loops,
hooks, states kept between steps; and prints in a line for each what came of it, for tests/fuzz_networks --program:

    random_programs.py SEED... [--announce] [--describe] [--double] [--until STATEMENT] [--skip STATEMENT,...]

A statement is drawn for what its variables are when it first comes (in the first step of training); the later steps repeat it. What it raises is
part of what is compared. --describe: the statements, with the shapes that they made, on standard output before the line. --double: no figures in float32. --until: only so many statements. --skip: without these, the others being the same.
"""
import random
import sys
import warnings

import torch
import torch.utils.checkpoint  # or whether it is there depends on the seeds before
from random_programs_statements import STATEMENTS

warnings.simplefilter("ignore")
torch.set_num_threads(1)

STEPS = 3
LIVE = 14  # variables at a time


def option(name, otherwise):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else otherwise


def weigh(tensor):
    """One figure of a tensor, with weights that tell elements apart, relative to their size."""
    values = torch.nan_to_num(tensor.detach().double().reshape(-1), 7.0, 8.0, 9.0)
    weights = torch.cos(torch.arange(values.numel(), dtype=torch.double) * 0.7) + 0.3
    return f"{float((values * weights).sum() / (1 + values.norm())):.9g}"


class Program:
    """The statements of one seed and the variables that they work with: p0.. are parameters, x, y, k batches, s0.. states kept between steps, v0.. results."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.rows = self.pick([4, 5, 6, 7, 8, 9, 11, 12, 13])
        self.width = self.pick([3, 4, 5])
        self.lines, self.said, self.number = [], [], 0
        torch.manual_seed(seed)
        width = self.width
        self.names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "say": self.said.append, "weigh": weigh,
                      "p0": self.parameter(width, width), "p1": self.parameter(width), "p2": self.parameter(width, 2 * width), "p3": self.parameter(1),
                      "s0": torch.zeros(width, dtype=torch.double), "s1": torch.ones(2, width, dtype=torch.double), "s2": torch.zeros((), dtype=torch.double), "kept": []}

    def parameter(self, *size):
        return torch.nn.Parameter(torch.randn(*size, dtype=torch.double, generator=self.generator) / 2)

    def pick(self, things):
        return self.draw.choice(list(things))

    def chance(self, probability):
        return self.draw.random() < probability

    def batch(self):
        self.names["x"] = torch.randn(self.rows, self.width, dtype=torch.double, generator=self.generator)
        self.names["y"] = torch.randn(self.rows, dtype=torch.double, generator=self.generator)
        self.names["k"] = torch.randint(self.width, (self.rows,), generator=self.generator)

    def tensors(self, suits=lambda t: True, among="xykvsp"):
        return [name for name, value in self.names.items() if name[0] in among and isinstance(value, torch.Tensor) and suits(value)]

    def float(self, suits=lambda t: True, among="xyvvp"):
        """The name of a tensor of figures, rather a result than another."""
        found = self.tensors(lambda t: t.is_floating_point() and t.dim() and suits(t), among)
        results = [name for name in found if name[0] == "v"]
        return self.pick(results if results and self.chance(0.75) else found or ["x"])

    def fresh(self):
        live = self.tensors(among="v")
        if len(live) > LIVE:
            return self.pick(live)
        self.number += 1
        return f"v{self.number}"

    def __getitem__(self, name):
        return self.names[name]

    def execute(self, line):
        if "--double" in sys.argv:
            line = line.replace(".float()", ".double()").replace("float32", "float64")
        try:
            exec(line, self.names)
        except Exception as error:
            self.said.append(type(error).__name__)

    def write_statement(self):
        statement = self.pick(STATEMENTS)(self)
        if statement:
            before = len(self.said)
            self.execute(statement)
            self.lines.append(statement)
            shapes = " ".join(f"{name}:{tuple(self.names[name].shape)}" for name in self.tensors(among="v") if statement.startswith(name))
            if "--describe" in sys.argv:
                print(f"{len(self.lines):3} {statement}  # {shapes} {' '.join(self.said[before:])}", flush=True)

    def forward(self, count):
        if self.lines:
            for line in self.lines:
                self.execute(line)
            return
        self.execute(self.first_line())
        while len(self.lines) < count:
            self.write_statement()

    def first_line(self):
        line = self.pick(["v0 = x @ p0", "v0 = F.linear(x, p0, p1)", "v0 = torch.relu(x @ p0 + p1)", "v0 = (x * p1) @ p2", "v0 = torch.addmm(p1, x, p0)"])
        self.lines.append(line)
        if "--describe" in sys.argv:
            print(f"  1 {line}  # {self.rows} rows", flush=True)
        return line

    def loss(self):
        parts = [self.names[name] for name in sorted(self.tensors(lambda t: t.is_floating_point() and t.requires_grad and t.numel() and bool(torch.isfinite(t.detach()).all()), "v"))]
        return sum((part.double().tanh().mean() * (1 + 0.1 * number) for number, part in enumerate(parts)), (self.names["p0"] * 0).sum())

    def step(self, optimizer, count):
        self.batch()
        for name in [name for name in self.names if name[0] == "v"]:
            del self.names[name]
        self.forward(count)
        loss = self.loss()
        self.said.append(f"{loss.item():.9g}")
        optimizer.zero_grad()
        loss.backward()
        self.said += [weigh(parameter.grad) for parameter in self.parameters() if parameter.grad is not None]
        for name in sorted(self.tensors(among="v"))[-4:] + ["s0", "s1", "s2"]:
            self.said.append(f"{tuple(self.names[name].shape)} {weigh(self.names[name])}".replace(", ", ","))
        optimizer.step()

    def parameters(self):
        return [self.names[f"p{number}"] for number in range(4)]


def without(written, seed, skipped):
    """The program again, from the beginning, its statements known but for those skipped."""
    again = Program(seed)
    again.lines = [line for number, line in enumerate(written.lines, 1) if str(number) not in skipped]
    return again


def run(seed):
    program = Program(seed)
    count = min(program.pick([6, 10, 16, 24]), option("--until", 99))
    if "--skip" in sys.argv:
        program.batch()
        program.forward(count)
        program = without(program, seed, sys.argv[sys.argv.index("--skip") + 1].split(","))
    optimizer = torch.optim.SGD(program.parameters(), 0.05)
    try:
        for _ in range(STEPS):
            program.step(optimizer, count)
    except Exception as error:  # in the backward: it must be refused alike
        program.said.append(f"refused {type(error).__name__}")
        if "--describe" in sys.argv:
            print(error)
    program.said.append(" ".join(weigh(parameter) for parameter in program.parameters()) + f" {torch.rand(()).item():.6g}")
    is_rough = "--double" not in sys.argv and any("float32" in line or ".float()" in line for line in program.lines)
    print(seed, "float32" if is_rough else "float64", *program.said, flush=True)


def main():
    words = iter(sys.argv[1:])
    for word in words:
        if word in ("--until", "--skip"):
            next(words)
        elif not word.startswith("-"):
            if "--announce" in sys.argv:
                sys.stderr.write(f"seed {word}\n")  # one write: nothing comes between
            run(int(word))


main()
