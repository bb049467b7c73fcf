"""Gradients that are not there: functions that return None, derivatives that do not exist, where gathered rows and normalisations over the batch wait for them;
and forwards that are computed again and end in the midst of a normalisation."""
import gc

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from footprint import allocated

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def show(name, *tensors):
    print(name, *("None" if t is None else f"{tuple(t.shape)} {t.double().sum().item():.8f} {t.double().norm().item():.8f}" for t in tensors))


class First(torch.autograd.Function):
    """As in training that knows of quantisation: what it is scaled by learns nothing."""

    @staticmethod
    def forward(context, values, scale):
        return torch.round(values / scale) * scale

    @staticmethod
    def backward(context, gradient):
        return gradient, None


def quantised():
    layer, batch = nn.Linear(4, 3), torch.randn(23, 4)
    for step in range(3):
        layer.zero_grad()
        hidden = layer(batch)
        First.apply(hidden, hidden.abs().max() / 127).pow(2).sum().backward()
        show(f"quantised {step}", layer.weight.grad, layer.bias.grad)


def taught(affine):
    student, batch = nn.Linear(4, 3), torch.randn(23, 4)
    teacher = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, affine=affine), nn.ReLU(), nn.Linear(8, 3))
    for step in range(2):
        First.apply(student(batch), teacher(batch).abs() + 1).pow(2).mean().backward()
        show(f"taught {affine} {step}", *(p.grad for p in [*student.parameters(), *teacher.parameters()]), *teacher.buffers())
    teacher(batch).pow(2).mean().backward()
    show(f"teacher {affine}", *(p.grad for p in teacher.parameters()))


def penalised():
    judge = nn.Sequential(nn.Conv1d(2, 6, 3), nn.Softplus(), nn.Conv1d(6, 6, 3), nn.Softplus(), nn.BatchNorm1d(6), nn.Conv1d(6, 1, 3))
    batch = torch.randn(13, 2, 12, requires_grad=True)
    gradient, = torch.autograd.grad(judge(batch).sum(), batch, create_graph=True)
    gradient.pow(2).sum().backward()
    show("penalised", gradient, *(p.grad for p in judge.parameters()))


def computed_again(last):
    segment = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)) if last else nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Tanh())
    front, head, before = nn.Conv2d(3, 3, 1), nn.Linear(16, 10), 0
    for step in range(24):
        hidden = checkpoint(segment, front(torch.randn(24, 3, 20, 20)), use_reentrant=False)
        loss = functional.cross_entropy(head(hidden.relu().mean((2, 3))), torch.arange(24) % 10)
        loss.backward()
        del hidden
        if step == 3:
            gc.collect()
            before = allocated()
    show(f"computed again {last}", loss, *(p.grad for p in [*segment.parameters(), *front.parameters()]))
    del loss
    gc.collect()
    print("kept" if allocated() - before > 2e6 else "let go")


quantised()
for affine in True, False:
    taught(affine)
penalised()
for last in True, False:
    computed_again(last)
