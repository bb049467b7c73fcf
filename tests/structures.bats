#!/usr/bin/env bats
# Ways in which programs are made: optimizers of their own, closures, threads, libraries loaded late; N ranks are the one-process run.
# Runs beside other files.

# shellcheck disable=SC2034 # drifted is read by programs.bash
bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=300

setup_file() {
    programs_setup_file
}

@test "an optimizer of the program's own, as an object and through a pointer to its base" {
    same_structure debian-O2 own 3
    same_structure debian-O2 own_by_base 2
}

@test "LBFGS with a closure and a line search" {
    same_structure debian-O2 lbfgs 2 3
}

@test "backward in a thread of its own" {
    same_structure debian-O2 thread 2 3
}

@test "models that threads train, one after the other" {
    same_structure debian-O2 threads 2 3
}

@test "models that threads train side by side are those of the plain run" {
    same_side_by_side debian-O2 threads_at_once
}

@test "models that threads make, and train, side by side are those of the plain run" {
    same_side_by_side debian-O2 threads_make
}

@test "a thread trains with batches too small to be divided while another one's are" {
    same_structure debian-O2 small_beside 2 3
}

@test "a thread makes and drops graphs while another one trains" {
    same_structure debian-O2 beside 2 3
}

@test "a thread looks at memory of results while another one computes" {
    same_structure debian-O2 looks 2 3
}

@test "more than a thousand threads, one after the other, with tasks of one kind each" {
    same_structure debian-O2 often 2
}

# python_for MODE: of taken.py and taken_apart.py: Debian's, whose import of torch, most of such a run, takes a third; the wheel's for one of each kind, and for
# what is another operator there (normalised, drawn). `make check-matrix` has all of those that are stopped on each build.
python_for() {
    case $1 in
    packed | normalised | drawn | gradients | branches) python_of wheel ;;
    *) python_of debian ;;
    esac
}

@test "ranks that train different models at a time are stopped, though shapes and data are the same" {
    run "$ACCEL_RUN" -n 2 "$BUILD/venv/bin/python" "$REPOSITORY/tests/programs/swapped.py"
    [ "$status" -eq 125 ]
    contains "$output" AR-RANKS-PARTED
    contains "$output" "rank 1 has another operation that a loss comes from"
}

@test "ranks that take results of two batches, or steps, in different orders are stopped, though the shapes are the same" {
    local what
    for what in rows sums losses steps average packed; do
        run "$ACCEL_RUN" -n 2 "$(python_for "$what")" "$REPOSITORY/tests/programs/taken.py" "$what"
        [ "$status" -eq 125 ]
        contains "$output" AR-RANKS-PARTED
        contains "$output" "batch that a"
    done
    ranks_run 2 debian-O2 structures taken
    [ "$(cat "$ranks/status")" -eq 125 ]
    contains "$(cat "$ranks/err")" "batch that a"
}

@test "ranks that take results of one batch in different orders, as from a set ordered by addresses, are stopped" {
    local what
    in_turn 0 numbers largest heads scaled factors constants shifted pieces columns normalised answers drawn stacked gradients
    for what in "${its_turn[@]}"; do
        run "$ACCEL_RUN" -n 2 "$(python_for "$what")" "$REPOSITORY/tests/programs/taken_apart.py" "$what"
        [ "$status" -eq 125 ] || { echo "$what" && return 1; }
        contains "$output" "AR-RANKS-PARTED: rank 1 has another "
    done
}

@test "what is added up, read later, or looked at by one rank alone may be computed in another order on each rank" {
    local what python program=$REPOSITORY/tests/programs/taken_apart.py
    for what in total branches read_later looks; do
        python=$(python_for "$what")
        "$python" "$program" "$what" >"$BATS_TEST_TMPDIR/plain"
        "$ACCEL_RUN" -n 2 "$python" "$program" "$what" >"$BATS_TEST_TMPDIR/ranks"
        "$COMPARE" "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/ranks"
    done
}

@test "what is read may hang on a clock, as a Python number or a tensor of one element of any type" {
    local what
    for what in rates single_rates half_rates; do
        run -0 "$ACCEL_RUN" -n 2 "$(python_for "$what")" "$REPOSITORY/tests/programs/taken_apart.py" "$what"
        [ "$(grep -cx True <<<"$output")" -eq 5 ]
    done
}

@test "least squares, which round otherwise in each call, are the same to the bit on all ranks, and those of the plain run" {
    local build
    for build in debian wheel; do
        "$(python_of $build)" "$REPOSITORY/tests/programs/least_squares.py" 2>"$BATS_TEST_TMPDIR/plain" >/dev/null
        run -0 --separate-stderr "$ACCEL_RUN" -n 2 "$(python_of $build)" "$REPOSITORY/tests/programs/least_squares.py"
        lacks "$output" "[rank 1]"
        echo "$stderr" >"$BATS_TEST_TMPDIR/ranks"
        "$COMPARE" "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/ranks" --tolerance 1e-3
    done
}

@test "nodes of a C++ program's own, and its hooks on nodes, are refused by name when a backward through divided rows leads to them" {
    local mode
    for mode in node_hook accumulator_hook own_node; do
        ranks_run 2 debian-O2 structures "$mode"
        [ "$(cat "$ranks/status")" -eq 125 ]
        contains "$(cat "$ranks/err")" AR-NODE
        rm -r "$ranks"
    done
    for mode in node_hook_aside accumulator_hook_aside; do
        same_structure debian-O2 "$mode" 2 3
    done
    # Below a folder that is called as the library is.
    mkdir "$BATS_TEST_TMPDIR/libtorch"
    cp "$BUILD/programs/debian-O2/structures" "$BATS_TEST_TMPDIR/libtorch"
    run "$ACCEL_RUN" -n 2 "$BATS_TEST_TMPDIR/libtorch/structures" own_node
    [ "$status" -eq 125 ]
    contains "$output" AR-NODE
}

@test "backwards within backwards, and beside each other, are those of the plain run" {
    local build mode n numbers
    in_turn 0 change deep deep_undivided shared threads retained detached leaf own throwing looking_undivided
    for mode in "${its_turn[@]}"; do
        for build in debian-O2 wheel-O2; do
            plain_run "$build" nested "$mode"
            numbers_of "$build"
            for n in "${numbers[@]}"; do
                ranks_run "$n" "$build" nested "$mode"
                same_status && "$COMPARE" "$plain/out" "$ranks/out" || { echo "$build $n $mode" >&2 && return 1; }
                rm -r "$ranks"
            done
        done
    done
}

@test "a hook on a node of an undivided graph, which could look at divided results, is refused by name; one that waits for another backward ends in time" {
    run "$ACCEL_RUN" -n 2 "$BUILD/programs/debian-O2/nested" looking
    [ "$status" -eq 125 ]
    contains "$output" AR-NODE
    run "$ACCEL_RUN" -n 2 --collective-timeout 3 "$BUILD/programs/debian-O2/nested" waiting
    [ "$status" -eq 125 ]
    contains "$output" "a backward has waited 3 s for another thread's"
}

@test "threads of which another one has come on each rank are warned of, and stopped at the deadline" {
    run "$ACCEL_RUN" -n 2 --stall-timeout 1 --collective-timeout 4 "$(python_of debian)" "$REPOSITORY/tests/programs/crossed.py"
    [ "$status" -eq 125 ]
    contains "$output" "AR-RANK-STALLED: all 2 ranks have waited for 1 s"
    contains "$output" AR-COLLECTIVE-TIMEOUT
}

@test "of a hundred threads that wait at a time, each rank may have others that came first" {
    plain_run wheel crowd.py
    ranks_run 3 wheel crowd.py # of two ranks, each finds a thread of the other's
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "a program whose batches are nothing but indices of one dimension is divided" {
    local n
    for n in 2 3; do
        plain_run debian factors.py
        ranks_run "$n" debian factors.py
        same_status
        "$COMPARE" "$plain/out" "$ranks/out"
        lacks "$(cat "$ranks/err")" AR-NOTHING-DIVIDED
        rm -r "$ranks"
    done
}

@test "a hundred tasks at a time, each with a batch of its own" {
    same_structure debian-O2 tasks 2 3
}

@test "a program that loads libtorch and what it trains with at run time, in its own scope and in all" {
    loaded_late "$BUILD/structures/plugin.so"
}

@test "files that a program has open when it loads libtorch are written once; what has been added to one before is told of" {
    local how
    for how in log flushed; do
        mkdir "$BATS_TEST_TMPDIR"/{plain,ranks}-$how
        echo older | tee "$BATS_TEST_TMPDIR"/{plain,ranks}-$how/run.log
        touch -d yesterday "$BATS_TEST_TMPDIR"/{plain,ranks}-$how/run.log
        run_in "$BATS_TEST_TMPDIR/plain-$how" "$BUILD/structures/host" local "$BUILD/structures/plugin.so" $how
        run_in "$BATS_TEST_TMPDIR/ranks-$how" "$ACCEL_RUN" -n 3 "$BUILD/structures/host" local "$BUILD/structures/plugin.so" $how
        [ "$(cat "$BATS_TEST_TMPDIR/ranks-$how/status")" -eq 0 ]
        diff "$BATS_TEST_TMPDIR"/{plain,ranks}-$how/table.csv
        "$COMPARE" "$BATS_TEST_TMPDIR"/{plain,ranks}-$how/out
    done
    diff "$BATS_TEST_TMPDIR"/{plain,ranks}-log/run.log
    lacks "$(cat "$BATS_TEST_TMPDIR/ranks-log/err")" AR-FILE-EARLY
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/ranks-flushed/run.log")" = ends ]
    [ "$(grep -c ends "$BATS_TEST_TMPDIR/ranks-flushed/run.log")" -eq 1 ]
    contains "$(cat "$BATS_TEST_TMPDIR/ranks-flushed/err")" "run.log' was open before libtorch was loaded"
}

@test "a library loaded with RTLD_DEEPBIND hides libtorch from us: said by name, never half" {
    run_in "$BATS_TEST_TMPDIR/deep" "$ACCEL_RUN" -n 2 "$BUILD/structures/host" deep "$BUILD/structures/plugin.so"
    [ "$(cat "$BATS_TEST_TMPDIR/deep/status")" -eq 0 ]
    contains "$(cat "$BATS_TEST_TMPDIR/deep/err")" "AR-NO-TRAINING: 2 copies of this program ran"
}

# regions N MODE: the program of parallel regions, plainly and with N ranks
regions() {
    local n=$1
    shift
    plain=$BATS_TEST_TMPDIR/plain-$1 ranks=$BATS_TEST_TMPDIR/ranks-$1-$n
    run_in "$plain" "$BUILD/structures/regions" "$@"
    run_in "$ranks" "$ACCEL_RUN" -n "$n" "$BUILD/structures/regions" "$@"
}

@test "threads of the program's own parallel regions see the whole batch; what needs the other ranks there, or cannot be told, stops by name" {
    local n mode
    for n in 2 3; do
        regions "$n" alone
        same_status
        "$COMPARE" "$plain/out" "$ranks/out"
    done
    for mode in number beside; do
        regions 2 "$mode"
        [ "$(cat "$ranks/status")" -eq 125 ] || { show "$ranks/out" && return 1; }
        contains "$(cat "$ranks/err")" "error AR-PARALLEL-REGION:"
    done
}

@test "kernels of several threads, each with helpers of its own" {
    OMP_NUM_THREADS=2 regions 2 kernels
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}
