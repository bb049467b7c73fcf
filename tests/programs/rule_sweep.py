"""Operators of torch, each in a small network: a layer, the operator, a loss, backward. Prints the loss and what the gradients are, so that
a run of several ranks can be compared with a plain one. Cases that are stopped by name can be left out:

    rule_sweep.py [--schemas FILE [--every N [--offset K]]] [--half 0|1] [--skip NAME,NAME...] [--only NAME,NAME...] [--from NAME] [--announce] [--mark] | --orders FILE | --complete | --names

--schemas: the operators of libtorch with arguments made from their schemas (rule_sweep_schemas.py) instead of the cases written by hand.
--every: of each Nth operator only, from the Kth on (any number: what it leaves when divided by N). --half: every second case, from this one on.
--orders: for each line of FILE, "MUTANT NAME,NAME...", these cases with $ACCEL_MUTANT (tests/mutate).
--complete: only says which modules and functions of this build have no case. --names: only names the cases.
"""
import inspect
import math
import os
import sys
import warnings

import torch

warnings.simplefilter("ignore")  # deprecated functions are functions, too
if "--schemas" in sys.argv:
    import rule_sweep_schemas

    def number(option, otherwise):
        return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else otherwise

    rule_sweep_schemas.enter(sys.argv[sys.argv.index("--schemas") + 1], number("--every", 1), number("--offset", 0))
else:
    import rule_sweep_tensors  # noqa: F401 (enters its cases first)
    import rule_sweep_layers  # noqa: F401
    import rule_sweep_modules
    import rule_sweep_functions
    import rule_sweep_inner  # noqa: F401
    import rule_sweep_rows  # noqa: F401
    import rule_sweep_types  # noqa: F401
from rule_sweep_case import CASES, Layers, Tools, pieces

# Plain, their backward is an exception; the ranks draw for the whole batch by an operator that has a derivative, zero.
DRAWN_OTHERWISE = ("op.bernoulli.p", "op.randint_like", "op.randint_like.generator")


def weigh(result):
    """One figure of any result, with weights that tell elements apart."""
    result = result.double() if not result.is_complex() else torch.view_as_real(result.resolve_conj()).double()
    weights = torch.cos(torch.arange(result.numel(), dtype=torch.double) * 0.7) + 0.3
    return (result * weights.view(result.shape)).sum()


def finite(result):
    """What is no number becomes one: the other elements still count, and where the former are."""
    if result.is_complex():
        result = torch.view_as_real(result.resolve_conj())
    return result.detach().double().nan_to_num(nan=3.3, posinf=7.7, neginf=-5.1)


def figure(result, own=None):
    """What weigh() says, as text. An infinity that hides all others is told with what it hides."""
    own = (weigh(result) if own is None else own).item()
    return f"{own:.6g}" if math.isfinite(own) else f"{own:.6g} and {weigh(finite(result)).item():.6g}"


def written(layers):
    """What layers have written besides gradients: running statistics; rows of a table that were too long."""
    parameters = torch.cat([parameter.detach().double().reshape(-1) for parameter in layers.parameters()])
    return [f"{name} {figure(buffer)}" for name, buffer in layers.named_buffers()] + [f"parameters {figure(parameters)}"]


def norm_of(gradients):
    return math.sqrt(sum(float(gradient.norm()) ** 2 for _, gradient in gradients)) + 0.05


def run(name, rows):
    torch.manual_seed(len(name) + rows)
    layers, tools = Layers(), Tools(rows)
    results = pieces(CASES[name](layers, tools))
    losses = [weigh(result) for result in results]
    loss = sum(losses[1:], losses[0])
    parts = [f"{name} {rows}"] + [f"{tuple(result.shape)} {result.dtype} {figure(result, own)}" for result, own in zip(results, losses)]
    try:
        if loss.requires_grad and name not in DRAWN_OTHERWISE:
            loss.backward()
    except RuntimeError as error:  # an operator without a derivative still has results
        parts.append(type(error).__name__)
    for kept in layers.kept:
        if kept.grad is not None:
            parts.append(f"input {kept.grad.double().square().sum().sqrt().item():.6g} {figure(kept.grad)}")
    gradients = [(name, value.grad.double()) for name, value in layers.named_parameters() if value.grad is not None]
    total = norm_of(gradients)
    if not math.isfinite(total):
        parts.append(f"gradients {total:.6g} and")
        gradients = [(name, finite(gradient)) for name, gradient in gradients]
        total = norm_of(gradients)
    if gradients:
        parts.append(f"gradients {total:.6g}")
    for parameter, gradient in gradients:  # relative to all: a gradient that is zero but for rounding must not count
        parts.append(f"{parameter} {float(gradient.norm()) / total:.6g} {float(weigh(gradient)) / total:.6g}")
    parts += written(layers)
    parts.append(f"next {torch.rand(()).item():.6g}")
    print(" ".join(parts), flush=True)


def mark(number):
    """A divided tensor of (16*, number + 1) is gathered: tells a reader of --explain which case begins."""
    torch.renorm(torch.nn.functional.linear(torch.ones(16, 1), torch.nn.Parameter(torch.ones(number + 1, 1))), 2, 1, 1.0)


def teaches_time_first(name):
    """After these sequences are cut along dimension 1: they come last."""
    return "time_first" in name or (name.startswith(("nn.MultiheadAttention", "nn.Transformer")) and name.endswith("first") and not name.endswith(":norm_first"))


def names(option):
    return sys.argv[sys.argv.index(option) + 1].split(",") if option in sys.argv else []


def missing():
    """Classes of torch.nn and functions of torch.nn.functional, as this build has them, that no case names; and reasons for what is there no more."""
    named = {name.split(":")[0] for name in CASES}
    classes = {name for name in dir(torch.nn) if inspect.isclass(getattr(torch.nn, name)) and not name.startswith("_")}
    for kind, names, excluded in (("nn", classes, rule_sweep_modules.NO_CASE), ("F", set(rule_sweep_functions.names()), rule_sweep_functions.NO_CASE)):
        yield from (f"{kind}.{name} has no case" for name in sorted(names - set(excluded)) if f"{kind}.{name}" not in named)
        yield from (f"{kind}.{name} has a case and a reason for none" for name in excluded if f"{kind}.{name}" in named)


def try_case(name, rows):
    try:
        run(name, rows)
    except Exception as error:  # what libtorch refuses to do, it must refuse alike
        print(name, rows, type(error).__name__, flush=True)


def follow(path):
    for mutant, only in map(str.split, open(path)):
        for stream in (sys.stdout, sys.stderr):
            print("orders", mutant, file=stream, flush=True)
        os.environ["ACCEL_MUTANT"] = mutant
        for name in only.split(","):
            for rows in (16, 7):
                try_case(name, rows)


def main():
    if "--complete" in sys.argv:
        sys.exit("\n".join(missing()) or 0)
    if "--names" in sys.argv:
        return print("\n".join(CASES))
    if "--orders" in sys.argv:
        return follow(sys.argv[sys.argv.index("--orders") + 1])
    skip, only, first = names("--skip"), names("--only"), names("--from")
    if "--half" in sys.argv:
        only = list(CASES)[int(sys.argv[sys.argv.index("--half") + 1]) :: 2]
    for name in [name for name in CASES if teaches_time_first(name)]:
        CASES[name] = CASES.pop(name)
    numbers = {name: number for number, name in enumerate(name for name in CASES if not only or name in only)}
    for name in list(numbers)[numbers[first[0]] if first else 0 :]:
        if name in skip:
            continue
        if "--mark" in sys.argv:
            mark(numbers[name])
        for rows in (16, 7):
            if "--announce" in sys.argv:
                sys.stderr.write(f"case {name} {rows}\n")  # one write: nothing comes between
            try_case(name, rows)


main()
