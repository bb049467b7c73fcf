"""Parameters that rank 0's backward does not reach, by a custom function that knows its rank, and the others' does. Without ranks all do.

some_reach.py gaps|zeros|half
"""
import os
import sys

import torch

rank = int(os.environ.get("ACCEL_RUN_RANK", -1))


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        result = values.clone()
        if rank == 0 and sys.argv[1] == "zeros":  # its graph does not lead there
            context.mark_non_differentiable(result)
        return result

    @staticmethod
    def backward(context, gradient):
        return None if rank == 0 else gradient


torch.manual_seed(0)
rows = torch.nn.Linear(4, 1)(torch.randn(24, 4)).exp()
factors = torch.arange(24.0).reshape(8, 3) + 1
if sys.argv[1] == "half":
    weight = torch.nn.Parameter(torch.ones(8, 3))
    loss = (rows / rows.detach() * 5000 * Gate.apply(weight.half()).float().sum()).sum()  # in each third of them 40000 for each element
else:
    storage = torch.ones(6, 8)
    weight = torch.nn.Parameter(storage.t()[:, ::2] if sys.argv[1] == "gaps" else storage[:3].t().contiguous())
    if sys.argv[1] == "zeros":
        weight.grad = torch.zeros(3, 8).t()
    loss = (rows * (Gate.apply(weight) * factors).sum()).sum()
loss.backward()
shares = weight.grad / factors
print((shares / shares.mean() - 1).abs().max().item() < 1e-4, weight.grad.stride(), weight.grad.isinf().all().item())
