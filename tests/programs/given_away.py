"""What Python gives to threads: arguments by name, callbacks, objects, permits. Who gets what, and when, is another one on each rank."""
import pathlib
import queue
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool

import torch

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
model = torch.nn.Linear(6, 4)
output = model(torch.randn(16, 6)).detach()  # divided, and the same for all: nothing but who computes it tells the numbers apart
scales = [(index + 2) ** 0.5 for index in range(24)]


def later():
    time.sleep(random.SystemRandom().random() * 0.002)


def first(index):
    later()
    return index


def score(index, found):
    found[index] = (output * scales[index]).sum().item()


def show(name, found):
    print(name, *(f"{found[index]:.8f}" for index in sorted(found)), flush=True)


def as_they_end(pool):
    ended = queue.Queue()
    for index in range(8):
        pool.submit(first, index).add_done_callback(ended.put)
    for _ in range(8):
        yield ended.get().result()


def submitted(pool, found):
    return [pool.submit(score, index=index, found=found).result for index in as_they_end(pool)]


def applied(pool, found):
    with ThreadPool(8) as own:
        results = [own.apply_async(func=score, kwds={"index": index, "found": found}) for index in as_they_end(pool)]
        own.close()
        own.join()
    return [result.get for result in results]


def started(pool, found):
    threads = [threading.Thread(target=score, kwargs={"index": index, "found": found}) for index in as_they_end(pool)]
    for thread in threads:
        thread.start()
    return [thread.join for thread in threads]


def put(pool, found):
    items = queue.Queue()
    threads = [threading.Thread(target=lambda: score(**items.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for index in as_they_end(pool):
        items.put({"index": index, "found": found})
    return [thread.join for thread in threads]


for give in submitted, applied, started, put:
    with ThreadPoolExecutor(16) as pool:
        found = {}
        for wait in give(pool, found):
            wait()
        show(f"{give.__name__} by name", found)


def called_back(pool, found):
    for index in range(24):
        future = pool.submit(first, index)
        later()
        future.add_done_callback(lambda future: score(future.result(), found))  # by this thread, if that has ended


found = {}
with ThreadPoolExecutor(8) as pool:
    called_back(pool, found)
show("called back", found)


@dataclass
class Job:
    index: int


class Ranked:
    def __init__(self, index):
        self.index = index

    def __lt__(self, other):
        return self.index < other.index


class Numbered(Ranked):
    __slots__ = ()


def work(items, found):
    while (job := (later(), items.get())[1]) is not nothing:
        score(int(job.name) if isinstance(job, pathlib.Path) else job.index, found)
    items.put(nothing)


def work_by_rank(items, found):
    while (job := (later(), items.get())[1]).index < 24:
        score(job.index, found)


def put_all(items, puts, last):
    for item in puts:
        items.put(item)
    items.put(last)


def run_all(function, count, *values):
    threads = [threading.Thread(target=function, args=values) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


nothing = object()
for make in Job, Numbered, pathlib.Path:
    found, items = {}, queue.Queue()
    put_all(items, (make(index if make is not pathlib.Path else str(index)) for index in range(24)), nothing)
    run_all(work, 3, items, found)
    show(f"from a queue of {make.__name__}", found)
found, items = {}, queue.PriorityQueue()
put_all(items, map(Ranked, reversed(range(24))), Ranked(24))
for _ in range(2):
    items.put(Ranked(24))
run_all(work_by_rank, 3, items, found)
show("by rank", found)
# put as others end: nothing but what is in them tells them apart
found, items = {}, queue.Queue()
with ThreadPoolExecutor(8) as pool:
    put_all(items, map(Job, as_they_end(pool)), nothing)
run_all(work, 8, items, found)
show("put as they end", found)


# what a thread only borrows, or waits for, is not what it is known by; what it works on is, also in a pool and when it gives that back. There are as many
# permits, and workers, as cannot all have other tasks on each of three ranks (docs/limits.md).
def of(*values):
    items = queue.Queue()
    for value in values:
        items.put(value)
    return items


def borrowed(index, found, free):
    later()
    slot = free.get()
    try:
        later()
        score(index, found)
    finally:
        free.put(slot)
    later()
    score(index + 8, found)


def allowed(index, found, gate):
    later()
    gate.get()
    score(index, found)


def work_with_borrowed(items, found, free):
    while (index := items.get()) is not None:
        slot = free.get()
        later()
        score(index, found)
        free.put(slot)
    items.put(None)


def work_in_turns(items, found):
    while True:
        later()
        index, turns = items.get()
        if turns < 3:
            score(index, found)
        items.put((index, min(turns + 1, 3)))
        if turns == 3:
            return


def work_on_all(items, found):
    for job in iter(items.get, None):
        later()
        score(job.index, found)


def collected(index, found, items):
    parts = [items.get(), items.get()]
    score(index, found)
    return parts


for run, items in (borrowed, of(*range(6))), (allowed, of(*range(8))):
    found = {}
    threads = [threading.Thread(target=run, args=(index, found, items)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(run.__name__, found)
found = {}
run_all(work_with_borrowed, 5, of(*range(24), None), found, of(*range(4)))
show("with borrowed", found)
found = {}
run_all(work_in_turns, 6, of(*((index, 0) for index in range(6))), found)
show("in turns", found)
with ThreadPoolExecutor(8) as pool:
    for run, last in (work, (nothing,)), (work_on_all, (None,) * 3):
        found, items = {}, of(*map(Job, range(24)), *last)
        for worker in [pool.submit(run, items, found) for _ in range(3)]:
            worker.result()
        show(f"{run.__name__} in a pool", found)
    found, items = {}, of(*range(16))
    for collector in [pool.submit(collected, index, found, items) for index in range(8)]:
        collector.result()
    show("collected in a pool", found)
torch.set_default_dtype(torch.float32)
