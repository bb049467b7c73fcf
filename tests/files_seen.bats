#!/usr/bin/env bats
# What others find of the program's files at each moment: listings, other programs, the end of a pipe; after a kill, an abort, on a full disk.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers
load files

@test "a new file can be listed from its opening on, as in one process" {
    program '
for i in range(20):
    sum(range(os.getpid() % 3 * 100000))
    with open("file%d" % i, "w"):
        print(i, len(os.listdir(".")))'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "files with several handles, names or readers, names that differ between the ranks, ends that come late: what one process reads and leaves" {
    one_build handles.py
}

@test "files with very high descriptors, and thousands of them that are open at a time, are read back whole" {
    [ "$(ulimit -n)" -ge 10000 ] || ulimit -n 10000 || skip "needs a higher limit of open files"
    program '
import json, time
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(4200)]
for turn in range(3):
    with open("high.json", "w") as file:
        time.sleep(0.2 * (os.environ.get("ACCEL_RUN_RANK") == "0"))
        json.dump([turn] * 20000, file)
    print(turn, len(json.load(open("high.json"))))
files = [open(f"part{number}", "w") for number in range(3000)]
for file in files:
    file.write("x" * 10)
    file.close()
print(sum(os.path.getsize(file.name) for file in files))
train()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a file that rank 0 is rewriting beside its place is seen under its own name alone" {
    program '
import ctypes, platform
open("kept.txt", "w").write("old")
openat = 257 if platform.machine() == "x86_64" else 56
ctypes.CDLL(None).syscall(openat, -100, b"kept.accel-%08x" % os.getpid(), os.O_CREAT | os.O_WRONLY, 0o644) # as it stands there for a moment
ctypes.CDLL(None).syscall(openat, -100, b"kept.accel-1", os.O_CREAT | os.O_WRONLY, 0o644)
train()
found, names = (ctypes.c_size_t * 9)(), ctypes.c_void_p()
ctypes.CDLL(None).glob(b"kept*", 0, None, found)
print(sorted(os.listdir(".")), sorted(entry.name for entry in os.scandir(".")), found[0], ctypes.CDLL(None).scandir(b".", ctypes.byref(names), None, None))'
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py")
    [ "$(cat "$LOG/rank-0.out")" = "['kept.accel-1', 'kept.txt'] ['kept.accel-1', 'kept.txt'] 2 4" ]
    diff "$LOG/rank-0.out" "$LOG/rank-1.out"
}

@test "what the system copies into an open file on another disk than that of /tmp is there on all ranks" {
    requires root
    requires command unshare
    unshare -m mount -t tmpfs none /mnt || skip "needs the right to mount"
    program '
open("from", "wb").write(b"0123456789" * 1000)
with open("from", "rb") as there, open("to", "wb") as here:
    print(os.copy_file_range(there.fileno(), here.fileno(), 5000, 0, 10), os.copy_file_range(there.fileno(), here.fileno(), 20))
    print(there.tell(), os.lseek(here.fileno(), 0, os.SEEK_CUR), os.path.getsize("to"), open("to", "rb").read()[:32])
train()'
    run -0 unshare -m sh -c 'mount -t tmpfs none /mnt && cd /mnt && "$@"' sh "$ACCEL_RUN" -n 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$(head -1 "$LOG/rank-0.out")" = "5000 20" ]
    diff "$LOG/rank-0.out" "$LOG/rank-1.out"
}

@test "Python: an open file is as old as the disk says, with the permissions and attributes it has there, and for writing alone: a log of yesterday's is rotated" {
    both 2 /usr/bin/python3 "$BATS_TEST_DIRNAME/programs/alike.py"
}

@test "in listings each rank finds the names that the program has given its files, also those with the time or the process number; so do commands and children" {
    one_build listed_names.py
}

@test "Python with the newest libtorch does the same" {
    [ -x "$BUILD/venv/bin/python" ] || skip "no venv"
    both 2 "$BUILD/venv/bin/python" "$BATS_TEST_DIRNAME/programs/listed_names.py"
}

@test "a program that finds no descriptor left goes on as in one process, where rank 0 has none left either" {
    program '
import errno, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
for turn in range(2):
    files = []
    try:
        while True:
            files.append(open(f"part{len(files)}", "w"))
    except OSError as error:
        print(errno.errorcode[error.errno], len(files) > 9)
    for file in files:
        file.close()
        os.remove(file.name)
    train()
    thread = threading.Thread(target=lambda: open(f"log{turn}", "w").close())
    thread.start()
    thread.join()
    print(sorted(os.listdir(".")))
open("log", "w").write("header\n")
log, held = open("log", "a"), []
try:
    while True:
        held.append(open("/dev/null"))
except OSError:
    print(os.path.getsize("log"))
del held
log.write("line\n")
log.flush()
print(repr(open("log").read()))'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a file whose descriptor is to be another one goes on when that is refused" {
    program '
import ctypes, resource
libc = ctypes.CDLL(None, use_errno=True)
log = open("log", "w")
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
def refused(name, *arguments):
    print(name, getattr(libc, name)(*arguments), ctypes.get_errno())
    log.write(name + "\n")
    log.flush()
    print(open("log").read().split(), os.path.getsize("log"))
refused("dup2", 999, log.fileno())
refused("dup3", 999, log.fileno(), 0)
refused("dup3", 0, log.fileno(), os.O_RDONLY | os.O_NONBLOCK)
refused("dup3", log.fileno(), log.fileno(), 0)
high = os.dup2(log.fileno(), 200)
log.close()
log = os.fdopen(high, "w")
resource.setrlimit(resource.RLIMIT_NOFILE, (150, limits[1]))
refused("dup2", 0, high)
train()
log.close()
print(open("log").read().split())'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a file that is mapped is rewritten in place, also where the memory's device is told by another number (overlayfs)" {
    requires mount
    mkdir "$BATS_TEST_TMPDIR/below"
    program '
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
open("bank", "w").write("old text")
with open("bank", "rb") as file:
    bank = libc.mmap(None, ctypes.c_size_t(8), 1, 1, file.fileno(), ctypes.c_long(0)) # read, shared; the module of Python keeps the descriptor
with open("bank", "w") as file:
    file.write("new text")
print(ctypes.string_at(bank, 8))
train()'
    run -0 unshare -m sh -c 'mount -t tmpfs none /mnt && cd /mnt && mkdir above work both && mount -t overlay none -o "lowerdir=$1,upperdir=above,workdir=work" both && cd both && shift && "$@"' \
        sh "$BATS_TEST_TMPDIR/below" "$ACCEL_RUN" -n 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$(cat "$LOG/rank-0.out")" = "b'new text'" ]
}

@test "a file that is closed, or renamed while it is open, as another thread lists its folder is there, whole" {
    program 'os.mkdir("saves")
sys.setswitchinterval(1e-5)
is_over = threading.Event()
def lists():
    while not is_over.is_set():
        os.listdir("saves")
other = threading.Thread(target=lists)
other.start()
lost = 0
for i in range(600):
    name = f"saves/{i}"
    with open(name, "w") as file:
        file.write("x" * 100)
        if i % 2:
            os.fsync(file.fileno())
            os.rename(name, name := f"saves/renamed-{i}")
    lost += not os.path.exists(name)
is_over.set()
other.join()
print(lost, len(os.listdir("saves")))'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    grep -qx '0 600' "$RANKS.out"
}

@test "a file that is still open when the training goes on is there when the program is killed; one that is being saved is not" {
    program '
log = open("log", "w")
log.write("begins\n")
log.flush()
train()
saved = open("saved", "w")
saved.write("piece")
saved.flush()
os.kill(os.getpid(), 9)'
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py") && return 1
    [ "$(ls -A "$RANKS")" = log ]
    [ "$(cat "$RANKS/log")" = begins ]
}

@test "a checkpoint that a thread is writing while the training goes on is not there when the program is killed, the old one is" {
    program '
with open("checkpoint", "w") as file:
    file.write("old")
begun = threading.Event()
def save():
    with open("checkpoint", "w") as file:
        file.write("piece")
        file.flush()
        begun.set()
        threading.Event().wait()
threading.Thread(target=save, daemon=True).start()
begun.wait()
train()
train()
os.kill(os.getpid(), 9)'
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py") && return 1
    [ "$(cat "$RANKS/checkpoint")" = old ]
}

@test "a log that a thread writes line by line is there while the training goes on" {
    program '
def watch():
    with open("log.csv", "w") as file:
        while True:
            print("line", file=file, flush=True)
            threading.Event().wait(0.5)
threading.Thread(target=watch, daemon=True).start()
while True:
    train()'
    cd "$RANKS"
    spawn_bg timeout 100 "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    retry 600 0.1 test -s log.csv
    kill -TERM "$bg_pid"
    wait_bg
}

@test "a log that is added to under a name with the process number keeps no rank at a listing" {
    program '
log = open("log_%d.txt" % os.getpid(), "a")
log.write("begun\n")
print(len(os.listdir(".")), flush=True)
os._exit(0)'
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py")
    [ "$(cat "$LOG/rank-0.out" "$LOG/rank-1.out")" = "$(printf '1\n1')" ]
}

@test "a program that ends by _exit, or is aborted by itself, an assertion or a signal of its own, leaves what it wrote" {
    local way
    program '
import ctypes, signal
file = open("file", "w")
file.write("text")
file.flush()
way = sys.argv[1]
if way == "assert":
    ctypes.CDLL(None).__assert_fail(b"x", b"file.c", 1, b"main")
os._exit(0) if way == "exit" else os.abort() if way == "abort" else signal.raise_signal(signal.SIGABRT)'
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" exit)
    [ "$(cat "$RANKS/file")" = text ]
    for way in abort assert signal; do
        rm "$RANKS/file"
        (ulimit -c 0 && cd "$RANKS" && "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" $way) && return 1
        [ "$(cat "$RANKS/file")" = text ] || return 1
    done
}

@test "a file that only one rank would change stops the job by name" {
    program '
if os.environ["ACCEL_RUN_RANK"] == "1":
    os.mkdir("mine")
open("ours", "w")'
    run "$ACCEL_RUN" -n 2 --collective-timeout 20 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 125 ]
    contains "$output" AR-FILE-PARTED
    contains "$output" "rank 0 opens for writing 'ours', while rank 1 makes the directory 'mine'"
    [ ! -e mine ]
}

@test "files that the ranks write in different orders are not taken for one another: it stops by name" {
    program '
order = ["first.pt", "second.pt"][:: -1 if os.environ["ACCEL_RUN_RANK"] == "1" else 1]
how = os.environ["HOW"]
for name in order:
    if how == "save":
        torch.save({"name": name}, name)
    elif how == "numbers":
        open(str(int(name == "first.pt")) + ".txt", "w").write(name)
    elif how == "moved":
        os.rename(name, name + ".old")
    else:
        open(name, "w").write(name)'
    cd "$RANKS"
    for how in save write numbers moved; do
        rm -f ./*.pt ./*.txt ./*.old
        [ $how != moved ] || touch first.pt second.pt
        HOW=$how run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
        [ "$status" -eq 125 ] || return 1
        contains "$output" AR-FILE-PARTED || return 1
        contains "$output" "and both are files of the program" || return 1
    done
}

@test "a rank whose drawn names are one ahead of rank 0's keeps the newest, and removes the oldest, as one process does" {
    program '
ahead = int(os.environ.get("ACCEL_RUN_RANK", "0"))
drawn = ["drawn_" + letter for letter in "abcdefgh"][ahead:]
for step in range(5):
    open(drawn[step], "w").write(str(step))
    if step > 1:
        os.remove(drawn[step - 2])
        open(drawn[step - 1], "a").write(" again")
    print([open(name).read() for name in drawn[max(step - 1, 0) : step + 1]])'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "what a child writes to a file that the program has closed meanwhile is read whole when the child has ended" {
    program '
import subprocess, sys, time
rank = int(os.environ.get("ACCEL_RUN_RANK", "1"))  # the first one starts last
slow = f"import time; print(\"begin\", flush=True); time.sleep({0.5 * (rank == 0)}); print(\"end\")"
for way in "closed", "with", "spawned", "forked":
    if way == "closed":
        process = subprocess.Popen([sys.executable, "-c", slow], stdout=open(way, "w"))
    elif way == "with":
        with open(way, "w") as out:
            print("header", file=out, flush=True)
            process = subprocess.Popen([sys.executable, "-c", slow], stdout=out, stderr=out)
    elif way == "spawned":
        with open(way, "w") as out:
            child = os.posix_spawn(sys.executable, [sys.executable, "-c", slow], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
    else:
        with open(way, "w") as out:
            child = os.fork()
            if not child:
                os.dup2(out.fileno(), 1)
                os.execv(sys.executable, [sys.executable, "-c", slow])
    process.wait() if way in ("closed", "with") else os.waitpid(child, 0)
    print(way, open(way).read().split(), os.path.getsize(way))
train()
with open("closed", "a") as out:
    out.write("more")
print(open("closed").read().split())'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    rm -rf "$PLAIN" "$RANKS" "$LOG"
    mkdir "$PLAIN" "$RANKS"
    [ ! -x "$BUILD/venv/bin/python" ] || both 2 "$BUILD/venv/bin/python" "$BATS_TEST_TMPDIR/program.py"
}

# full_disk USER COMMAND...: on the disk $BATS_TEST_TMPDIR/small, which is unmounted in the end: every rank says what its program says as one process
full_disk() {
    local result=0 small=$BATS_TEST_TMPDIR/small
    rm -rf "${LOG:?}"/*
    setpriv --reuid="$1" --clear-groups test -x "$ACCEL_RUN" -a -x "$2" || { umount "$small" && return; } # in a folder that is its owner's alone
    chmod 777 "$small"
    (cd "$small" && setpriv --reuid="$1" --clear-groups "$ACCEL_RUN" -n 2 --log-dir "$LOG" "${@:2}") || result=$?
    umount "$small"
    [ "$result" -eq 0 ]
    [ "$(cat "$LOG/rank-0.out")" = "3 of 3 failed" ]
    diff "$LOG/rank-0.out" "$LOG/rank-1.out"
}

@test "a disk that is full fails the write on all ranks, as in one process; also on a thread, by root and by others, with room that is kept" {
    requires root
    local small=$BATS_TEST_TMPDIR/small
    mkdir "$small" "$LOG"
    chmod 777 "$LOG"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR"
    mount -t tmpfs -o size=16m none "$small" || skip "needs the right to mount"
    full_disk 0 "$FILES" . full
    program '
failures = []
def fill():
    for number in range(3):
        try:
            with open("file", "wb") as file:
                for block in range(40):
                    file.write(bytes(1 << 20))
        except OSError as error:
            failures.append(error.errno)
thread = threading.Thread(target=fill)
thread.start()
thread.join()
print(failures.count(28), "of 3 failed")'
    chmod 644 "$BATS_TEST_TMPDIR/program.py"
    mount -t tmpfs -o size=16m none "$small"
    full_disk 0 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    truncate -s 24M "$BATS_TEST_TMPDIR/image"
    if mkfs.ext4 -q -F "$BATS_TEST_TMPDIR/image" && mount -o loop "$BATS_TEST_TMPDIR/image" "$small"; then
        full_disk 0 "$FILES" . full
        mount -o loop "$BATS_TEST_TMPDIR/image" "$small"
        rm "$small/file"
        full_disk 65534 "$FILES" . full
    else
        echo "# ext4 cannot be made or mounted: not tried" >&3
    fi
}

@test "a file that is mounted by itself is written where it is; where one cannot take its place in the end, closing it says so on all ranks" {
    requires root
    local result=0
    touch "$BATS_TEST_TMPDIR"/{own.log,own.pt} "$RANKS"/{train.log,model.pt,late.log,other}
    program '
import ctypes
log = open("train.log", "w")
log.write("begins\n")
log.flush()
train()
log.write("ends\n")
log.close()
torch.save(model.state_dict(), "model.pt")
late = open("late.log", "w")
late.write("lost")
late.flush()
if os.environ["ACCEL_RUN_RANK"] == "0":
    ctypes.CDLL(None).mount(b"other", b"late.log", None, 4096, None) # MS_BIND
train()
try:
    late.close()
except OSError as error:
    print(error.strerror)
print(len(torch.load("model.pt")))'
    mount --bind "$BATS_TEST_TMPDIR/own.log" "$RANKS/train.log" || skip "needs the right to mount"
    mount --bind "$BATS_TEST_TMPDIR/own.pt" "$RANKS/model.pt"
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py") || result=$?
    umount "$RANKS"/{train.log,model.pt}
    ! mountpoint -q "$RANKS/late.log" || umount "$RANKS/late.log"
    [ $result -eq 0 ]
    [ "$(cat "$BATS_TEST_TMPDIR/own.log")" = "$(printf 'begins\nends')" ]
    [ "$(cat "$LOG/rank-1.out")" = "$(printf '%s\n' "Device or resource busy" 2)" ]
    diff "$LOG"/rank-{0,1}.out
}

@test "killed at any moment: every file is the old or the new one, whole" {
    "$REPOSITORY/tests/soak-files" 4
}

@test "a named pipe gets what the program writes once, and is made, renamed and removed as by one process" {
    program 'os.mkfifo("own")
try:
    os.open("own", os.O_WRONLY | os.O_NONBLOCK)
except OSError as error:
    print(error.errno)
with open("pipe", "w") as pipe:
    for step in range(3):
        train()
        print("step", step, file=pipe, flush=True)
thread = threading.Thread(target=lambda: os.rename("own", "other"))
thread.start()
thread.join()
print(sorted(os.listdir()), os.path.exists("own"))
os.unlink("other")
os.unlink("pipe")
print(os.path.lexists("other"))'
    mkfifo "$PLAIN/pipe" "$RANKS/pipe"
    cat "$PLAIN/pipe" >"$PLAIN.came" 3>&- &
    local reader=$!
    cat "$RANKS/pipe" >"$RANKS.came" 3>&- &
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    wait "$reader" $!
    diff "$PLAIN.came" "$RANKS.came"
    [ "$(wc -l <"$RANKS.came")" -eq 3 ]
}

@test "a named pipe that a rank reads stops the job by name, before the pipe is opened; one of the rank's own does not" {
    cd "$RANKS" && mkfifo pipe
    program 'open("pipe")'
    run -125 "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    contains "$output" "AR-PIPE: the pipe 'pipe' is opened for reading"
    program 'import ctypes
libc = ctypes.CDLL(None)
libc.freopen.restype = libc.fdopen.restype = ctypes.c_void_p
libc.freopen(b"pipe", b"r", ctypes.c_void_p(libc.fdopen(0, b"r")))'
    run -125 "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    contains "$output" "AR-PIPE"
    printf '%s\n' 'print(open("pipe").read())' 'import torch' >early.py
    run -125 "$ACCEL_RUN" -n 2 /usr/bin/python3 early.py
    contains "$output" "AR-PIPE"
    rm pipe early.py
    program 'import tempfile
with tempfile.TemporaryDirectory() as folder:
    name = os.path.join(folder, "pipe")
    os.mkfifo(name)
    thread = threading.Thread(target=lambda: open(name, "w").write("through"))
    thread.start()
    print(open(name).read())
    thread.join()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "what accel-run is started with under a number is written by its name in /dev/fd by rank 0 alone" {
    program 'open("/dev/fd/7", "w").write("once\n")
train()'
    "$ACCEL_RUN" -n 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" 7>"$RANKS/log"
    [ "$(cat "$RANKS/log")" = once ]
}
