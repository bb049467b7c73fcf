"""Threads beside each other: pools that compute numbers, models that train side by side, checkpoints that are written meanwhile."""
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import torch

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
model = torch.nn.Linear(6, 4)
batches = [torch.randn(13 + i, 6) for i in range(8)]
outputs = [model(batch) for batch in batches]


def number(output):
    return output.pow(2).mean().item()


def evaluated(batch):
    with torch.no_grad():
        return torch.sigmoid(model(batch)).sum(0).max().item()


def show(name, numbers):
    print(name, *(f"{value:.8f}" for value in numbers), flush=True)


for repeat in range(5):
    with ThreadPoolExecutor(4) as pool:
        show("executor", pool.map(number, outputs))
        show("submitted", [task.result() for task in [pool.submit(evaluated, batch) for batch in batches]])
    with ThreadPool(3) as pool:
        show("pool", pool.map(number, outputs))
        show("unordered", sorted(pool.imap_unordered(evaluated, batches)))
        show("asynchronous", [task.get() for task in [pool.apply_async(number, (output,)) for output in outputs]])

models = [torch.nn.Linear(6, 4) for _ in range(3)]
losses = [[] for _ in models]


def train(own, rows, found):
    optimizer = torch.optim.Adam(own.parameters(), 0.05)
    for _ in range(15):
        optimizer.zero_grad()
        loss = own(rows).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())


threads = [threading.Thread(target=train, args=own) for own in zip(models, batches, losses)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for found in losses:
    show("trained", found)

# a checkpoint on a thread of its own: written, renamed, read back, pruned, while the training goes on
os.makedirs("checkpoints", exist_ok=True)
lines = []


def save(step, values):
    parts = f"checkpoints/parts{step}.{os.getpid()}"
    with open(parts, "wb") as file:
        torch.save(values, file)
    os.replace(parts, f"checkpoints/step{step}.pt")
    torch.save(values * 2, "checkpoints/last.pt")
    with open("checkpoints/log", "a") as file:
        file.write(f"saved {step}\n")
    read = torch.load(f"checkpoints/step{step}.pt"), torch.load("checkpoints/last.pt")
    for old in sorted(os.listdir("checkpoints"))[2:-3]:
        os.remove(os.path.join("checkpoints", old))
    lines.append(f"{step} {read[0].sum().item()} {read[1].sum().item()} {sorted(os.listdir('checkpoints'))}")


pool = ThreadPoolExecutor(1)
for step in range(10, 22):
    train(models[0], batches[0], [])
    pool.submit(save, step, torch.arange(step))
pool.shutdown()
for thread in (threading.Thread(target=save, args=(step, torch.arange(step))) for step in (30, 31)):
    thread.start()
    thread.join()
print(*lines, sep="\n")
try:
    os.mkdir("checkpoints")
except FileExistsError as error:
    print(type(error).__name__)
torch.set_default_dtype(torch.float32)
