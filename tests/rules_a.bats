#!/usr/bin/env bats
# Rules of normalisation, random draws and recurrent layers, operator by operator (tests/programs/rule_*.cpp): values, gradients, running
# statistics and the position of the random stream are those of the plain program, for whole and uneven rows, on one build or the other
# (alternate of programs.bash; on each by `make check-matrix`). Figures are relative to the largest of their tensor.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    unset RANK WORLD_SIZE MKL_NUM_THREADS OPENBLAS_NUM_THREADS ACCEL_RUN_SHIM ATEN_CPU_CAPABILITY
    export OMP_NUM_THREADS=1
}

# divides BUILD PROGRAM OPERATOR...
divides() {
    local program=$BUILD/programs/$1-O2/$2
    requires file "$program"
    cd "$BATS_TEST_TMPDIR" || return 1
    "$ACCEL_RUN" -n 2 --explain --log-level info "$program" >out 2>err || { show err && return 1; }
    divided_rows err "${@:3}"
}

drawn=(bernoulli_ normal_ uniform_ randn_like rand_like bernoulli bernoulli.p native_dropout rrelu_with_noise)
cells=(lstm_cell gru_cell rnn_tanh_cell linear add chunk split)

@test "normalisation" { alternate 0 same_cases rule_normalise 1000; }
@test "random draws" { alternate 1 same_cases rule_random 400 "${drawn[@]}"; }
@test "recurrent layers" { alternate 0 same_cases rule_recurrent 2000 "${cells[@]}"; }

@test "the usual cases are not gathered" {
    local build
    for build in debian wheel; do
        divides $build batchnorm batch_norm bernoulli_
        divides $build gru gru.input
        divides $build vae randn_like
    done
}
