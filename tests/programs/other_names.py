"""Open files under their other names, streams of libc's, and what the system refuses: python other_names.py"""
import ctypes
import errno
import os
import shutil

import torch

torch.manual_seed(1)
model = torch.nn.Linear(4, 3)
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = libc.freopen.restype = ctypes.c_void_p
for function in libc.fputs, libc.fputws:
    function.argtypes = [ctypes.c_char_p if function is libc.fputs else ctypes.c_wchar_p, ctypes.c_void_p]
libc.ftell.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]


def train(rows):
    loss = model(torch.randn(rows, 4)).pow(2).mean()
    loss.backward()
    return loss.item()


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def refusal(action, *arguments, **named):
    try:
        action(*arguments, **named)
        return "none"
    except OSError as error:
        return errno.errorcode[error.errno]


# a link with another last name to the log of this run
with open("run.log", "w", encoding="ascii") as file:
    file.write("of the last run\n")
os.symlink("run.log", "latest.log")
os.mkdir("deep")
os.symlink("../latest.log", "deep/newest")
log = open("run.log", "w", encoding="ascii")
log.write("of this run\n")
log.flush()
print("link:", repr(text_of("latest.log")), repr(text_of("deep/newest")), os.path.getsize("deep/newest"), os.path.islink("latest.log"))
print(f"trains on: {train(8 + len(text_of('latest.log'))):.4f}")
log.write("more\n")
log.flush()
print("and later:", repr(text_of("deep/newest")), os.path.samefile("run.log", "latest.log"))
log.close()

# two names of one file
with open("one", "w", encoding="ascii") as file:
    file.write("begins\n")
os.link("one", "two")
log = open("one", "a", encoding="ascii")
log.write("goes on\n")
log.flush()
print("two names:", repr(text_of("two")), os.path.samefile("one", "two"), os.path.getsize("two"))
print(f"trains on: {train(8 + os.path.getsize('two')):.4f}")
with open("two", "a", encoding="ascii") as other:
    other.write("through the other\n")
print("both:", text_of("one") == text_of("two"), repr(text_of("one")))
log.close()
with open("two", "w", encoding="ascii") as file:
    file.write("both are cut\n")
print("cut:", repr(text_of("one")))

# streams: where they stand when they are opened, and in what code they are written
for attempt in range(3):
    stream = libc.fopen(b"table.csv", b"a")
    if libc.ftell(stream) == 0:
        libc.fputs(b"step,loss\n", stream)
    libc.fputs(b"%d,%d\n" % (attempt, libc.ftell(stream)), stream)
    libc.fclose(stream)
    print("table:", repr(text_of("table.csv")))
stream = libc.fopen(b"table.csv", b"a+")
print("read and added to:", libc.ftell(stream))
libc.fclose(stream)
stream = libc.fopen(b"wide.txt", b"w,ccs=UTF-8")
libc.fputws("größer\n", stream)
libc.fclose(stream)
stream = libc.fopen(b"wide.txt", b"a,ccs=UTF-8")
libc.fputws("älter\n", stream)
libc.fclose(stream)
print("wide:", repr(text_of("wide.txt")))

# under the numbers of descriptors: that of a reader, of a mere name, of one that is being added to, and of one that another handle adds to
def add(path, line):
    with open(path, "a", encoding="utf-8") as added:
        added.write(line)


with open("numbered", "w+", encoding="utf-8") as file:
    reader = os.open("numbered", os.O_RDONLY)
    add(f"/dev/fd/{reader}", "while it is open\n")
    os.close(reader)
reader, name = os.open("numbered", os.O_RDONLY), os.open("numbered", os.O_PATH)
for number in reader, name:
    for folder in "/dev/fd", "/proc/self/fd":
        add(f"{folder}/{number}", "once\n")
    os.close(number)
with open("numbered", "a", encoding="utf-8") as file:
    add(f"/proc/self/fd/{file.fileno()}", "by its number\n")
    train(4)
    print("numbered:", text_of("numbered").split())
train(4)

# a file without a name gets one by its descriptor, which the system may keep for root
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.write(unnamed, b"linked")
print("linked:", libc.linkat(unnamed, b"", AT_FDCWD, b"linked", AT_EMPTY_PATH), os.path.exists("linked"))
train(4)

# names that the system refuses, by reasons of its own; nothing is made
descriptor = os.open(".", os.O_RDONLY)
os.close(descriptor)
flags = os.O_WRONLY | os.O_CREAT
print("no folder:", refusal(os.open, "made", flags, dir_fd=descriptor), refusal(os.mkdir, "made", dir_fd=descriptor),
      refusal(os.unlink, "one", dir_fd=descriptor), refusal(os.rename, "one", "three", dst_dir_fd=descriptor))
print("no name:", refusal(os.open, "", flags), refusal(open, "", "w"), refusal(os.mkdir, ""), refusal(os.unlink, ""),
      libc.fopen(b"", b"w"), errno.errorcode[ctypes.get_errno()])

# open, and cut, renamed or removed by another name: a link, a second name on the disk, a folder by its descriptor or a link to it
def write(file, text):
    file.write(text)
    file.flush()


log = open("cut", "a", encoding="ascii")
write(log, "before\n")
os.symlink("cut", "cut.link")
os.link("cut", "cut.too")
os.truncate("cut.link", 4)
print("cut by a link:", os.path.getsize("cut"))
write(log, "after\n")
os.truncate("cut.too", 6)
print("by its other name:", repr(text_of("cut")))
log.close()
own = f"run_{os.getpid()}"
os.mkdir(own)
log = open(f"{own}/log", "w", encoding="ascii")
shutil.rmtree(own)
os.makedirs(own)
print("removed by its folder's descriptor:", os.path.exists(f"{own}/log"), os.listdir(own))
write(log, "lost")
log.close()
os.symlink(own, "latest")
log = open(f"{own}/log", "a", encoding="ascii")
write(log, "first\n")
os.rename("latest/log", "latest/old")
write(log, "second\n")
print("renamed by a link:", os.path.exists(f"{own}/log"), os.path.exists("latest/log"), os.path.getsize(f"{own}/old"), os.path.getsize("latest/old"))
os.truncate("latest/old", 3)
print("cut by that:", repr(text_of(f"{own}/old")))
os.rename(f"{own}/old", f"{own}/older")
write(log, "third\n")
print("renamed by its own:", os.path.exists("latest/old"), os.path.getsize(f"{own}/older"), os.path.getsize("latest/older"))
os.remove("latest/older")
print("removed by a link:", os.path.exists(f"{own}/older"), os.path.exists("latest/older"))
log.close()
log = open("latest/log", "a", encoding="ascii")
write(log, "first\n")
os.rename(own, "final")
write(log, "second\n")
print("its folder is renamed:", os.path.exists(f"{own}/log"), os.path.getsize("final/log"))
log.close()
os.remove("latest")

# the longest names that there are
name = "n" * 248 + ".pt"
for round_number in range(2):
    torch.save(model.state_dict(), name)
    with open("t" * 255, "w", encoding="ascii") as file:
        file.write(f"round {round_number}\n")
print("long:", repr(text_of("t" * 255)), torch.load(name)["bias"].shape)
print(sorted(os.listdir(".")))
