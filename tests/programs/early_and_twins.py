"""What is open before torch is imported and goes on, data bases of SQLite in both modes and on a thread, descriptors of which a file has several."""
import fcntl
import logging.handlers
import os
import sqlite3
import threading

log = open("early.log", "a")
log.write("begin\n")
log.flush()
watched = logging.handlers.WatchedFileHandler("watched.log")
logging.getLogger().addHandler(watched)
logging.warning("before")
early = sqlite3.connect("early.db", isolation_level=None)

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step():
    optimizer.zero_grad()
    loss = model(torch.randn(6, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def text_of(name):
    with open(name) as file:
        return file.read().split()


def on_a_thread():
    base = sqlite3.connect("thread.db", timeout=30)
    base.execute("create table numbers (a int)")
    for number in range(5):
        base.execute("insert into numbers values (?)", (number,))
        base.commit()
    base.close()


print(text_of("early.log"))
ahead = sqlite3.connect("ahead.db", isolation_level=None, timeout=30)
print(ahead.execute("pragma journal_mode=wal").fetchone())
for base in ahead, early:
    base.execute("create table numbers (a int)")
other = sqlite3.connect("ahead.db", timeout=30)
thread = threading.Thread(target=on_a_thread)
thread.start()
for number in range(3):
    loss = step()
    for base in ahead, early:
        base.execute("insert into numbers values (?)", (number,))
    print(f"{loss:.5f}", other.execute("select count(*) from numbers").fetchone(), early.execute("select sum(a) from numbers").fetchone())
    log.write(f"step {number}\n")
    log.flush()
    logging.warning("step %d", number)
    print(len(text_of("early.log")), len(text_of("watched.log")))
thread.join()
ahead.execute("pragma wal_checkpoint(truncate)")

first = open("twins.txt", "w")
second = os.fdopen(os.dup(first.fileno()), "w")
first.write("one\n")
first.close()
second.write("two\n")
second.flush()
print(text_of("twins.txt"))
step()
second.write("three\n")
second.close()
print(text_of("twins.txt"))

fcntl.lockf(log, fcntl.LOCK_EX)
log.write("locked\n")
log.flush()
print(fcntl.fcntl(log, fcntl.F_GETFL) & os.O_APPEND)
fcntl.lockf(log, fcntl.LOCK_UN)

shown = os.dup(1)
redirected = open("redirected.txt", "w")
os.dup2(redirected.fileno(), 1)
redirected.close()
os.write(1, b"to the file\n")
again = text_of("redirected.txt")
os.dup2(shown, 1)
os.close(shown)
print(again, text_of("redirected.txt"))
for base in ahead, other, early:
    base.close()
for name in "early.db", "ahead.db", "thread.db":
    print(name, sqlite3.connect(name).execute("select count(*), sum(a) from numbers").fetchall())
