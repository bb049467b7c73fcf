#!/usr/bin/env bats
# Hosts without a common file system: rank 0's host has the files, and every rank sees them.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load hosts

export BATS_TEST_TIMEOUT=240

# twice_on "RANKS..." command...: two runs one after the other, plain and on hosts with folders of their own. Every rank prints what the plain program does (but
# for what its children read, which look at their own host's disk), the first host's folder is the plain program's, the others' stays empty.
twice_on() {
    local run file
    mkdir -p plain/.nv
    for run in 1 2; do
        (cd plain && PYTHONDONTWRITEBYTECODE=1 "${@:2}" >../plain.out)
        options=(--log-dir "$T/log$run")
        on_hosts "$1" 0 "${@:2}"
        for file in "log$run"/*.out; do diff <(grep -v '^child sees' plain.out) <(grep -v '^child sees' "$file"); done
        diff -r --no-dereference --exclude .nv plain host1
        [ -z "$(find host2 -mindepth 1 ! -path 'host2/.nv*' ! -name truncated.log)" ]
    done
}

# python_program TEXT [BUILD]: as program.py, after a model has been made; on Debian's build, whose import takes a third, where libtorch itself writes no file
python_program() {
    {
        printf 'import os, sys, torch\ntorch.manual_seed(1)\nmodel = torch.nn.Linear(4, 3)\nrank = os.environ.get("ACCEL_RUN_RANK", "0")\n'
        cat <<<"$1"
    } >program.py
    command=("$(python_of "${2:-debian}")" "$T/program.py")
    requires file "${command[0]}"
}

@test "C++: names, logs, rotation, locks, scratch files: the plain run's tree on the first host, and every rank reads what was written" {
    set_command debian-O2 files
    twice_on "1 2" "${command[0]}" .
}

@test "Python: logging, pickle, tempfile, shutil, sqlite3, memmap, links, whole folders" {
    requires file /usr/bin/python3
    twice_on "1 1" /usr/bin/python3 "$REPOSITORY/tests/programs/files.py" .
}

@test "commands of system() are run on the first host, and every rank reads what they have written" {
    requires file /usr/bin/python3
    twice_on "1 2" /usr/bin/python3 "$REPOSITORY/tests/programs/commands.py"
}

@test "and so are those of subprocess.run(), whose output every rank has" {
    python_program '
import subprocess
subprocess.run("echo more >>kept; cp kept copied", shell=True, check=True)
print(open("copied").read(), subprocess.check_output(["cat", "kept"]), subprocess.run(["cat", "none"], stderr=subprocess.PIPE).returncode)
print(subprocess.check_output("head -c 300000 /dev/zero | tr \\\\0 x", shell=True, text=True).count("x"))'
    twice_on "1 1" "${command[@]}"
}

@test "a checkpoint that the first host alone has is gone on from by all, and one of another host is not seen" {
    python_program '
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
first = 0
if os.path.exists("kept/last.pt"):
    state = torch.load("kept/last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
print("from", first, "older:", os.path.exists("older.pt"), sorted(os.listdir(".")))
os.makedirs("kept", exist_ok=True)
for step in range(first, first + 3):
    optimizer.zero_grad()
    loss = model(torch.arange(48.0).view(12, 4) / 48).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, "%.5f" % loss.item())
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1, "filler": torch.zeros(100000)}, "kept/last.pt")' wheel
    mkdir -p plain/.nv host1 host2/kept
    for run in 1 2; do
        (cd plain && "${command[@]}" >../plain.out)
        options=(--log-dir "$T/log$run")
        on_hosts "1 2" 0 "${command[@]}"
        for file in "log$run"/*.out; do "$COMPARE" plain.out "$file"; done
        # of the same length as the real one, as from an earlier run that was copied; and one that the first host has not
        head -c "$(stat -c %s host1/kept/last.pt)" /dev/zero >host2/kept/last.pt
        touch host2/older.pt
    done
}

@test "a data file is read from the own disk where it is the first host's, else from there, and that can be seen" {
    python_program '
torch.zeros(1).requires_grad_()
print(rank, open("data").read()[-5:], len(open("data").read()), open("short").read(), file=sys.stderr)'
    mkdir -p host1 host2
    options=(--log-level info --log-dir "$T/log")
    { yes | head -c 3000000 && echo same; } >host1/data
    echo short >host1/short
    cp host1/short host2/short
    for case in "own: cp host1/data host2/data" "first: { yes | head -c 3000000 && echo else; } >host2/data" "first: rm host2/data"; do
        eval "${case#*: }"
        rm -rf log
        on_hosts "1 1" 0 "${command[@]}"
        contains "$(cat log/rank-1.err)" "1 same
 3000005 short"
        if [ "${case%%:*}" = own ]; then
            lacks "$(cat err2)" "of host 0"
        else
            contains "$(cat err2)" "rank 1 reads '$T/host2/data' of host 0 (10.77.0.1): this host has another one, or none"
        fi
        lacks "$(cat err2)" "host2/short'"
    done
}

@test "in folders that the first host alone has: open files by their names, whole ones that differ too, listings with a log that stays open, many folders" {
    python_program '
os.mkdir("made")
file = open("made/table.csv", "w")
file.write("a,b\n")
file.flush()
if rank != "0": # rank 0 does not look, and goes no further than the next folder: its file is not in its place yet
    assert os.path.getsize("./made//../made/table.csv") == 4
os.mkdir("next")
file.close()
try:
    open("made", "w")
except IsADirectoryError as error:
    print(error)
for number in range(40): # names that differ by the folder of each host alone do not count as differing
    open(os.path.abspath("next/%d" % number), "w").close()
part = os.path.abspath("next/part.%d" % os.getpid())
with open(part, "w") as file:
    file.write("whole")
print(os.path.getsize(part), open(part).read())
os.mkdir("data")
folder = os.open("data", os.O_RDONLY)
for number in range(130):
    os.mkdir("class%d" % number, dir_fd=folder)
    inner = os.open("class%d" % number, os.O_RDONLY, dir_fd=folder)
    assert os.listdir(inner) == [], number
    os.close(inner)
print(len(os.listdir(folder)))
log = os.open("made/log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND) # and is never closed
import ctypes
found, names = (ctypes.c_size_t * 9)(), ctypes.c_void_p()
ctypes.CDLL(None).glob(b"ma*/*", 0, None, found)
print(found[0], ctypes.CDLL(None).scandir(b"made", ctypes.byref(names), None, None))
print(os.path.basename(part) in os.listdir("next"), len(os.listdir("next")))
run, own = "next/run_%d" % os.getpid(), "own_%d" % os.getpid() # a file in a folder, both called so by this rank alone
os.mkdir(run)
open(run + "/" + own, "w").close()
os.symlink(own, run + "/latest")
print(os.path.basename(run) in os.listdir("next"), own in os.listdir(run), os.readlink(run + "/latest") == own)
print(sorted(os.listdir("made")))' # and nobody comes to anything any more
    options=(--collective-timeout 10 --log-dir "$T/log")
    on_hosts "1 1" 0 "${command[@]}"
    [ "$(cat log/rank-1.out)" = "[Errno 21] Is a directory: 'made'
5 whole
130
2 4
True 41
True True True
['log.txt', 'table.csv']" ]
    diff log/rank-0.out log/rank-1.out
    [ -z "$(find host2 -mindepth 1 ! -path 'host2/.nv*')" ]
}

@test "a folder that is read again from its begin shows what has been made in it meanwhile" {
    python_program '
import ctypes
libc = ctypes.CDLL(None)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.readdir.argtypes = libc.rewinddir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
def read(stream):
    names = iter(lambda: libc.readdir(stream), None)
    return sorted(ctypes.string_at(entry + 19).decode() for entry in names)[2:]
os.mkdir("made")
open("made/first", "w").close()
stream = libc.opendir(b"made")
print(read(stream))
os.mkdir("made/second")
os.unlink("made/first")
libc.rewinddir(stream)
print(read(stream))
log = open("made/log", "w")
libc.rewinddir(stream)
print(read(stream))
libc.rewinddir(stream)
print(read(stream), libc.closedir(stream))'
    options=(--log-dir "$T/log")
    on_hosts "1 1" 0 "${command[@]}"
    [ "$(cat log/rank-1.out)" = "['first']
['second']
['log', 'second']
['log', 'second'] 0" ]
    diff log/rank-0.out log/rank-1.out
}

# Two disks under one name: ip netns exec gives each a mount name space of its own.
@test "one path that is another disk on each host" {
    python_program '
folder = sys.argv[1]
print(sorted(os.listdir(folder)), [os.path.exists(folder + "/" + name) for name in ("first", "second")])
os.mkdir(folder + "/made")
name = "%s/made/%d.txt" % (folder, os.getpid())
with open(name, "w") as file:
    file.write("text")
print(os.path.getsize(name), open(name).read(), len(os.listdir(folder + "/made")), os.stat(folder + "/made").st_nlink)'
    mkdir disk disk1 disk2
    touch disk1/first disk2/second
    options=(--log-dir "$T/log")
    launchers=()
    for host in 1 2; do
        mkdir -p "host$host"
        # shellcheck disable=SC2016
        (cd "host$host" && exec ip netns exec "$NET-$host" sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' "$T/disk$host" "$T/disk" "$ACCEL_RUN" -n 1 --nnodes 2 \
            --node-rank $((host - 1)) --master-addr 10.77.0.1 "${options[@]}" "${command[@]}" "$T/disk" >"$T/out$host" 2>"$T/err$host" 3>&- 4>&-) &
        launchers[host]=$!
    done
    wait_hosts 0
    diff log/rank-0.out log/rank-1.out
    [ "$(cat log/rank-1.out)" = "$(printf "['first'] [True, False]\n4 text 1 2")" ]
    [ "$(ls disk1/made)" ]
    [ "$(ls disk2)" = second ]
}

@test "a folder that only the first host has cannot be gone into elsewhere, which is said by name" {
    python_program '
torch.zeros(1).requires_grad_()
os.makedirs("made", exist_ok=True)
os.chdir("made")'
    on_hosts "1 1" 125 "${command[@]}"
    all_say "AR-FILE-HOSTS: the program goes into the folder '$T/host2/made', which is on host 0 (10.77.0.1) and not on this one (10.77.0.2)"
    mkdir -p host2/made
    on_hosts "1 1" 0 "${command[@]}"
}

@test "the first host dies while others look at its files, by a kill or by silence: they are told so, and nothing waits" {
    python_program '
torch.zeros(1).requires_grad_()
print("looks", flush=True)
while True:
    os.path.exists("checkpoint") # rank 0 looks, too, at its own disk'
    for signal in KILL STOP; do
        options=(--log-dir "$T/log$signal")
        start_hosts "1 2" "${command[@]}"
        retry 300 0.1 grep -q looks "log$signal/rank-1.out" "log$signal/rank-2.out"
        kill "-$signal" "${launchers[1]}"
        code=0
        wait "${launchers[2]}" || code=$?
        [ "$code" -eq 125 ]
        contains "$(cat err2)" "AR-HOST-GONE: host 0 (10.77.0.1, rank 0) is gone"
        kill -9 "${launchers[1]}" || true
        wait "${launchers[1]}" || true
    done
}

@test "what a loader's workers read from each host's own disk is compared: the same files train as one process does, others stop by name" {
    set_command debian-O2 loaders
    command+=(from_file 2)
    mkdir -p plain/.nv
    for host in host1 host2 plain; do
        mkdir -p "$host"
        for ((i = 0; i < 310; i++)); do echo $((i % 7 % 3)); done >"$host/labels.txt"
    done
    (cd plain && "${command[@]}" >../plain.out)
    on_hosts "1 1" 0 "${command[@]}"
    "$COMPARE" plain.out out1
    sed -i '201s/.*/2/;200s/.*/2/' host2/labels.txt
    on_hosts "1 1" 125 "${command[@]}"
    contains "$(cat err1)" AR-RANKS-PARTED
    contains "$(cat err1)" "the same on all hosts"
}

@test "a file that a thread adds to again and again, whose name has the host's name and the process number, is one, and waits for nobody" {
    requires command unshare
    cat >program.py <<'PYTHON'
import ctypes, os, subprocess, threading, time
import torch
model = torch.nn.Linear(4, 1)
model(torch.ones(8, 4)).sum().backward()
name = "events.%d.%s.%d" % (time.time(), os.uname().nodename, os.getpid())
def write():
    for event in range(50):
        with open(name, "ab") as file:
            file.write(b"event\n")
    print(os.path.getsize(name))
begin = time.monotonic()
thread = threading.Thread(target=write)
thread.start()
thread.join()
print("in time", time.monotonic() - begin < 20)
os.makedirs("logs/" + os.uname().nodename) # the host's name is a word of its own for children
told = subprocess.Popen(["echo", "--host", os.uname().nodename, "logs/" + os.uname().nodename], stdout=subprocess.PIPE).communicate()[0].split()
print(told[1].decode() == os.uname().nodename, os.listdir("logs") == [os.uname().nodename])
both_have = os.path.dirname(os.path.abspath(__file__)) # a disk of both hosts
os.chdir(both_have)
newest = both_have + "/ck_%d" % os.getpid()
open(newest, "w").close()
os.symlink(newest, "latest")
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
print(libc.realpath(b"latest", ctypes.create_string_buffer(4096)).decode() == os.path.realpath("latest") == newest)
PYTHON
    printf '%s\n' '#!/bin/sh' 'exec unshare --uts sh -c "hostname node-\$\$.lab && exec \"\$@\"" sh '"$ACCEL_RUN"' "$@"' >named # each host calls itself something
    chmod +x named
    options=(--log-dir "$T/log")
    ACCEL_RUN=$T/named on_hosts "1 1" 0 "$(python_of debian)" "$T/program.py"
    [ "$(cat out1)" = "$(printf '300\nin time True\nTrue True\nTrue')" ]
    [ "$(tail -n 2 log/rank-1.out)" = "$(printf 'True True\nTrue')" ]
    [ "$(find host1 host2 -name 'events.*' | wc -l)" -eq 1 ]
    lacks "$(cat err1 err2)" AR-FILE-BESIDE
}
