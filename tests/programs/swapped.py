"""Two models of one shape on the same data; which one is trained first differs between the ranks, as it does when a thread trains each."""
import os

import torch

torch.manual_seed(0)
models = [torch.nn.Linear(4, 2) for _ in range(2)]
data, targets = torch.randn(8, 4), torch.randn(8, 2)
for model in models if os.environ.get("ACCEL_RUN_RANK", "0") == "0" else reversed(models):
    torch.nn.functional.mse_loss(model(data), targets).backward()
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
for model in models:
    print(model.weight.sum().item(), model.bias.sum().item())
