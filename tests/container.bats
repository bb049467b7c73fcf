#!/usr/bin/env bats
# accel-run as the first process of a container. Computes.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=200

setup_file() {
    launcher_setup_file
    export OMP_NUM_THREADS=1
}

setup() {
    launcher_setup
}

pid_1() {
    env --default-signal=INT,QUIT timeout 60 unshare -pf --mount-proc "$@"
}

@test "as process 1 it reaps what others leave, ends strays, and gives the exit code" {
    requires root
    unshare -pf --mount-proc true || skip "no process name spaces"
    cat >orphans <<'END'
for i in 1 2 3 4 5; do (sh -c 'sh -c "echo >>ended; exit 3" &' &); done
until [ "$(wc -l <ended)" -eq 10 ]; do :; done # of two ranks
until [ "$(ps -e -o ppid= | grep -cx ' *1')" -eq 3 ]; do :; done # the guard and two ranks
while ps -e -o stat= | grep -q Z; do :; done
exit 4
END
    touch ended
    run -4 --separate-stderr pid_1 "$ACCEL_RUN" -n 2 sh orphans
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr pid_1 "$ACCEL_RUN" sh -c 'setsid sleep 1000 >/dev/null 2>&1 & sleep 0'
    contains "$stderr" "AR-STRAY"
}

@test "as process 1 it forwards signals and ends with their code" {
    requires root
    unshare -pf --mount-proc true || skip "no process name spaces"
    for signal in TERM:143 HUP:129 INT:130 QUIT:131 USR1:138; do
        rm -f pid.*
        spawn_bg unshare -pf --mount-proc "$ACCEL_RUN" -n 2 "$CLAIMER" claim meet touch=pid.%r pause
        await_files pid.0 pid.1
        kill "-${signal%:*}" "$(pgrep -P "$bg_pid" -x accel-run)"
        wait_bg
        [ "$status" -eq "${signal#*:}" ] || { echo "$signal: $status" && return 1; }
    done
}

@test "as process 1 it trains, names a rank that is killed, and ends one that a second Ctrl-C is for" {
    requires root
    unshare -pf --mount-proc true || skip "no process name spaces"
    for_training faulty
    "${command[@]}" >plain
    run -0 --separate-stderr pid_1 "$ACCEL_RUN" -n 2 "${command[@]}"
    "$COMPARE" plain <(printf '%s\n' "$output")
    run -137 --separate-stderr pid_1 "$ACCEL_RUN" -n 2 "${command[@]}" 2 kill backward 2 1
    contains "$stderr" "AR-RANK-KILLED: rank 1 of 2"
    spawn_bg unshare -pf --mount-proc "$ACCEL_RUN" -n 2 env --ignore-signal=INT "${command[@]}" 1000000
    retry 600 0.1 grep -q evaluation out
    pid=$(pgrep -P "$bg_pid" -x accel-run)
    mapfile -t rank_pids < <(pgrep -P "$pid" -x faulty)
    [ "${#rank_pids[@]}" -eq 2 ]
    kill -INT "$pid"
    retry 1000 0.01 is_taken "$pid" 2
    pid_is_alive "$pid"
    kill -INT "$pid"
    wait_bg
    [ "$status" -eq 130 ]
    pids_are_gone "${rank_pids[@]}"
}

is_listened_at() { # PORT
    grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A" /proc/net/tcp
}

@test "as process 1 it ends by a signal also while it waits for other hosts, to start or to refuse" {
    local port signal
    requires root
    unshare -pf --mount-proc true || skip "no process name spaces"
    port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
    for signal in TERM:143 HUP:129 INT:130 QUIT:131; do
        spawn_bg unshare -pf --mount-proc "$ACCEL_RUN" --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port "$port" --start-timeout 100 true
        retry 200 0.05 is_listened_at "$port"
        kill "-${signal%:*}" "$(pgrep -P "$bg_pid" -x accel-run)"
        job_ends
        [ "$status" -eq "${signal#*:}" ] || { echo "$signal: $status" && return 1; }
    done
    spawn_bg unshare -pf --mount-proc "$ACCEL_RUN" --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" --start-timeout 100 ./nowhere
    retry 200 0.05 grep -q AR-EXEC-NOT-FOUND err
    kill -INT "$(pgrep -P "$bg_pid" -x accel-run)"
    job_ends
    [ "$status" -eq 130 ]
}
