#!/usr/bin/env bats
# What happens when something goes wrong while real ranks train: the job ends, the culprit is named, nothing is left.
# Computes.
bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=300

setup() {
    requires file "$BUILD/data/fashion/train-images-idx3-ubyte"
    cd "$BATS_TEST_TMPDIR" || return 1
    export OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR/tmp # where nothing but this test's jobs has files
    mkdir -p "$TMPDIR"
}

# A long training run in the background, one line of output per report; returns when it has printed its first line, so every rank trains.
start_training() {
    set_command debian-O2 fashion
    command=("${command[0]}" "$BUILD/data/fashion" 20 60000 model.pt)
    "${spawn:-spawn_bg}" "$ACCEL_RUN" "$@" "${command[@]}"
    retry 600 0.1 has_output
    find_ranks -x fashion
}

has_output() {
    [ -s "$BATS_TEST_TMPDIR/out" ]
}

has_grown_since() { # BYTES
    [ "$(stat -c %s out)" -gt "$1" ]
}

# what all share has nothing with the job's name: the guard removes it, a moment after the launcher has ended
shares_nothing() {
    [ -z "$(find /dev/shm /tmp "$TMPDIR" -maxdepth 1 -name "*accel-run-$job_pid-*")" ]
}

nothing_is_left() {
    wait_pids_gone "${rank_pids[@]}" "$bg_pid"
    retry 50 0.1 shares_nothing
    [ -z "$(ls "$TMPDIR")" ]
    [ -z "$(find . -name '*.accel*')" ]
}

@test "kill -9 of any rank ends the job, with the rank named and nothing left" {
    for victim in 0 1 2; do
        rm -f out err
        start_training -n 3
        [ "${#rank_pids[@]}" -eq 3 ]
        kill -9 "${rank_pids[$victim]}"
        job_ends 5
        [ "$status" -eq 137 ]
        grep -q "AR-RANK-KILLED: rank $victim of 3 .* killed by SIGKILL" err
        nothing_is_left
    done
}

@test "SIGTERM to the launcher ends all ranks" {
    start_training -n 2
    kill -TERM "$bg_pid"
    job_ends
    [ "$status" -eq 143 ]
    nothing_is_left
}

@test "Ctrl-C ends all ranks" {
    start_training -n 2
    kill -INT "$bg_pid"
    job_ends
    [ "$status" -eq 130 ]
    nothing_is_left
}

@test "kill -9 of the launcher leaves no rank" {
    start_training -n 2
    kill -9 "$bg_pid"
    job_ends
    nothing_is_left
}

@test "a stopped rank is named with what it does, and the job goes on when it is continued" {
    start_training -n 2 --stall-timeout 1
    kill -STOP "${rank_pids[1]}"
    retry 200 0.1 grep -q "rank 1" err
    kill -CONT "${rank_pids[1]}"
    retry 300 0.1 has_grown_since "$(stat -c %s out)"
    kill -TERM "$bg_pid"
    job_ends
    nothing_is_left
}

@test "a rank that is stopped for ever ends the job at the deadline of a collective, by name" {
    start_training -n 2 --collective-timeout 2
    kill -STOP "${rank_pids[1]}"
    job_ends
    [ "$status" -eq 125 ]
    grep -q "AR-COLLECTIVE-TIMEOUT" err
    grep -q "rank 1" err
    nothing_is_left
}

@test "a job that is suspended for longer than its deadlines, by Ctrl-Z or a job scheduler, goes on: nobody was late" {
    spawn=spawn_job start_training -n 2 --collective-timeout 6 --stall-timeout 6
    kill -STOP "${rank_pids[1]}" # so that rank 0 waits
    is_asleep() {
        grep -q '^State:.S' "/proc/${rank_pids[0]}/status"
    }
    retry 50 0.1 is_asleep
    kill -TSTP "$job_pid"
    sleep 7 # that long they are stopped
    kill -CONT "$job_pid"
    retry 300 0.1 has_grown_since "$(stat -c %s out)"
    lacks "$(sed /AR-CORES/d err)" AR-
    kill -STOP "$job_pid" "${rank_pids[@]}"
    sleep 7
    kill -CONT "$job_pid" "${rank_pids[@]}"
    retry 300 0.1 has_grown_since "$(stat -c %s out)"
    lacks "$(sed /AR-CORES/d err)" AR-
    kill -TERM "$job_pid"
    job_ends
    nothing_is_left
}

# start_unread accel-run-option...: a program that prints more than anybody reads; returns when accel-run has said so
start_unread() {
    set_command debian-O2 held_up.py
    mkfifo unread
    exec 9<>unread
    "$ACCEL_RUN" -n 2 "$@" "${command[@]}" prints >unread 2>err 3>&- 4>&- 9>&- &
    bg_pid=$! job_pid=$!
    retry 600 0.1 grep -q "AR-RANK-STALLED.*its output is not being read" err
}

read_on() {
    cat unread >out 9>&- &
    reader=$!
    retry 100 0.1 has_output
    exec 9>&- # now the reader sees the end
}

@test "output that nobody reads for longer than the deadline holds the program up, as alone, and does not end it" {
    start_unread --collective-timeout 4 --stall-timeout 8
    read_on
    wait_bg
    [ "$status" -eq 0 ]
    lacks "$(cat err)" AR-COLLECTIVE-TIMEOUT
    wait "$reader" # not for all: bats has a child of its own here
    "${command[@]}" prints >plain
    "$COMPARE" --quiet plain out
}

@test "a rank that hangs ends the job at the deadline also where the output was not read before" {
    start_unread --collective-timeout 4 --stall-timeout 8
    find_ranks
    kill -STOP "${rank_pids[1]}"
    read_on
    wait_bg
    [ "$status" -eq 125 ]
    grep -q "AR-COLLECTIVE-TIMEOUT.*rank 1 has not come" err
    wait_pids_gone "${rank_pids[@]}"
}

@test "a program that throws out of main ends like alone, without a hang" {
    set_command debian-O2 throws
    "${command[@]}" fatal >plain.out 2>plain.err && false
    plain_status=$?
    run --separate-stderr "$ACCEL_RUN" -n 2 "${command[@]}" fatal
    [ "$status" -eq "$plain_status" ]
    [ "$output" = "$(cat plain.out)" ]
    contains "$stderr" "$(grep -o 'what():.\{1,30\}' plain.err | head -n 1)"
}

@test "a second job on the same machine is another job" {
    set_command debian-O2 mlp_loader
    "${command[@]}" >plain
    "$ACCEL_RUN" -n 2 "${command[@]}" >one 2>err.one 3>&- &
    first=$!
    "$ACCEL_RUN" -n 2 "${command[@]}" >two 2>err.two
    wait "$first"
    "$COMPARE" plain one
    "$COMPARE" plain two
}
