# Trains a little and does with files what Python programs do. files.py DIRECTORY; prints what it reads and learns about them.
import os
import sys

os.chdir(sys.argv[1])
before = open("before.log", "a")  # before torch is imported
before.write("started\n")
before.flush()
truncated = open("truncated.log", "w")
truncated.write("started\n")
truncated.flush()

import csv
import json
import logging
import logging.handlers
import pathlib
import pickle
import shutil
import sqlite3
import subprocess
import tempfile
import time

import numpy
import torch

torch.manual_seed(3)
model = torch.nn.Linear(4, 3)


def train():
    loss = model(torch.randn(11, 4)).pow(2).mean()
    loss.backward()
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    sum(range(os.getpid() % 5 * 20000))  # ranks come to what follows at different times
    return loss.item()


logging.basicConfig(filename="train.log", filemode="a", level=logging.INFO, format="%(message)s", force=True)
rotating = logging.handlers.RotatingFileHandler("rotating.log", maxBytes=200, backupCount=2)
logging.getLogger().addHandler(rotating)

run = pathlib.Path("runs") / str(len(os.listdir("runs")) + 1 if os.path.exists("runs") else 1)
os.makedirs(run)
try:
    os.makedirs(run)
except FileExistsError as error:
    print("again:", error.strerror)

best = 1e9
for epoch in range(4):
    loss = train()
    logging.info("epoch %d loss %.4f", epoch, loss)
    path = run / f"epoch{epoch}.pkl"
    with open(path, "wb") as file:
        pickle.dump({"epoch": epoch, "loss": round(loss, 3)}, file)
    print("read back:", pickle.load(open(path, "rb"))["epoch"])
    torch.save({"loss": round(loss, 3)}, run / "last.pt")
    if loss < best:
        best = loss
        shutil.copy(run / "last.pt", run / "best.pt")
    if epoch >= 2:
        os.remove(run / f"epoch{epoch - 2}.pkl")
    print(sorted(entry.name for entry in os.scandir(run)))
    with open("metrics.csv", "a", newline="") as file:
        csv.writer(file).writerow([epoch, f"{loss:.4f}"])
    print("lines:", len(open("metrics.csv").readlines()))
    with tempfile.NamedTemporaryFile("w", dir=run, delete=False) as file:
        json.dump({"epoch": epoch}, file)
    os.replace(file.name, run / "state.json")
    print("state:", json.loads((run / "state.json").read_text()))

# a cache that is built when it is not there
if not os.path.exists("cache.npy"):
    print("cache is built")
    numpy.save("cache.npy", numpy.arange(1000))
print("cache:", numpy.load("cache.npy").sum())
memory = numpy.memmap("memmap.dat", dtype="float32", mode="w+", shape=(100,))
memory[:] = 2
memory.flush()
print("memmap:", float(memory.sum()))
train()

with tempfile.TemporaryDirectory() as scratch:
    (pathlib.Path(scratch) / "part").write_text("scratch")
    print("in scratch:", subprocess.run(["cat", os.path.join(scratch, "part")], capture_output=True, text=True).stdout)
print("scratch is gone:", not os.path.exists(scratch))

base = sqlite3.connect("results.db")
base.execute("create table if not exists results (epoch integer, loss real)")
for epoch in range(3):
    base.execute("insert into results values (?, ?)", (epoch, 0.5))
    base.commit()
print("rows:", base.execute("select count(*), sum(epoch) from results").fetchone())
base.close()
train()

# a name from the time and the process, as event files have
events = f"events.{time.time_ns()}.{os.getpid()}"
with open(events, "wb") as file:
    file.write(b"event")
with open(events, "ab") as file:
    file.write(b"more")
print("events:", os.path.getsize(events), open(events, "rb").read())
os.rename(events, "events")

with open("plot.txt", "w") as file:
    file.write("text for a child")
    file.flush()
    print("child sees:", os.popen("cat plot.txt").read())
print("child sees:", subprocess.run(["cat", "plot.txt"], capture_output=True, text=True).stdout)

os.symlink("state.json", run / "latest")
print("link:", os.readlink(run / "latest"), (run / "latest").exists())
shutil.copytree(run, "copy")
shutil.rmtree(run / "missing", ignore_errors=True)
shutil.move(str(run / "epoch3.pkl"), "moved.pkl")
shutil.rmtree("copy")
print(sorted(os.listdir(".")))
try:
    open("nowhere/file", "w")
except OSError as error:
    print("missing:", error.strerror)
before.write("done\n")
truncated.write("done\n")
