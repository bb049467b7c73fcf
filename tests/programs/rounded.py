"""A parameter of the type named whose values one rank changes: by rounding, or by far more."""
import os
import sys
import torch

dtype, factor = getattr(torch, sys.argv[1]), float(sys.argv[2])
torch.manual_seed(1)
model = torch.nn.Linear(8, 3)
scale = torch.nn.Parameter(torch.randn(5).to(dtype))
optimizer = torch.optim.SGD([*model.parameters(), scale], lr=1e-3)
data = torch.randn(23, 8)
for step in range(12):
    values = torch.view_as_real(scale) if scale.is_complex() else scale
    loss = (model(data) + values.float().flatten()[:3]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2 and os.environ.get("ACCEL_RUN_RANK") == "1":
        with torch.no_grad():
            scale[4].mul_(factor)  # the loss does not show it
