"""Results of one batch, alike in shape; which one is taken first differs between the ranks, as it does in a loop over a set that is ordered by addresses.

    taken_apart.py numbers | largest | pieces | normalised | answers | drawn | total
"""
import os
import sys

import torch

torch.manual_seed(0)
what = sys.argv[1]
model, first, second = torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.BatchNorm1d(6)
order = (0, 1) if os.environ.get("ACCEL_RUN_RANK", "0") == "0" else (1, 0)
hidden = torch.tanh(model(torch.randn(8, 4)))
results = [hidden * 2, hidden * 3]
if what == "numbers":
    sums = [result.sum() for result in results]
    print([sums[i].item() for i in order])
elif what == "largest":
    print([(results[i] + 1).max().item() for i in order])
elif what == "pieces":
    print([hidden.chunk(2, 1)[i].max().item() for i in order])
elif what == "normalised":
    print([norm(results[i]).sum().item() for norm, i in zip((first, second), order)])
elif what == "answers":
    print([bool((results[i] > 1.5).any()) for i in order])
elif what == "drawn":
    masks = [torch.nn.functional.dropout(hidden) for _ in range(2)]
    print([masks[i].max().item() for i in order])
else:
    # A sum is the same in whichever order it is taken.
    total = torch.zeros(())
    for i in order:
        total = total + torch.nn.functional.mse_loss(results[i], torch.ones(8, 6))
    total.backward()
    print(f"{total.item():.4f} {model.weight.grad.sum().item():.4f}")
