#!/usr/bin/env bats
# Random networks and programs (tests/fuzz_networks): as one process, whatever they are made of. `make fuzz-networks` and `make fuzz-programs` run a thousand each,
# `make check-matrix` others on each build.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=300

setup() {
    PYTHON=$(python_of wheel)
    requires file "$PYTHON"
    cd "$BATS_TEST_TMPDIR" || return 1
}

# fuzz_stub LINE: with LINE for a launcher, whose "$@" is the program, and one that prints a line for each seed instead of training
fuzz_stub() {
    printf '#!/bin/bash\nshift 2\n%s\n' "$1" >launcher
    # shellcheck disable=SC2016
    printf '#!/bin/bash\nfor seed; do [[ $seed == [0-9]* ]] && echo "$seed float64 flat:linear 8 loss 0.25"; done; exit 0\n' >program
    chmod +x launcher program
    run "$REPOSITORY/tests/fuzz_networks" --python ./program --launcher ./launcher --ranks 2 --first 1 --count 2
}

# fuzz [--programs]: twenty, others with each commit (CHECK_NUMBER of tests/run-all); which seeds they are stands in the output
fuzz() {
    run "$REPOSITORY/tests/fuzz_networks" "$@" --python "$PYTHON" --launcher "$ACCEL_RUN" --ranks 2 --first $((20 * ${CHECK_NUMBER:-1} + 1)) --count 20
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "twenty random networks with two ranks are those of one process" {
    fuzz
    # A normalisation of the one row that a last batch may have is refused: one network of two hundred.
    [[ $output = *"20 networks with [2] ranks: 0 failures, 0 stops by name, "[0-2]" that libtorch refuses"* ]]
}

@test "twenty random programs, of views, writes, reads, branches, hooks and states, with two ranks are those of one process" {
    fuzz --programs
    contains "$output" "20 networks with [2] ranks: 0 failures"
}

@test "the comparison of random networks notices another figure, a missing network and a crash, and goes on after a stop by name" {
    fuzz_stub '"$@"'
    [ "$status" -eq 0 ]
    fuzz_stub '"$@" | sed -E "2s/loss ([0-9.-]+)/loss 1\1/"'
    [ "$status" -eq 1 ]
    contains "$output" "DIFFERENT seed 2, 2 ranks"
    fuzz_stub '"$@" | head -n 1; echo "seed 2" >&2; kill -SEGV $$'
    [ "$status" -eq 1 ]
    contains "$output" "FAIL seed 2, 2 ranks: ends with status -11"
    fuzz_stub '[ "$4" = 2 ] && exec "$@"; echo "seed 1" >&2; echo "accel-run: error AR-WRITE: no" >&2; exit 125'
    [ "$status" -eq 0 ]
    contains "$output" "AR-WRITE: 1 stops, 1 (2 ranks)"
}
