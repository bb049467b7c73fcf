"""Two models of one shape on the same data; which one is trained first differs between the ranks, as it does when a thread trains each."""
import os

import torch

torch.manual_seed(0)
models = [torch.nn.Linear(4, 2) for _ in range(2)]
data, targets = torch.randn(8, 4), torch.randn(8, 2)
for model in models if os.environ.get("ACCEL_RUN_RANK", "0") == "0" else reversed(models):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.nn.functional.mse_loss(model(data), targets).backward()
    optimizer.step()
for model in models:
    print(model.weight.sum().item(), model.bias.sum().item())
