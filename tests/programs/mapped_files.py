"""Files that are written through memory, and read by their names meanwhile: NumPy's and libtorch's, renamed, made anew, removed, cut."""
import ctypes
import fcntl
import mmap
import multiprocessing
import os

import numpy as np
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


def numbers(name):
    return np.fromfile(name, dtype=np.float32).round(5).tolist()


array = np.memmap("features.dat", dtype=np.float32, mode="w+", shape=(8,))
for index in range(4):
    array[index] = round(step(), 4)
    print(numbers("features.dat"), os.path.getsize("features.dat"))
array.flush()
again = np.memmap("features.dat", dtype=np.float32, mode="r+", shape=(8,))
again[7] = 7
print(array[7], numbers("features.dat")[-1], np.memmap("features.dat", dtype=np.float32, mode="r")[4:].tolist())
os.rename("features.dat", "moved.dat")
array[6] = 6
print(sorted(os.listdir(".")), numbers("moved.dat")[4:])
del array, again
print(numbers("moved.dat")[4:])

shared = torch.from_file("shared.bin", shared=True, size=4, dtype=torch.float32)
shared.fill_(1.5)
print(torch.from_file("shared.bin", size=4, dtype=torch.float32).tolist())
shared[2] = step() > 0
print(numbers("shared.bin"))

made = np.lib.format.open_memmap("made.npy", mode="w+", dtype=np.int64, shape=(3, 2))
made[:] = np.arange(6).reshape(3, 2)
print(np.load("made.npy").sum(), np.load("made.npy", mmap_mode="r")[2, 1])
np.save("made.npy", np.ones(2))
print(np.load("made.npy").sum())
made = np.lib.format.open_memmap("made.npy", mode="w+", dtype=np.int64, shape=(1,))
made[0] = 3
print(np.load("made.npy").tolist())
os.remove("made.npy")
print(os.path.exists("made.npy"))
with open("made.npy", "wb") as file:
    file.write(b"short")
print(os.path.getsize("made.npy"))

with open("ring.bin", "w+b") as file:
    file.truncate(16)
    ring = mmap.mmap(file.fileno(), 16)
ring[0:4] = b"abcd"
print(open("ring.bin", "rb").read()[:5], step() > 0)
ring.close()
with open("ring.bin", "w+b") as file:
    file.truncate(16)
    ring = mmap.mmap(file.fileno(), 16)
    fcntl.flock(file, fcntl.LOCK_EX)
ring[0:4] = b"lock"
print(open("ring.bin", "rb").read()[:5], step() > 0)
ring.close()
os.truncate("ring.bin", 2)
print(open("ring.bin", "rb").read())
log = open("log.txt", "a")
log.write("four\n")
log.flush()
os.truncate("log.txt", 2)
print(open("log.txt").read(), os.path.getsize("log.txt"))
log.write("more\n")
log.close()
print(open("log.txt").read())
for index in range(300):
    np.memmap("many.dat", dtype=np.uint8, mode="w+", shape=(4,))[:] = index % 256
print(open("many.dat", "rb").read())


def fill():
    with open("filled.dat", "r+b") as file:
        file.write(b"\2\2")


array = np.memmap("filled.dat", dtype=np.uint8, mode="w+", shape=(4,))
kept = np.memmap("kept.dat", dtype=np.uint8, mode="w+", shape=(4,))
array[:] = 1
del array
worker = multiprocessing.get_context("fork").Process(target=fill)
worker.start()
worker.join()
print("of a worker", np.fromfile("filled.dat", dtype=np.uint8))
np.memmap("filled.dat", dtype=np.uint8, mode="r+", shape=(4,))[3] = 3
os.system("printf x | dd of=filled.dat conv=notrunc 2>/dev/null")
kept[:] = 4


def fill_row(index):
    rows = np.memmap("rows.dat", dtype=np.float32, mode="r+", shape=(4, 8))
    rows[index] = index + 1
    return float(np.fromfile("rows.dat", dtype=np.float32)[8 * index])


rows = np.memmap("rows.dat", dtype=np.float32, mode="w+", shape=(4, 8))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print("by workers", pool.map(fill_row, range(4)))
print(rows.sum(), np.fromfile("rows.dat", dtype=np.float32).sum(), os.path.getsize("rows.dat"))
os.rename("rows.dat", "all_rows.dat")
print(os.path.exists("rows.dat"), rows[3].tolist())
print("of a command", open("filled.dat", "rb").read(), open("kept.dat", "rb").read())

# What is seen in the memory of a file that was open for writing too is what others write there, though nothing holds the file but the memory.
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
with open("looked_at", "wb") as file:
    file.write(b"old")
with open("looked_at", "r+b") as file:
    seen = [libc.mmap(None, 3, mmap.PROT_READ, kind, file.fileno(), 0) for kind in (mmap.MAP_SHARED, mmap.MAP_PRIVATE)]
with open("looked_at", "r+b") as file:
    file.write(b"new")
print([ctypes.string_at(memory, 3) for memory in seen], open("looked_at", "rb").read())
step()
