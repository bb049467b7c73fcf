"""A program that saves when it is told to end.   told.py interrupt|flag|apart FILE, or told.py until STEPS FILE: as many steps, told by nobody.
apart: each rank tells itself, at another step than the others.   waits: trains, then waits to be told."""

import os
import signal
import sys
import time

import torch

how, path = sys.argv[1], sys.argv[-1]
limit = int(sys.argv[2]) if how == "until" else sys.maxsize
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, targets = torch.randn(12, 4), torch.randn(12, 2)
told, steps = [], 0


def handler(number, frame):
    told.append(steps)


def train():
    global steps
    while not told and steps < limit:
        optimizer.zero_grad()
        ((model(data) - targets) ** 2).mean().backward()
        optimizer.step()
        steps += 1
        if steps == 20:
            print("begun", flush=True)
        if how == "apart" and steps == 30 + 3 * int(os.environ["ACCEL_RUN_RANK"]):
            os.kill(os.getpid(), signal.SIGUSR1)


def wait():
    for _ in range(20):
        model(data).sum().backward()
    print("begun", flush=True)
    for count in (1, 2):
        while len(told) < count:
            time.sleep(0.01)
        print("told", count, flush=True)


assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
for number in (signal.SIGTERM, signal.SIGUSR1):
    before = signal.signal(number, handler)
    assert before is signal.SIG_DFL and signal.getsignal(number) is handler
try:
    wait() if how == "waits" else train()
except KeyboardInterrupt:
    print("interrupted")
torch.save(model.state_dict(), path)
print("saved after", steps, *model.weight.flatten().tolist())
