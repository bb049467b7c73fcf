#!/usr/bin/env bats
# One file of each: the plain run's, whole at any moment, there when the save returns.
# Runs beside other files.
load helpers
export OMP_NUM_THREADS=1

setup() {
    PLAIN=$BATS_TEST_TMPDIR/plain RANKS=$BATS_TEST_TMPDIR/ranks
    mkdir "$PLAIN" "$RANKS"
}

# both command... FILE: plain in $PLAIN, with two ranks in $RANKS; all outputs must be the same
both() {
    local file=${*: -1}
    set -- "${@:1:$#-1}"
    "$@" "$PLAIN/$file" >"$PLAIN.out" 2>"$PLAIN.err" || { show "$PLAIN.err" && return 1; }
    rm -rf "$BATS_TEST_TMPDIR/log"
    "$ACCEL_RUN" -n 2 --log-dir "$BATS_TEST_TMPDIR/log" "$@" "$RANKS/$file" >"$RANKS.out" 2>"$RANKS.err" || { show "$RANKS.err" && return 1; }
    diff "$PLAIN.out" "$RANKS.out" >&2
    diff "$RANKS.out" "$BATS_TEST_TMPDIR/log/rank-1.out" >&2
}

# only NAME...: the directory of the ranks holds these files and nothing else
only() {
    [ "$(cd "$RANKS" && find . -mindepth 1 | sort)" = "$(printf './%s\n' "$@" | sort)" ] || {
        ls -lA "$RANKS" >&2
        return 1
    }
}

# a file of 64 MiB does not fit, the shared memory of two ranks does
FILE_LIMIT=32768

@test "every way to save: read back by all ranks, the plain run's output, one file" {
    for build in $(builds); do
        for mode in model optimizer output script stream again; do
            both "$BUILD/programs/$build/save_modes" $mode file.pt
            only file.pt
        done
        both "$BUILD/programs/$build/save_modes" function file.pt
    done
}

@test "nothing but the file appears while it is saved, so that nothing else is there after a kill" {
    "$(python_of debian)" -c 'import os; os.open(".", os.O_TMPFILE | os.O_WRONLY)' || skip "this file system has no files without a name"
    for build in $(builds); do
        both "$BUILD/programs/$build/save_modes" watched file.pt
        contains "$(cat "$RANKS.out")" "appeared: file.pt"
        rm "$PLAIN/file.pt" "$RANKS/file.pt"
    done
}

@test "names that no two processes have, temporary ones, with the time, with the process number, are saved to as in one process" {
    local python n numbers=(3) folder=$BATS_TEST_TMPDIR/saved
    python=$(python_of "${MATRIX_BUILD:-debian}") # names hang on no build
    [ -z "${MATRIX_BUILD-}" ] || numbers=(2 3)
    for n in "${numbers[@]}"; do
        mkdir "$folder"
        cd "$folder"
        "$python" "$REPOSITORY/tests/programs/save_names.py" >../plain.out
        rm -r runs checkpoint.pt
        "$ACCEL_RUN" -n "$n" "$python" "$REPOSITORY/tests/programs/save_names.py" >../ranks.out 2>../ranks.err || { show ../ranks.err && return 1; }
        diff ../plain.out ../ranks.out
        [ "$(find . -type f | wc -l)" -eq 2 ]
        cd ..
        rm -r "$folder"
    done
}

@test "the file has the plain run's bytes where the values are the same, and its permissions" {
    umask 027
    for build in $(builds); do
        both "$BUILD/programs/$build/save_modes" large file.name.pt
        cmp "$PLAIN/file.name.pt" "$RANKS/file.name.pt"
        [ "$(stat -c %a "$RANKS/file.name.pt")" = 640 ]
        chmod 604 "$RANKS/file.name.pt"
        both "$BUILD/programs/$build/save_modes" large file.name.pt
        [ "$(stat -c %a "$RANKS/file.name.pt")" = 604 ]
        rm "$RANKS/file.name.pt"
    done
}

@test "a file that the plain run left is read by the ranks, and the other way round" {
    modes=$BUILD/programs/${MATRIX_BUILD:-debian}-O2/save_modes
    python=$(python_of "${MATRIX_BUILD:-debian}")
    both "$modes" model file.pt
    cat >"$BATS_TEST_TMPDIR/sizes.py" <<'PYTHON'
import sys, torch
print([list(value.shape) for value in torch.jit.load(sys.argv[1]).parameters()])
PYTHON
    [ "$("$python" "$BATS_TEST_TMPDIR/sizes.py" "$PLAIN/file.pt")" = "$("$python" "$BATS_TEST_TMPDIR/sizes.py" "$RANKS/file.pt")" ]
}

@test "Python's torch.save by name" {
    for python in $(pythons); do
        both "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" file.pt
        only file.pt
        cp "$RANKS/file.pt" "$BATS_TEST_TMPDIR/old.pt"
        "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" "$RANKS/file.pt" large
        "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" "$PLAIN/file.pt" large
        cmp "$PLAIN/file.pt" "$RANKS/file.pt"
    done
}

# One process writes; the others come to the reading when it has closed the file.
@test "Python's torch.save to a file object that is read back" {
    python=$(python_of "${MATRIX_BUILD:-debian}") # it is Python that writes
    (cd "$PLAIN" && "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" file.pt objects) >"$PLAIN.out"
    (cd "$RANKS" && "$ACCEL_RUN" -n 3 "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" file.pt objects) >"$RANKS.out"
    "$REPOSITORY/tests/compare" "$PLAIN.out" "$RANKS.out"
    only file.pt
}

# The other ranks pickle their own number when rank 0's file is complete: a rank that writes to the file by itself leaves it there.
@test "a link to a checkpoint that has been removed: the save makes the file that it names, once, and the link stays" {
    local build folder
    cat >"$BATS_TEST_TMPDIR/pruned.py" <<'PYTHON'
import os, sys, time, zipfile, torch
os.chdir(os.path.dirname(sys.argv[1]))
class Told:
    def __reduce__(self):
        rank, tries = os.environ.get("ACCEL_RUN_RANK", "0"), 200
        while rank != "0" and tries and not zipfile.is_zipfile("kept/epoch_3.pt"):
            time.sleep(0.05)
            tries -= 1
        return int, (rank,)
model = torch.nn.Linear(4, 2)
model(torch.randn(8, 4)).sum().backward()
os.mkdir("kept")
os.symlink("../kept/epoch_3.pt", "kept/latest.pt")
os.symlink("kept/latest.pt", "last.pt")
torch.save({"model": model.state_dict(), "told": Told()}, "last.pt")
print(os.readlink("last.pt"), os.readlink("kept/latest.pt"), sorted(os.listdir()), sorted(os.listdir("kept")))
more = {"weights_only": False} if torch.__version__ >= "2" else {}
print(torch.load("kept/epoch_3.pt", **more)["told"])
PYTHON
    both "$(python_of "${MATRIX_BUILD:-debian}")" "$BATS_TEST_TMPDIR/pruned.py" file.pt
    rm -r "${PLAIN:?}"/* "${RANKS:?}"/*
    for build in $(builds); do
        for folder in "$PLAIN" "$RANKS"; do
            ln -sf epoch_3.pt "$folder/file.pt"
            rm -f "$folder/epoch_3.pt"
        done
        both "$BUILD/programs/$build/save_modes" model file.pt
        only epoch_3.pt file.pt
    done
}

@test "a save that cannot begin fails on all ranks with libtorch's own message" {
    for build in $(builds); do
        both "$BUILD/programs/$build/save_modes" caught missing/file.pt
        contains "$(cat "$RANKS.out")" "not saved"
    done
    python=$(python_of "${MATRIX_BUILD:-debian}")
    (cd "$PLAIN" && "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" missing/file.pt >"$PLAIN.out")
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" missing/file.pt >"$RANKS.out")
    diff "$PLAIN.out" "$RANKS.out" >&2
}

@test "a save in a folder that was removed fails on all ranks with one message, which names no file of ours" {
    cat >"$RANKS/removed.py" <<'EOF'
import torch
torch.save(torch.ones(2), "new.pt")
EOF
    mkdir "$RANKS/here"
    (cd "$RANKS/here" && rmdir "$RANKS/here" && "$ACCEL_RUN" -n 2 "$(python_of debian)" "$RANKS/removed.py" 2>"$RANKS.err") && return 1
    contains "$(cat "$RANKS.err")" "new.pt cannot be opened"
    lacks "$(cat "$RANKS.err")" /dev/null
}

@test "rank 0 is killed while it writes: the old file is there, and nothing else" {
    for build in $(builds); do
        echo old >"$RANKS/file.pt"
        (ulimit -c 0 && ulimit -f $FILE_LIMIT && "$ACCEL_RUN" -n 2 "$BUILD/programs/$build/save_modes" caught "$RANKS/file.pt") >"$RANKS.out" 2>&1 && return 1
        contains "$(cat "$RANKS.out")" SIGXFSZ
        [ "$(cat "$RANKS/file.pt")" = old ]
        only file.pt
    done
}

@test "a disk that is full fails the save on all ranks, the program may go on, and the old file is there" {
    local python
    python=$(python_of "${MATRIX_BUILD:-wheel}")
    requires file "$python"
    "$python" -c 'import sys, torch; sys.exit(torch.__version__.startswith("1."))' || skip "1.13 ends the process instead, as the plain run does"
    echo old >"$RANKS/file.pt"
    (trap '' XFSZ && ulimit -f $FILE_LIMIT &&
        "$ACCEL_RUN" -n 2 --log-dir "$BATS_TEST_TMPDIR/log" "$python" "$BATS_TEST_DIRNAME/programs/save_python.py" "$RANKS/file.pt" large) >"$RANKS.out"
    for rank in 0 1; do
        contains "$(cat "$BATS_TEST_TMPDIR/log/rank-$rank.out")" "not saved"
        contains "$(cat "$BATS_TEST_TMPDIR/log/rank-$rank.out")" "weight: sum"
    done
    [ "$(cat "$RANKS/file.pt")" = old ]
    only file.pt
}

@test "what a killed job left behind is removed by the next save to that file, what a living one is writing is not" {
    requires command flock
    touch "$RANKS/file.accel-0123abcd" "$RANKS/file.accel-89abcdef" "$RANKS/other.accel-0123abcd" "$RANKS/file.accel-notes"
    exec 9<"$RANKS/file.accel-89abcdef"
    flock -x 9
    both "$BUILD/programs/${MATRIX_BUILD:-debian}-O2/save_modes" model file.pt 9>&-
    exec 9>&-
    only file.pt file.accel-89abcdef other.accel-0123abcd file.accel-notes
}

@test "devices, links and files of two names are written as the plain run writes them" {
    modes=$BUILD/programs/${MATRIX_BUILD:-debian}-O2/save_modes
    "$ACCEL_RUN" -n 2 "$modes" again /dev/null
    [ -c /dev/null ]
    echo old >"$RANKS/target.pt"
    ln -s target.pt "$RANKS/link.pt"
    both "$modes" model link.pt
    [ -L "$RANKS/link.pt" ]
    [ "$(stat -c %s "$RANKS/target.pt")" -gt 100 ]
    ln "$RANKS/target.pt" "$RANKS/second.pt"
    both "$modes" output second.pt
    [ "$RANKS/target.pt" -ef "$RANKS/second.pt" ]
    only target.pt link.pt second.pt
}

# saves_slowly [VARIABLE=VALUE]: on a disk that is slower than the deadline for rank 0; the others wait for it
saves_slowly() {
    FAKE=$BUILD/fake
    mkdir -p "$FAKE"
    build_fake slow_disk.so -shared -fPIC slow_disk.c
    run env LD_PRELOAD="$FAKE/slow_disk.so" "$@" "$ACCEL_RUN" -n 2 --collective-timeout 4 --stall-timeout 3 "$(python_of debian)" \
        "$REPOSITORY/tests/programs/held_up.py" saves "$RANKS/model.pt" 2>&1
}

@test "a checkpoint that takes a slow disk longer than the deadline is waited for: by libtorch's own save and by the program's file" {
    saves_slowly
    [ "$status" -eq 0 ]
    contains "$output" "it is writing to a disk"
    lacks "$output" TIMEOUT
    contains "$output" "True 7.0"
    only model.pt model.pt.again
}

@test "so is another rank, whose copy of what the program writes goes to a slower disk" {
    saves_slowly SLOW_DISK_RANK=1
    [ "$status" -eq 0 ]
    lacks "$output" TIMEOUT
    contains "$output" "True 7.0"
    only model.pt model.pt.again
}

@test "a checkpoint that does not get on at all ends the job at the deadline" {
    saves_slowly SLOW_DISK_HANGS=yes
    [ "$status" -eq 125 ]
    contains "$output" "AR-COLLECTIVE-TIMEOUT: rank 0 has not come (saving a checkpoint"
    [ -z "$(ls -A "$RANKS")" ]
}

@test "a save that cannot be opened on rank 0 alone, at its limit of descriptors, fails on all: no file is made" {
    cd "$RANKS" || return 1
    cat >limit.py <<'EOF'
import os, resource, torch
model, rows = torch.nn.Linear(4, 2), torch.randn(8, 4)
model(rows).sum().backward()
if os.environ.get("ACCEL_RUN_RANK", "0") == "0":
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    torch.save(model.state_dict(), "new.pt")
    print("saved")
except (OSError, RuntimeError):
    print("failed")
model(rows).sum().backward()
EOF
    "$(python_of debian)" limit.py >alone
    "$ACCEL_RUN" -n 3 "$(python_of debian)" limit.py >out
    diff alone out
    [ ! -e new.pt ]
}
