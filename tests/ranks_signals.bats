#!/usr/bin/env bats
# What signals the ranks get, and when; with tests/fake/claimer, which speaks as a shim would, and scripts. What a program's handlers do is signals.bats.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    launcher_setup_file
}

setup() {
    launcher_setup
}

# starts two ranks that write each signal they get, and waits until they are ready
spawn_listeners() {
    cat >listen <<'END'
#!/bin/bash
for s in INT TERM HUP QUIT USR1 USR2 ALRM VTALRM PROF IO PWR RTMIN+3; do trap "echo $s >>got.$ACCEL_RUN_RANK" $s; done
echo $$ >ready.$ACCEL_RUN_RANK
until [ -e leave ]; do read -r -t 0.05 <>fifo; done
exit 0
END
    mkfifo fifo
    chmod +x listen
    spawn_bg "$ACCEL_RUN" -n 2 ./listen
    await_files ready.0 ready.1
}

@test "signals are forwarded, each once, to each rank" {
    spawn_listeners
    for s in USR1 USR2 ALRM VTALRM PROF IO PWR RTMIN+3 HUP QUIT TERM INT; do
        kill -$s "$bg_pid"
        retry 100 0.05 grep -qx $s got.0
        retry 100 0.05 grep -qx $s got.1
    done
    touch leave
    wait_bg
    [ "$status" -eq 0 ]
    for rank in 0 1; do
        [ "$(sort got.$rank | uniq -d)" = "" ]
    done
}

@test "Ctrl-C ends a program as alone, without a word" {
    spawn_bg "$ACCEL_RUN" -n 2 "$CLAIMER" "touch=pid.%r" pause
    await_files pid.0 pid.1
    kill -INT "$bg_pid"
    job_ends
    [ "$status" -eq 130 ]
    [ ! -s err ]
    pids_are_gone "$(cat pid.0)" "$(cat pid.1)"
}

@test "the second Ctrl-C is SIGTERM, the third SIGKILL" {
    spawn_listeners
    kill -INT "$bg_pid"
    retry 100 0.05 grep -qx INT got.0
    kill -INT "$bg_pid"
    retry 100 0.05 grep -qx TERM got.0
    kill -INT "$bg_pid"
    job_ends
    [ "$status" -eq 130 ]
    [ "$(grep -cx INT got.0)" -eq 1 ]
}

has_lines() {
    [ "$(wc -l <"$1")" -eq "$2" ]
}

is_over() { # FILE SECONDS: is it that old?
    [ $(($(date +%s%N) - $(date -r "$1" +%s%N))) -gt $(($2 * 1000000000)) ]
}

@test "a Ctrl-C long after one that the program has handled is a first one again, where it trains on" {
    cat >handle <<'END'
trap "echo INT >>got.$ACCEL_RUN_RANK" INT
trap "echo TERM >>got.$ACCEL_RUN_RANK; exit 0" TERM
(trap '' INT; exec "$CLAIMER" claim meet step=1 touch=ready.%r await=go step=2 touch=further.%r await=leave) &
until [ -e leave ]; do read -r -t 0.05 <>fifo; done
exit 0
END
    mkfifo fifo
    export CLAIMER
    spawn_bg "$ACCEL_RUN" -n 2 --grace 1 bash handle
    await_files ready.0 ready.1
    kill -INT "$bg_pid"
    await_files got.0 got.1
    touch go
    await_files further.0 further.1
    retry 100 0.1 is_over further.0 1
    kill -INT "$bg_pid"
    for rank in 0 1; do retry 100 0.05 has_lines got.$rank 2; done
    touch leave
    job_ends
    [ "$status" -eq 0 ]
    rm leave go ready.* further.* got.*
    spawn_bg "$ACCEL_RUN" -n 2 --grace 1 bash handle # it does not go on
    await_files ready.0 ready.1
    kill -INT "$bg_pid"
    await_files got.0 got.1
    retry 100 0.1 is_over got.0 1
    kill -INT "$bg_pid"
    job_ends
    grep -qx TERM got.0
}

@test "what a script in the background trains next, long after a signal that the program before it has handled, is no leftover" {
    # shellcheck disable=SC2016 # for the inner shells
    spawn_bg "$ACCEL_RUN" -n 2 --grace 1 sh -c 'nohup sh -c "(trap \"\" TERM; exec \"\$0\" claim meet step=1 touch=ready.%r await=go step=2 touch=further.%r await=end)
        exec \"\$0\" touch=next.%r await=later claim meet touch=trained.%r" "$0" &' "$CLAIMER"
    await_files ready.0 ready.1
    kill -TERM "$bg_pid"
    touch go
    await_files further.0 further.1
    retry 100 0.1 is_over further.0 1
    touch end
    await_files next.0 next.1
    sleep 3 # longer than a leftover would have
    touch later
    job_ends
    [ "$status" -eq 0 ]
    [ -e trained.0 ]
    [ -e trained.1 ]
}

@test "SIGTERM to the launcher ends the ranks: 143" {
    spawn_bg "$ACCEL_RUN" -n 2 "$CLAIMER" "touch=pid.%r" pause
    await_files pid.0 pid.1
    kill -TERM "$bg_pid"
    job_ends
    [ "$status" -eq 143 ]
    pids_are_gone "$(cat pid.0)" "$(cat pid.1)"
}

@test "a rank that is stopped ends, too, when it is asked to" {
    for signal in TERM:143 INT:130; do
        rm -f pid.*
        spawn_bg "$ACCEL_RUN" -n 2 "$CLAIMER" "touch=pid.%r" pause
        await_files pid.0 pid.1
        kill -STOP "$(cat pid.1)"
        kill "-${signal%:*}" "$bg_pid"
        job_ends
        [ "$status" -eq "${signal#*:}" ]
    done
}

@test "nohup holds for the ranks too" {
    run -0 --separate-stderr sh -c "trap '' HUP; exec \"$ACCEL_RUN\" -n 2 sh -c 'kill -HUP \$\$; echo alive'"
    [ "$output" = alive ]
}

@test "signals that were ignored when accel-run began are ignored in the ranks, as they would be alone; blocked ones are not blocked" {
    # shellcheck disable=SC2054 # the commas are env's
    local begun=(env --default-signal=INT,QUIT,HUP env --block-signal=TERM --ignore-signal=TERM,PIPE,USR1)
    run -0 "${begun[@]}" sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status
    plain=$output
    run -0 --separate-stderr "${begun[@]}" "$ACCEL_RUN" -n 2 sed -n 's/^Sig\(Blk\|Ign\):[[:space:]]*//p' /proc/self/status
    # the standard signals: 32 and 33 are the C library's own and cannot be reset
    [ "${#lines[@]}" -eq 2 ]
    [ $((16#${lines[0]} & 0x7fffffff)) -eq 0 ]
    [ "${lines[1]}" = "$plain" ]
}

@test "a signal that was ignored when accel-run began does nothing to the job" {
    spawn_bg env --ignore-signal=USR1,TERM "$ACCEL_RUN" -n 2 "$CLAIMER" "touch=pid.%r" await=leave
    await_files pid.0 pid.1
    kill -USR1 "$bg_pid"
    kill -TERM "$bg_pid"
    touch leave
    wait_bg
    [ "$status" -eq 0 ]
}

state_of() {
    sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status"
}

is_stopped() {
    [ "$(state_of "$1")" = T ]
}

is_going() {
    ! is_stopped "$1"
}

@test "Ctrl-Z stops launcher and ranks, fg continues them" {
    spawn_job "$ACCEL_RUN" -n 2 "$CLAIMER" "touch=pid.%r" await=leave
    await_files pid.0 pid.1
    kill -TSTP "$job_pid"
    for pid in "$job_pid" "$(cat pid.0)" "$(cat pid.1)"; do retry 100 0.05 is_stopped "$pid"; done
    kill -CONT "$job_pid"
    for pid in "$job_pid" "$(cat pid.0)" "$(cat pid.1)"; do retry 100 0.05 is_going "$pid"; done
    touch leave
    wait_bg
    [ "$status" -eq 0 ]
}

@test "how long a job was stopped by Ctrl-Z is not taken from the time that ranks have to save in when they are told to end" {
    mkfifo fifo
    # shellcheck disable=SC2016 # for the inner shell
    spawn_job "$ACCEL_RUN" -n 2 --grace 3 bash -c 'trap "touch heard.$ACCEL_RUN_RANK" INT; trap "touch told.$ACCEL_RUN_RANK" TERM; echo $$ >pid.$ACCEL_RUN_RANK
        until [ -e go ]; do read -r -t 0.05 <>fifo; done; touch saved.$ACCEL_RUN_RANK; exit 0'
    await_files pid.0 pid.1
    kill -INT "$job_pid"
    await_files heard.0 heard.1
    kill -INT "$job_pid"
    await_files told.0 told.1
    kill -TSTP "$job_pid"
    for pid in "$job_pid" "$(cat pid.0)" "$(cat pid.1)"; do retry 100 0.05 is_stopped "$pid"; done
    retry 100 0.1 is_over told.1 4 # longer than the grace
    touch go
    kill -CONT "$job_pid"
    job_ends
    [ "$status" -eq 0 ]
    [ -e saved.0 ]
    [ -e saved.1 ]
}

@test "where nobody could let a job go on, Ctrl-Z does not stop it, as it does not stop the program alone" {
    spawn_bg setsid -w "$ACCEL_RUN" -n 2 "$CLAIMER" "touch=pid.%r" await=leave
    await_files pid.0 pid.1
    kill -TSTP "$(ps -o ppid= -p "$(cat pid.0)" | tr -d ' ')"
    touch leave
    wait_bg
    [ "$status" -eq 0 ]
}
