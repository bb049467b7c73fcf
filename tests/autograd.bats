#!/usr/bin/env bats
# What programs do around autograd: each prints what one process would, with any number of ranks. The programs are tests/programs/*.py and .cpp.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    unset RANK WORLD_SIZE OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS ACCEL_RUN_SHIM ATEN_CPU_CAPABILITY
}

# same_words NAME [argument...]: the output of 1, 2 and 3 ranks is the plain run's, on both builds (only_on BUILD: on that one)
same_words() {
    local name=$1 build n
    shift
    for build in ${only_on:-debian wheel}; do
        plain_run "$build" "$name" "$@"
        [ "$(cat "$plain/status")" -eq 0 ] || { echo "the plain run failed" >&2 && show "$plain/err" && return 1; }
        for n in 1 2 3; do
            echo "== $n ranks of $build $name $*" >&2
            ranks_run "$n" "$build" "$name" "$@"
            same_status && same_errors && "$COMPARE" "$plain/out" "$ranks/out" || return 1
            rm -r "$ranks"
        done
    done
}

# stopped ID NAME [argument...]: two ranks end by the message, before anything is printed
stopped() {
    local id=$1 name=$2 build
    shift 2
    for build in debian wheel; do
        ranks_run 2 "$build" "$name" "$@"
        [ "$(cat "$ranks/status")" -eq 125 ] || { show "$ranks/err" && return 1; }
        contains "$(cat "$ranks/err")" "$id"
        rm -r "$ranks"
    done
}

@test "a leaf made from divided rows keeps its rows, and its gradient is that of its rows" {
    same_words divided_leaves.py
}
