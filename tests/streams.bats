#!/usr/bin/env bats
# What the ranks write, and what of it is shown. With programs that are not trainers.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    launcher_setup_file
}

setup() {
    launcher_setup
}

@test "binary output is identical to the byte, on both streams" {
    head -c 3000000 /dev/urandom >data
    "$ACCEL_RUN" -n 2 sh -c 'cat data; cat data >&2' >out 2>err
    cmp data out
    cmp data err
}

@test "a line of 1 MiB, and one without an end" {
    head -c 1048576 /dev/zero | tr '\0' x >data
    "$ACCEL_RUN" -n 3 cat data >out 2>err
    cmp data out
    [ ! -s err ]
}

@test "progress bars pass unchanged and the others' are not shown" {
    printf '\r 10%%|#  |\r100%%|###|\nend\n' >expected
    "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim; printf '\\r 10%%|#  |\\r10%d%%|###|\\nend\\n' \$ACCEL_RUN_RANK" >out 2>err
    cmp expected out
    [ ! -s err ]
}

@test "stdout and stderr to the same place keep their order" {
    "$ACCEL_RUN" -n 2 sh -c 'for i in $(seq 200); do echo out $i; echo err $i >&2; done' >both 2>&1
    for i in $(seq 200); do printf 'out %s\nerr %s\n' "$i" "$i"; done | diff - both
}

@test "a slow reader loses nothing" {
    seq 200000 >expected
    "$ACCEL_RUN" -n 2 sh -c 'touch started; exec seq 200000' | { await_files started && cat; } >out
    cmp expected out
}

@test "a slow reader loses nothing of a program that ends with a code, and no rank is blamed for being the first" {
    seq 200000 >expected
    { "$ACCEL_RUN" -n 2 sh -c 'touch started; seq 200000; exit 3' 2>err || echo "code $?" >code; } | {
        await_files started
        sleep 5 # longer than the others would be waited for after a failure
        cat
    } >out
    cmp expected out
    [ "$(cat code)" = "code 3" ]
    contains "$(cat err)" "every one of 2 ranks"
}

@test "a program that prints for ever ends soon after another rank has failed" {
    { "$ACCEL_RUN" -n 2 sh -c '[ "$ACCEL_RUN_RANK" = 0 ] || exit 3; exec yes' 2>err || echo "code $?" >code; } | cat >/dev/null
    [ "$(cat code)" = "code 3" ]
    contains "$(cat err)" "rank 1 of 2"
}

@test "a reader that is slow after a signal that the program has handled loses nothing either" {
    cat >handles.py <<'EOF'
import os, signal, sys
def end(*_):
    print("\n".join(["x" * 149] * 1000), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open("ready." + os.environ["ACCEL_RUN_RANK"], "w").close()
while True:
    signal.pause()
EOF
    mkfifo pipe
    "$ACCEL_RUN" -n 2 python3 handles.py >pipe 2>err 3>&- 4>&- &
    exec 7<pipe
    await_files ready.0 ready.1
    pids=$(pgrep -P $! python3)
    kill -TERM $!
    for pid in $pids; do retry 200 0.1 pids_are_gone "$pid"; done
    sleep 3 # longer than who has ended otherwise would be waited for
    [ "$(wc -l <&7)" -eq 1000 ]
    exec 7<&-
    wait $!
}

@test "while nobody reads what rank 0 prints the others do not differ from it: not at the end either" {
    mkfifo unread # more than it, the launcher and rank 0's pipe hold, of fewer lines than a rank may be ahead of a slow rank 0
    exec 9<>unread
    spawn_bg sh -c "exec \"\$@\" >unread 9>&-" sh "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim; seq 10; touch begun.\$ACCEL_RUN_RANK; seq 100001 130000; touch printed.\$ACCEL_RUN_RANK; exec sleep 100"
    await_files begun.0 printed.1
    kill -TERM "$bg_pid"
    job_ends
    exec 9>&-
    [ "$status" -eq 143 ]
    [ ! -e printed.0 ]
    lacks "$(cat err)" "[rank 1]"
}

@test "where a signal ends the ranks, who had come further differs in nothing from a rank 0 that was cut short; what a rank says that fails is shown" {
    cat >uneven.py <<'EOF'
import os, signal, sys, time
first = os.environ["ACCEL_RUN_RANK"] == "0"
if sys.argv[1].startswith("exit="):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(int(sys.argv[1][5:])))
sys.stdout.write("".join(f"{line}\n" for line in range(10 if first else 12 if sys.argv[1] == "failed" else 1000)))
sys.stdout.write("a pie" if first else "a piece, and so on")
sys.stdout.flush()
open("ready." + os.environ["ACCEL_RUN_RANK"], "w").close()
while sys.argv[1] == "failed" and not first:
    if os.path.exists("ready.0"):
        print("\nno such shard: 17", flush=True)
        os._exit(7)
    time.sleep(0.01)
while True:
    signal.pause()
EOF
    local how code
    for how in all first failed exit=0 exit=5; do # who is told to end; another rank fails, and rank 0 is ended for it; both have a handler
        rm -f ready.*
        spawn_bg "$ACCEL_RUN" -n 2 --grace 1 sh -c "\"$CLAIMER\" claim; exec python3 uneven.py $how"
        await_files ready.0 ready.1
        case $how in
        all) kill -TERM "$bg_pid" && code=143 ;;
        first) find_ranks -x "python3*" && kill -TERM "${rank_pids[0]}" && code=143 ;;
        failed) code=7 ;;
        *) kill -TERM "$bg_pid" && code=${how#*=} ;;
        esac
        job_ends
        [ "$status" -eq "$code" ]
        [ "$(tail -n 1 out)" = "a pie" ]
        if [ "$how" = failed ]; then
            contains "$(cat err)" "[rank 1] no such shard: 17" # why
        else
            lacks "$(cat err)" "[rank 1]"
        fi
    done
}

@test "where a program ends by itself as the user asks, what ranks report at last is compared, whatever stands open on the other stream" {
    cat >report.py <<'EOF'
import os, signal, sys
rank = os.environ["ACCEL_RUN_RANK"]
def end(*_):
    print("report of the", "first" if rank == "0" else "second")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
sys.stderr.write(sys.argv[1].encode().decode("unicode_escape"))
sys.stderr.flush()
open("ready." + rank, "w").close()
while True:
    signal.pause()
EOF
    local open
    for open in '' '\r 10%|#  |\r 20%|## |' '10%|#  |\r' 'waiting...'; do
        rm -f ready.*
        spawn_bg "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim; exec python3 report.py \"\$1\"" sh "$open"
        await_files ready.0 ready.1
        kill -TERM "$bg_pid"
        job_ends
        [ "$status" -eq 0 ]
        [ "$(cat out)" = "report of the first" ]
        contains "$(cat err)" "[rank 1] report of the second"
    done
}

@test "... also where the script around the program dies of what the program answers" {
    # shellcheck disable=SC2016 # for the inner shell
    spawn_bg "$ACCEL_RUN" -n 2 sh -c 'echo $$ >script.$ACCEL_RUN_RANK
        (trap "" TERM; exec "$0" claim touch=ready.%r await=go only=0 "out:report of the first" all only=1 "out:report of the second"); echo went on' "$CLAIMER"
    await_files ready.0 ready.1
    kill -TERM "$bg_pid"
    wait_pids_gone "$(cat script.0)" "$(cat script.1)"
    touch go
    job_ends
    [ "$status" -eq 143 ]
    [ "$(cat out)" = "report of the first" ]
    contains "$(cat err)" "[rank 1] report of the second"
}

@test "... not where both die of it; and a program that answers with a code does not take the place of what its script has died of" {
    # shellcheck disable=SC2016 # for the inner shells
    spawn_bg "$ACCEL_RUN" -n 2 sh -c '"$0" claim only=1 out:further all touch=ready.%r pause; echo went on' "$CLAIMER"
    await_files ready.0 ready.1
    kill -TERM "$bg_pid"
    job_ends
    [ "$status" -eq 143 ]
    lacks "$(cat err)" "[rank 1]"
    # shellcheck disable=SC2016
    spawn_bg "$ACCEL_RUN" -n 2 sh -c 'echo $$ >script.$ACCEL_RUN_RANK
        (trap "" TERM; exec "$0" claim touch=there.%r await=go exit=1); echo went on' "$CLAIMER"
    await_files there.0 there.1
    kill -TERM "$bg_pid"
    wait_pids_gone "$(cat script.0)" "$(cat script.1)"
    touch go
    job_ends
    [ "$status" -eq 143 ]
    lacks "$(cat err)" AR-RANK
}

@test "where all die of a signal that nobody has sent, what they have said differently is shown, and not who has come further" {
    # shellcheck disable=SC2016 # for the inner shell
    run -139 --separate-stderr "$ACCEL_RUN" -n 2 sh -c '"$0" claim; rank=$ACCEL_RUN_RANK; printf "accuracy 9%s\nend\n" $rank; [ $rank = 0 ] || printf "bye\nsee you"
        touch printed.$rank; until [ -e printed.$((1 - rank)) ]; do sleep 0.05; done; kill -SEGV $$' "$CLAIMER"
    [ "$output" = "$(printf 'accuracy 90\nend')" ]
    contains "$stderr" "[rank 1] accuracy 91"
    lacks "$stderr" "[rank 1] bye"
    lacks "$stderr" "[rank 1] see"
}

@test "while the job goes on it is shown what other ranks say, where rank 0 prints elsewhere by then, or has ended" {
    # shellcheck disable=SC2016 # for the inner shells
    local way ways=('"$0" claim; echo "version $ACCEL_RUN_RANK"; exec >log.$ACCEL_RUN_RANK 2>&1; exec "$0" claim await=leave'
        '"$0" claim; [ "$ACCEL_RUN_RANK" = 0 ] || { echo "version 1"; exec "$0" claim await=leave; }'
        'setsid "$0" claim touch=began.%r await=leave >log 2>&1 & until [ -e began.$ACCEL_RUN_RANK ]; do sleep 0.05; done; echo "version $ACCEL_RUN_RANK"')
    for way in "${ways[@]}"; do
        rm -f leave began.*
        spawn_bg "$ACCEL_RUN" -n 2 sh -c "$way" "$CLAIMER"
        retry 200 0.1 grep -qxF "[rank 1] version 1" err
        touch leave
        job_ends
        [ "$status" -eq 0 ]
    done
}

@test "a reader that goes away ends the program as alone" {
    status=0
    { "$ACCEL_RUN" -n 2 yes 2>err || echo $? >code; } | head -n 1 >out
    [ "$(cat code)" -eq 141 ]
    [ ! -s err ]
}

@test "closed stdout and stdin stay closed" {
    "$ACCEL_RUN" -n 2 sh -c 'echo x || echo "cannot write" >&2' >&- 2>err
    grep -q "cannot write" err
    "$ACCEL_RUN" -n 2 sh -c '[ -e /proc/self/fd/0 ] && echo open || echo closed' <&- >out
    [ "$(cat out)" = closed ]
}

@test "the ranks inherit no descriptor of the launcher's" {
    # shellcheck disable=SC2217 # what ls inherits as its standard input counts, not what it reads
    ls /proc/self/fd 3>&- 4>&- </dev/null | wc -l >alone
    # shellcheck disable=SC2217
    "$ACCEL_RUN" -n 2 ls /proc/self/fd 3>&- 4>&- </dev/null 2>/dev/null | wc -l >ranks
    diff alone ranks
}

@test "another rank's line is shown where it differs, floats to rounding" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 3 sh -c "\"$CLAIMER\" claim; echo same; echo loss 0.431\$ACCEL_RUN_RANK; echo count 1\$ACCEL_RUN_RANK; echo end"
    [ "$output" = "$(printf 'same\nloss 0.4310\ncount 10\nend')" ]
    contains "$stderr" "[rank 1] count 11"
    contains "$stderr" "[rank 2] count 12"
    lacks "$stderr" "loss"
    lacks "$stderr" "same"
}

@test "at most twenty differing lines of a rank, then a notice" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim; for i in \$(seq 50); do echo word\$ACCEL_RUN_RANK \$i; done"
    [ "$(grep -c '^\[rank 1\]' <<<"$stderr")" -eq 20 ]
    [ "$(grep -c -- --log-dir <<<"$stderr")" -eq 1 ]
}

@test "a program that never trains shows rank 0's output only, and one warning" {
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr taskset -c "$(processors 2)" "$ACCEL_RUN" -n 2 sh -c 'echo pid $$'
    [ "${#lines[@]}" -eq 1 ]
    contains "$stderr" "AR-NO-TRAINING: 2 copies of this program ran"
    lacks "$stderr" "[rank 1]"
}

@test "a log that takes nothing, a pipe that nobody reads or a file on a dead disk, holds up its rank alone: who is killed is named, and the job ends" {
    build_fake slow_disk.so -shared -fPIC slow_disk.c
    mkdir logs
    for kind in pipe disk; do
        rm -f pid.0 logs/rank-1.out
        if [ "$kind" = pipe ]; then
            mkfifo logs/rank-1.out
            exec 9<>logs/rank-1.out
        fi
        # shellcheck disable=SC2016 # for the inner shell
        SLOW_DISK_LOG=$([ "$kind" = disk ] && echo /rank-1.out) LD_PRELOAD=$FAKE/slow_disk.so spawn_bg timeout 60 "$ACCEL_RUN" -n 2 --log-dir logs \
            sh -c '[ "$ACCEL_RUN_RANK" = 0 ] || head -c 1000000 /dev/zero; exec "$0" claim touch=pid.%r pause' "$CLAIMER" 9>&-
        await_files pid.0
        kill -9 "$(cat pid.0)"
        wait_bg
        [ "$status" -eq 137 ]
        grep -q "AR-RANK-KILLED: rank 0 of 2" err
    done
    exec 9>&-
}

@test "log-dir keeps each rank's raw streams apart" {
    "$ACCEL_RUN" -n 2 --log-dir "$T/logs" sh -c 'echo out $ACCEL_RUN_RANK; echo err $ACCEL_RUN_RANK >&2' >both 2>&1
    for rank in 0 1; do
        [ "$(cat logs/rank-$rank.out)" = "out $rank" ]
        [ "$(cat logs/rank-$rank.err)" = "err $rank" ]
    done
    run -125 "$ACCEL_RUN" --log-dir /proc/none/deeper true
    contains "$output" "AR-LOG-DIR"
}

@test "log-dir makes the folders above it; a full disk there is said once and stops nothing" {
    "$ACCEL_RUN" -n 2 --log-dir "$T/a/b//logs" echo x >out
    [ "$(cat a/b/logs/rank-1.out)" = x ]
    ln -sf /dev/full a/b/logs/rank-1.out
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr "$ACCEL_RUN" -n 2 --log-dir a/b/logs "$CLAIMER" claim out:one out:two meet
    [ "$output" = "$(printf 'one\ntwo')" ]
    [ "$(grep -c "AR-LOG-DIR: .*No space left" <<<"$stderr")" -eq 1 ]
}

@test "a full disk does not end the program, and its exit code tells" {
    status=0
    ACCEL_RUN_LOG_LEVEL=warn "$ACCEL_RUN" -n 2 "$CLAIMER" claim out:lost meet out:lost touch=end.%r >/dev/full 2>err || status=$?
    [ "$status" -eq 125 ]
    [ -e end.0 ]
    [ -e end.1 ]
    grep -q "warning AR-OUTPUT: .*No space left" err
    grep -q "error AR-OUTPUT: the program ended well, but 10 bytes" err
    run -7 --separate-stderr sh -c "\"$ACCEL_RUN\" -n 2 sh -c 'echo lost; exit 7' >/dev/full"
    lacks "$stderr" "error AR-OUTPUT"
}

@test "who does not read our messages does not stop us from ending the ranks" {
    mkfifo unread
    exec 9<>unread
    lines=() && for i in $(seq 100); do lines+=("log:w:$i $(printf '%0900d' "$i")"); done
    "$ACCEL_RUN" -n 2 --log-level warn "$CLAIMER" claim meet "${lines[@]}" touch=pid.%r pause 2>unread 3>&- 4>&- 9>&- &
    bg_pid=$!
    await_files pid.0 pid.1
    kill -TERM "$bg_pid"
    retry 80 0.05 pids_are_gone "$bg_pid"
    wait_bg
    [ "$status" -eq 143 ]
    pids_are_gone "$(cat pid.0)" "$(cat pid.1)"
    exec 9>&-
}
