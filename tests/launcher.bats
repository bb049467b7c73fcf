#!/usr/bin/env bats
# The launcher's front: options, environment, exit codes, streams. With programs that are not trainers.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    launcher_setup_file
}

setup() {
    launcher_setup
}

# ---- options and plan

@test "help lists every option, version has one line" {
    run -0 "$ACCEL_RUN" --help all
    for option in ranks dry-run log-dir collective-timeout stall-timeout grace log-level explain scale-batch no-shard-loading help version; do
        contains "$output" "--$option"
    done
    run -0 "$ACCEL_RUN" --version
    [ "${#lines[@]}" -eq 1 ]
}

@test "an unknown option is refused with the nearest name" {
    run -125 "$ACCEL_RUN" --rnaks 2 true
    contains "$output" "AR-OPTION-UNKNOWN"
    contains "$output" "--ranks"
    [ "${#lines[@]}" -eq 2 ]
}

@test "options after the program's name are the program's" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 echo -n --help
    [ "$output" = "--help" ]
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 -- echo -x
    [ "$output" = "-x" ]
}

@test "the command line comes before the environment, the environment before the default" {
    ACCEL_RUN_RANKS=3 run -0 "$ACCEL_RUN" --dry-run true
    contains "$output" "ranks               3"
    ACCEL_RUN_RANKS=3 run -0 "$ACCEL_RUN" -n 4 --dry-run true
    contains "$output" "ranks               4"
    ACCEL_RUN_RANKS="" run -0 "$ACCEL_RUN" -n 2 --dry-run true
    ACCEL_RUN_RANKS=x run -125 "$ACCEL_RUN" true
    contains "$output" "ACCEL_RUN_RANKS"
}

@test "a variable of ours that nobody reads is named" {
    ACCEL_RUN_LOG_LEVEL=warn ACCEL_RUN_RANK_COUNT=3 run -0 --separate-stderr "$ACCEL_RUN" true
    contains "$stderr" "AR-ENV-UNKNOWN"
    contains "$stderr" "ACCEL_RUN_RANKS"
}

@test "dry-run prints the plan and starts nothing" {
    run -0 env RANK=1 taskset -c 0 "$ACCEL_RUN" -n 2 --dry-run /bin/sh -c "touch $T/started"
    [ ! -e "$T/started" ]
    diff -u - <(printf '%s\n' "$output" | sed "s|$T|TMP|; s|$FAKE|FAKE|; s|^\(processors  *1 of\).*|\1 ...|") <<'END'
other launcher      ignored: RANK=1, incomplete
ranks               2
cores               1
threads per rank    1
processors          1 of ...
binding             none
program             /bin/sh
argument            -c
argument            touch TMP/started
shim                FAKE/shim_stub.so
environment added   LD_PRELOAD=FAKE/shim_stub.so
environment added   OMP_NUM_THREADS=1
environment added   MKL_NUM_THREADS=1
environment added   OPENBLAS_NUM_THREADS=1
environment added   TORCH_COMPILE_DISABLE=1
environment added   ACCEL_RUN_SOCKET, ACCEL_RUN_COOKIE, ACCEL_RUN_RANK
environment removed RANK
END
}

# ---- environment

@test "threads are divided unless the user chose, and one rank chooses itself" {
    show_threads='echo ${OMP_NUM_THREADS-unset} ${MKL_NUM_THREADS-unset}'
    OMP_NUM_THREADS=7 run -0 --separate-stderr "$ACCEL_RUN" -n 2 sh -c "$show_threads"
    [ "$output" = "7 unset" ]
    MKL_NUM_THREADS=5 run -0 --separate-stderr "$ACCEL_RUN" -n 64 sh -c "$show_threads"
    [ "$output" = "1 5" ]
    run -0 --separate-stderr "$ACCEL_RUN" -n 1 sh -c "$show_threads"
    [ "$output" = "unset unset" ]
}

@test "another launcher's variables are kept from the ranks, with one notice" {
    ACCEL_RUN_LOG_LEVEL=warn RANK=3 MASTER_PORT=1 OMPI_COMM_WORLD_RANK=1 run -0 --separate-stderr "$ACCEL_RUN" -n 2 \
        sh -c 'env | grep -E "^(RANK|WORLD_SIZE|MASTER_PORT|OMPI_.*)=" ; true'
    [ -z "$output" ]
    [ "$(grep -c AR-ENV-REMOVED <<<"$stderr")" -eq 1 ]
}

@test "what users set for Open MPI stays, as a program that starts mpirun needs it" {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_CXX=clang++ ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr \
        "$ACCEL_RUN" -n 2 sh -c 'echo $OMPI_ALLOW_RUN_AS_ROOT $OMPI_ALLOW_RUN_AS_ROOT_CONFIRM $OMPI_CXX'
    [ "$output" = "1 1 clang++" ]
    lacks "$stderr" AR-ENV-REMOVED
}

@test "--dry-run and --show-config warn, too" {
    for look in --dry-run --show-config; do
        ACCEL_RUN_LOG_LEVEL=warn ACCEL_RUN_RANK_COUNT=2 run -0 --separate-stderr "$ACCEL_RUN" -n 250 $look true
        contains "$stderr" "AR-ENV-UNKNOWN: nobody reads the variable ACCEL_RUN_RANK_COUNT"
        contains "$stderr" "AR-CORES: 250 ranks share"
    done
}

@test "the user's preloads stay, after ours" {
    run -0 --separate-stderr env LD_PRELOAD=libm.so.6 "$ACCEL_RUN" sh -c 'echo "$LD_PRELOAD"'
    [ "$output" = "$FAKE/shim_stub.so:libm.so.6" ]
}

@test "a sanitizer's runtime comes first" {
    echo 'int main(void){return 0;}' >a.c
    gcc -fsanitize=address a.c -o a || skip "no libasan"
    run -0 "$ACCEL_RUN" --dry-run ./a
    contains "$output" "LD_PRELOAD=libasan.so"
    run -0 "$ACCEL_RUN" -n 2 ./a
}

@test "--bind core gives each rank processors of its own, and nothing else does; the launcher keeps all" {
    [ "$(env -u OMP_NUM_THREADS nproc)" -ge 2 ] || skip "needs two processors"
    all=$(taskset -pc $$ | sed 's/.*: //')
    run -0 "$ACCEL_RUN" -n 2 --bind core --log-dir bound sh -c 'taskset -pc $$; taskset -pc $PPID'
    [ "$(sed -n 's/.*: //p' bound/rank-0.out)" != "$(sed -n 's/.*: //p' bound/rank-1.out)" ]
    [ "$(sed -n 2p bound/rank-0.out | sed 's/.*: //')" = "$all" ]
    run -0 "$ACCEL_RUN" -n 2 --log-dir free sh -c 'taskset -pc $$'
    [ "$(sed 's/.*: //' free/rank-0.out free/rank-1.out)" = "$(printf '%s\n' "$all" "$all")" ]
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 --numa-binding exclusive --dry-run true
    contains "$output" "binding             core"
    run -125 "$ACCEL_RUN" -n 2 --numa-binding nearest --dry-run true
    contains "$output" "as torchrun has it: node, socket, exclusive, core-complex"
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr taskset -c 0 "$ACCEL_RUN" -n 2 --bind numa true
    contains "$stderr" "warning AR-BIND: --bind numa binds nothing: more ranks than cores"
}

@test "a rank cannot start accel-run again" {
    run -125 --separate-stderr "$ACCEL_RUN" -n 2 "$ACCEL_RUN" -n 2 true
    contains "$stderr" "AR-NESTED"
}

# ---- exit codes

@test "every exit code comes through" {
    for code in $(seq 0 255); do
        got=0
        "$ACCEL_RUN" -n 2 sh -c "exit $code" 2>/dev/null || got=$?
        [ "$got" -eq "$code" ] || { echo "$code became $got"; return 1; }
    done
}

@test "a program killed by a signal is 128 + signal, and the signal is in words" {
    for signal in 1 2 3 4 6 7 8 9 10 11 12 15 24 25; do
        got=0
        "$ACCEL_RUN" -n 2 sh -c "ulimit -c 0; kill -$signal \$\$" 2>err || got=$?
        [ "$got" -eq $((128 + signal)) ] || { echo "$signal became $got"; return 1; }
        grep -q "AR-RANK-KILLED.*SIG" err
    done
    grep -q SIGXFSZ err
}

@test "one rank says nothing about its exit code, as alone" {
    run -3 --separate-stderr "$ACCEL_RUN" sh -c 'exit 3'
    [ -z "$stderr" ]
}

@test "no such program: 127" {
    run -127 "$ACCEL_RUN" -n 2 ./nowhere
    contains "$output" "AR-EXEC-NOT-FOUND"
    run -127 "$ACCEL_RUN" nowhere-in-path
    contains "$output" "AR-EXEC-NOT-FOUND"
}

@test "not executable, a directory, rubbish: 126" {
    echo 'echo hi' >script
    run -126 "$ACCEL_RUN" ./script
    contains "$output" "AR-EXEC-NOT-EXECUTABLE"
    run -126 "$ACCEL_RUN" "$T"
    contains "$output" "AR-EXEC-DIRECTORY"
    head -c 100 /dev/zero >zero && chmod +x zero
    run -126 "$ACCEL_RUN" ./zero
    contains "$output" "AR-EXEC-FORMAT"
    printf '\177ELFrubbish' >elf && chmod +x elf
    run -126 "$ACCEL_RUN" ./elf
    contains "$output" "AR-EXEC-FORMAT"
}

@test "a script with a missing interpreter: 127, and it is named" {
    printf '#!/no/such/interpreter -x\n' >script && chmod +x script
    run -127 "$ACCEL_RUN" -n 2 ./script
    contains "$output" "AR-EXEC-INTERPRETER"
    contains "$output" "/no/such/interpreter"
    printf '#!%s/script\n' "$T" >second && chmod +x second
    run -127 "$ACCEL_RUN" ./second
    contains "$output" "/no/such/interpreter"
}

@test "a script without a first line is the shell's" {
    echo 'echo "shell $1"' >script && chmod +x script
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 ./script argument
    [ "$output" = "shell argument" ]
}

@test "a path with spaces works" {
    mkdir "a folder" && printf '#!/bin/sh\necho "$0|$1"\n' >"a folder/my program" && chmod +x "a folder/my program"
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 "a folder/my program" "an argument"
    [ "$output" = "a folder/my program|an argument" ]
}

@test "a static program is refused by name, with any number of ranks" {
    echo 'int main(void){return 0;}' >a.c
    gcc -static a.c -o static || skip "no static libc"
    for n in 1 2; do
        run -125 "$ACCEL_RUN" -n $n ./static
        contains "$output" "AR-ELF-STATIC"
    done
    gcc -static-pie a.c -o pie || skip "no static-pie"
    run -125 "$ACCEL_RUN" ./pie
    contains "$output" "AR-ELF-STATIC"
}

@test "a setuid program is refused by name" {
    cp /bin/true setuid && chmod u+s setuid
    for n in 1 2; do
        run -125 "$ACCEL_RUN" -n $n ./setuid
        contains "$output" "AR-ELF-SETUID"
    done
    chmod u-s,g+s setuid
    run -125 "$ACCEL_RUN" ./setuid
}

@test "a program of another machine is refused by name" {
    cp /bin/true other && printf '\363\000' | dd of=other bs=1 seek=18 conv=notrunc status=none # EM_RISCV
    run -126 "$ACCEL_RUN" -n 2 ./other
    contains "$output" "AR-ELF-MACHINE"
}

@test "a missing shim, and one that cannot be preloaded, are said at once" {
    ACCEL_RUN_SHIM=/nowhere.so run -125 "$ACCEL_RUN" true
    contains "$output" "AR-SHIM-MISSING"
    mkdir "a b" && cp "$FAKE/shim_stub.so" "a b/"
    ACCEL_RUN_SHIM="$T/a b/shim_stub.so" run -125 "$ACCEL_RUN" true
    contains "$output" "AR-SHIM-PATH"
}

# ---- output

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
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr taskset -c 0,1 "$ACCEL_RUN" -n 2 sh -c 'echo pid $$'
    [ "${#lines[@]}" -eq 1 ]
    contains "$stderr" "AR-NO-TRAINING: 2 copies of this program ran"
    lacks "$stderr" "[rank 1]"
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
    [ -e end.0 ] && [ -e end.1 ]
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

@test "in a terminal the program has a terminal of the same size" {
    requires command script
    script -qec "stty rows 33 cols 77; '$ACCEL_RUN' -n 2 sh -c 'test -t 0 && test -t 1 && test -t 2 && stty size'" /dev/null </dev/null >out
    grep -q '^33 77' out
    lacks "$(cat out)" "$(printf '\r\r')"
    script -qec "'$ACCEL_RUN' -n 2 sh -c 'test -t 1 || echo pipe' | cat" /dev/null </dev/null >out
    grep -q '^pipe' out
}

@test "what is typed in a terminal reaches all ranks" {
    requires command script
    printf 'hello\n' | script -qec "'$ACCEL_RUN' -n 2 sh -c 'read x; echo got \$x >$T/got.\$ACCEL_RUN_RANK'" /dev/null >/dev/null
    grep -qx 'got hello' got.0
    grep -qx 'got hello' got.1
}

@test "a program that asks at /dev/tty, as for a password, is not stopped there: it is answered at its input, or fails" {
    requires command script
    local ask='import getpass; print("got", getpass.getpass("word: "))'
    "$REPOSITORY/tests/terminal" expect='word: ' 'send=open sesame\n' expect='got open sesame' ended=0 -- "$ACCEL_RUN" -n 2 python3 -W ignore -c "$ask"
    "$REPOSITORY/tests/terminal" expect='/dev/tty' ended=1 -- "$ACCEL_RUN" -n 2 sh -c 'cat </dev/tty || exit 1'
}

@test "who asks for a password later than rank 0, and throws away what was typed before, gets the answer all the same" {
    requires command script
    cat >ask.sh <<'EOF'
[ "$ACCEL_RUN_RANK" = 0 ] || until [ -e answered.0 ]; do sleep 0.01; done
python3 -W ignore -c 'import getpass; print("got", getpass.getpass("word: "))' && touch answered."$ACCEL_RUN_RANK"
EOF
    "$REPOSITORY/tests/terminal" expect='word: ' 'send=open sesame\n' expect='got open sesame' ended=0 -- "$ACCEL_RUN" -n 3 sh ask.sh
    [ -e answered.1 ] && [ -e answered.2 ]
}

@test "what is held back from a rank that never throws input away comes to it in the end" {
    requires command script
    cat >ask.sh <<'EOF'
[ "$ACCEL_RUN_RANK" != 0 ] || exec python3 -W ignore -c 'import getpass; print("got", getpass.getpass("word: "))'
read -r answer && echo "$answer" >answer
EOF
    "$REPOSITORY/tests/terminal" expect='word: ' 'send=open sesame\n' expect='got open sesame' ended=0 -- "$ACCEL_RUN" -n 2 sh ask.sh
    grep -qx 'open sesame' answer
}

# ---- input

@test "stdin reaches every rank: a pipe, a file, nothing" {
    seq 100000 >data
    sum=$(md5sum <data)
    cat data | "$ACCEL_RUN" -n 3 sh -c "md5sum >$T/pipe.\$ACCEL_RUN_RANK"
    "$ACCEL_RUN" -n 3 sh -c "md5sum >$T/file.\$ACCEL_RUN_RANK" <data
    "$ACCEL_RUN" -n 3 sh -c "wc -c >$T/none.\$ACCEL_RUN_RANK" </dev/null
    for rank in 0 1 2; do
        [ "$(cat pipe.$rank)" = "$sum" ]
        [ "$(cat file.$rank)" = "$sum" ]
        [ "$(cat none.$rank)" = 0 ]
    done
}

@test "a file is read from where it stands, and left where rank 0 leaves it" {
    printf '1\n2\n3\n' >data
    { read -r _; "$ACCEL_RUN" -n 2 sh -c 'read x; echo $x >got.$ACCEL_RUN_RANK'; read -r rest; echo "rest $rest"; } <data >out
    [ "$(cat got.0 got.1)" = "$(printf '2\n2')" ]
    [ "$(cat out)" = "rest 3" ]
}
