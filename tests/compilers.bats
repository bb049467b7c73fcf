#!/usr/bin/env bats
# One program as gcc and clang make it, from -O0 to -O3 -flto, with and without PIE (tests/structures.mk): for `make check-matrix`, on Debian 12's
# libtorch. Which calls are left to the dynamic linker, and where tables of virtual functions stand, differs; what the shim needs must be among them.
# What stands before the colon of a name is its column in the table.

# shellcheck disable=SC2034 # drifted is read by programs.bash
bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=900

setup_file() {
    programs_setup_file
}

# same_variant COMPILER-OPTIMISATION-KIND MODE: of tests/programs/structures.cpp
same_variant() {
    local program=$BUILD/structures/$1 mode=$2
    plain=$BATS_TEST_TMPDIR/$1-$mode-plain ranks=$BATS_TEST_TMPDIR/$1-$mode drifted=
    run_in "$plain" "$program" "$mode"
    [ "$(cat "$plain/status")" -eq 0 ] || { echo "the plain run failed" >&2 && show "$plain/err" && return 1; }
    run_in "$ranks" "$ACCEL_RUN" -n 2 "$program" "$mode"
    same_status && same_numbers 2 && same_errors && "$COMPARE" "$plain/out" "$ranks/out"
}

compiled_by() {
    local variant mode
    for variant in "$1"-{O0,O2,O3-lto}-{pie,nopie}; do
        for mode in own_by_base lbfgs thread; do
            same_variant "$variant" "$mode" || { echo "$variant $mode" >&2 && return 1; }
        done
    done
}

@test "C++: compiled by gcc, -O0 to -O3 -flto, with and without PIE" { compiled_by gcc; }
@test "C++: compiled by clang, -O0 to -O3 -flto, with and without PIE" { compiled_by clang; }

@test "C++: with the address sanitizers of gcc and clang, leaks included" {
    local compiler
    for compiler in g++ clang++; do
        "$compiler" -std=c++17 -O1 -fsanitize=address -isystem /usr/include/torch/csrc/api/include \
            "$BATS_TEST_DIRNAME/programs/callbacks.cpp" -o "$BATS_TEST_TMPDIR/checked" -ltorch -ltorch_cpu -lc10
        "$BATS_TEST_TMPDIR/checked" >"$BATS_TEST_TMPDIR/plain"
        "$ACCEL_RUN" -n 2 "$BATS_TEST_TMPDIR/checked" >"$BATS_TEST_TMPDIR/ranks"
        "$COMPARE" "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/ranks"
    done
}
