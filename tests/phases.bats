#!/usr/bin/env bats
# kill -9 of a rank in every phase of training, with 2, 3 and 4 ranks: the job ends, the rank is named with what it did, nothing is left.
# Which rank it is differs from phase to phase and from N to N; `make soak` tries them all. C++, but for one test, whose ranks have the workers of a Python loader.
# Computes.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=300

setup_file() {
    unset ACCEL_RUN_SHIM ACCEL_RUN_LOG_LEVEL
    export OMP_NUM_THREADS=1
}

setup() {
    set_command debian-O2 faulty
    FAKE=$BUILD/fake
    mkdir -p "$FAKE"
    build_fake board board.c
    export ACCEL_TEST_MARK=$BATS_TEST_NAME.$$ # in the environment of every process of these jobs
    cd "$BATS_TEST_TMPDIR" || return 1
}

# run_job N argument...: faulty with N ranks in the background, in folder N
run_job() {
    local n=$1
    shift
    mkdir -p "$n"
    (cd "$n" && exec "$ACCEL_RUN" -n "$n" "${command[@]}" 2 "$@" >out 2>err 3>&- 4>&-) &
    job[n]=$!
}

# job_of_ends N SECONDS: the job of N ranks has that long; $status is its exit code
job_of_ends() {
    retry "${2}0" 0.1 pids_are_gone "${job[$1]}" || { show "$1/err" && return 1; }
    status=0
    wait "${job[$1]}" || status=$?
}

# job_killed N RANK WORDS [SECONDS]: the job of N ranks ends as it should when this rank is killed; a minute, if it has not been yet
job_killed() {
    local n=$1 status
    job_of_ends "$n" "${4:-60}"
    [ "$status" -eq 137 ] || { echo "$n ranks: exit status $status" >&2 && show "$n/err" && return 1; }
    grep -qE "AR-RANK-KILLED: rank $2 of $n .* killed by SIGKILL .*$3" "$n/err" || { show "$n/err" && return 1; }
    [ "$(grep -c 'accel-run: error' "$n/err")" -eq 1 ] || { show "$n/err" && return 1; }
}

marked_processes() {
    grep -lz "^ACCEL_TEST_MARK=$ACCEL_TEST_MARK\$" /proc/[0-9]*/environ 2>/dev/null | grep -vE "/($$|$BASHPID|self)/" || true
}

nobody_is_left() {
    local file pid
    for file in $(marked_processes); do # of its own commands none is left now
        pid=${file#/proc/} pid=${pid%/environ}
        ! pid_is_alive "$pid" || { echo "left: $pid $(cat "/proc/$pid/comm")" >&2 && return 1; }
    done
}

# killed PLACE STEP SHIFT WORDS: the victim does it itself, at the named place, with each of $tried ranks
tried=(2 3 4)
killed() {
    local n job=()
    for n in "${tried[@]}"; do
        run_job "$n" kill "$1" "$2" $(($3 % n))
    done
    for n in "${tried[@]}"; do
        job_killed "$n" $(($3 % n)) "$4"
    done
    nobody_is_left
}

# killed_waiting PLACE STEP PHASE SHIFT WORDS: the rank after the victim stays at PLACE for ever; the victim is killed when it waits for it in PHASE
killed_waiting() {
    local n job=() pid
    for n in 2 3 4; do
        run_job "$n" hang "$1" "$2" $((($4 + 1) % n))
    done
    for n in 2 3 4; do
        pid=$("$FAKE/board" "${job[n]}" $(($4 % n)) "$3" "$2")
        kill -9 "$pid"
    done
    for n in 2 3 4; do
        job_killed "$n" $(($4 % n)) "$5" 15 # three times what accel-run gives itself: a busy machine is slow
    done
    nobody_is_left
}

@test "kill -9 at the start, before libtorch is used" {
    killed start 1 1 ""
}

@test "kill -9 while reading a batch" {
    killed data 2 5 "between backward pass and next batch, step 2"
}

@test "kill -9 in the forward pass" {
    killed forward 2 3 "in the forward pass, step 2"
}

@test "kill -9 in the backward pass" {
    killed backward 2 1 "in the backward pass, step 2"
}

@test "kill -9 while gradients are reduced" {
    killed_waiting backward 2 4 0 "reducing gradients, step 2"
}

@test "kill -9 in a save: the file of the save before stands" {
    "${command[@]}" >plain
    mv model.pt plain.pt
    killed_waiting save 7 6 3 "writing a checkpoint, step 7"
    for n in 2 3 4; do
        [ "$(stat -c %s "$n/model.pt")" -eq "$(stat -c %s plain.pt)" ]
    done
}

@test "kill -9 in the evaluation" {
    killed evaluation 4 2 "step 4"
}

# killed_beside_workers BUILD: of faulty.py, each of whose ranks has two processes that read for it and persist
killed_beside_workers() {
    set_command "$1" faulty.py
    tried=(2)
    killed data 2 1 "between backward pass and next batch, step 2"
    killed backward 2 0 "in the backward pass, step 2"
    killed save 7 0 "writing a checkpoint, step 7" # by the writer, whose file is open
    python3 -m zipfile -t 2/model.pt
}

@test "kill -9 in Python, while a batch is read, in the backward pass and in a save: no worker of a loader is left, and the file of the save before stands" {
    alternate 0 killed_beside_workers
}

@test "an exit code of one rank ends the others, and it is named" {
    job=()
    for n in 2 4; do
        run_job "$n" exit forward 2 1
    done
    for n in 2 4; do
        job_of_ends "$n" 60
        [ "$status" -eq 7 ]
        grep -q "AR-RANK-FAILED: rank 1 of $n .* exit code 7, in the forward pass, step 2" "$n/err"
    done
    nobody_is_left
}

@test "what was printed before a stop by name, or before another rank died, is in the output" {
    "${command[@]}" 2 >plain
    for what in stop kill; do
        for n in 2 3; do
            "$ACCEL_RUN" -n "$n" "${command[@]}" 2 "$what" forward 3 1 buffered >out 2>err || true
            grep -qE "error AR-(WRITE|RANK-KILLED)" err || { show err && return 1; }
            "$COMPARE" <(head -2 plain) out
        done
    done
    cat >printed.py <<'PYTHON'
import torch
model = torch.nn.Linear(5, 3)
for step in range(3):
    model(torch.ones(8, 5)).sum().backward()
    print("step", step)
model(torch.ones(8, 5)).detach().resize_(3)
PYTHON
    "$ACCEL_RUN" -n 2 "$(python_of debian)" printed.py >out 2>err || true
    grep -q "error AR-WRITE" err
    [ "$(cat out)" = "$(printf 'step %d\n' 0 1 2)" ]
}

@test "a problem of rank 0 alone ends the job, though its program's own stream waits for ever as it is emptied" {
    mkfifo pipe
    cat >stuck.py <<'PYTHON'
import os, sys, threading, torch
model, lock = torch.nn.Linear(4, 3), threading.Lock()
class Tee:
    def write(self, text):
        return sys.__stdout__.write(text)
    def flush(self):
        with lock:
            sys.__stdout__.flush()
sys.stdout = Tee()
for step in range(3):
    with lock:
        if step == 1 and os.environ["ACCEL_RUN_RANK"] == "0":
            open("pipe")
    model(torch.ones(8, 4)).sum().backward()
PYTHON
    run -125 timeout 60 "$ACCEL_RUN" -n 2 "$(python_of debian)" stuck.py
    contains "$output" "error AR-PIPE: the pipe 'pipe' is opened for reading"
}
