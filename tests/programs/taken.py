"""Results of two batches, alike in shape; which one is taken first differs between the ranks, as it does when threads take them from a queue.

    taken.py rows | sums | losses
"""
import os
import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
results = [torch.tanh(model(torch.randn(8, 4))) for _ in range(2)]
order = (0, 1) if os.environ.get("ACCEL_RUN_RANK", "0") == "0" else (1, 0)
if sys.argv[1] == "rows":
    print([results[i].tolist() for i in order])
elif sys.argv[1] == "sums":
    sums = [result.detach().sum() for result in results]
    print([sums[i].item() for i in order])
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = [result.square().mean() for result in results]
    for i in order:
        optimizer.zero_grad()
        losses[i].backward()
        with torch.no_grad():
            model.bias -= 0.1 * model.bias.grad
    print(model.bias.tolist())
