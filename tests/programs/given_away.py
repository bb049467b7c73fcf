"""What Python gives to threads: arguments by name, callbacks, objects. Who gets what, and when, is another one on each rank."""
import functools
import os
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
slow = 0.05 * int(os.environ.get("ACCEL_RUN_RANK", "0"))
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
run_all(work, 8, items, found)  # as many as jobs: fewer may all have others than another rank's
show("put as they end", found)


def named(task, function, self, found):
    found[int(task[-4:])] = (output * scales[int(task[-4:])]).sum().item()
    return function, self


# arguments by any name; epochs of one day are told apart by their numbers
found = {}
with ThreadPoolExecutor(8) as pool, ThreadPool(8) as own:
    day = time.strftime("%Y%m%d")
    named_as = [{"task": f"ckpt-{day}_{index:04d}", "function": 1, "self": 2, "found": found} for index in as_they_end(pool)]
    results = [own.apply_async(named, kwds=these) for these in named_as]
    print([result.get() for result in results])
show("named", found)


# the next job is given away by the callback of whichever has ended (joblib's threads)
def chain(give, count):
    found, lock, jobs, done = {}, threading.Lock(), iter(range(count)), threading.Semaphore(0)

    def score_late(index):
        later()
        score(index, found)

    def more(_):
        with lock:
            index = next(jobs, None)
        if index is None:
            done.release()
        else:
            give(score_late, index, more)

    for _ in range(3):
        more(None)
        time.sleep(slow)  # one of them has ended by then, on one rank
    for _ in range(3):
        done.acquire()
    return found


with ThreadPool(3) as own:
    show("chained", chain(lambda function, index, more: own.apply_async(function, (index,), callback=more), 24))
with ThreadPoolExecutor(3) as pool:
    show("chained", chain(lambda function, index, more: pool.submit(function, index).add_done_callback(more), 24))


# by threads that take what begins such a chain from a queue: which one has which is another on each rank
def dispatch(begins):
    while (begin := begins.get()) is not None:
        begin()


def chains(pool, found, name):
    found[name] = chain(lambda function, index, more: pool.submit(function, index).add_done_callback(more), 8)


found, begins = {}, queue.Queue()
with ThreadPoolExecutor(3) as pool:
    for name in "first", "second":
        begins.put(functools.partial(chains, pool, found, name))
    threads = [threading.Thread(target=dispatch, args=(begins,)) for _ in range(2)]
    for thread in threads:
        begins.put(None)
        thread.start()
    for thread in threads:
        thread.join()
for name in "first", "second":
    show(name, found[name])


class Runner:
    def __init__(self, pool):
        self.pool, self.lock, self.scales, self.found, self.done = pool, threading.RLock(), iter(scales), [], threading.Semaphore(0)

    def more(self, _=None):
        with self.lock:
            scale = next(self.scales, None)
            if scale is not None:
                self.pool.submit(self.work, torch.full((1,), scale)).add_done_callback(self.more)
        if scale is None:
            self.done.release()

    def work(self, scale):
        later()
        self.found.append((output * scale).sum().item())


def run_next(pool, jobs, found, done, _):
    index = next(jobs, None)
    if index is not None:
        pool.submit(score, index, found).add_done_callback(functools.partial(run_next, pool, jobs, found, done))
    else:
        done.release()


with ThreadPoolExecutor(3) as pool:
    runner = Runner(pool)
    for _ in range(3):
        runner.more()
        time.sleep(slow)
    for _ in range(3):
        runner.done.acquire()
    show("by a method", dict(enumerate(sorted(runner.found))))
    found, jobs, done = {}, iter(range(24)), threading.Semaphore(0)
    for _ in range(3):
        run_next(pool, jobs, found, done, None)
    for _ in range(3):
        done.acquire()
    show("by a partial", found)

# what a callback gives away with what its job has found, or with what it was made with, is that job's
def later_scale(index):
    later()
    return scales[index]


def score_all(scale, found):
    found.append((output * scale).sum().item())


def followed(pool, other, found):
    for index in range(8):
        pool.submit(later_scale, index).add_done_callback(lambda future: other.submit(score_all, future.result(), found))


def followed_within(pool, other, found):
    for index in range(8):
        pool.submit(later_scale, index).add_done_callback(lambda future: other.submit(lambda: score_all(future.result(), found)))


def made_with(pool, other, found):
    for index in range(8):
        pool.submit(later_scale, index).add_done_callback(lambda future, scale=scales[index]: other.submit(score_all, scale, found))


def of_threads(pool, other, found):
    with ThreadPool(8) as own:
        for index in range(8):
            own.apply_async(later_scale, (index,), callback=lambda scale: other.submit(score_all, scale, found))
        own.close()
        own.join()


class Stage:
    def __init__(self, index, other, found):
        self.scale, self.other, self.found = scales[index], other, found

    def done(self, future):
        self.other.submit(self.second)

    def second(self):
        score_all(self.scale, self.found)


def staged(pool, other, found):
    for index in range(8):
        pool.submit(later_scale, index).add_done_callback(Stage(index, other, found).done)


for follow in followed, followed_within, made_with, of_threads, staged:
    found = []
    with ThreadPoolExecutor(8) as other:
        with ThreadPoolExecutor(8) as pool:
            follow(pool, other, found)
    show(follow.__name__, dict(enumerate(sorted(found))))


# a thread that collects what its own threads and tasks have found goes by its own word
def collect(start):
    results = queue.Queue()
    for index in range(4):
        start(lambda index=index: (later(), results.put(Numbered(index))))
    got = sorted((results.get() for _ in range(4)), key=lambda result: result.index)
    print("collected", f"{(output * scales[got[2].index]).sum().item():.8f}", flush=True)


with ThreadPoolExecutor(4) as pool:
    for start in lambda function: threading.Thread(target=function).start(), pool.submit:
        run_all(collect, 1, start)

# lines as they are read from a pipe
found, items = {}, queue.Queue()


def work_on_lines():
    while line := (later(), items.get())[1]:
        score(int(line.split()[1]), found)


with ThreadPoolExecutor(8) as pool:
    for index in as_they_end(pool):
        items.put(f"sentença {index}\n".encode())
for _ in range(8):
    items.put(b"")
run_all(work_on_lines, 8)
show("lines", found)
torch.set_default_dtype(torch.float32)
