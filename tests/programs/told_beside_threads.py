"""A signal comes while a thread trains: the main thread trains, too, or waits for that thread.

    told_beside_threads.py train|wait
"""
import os
import signal
import sys
import threading
import time

import torch

torch.manual_seed(0)
x = torch.randn(64, 8)
is_told = False


def tell(*_):
    global is_told
    is_told = True


def make():
    model = torch.nn.Linear(8, 1)
    return model, torch.optim.SGD(model.parameters(), 1e-3)


def step(model, optimizer):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def train_until_told():
    while not is_told:
        step(*other)
        count[0] += 1
        if count[0] == 20:
            print("begun", flush=True)


own, other, count = make(), make(), [0]
if sys.argv[1] == "train":
    signal.signal(signal.SIGUSR1, tell)
    steps = 400  # of the other thread, as many on all ranks
    thread = threading.Thread(target=lambda: [step(*other) for _ in range(steps)])
    thread.start()
    step_number = 0
    while not is_told:
        loss = step(*own)
        step_number += 1
        if step_number == 10:
            print("begun", flush=True)
        if os.environ.get("ACCEL_RUN_RANK") == "1":  # one rank is slower, as on any machine
            time.sleep(0.03)
    print("left after", step_number, loss)
    thread.join()
else:
    thread = threading.Thread(target=train_until_told)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)  # the thread goes on, at another step on each rank
