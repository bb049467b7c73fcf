"""Files that are looked at, moved and changed while they are open, and what is decided by that: python open_files.py"""
import os
import threading

import torch

torch.manual_seed(1)
model = torch.nn.Linear(4, 3)


def train(rows):
    loss = model(torch.randn(rows, 4)).pow(2).mean()
    loss.backward()
    return loss.item()


def lines_of(path):
    with open(path, encoding="ascii") as file:
        return file.readlines()


# a log of an earlier run is added to, and read while it is open
with open("train.log", "w", encoding="ascii") as file:
    file.write("epoch 0\nepoch 1\n")
log = open("train.log", "a", encoding="ascii")
log.write("epoch 2\n")
print("before it is flushed:", lines_of("train.log"))
log.flush()
print("after:", lines_of("train.log"))
train(8 + len(lines_of("train.log")))
other = open("train.log", "a", encoding="ascii")
other.write("from another handle\n")
other.close()
log.write("epoch 3\n")
log.close()
print("closed:", lines_of("train.log"))

# one that is written in place
descriptor = os.open("train.log", os.O_WRONLY)
os.write(descriptor, b"EPOCH")
print("in place:", lines_of("train.log"))
os.close(descriptor)

# a folder moves while a file in it is open
os.makedirs("checkpoint.tmp/deep")
inside = open("checkpoint.tmp/deep/log.txt", "w", encoding="ascii")
inside.write("saving\n")
inside.flush()
os.rename("checkpoint.tmp", "checkpoint")
print("moved:", os.listdir("checkpoint/deep"), lines_of("checkpoint/deep/log.txt"))
inside.write("saved\n")
inside.close()
print("closed:", lines_of("checkpoint/deep/log.txt"))
try:
    with open("checkpoint/deep/more.txt", "w", encoding="ascii"):
        os.rmdir("checkpoint/deep")
except OSError as error:
    print("not empty:", error.strerror)

# attributes, of a file that is open, and by the way: who has not looked yet sees the old ones
changed = open("changed", "w", encoding="ascii")
changed.write("text")
os.chmod("changed", 0o640)
os.utime("changed", (10**9, 10**9))
try:
    os.chown("changed", os.getuid(), os.getgid())
    os.setxattr("changed", "user.key", b"value")
    print(os.getxattr("changed", "user.key"), os.listxattr("changed"))
except OSError as error:
    print("attributes:", error.strerror)
print(oct(os.stat("changed").st_mode), os.stat("changed").st_mtime)
changed.close()
with open("changed", "w", encoding="ascii") as file:
    file.write("again")
try:
    print(os.getxattr("changed", "user.key"))
except OSError as error:
    print("attributes:", error.strerror)
print(oct(os.stat("changed").st_mode))
seen = []
for turn in range(100):
    status = os.stat("changed")
    seen.append((status.st_mode & 0o7, status.st_mtime))
    os.chmod("changed", 0o640 + turn % 8)
    os.utime("changed", (turn, turn))
print(seen[1:])


# opened here, written and closed by a thread, read here again
def write(file, count):
    file.write("line\n" * count)
    file.close()


for count in range(1, 60):
    thread = threading.Thread(target=write, args=(open("result.txt", "w", encoding="ascii"), count))
    thread.start()
    thread.join()
    assert len(lines_of("result.txt")) == count
print(f"loss: {train(9):.4f}")
