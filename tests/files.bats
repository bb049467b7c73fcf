#!/usr/bin/env bats
# What the program does with files happens once, and every rank sees it as one process would.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers
load files

@test "C++: logs, checkpoints kept by rotation, locks, renames, mapped files: the plain run's tree, and every rank reads what it wrote" {
    both 3 "$FILES" .
    [ ! -d "$BUILD/programs/wheel-O2" ] || {
        rm -rf "$PLAIN" "$RANKS" "$LOG"
        mkdir "$PLAIN" "$RANKS"
        both 2 "$BUILD/programs/wheel-O2/files" .
    }
}

@test "C++: glob, scandir, nftw and realpath find a file that is open, and a folder that each rank spells differently" {
    both 3 "$FILES" . list
    contains "$(cat "$RANKS.out")" "glob 1, scandir 3, nftw 2"
}

@test "C++: a thread that chooses a folder and opens the log before the first parameter is made does it once" {
    local first=$BUILD/programs/debian-O2/thread_first run
    for run in 1 2; do
        (cd "$PLAIN" && "$first") >"$PLAIN.out"
        (cd "$RANKS" && "$ACCEL_RUN" -n 3 "$first") >"$RANKS.out"
        "$REPOSITORY/tests/compare" "$PLAIN.out" "$RANKS.out"
        diff "$PLAIN/thread.log" "$RANKS/thread.log"
        [ "$(cd "$RANKS" && find . | sort)" = "$(cd "$PLAIN" && find . | sort)" ]
        [ -e "$RANKS/run$run/model.pt" ]
    done
}

@test "C++: a crash handler on an alternate stack of 8 KiB, and a thread with the least stack there is, read files" {
    both 2 "$BUILD/programs/debian-O2/small_stack"
}

@test "C++: a thread that opens a file is the first of its rank to come, and on the other ranks main() with its first parameter" {
    both 3 "$BUILD/programs/debian-O2/thread_first" beside
}

@test "C++: a second run finds the first one's files, and adds to its logs once" {
    both 2 "$FILES" .
    both 2 "$FILES" .
    [ "$(cat "$RANKS/log.txt")" = "$(printf 'starts\nends\nstarts\nends')" ]
}

@test "Python: logging, pickle, tempfile, shutil, sqlite3, memmap, csv, caches, names with the time: the plain run's tree" {
    both 3 /usr/bin/python3 "$BATS_TEST_DIRNAME/programs/files.py" .
}

@test "Python: names that are drawn, spelled in two ways or many, a cache of its own, several handles of one file and of a data base" {
    one_build names_and_handles.py
}

@test "Python: files that are read, moved and changed while they are open, and closed by another thread: the plain run's" {
    one_build open_files.py
}

@test "Python: open files under their other names, streams that add, names that the system refuses, the longest names: the plain run's" {
    one_build other_names.py
}

@test "Python: logs and data bases that are open before torch is imported, on threads, ahead of their files, files with several descriptors: the plain run's" {
    one_build early_and_twins.py
}

@test "files that are opened through links to nowhere are made where the links lead, and looked at under either name while they are open" {
    program '
os.mkdir("logs")
os.symlink("../logs/today.txt", "logs/latest.txt")
os.symlink("logs/latest.txt", "log.txt")
for mode in "x", "w", "a":
    try:
        file = open("log.txt", mode)
    except OSError as error:
        print(mode, error)
        continue
    file.write(mode * 5)
    file.flush()
    print(mode, [os.path.getsize(name) for name in ("log.txt", "logs/latest.txt", "logs/today.txt")], open("logs/today.txt").read())
    train()
    file.close()
    os.unlink("logs/today.txt")
    print(os.path.exists("log.txt"), os.readlink("log.txt"))
open("log.txt", "w").write("kept")
for text, name, flags in ("ring", "ring", 0), ("none/file", "astray", 0), ("logs/", "folder", 0), ("logs/new", "refused", os.O_NOFOLLOW), ("log.txt", "also", os.O_NOFOLLOW):
    os.symlink(text, name)
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags))
    except OSError as error:
        print(name, error)
print(sorted(os.listdir()), sorted(os.listdir("logs")))'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a file that rank 0 is refused to empty, or to make, as it is opened is on the other ranks what it was" {
    program '
import mmap, time
file = open("log", "w")
file.write("hello")
file.flush()
os.symlink("log", "latest")
def refused(name, flags):
    try:
        os.open(name, os.O_WRONLY | flags)
    except OSError as error:
        print(name, error.errno)
refused("latest", os.O_TRUNC | os.O_NOFOLLOW)
print(open("log").read())
file.write(" again")
file.flush()
print(open("log").read(), open("latest").read())
def beside():
    refused("latest", os.O_TRUNC | os.O_NOFOLLOW)
    print(open("log").read())
thread = threading.Thread(target=beside)
thread.start()
thread.join()
with open("table", "w+b") as table:
    table.truncate(4096)
    memory = mmap.mmap(table.fileno(), 4096)
refused("table", os.O_CREAT | os.O_EXCL)
time.sleep(0.5 if os.environ.get("ACCEL_RUN_RANK") == "0" else 0) # the others are first
memory[:5] = b"begin"
print(open("table", "rb").read(5))
train()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

# What is drawn is the same on all ranks: each wrote, cut and renamed what another was writing.
@test "files that are written to a cache under drawn names and renamed come to stand there whole: by ranks, their workers, before torch is imported" {
    cat - >"$BATS_TEST_TMPDIR/program.py" <<'PYTHON'
import multiprocessing, os, py_compile, shutil, subprocess, tempfile, uuid
def keep(name, count):
    for number in range(count):
        drawn = f"__pycache__/{name}{number}.tmp.{uuid.uuid4().hex[:16]}"
        with open(drawn, "wb") as file:
            file.write(b"x" * 200000)
        os.replace(drawn, f"__pycache__/{name}{number}.nbi")
        assert os.path.getsize(f"__pycache__/{name}{number}.nbi") == 200000
os.makedirs("__pycache__", exist_ok=True)
keep("early", 40)
import torch
model = torch.nn.Linear(2, 2)
model(torch.ones(8, 2)).sum().backward()
keep("late", 100)
worker = multiprocessing.get_context("fork").Process(target=keep, args=("worker", 40))
worker.start()
worker.join()
print(worker.exitcode)

drawn = f"__pycache__/{uuid.uuid4()}"
digits = f"__pycache__/{uuid.uuid4().hex}.so"
with open(drawn, "x") as file, open(digits, "x") as library:
    file.write("one")
    library.write("of digits alone")
    os.mkdir("met")  # all ranks have opened them
os.replace(digits, "__pycache__/library.so")
with open(drawn, "a") as file:
    file.write("two")
os.chmod(drawn, 0o640)
os.truncate(drawn, 5)
print(open(drawn).read(), oct(os.stat(drawn).st_mode), os.path.exists(drawn))
try:
    open(drawn, "x")
except FileExistsError as error:
    print(error.errno)
shutil.move(drawn, "__pycache__/moved")
print(os.path.exists(drawn))

with open(drawn + ".tmp", "w") as file:
    file.write("on its way")
try:
    subprocess.Popen(["/none"])
except FileNotFoundError as error:
    print(error.errno)
os.replace(drawn + ".tmp", "__pycache__/arrived")
print(open("__pycache__/arrived").read())

with open(drawn, "w") as file:
    file.write("given up")
os.unlink(drawn)
print(os.path.exists(drawn))
with tempfile.NamedTemporaryFile("w", dir="__pycache__", delete=False) as file:
    file.write("temporary")
os.replace(file.name, "ours")
with open("__pycache__/kept.tmp.pkl", "w") as file:
    file.write("stays")
print(open("ours").read(), open("__pycache__/kept.tmp.pkl").read(), open("__pycache__/library.so").read())

with open("module.py", "w") as file:
    file.write("x = 1")
os.utime("module.py", (1e9, 1e9))
print(py_compile.compile("module.py", dfile="module.py", doraise=True))
PYTHON
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "Python: files that are written through mapped memory and read by their names, moved, made anew, removed and cut: the plain run's" {
    one_build mapped_files.py
}

@test "Python: many files that are written through mapped memory, one after the other, leave no copies behind" {
    program '
import numpy
before = len(os.listdir("/proc/self/fd"))
for i in range(40):
    mapped = numpy.memmap("mapped%d" % i, mode="w+", shape=(1000,))
    mapped[:] = i
    del mapped
print(len(os.listdir("/proc/self/fd")) - before < 8)'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a data base that another program is writing, and a lock that it has, are waited for, and every rank reads what was written there" {
    cat - >"$BATS_TEST_TMPDIR/other.py" <<'PYTHON'
import fcntl, os, sqlite3, time
guard = open("guard", "w")
fcntl.lockf(guard, fcntl.LOCK_EX)
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)
base = sqlite3.connect("study.db", isolation_level=None)
base.execute("create table trials (number integer)")
base.execute("begin exclusive")
base.executemany("insert into trials values (?)", [(n,) for n in range(200)])
open("ready", "w").close()
wait("connected")
base.execute("commit")
wait("half")
base.execute("insert into trials values (1000)")
open("whole", "w").close()
PYTHON
    program '
import fcntl, sqlite3, time
guard = open("guard", "r+")
try:
    fcntl.lockf(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("taken", file=sys.stderr)
base = sqlite3.connect("study.db", isolation_level=None, timeout=100)
open("connected", "w").close()
def look():
    print(base.execute("select count(*), sum(number) from trials").fetchone(), file=sys.stderr)
for number in range(3):
    look()
    train()
    base.execute("insert into trials values (?)", (number,))
open("half", "w").close()
while not os.path.exists("whole"):
    time.sleep(0.01)
fcntl.lockf(guard, fcntl.LOCK_EX) # it has ended, or does
look()
train() if base.execute("select count(*) from trials").fetchone()[0] == 204 else sys.exit("parted")'
    cd "$RANKS"
    /usr/bin/python3 "$BATS_TEST_TMPDIR/other.py" 3>&- &
    until [ -e ready ]; do sleep 0.05; done
    run "$ACCEL_RUN" -n 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    wait $!
    [ "$status" -eq 0 ]
    for rank in 0 1; do
        [ "$(cat "$LOG/rank-$rank.err")" = "$(printf '%s\n' taken '(200, 19900)' '(201, 19900)' '(202, 19901)' '(204, 20903)')" ]
    done
}

@test "of a transaction of SQLite a data base is copied twice at most" {
    program '
import sqlite3
base = sqlite3.connect("study.db", isolation_level=None)
base.execute("pragma synchronous = off")
base.execute("create table blobs (number integer, bytes blob)")
base.execute("insert into blobs values (0, ?)", (bytes(20 << 20),))
def written():
    return int(open("/proc/self/io").read().split("wchar:")[1].split()[0])
before = written()
for number in range(1, 6):
    base.execute("insert into blobs values (?, ?)", (number, b"x"))
print(base.execute("select count(*), sum(number) from blobs").fetchone(), (written() - before) / os.path.getsize("study.db") < 13)
train()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a program ends while a thread of it waits for input, and what is left in streams that it has not closed is in their files" {
    program '
import ctypes, time
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.fdopen.restype = ctypes.c_void_p
libc.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
libc.fgets.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = libc.fileno.argtypes = [ctypes.c_void_p]
stdin = ctypes.c_void_p.in_dll(libc, "stdin").value
threading.Thread(target=lambda: libc.fgets(ctypes.create_string_buffer(9), 9, stdin), daemon=True).start()
streams = [libc.fopen(b"one", b"w"), libc.fdopen(os.open("two", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), b"w"), libc.fopen(b"closed", b"w")]
twin = os.dup(libc.fileno(streams[2]))
for stream in streams:
    libc.fputs(b"begin\n", stream)
libc.fclose(streams[2])
os.write(twin, b"end\n")
time.sleep(0.2) # the thread waits
print("ends")'
    exec 7< <(exec sleep 100)
    local waits=$!
    both 2 timeout 60 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" <&7
    kill "$waits"
    [ "$(cd "$RANKS" && cat one two closed)" = "$(printf 'begin\nbegin\nbegin\nend')" ]
}

@test "a lock that another program has is held from all ranks, one that nobody has is given to all" {
    program '
import fcntl
def lock(name, flags):
    descriptor = os.open(name, flags, 0o600)
    os.write(descriptor, b"text") if flags != os.O_RDONLY else None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(name, "is ours", file=sys.stderr)
    except BlockingIOError:
        print(name, "is taken", file=sys.stderr)
for name in "guard", "free":
    lock(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    train()
    lock(name + ".in-place", os.O_WRONLY | os.O_CREAT)
lock(".", os.O_RDONLY)'
    cd "$RANKS"
    touch free.in-place
    exec 8>guard 9>guard.in-place
    flock 8
    flock 9
    run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" 8>&- 9>&-
    exec 8>&- 9>&-
    [ "$status" -eq 0 ]
    [ "$output" = "$(printf '%s\n' 'guard is taken' 'guard.in-place is taken' 'free is ours' 'free.in-place is ours' '. is ours')" ]
    [ "$(cat guard guard.in-place free free.in-place)" = texttexttexttext ]
}

@test "of a lock that another program has every rank is told who has it, and of which bytes; also on a thread" {
    cat - >"$BATS_TEST_TMPDIR/holder.py" <<'PYTHON'
import fcntl, os, sys
guards = [open(folder + "/guard", "w") for folder in sys.argv[1:]]
for guard in guards:
    fcntl.lockf(guard, fcntl.LOCK_EX, 7, 5)
    open(os.path.dirname(guard.name) + "/holder", "w").write(str(os.getpid()))
open(sys.argv[1] + ".held", "w").close()
sys.stdin.read()
PYTHON
    program '
import fcntl, struct
form = "hhqqi4x"
guard, holder = open("guard", "r+"), int(open("holder").read())
def ask(start):
    asked = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, start, 4, 0)
    kind, *bytes, process = struct.unpack(form, fcntl.fcntl(guard, fcntl.F_GETLK, asked))
    print(start, kind == fcntl.F_UNLCK, bytes, process == holder, process == 0)
def ask_both():
    ask(3)
    ask(30)
ask_both()
thread = threading.Thread(target=ask_both)
thread.start()
thread.join()
train()'
    exec 7> >(exec /usr/bin/python3 "$BATS_TEST_TMPDIR/holder.py" "$PLAIN" "$RANKS" 3>&-)
    until [ -e "$PLAIN.held" ]; do sleep 0.05; done
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" 7>&-
    exec 7>&-
    contains "$(cat "$RANKS.out")" "3 False [0, 5, 7] True False"
}

@test "a file that only one rank changes, while the others wait in a collective, stops the job by name, without waiting for the deadline" {
    program '
if os.environ["ACCEL_RUN_RANK"] == "0":
    open("mine", "w")
train()'
    run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 125 ]
    contains "$output" "AR-FILE-PARTED: rank 0 opens for writing 'mine', while rank 1 does not, and waits for it in "
    program '
import threading
thread = threading.Thread(target=print, args=("a thread that has ended",))
thread.start()
thread.join()
if os.environ["ACCEL_RUN_RANK"] == "1":
    open("mine", "w")
train()'
    run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 125 ]
    contains "$output" "AR-FILE-PARTED: rank 1 opens for writing 'mine', while rank 0 does not, and waits for it in "
}

@test "Python with the newest libtorch does the same" {
    requires file "$BUILD/venv/bin/python"
    both 2 "$BUILD/venv/bin/python" "$BATS_TEST_DIRNAME/programs/files.py" .
}

@test "memory shared by name is each rank's and its children's own, what was there before is everybody's, and nothing is left" {
    memory_by_name one_build
}

@test "a tracker whose own process writes what the run logs writes it once, and the other ranks' leave nothing" {
    one_build tracked.py
    [ -z "$(find /tmp/accel-run.* -maxdepth 2 -name offline-run-second 2>/dev/null)" ]
}

@test "a package that puts its files in their place by system calls of its own" {
    both_builds own_calls.py
}

@test "what cannot be saved or kept in mind alike by all ranks stops by name: a save that is one rank's own, more files for writing than are known, no private copy" {
    program '
import resource, tempfile
if sys.argv[1] == "save":
    torch.save(model.state_dict(), tempfile.mkstemp()[1] if os.environ["ACCEL_RUN_RANK"] == "1" else "model.pt")
elif sys.argv[1] == "large":  # its begin alone is written; a private copy would be as large
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    open("large", "r+b").write(b"begin")
else:
    resource.setrlimit(resource.RLIMIT_NOFILE, (9000, 9000))
    files = [open(f"file_{number}", "w") for number in range(8300)]
print("further")'
    cd "$RANKS"
    head -c 1000000 /dev/zero >large
    local kind kinds=(save large)
    if (ulimit -n 9000); then kinds+=(many); else echo "# open files are limited: not tried with many" >&3; fi
    for kind in "${kinds[@]}"; do
        run -125 env TMPDIR="$BATS_TEST_TMPDIR" "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" "$kind"
        lacks "$output" further
        case $kind in
        save) contains "$output" "AR-SAVE-PARTED: rank 1 saves to a temporary file of its own, rank 0 does not: " ;;
        large) contains "$output" "AR-FILE-COPY: rank 1 cannot make a private copy of 'large': File too large" ;;
        many) [[ $output =~ "AR-FILE-MANY: rank "[01]" cannot open '$RANKS/file_8192'" ]] ;;
        esac
    done
}
