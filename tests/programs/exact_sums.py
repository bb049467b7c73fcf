"""Sums over the rows whose figures are exact in one process: accuracies, counts, flags, whole numbers that wrap, half precision that overflows. Each is printed
with all its digits, or decides something."""
import torch
from torch import nn
from torch.nn import functional as F


def accuracies(name, accuracy_of):
    """A better accuracy is kept: one that is the same is not better."""
    torch.manual_seed(3)
    model, best, saved = nn.Linear(8, 4), 0.0, []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    images = torch.randn(100, 8)
    labels = (images[:, :4] + 0.7 * torch.randn(100, 4)).argmax(1)
    for step in range(60):
        batch = torch.randn(20, 8)
        loss = F.cross_entropy(model(batch), (batch[:, :4] + 0.7 * torch.randn(20, 4)).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            accuracy = accuracy_of(model(images).argmax(1) == labels)
        if accuracy > best:
            best = accuracy
            saved.append(step)
    print(name, best, *saved)


def all_right(rows, dtype):
    torch.manual_seed(0)
    model = nn.Linear(8, 3).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    images = torch.randn(rows, 8, dtype=dtype)
    labels = images[:, :3].argmax(1)
    for step in range(60):
        scores = model(images)
        optimizer.zero_grad()
        F.cross_entropy(scores, labels).backward()
        optimizer.step()
        if (scores.argmax(1) == labels).to(dtype).mean().item() == 1.0:
            print("all right after", step)
            break


def numbers_beside_sums():
    torch.manual_seed(0)
    model = nn.Linear(4, 4).double()
    h = model(torch.randn(48, 4).double())
    for k in range(1, 12):
        count = (h > 0.1 * k).double().sum()
        print("count", int(count + float(k)), (count + float(k)).item() == count.item() + k, (count / 48).item(), (count * 0.01).item())
    s = h.detach().sum()
    print("tiny", f"{(1 / (s * 0 + 1e-8)).item():.12g}", f"{(s + 0.1).item():.10f}", f"{torch.add(s, 0.1, alpha=3).item():.10f}")
    for huge in 2**62, 2**63:  # the second is a number without a sign, which 2.1 and older do not take
        try:
            print("huge", f"{(h.sum() / huge).item():.10g}")
        except RuntimeError as error:
            print("huge", error)


def flags_and_wrapped_integers():
    torch.manual_seed(0)
    h = nn.Linear(8, 8)(torch.randn(16, 8))
    active = (h > 0.5).sum(0, dtype=torch.bool)
    print("flags", active.tolist(), active.sum().item(), (active * 2.0).tolist(), (active + 1).tolist(), (active / 2).tolist())
    bytes_of = (h.abs() * 100).to(torch.uint8)
    total = bytes_of.sum(dtype=torch.uint8)
    print("bytes", total.item(), (total / 256).item(), (total + 0.5).item(), (total * torch.tensor(3)).item(), total.unsqueeze(0).sum().item())
    print("products", (bytes_of.t().mm(bytes_of) * 1.5).sum().item(), bytes_of.t().mm(bytes_of).sum().item())


def half_precision():
    torch.manual_seed(0)
    signs = torch.ones(16, 1)
    signs[8:] = -1
    with torch.no_grad():
        h = nn.Linear(4, 4)(torch.randn(16, 4)) * 0
        opposite, large = (h + 20000 * signs).half(), (h + 1500).half()
        print("opposite", opposite.sum().item(), opposite.sum(0).tolist())
        wide = h + 20000 * signs
        print("given type", wide.sum(dtype=torch.float16).item(), wide.long().sum(dtype=torch.float16).item(), wide.nansum(dtype=torch.float16).item())
        print("large", large.sum().item(), (large.sum() * 1e-3).item(), (large.sum() / 64).item(), large.mean().item(), large.mean(0).tolist())
    loss = nn.Linear(16, 16)(torch.randn(24, 16)).max(0)[0].bfloat16().sum().float()
    print("seed", f"{torch.autograd.grad(loss, [loss])[0].item()}")


def added():
    """A number beside a count is rounded once, whichever rank has counted: equal scores are equal."""
    torch.manual_seed(0)
    signs = torch.full((24, 1), -1.0)
    signs[:7] = 1
    scores = []
    for step in range(6):
        with torch.no_grad():
            h = nn.Linear(1, 1)(signs[torch.randperm(24)]) * 0 + signs[torch.randperm(24)]
        right = (h[:, 0] > 0).float().sum()
        wrong = (h[:, 0] < 0).float().sum()
        scores.append((right + 0.1, right - wrong / 3, 0.7 + right, torch.add(right, wrong, alpha=0.3), right + 1, right + torch.tensor(0.01)))
    print("added", *[f"{float(score):.9g}" for score in scores[0]], [len({float(score) for score in same}) for same in zip(*scores)])


def narrow_beside_wide():
    """A sum that wraps in its own type is whole before it is added to one of a wider type."""
    torch.manual_seed(1)
    with torch.no_grad():
        h = nn.Linear(6, 8)(torch.randn(12, 6))
        small = (h * 50).to(torch.int8).sum(dtype=torch.int8)
        unsigned = (h.abs() * 60).to(torch.uint8).sum(dtype=torch.uint8)
        short = (h * 3000).to(torch.int16).sum(dtype=torch.int16)
        count = (h > 0).sum()
        print("narrow", *(number.item() for number in (small + count, count + small, unsigned + count, unsigned - count, torch.add(unsigned, count, alpha=2))))
        print("mixed", *(number.item() for number in (short + small, small + short, unsigned + small, small + 1, unsigned + torch.tensor(2), unsigned * 2)))
        print("floating", "%.3f" % (unsigned + h.sum()).item(), "%.3f" % (h.sum() - short).item(), (small + 1.5).item())


def rounded_before():
    """Elements that the type asked for has not, or not as exactly."""
    model, sign = nn.Linear(4, 4), torch.ones(19, 1)
    sign[8:] = -1
    with torch.no_grad():
        rows = model(torch.randn(19, 4)) * 0 + sign * torch.tensor([1e5, 6e4, 1000.3, 0.1])
        for dtype in (torch.float16, torch.bfloat16):
            print("rounded before", dtype, rows.sum(dtype=dtype).item(), rows.sum(0, dtype=dtype).tolist(),
                  rows[:, 1:].mean(dtype=dtype).item(), rows.mean(0, dtype=dtype).tolist())


accuracies("mean", lambda right: right.float().mean().item())
accuracies("sum", lambda right: (right.sum() / 100).item())
accuracies("part", lambda right: (right.float().sum() * 0.01).item())
all_right(19, torch.float64)
all_right(115, torch.float32)
numbers_beside_sums()
flags_and_wrapped_integers()
half_precision()
added()
narrow_beside_wide()
rounded_before()
