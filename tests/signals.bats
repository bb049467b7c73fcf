#!/usr/bin/env bats
# The program's handlers of signals run at the same step on all ranks; who waits for nobody is told at once.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=300

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    export OMP_NUM_THREADS=1
}

# tell SIGNAL RANKS command... FILE: the program is told so while it trains; it ends well, and all ranks have printed the same
tell() {
    local signal=$1 ranks=$2 rank
    shift 2
    rm -rf log
    spawn_bg "$ACCEL_RUN" -n "$ranks" --log-dir log "$@"
    retry 600 0.1 grep -qx begun out
    kill "-$signal" "$bg_pid"
    wait_bg
    for ((rank = 1; rank < ranks; rank++)); do
        diff log/rank-0.out "log/rank-$rank.out" >&2 || { show err && return 1; }
    done
}

# is_as_alone command...: what has been saved and printed is what one process has after as many steps
is_as_alone() {
    local steps
    steps=$(sed -n 's/^saved after \([0-9]*\) .*/\1/p' out)
    [ "$steps" -ge 20 ]
    "$@" until "$steps" alone >expected
    grep -vx interrupted out >got
    "$REPOSITORY/tests/compare" expected got >&2
}

@test "a Python program that saves when it is interrupted, or told to end while its workers load, saves the same step on all ranks" {
    local how=interrupt signal=INT python # each build of libtorch takes the next way
    for python in $(pythons); do
        tell "$signal" 2 "$python" "$REPOSITORY/tests/programs/told.py" "$how" file
        [ "$status" -eq 0 ] || { show err && return 1; }
        [ "$how" = workers ] || grep -qx interrupted out
        is_as_alone "$python" "$REPOSITORY/tests/programs/told.py"
        how=workers signal=TERM # its loader's workers, who have no handler, do not get it
    done
}

@test "Ctrl-C comes to a worker that the program has forked when the rank's own handler runs, not before" {
    local signal python # a loader would say that its worker has ended unexpectedly
    python=$(pythons | head -n 1)
    tell INT 2 "$python" "$REPOSITORY/tests/programs/told.py" worker file
    [ "$status" -eq 0 ] || { show err && return 1; }
    grep -qx "the worker is told then" out
    spawn_bg "$ACCEL_RUN" -n 2 "$python" "$REPOSITORY/tests/programs/told.py" worker file
    retry 600 0.1 grep -qx begun out
    for signal in STOP INT CONT; do # to every process of the job, at once; the sender is gone when a worker asks who it was
        pkill "-$signal" -f 'told[.]py worker file'
    done
    wait_bg
    [ "$status" -eq 0 ] || { show err && return 1; }
    grep -qx "the worker is told then" out
    "$ACCEL_RUN" -n 2 "$python" "$REPOSITORY/tests/programs/told.py" interrupts file >out
    [ "$(grep -cx "the worker has heard it" out)" -eq 2 ]
}

@test "a C++ program whose handler of SIGTERM sets a flag saves the same step on all ranks" {
    for build in $(builds); do
        tell TERM 3 "$BUILD/programs/$build/told" flag file
        [ "$status" -eq 0 ]
        is_as_alone "$BUILD/programs/$build/told"
    done
}

@test "a thread that waits for its signal is woken when the handler has run, at the same step: another thread trains, and has the signal blocked or not" {
    local how
    for how in suspended paused; do
        tell TERM 2 "$BUILD/programs/debian-O2/told" "$how" file
        [ "$status" -eq 0 ] || { show err && return 1; }
        is_as_alone "$BUILD/programs/debian-O2/told"
    done
}

@test "a handler that a C program sets before it loads its libtorch runs at the same step on all ranks" {
    for _ in 1 2 3; do
        tell TERM 2 "$BUILD/programs/debian-O2/told" early file
        [ "$status" -eq 0 ] || { show err && return 1; }
        is_as_alone "$BUILD/programs/debian-O2/told"
    done
}

@test "Python: a handler behind one of faulthandler's, which raises the signal again, runs too, once" {
    local python
    python=$(pythons | tail -n 1)
    tell TERM 2 "$python" "$REPOSITORY/tests/programs/told.py" chain file
    [ "$status" -eq 0 ] || { show err && return 1; }
    is_as_alone "$python" "$REPOSITORY/tests/programs/told.py"
}

@test "a signal that comes to each rank at another step is handled where the last one has it" {
    python=$(pythons | tail -n 1)
    "$ACCEL_RUN" -n 3 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" apart file >out 2>err || { show err && return 1; }
    diff log/rank-0.out log/rank-1.out
    diff log/rank-0.out log/rank-2.out
    [[ $(sed -n 's/^saved after \([0-9]*\) .*/\1/p' out) =~ ^3[678]$ ]]
}

@test "Python: a signal that comes while another thread trains beside the main thread is handled by that at the same step" {
    tell USR1 2 "$(pythons | head -n 1)" "$REPOSITORY/tests/programs/told_beside_threads.py" train
    [ "$status" -eq 0 ] || { show err && return 1; }
    grep "^left after" out
}

@test "Python: the main thread that waits for the one that trains is interrupted" {
    spawn_bg "$ACCEL_RUN" -n 2 "$(pythons | head -n 1)" "$REPOSITORY/tests/programs/told_beside_threads.py" wait
    retry 600 0.1 grep -qx begun out
    kill -INT "$bg_pid"
    wait_bg
    grep -Ex '(\[rank 1\] )?interrupted' out err # the first one ends the other
}

@test "a signal that somebody sends to every process of the job is one signal" {
    local python
    python=$(pythons | head -n 1)
    spawn_bg "$ACCEL_RUN" -n 3 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" interrupt "$BATS_TEST_TMPDIR/file"
    retry 600 0.1 grep -qx begun out
    pkill -INT -f "interrupt $BATS_TEST_TMPDIR/file"
    wait_bg
    [ "$status" -eq 0 ] || { show err && return 1; }
    [ "$(grep -cx interrupted out)" -eq 1 ]
    is_as_alone "$python" "$REPOSITORY/tests/programs/told.py"
    lacks "$(cat err)" AR-RANK
}

@test "a signal that somebody sends to one rank alone is for all: kill with the number that the program has written" {
    local python rank=0 signal=INT # each build of libtorch takes the next ones
    for python in $(pythons); do
        rm -rf log
        spawn_bg "$ACCEL_RUN" -n 3 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" interrupt file
        retry 600 0.1 grep -qx begun out
        find_ranks -x "python3*"
        kill "-$signal" "${rank_pids[$rank]}"
        wait_bg
        [ "$status" -eq 0 ] || { show err && return 1; }
        diff log/rank-0.out log/rank-1.out
        diff log/rank-0.out log/rank-2.out
        is_as_alone "$python" "$REPOSITORY/tests/programs/told.py"
        lacks "$(cat err)" AR-RANK
        rank=2 signal=TERM
    done
}

@test "a signal that somebody sends to a trainer that another Python program has started does not go to that one, of any rank" {
    local python=/usr/bin/python3 trainer
    cat >start.py <<'PYTHON'
import os, subprocess, sys
os.makedirs("kept", exist_ok=True)  # meets the other ranks'
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
PYTHON
    spawn_bg "$ACCEL_RUN" -n 2 --log-dir log "$python" start.py "$REPOSITORY/tests/programs/told.py" flag file
    retry 600 0.1 grep -qx begun out
    find_ranks -x "python3*"
    trainer=$(pgrep -P "${rank_pids[0]}")
    kill -USR1 "$trainer"
    wait_bg
    [ "$status" -eq 0 ] || { show err && return 1; }
    diff log/rank-0.out log/rank-1.out
    is_as_alone "$python" "$REPOSITORY/tests/programs/told.py"
}

@test "what one sender sends twice at once, as timeout does to its child and then to the group, is one signal" {
    local python twice='import os, sys, time
pid, end = int(sys.argv[1]), time.monotonic() + 0.0003
os.kill(pid, 15)
while time.monotonic() < end:
    pass
os.kill(pid, 15)
time.sleep(0.5)' # the rank looks who it is
    python=$(pythons | head -n 1)
    for _ in 1 2 3 4; do
        rm -rf log
        spawn_bg "$ACCEL_RUN" -n 2 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" flag file
        retry 600 0.1 grep -qx begun out
        find_ranks -x "python3*"
        "$python" -c "$twice" "${rank_pids[0]}"
        wait_bg
        [ "$status" -eq 0 ] || { show err && return 1; }
        diff log/rank-0.out log/rank-1.out
        is_as_alone "$python" "$REPOSITORY/tests/programs/told.py"
        lacks "$(cat err)" "Signal 15 ignored"
    done
}

@test "a signal that a child of the program sends comes to each rank once, from its own child" {
    python=$(pythons | tail -n 1)
    "$python" "$REPOSITORY/tests/programs/told.py" child file >expected
    run -0 --separate-stderr "$ACCEL_RUN" -n 3 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" child file
    "$REPOSITORY/tests/compare" expected log/rank-0.out
    "$REPOSITORY/tests/compare" expected log/rank-1.out
    "$REPOSITORY/tests/compare" expected log/rank-2.out
}

@test "where no collective follows a handler runs all the same, and at once when the signal comes again" {
    python=$(pythons | head -n 1)
    spawn_bg "$ACCEL_RUN" -n 2 "$python" "$REPOSITORY/tests/programs/told.py" waits file
    retry 600 0.1 grep -qx begun out
    kill -USR1 "$bg_pid"
    retry 200 0.1 grep -qx "told 1" out
    kill -USR1 "$bg_pid"
    wait_bg
    [ "$status" -eq 0 ]
    grep -qx "told 2" out
}

@test "a program is shown the handlers that it has set, and each is called as it was set" {
    for build in $(builds); do
        [ "$("$BUILD/programs/$build/told" handlers)" = "handlers are right" ]
        run -0 --separate-stderr "$ACCEL_RUN" -n 2 "$BUILD/programs/$build/told" handlers
        [ "$output" = "handlers are right" ]
    done
}

@test "what a program sends to itself comes at once, and an alarm that it has stopped does not come" {
    python=$(pythons | head -n 1)
    setsid -w "$python" "$REPOSITORY/tests/programs/told.py" itself file >expected
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" itself file
    "$REPOSITORY/tests/compare" expected log/rank-0.out
    "$REPOSITORY/tests/compare" expected log/rank-1.out
}

@test "Python: a signal that comes before the program takes its handler back is handled by that, and what it raises is raised" {
    local python
    for python in $(pythons); do
        "$python" "$REPOSITORY/tests/programs/told.py" restores file >expected
        run -0 --separate-stderr "$ACCEL_RUN" -n 2 --log-dir log "$python" "$REPOSITORY/tests/programs/told.py" restores file
        "$REPOSITORY/tests/compare" expected log/rank-0.out
        "$REPOSITORY/tests/compare" expected log/rank-1.out
        lacks "$stderr" "race condition"
    done
}

@test "a script around the program dies of a signal to end at once: the program still saves, and the job ends with it" {
    cat >train.sh <<'EOF'
"$1" "$REPOSITORY/tests/programs/told.py" flag file
echo "not reached"
EOF
    export REPOSITORY
    tell TERM 2 bash train.sh "$(pythons | head -n 1)"
    [ "$status" -eq 143 ]
    is_as_alone "$(pythons | head -n 1)" "$REPOSITORY/tests/programs/told.py"
}
