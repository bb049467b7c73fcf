"""Operators of torch, each in a small network: a layer, the operator, a loss, backward. Prints the loss and what the gradients are, so that
a run of several ranks can be compared with a plain one. Cases that are stopped by name can be left out:

    rule_sweep.py [--skip NAME,NAME...] [--only NAME,NAME...] [--from NAME] [--announce]
"""
import math
import sys

import torch

import rule_sweep_tensors  # noqa: F401 (enters its cases first)
import rule_sweep_layers  # noqa: F401
from rule_sweep_case import CASES, Layers, Tools


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
