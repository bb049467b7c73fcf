#!/usr/bin/env bats
# Rules of normalisation, random draws and recurrent layers, operator by operator (tests/programs/rule_*.cpp): values, gradients, running
# statistics and the position of the random stream are those of the plain program, for whole and uneven rows, on both builds. Figures are
# relative to the largest of their tensor.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    unset RANK WORLD_SIZE MKL_NUM_THREADS OPENBLAS_NUM_THREADS ACCEL_RUN_SHIM ATEN_CPU_CAPABILITY
    export OMP_NUM_THREADS=1
}

# divided_rows FILE OPERATOR...: what --explain said there: batches are divided, and these operators keep the rows where they are
divided_rows() {
    local said operator
    said=$(cat "$1")
    grep -Eq ' [1-9][0-9]* batches divided' "$1" || { show "$1" && return 1; }
    for operator in "${@:2}"; do
        lacks "$said" "operator aten::$operator gathered"
    done
}

# same_cases BUILD PROGRAM LINES [OPERATOR...]: plain against 2 ranks on the one build and 3 on the other, and one rank once; the operators are not gathered
same_cases() {
    local program=$BUILD/programs/$1-O2/$2 ranks
    requires file "$program"
    cd "$BATS_TEST_TMPDIR" || return 1
    "$program" >plain.out 2>plain.err
    [ "$(wc -l <plain.out)" -ge "$3" ]
    numbers_of "$1"
    [ "$1" != debian ] || numbers+=(1)
    for ranks in "${numbers[@]}"; do
        "$ACCEL_RUN" -n "$ranks" --explain --log-level info "$program" >"$ranks.out" 2>"$ranks.err" || { show "$ranks.err" && return 1; }
        "$REPOSITORY/tests/compare" plain.out "$ranks.out" --tolerance 5e-6 || return 1
        [ "$ranks" -eq 1 ] || divided_rows "$ranks.err" "${@:4}"
    done
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

@test "normalisation, debian" { same_cases debian rule_normalise 1000; }
@test "normalisation, wheel" { same_cases wheel rule_normalise 1000; }
@test "random draws, debian" { same_cases debian rule_random 400 "${drawn[@]}"; }
@test "random draws, wheel" { same_cases wheel rule_random 400 "${drawn[@]}"; }
@test "recurrent layers, debian" { same_cases debian rule_recurrent 2000 "${cells[@]}"; }
@test "recurrent layers, wheel" { same_cases wheel rule_recurrent 2000 "${cells[@]}"; }

@test "the usual cases are not gathered" {
    local build
    for build in debian wheel; do
        divides $build batchnorm batch_norm bernoulli_
        divides $build gru gru.input
        divides $build vae randn_like
    done
}
