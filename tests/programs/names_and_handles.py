"""Files under names that are drawn, hold a time or a process number, or are spelled in two ways; several handles of one file. What is printed holds no such
name; files that keep one are counted and removed at the end."""
import contextlib
import glob
import hashlib
import logging
import os
import shutil
import sqlite3
import tempfile
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)


def step():
    model.zero_grad()
    model(torch.randn(12, 4)).square().mean().backward()


def text_of(name):
    with open(name) as file:
        return file.read().split()


def write(name, text, mode="w"):
    with open(name, mode) as file:
        file.write(text)


# a sort that is larger than SQLite's cache, in a temporary file that it names itself
with contextlib.closing(sqlite3.connect("sorted.db")) as database:
    database.executescript("PRAGMA cache_size=10; PRAGMA temp_store=1; create table samples (number integer, text text)")
    database.executemany("insert into samples values (?, ?)", ((index * 7919 % 5003, "x" * 100) for index in range(5000)))
    print("sorted", sum(index * number for index, (number,) in enumerate(database.execute("select number from samples order by text, number"))))
os.remove("sorted.db")

# names that are drawn, in a folder of the program's: one of each, listed as one
os.makedirs("chunks", exist_ok=True)
for number in range(3):
    descriptor, name = tempfile.mkstemp(dir="chunks", prefix="chunk_")
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{number}\n")
    with tempfile.NamedTemporaryFile("w+", dir="chunks", prefix="chunk_") as file:
        file.write("9\n")
        file.flush()
        print("drawn", sum(int(text_of(path)[0]) for path in glob.glob("chunks/chunk_*")), len(glob.glob("chunks/chunk_*")))
    step()
print("kept", len(os.listdir("chunks")))
shutil.rmtree("chunks")

# a checkpoint in a drawn folder that gets its name when it is whole, the last two kept; one that is moved out of /tmp, and one into it
os.makedirs("checkpoints", exist_ok=True)
for number in range(4):
    step()
    folder = tempfile.mkdtemp(dir="checkpoints", prefix="tmp-")
    torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
    os.rename(folder, f"checkpoints/step_{number}")
    for old in sorted(glob.glob("checkpoints/step_*"))[:-2]:
        shutil.rmtree(old)
    print("checkpoints", sorted(os.listdir("checkpoints")))
# a folder of this rank's own that could not be removed stays its own
folder = tempfile.mkdtemp()
write(os.path.join(folder, "first"), "1")
try:
    os.rmdir(folder)
except OSError as error:
    print(error.strerror)
write(os.path.join(folder, "second"), "2")
print("own folder", sorted(os.listdir(folder)))
shutil.rmtree(folder)
print("own folder", os.path.exists(folder))

with tempfile.TemporaryDirectory() as folder:
    write(os.path.join(folder, "log"), "moved")
    os.rename(os.path.join(folder, "log"), "log")
    shutil.copy("log", "log_2")
    os.rename("log_2", os.path.join(folder, "log_2"))
    os.makedirs("work/deep")
    write("work/deep/part", "part")
    os.symlink("deep", "work/link")
    os.symlink("work", "link")
    for name in "work", "link":
        os.rename(name, os.path.join(folder, name))
    print("moved folder", text_of(os.path.join(folder, "link/link/part")), os.path.lexists("work"), os.path.lexists("link"), len(os.listdir(folder)))
    here = os.getcwd()
    os.chdir(folder)
    for number in range(2):
        os.symlink(f"step_{number}", "latest")
        print("link", os.readlink("latest"))
        os.remove("latest")
    os.chdir(here)
    step()
    print("moved", text_of("log"), text_of(os.path.join(folder, "log_2")), os.path.exists("log_2"), os.listdir(folder))
with open("model.pt", "wb") as file:
    torch.save(model.state_dict(), file)
with tempfile.NamedTemporaryFile(dir=".") as file:
    torch.save(model.state_dict(), file.name)
    print("saved by name", torch.load(file.name)["bias"].shape)

# a name with the process in it, spelled in several ways; more of them than fit in a small table
run = f"./run_{os.getpid()}"
os.makedirs(run)
write(os.path.join(run, "a.txt"), "a")
print("spelled", os.path.isdir(os.path.abspath(run)), os.listdir(run[2:]), os.path.isfile(f"./{run}//a.txt"), len(glob.glob("run_*/a.txt")))
shutil.rmtree(run)
os.makedirs("many", exist_ok=True)
names = []
for number in range(40):
    names.append(f"many/{number:02}_{time.time():.6f}_{os.getpid()}.txt")
    write(names[-1], str(number))
    if number % 10 == 0:
        step()
print("many", len(os.listdir("many")), all(os.path.exists(name) for name in names), sum(int(text_of(name)[0]) for name in names))
shutil.rmtree("many")

# folders with the mode of a drawn one, and in its place; a cache of the program's own
os.makedirs("out/tmp_work", 0o700, exist_ok=True)
private = "/tmp/experiments" + hashlib.md5(os.path.dirname(os.getcwd()).encode()).hexdigest()[:8]
os.makedirs(private, 0o700)
write(os.path.join(private, "log"), "line\n")
step()
print("private", text_of(os.path.join(private, "log")), os.listdir(private))
shutil.rmtree(private)
os.makedirs(".cache/own", exist_ok=True)
for number in range(2):
    write(".cache/own/part", str(number))
    os.replace(".cache/own/part", ".cache/own/whole")
    write(".cache/own/log", "line\n", "a")
print("cache", os.listdir("out"), text_of(".cache/own/whole"), text_of(".cache/own/log"))

# several handles of one file
handlers = [logging.FileHandler("two.log", mode="w") for _ in range(2)]
for number in range(3):
    step()
    for which, handler in enumerate(handlers):
        handler.emit(logging.LogRecord("", 20, "", 0, f"{which}_{number}", None, None))
for handler in handlers:
    handler.close()
print("two handles", sorted(set(text_of("two.log"))))
with open("both.txt", "w") as first, open("both.txt", "a") as second:
    for number in range(2):
        first.write("")
        second.write(f"{number}\n")
        second.flush()
        step()
        print("read back", text_of("both.txt"))
first, second = sqlite3.connect("base.db"), sqlite3.connect("base.db")
first.execute("create table values_ (number integer)")
for number in range(3):
    first.execute("insert into values_ values (?)", (number,))
    first.commit()
    step()
    second.execute("insert into values_ values (?)", (10 * number,))
    second.commit()
print("sqlite", first.execute("select sum(number), count(*) from values_").fetchone())
reader = sqlite3.connect("file:base.db?mode=ro", uri=True)
print("only read", reader.execute("select sum(number), count(*) from values_").fetchone())
reader.close()
first.close()
second.close()
# a folder that each rank spells differently, by a link to it, where rank 0 has not put its file in place yet
folder = f"run_{os.getpid()}"
os.mkdir(folder)
with open(folder + "/open.txt", "w") as newest:
    newest.write("begun")
    newest.flush()
    os.symlink(folder, "newest")
    if os.environ.get("ACCEL_RUN_RANK") == "0":
        time.sleep(0.5)  # the others come first
    print("by a link", os.path.exists("newest/open.txt"), os.path.getsize("newest/open.txt"), text_of("newest/open.txt"))
os.remove(folder + "/open.txt")
os.rmdir(folder)
os.remove("newest")
print("files", sorted(os.listdir(".")))
