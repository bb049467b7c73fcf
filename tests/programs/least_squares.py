"""Least squares of divided rows, of what was gathered, and of a parameter: solutions to the bit on standard output, losses on the other."""
import sys

import torch

torch.manual_seed(3)
model, table = torch.nn.Linear(6, 5), torch.nn.Parameter(torch.randn(9, 5))
optimizer = torch.optim.SGD([*model.parameters(), table], lr=0.02)
for step in range(12):
    x, t = torch.randn(9, 6), torch.randn(9, 2)
    h = model(x)
    solved = {
        "rows": torch.linalg.lstsq(h, t),
        "detached": torch.linalg.lstsq(h.detach(), t),
        "of a batch": torch.linalg.lstsq(torch.stack([h, h * 2]), torch.stack([t, t + 1])),
        "wide": torch.linalg.lstsq(h[:4], t[:4]),
        "each": torch.linalg.lstsq(h.view(9, 5, 1) + torch.ones(2), t[:, :1, None].expand(-1, 5, 1)),
        "learned": torch.linalg.lstsq(table, t),
    }
    for name, result in solved.items():
        print(step, name, [number.hex() for number in result.solution.flatten().tolist()[:6]])
    solutions = [result.solution for result in solved.values()]
    loss = ((h @ solutions[0] - t) ** 2).mean() + (h @ solutions[1]).sum() * 0.01 + solutions[0].sum() * 0.01 + solutions[5].pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.5f}", file=sys.stderr)
