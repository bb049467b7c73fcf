# Shared by the tests of files: a program run plainly and with ranks, and what it printed and left compared.
# shellcheck shell=bash

export FILES=$BUILD/programs/debian-O2/files
export OMP_NUM_THREADS=1
export BATS_TEST_TIMEOUT=300

setup() {
    PLAIN=$BATS_TEST_TMPDIR/plain RANKS=$BATS_TEST_TMPDIR/ranks LOG=$BATS_TEST_TMPDIR/log
    mkdir "$PLAIN" "$RANKS"
}

# both RANKS command...: plain in $PLAIN, with ranks in $RANKS; the same output on every rank, and the same tree of files with the same bytes
both() {
    local ranks=$1 rank
    shift
    (cd "$PLAIN" && "$@") >"$PLAIN.out" 2>"$PLAIN.err" || { show "$PLAIN.err" && return 1; }
    (cd "$RANKS" && "$ACCEL_RUN" -n "$ranks" --log-dir "$LOG" "$@") >"$RANKS.out" 2>"$RANKS.err" || { show "$RANKS.err" && return 1; }
    diff "$PLAIN.out" "$RANKS.out" >&2
    for ((rank = 0; rank < ranks; rank++)); do diff "$PLAIN.out" "$LOG/rank-$rank.out" >&2; done
    diff -r --no-dereference "$PLAIN" "$RANKS" >&2
}

# both_builds NAME: a program of tests/programs, with three ranks of the one build and two of the other
both_builds() {
    both 3 /usr/bin/python3 "$BATS_TEST_DIRNAME/programs/$1"
    [ ! -x "$BUILD/venv/bin/python" ] || {
        rm -rf "$PLAIN" "$RANKS" "$LOG"
        mkdir "$PLAIN" "$RANKS"
        both 2 "$BUILD/venv/bin/python" "$BATS_TEST_DIRNAME/programs/$1"
    }
}

# one_build NAME: with three ranks of the build whose import takes a third of the other's, where the libtorch that is there decides nothing: what is compared are
# files of Python. `make check-matrix` runs these programs on each build.
one_build() {
    both 3 /usr/bin/python3 "$BATS_TEST_DIRNAME/programs/$1"
}

# memory_by_name RUN...: runs shared_memory.py so, beside memory that was there before; nothing of the ranks' is left
memory_by_name() {
    export ACCEL_TEST_BEFORE=accel_test_before_$$
    printf 'there before' | tee "/dev/shm/$ACCEL_TEST_BEFORE" >"/dev/shm/torch_1_$ACCEL_TEST_BEFORE"
    "$@" shared_memory.py
    rm -r "/dev/shm/$ACCEL_TEST_BEFORE"* "/dev/shm/torch_1_$ACCEL_TEST_BEFORE"
    [ -z "$(find /dev/shm -name '*accel_test_*.accel-run-*')" ]
}

# program TEXT: a Python program of a few lines, after a model has been made and trained a step
program() {
    cat - >"$BATS_TEST_TMPDIR/program.py" <<'PYTHON'
import os, sys, threading, torch
torch.manual_seed(1)
model = torch.nn.Linear(4, 3)
def train():
    model(torch.randn(8, 4)).pow(2).mean().backward()
train()
PYTHON
    cat - >>"$BATS_TEST_TMPDIR/program.py" <<<"$1"
}
