#!/usr/bin/env bats
# What a shell or a child does for the program: commands of system() are run once, and who else writes is named.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers
load files

@test "a command of system() is run once, every rank has its status and reads what it has written; of what is a rank's own each runs its own" {
    both_builds commands.py
}

@test "Python: so is a command of subprocess.run() and its like; every rank has its output, and its exceptions" {
    both_builds subprocesses.py
}

@test "Python: so it is between the import of torch and the first parameter; a module that is still to be loaded is not" {
    both_builds early_commands.py
}

@test "a library of Python's that runs commands by what it finds on the disk, or by locks, runs them on every rank; libtorch's compiler of extensions once" {
    mkdir -p "$PLAIN/site-packages/torch/utils" "$RANKS/site-packages/torch/utils"
    tee "$PLAIN/site-packages/builder.py" >"$RANKS/site-packages/builder.py" <<'PYTHON'
import os, subprocess
def build(): # of two ranks one alone may run it
    if os.environ.get("ACCEL_RUN_RANK", "0") == "0":
        subprocess.run(["touch", "built"], check=True)
PYTHON
    tee "$PLAIN/site-packages/torch/utils/cpp_extension.py" >"$RANKS/site-packages/torch/utils/cpp_extension.py" <<'PYTHON'
import subprocess
def load():
    subprocess.run("echo once >>compiled", shell=True, check=True)
PYTHON
    program 'sys.path.insert(0, "site-packages"); sys.dont_write_bytecode = True
import builder, importlib.util
builder.build()
spec = importlib.util.spec_from_file_location("extension", "site-packages/torch/utils/cpp_extension.py")
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
extension.load()
train()
print(model.weight.sum().item() < 9)'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "C++: a command is run once, and its words are shown once" {
    local restless=$BUILD/programs/debian-O2/restless
    (cd "$PLAIN" && "$restless" system) >"$PLAIN.out"
    (cd "$RANKS" && "$ACCEL_RUN" -n 3 "$restless" system) >"$RANKS.out"
    diff "$PLAIN.out" "$RANKS.out"
    [ "$(cat "$RANKS/times")" = once ]
}

@test "a command, or a variable for it, that has a name by the clock is each rank's own" {
    program 'import time
name = "%d.txt" % time.time_ns()
os.system("echo by the clock >" + name)
os.environ["OTHER"] = "%d.txt" % time.time_ns()
os.system("echo in a variable >$OTHER")
print(open(name).read(), open(os.environ["OTHER"]).read())
os.system("rm %s $OTHER" % name)'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a command with a name that is written alike on all ranks does one thing, also where one of them calls another file so; one with its own names, too" {
    program 'import subprocess
ahead = int(os.environ.get("ACCEL_RUN_RANK", "0")) # what one rank calls ck_61 is ck_60 on the first one
os.mkdir("ckpts")
for number in range(60, 64):
    open(f"ckpts/ck_{number + ahead}", "w").write(str(number))
def left():
    return subprocess.check_output("cat ckpts/*", shell=True)
oldest = subprocess.check_output("ls ckpts | head -1", shell=True, text=True).strip()
os.system(f"rm ckpts/{oldest}")
print(left())
oldest = subprocess.check_output("ls ckpts | head -1", shell=True, text=True).strip()
subprocess.run(["rm", f"ckpts/{oldest}"], check=True)
print(left())
subprocess.run(["rm", f"ckpts/ck_{62 + ahead}"], check=True)
print(left())
os.system("rm -r ckpts")'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" </dev/null
    program '
ahead = int(os.environ.get("ACCEL_RUN_RANK", "0"))
for number in range(60, 64):
    open(f"ck_{number + ahead}", "w").write(f"{number}\n")
os.system("cat ck_62") # there is input: each runs its own
os.system(f"cat ck_{62 + ahead}")'
    rm -rf "$PLAIN" "$RANKS" "$LOG"
    mkdir "$PLAIN" "$RANKS"
    echo line >"$BATS_TEST_TMPDIR/lines"
    local rank
    (cd "$RANKS" && "$ACCEL_RUN" -n 3 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" <"$BATS_TEST_TMPDIR/lines")
    for rank in 0 1 2; do [ "$(cat "$LOG/rank-$rank.out")" = "$(printf '62\n62')" ] || return 1; done
}

@test "commands read standard input where one process's do, and the program on every rank what they have left" {
    local from
    program 'import subprocess
os.system("read line; echo $line >first")
print(subprocess.check_output("read line; echo $line", shell=True), open("first").read(), sys.stdin.read())
os.system("echo once >>log")'
    printf '%s\n' 1 2 3 4 >"$BATS_TEST_TMPDIR/lines"
    for from in "cat $BATS_TEST_TMPDIR/lines |" "<$BATS_TEST_TMPDIR/lines" "</dev/null"; do
        rm -f "$PLAIN"/* "$RANKS"/*
        (cd "$PLAIN" && eval "${from%<*} /usr/bin/python3 ../program.py ${from#*|}") >"$PLAIN.out"
        (cd "$RANKS" && eval "${from%<*} \"\$ACCEL_RUN\" -n 2 --log-dir ../log /usr/bin/python3 ../program.py ${from#*|}") >"$RANKS.out"
        diff "$PLAIN.out" "$RANKS.out"
        diff "$PLAIN.out" "$BATS_TEST_TMPDIR/log/rank-1.out"
        diff -r "$PLAIN" "$RANKS"
    done
}

# ignored_by PROCESS: is SIGINT, the second bit?
ignored_by() {
    local mask
    mask=$(sed -n 's/^SigIgn:\t*//p' "/proc/$1/status") && [ $((0x${mask: -2} & 2)) -ne 0 ]
}

@test "while a command runs a Ctrl-C is nobody's on all ranks, as in one process, and the next one is the program's" {
    program '
os.system("echo begun >begun; while [ ! -e go ]; do sleep 0.05; done")
try:
    os.kill(os.getpid(), 2)
    train()
except KeyboardInterrupt:
    print("interrupted")'
    cd "$RANKS" || return 1
    env --default-signal=INT "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" >out 2>err 3>&- 4>&- &
    local job=$! rank
    retry 300 0.1 test -e begun
    for rank in $(pgrep -x -P "$job" python3); do retry 100 0.1 ignored_by "$rank"; done
    touch go
    wait "$job"
    [ "$(cat out)" = interrupted ]
}

@test "a signal that comes while a command runs is handled by all ranks after it, and what they save then is saved once" {
    program 'import signal, subprocess
def save(*_):
    with open("saved", "a") as file:
        file.write("saved\n")
signal.signal(signal.SIGUSR1, save)
for _ in range(3): train()
subprocess.run("echo begun >begun; while [ ! -e go ]; do sleep 0.05; done", shell=True)
for _ in range(3): train()
print("ended")'
    cd "$RANKS" || return 1
    "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" >out 2>err 3>&- 4>&- &
    local job=$!
    retry 300 0.1 test -e begun
    kill -USR1 "$job"
    sleep 2 # longer than signals are kept otherwise
    touch go
    wait "$job" || { show err && return 1; }
    [ "$(cat out saved)" = "$(printf 'ended\nsaved')" ]
}

@test "a command that takes longer than the deadline of the ranks is waited for; a rank that runs none is named at once" {
    program 'os.system("sleep 6"); print("went on"); train()'
    run -0 "$ACCEL_RUN" -n 2 --collective-timeout 4 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    contains "$output" "went on"
    program 'os.environ["ACCEL_RUN_RANK"] == "0" and os.system("true"); train()'
    run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -ne 0 ]
    contains "$output" AR-FILE-PARTED
    contains "$output" ") true'"
}

# warned_of RANKS TEXT: what the program's text leads to, on standard error
warned_of() {
    program "import subprocess; $2"
    cd "$RANKS" || return 1
    run -0 --separate-stderr "$ACCEL_RUN" -n "$1" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" </dev/null # what it reads is the caller's list
}

@test "a child that writes below every rank is told of, once, with its name and the file's" {
    unset ACCEL_RUN_SHIM
    export ACCEL_RUN_LOG_LEVEL=warn
    local who file statement count=0
    while read -r who file statement; do
        count=$((count + 1))
        warned_of 3 "$statement"
        [ "$(grep -c "AR-CHILD-WRITES: '$who', which is no rank, .* '$RANKS/$file'" <<<"$stderr")" -eq 1 ] || { echo "$statement: $stderr" >&2 && return 1; }
    done <<'STATEMENTS'
cp b open("a", "w").write("x"); subprocess.Popen(["cp", "a", "b"], stderr=subprocess.DEVNULL).wait()
sh log subprocess.Popen("for i in 1 2 3; do echo $i >>log; done", shell=True).wait()
sh .hidden/log os.mkdir(".hidden"); os.chdir(".hidden"); subprocess.Popen("echo 1 >log", shell=True).wait()
sh out os.popen("echo 1 >out").read()
python3 k subprocess.Popen([sys.executable, "-c", "open('k', 'a').write('x')"]).wait(); open("k").read()
mv c subprocess.run(["mv", "c", "d"], stderr=open("words", "w"))
python3 e subprocess.Popen([sys.executable, "-c", "open('e', 'w').write('x')"]).wait()
sh h thread = threading.Thread(target=lambda: os.system("echo x >h")); thread.start(); thread.join()
python3 f os.fork() and os.wait() or (open("f", "w").write("x"), os._exit(0))
STATEMENTS
    [ "$count" -eq 9 ]
}

@test "nothing is said of children that read, make folders, or write hidden, temporary and own files, nor below one rank" {
    unset ACCEL_RUN_SHIM
    export ACCEL_RUN_LOG_LEVEL=warn
    local statement count=0
    while read -r statement; do
        count=$((count + 1))
        warned_of 2 "$statement"
        lacks "$stderr" AR-CHILD-WRITES
    done <<'STATEMENTS'
subprocess.Popen("cat /etc/hostname >/dev/null; mkdir -p folder; echo >.hidden; echo | cat", shell=True).wait()
os.system("echo 1 >>log"); subprocess.run("echo 1 >>log", shell=True); open("more", "w").write("x")
import tempfile; folder = tempfile.mkdtemp(); subprocess.run(["cp", "/etc/hostname", folder]); subprocess.Popen(["rm", "-r", folder]).wait()
subprocess.Popen([sys.executable, "-c", "open('a.lock', 'w'); open('.hidden', 'w')"]).wait()
STATEMENTS
    [ "$count" -eq 4 ]
    warned_of 1 'subprocess.run("echo 1 >alone", shell=True)'
    lacks "$stderr" AR-CHILD-WRITES
}
