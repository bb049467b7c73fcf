"""All that a program may do with files before it imports torch: choose its folder, count its runs, rotate a log, fill a data base, write on a thread."""
import json
import os
import shutil
import sqlite3
import tempfile
import threading


def text_of(name):
    with open(name) as file:
        return file.read()


def next_run():
    number = 1 + sum(name.startswith("run-") for name in os.listdir("."))
    os.makedirs(f"run-{number}/checkpoints")
    return f"run-{number}"


def count_runs():
    count = int(text_of("count")) if os.path.exists("count") else 0
    with open("count.new", "w") as file:
        file.write(str(count + 1))
    os.replace("count.new", "count")
    return count + 1


def rotate(name):
    if os.path.exists(name):
        os.rename(name, name + ".1")
    with open(name, "x") as file:
        file.write("begin\n")


def fill(name):
    base = sqlite3.connect(name)
    base.execute("create table if not exists numbers (a integer)")
    base.execute("insert into numbers values (?)", (base.execute("select count(*) from numbers").fetchone()[0],))
    base.commit()
    return base


def on_a_thread():
    os.makedirs("of-thread", exist_ok=True)
    with open("of-thread/log", "a") as file:
        file.write("line\n")


def out_of_scratch(name):
    """A file and a folder of names that this process alone has get names that all have: one copy, the same for all."""
    descriptor, path = tempfile.mkstemp(dir="/tmp")
    os.write(descriptor, b"drawn")
    os.close(descriptor)
    shutil.move(path, name)
    folder = tempfile.mkdtemp(dir="/tmp")
    with open(f"{folder}/data", "w") as file:
        file.write("data\n")
    shutil.move(folder, name + ".folder")
    return len(text_of(name)), sorted(os.listdir(name + ".folder"))


for run in 1, 2:
    folder = next_run()
    print(folder, count_runs(), sorted(os.listdir(".")))
    rotate("train.log")
    print(out_of_scratch(f"{folder}/drawn"))
    base = fill("study.db")
    thread = threading.Thread(target=on_a_thread)
    thread.start()
    thread.join()
    with open(f"{folder}/config.json", "w") as file:
        json.dump({"run": run, "rows": base.execute("select count(*) from numbers").fetchone()[0]}, file)
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(scratch, "part"), "w") as file:
            file.write("part")
        shutil.move(os.path.join(scratch, "part"), f"{folder}/part")
    os.symlink(folder, "latest.new")
    os.replace("latest.new", "latest")
    print(text_of("latest/config.json"), text_of("latest/part"), text_of("train.log"), text_of("of-thread/log"))
    base.close()
open_since = open("train.log", "a")
os.remove("train.log.1")

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
for step in range(2):
    loss = model(torch.randn(6, 4)).pow(2).mean()
    loss.backward()
    open_since.write(f"{step} {loss.item():.5f}\n")
    open_since.flush()
    print(text_of("train.log"))
torch.save(model.state_dict(), f"{folder}/checkpoints/model.pt")
base = fill("study.db")
print(base.execute("select count(*), sum(a) from numbers").fetchone(), count_runs(), sorted(os.listdir("latest")))
