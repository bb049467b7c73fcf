"""A program that saves when it is told to end.   told.py interrupt|flag|apart|chain FILE, or told.py until STEPS FILE: as many steps, told by nobody.
workers: its batches come from a loader with workers.   apart: a thread of each rank tells it, at another step than the others.
chain: a handler of faulthandler's is before its own.   worker: it has forked one, who is told, too.   interrupts: it tells its workers.
waits: trains, then waits to be told.   child: a child tells it.   restores: is told while handlers are set that are taken back at once.
itself: sends itself signals, stops an alarm, and rests until another."""

import faulthandler
import os
import select
import signal
import subprocess
import sys
import threading
import time

import torch

how, path = sys.argv[1], sys.argv[-1]
limit = int(sys.argv[2]) if how == "until" else sys.maxsize
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
data, targets = torch.randn(12, 4), torch.randn(12, 2)
told, steps = [], 0


def handler(number, frame):
    told.append(steps)


def batches():
    if how == "workers":
        rows = torch.utils.data.TensorDataset(data, targets)
        loader = torch.utils.data.DataLoader(rows, batch_size=len(data), num_workers=2, persistent_workers=True)
        while True:
            yield from loader
    while True:
        yield data, targets


def train():
    global steps
    for rows, labels in batches():
        if told or steps >= limit:
            return
        ((model(rows) - labels) ** 2).mean().backward()
        with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
        steps += 1
        if steps == 20:
            print("begun", flush=True)
        if how == "apart" and steps == 30 + 3 * int(os.environ["ACCEL_RUN_RANK"]):
            sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
            sender.start()
            sender.join()


def train_beside_worker():
    heard, hears = os.pipe()  # libc's handler, of Python's, writes to it as it runs
    os.set_blocking(hears, False)
    worker = os.fork()
    if not worker:
        try:
            while True:
                signal.pause()
        except KeyboardInterrupt:
            os._exit(3 if select.select([heard], [], [], 0.1)[0] else 4)
    signal.set_wakeup_fd(hears)
    try:
        for step in range(1000):
            model(data).sum().backward()
            if step == 20:
                print("begun", flush=True)
            if step >= 20:
                time.sleep(0.6)
    except KeyboardInterrupt:
        print("the worker is told", {3: "then", 4: "before"}[os.waitpid(worker, 0)[1] >> 8])


def interrupt_worker(tell):
    model(data).sum().backward()
    ready, readies = os.pipe()
    worker = os.fork()
    if not worker:
        try:
            os.write(readies, b"1")
            while True:
                signal.pause()
        except KeyboardInterrupt:
            os.write(readies, b"2")
            os._exit(0)
    os.read(ready, 1)
    tell(worker)
    print("the worker has heard it" if select.select([ready], [], [], 6)[0] else "the worker does not hear it")
    os.waitpid(worker, 0)


def interrupt_by_child(worker):
    os.kill(worker, signal.SIGSTOP)
    subprocess.run(["sh", "-c", f"kill -INT {worker}"], check=True)
    os.kill(worker, signal.SIGCONT)  # the child is gone when the worker asks who it was


def interrupt_workers():
    interrupt_worker(lambda worker: os.kill(worker, signal.SIGINT))
    interrupt_worker(interrupt_by_child)


def wait():
    for _ in range(20):
        model(data).sum().backward()
    print("begun", flush=True)
    for count in (1, 2):
        while len(told) < count:
            time.sleep(0.01)
        print("told", count, flush=True)


def told_by_child():
    for count in (1, 2, 3):
        for _ in range(3):
            model(data).sum().backward()
        subprocess.run(["sh", "-c", "kill -USR1 $PPID"], check=True)
        while len(told) < count:
            model(data).sum().backward()
    print("told", len(told))


def raising_handler(number, frame):
    told.append(steps)
    raise InterruptedError


def restore_handlers():
    for own in handler, raising_handler, handler:
        try:
            before = signal.signal(signal.SIGUSR2, own)
            try:
                for _ in range(3):
                    model(data).sum().backward()
                sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR2))
                sender.start()
                sender.join()
            finally:
                signal.signal(signal.SIGUSR2, before)
        except InterruptedError:
            print("raised")
        print("told", len(told), signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL)


def tell_itself():
    ways = (lambda: signal.raise_signal(signal.SIGUSR1), lambda: os.kill(os.getpid(), signal.SIGTERM),
            lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1), lambda: os.killpg(0, signal.SIGUSR1))
    assert os.getpgrp() == os.getpid()  # nobody else is in the group
    for way in ways:
        for _ in range(3):
            model(data).sum().backward()
        way()
        print("told", len(told))
    subprocess.run(["true"], check=True)  # resets handlers in a child that shares its memory until it executes something
    with open(os.devnull, "w", encoding="ascii") as dump:
        faulthandler.register(signal.SIGUSR1, file=dump, chain=True)
        ways[0]()
        for _ in range(3):
            model(data).sum().backward()
        faulthandler.unregister(signal.SIGUSR1)
    print("told by the handler before", len(told))
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    end = time.monotonic() + 0.2
    while time.monotonic() < end and len(told) == len(ways) + 1:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    before = len(told)
    for _ in range(3):
        model(data).sum().backward()
    print("none comes when the alarm has been stopped:", len(told) == before)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    time.sleep(0.9)
    print("one comes in a rest at the end:", len(told) == before + 1)
    signal.signal(signal.SIGALRM, raising_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        time.sleep(120)
    except InterruptedError:
        print("one that came before a rest ends it:", len(told) == before + 2)


assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
for number in (signal.SIGTERM, signal.SIGUSR1):
    before = signal.signal(number, handler)
    assert before is signal.SIG_DFL and signal.getsignal(number) is handler
if how == "chain":
    faulthandler.register(signal.SIGTERM, file=open(os.devnull, "w", encoding="ascii"), chain=True)
try:
    {"waits": wait, "worker": train_beside_worker, "interrupts": interrupt_workers, "child": told_by_child, "restores": restore_handlers, "itself": tell_itself}.get(how, train)()
except KeyboardInterrupt:
    print("interrupted")
torch.save(model.state_dict(), path)
print("saved after", steps, *model.weight.flatten().tolist())
if how == "flag":  # a second one may come late, on a busy machine: while Python ends it would end the process, as without us
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
