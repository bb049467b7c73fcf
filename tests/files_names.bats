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
