"""Results of two batches, or of two steps, alike in shape; which one is taken first differs between the ranks, as it does when threads take them from a queue.

    taken.py rows | sums | losses | steps | average | packed
"""
import os
import sys

import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

torch.manual_seed(0)
what = sys.argv[1]
model, recurrent = torch.nn.Linear(4, 2), torch.nn.LSTM(4, 3)
order = (0, 1) if os.environ.get("ACCEL_RUN_RANK", "0") == "0" else (1, 0)
same = torch.randn(8, 4)
results = [torch.tanh(model(same if what == "steps" else torch.randn(8, 4))) for _ in range(2)]
if what == "rows":
    print([results[i].tolist() for i in order])
elif what == "losses":
    losses = [result.square().mean() for result in results]
    for i in order:
        model.zero_grad()
        losses[i].backward()
        with torch.no_grad():
            model.bias -= 0.1 * model.bias.grad
    print(model.bias.tolist())
else:
    sums = [result.detach().sum() for result in results]
    if what == "average":
        sums = [sums[0], 0.5 * sums[0] + 0.5 * sums[1]]  # by powers of two: other products are summed first, and whole
    elif what == "packed":
        batches = [pack_sequence([torch.randn(length, 4) for length in (5, 4, 4, 2)]) for _ in range(2)]
        sums = [pad_packed_sequence(recurrent(batch)[0])[0].detach().sum() for batch in batches]
    print([sums[i].item() for i in order])
