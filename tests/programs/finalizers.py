"""Finalizers of divided tensors that compute with others: rows of the tensor have been read, so that the program is not the last to let it go."""
import gc
import threading
import weakref

import torch
from torch import nn

torch.manual_seed(1)
layer = nn.Linear(4, 6)
rows = torch.randn(12, 4)
kept = layer(rows) * 2


def gone(step):
    print("gone", step, "%.4f %.4f" % (kept.sum().item(), kept[1:4].sum().item()), tuple((kept @ kept.t()).shape))


class Last:
    def __init__(self, hidden):
        self.hidden = hidden

    def __del__(self):
        print("last", "%.4f" % self.hidden.mean().item())


for step in range(4):
    hidden = layer(rows) if step % 2 else layer(rows).detach()
    if step < 3:
        weakref.finalize(hidden, gone, step)
    else:
        hidden.last = Last(kept)
    row = hidden[3]
    print("row", "%.4f" % row.sum().item())
    del row, hidden
    for i in range(60):
        loss = (kept + i).relu().sum() + kept[i % 12].sum()
    gc.collect()
    print("step", step, "%.4f" % loss.item())

# One after the other, though each ends operators of its own.
lock, said, held = threading.Lock(), [], []


def told(number):
    with lock:
        said.append("%d %.4f" % (number, kept.sum().item()))


for number in range(4):
    hidden = layer(rows).detach()
    weakref.finalize(hidden, told, number)
    held.append(hidden[3])
    del hidden
held.clear()
for _ in range(80):
    (kept * 2).sum()
gc.collect()
print(said)
