"""Threads beside each other: pools that compute numbers, models that train side by side, checkpoints that are written meanwhile."""
import asyncio
import copy
import os
import queue
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
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
        show("asynchronous", [task.get() for task in [pool.apply_async(func=number, args=(output,)) for output in outputs]])

# given away in the order in which others have ended, which is another one on each rank; of one size each, so that nothing but who has them tells them apart
alike = [model(torch.randn(16, 6)) for _ in range(8)]


def slowly(index):
    time.sleep(random.SystemRandom().random() * 0.004)
    return index


def numbered(index, output):
    return index, number(output)


async def in_turn(index):
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, numbered, await loop.run_in_executor(None, slowly, index), alike[index])


async def all_in_turn():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
    return await asyncio.gather(*map(in_turn, range(8)))


class Bag:
    """Throws when it is asked for what it has not."""

    def __init__(self, **named):
        self.__dict__["named"] = named

    def __getattr__(self, name):
        return self.named[name]


bags = queue.Queue()
bags.put(Bag(index=7))
print("bag", bags.get().index, bags.unfinished_tasks)


def work(items, done):
    while (item := items.get()) is not None:
        time.sleep(random.SystemRandom().random() * 0.002)
        done.append(numbered(*item))


for repeat in range(2):
    with ThreadPoolExecutor(16) as pool:
        firsts = [pool.submit(slowly, index) for index in range(8)]
        seconds = [pool.submit(numbered, first.result(), alike[first.result()]) for first in as_completed(firsts)]
        show("as completed", [found for _, found in sorted(second.result() for second in seconds)])
        done = []
        thirds = []
        for first in as_completed([pool.submit(slowly, index) for index in range(8)]):
            index = first.result()
            thirds.append(threading.Thread(target=lambda *given: done.append(numbered(*given)), args=(index, alike[index])))
            thirds[-1].start()
        for third in thirds:
            third.join()
        show("threads as completed", [found for _, found in sorted(done)])
    show("asynchronously", [found for _, found in asyncio.run(all_in_turn())])
    items, done = queue.Queue(), []
    workers = [threading.Thread(target=work, args=(items, done)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for item in [*enumerate(alike), None, None, None]:
        items.put(item)
    for worker in workers:
        worker.join()
    show("from a queue", [found for _, found in sorted(done)])

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

# a copy of the model is evaluated on a thread of its own, and what is found written on another one, while the training goes on
found, jobs = {}, queue.Queue()


def evaluate(epoch, copied):
    with torch.no_grad():
        output = copied(batches[0])
        found[epoch] = output.softmax(1).numpy().max(), output.pow(2).mean().item(), sum(output[3].tolist())


def write():
    while (job := jobs.get()) is not None:
        torch.save(job[1:], job[0])


writer = threading.Thread(target=write)
writer.start()
evaluations = []
for epoch in range(4):
    train(models[1], batches[0], [])
    evaluations.append(threading.Thread(target=evaluate, args=(epoch, copy.deepcopy(models[1]))))
    evaluations[-1].start()
    jobs.put((f"epoch{epoch}.pt", {name: value.clone() for name, value in models[1].state_dict().items()}, models[1](batches[0]).detach()))
for evaluation in evaluations:
    evaluation.join()
jobs.put(None)
writer.join()
for epoch in range(4):
    values = torch.load(f"epoch{epoch}.pt")
    os.remove(f"epoch{epoch}.pt")  # what has been trained differs in its last bits
    show(f"evaluated {epoch}", [*found[epoch], values[1].sum().item(), *(value.sum().item() for value in values[0].values())])

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
