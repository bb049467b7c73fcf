#!/usr/bin/env bats
# The launcher's front: options, environment, exit codes. With programs that are not trainers.

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
    run -0 env RANK=1 taskset -c "$(processors 1)" "$ACCEL_RUN" -n 2 --dry-run /bin/sh -c "touch $T/started"
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
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_CXX=clang++ OMPI_MCA_plm=isolated ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr \
        "$ACCEL_RUN" -n 2 sh -c 'echo $OMPI_ALLOW_RUN_AS_ROOT $OMPI_ALLOW_RUN_AS_ROOT_CONFIRM $OMPI_CXX $OMPI_MCA_plm'
    [ "$output" = "1 1 clang++ isolated" ]
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
    contains "$output" "ASAN_OPTIONS=alloc_dealloc_mismatch=0"
    run -0 "$ACCEL_RUN" -n 2 ./a
}

@test "a program whose sanitizer does not go with the shim is not started" {
    echo 'int main(void){return 0;}' >a.c
    gcc -fsanitize=thread a.c -o a || skip "no libtsan"
    run -125 "$ACCEL_RUN" -n 2 ./a
    contains "$output" "AR-ELF-SANITIZER: './a' is built with -fsanitize=thread"
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
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr taskset -c "$(processors 1)" "$ACCEL_RUN" -n 2 --bind numa true
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
    mkdir "jörg@corp,1~#" && cp "$FAKE/shim_stub.so" "jörg@corp,1~#/" # homes of domain users; ld.so takes them
    ACCEL_RUN_SHIM="$T/jörg@corp,1~#/shim_stub.so" run -0 "$ACCEL_RUN" true
    lacks "$output" "AR-SHIM-PATH"
}
