"""What a backward computes again or is given back: checkpoints, custom functions that keep a graph of their own, functions for what is saved."""
import os
import shutil

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def show(name, *tensors):
    print(name, *(f"{tuple(t.shape)} {t.sum().item():.8f} {t.norm().item():.8f}" for t in tensors))


class Own(torch.autograd.Function):
    """Its input's twin outlives the backward within the backward."""

    @staticmethod
    def forward(context, values):
        with torch.enable_grad():
            context.twin = values.detach().requires_grad_()
            context.result = torch.sigmoid(context.twin)
        return context.result.detach()

    @staticmethod
    def backward(context, gradient):
        context.result.backward(gradient)
        return context.twin.grad


layer, table, batch = torch.nn.Linear(5, 8), torch.nn.Parameter(torch.randn(8, 5)), torch.randn(13, 5)
for hooked in (False, True):
    for both in (False, True):
        layer.zero_grad()
        table.grad = None
        values = torch.tanh(table)
        if hooked:
            values.register_hook(lambda gradient: None)
        values = Own.apply(Own.apply(values) if both else values)
        (layer(batch) @ values).pow(2).mean().backward()
        show(f"own graph {hooked} {both}", table.grad, layer.weight.grad)

# a checkpoint of each kind: with rows merged and taken apart, with three dimensions, with one-dimensional indices behind a batch of another length
front, first, second = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh()), torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
users, items = torch.nn.Embedding(20, 8), torch.randn(20, 8)
everything = torch.nn.ModuleList([front, first, second, users])


def block(values):
    rows, length, width = values.shape
    return second(torch.tanh(first(values)).reshape(rows * length, width)).view(rows, length, width)


def tower(indices):
    return second(torch.tanh(users(indices)))


for reentrant in (True, False):
    for step in range(2):
        everything.zero_grad()
        sequences, indices = torch.randn(12, 9, 5).requires_grad_(), torch.randint(0, 20, (13,))
        hidden = checkpoint(block, checkpoint(front, sequences, use_reentrant=reentrant), use_reentrant=reentrant)
        other = first(torch.randn(13, 8)).pow(2).mean()
        found = checkpoint(tower, indices, use_reentrant=False)
        others = torch.tanh(first(items))
        loss = hidden.pow(2).mean() + (found @ others.t()).pow(2).mean() + other
        loss.backward()
        show(f"checkpoints {reentrant} {step}", loss, sequences.grad, *(p.grad for p in everything.parameters()))

# what is learned of sequences after a checkpoint, or within it, or of batches, while it is not computed again
for first in (True, False):
    queries, keys, values, layer = (torch.nn.Linear(5, 7 + 2 * first) for _ in range(4))
    bidirectional, sequences = torch.nn.GRU(7 + 2 * first, 3, batch_first=first), torch.randn(8, 9, 5)

    def attention(values_of):
        found = [linear(values_of) if first else linear(values_of).transpose(0, 1) for linear in (queries, keys, values)]
        scores = torch.softmax(torch.bmm(found[0], found[1].transpose(1, 2)), -1)
        return torch.bmm(scores, found[2])

    for step in range(2):
        parts = torch.nn.ModuleList([queries, keys, values, layer, bidirectional])
        parts.zero_grad()
        (checkpoint(attention, sequences, use_reentrant=False).pow(2).mean()).backward()
        bidirectional(checkpoint(layer, sequences, use_reentrant=False))[0].pow(2).mean().backward()
        front(torch.randn(20, 5))
        found = checkpoint(tower, torch.randint(0, 20, (13,)), use_reentrant=False)
        (found.pow(2).mean() + front(torch.randn(11, 5)).mean()).backward()
        show(f"learned {first} {step}", *(p.grad for p in (*parts.parameters(), users.weight, second.weight)))

# first where nothing is divided, within a mode or a level for derivatives, and again where rows are
class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        return function(*arguments, **(options or {}))


def deeper(values):
    return torch.tanh(second(values))


def twice(values):
    return checkpoint(deeper, values, use_reentrant=False) * deeper(values)


for name, where in ("mode", Seen), ("level", forward_ad.dual_level):
    for times, function in ("once", deeper), ("twice", twice):
        for divided in (False, True) if name == "level" or hasattr(torch, "get_default_device") else (False,):  # 2.3: modes among divided rows
            everything.zero_grad()
            values = front(batch) if divided else torch.randn(13, 8)
            with where():
                loss = checkpoint(function, values, use_reentrant=False).pow(2).mean()
            (loss + second(front(batch)).mean()).backward()
            show(f"within a {name} {times} {divided}", loss, *(p.grad for p in (*front.parameters(), *second.parameters())))

# functions for what is saved: on disk, through numpy, rounded, scaled by the largest
folder = "saved"
kept = []
os.makedirs(folder)


def to_disk(tensor):
    kept.append(os.path.join(folder, str(len(kept))))
    torch.save(tensor, kept[-1])
    return kept[-1]


class Read(torch.autograd.Function):
    """Its backward looks at what was saved."""

    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return values.pow(2)

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        return gradient * values / (1 + values.pow(2).sum())


def scaled(tensor):
    largest = tensor.abs().max()
    return (tensor / largest * 127).round(), largest


ways = {
    "disk": (to_disk, torch.load),
    "numpy": (lambda tensor: tensor.detach().numpy().copy(), torch.from_numpy),
    "rounded": (lambda tensor: (tensor.bfloat16(), tensor.dtype), lambda both: both[0].to(both[1])),
    "scaled": (scaled, lambda both: both[0] / 127 * both[1]),
}
deep = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
labels = torch.randint(0, 3, (13,))
for name, (pack, unpack) in ways.items():
    deep.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        out = deep(torch.randn(13, 6))
        loss = out.pow(2).mean() + Read.apply(out).mean() + (torch.nn.functional.cross_entropy(out, labels) if name == "rounded" else 0)
    loss.backward()
    show(name, loss, *(p.grad for p in deep.parameters()))
print(len(kept), len(os.listdir(folder)))
shutil.rmtree(folder)
torch.set_default_dtype(torch.float32)
