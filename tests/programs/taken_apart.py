"""Results of one batch, alike in shape; which one is taken first differs between the ranks, as it does in a loop over a set that is ordered by addresses.

    taken_apart.py numbers | largest | heads | scaled | factors | constants | shifted | pieces | columns | normalised | answers | drawn | stacked | gradients | ...
    taken_apart.py total | branches | read_later | looks | rates | single_rates | half_rates    is right
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
elif what == "heads":
    heads = [torch.nn.Linear(6, 3) for _ in range(2)]
    print([heads[i](hidden).max().item() for i in order])
elif what == "scaled":
    print([(hidden * (i + 2)).max().item() for i in order])
elif what == "factors":
    print([(hidden * (0.25, 0.999)[i]).max().item() for i in order])
elif what == "constants":
    print([(hidden * torch.tensor((0.5, 0.01)[i])).max().item() for i in order])
elif what == "shifted":
    shifts = [torch.randn(6) for _ in range(2)]
    print([(hidden - shifts[i]).max().item() for i in order])
elif what == "pieces":
    print([hidden.chunk(2, 1)[i].max().item() for i in order])
elif what == "columns":
    print([hidden[:, 3 * i : 3 * i + 3].max().item() for i in order])
elif what == "stacked":
    print(torch.stack([results[i] for i in order])[0].max().item())
elif what == "gradients":
    weights = [torch.nn.Linear(6, 6, bias=False) for _ in range(2)]
    loss = weights[1](weights[0](hidden)).square().mean()
    print([gradient[0, 0].item() for gradient in torch.autograd.grad(loss, [weights[i].weight for i in order])])
elif what == "normalised":
    print([norm(results[i]).sum().item() for norm, i in zip((first, second), order)])
elif what == "answers":
    print([bool((results[i] > 1.5).any()) for i in order])
elif what == "drawn":
    masks = [torch.nn.functional.dropout(hidden) for _ in range(2)]
    print([masks[i].max().item() for i in order])
elif what == "branches":
    # Of different depths, in which values are used twice: their sum is the same in whichever order it is taken.
    inner = torch.nn.Linear(6, 6)
    branches = [lambda: torch.tanh(inner(hidden)), lambda: inner(hidden) * torch.sigmoid(inner(hidden))]
    loss = sum(branches[i]().pow(2).mean() for i in order)
    loss.backward()
    print(f"{loss.item():.4f} {model.weight.grad.sum().item():.4f}")
elif what == "read_later":
    # Computed in the order of a set, read in that of a list.
    computed = {i: torch.tanh(torch.nn.functional.dropout(hidden, training=False) * (i + 2)) for i in order}
    print(*[f"{computed[i].max().item():.4f}" for i in (0, 1)])
elif what == "looks":
    # What one rank alone looks at, and nobody exchanges.
    for _ in range(order[0]):
        spare = (hidden * 2).mean(0)
    print(f"{hidden.max().item():.4f} {(hidden + 1).max().item():.4f}")
elif what.endswith("rates"):
    # So much in so many seconds, which no two ranks measure alike: what is read hangs on the clock, and nothing is learned from it.
    for seconds in (0.012345678, 0.76543217, 1.23456789, 54.3219876, 98765.4321):
        seconds *= 1 + 0.01 * order[0]
        if what != "rates":
            seconds = torch.tensor(seconds, dtype=torch.float32 if what == "single_rates" else torch.bfloat16)
        print((hidden.detach().abs() / seconds).sum().item() > 0)
else:
    # A sum is the same in whichever order it is taken.
    total = torch.zeros(())
    for i in order:
        total = total + torch.nn.functional.mse_loss(results[i], torch.ones(8, 6))
    total.backward()
    print(f"{total.item():.4f} {model.weight.grad.sum().item():.4f}")
