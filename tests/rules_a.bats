#!/usr/bin/env bats
# Rules of normalisation, random draws and recurrent layers, operator by operator (tests/programs/rule_*.cpp): values, gradients, running
# statistics and the position of the random stream are those of the plain program, for whole and uneven rows, on both builds. Figures are
# relative to the largest of their tensor.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=600

setup_file() {
    unset RANK WORLD_SIZE MKL_NUM_THREADS OPENBLAS_NUM_THREADS ACCEL_RUN_SHIM ATEN_CPU_CAPABILITY
    export OMP_NUM_THREADS=1
}

# same_cases BUILD PROGRAM: plain against 1, 2 and 3 ranks
same_cases() {
    local program=$BUILD/programs/$1-O2/$2 ranks
    requires file "$program"
    cd "$BATS_TEST_TMPDIR" || return 1
    "$program" >plain.out 2>plain.err
    [ "$(wc -l <plain.out)" -ge "$3" ]
    for ranks in 1 2 3; do
        "$ACCEL_RUN" -n "$ranks" "$program" >"$ranks.out" 2>"$ranks.err" || { show "$ranks.err" && return 1; }
        "$REPOSITORY/tests/compare" plain.out "$ranks.out" --tolerance 5e-6 || return 1
    done
}

# divides BUILD PROGRAM OPERATOR...: the operators keep the rows where they are
divides() {
    local program=$BUILD/programs/$1-O2/$2 operator
    requires file "$program"
    run -0 "$ACCEL_RUN" -n 2 --explain "$program"
    for operator in "${@:3}"; do
        lacks "$output" "operator aten::$operator gathered"
    done
}

@test "normalisation, debian" { same_cases debian rule_normalise 1000; }
@test "normalisation, wheel" { same_cases wheel rule_normalise 1000; }
@test "random draws, debian" { same_cases debian rule_random 400; }
@test "random draws, wheel" { same_cases wheel rule_random 400; }
@test "recurrent layers, debian" { same_cases debian rule_recurrent 2000; }
@test "recurrent layers, wheel" { same_cases wheel rule_recurrent 2000; }

@test "the usual cases are not gathered" {
    local build
    for build in debian wheel; do
        divides $build batchnorm batch_norm bernoulli_
        divides $build gru gru.input
        divides $build vae randn_like
        divides $build rule_random bernoulli_ normal_ uniform_ randn_like rand_like bernoulli bernoulli.p native_dropout rrelu_with_noise
        divides $build rule_recurrent lstm_cell gru_cell rnn_tanh_cell linear add chunk split
    done
}
