#!/usr/bin/env bats
# `accel-run test`: trains tiny programs in one process and as ranks, and says whether they agree.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=180

setup() {
    unset ACCEL_RUN_SHIM ACCEL_RUN_LOG_LEVEL
    T=$BATS_TEST_TMPDIR
    export TMPDIR=$T/private
    mkdir "$TMPDIR"
    cd "$T" || return 1
}

# fake_python SCRIPT: ./python answers what accel-run asks of an interpreter, and "trains" by the shell's SCRIPT
fake_python() {
    printf '#!/bin/sh\nif [ "$1" = -c ]; then printf "%%s\\n" "%s" 3.9 "%s" ""; exit; fi\n%s\n' "$T/python" "$T" "$1" >python
    chmod +x python
}

nothing_left() {
    [ -z "$(ls "$TMPDIR")" ] || { ls "$TMPDIR" >&2 && return 1; }
}

@test "one process and two ranks agree, in Python and C++, and nothing is left" {
    [ -z "${MATRIX_BUILD-}" ] || skip "with the packages of the system"
    requires file "$(python_of debian)"
    ACCEL_RUN_RANKS=5 run -0 "$ACCEL_RUN" test --python "$(python_of debian)"
    [[ ${lines[0]} =~ ^"OK    Python 3."[0-9.]+", torch 1.13".*" 13 lines agree between one process and 2 ranks, 12 batches divided" ]] || { echo "$output" >&2 && return 1; }
    [[ ${lines[1]} =~ ^"OK    C++, libtorch 1.13 (of the system): 9 lines agree between one process and 2 ranks, 8 batches divided" ]] || { echo "$output" >&2 && return 1; }
    contains "$output" "accel-run works here."
    nothing_left
}

@test "what differs is shown, a program that fails is shown, and both are failures" {
    fake_python 'echo loss 0.5${ACCEL_RUN_RANK:+9}'
    run -1 "$ACCEL_RUN" test --only python --python ./python
    contains "$output" "FAIL  Python 3.9"
    contains "$output" "line 1 differs"
    contains "$output" "one process: loss 0.5"
    contains "$output" "2 ranks:     loss 0.59"
    fake_python 'echo alone >&2; exit 3'
    run -1 "$ACCEL_RUN" test --only python --python ./python
    contains "$output" "the program alone failed, saying:"
    contains "$output" alone
    fake_python 'echo half; [ -z "$ACCEL_RUN_RANK" ] || exit 3'
    run -1 "$ACCEL_RUN" test --only python --python ./python
    contains "$output" "the ranks failed, saying:"
    nothing_left
}

@test "ranks that divided nothing are no success" {
    fake_python 'echo loss 0.5'
    run -1 "$ACCEL_RUN" test --only python --python ./python
    contains "$output" "nothing was divided"
}

@test "where nothing can be tested that is said" {
    PATH=/nowhere run -1 "$ACCEL_RUN" test --only python
    contains "$output" "SKIP  Python: no python3 in PATH"
    contains "$output" "Nothing was tested"
    for few in 0 1; do
        run -125 "$ACCEL_RUN" test -n "$few"
        contains "$output" "AR-OPTION-VALUE: 'accel-run test -n' has no value, or one that is not known: N (compare with N ranks, 2 to 16 (2))"
    done
    TMPDIR=/nowhere run -125 "$ACCEL_RUN" test
    contains "$output" AR-FOLDER
}

@test "what the user named and cannot be used is a failure, not passed over" {
    run -1 "$ACCEL_RUN" test --only python --python ./nowhere
    contains "$output" "FAIL  Python: no program './nowhere'"
    contains "$output" "accel-run does not work here"
    printf '#!/bin/sh\nprintf "%%s\\n" /bin/python 3.9 "" ""\n' >python
    chmod +x python
    run -1 "$ACCEL_RUN" test --only python --python ./python
    contains "$output" "FAIL  Python: ./python has no package torch"
    run -1 "$ACCEL_RUN" test --only c++ --libtorch "$T/nowhere"
    contains "$output" "FAIL  C++: no headers of libtorch in '$T/nowhere/include'"
}

@test "a folder that is named from here is that folder, wherever the compiler runs" {
    mkdir -p kit/include/torch/csrc/api/include kit/lib
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nprintf "%%s\\n" "$PWD" "$@" >"%s/asked"\nexit 1\n' "$T" >c++
    chmod +x c++
    TMPDIR=private PATH=$T:$PATH run -1 "$ACCEL_RUN" test --only c++ --libtorch kit
    contains "$output" "FAIL  C++, libtorch 0.0 ($T/kit/lib)"
    grep -qx -e "-isystem$T/kit/include" asked
    grep -qx -e "-L$T/kit/lib" asked
    grep -qx -e "$TMPDIR/accel-run-test-.*/train.cpp" asked
    nothing_left
}

@test "the ranks are started by accel-run also where variables ask for other hosts" {
    fake_python 'echo loss 0.5${RANK:+, rank $RANK}'
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 run -1 "$ACCEL_RUN" test --only python --python ./python
    contains "$output" "2 ranks:     loss 0.5" # they ran, instead of waiting for the first host
}

@test "a Ctrl-C ends what runs and leaves nothing" {
    fake_python "echo \$\$ >$T/pid; sleep 1000"
    spawn_bg "$ACCEL_RUN" test --only python --python ./python
    await_files pid
    kill -INT "$bg_pid"
    wait_bg
    [ "$status" -eq 130 ]
    wait_pids_gone "$(cat pid)"
    nothing_left
}
