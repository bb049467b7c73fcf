#!/usr/bin/env bats
# The ranks' lives, with tests/fake/claimer, which speaks as a shim would: claims, ends, stalls, what they leave behind.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    launcher_setup_file
}

setup() {
    launcher_setup
}

# ---- claims

@test "each rank is granted once, with the facts of the job" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 --collective-timeout 7 --explain --log-level debug "$CLAIMER" claim granted meet
    [[ $output =~ ^"rank 0 of 2, segment "[0-9]+", cores "[0-9]+", timeout 7000 ms, flags 1, level 3"$ ]]
    contains "$stderr" "[rank 1] rank 1 of 2"
}

@test "a second claim is denied while the first lives, and granted after it" {
    run -0 --separate-stderr "$ACCEL_RUN" sh -c "\"$CLAIMER\" claim touch=first await=second & \"$CLAIMER\" await=first claim; touch second; wait; \"$CLAIMER\" claim && echo again"
    contains "$output" "denied: another process is this rank"
    contains "$output" "again"
}

@test "a shim of another version ends the job: it would train alone" {
    for claim in claim old; do
        run -125 --separate-stderr "$ACCEL_RUN" "$CLAIMER" version=14 $claim
        contains "$stderr" "AR-VERSION"
    done
}

@test "wrong cookie, wrong rank, half a claim, a lie about lengths: denied, and the job goes on" {
    for wrong in cookie=00000000000000000000000000000000 rank=9 "cookie=00000000000000000000000000000000 version=99"; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr "$ACCEL_RUN" sh -c "\"$CLAIMER\" $wrong claim; \"$CLAIMER\" claim && echo fine"
        contains "$output" "denied:"
        contains "$output" "fine"
    done
    run -0 --separate-stderr "$ACCEL_RUN" sh -c "\"$CLAIMER\" malformed; \"$CLAIMER\" short; \"$CLAIMER\" claim && echo fine"
    contains "$output" "fine"
    [ "$(grep -c denied <<<"$output")" -eq 2 ]
}

@test "the process of another user is not listened to, whatever secret it has, and the rank's own is" {
    requires root
    requires command setpriv
    chmod 755 "$T" "$FAKE" "$CLAIMER"
    local other="setpriv --reuid 65534 --clear-groups"
    requires reach
    run -0 --separate-stderr "$ACCEL_RUN" sh -c "$other \"$CLAIMER\" claim out:heard; \"$CLAIMER\" claim out:own"
    lacks "$output" heard
    contains "$output" own
    # which of them is the kernel's: it may have been hung up on before it has sent its claim
    [[ $output == *"denied: closed"* || $stderr == *"send: Broken pipe"* || $stderr == *"send: Connection reset"* ]]
}

@test "what several ranks say is printed once; what one says carries its name" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 3 "$CLAIMER" claim log:w:together only=2 "log:w:two alone" all only=0 "log:i:zero alone" all meet
    [ "$(grep -c together <<<"$stderr")" -eq 1 ]
    contains "$stderr" "accel-run: warning: together"
    contains "$stderr" "accel-run[rank 2]: warning: two alone"
    contains "$stderr" "accel-run: zero alone"
}

@test "a problem stops the job with its cure: 125" {
    run -125 --separate-stderr "$ACCEL_RUN" -n 3 "$CLAIMER" claim meet only=1 "problem:AR-TEST:something is wrong:do that" all pause
    contains "$stderr" "accel-run: error AR-TEST: something is wrong"
    contains "$stderr" "  what to do: do that"
    [ "$(grep -c "AR-" <<<"$stderr")" -eq 1 ]
}

@test "what a rank's forked child cannot do stops the job, whatever the rank does; a stranger's word does not" {
    run -125 --separate-stderr "$ACCEL_RUN" -n 2 "$CLAIMER" claim meet only=1 "child:AR-TEST:the child is stuck:do that" all pause
    contains "$stderr" "accel-run: error AR-TEST: the child is stuck"
    for wrong in cookie=00000000000000000000000000000000 rank=9 version=99; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr "$ACCEL_RUN" "$CLAIMER" claim $wrong child:AR-TEST:stuck:none out:fine
        [ "$output" = fine ]
        lacks "$stderr" AR-TEST
    done
}

@test "programs one after the other in the same script find clean memory" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim meet step=5 && \"$CLAIMER\" claim clean meet step=6 && \"$CLAIMER\" claim clean meet out:third"
    [ "$output" = third ]
}

@test "the memory of a script's programs is given back when they have ended" {
    run -0 --separate-stderr "$ACCEL_RUN" sh -c "for program in 1 2 3 4 5 6; do \"$CLAIMER\" claim || exit; done; ls -l /proc/\$PPID/fd >kept"
    [ "$(grep -c 'memfd:accel-run ' kept)" -le 2 ]
}

# ---- a rank that leaves, stalls, dies

@test "a rank that ends while others wait for it is named with its step" {
    run -125 --separate-stderr "$ACCEL_RUN" -n 3 "$CLAIMER" claim step=40 collective=80 meet only=2 exit=0 all step=41 collective=81 waiting=1 phase=4 where=reduce pause
    contains "$stderr" "AR-RANK-EARLY: rank 2 finished at step 40, others did not"
    contains "$stderr" "reduce"
}

@test "a rank that is killed in one program of a script, and is in the next one when others wait for it, is named" {
    run -125 --separate-stderr timeout 60 "$ACCEL_RUN" -n 2 --stall-timeout 100 \
        sh -c "\"$CLAIMER\" claim meet only=0 collective=6 waiting=1 phase=3 where=reduce pause all raise=9; \"$CLAIMER\" claim touch=begun pause"
    contains "$stderr" "AR-RANK-EARLY: rank 1 has ended and begun the next program of its script: rank 0 waits for it in the one before"
    contains "$stderr" "(reduce)"
}

@test "a rank whose program was killed is named, though the process that started it has not looked for its end" {
    cat >parent.py <<'END'
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
while True: time.sleep(1)
END
    run -125 --separate-stderr timeout 20 "$ACCEL_RUN" -n 2 --stall-timeout 100 python3 parent.py "$CLAIMER" claim meet \
        only=0 collective=6 waiting=1 phase=3 where=reduce pause all raise=9
    contains "$stderr" "AR-RANK-EARLY: rank 1 finished at step 0, others did not: rank 0 waits for it"
}

@test "ranks that end at their own times while nobody waits are fine" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 3 "$CLAIMER" claim meet only=0 touch=zero all only=1 await=zero touch=one all only=2 await=one all out:end
    [ "$output" = end ]
    [ -z "$stderr" ]
}

@test "a rank that makes no progress while others wait is named, and goes on" {
    spawn_bg "$ACCEL_RUN" -n 2 --log-level warn --stall-timeout 0.3 "$CLAIMER" claim collective=3 meet \
        only=0 collective=4 waiting=1 await=go waiting=0 all only=1 phase=3 step=16 where=linear await=go collective=5 waiting=1 await=end all
    retry 200 0.1 grep -q AR-RANK-STALLED err
    grep -q "rank 1 (process .*) has made no progress .* while 1 of 2 ranks wait for it: in the backward pass, step 17 (linear)" err
    touch go
    touch end
    wait_bg
    [ "$status" -eq 0 ]
}

@test "--stall-timeout 0 names no rank, however long others wait" {
    spawn_bg "$ACCEL_RUN" -n 2 --log-level warn --stall-timeout 0 "$CLAIMER" claim collective=3 meet \
        only=0 collective=4 waiting=1 touch=here await=go waiting=0 all only=1 phase=3 await=go collective=4 all
    await_files here
    sleep 2 # the board is looked at all the time
    touch go
    wait_bg
    [ "$status" -eq 0 ]
    [ ! -s err ]
}

@test "a rank that was stopped is said to be, whatever its program is called" {
    cp "$CLAIMER" "train (a) R"
    spawn_bg "$ACCEL_RUN" -n 2 --log-level warn --stall-timeout 0.3 "./train (a) R" claim collective=3 meet touch=pid.%r \
        only=0 collective=4 waiting=1 await=go waiting=0 all only=1 await=go collective=4 all
    await_files pid.0 pid.1
    kill -STOP "$(cat pid.1)"
    retry 200 0.1 grep -q "rank 1 (process .*) has made no progress .*; it was stopped by a signal" err
    kill -CONT "$(cat pid.1)"
    touch go
    wait_bg
    [ "$status" -eq 0 ]
}

@test "a killed rank is named with what it did; the others are told and end" {
    spawn_bg "$ACCEL_RUN" -n 3 "$CLAIMER" claim phase=3 step=16 where=conv meet "touch=pid.%r" only=2 err:last-words pause all abort pause
    await_files pid.0 pid.1 pid.2
    kill -9 "$(cat pid.2)"
    job_ends
    show err
    [ "$status" -eq 137 ]
    grep -q "AR-RANK-KILLED: rank 2 of 3 .* killed by SIGKILL (.*), in the backward pass, step 17 (conv)" err
    grep -q "aborted" out
    pids_are_gone "$(cat pid.0)" "$(cat pid.1)"
}

@test "the first rank that fails decides, and its last words are shown" {
    run -7 --separate-stderr "$ACCEL_RUN" -n 3 "$CLAIMER" claim meet only=1 "err:cannot go on" collective=1 exit=7 all pause
    contains "$stderr" "AR-RANK-FAILED: rank 1 of 3"
    contains "$stderr" "    cannot go on"
}

@test "ranks that end with a code each at its own time, behind the training, lose nothing, and none is blamed; one that does not end is waited for as long as --grace says" {
    mkfifo fifo
    spawn_bg "$ACCEL_RUN" -n 3 bash -c '"$0" claim meet collective=5 touch=trained.%r && until [ -e report.$ACCEL_RUN_RANK ]; do read -r -t 0.05 <>fifo; done; echo report; exit 3' "$CLAIMER"
    await_files trained.0 trained.1 trained.2
    touch report.1 report.2
    for pid in $(pgrep -P "$bg_pid" bash); do [ "$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^ACCEL_RUN_RANK=//p')" = 0 ] || wait_pids_gone "$pid"; done
    sleep 4 # longer than the others would be waited for after a failure
    touch report.0
    job_ends
    [ "$status" -eq 3 ]
    [ "$(cat out)" = report ]
    contains "$(cat err)" "every one of 3 ranks"
    run -7 --separate-stderr "$ACCEL_RUN" -n 2 --grace 0.1 "$CLAIMER" claim meet only=1 exit=7 all pause
    contains "$stderr" "rank 1 of 2"
    contains "$stderr" "no other rank ended so, in the time that all were given"
}

@test "a rank lasts as long as the program that trains, which a script has put into the background, or another session, before it returned" {
    mkfifo fifo
    for way in '' setsid; do
        spawn_bg "$ACCEL_RUN" -n 2 bash -c "$way"' "$0" claim touch=began.%r await=go touch=trained.%r & until [ -e began.$ACCEL_RUN_RANK ]; do read -r -t 0.05 <>fifo; done; touch returned.$ACCEL_RUN_RANK' "$CLAIMER"
        await_files returned.0 returned.1
        sleep 3 # longer than a leftover would have
        touch go
        job_ends
        [ "$status" -eq 0 ]
        [ ! -s err ]
        [ -e trained.0 ]
        [ -e trained.1 ]
        rm began.* returned.* trained.* go
    done
}

@test "a script in the background that goes on behind its program is named, and what it trains next counts" {
    # shellcheck disable=SC2016 # for the inner shells
    spawn_bg ACCEL_RUN_LOG_LEVEL=warn "$ACCEL_RUN" -n 2 sh -c 'nohup sh -c "\"$0\" claim meet; until [ -e go ]; do sleep 0.1; done; \"$0\" claim meet touch=second.%r; exit" & exit 0' "$CLAIMER"
    retry 300 0.1 grep -q "the script that ran it in the background goes on, and is waited for: sh (" err
    kill -0 "$bg_pid"
    touch go
    job_ends
    [ "$status" -eq 0 ]
    [ "$(grep -c "is waited for" err)" -eq 1 ]
    [ -e second.0 ]
    [ -e second.1 ]
}

@test "what a script has left behind has the time to load libtorch before it is taken for a leftover, also behind a training; what was beside that has not" {
    # shellcheck disable=SC2016 # for the inner shells
    local ways=('nohup python3 late.py ./train claim meet touch=trained.%r &' './train claim meet; nohup python3 late.py ./train claim meet touch=trained.%r &'
        'nohup sh -c "./train claim meet; python3 late.py ./train claim meet touch=trained.%r" &' './train await=go claim meet touch=trained.%r &'
        'python3 server.py & ./train await=serving.%r claim meet await=go touch=trained.%r') way pids=()
    echo 'import os, sys, time' >late.py
    cp late.py server.py
    echo 'while not os.path.exists("go"): time.sleep(0.05)
os.execv(sys.argv[1], sys.argv[1:])' >>late.py
    echo 'import signal; open("serving." + os.environ["ACCEL_RUN_RANK"], "w").close(); signal.pause()' >>server.py
    fake_torch
    gcc -o train "$REPOSITORY/tests/fake/claimer.c" -L. -Wl,-rpath,"$T" -Wl,--no-as-needed -ltorch_cpu
    for way in 0 1 2 3 4; do
        mkdir "$way"
        cp ./*.py train "$way"
        (cd "$way" && ACCEL_RUN_LOG_LEVEL=warn exec "$ACCEL_RUN" -n 2 sh -c "${ways[way]}" >out 2>err 3>&- 4>&-) &
        pids+=($!)
    done
    sleep 4 # longer than a leftover would have
    touch {0,1,2,3,4}/go
    retry 150 0.1 pids_are_gone "${pids[@]}"
    show ?/err
    for way in 0 1 2 3 4; do
        wait "${pids[way]}"
        [ -e "$way/trained.0" ]
        [ -e "$way/trained.1" ]
    done
    run -1 grep AR-STRAY {0,1,2,3}/err
    grep "AR-STRAY: .*python3" 4/err
}

@test "a script that fails, or that a signal ends before its program trains, ends its rank, whatever it has started beside or left behind" {
    # shellcheck disable=SC2016 # for the inner shells
    local ways=('sleep 1000 & exit 3' 'python3 late.py & [ "$ACCEL_RUN_RANK" = 1 ] || exec sleep 1000; exit 7' 'python3 late.py; touch went-on'
        'nohup python3 late.py &') way pids=() codes=()
    echo 'import os, signal; open("began." + os.environ["ACCEL_RUN_RANK"], "w").close(); signal.pause()' >late.py
    for way in 0 1 2 3; do
        mkdir "$way"
        cp late.py "$way"
        (cd "$way" && exec "$ACCEL_RUN" -n 2 sh -c "${ways[way]}" >out 2>err 3>&- 4>&-) &
        pids+=($!)
    done
    await_files 2/began.0 2/began.1 3/began.0 3/began.1
    kill -TERM "${pids[2]}" "${pids[3]}"
    retry 150 0.1 pids_are_gone "${pids[@]}"
    for way in 0 1 2 3; do
        status=0
        wait "${pids[way]}" || status=$?
        codes+=("$status")
    done
    show ?/err
    [ "${codes[*]}" = "3 7 143 0" ]
    contains "$(cat 0/err)" "AR-RANK-FAILED: every one of 2 ranks"
    contains "$(cat 1/err)" "AR-RANK-FAILED: rank 1 of 2"
    [ ! -e 2/went-on ]
}

@test "a program in the background that is killed is named, also where others wait for it; where all of them fail, that is how the job ends" {
    # shellcheck disable=SC2016 # for the inner shells
    local way returns='until [ -e began.$ACCEL_RUN_RANK ]; do sleep 0.05; done; echo $$ >script.$ACCEL_RUN_RANK'
    spawn_bg "$ACCEL_RUN" -n 2 sh -c '"$0" claim meet step=7 only=0 collective=6 waiting=1 all touch=began.%r pause & '"$returns" "$CLAIMER"
    await_files script.0 script.1
    wait_pids_gone "$(cat script.0)" "$(cat script.1)"
    sleep 2 # longer than what the scripts had ended themselves would be dying
    kill -9 "$(cat began.1)"
    job_ends
    [ "$status" -eq 137 ]
    contains "$(cat err)" "AR-RANK-KILLED: rank 1 of 2"
    lacks "$(cat err)" AR-RANK-EARLY
    # shellcheck disable=SC2016
    for way in 'nohup "$0" claim meet touch=began.%r await=go exit=4 &' 'nohup sh -c "\"$0\" claim meet touch=began.%r await=go; exit 4" &'; do
        rm -f began.* script.* go
        spawn_bg "$ACCEL_RUN" -n 2 sh -c "$way $returns" "$CLAIMER"
        await_files script.0 script.1
        wait_pids_gone "$(cat script.0)" "$(cat script.1)"
        touch go
        job_ends
        [ "$status" -eq 4 ]
        contains "$(cat err)" "every one of 2 ranks"
    done
}

@test "a rank that is killed with its script is named, though the script's end is seen first" {
    # shellcheck disable=SC2016 # for the inner shell
    spawn_bg "$ACCEL_RUN" -n 2 sh -c 'echo $$ >script.$ACCEL_RUN_RANK
        "$0" claim meet step=7 only=0 collective=6 waiting=1 all touch=began.%r pause; echo further' "$CLAIMER"
    await_files began.0 began.1
    kill -9 "$(cat script.1)" "$(cat began.1)"
    job_ends
    [ "$status" -eq 137 ]
    contains "$(cat err)" "AR-RANK-KILLED: rank 1 of 2"
    lacks "$(cat err)" AR-RANK-EARLY
}

@test "what a script itself has ended before it returns is no failure" {
    # shellcheck disable=SC2016 # for the inner shells
    local end begin='"$0" claim meet touch=began.%r pause & until [ -e began.0 ] && [ -e began.1 ]; do sleep 0.05; done'
    for end in 'kill $!' 'kill -9 $!' 'kill -9 $!; wait'; do
        rm -f began.*
        run -0 --separate-stderr "$ACCEL_RUN" -n 2 sh -c "$begin; $end; exit 0" "$CLAIMER"
        [ -z "$stderr" ]
    done
}

@test "a script that fails, or is killed, while the program that it has put into the background trains is named when that has ended well" {
    # shellcheck disable=SC2016 # for the inner shells
    local end code=3
    for end in 'exit 3' 'kill -9 $$'; do
        rm -f began.* go trained.*
        spawn_bg "$ACCEL_RUN" -n 2 sh -c '"$0" claim touch=began.%r await=go touch=trained.%r & until [ -e began.$ACCEL_RUN_RANK ]; do sleep 0.05; done; echo $$ >script.$ACCEL_RUN_RANK
            [ "$ACCEL_RUN_RANK" = 0 ] || '"$end" "$CLAIMER"
        await_files script.0 script.1
        wait_pids_gone "$(cat script.0)" "$(cat script.1)"
        touch go
        job_ends
        [ "$status" -eq "$code" ]
        contains "$(cat err)" "rank 1 of 2"
        [ -e trained.0 ]
        [ -e trained.1 ]
        code=137
    done
}

@test "when all ranks fail alike, that is said, and rank 0's words are not lost" {
    run -5 --separate-stderr "$ACCEL_RUN" -n 3 sh -c 'echo "usage: me" >&2; exit 5'
    contains "$stderr" "usage: me"
    contains "$stderr" "every one of 3 ranks"
    [ "$(grep -c usage <<<"$stderr")" -eq 1 ]
}

@test "a rank that ignores SIGTERM is killed after the grace" {
    spawn_bg "$ACCEL_RUN" -n 2 --grace 0.2 sh -c "trap '' TERM; echo \$\$ >pid.\$ACCEL_RUN_RANK; [ \$ACCEL_RUN_RANK = 1 ] || exec sleep 1000; until [ -e pid.0 ]; do :; done; exit 4"
    job_ends
    [ "$status" -eq 4 ]
    wait_pids_gone "$(cat pid.0)" "$(cat pid.1)"
}

@test "a killed launcher leaves no process, not even below a shell or in another session" {
    spawn_bg "$ACCEL_RUN" -n 2 bash -c "env -i ACCEL_RUN_RANK=\$ACCEL_RUN_RANK \"$CLAIMER\" touch=a.%r pause & setsid \"$CLAIMER\" touch=b.%r pause & wait"
    await_files a.0 a.1 b.0 b.1
    kill -9 "$bg_pid"
    job_ends
    [ "$status" -eq 137 ]
    wait_pids_gone "$(cat a.0)" "$(cat a.1)" "$(cat b.0)" "$(cat b.1)"
}

@test "who kills all that is named accel-run leaves the guard, which ends what a script has started" {
    spawn_bg "$ACCEL_RUN" sh -c "\"$CLAIMER\" touch=child pause & wait"
    await_files child
    local named=()
    for pid in $(pgrep -P "$bg_pid") "$bg_pid"; do # as pkill, with -f and without
        case "$(cat "/proc/$pid/comm") $(tr '\0' '\n' <"/proc/$pid/cmdline" | head -n 1)" in *accel-run*) named+=("$pid") ;; esac
    done
    kill -9 "${named[@]}"
    wait_bg
    [ "$status" -eq 137 ]
    wait_pids_gone "$(cat child)"
}

@test "a process that outlives its rank is ended and named, also in another session" {
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr "$ACCEL_RUN" sh -c "setsid \"$CLAIMER\" touch=stray pause >/dev/null 2>&1 & \"$CLAIMER\" await=stray"
    contains "$stderr" "AR-STRAY"
    contains "$stderr" "claimer ($(cat stray))"
    pids_are_gone "$(cat stray)"
}

@test "what a shell has started before it became accel-run, a filter of its output or a service, is not ended" {
    # shellcheck disable=SC2016 # for the inner shell
    printf '%s\n' 'exec > >(gzip >log.gz; touch filtered)' '"$CLAIMER" touch=service await=leave >/dev/null &' 'exec "$ACCEL_RUN" -n 2 seq 100000' >job
    ACCEL_RUN=$ACCEL_RUN CLAIMER=$CLAIMER bash job 2>err 3>&- 4>&-
    await_files filtered service
    gzip -dc log.gz | cmp - <(seq 100000)
    [ ! -s err ]
    pgrep -f "$CLAIMER touch=service" >/dev/null
    touch leave
}

@test "nothing is left: no guard, no file in /dev/shm or /tmp" {
    TMPDIR=$T/tmp && mkdir tmp && export TMPDIR
    spawn_bg "$ACCEL_RUN" -n 2 sh -c 'pgrep -x ranks-guard -P "$PPID"'
    wait_bg
    [ "$status" -eq 0 ]
    [ "$(wc -l <out)" -eq 1 ]
    wait_pids_gone "$(cat out)"
    [ -z "$(find /dev/shm -name "*accel-run-$bg_pid-*")" ]
    [ -z "$(ls tmp)" ]
}
