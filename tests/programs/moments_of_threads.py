"""Threads, tasks and items of queues that are given what differs between processes: times, process numbers, addresses, names drawn in temporary folders."""
import os
import queue
import socket
import struct
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
batches = [torch.randn(12, 6) for _ in range(6)]


def train(own, given, batch):
    optimizer = torch.optim.SGD(own.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = own(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
    numbers.append(loss.item())


def work():
    while (item := items.get()) is not None:
        given, batch = item
        train(model, given, batch)


def name_of(given):
    return given, os.path.join(given, "last.pt"), os.fsencode(given)


whats = {
    "times": (time.time(), time.perf_counter(), f"run-{time.time()}", time.strftime("%Y-%m-%d_%H-%M-%S"), complex(time.time(), 1)),
    "parts of times": (int(time.time()), time.time_ns(), time.time_ns() // 1000, time.time_ns() // 1000000, time.monotonic_ns()),
    "packed": (struct.pack("<dB", time.time(), 255), b"step"),
    "processes": (os.getpid(), f"run-{os.getpid()}", f"/tmp/run-{os.getpid()}", f"events.out.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"),
    "addresses": (id(batches), threading.get_ident(), f"of {os.getpid()}" + "a long text " * 20),
}
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(suffix=".pt") as file:
    whats["temporary names"] = name_of(folder), name_of(file.name)
    for what, given in whats.items():
        model, numbers, items = torch.nn.Linear(6, 4), [], queue.Queue()
        consumer = threading.Thread(target=work)
        consumer.start()
        for batch in batches:
            items.put((given, batch))
        items.put(None)
        consumer.join()
        thread = threading.Thread(target=train, args=(model, given, batches[0]))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(train, model, given, batches[1]).result()
        print(what, *(f"{number:.8f}" for number in numbers), flush=True)
torch.set_default_dtype(torch.float32)
