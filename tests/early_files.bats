#!/usr/bin/env bats
# What happens to files before a Python program imports torch: once, from the first file that it changes.
# Runs beside other files.
load helpers
load files

@test "Python: a folder chosen, runs counted, a log rotated, a data base filled, a thread, before torch is imported: once, and the plain run's tree" {
    both_builds early.py
}

@test "a thread whose first file falls before, into or behind the import of torch writes it once" {
    cat - >"$BATS_TEST_TMPDIR/program.py" <<'PYTHON'
import os, sys, threading, time
def beside():
    for number in range(int(sys.argv[2])):
        time.sleep(float(sys.argv[1]))
        with open("log", "a") as file:
            file.write("line\n")
thread = threading.Thread(target=beside)
thread.start()
import torch
torch.nn.Linear(4, 2)(torch.ones(8, 4)).sum().backward()
thread.join()
print(open("log").read())
PYTHON
    local delay
    for delay in 0.05 0.15 0.25 0.35; do
        rm -rf "$PLAIN" "$RANKS" "$LOG"
        mkdir "$PLAIN" "$RANKS"
        both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" $delay 2
        lacks "$(cat "$RANKS.err")" AR-FILE-BESIDE
    done
    rm -rf "$PLAIN" "$RANKS" "$LOG"
    mkdir "$PLAIN" "$RANKS"
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" 0.04 20
}

@test "a script's folders, locks and looks between its programs are each rank's, and so is what they find there" {
    cat - >"$BATS_TEST_TMPDIR/prepare.py" <<'PYTHON'
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
if not os.path.exists(sys.argv[1] + "/data"):
    with open(sys.argv[1] + "/data", "w") as file:
        file.write("prepared\n")
PYTHON
    cat - >"$BATS_TEST_TMPDIR/script.sh" <<'SCRIPT'
set -e
folder=$(mktemp -d)
/usr/bin/python3 "$1" "$folder"
cat "$folder/data"
rm -r "$folder"
exec 9>lock
flock 9
/usr/bin/python3 "$1" common
flock -u 9
cat common/data
/usr/bin/python3 "$1" once &
wait
cat once/data
/usr/bin/python3 "$2"
SCRIPT
    program 'print("trained")'
    both 2 bash "$BATS_TEST_TMPDIR/script.sh" "$BATS_TEST_TMPDIR/prepare.py" "$BATS_TEST_TMPDIR/program.py"
}

@test "what a script's program has made of its standard output before it imports torch is one file" {
    cat - >"$BATS_TEST_TMPDIR/program.py" <<'PYTHON'
import os
file = os.open("out.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.dup2(file, 1)
os.dup2(file, 2)
os.close(file)
import torch
torch.manual_seed(1)
model = torch.nn.Linear(4, 2)
for step in range(3):
    model(torch.randn(4, 4)).sum().backward()
    print(step, "x" * (os.getpid() % 7) * ("ACCEL_RUN_RANK" in os.environ and os.environ["ACCEL_RUN_RANK"] != "0"), flush=True)
os.write(2, b"end")
PYTHON
    printf '%s\n' '/usr/bin/python3 "$1"' true >"$BATS_TEST_TMPDIR/script.sh"
    both 2 bash "$BATS_TEST_TMPDIR/script.sh" "$BATS_TEST_TMPDIR/program.py"
}

@test "what a program has written stands there when it becomes another one, and what one that does not train has written also when it is killed" {
    cat - >"$BATS_TEST_TMPDIR/program.py" <<'PYTHON'
import os, sys
if sys.argv[1] == "late":
    import torch
    torch.nn.Linear(4, 2)
file = open("file", "w")
file.write("text\n")
file.flush()
os.kill(os.getpid(), 9) if sys.argv[1] == "killed" else os.execv("/bin/cat", ["cat", "file"])
PYTHON
    for when in early late; do
        both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" $when
    done
    (cd "$RANKS" && rm file && "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" killed) && return 1
    [ "$(cat "$RANKS/file")" = text ]
}

@test "a rank that ends while others wait for it at a file, before torch is imported, is named without waiting for the deadline" {
    printf '%s\n' 'import os, sys' 'sys.exit() if os.environ["ACCEL_RUN_RANK"] == "1" else open("file", "w")' >"$BATS_TEST_TMPDIR/program.py"
    cd "$RANKS"
    run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 125 ]
    contains "$output" "AR-RANK-EARLY: rank 1 finished at step 0, others did not: rank 0 waits for it"
    [ ! -e file ]
}

@test "what another Python program has started, and changes files before it imports torch, is told of, but not of a folder that is made" {
    printf '%s\n' 'import subprocess, sys' 'subprocess.run([sys.executable, sys.argv[1]], check=True)' >"$BATS_TEST_TMPDIR/starts.py"
    for change in 'sqlite3.connect("rows.db").execute("create table if not exists rows (a int)")' 'os.remove("old")' 'os.makedirs("out", exist_ok=True)'; do
        touch "$RANKS/old"
        printf '%s\n' 'import contextlib, os, sqlite3' 'with contextlib.suppress(OSError):' "    $change" 'import torch' \
            'torch.nn.Linear(4, 2)(torch.randn(4, 4)).sum().backward()' >"$BATS_TEST_TMPDIR/program.py"
        cd "$RANKS"
        run "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/starts.py" "$BATS_TEST_TMPDIR/program.py"
        [ "$status" -eq 0 ]
        case $change in
        *out*) lacks "$output" AR-FILE-EARLY ;;
        *) contains "$output" AR-FILE-EARLY ;;
        esac
    done
}
