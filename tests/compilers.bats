#!/usr/bin/env bats
# Two programs as gcc and clang make them, from -O0 to -O3 -flto, with and without PIE (tests/structures.mk): for `make check-matrix`, on Debian 12's
# libtorch, and once on the wheel. Which calls are left to the dynamic linker, and where tables of virtual functions stand, differs; what the shim needs must be
# among them.
# What stands before the colon of a name is its column in the table.

# shellcheck disable=SC2034 # drifted is read by programs.bash
bats_require_minimum_version 1.5.0
load helpers
load programs
load loading

export BATS_TEST_TIMEOUT=900

setup_file() {
    programs_setup_file
}

# variants_of COMPILER: what tests/structures.mk makes, in $variants
variants_of() {
    variants=(debian-"$1"-{O0,O2,O3-lto}-{pie,nopie} debian-"$1"-{O1,O3}-pie)
    [ "$1" != gcc ] || variants+=(wheel-gcc-O3-lto-pie)
}

compiled_by() {
    local variant variants mode
    variants_of "$1"
    for variant in "${variants[@]}"; do
        for mode in own_by_base lbfgs thread; do same_structure "$variant" "$mode" 2; done
    done
}

@test "C++: compiled by gcc, -O0 to -O3 -flto, with and without PIE" { compiled_by gcc; }
@test "C++: compiled by clang, -O0 to -O3 -flto, with and without PIE" { compiled_by clang; }

# What a loader is made of is in the program: libtorch's templates, which the compiler may have put into each other.
loading_by() {
    local variant variants kind
    variants_of "$1"
    for variant in "${variants[@]}"; do
        divided "$variant" 2 plain
        divided "$variant" 3 plain 2
        for kind in get_batch custom_sampler default_generator counting; do whole "$variant" 2 "$kind"; done
    done
}

@test "loading: of a program compiled by gcc, -O0 to -O3 -flto, with and without PIE" { loading_by gcc; }
@test "loading: of a program compiled by clang, -O0 to -O3 -flto, with and without PIE" { loading_by clang; }

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
