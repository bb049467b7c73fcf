"""Files that have several handles, names or readers at a time, or a name that differs between processes: what is read and left is what one process reads and
leaves."""
import ctypes
import fcntl
import os
import shutil
import tempfile
import threading
import time

import numpy as np
import torch

rank = int(os.environ.get("ACCEL_RUN_RANK", 0))  # who is late, nothing else
torch.manual_seed(1)
model = torch.nn.Linear(4, 3)


def train():
    model(torch.randn(8, 4)).pow(2).mean().backward()


def put(name, text, mode="w"):
    with open(name, mode) as file:
        file.write(text)


def read(name):
    with open(name) as file:
        return file.read()


train()

# a save by name while the file is open for writing
with open("saved.pt", "wb"):
    torch.save(model.state_dict(), "saved.pt")
print("saved", sorted(torch.load("saved.pt")))

# and while it is open for reading
with open("saved.pt", "rb") as reader:
    torch.save({"weight": torch.ones(3)}, "saved.pt")
    print("read", sorted(torch.load(reader)))

# a file that is rewritten while it is mapped, or open for reading
np.save("bank.npy", np.zeros(4))
bank = np.load("bank.npy", mmap_mode="r")
np.save("bank.npy", np.ones(4))
print("mapped", bank.sum())
put("text", "old")
reader = open("text")
put("text", "new")
print("open", reader.read())

# as C does it: streams that get another file
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.freopen.restype = ctypes.c_void_p
libc.freopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
libc.ftell.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
libc.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
for _ in range(2):
    stream = libc.freopen(b"table.csv", b"a", libc.fopen(b"/dev/null", b"w"))
    if libc.ftell(stream) == 0:
        libc.fputs(b"step,loss\n", stream)
    libc.fputs(b"1,2\n", stream)
    libc.fclose(stream)
    print("table", read("table.csv").split())

# a name with the process number, opened again in other ways, and in a child
own = f"state_{os.getpid()}.json"
put(own, "{}")
with open(own, "r+") as file:
    print("again", file.read(), file.write("!"))
with open(own, "a") as file:
    print("at", file.tell(), file.write("?"))
child = os.fork()
if not child:
    os._exit(len(read(own)))
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), read(own))
os.remove(own)

# the same name on all, where another rank has spelled rank 0's so before
put(f"tick_{os.getpid() % 2}", "first")
for name in "tick_0", "tick_1":
    put(name, name)
    print("name", read(name))

# what has been added to is begun anew, while another rank has not come so far
put("state", "old text\n")
log = open("state", "a")
time.sleep(0.3 * (rank == 0))
log.truncate(0)
log.write("new\n")
log.flush()
print("anew", read("state"))
log.close()
log = open("state", "a")
time.sleep(0.3 * (rank != 0))
print("before", read("state"))
log.truncate(1)
print("cut", read("state"))
log.close()

# more mappings than there are places for files
for i in range(1100):
    memory = np.memmap("buffer", dtype="u1", mode="r+" if i else "w+", shape=(4,))
    memory[:] = i % 256
    del memory
print("buffer", np.fromfile("buffer", dtype="u1"))

# many files that are written through memory
for i in range(700):
    memory = np.memmap(f"features_{i}", dtype="u1", mode="w+", shape=(4,))
    memory[:] = i % 256
    del memory
print("features", np.fromfile("features_699", dtype="u1"), np.fromfile("features_0", dtype="u1"))

# temporary folders of each rank's own
kept = tempfile.mkdtemp()
for _ in range(2):
    folder = tempfile.mkdtemp(prefix="run_")
    put(folder + "/log", "1")
    print("folder", read(folder + "/log"))
    shutil.rmtree(folder)
for i in range(60):  # some are drawn without a digit
    folder = tempfile.mkdtemp(prefix="exp")
    put("state", str(i))
    os.rmdir(folder)
os.rmdir(kept)

# a lock that is given up where its file has lost its name, as filelock does
with open("cache.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("lock", os.fstat(lock.fileno()).st_nlink, os.stat("cache.lock").st_nlink)
    extended = ctypes.create_string_buffer(256)
    print("as statx", libc.statx(-100, b"cache.lock", 0, 4, extended), int.from_bytes(extended[16:20], "little"))

# a link in a folder that is named by the process
own = f"runs_{os.getpid()}"
os.mkdir(own)
os.symlink("last.pt", own + "/latest")
print("read link", os.readlink(own + "/latest"), os.path.realpath(own + "/latest").endswith("last.pt"))
os.remove(own + "/latest")
os.rmdir(own)

# a file that has no name, by its descriptor
with tempfile.TemporaryFile() as nameless:
    torch.save({"weight": torch.ones(3)}, f"/dev/fd/{nameless.fileno()}")
    nameless.seek(0)
    print("nameless", torch.load(nameless))
    put(f"/proc/self/fd/{nameless.fileno()}", "nameless")
    nameless.seek(0)
    print(nameless.read(), [name for name in os.listdir(".") if "deleted" in name])

# two handles of a file that is removed and made anew
one, other = open("twice", "a"), open("twice", "a")
os.remove("twice")
print("removed", os.path.exists("twice"))
put("twice", "anew")
other.write("lost")
other.close()
one.close()
print("anew", read("twice"))

# a link to a file that is being written
log = open("run.log", "w")
log.write("A\n")
log.flush()
os.symlink("run.log", "latest.log")
print("link", read("latest.log"))
for name in "run.log", "latest.log":
    try:
        print("itself", os.read(os.open(name, os.O_RDONLY | os.O_NOFOLLOW), 9))
    except OSError as error:
        print("itself", error.strerror)
put("latest.log", "B\n", "a")
log.close()
print("link", read("run.log").split())

# a log that is open beside very many other files, whose end comes later on rank 0
log = open("long", "w")
for i in range(1200):
    put("short", "x\n")
log.write("x" * 500000)
time.sleep(0.3 * (rank == 0))
log.close()
print("long", len(read("long")))

# the end of a file in a thread, while rank 0's main thread waits for the others already
late = open("late", "w")


def end():
    time.sleep(1.0 * (rank == 0))
    late.write("whole")
    late.close()


thread = threading.Thread(target=end)
thread.start()
time.sleep(0.3 * (rank != 0))
train()
thread.join()
print("late", read("late"))


# the same in the main thread, while another one of rank 0's waits for the others already
def learn():
    time.sleep(0.8 * (rank != 0))
    train()


for turn in range(2):
    thread = threading.Thread(target=learn)
    latest = open("latest", "w" if turn else "x")
    thread.start()
    time.sleep(0.3 if rank else 1.2)
    latest.write(f"whole {turn}")
    latest.close()
    print("latest", read("latest"))
    thread.join()
