"""A run whose numbers are written by a tracker's own process, and a model that is saved in the run's folder."""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fake"))
import wandb  # noqa: E402

for name in "first", "second":
    run = wandb.init(name)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, targets = torch.randn(24, 4), torch.randn(24, 2)
    for step in range(5):
        loss = torch.nn.functional.mse_loss(model(data), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log({"step": step, "loss": f"{loss.item():.4f}"})
    with open(os.path.join(run.dir, "summary.txt"), "w") as file:
        print(f"{loss.item():.4f}", file=file)
    print(name, os.path.relpath(run.dir), run.finish())
