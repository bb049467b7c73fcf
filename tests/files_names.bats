#!/usr/bin/env bats
# Files under names that differ between the ranks, by a process number or the time: what each rank finds, and does, by one or the other.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers
load files

@test "a program that stands in a folder named by its process number finds it by that name beside the others: it keeps its own run, and removes the rest" {
    program '
import pathlib, shutil
for name, text in ("0001", "first"), ("0002", "second"), (f"{os.getpid():09}", "own"):
    os.makedirs(f"runs/{name}")
    open(f"runs/{name}/text", "w").write(text)
before = os.getcwd()
os.chdir(f"runs/{os.getpid():09}")
here = pathlib.Path.cwd()
others = sorted(path for path in here.parent.iterdir() if path != here)
print(here in here.parent.iterdir(), [path.name for path in others], here == max(here.parent.iterdir()), os.path.basename(os.getcwd()) in os.listdir(".."))
print(sorted(path.read_text() for path in here.parent.glob("*/text")), [path.relative_to(here) for path in here.parent.rglob("t*") if path.parent == here])
for path in here.parent.iterdir():
    if path != pathlib.Path(".").resolve():
        shutil.rmtree(path)
print(os.listdir(), open("text").read(), len(os.listdir("..")), os.path.exists(f"{before}/runs/{os.getpid():09}/text"))
os.chdir(before)
print(os.listdir("runs") == [f"{os.getpid():09}"])
shutil.rmtree("runs")'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "an open log that is named by the process number is read back through links, and by the names of a listing, as it has been written" {
    program '
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
own = f"{os.getpid()}\n" # as long as the log is open each rank reads its own
log = open(f"run_{os.getpid()}.log", "a")
log.write(own)
log.flush()
for link in "latest.log", f"latest_{os.getpid()}.log":
    os.symlink(log.name, link)
    print(os.path.getsize(link) == len(own), open(link).read() == own, os.stat(link).st_size == len(own), os.path.islink(link))
    os.remove(link)
    print(os.path.getsize(log.name) == len(own), open(log.name).read() == own) # the link alone is gone
log.close()
print(len(open(log.name).read().split()))
os.remove(log.name)
os.mkdir("runs")
for name in "run_9998", "run_99995":
    open(f"runs/{name}", "w").close()
with open(f"runs/run_{9999 + rank}", "w") as log: # among the others it has the name that rank 0 has given
    log.write(own)
    log.flush()
    print(sum(open(f"runs/{name}").read() == own for name in os.listdir("runs")), sum(os.path.getsize(f"runs/{name}") for name in os.listdir("runs")) == len(own))
os.remove(log.name)'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a named pipe and a folder with the process number in their names, opened for writing, are what they are on all ranks" {
    program '
pipe, folder = f"pipe_{os.getpid()}", f"folder_{os.getpid()}"
os.mkfifo(pipe)
os.mkdir(folder)
for path in pipe, folder:
    try:
        os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        print(error.strerror)
open("log", "w").write("written")
print(open("log").read())
os.unlink(pipe)
os.rmdir(folder)'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a file without a name gets one by its descriptor, whose number is another one on each rank and goes on leading to what is there" {
    program '
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
spare = [os.open("/dev/null", os.O_RDONLY) for _ in range(rank)]
files = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(4)]
for turn, file in enumerate(files):
    os.write(file, (name := f"file_{turn}").encode())
    link = lambda: os.link(f"/proc/self/fd/{file}", name, src_dir_fd=0) # follows links
    thread = threading.Thread(target=link)
    thread.start() if turn == 3 else link()
    turn == 3 and thread.join()
    print(name, open(f"/proc/self/fd/{file}").read(), open(name).read())
print([open(f"/proc/self/fd/{file}").read() for file in files], sorted(os.listdir()))'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "below a descriptor of a folder whose path is too long nothing is taken for what has that name elsewhere" {
    program '
import shutil
top = os.getcwd()
for name in "here", "there":
    open(name, "w").write(name)
folder, length = os.open(".", os.O_RDONLY), len(top)
def enter(name):
    global folder
    os.mkdir(name, dir_fd=folder)
    folder = os.open(name, os.O_RDONLY, dir_fd=folder)
def tried(what, *arguments, **below):
    try:
        print(what.__name__, arguments, what(*arguments, **below))
    except OSError as error:
        print(what.__name__, arguments, error.errno)
def write(name, flags=os.O_TRUNC):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | flags, dir_fd=folder))
while length < 3900:
    enter("d" * 150)
    length += 151
for name in "f" * 200, "d" * 200:
    if "ACCEL_RUN_RANK" in os.environ:
        tried(write, name)
    else: # as one process it could
        print("write", (name,), 36)
    enter("sub" + name[3:])
    tried(os.listdir, folder)
if "ACCEL_RUN_RANK" in os.environ:
    tried(write, "here")
    tried(write, "there", os.O_EXCL)
else:
    print("write", ("here",), 36)
    print("write", ("there", os.O_EXCL), 36)
tried(os.mkdir, "new", dir_fd=folder)
tried(os.unlink, "here", dir_fd=folder)
tried(os.rename, "new", "old", src_dir_fd=folder, dst_dir_fd=folder)
tried(os.stat, "there", dir_fd=folder)
tried(os.listdir, folder)
tried(os.rmdir, "old", dir_fd=folder)
shutil.rmtree("d" * 150)
print(open("here").read(), open("there").read(), os.listdir())
train()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a file that is opened for changes begins with what it holds, also where rank 0 calls it as this rank calls another one" {
    program '
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
names = {number: f"ck_{number - rank}" for number in (60, 61, 62)}
for number, name in names.items():
    open(name, "w").write(str(number))
for mode in "r+", "a+":
    for name in names.values():
        with open(name, mode) as file:
            file.seek(0)
            print(mode, file.read(), file.write("."))
print([open(name).read() for name in names.values()])
for name in names.values():
    os.remove(name)'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a log that is open in the folder of a run is looked at by its bare name, though rank 0 calls that folder as this rank calls another one, whose log is open, too" {
    program '
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
runs = [f"run_{number + rank}" for number in (100, 101)]
os.mkdir(runs[0])
first = open(f"{runs[0]}/log", "w")
first.write("the first run")
first.flush()
os.mkdir(runs[1])
os.chdir(runs[1])
with open("log", "w") as second:
    second.write("the next")
    second.flush()
    os.utime("log", (1e9, 1e9))
    os.symlink("log", "latest")
    print(os.path.getsize("log"), open("log").read(), os.path.getmtime("log"), os.readlink("latest"), os.stat("latest").st_size)
    print(open(f"../{runs[0]}/log").read(), os.path.getmtime(f"../{runs[0]}/log") == 1e9)
first.close()
os.chdir("..")
print([open(f"{run}/log").read() for run in runs])'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "from within the folder of a run, and by its descriptor, a rank finds what is in it, also where its name is what another rank calls the next run" {
    program '
import shutil
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
def text_of(path, folder=None):
    with open(path, opener=lambda path, flags: os.open(path, flags, dir_fd=folder)) as file:
        return file.read()
runs = {number: f"runs/{number - rank}" for number in (60, 61, 62)}
for number, run in runs.items():
    os.path.isdir("runs") or os.mkdir("runs")
    os.mkdir(run)
    os.mkdir(f"{run}/sub")
    for name in "metrics", f"log_{os.getpid()}", "sub/x", "sub/" + "y" * (number - 59):
        with open(f"{run}/{name}", "w") as file:
            file.write(f"{name[:4]} {number}")
before = os.getcwd()
for number, run in runs.items():
    os.chdir(run)
    print(text_of("metrics"), text_of(f"log_{os.getpid()}"), text_of("sub/x"), text_of("./sub/../metrics"), os.path.getsize("metrics"))
    print(sorted(os.listdir("sub")), f"log_{os.getpid()}" in os.listdir(), len(os.listdir()), [text_of(f"../../{run}/metrics") for run in runs.values()])
    with open("metrics", "a+") as file:
        file.seek(0)
        print(file.read())
        file.write(" and more")
        file.flush()
        print(text_of("metrics"), text_of(f"{before}/{run}/metrics"), os.path.getsize("../" + os.path.basename(run) + "/metrics"))
    open(f"within_{os.getpid()}", "w").write(str(number))
    print(text_of("metrics"), text_of(f"within_{os.getpid()}"), os.path.exists(f"within_{os.getpid()}"))
    os.chdir(before)
    print([text_of(f"{run}/metrics") for run in runs.values()], text_of(f"{run}/within_{os.getpid()}"))
for number, run in runs.items():
    folder = os.open(run, os.O_RDONLY)
    print(text_of("metrics", folder), text_of(f"log_{os.getpid()}", folder), text_of("sub/x", folder), len(os.listdir(folder)), f"log_{os.getpid()}" in os.listdir(folder))
    with open("metrics", "r+", opener=lambda path, flags: os.open(path, flags, dir_fd=folder)) as file:
        print(file.read(), file.write("."))
    os.rename("metrics", f"renamed_{os.getpid()}", src_dir_fd=folder, dst_dir_fd=folder)
    print(text_of(f"renamed_{os.getpid()}", folder), text_of(f"{run}/renamed_{os.getpid()}"), os.path.exists(f"{run}/metrics"))
    os.close(folder)
for number in 60, 61:
    shutil.rmtree(runs[number])
    print([os.path.exists(run) for run in runs.values()], os.listdir("runs") == [os.path.basename(runs[62])], text_of(f"{runs[62]}/sub/x"))
shutil.rmtree("runs")'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "paths are in the order of the first process, too, where names are the beginnings of others" {
    program '
import glob, shutil
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
for name in "run_60", "run_60-1" if rank == 0 else f"run_60_{rank}": # behind a slash the one comes first, the other last
    os.makedirs(f"runs/{name}")
    with open(f"runs/{name}/ck", "w") as file:
        file.write("first" if name == "run_60" else "second")
print([open(path).read() for path in sorted(glob.glob("runs/*/ck"))], [open(f"runs/{name}/ck").read() for name in sorted(os.listdir("runs"))])
os.remove(sorted(glob.glob("runs/*/ck"))[0])
print([open(path).read() for path in glob.glob("runs/*/ck")])
shutil.rmtree("runs")'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "where a name may be that of two files, the rank that reads the one which it has made says so; where it cannot, nothing is said" {
    program '
rank = int(os.environ.get("ACCEL_RUN_RANK", "0"))
apart = int(sys.argv[1])
for number in 60, 61:
    with open(f"ck_{number - apart * rank}", "w") as file:
        file.write(str(number))
print([open(f"ck_{number - apart * rank}").read() for number in (60, 61)])
for number in 60, 61:
    os.remove(f"ck_{number - apart * rank}")'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" 100
    lacks "$(cat "$RANKS.err")" AR-FILE-NAMES
    rm -rf "$PLAIN" "$RANKS" "$LOG"
    mkdir "$PLAIN" "$RANKS"
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" 1
    contains "$(cat "$RANKS.err")" "AR-FILE-NAMES: rank 1 reads"
    contains "$(cat "$RANKS.err")" "by the name 'ck_60'"
}

@test "in a folder that is named by the process number a log is one file by its relative and its whole name, and what leads to it is not the log" {
    program '
run = f"run_{os.getpid()}"
os.makedirs(run)
os.chdir(run)
own = f"{os.getpid()}\n" # as long as the log is open each rank reads its own
log = open(os.path.abspath("train.log"), "a")
log.write(own)
log.flush()
os.symlink("train.log", "latest.log")
os.remove("latest.log")
print(os.path.getsize("train.log") == len(own), open("train.log").read() == own)
os.symlink("train.log", "latest.tmp")
os.replace("latest.tmp", "latest.log")
for name in "train.log", "latest.log":
    with open(name, "a") as file:
        file.write("relative\n")
        print(file.tell() - len(own))
print(open("train.log").read() == own + 2 * "relative\n", open(log.name).read() == own + 2 * "relative\n")
log.close()
print(len(open("latest.log").read().split()), sorted(os.listdir(".")))
os.chdir("..")
import shutil
shutil.rmtree(run)'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}
