"""Files by names that differ between processes, as listings show them: python listed_names.py"""
import ctypes
import datetime
import glob
import os
import pathlib
import shutil
import subprocess
import threading
import time

import torch

torch.manual_seed(1)
model = torch.nn.Linear(4, 3)
data = torch.randn(8, 4)
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))  # for names that differ in a known way


def train():
    loss = model(data).pow(2).mean()
    loss.backward()
    return loss.item()


def write(path, text=""):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def text_of(path):
    with open(path, encoding="ascii") as file:
        return file.read()


train()

# the best checkpoint is kept, by the name that the program has given it; the others go
best, best_loss = None, 9e9
for step in range(4):
    loss = abs(step - 2) + train()
    name = f"ck_{step}_{datetime.datetime.now():%H%M%S%f}.pt"
    torch.save(model.state_dict(), name)
    if loss < best_loss:
        best, best_loss = name, loss
    for path in glob.glob("ck_*.pt"):
        if path != best:
            os.remove(path)
    print("kept:", [path == best for path in glob.glob("*.pt")], best[:4])
os.remove(best)

def leads_to_same(path, other):
    return (os.path.realpath(path) == os.path.realpath(other) and pathlib.Path(path).resolve() == pathlib.Path(other).resolve()
            and libc.realpath(path.encode(), ctypes.create_string_buffer(4096)) == libc.realpath(other.encode(), ctypes.create_string_buffer(4096)))


# what a link leads to is kept, whichever way the program asks for it
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
libc.realpath.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
ways = {
    "resolve": lambda path: pathlib.Path(path).resolve(),
    "realpath": os.path.realpath,
    "C's realpath": lambda path: libc.realpath(path.encode(), ctypes.create_string_buffer(4096)),
    "text": lambda path: os.readlink(path) if os.path.islink(path) else path,
}
for way, leads_to in ways.items():
    for step in range(3):
        name = f"ck_{time.time_ns()}.pt"
        write(name, str(step))
        if os.path.lexists("latest"):
            os.remove("latest")
        os.symlink(name, "latest")
        for path in glob.glob("ck_*.pt"):
            if leads_to(path) != leads_to("latest"):
                os.remove(path)
        print(f"kept by {way}:", [text_of(path) for path in glob.glob("ck_*")], os.readlink("latest") == name)
room = ctypes.create_string_buffer(5)
print("as much as there is room for:", libc.readlink(b"latest", room, 5), room.raw == name[:5].encode())
os.remove("latest")
os.remove(name)

# a folder of the run, in every way to list it
run = f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S}-{time.time_ns()}"
os.makedirs(run)
for number in range(300):
    write(f"{run}/{number:03}_{time.time_ns()}.txt", str(number))
base = os.path.basename(run)
print("run:", os.listdir("runs") == [base], glob.glob("runs/*") == [run], list(pathlib.Path("runs").iterdir()) == [pathlib.Path(run)],
      max(glob.glob("runs/*"), key=os.path.getmtime) == run, [entry.path for entry in os.scandir("runs")] == [run])
print("in it:", [text_of(path) for path in sorted(glob.glob(run + "/*"))] == [str(number) for number in range(300)])
write(f"{run}/last_{os.getpid()}", "whole")
os.symlink(run, "latest")
name = f"latest/linked_{time.time_ns()}"
write(name)
descriptor = os.open("latest", os.O_RDONLY)
linked = os.path.basename(name)
print("by a link:", linked in os.listdir("latest"), linked in os.listdir(run), linked in os.listdir(descriptor), name in glob.glob("latest/l*_*"),
      os.path.realpath(name) == os.path.abspath(f"{run}/{linked}"), os.readlink(f"/proc/self/fd/{descriptor}") == os.path.abspath(run))
os.close(descriptor)
before = os.getcwd()
os.chdir(run)
name = f"here_{time.time_ns()}"
write(name)
print("from within:", name in os.listdir(), name in os.listdir(os.getcwd()), name in os.listdir(before + "/" + run), os.path.exists(name))
print("where it stands:", os.path.exists(os.path.abspath(name)), name in os.listdir(os.path.abspath(".")))
for text in name, os.path.abspath(name), f"../{base}/{name}":
    os.symlink(text, "latest")
    print("kept there:", [path for path in glob.glob("here_*") if leads_to_same(path, "latest")] == [name], text_of("latest"))
    os.remove("latest")
visitor = subprocess.Popen(["sh", "-c", "read folder && cd \"$folder\""], stdin=subprocess.PIPE)
visitor.communicate(os.getcwdb() + b"\n")
print("another process goes there:", visitor.returncode)
os.chdir(before)
child = os.fork()
if not child:
    os._exit(not os.path.exists(f"{run}/{sorted(os.listdir(run))[0]}"))
print("in a child:", os.waitpid(child, 0)[1])

# what a thread beside the training puts in its place, in the folder of the run and under a name of its own
def save(number):
    torch.save(model.state_dict(), f"{run}/ck.tmp")
    os.replace(f"{run}/ck.tmp", f"{run}/ck.pt")
    write(f"{run}/part", str(number))
    os.rename(f"{run}/part", f"{run}/part_{os.getpid()}_{number}")
    os.link(f"{run}/part_{os.getpid()}_{number}", f"{run}/same_{os.getpid()}_{number}")


for number in range(2):
    thread = threading.Thread(target=save, args=(number,))
    thread.start()
    train()
    thread.join()
    print("by a thread:", os.path.exists(f"{run}/ck.pt"), len(torch.load(f"{run}/ck.pt")), text_of(f"{run}/part_{os.getpid()}_{number}"),
          [f"{run}/{name}_{os.getpid()}_{number}" in glob.glob(f"{run}/*_*_{number}") for name in ("part", "same")], os.path.exists(f"{run}/part"))

# a folder that is reached by a link, too: what is made by the one name is found by the other
os.mkdir("real")
os.symlink("real", "link")
within = f"run_{time.time_ns()}"
os.mkdir(f"real/{within}")
for one, other in (("real", "link"), ("link", "real")):
    for folder in "", within:
        name = os.path.join(folder, f"from_{one}_{time.time_ns()}")
        write(f"{one}/{name}", "whole")
        print("by the other name:", os.path.exists(f"{other}/{name}"), text_of(f"{other}/{name}"), os.path.basename(name) in os.listdir(f"{other}/{folder}"),
              f"{other}/{name}" in glob.glob(f"{other}/{folder}*/*" if folder else f"{other}/*"), os.path.realpath(f"link/{name}") == os.path.abspath(f"real/{name}"))
for name in f"second_{rank}", f"second_{2 * rank}":  # one for the first process
    write(f"real/{within}/{name}", "whole")
for one, other in (f"real/{within}", f"real/{within}"), (f"link/{within}", f"real/{within}"), ("real", "link/../real"):
    os.replace(one, other)
    print("renamed to itself:", text_of(f"real/{within}/{name}"), name in os.listdir(f"link/{within}"))
os.chdir("real")
name = f"here_{time.time_ns()}"
write(name)
os.chdir(before)
print("from within:", os.path.exists(f"link/{name}"), name in os.listdir("link"))
os.remove("link")
shutil.rmtree("real")

# a folder that is filled under a name of its own, and renamed when it is whole, one of a thread's, too; and renamed once more
def fill(folder, final):
    os.makedirs(f"{folder}/deep_{os.getpid()}")
    for name in names:
        write(f"{folder}/{name}", name[:4])
    os.rename(folder, final)


names = [f"{folder}ck_{time.time_ns()}" for folder in ("", f"deep_{os.getpid()}/")]
for final in "final", f"final_{time.time_ns()}":
    fill(f"tmp-{os.getpid()}", final)
    print("renamed with its folder:", [text_of(f"{final}/{name}") for name in names], names[0] in os.listdir(final), f"{final}/{names[1]}" in glob.glob(f"{final}/*/*"))
# the folder is filled anew each time: what has gone with it is not there again, what is made again is
for step in range(3):
    os.mkdir("filling")
    for name in f"part_{os.getpid()}", f"step_{step}_{time.time_ns()}":
        write(f"filling/{name}", str(step))
    os.rename("filling", f"step_{step}")
    print("filled:", text_of(f"step_{step}/part_{os.getpid()}"), sorted(os.listdir(f"step_{step}")) == [f"part_{os.getpid()}", name], text_of(f"step_{step}/{name}"))
for step in range(3):
    shutil.rmtree(f"step_{step}")
thread = threading.Thread(target=fill, args=(f"tmp-{os.getpid()}", "by_thread"))
thread.start()
thread.join()
print("by a thread:", [text_of(f"by_thread/{name}") for name in names], names[0] in os.listdir("by_thread"))
os.rename("by_thread", f"again_{os.getpid()}")
print("again:", [text_of(f"again_{os.getpid()}/{name}") for name in names], os.path.exists(f"by_thread/{names[0]}"))
for path in "final", final, f"again_{os.getpid()}":
    shutil.rmtree(path)

# C's listings
class Entry(ctypes.Structure):
    _fields_ = [("inode", ctypes.c_long), ("next", ctypes.c_long), ("bytes", ctypes.c_ushort), ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]


class Glob(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)), ("offset", ctypes.c_size_t), ("flags", ctypes.c_int),
                ("functions", ctypes.c_void_p * 5)]


libc.readdir.restype = ctypes.POINTER(Entry)
libc.opendir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
libc.telldir.argtypes = libc.closedir.argtypes = libc.readdir.argtypes = libc.rewinddir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
libc.readdir_r.argtypes = [ctypes.c_void_p, ctypes.POINTER(Entry), ctypes.POINTER(ctypes.POINTER(Entry))]


def read(stream):
    entry = libc.readdir(stream)
    return entry.contents.name.decode() if entry else None


found, names, result = Glob(), ctypes.POINTER(ctypes.POINTER(Entry))(), ctypes.POINTER(Entry)()
libc.glob(f"{run[:6]}*/1*_*.txt".encode(), 0, None, ctypes.byref(found))
print("glob:", [found.paths[i].decode() for i in range(found.count)] == sorted(glob.glob(f"{run}/1*")), found.count, found.flags)
libc.globfree(ctypes.byref(found))
count = libc.scandir(run.encode(), ctypes.byref(names), None, libc.alphasort)
print("scandir:", [names[i].contents.name.decode() for i in range(count)] == [".", ".."] + sorted(os.listdir(run)), count,
      libc.scandir(b"nothing", ctypes.byref(names), None, libc.alphasort))
stream = libc.opendir(run.encode())
first, place, second = read(stream), libc.telldir(stream), read(stream)
read(stream)
libc.seekdir(stream, place)
again = read(stream)
libc.rewinddir(stream)
print("again:", again == second, read(stream) == first)
memory = ctypes.create_string_buffer(b"\xff" * 280, 280)  # 275 bytes are enough, POSIX says
libc.readdir_r(stream, ctypes.cast(memory, ctypes.POINTER(Entry)), ctypes.byref(result))
print("into memory of the program's:", Entry.from_buffer(memory).name.decode() == second, bool(result), memory.raw[275:])
libc.closedir(stream)
libc.malloc_usable_size.restype = ctypes.c_size_t
print("no longer than its memory:", all(names[i].contents.bytes <= libc.malloc_usable_size(names[i]) for i in range(count)))
os.mkdir("fresh")
stream = libc.opendir(b"fresh")
write(f"fresh/{base}")
libc.rewinddir(stream)
print("begun again:", sorted(read(stream) for _ in range(3)) == [".", "..", base])
libc.closedir(stream)
shutil.rmtree("fresh")

# commands, and children, find what the program and its listings call by these names
names = sorted(glob.glob(f"{run}/00[12]_*"))
subprocess.run(["cp", *names, "."], check=True)
print("copied:", [text_of(path) for path in sorted(glob.glob("00*"))])
for path in glob.glob("00*"):
    os.remove(path)
print("told:", os.system(f"cat ./{names[0]} >copied"), text_of("copied"), subprocess.run(["test", "-s"] + names[:1], check=True).returncode)
print("children:", os.popen(f"cat {names[1]} '{run}/../{base}/last_{os.getpid()}'").read(),
      subprocess.Popen(["cat", names[0]], stdout=subprocess.PIPE).communicate()[0])

# in other folders than the one that the program stands in; many of them; a program
inner = [os.path.basename(path) for path in names]
last = f"last_{os.getpid()}"
subprocess.run(["tar", "cf", "whole.tar", "-C", run, *inner], check=True)
print("elsewhere:", sorted(subprocess.check_output(["tar", "tf", "whole.tar"]).split()) == sorted(subprocess.check_output(["ls", *inner], cwd=run).split()),
      subprocess.check_output(["cat", *inner], cwd=run), os.system(f"cd {run} && cat {last} >../../copied"), text_of("copied"),
      os.popen(f"cd runs; cat {base}/{last}").read(), subprocess.Popen(["cat", last], cwd=run, stdout=subprocess.PIPE).communicate()[0])
many = sorted(glob.glob(f"{run}/*_*.txt"))
print("many:", len(many), len(subprocess.Popen(["cat", *many], stdout=subprocess.PIPE).communicate()[0]))
tool = f"{run}/tool_{os.getpid()}"
write(tool, "#!/bin/sh\n[ $# != 0 ] || exit 3\necho ran $1\n")
os.chmod(tool, 0o755)
print("a program:", subprocess.Popen([tool, "by fork"], stdout=subprocess.PIPE).communicate()[0], os.waitpid(os.posix_spawn(tool, [tool], {}), 0)[1],
      os.waitpid(os.spawnvp(os.P_NOWAIT, tool, [tool]), 0)[1], subprocess.check_output([os.path.abspath(tool), "once"]))
os.remove("whole.tar")
os.remove("latest")
shutil.rmtree(run)
print("removed:", os.listdir("runs"))

# what this process calls by one name may be what the first one calls by the next
for number in range(3):
    write(f"runs/ck_{1704 + number + rank}", str(number))
print("names that are a second ahead:", [text_of(path) for path in sorted(glob.glob("runs/*"))])
for path in sorted(glob.glob("runs/*"))[:-1]:
    os.remove(path)
print("the last is kept:", [text_of(path) for path in glob.glob("runs/*")])
shutil.rmtree("runs")

# among others the order is that of the first process
os.mkdir("runs")
for name in "run_9998", "run_99995", f"run_{9999 + rank}":
    write(f"runs/{name}", name[:9])
print("order:", [text_of(path)[:8] for path in sorted(glob.glob("runs/*"))], sorted(os.listdir("runs")))
shutil.rmtree("runs")

# what was there before may have the letters of a name that is the first process's alone otherwise
os.system("echo old >log_1")
write(f"log_{rank}", "new")
print("from before:", text_of(f"log_{rank}"), sorted(text_of(path)[:3] for path in glob.glob("log_*")), len(set(os.listdir())) == len(os.listdir()))
os.system("rm log_*")

# a folder, too: in the new one the program finds what it has made, from within
os.system("mkdir job_1; echo old >job_1/c.txt")
os.makedirs(f"job_{rank}", exist_ok=True)
write(f"job_{rank}/c.txt", "new")
os.chdir(f"job_{rank}")
print("from within:", text_of("c.txt"), os.listdir(), text_of(os.path.abspath("c.txt")), text_of(f"{before}/job_{rank}/c.txt"))
os.chdir(before)
os.system("rm -r job_*")

# one that was removed, and is made anew under a name that is the same everywhere
write(f"state_{rank}", "old")
os.remove(f"state_{rank}")
write("state_0", "new")
print("made anew:", glob.glob("state_*"), text_of("state_0"))
print(f"{train():.4f}")
