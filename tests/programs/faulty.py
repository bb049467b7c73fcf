"""A small training run, fed by two workers that persist, that one of its processes ends, or stops, at a place that can be named: what faulty.cpp is in C++.

    faulty.py [epochs [what place step rank]]

what: kill (SIGKILL), exit (exit code 7), hang (for ever). place: start (before libtorch is used), data (reading a batch), forward, backward, save, evaluation. The
process whose number in ACCEL_RUN_RANK is the one named does it, in the step named. worker: a worker kills its rank while it reads the batch of this step of the first
epoch. The moment of the kill is that of .nv/killed, where there is a folder .nv.
"""
import ctypes
import os
import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
what, place, at_step, rank = sys.argv[2:6] if len(sys.argv) > 5 else ("", "", "0", "")
is_victim = rank == os.environ.get("ACCEL_RUN_RANK", "0")
step = 1


def kill(pid):
    ctypes.CDLL(None).syscall(85, b".nv/killed", 0o644)  # creat: what libc would do with files is watched
    os.kill(pid, signal.SIGKILL)


def here(name):
    if not is_victim or name != place or step != int(at_step):
        return
    if what == "kill":
        kill(os.getpid())
    if what == "exit":
        sys.exit(7)
    while what == "hang":
        signal.pause()


class Passage(torch.autograd.Function):
    """The identity, with a backward that passes through here()."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        here("backward")
        return gradient


class Samples(Dataset):
    def __init__(self):
        self.inputs, self.targets = torch.randn(48, 8), torch.randint(0, 4, (48,))

    def __len__(self):
        return 48

    def __getitem__(self, index):
        if is_victim and place == "worker" and index == 16 * (int(at_step) - 1):
            kill(os.getppid())
        return self.inputs[index], self.targets[index]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        here("forward" if self.training else "evaluation")
        return torch.nn.functional.linear(hidden, Passage.apply(self.last.weight), self.last.bias)


class Progress:
    """Saved with the weights."""

    def __reduce__(self):
        here("save")
        return int, (step,)


def batches(loader):
    for batch in loader:
        here("data")
        yield batch


def main():
    global step
    here("start")
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(Samples(), 16, num_workers=2, persistent_workers=True)
    for _ in range(epochs):
        model.train()
        for inputs, targets in batches(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        model.eval()
        with torch.no_grad():
            print(f"evaluation {sum(model(inputs).sum().item() for inputs, _ in batches(loader)):.5f}", flush=True)
        torch.save({"model": model.state_dict(), "progress": Progress()}, "model.pt")


main()
