#!/usr/bin/env bats
# The core of the tests on one build of libtorch, for `make check-matrix`: MATRIX_BUILD names it (tests/matrix/install). What stands
# before the colon of a name is its column in the table.

# shellcheck disable=SC2034 # drifted is read by programs.bash
bats_require_minimum_version 1.5.0
load helpers
load programs
load files
load loading

export BATS_TEST_TIMEOUT=900

setup_file() {
    programs_setup_file
}

compiled() { same_run "$MATRIX_BUILD-O2" "$1" 1 2 3; }
script() { same_run "$MATRIX_BUILD" "$1" 1 2 3; }

@test "C++: fashion" { compiled fashion; }
@test "C++: mlp_loader" { compiled mlp_loader; }
@test "C++: index_loop" { compiled index_loop; }
@test "C++: gru" { compiled gru; }
@test "C++: transformer" { compiled transformer; }
@test "C++: vae" { compiled vae; }
@test "C++: gan" { compiled gan; }
@test "C++: batchnorm" { compiled batchnorm; }
@test "C++: accumulate" { compiled accumulate; }
@test "C++: l2" { compiled l2; }
@test "C++: throws" { compiled throws; }
@test "C++: autoencoder" { compiled autoencoder; }
@test "C++: multi_model" { compiled multi_model; }

# structures MODE...: of tests/programs/structures.cpp
structures() {
    local mode
    for mode in "$@"; do same_structure "$MATRIX_BUILD-O2" "$mode" 2 3; done
}

@test "C++: an optimizer of the program's own, as an object and through a pointer to its base" { structures own own_by_base; }
@test "C++: LBFGS with a closure and a line search" { structures lbfgs; }
@test "C++: backward in a thread of its own" { structures thread; }
@test "C++: models that threads train, one after the other" { structures threads; }
@test "C++: models that threads train, or make and train, side by side" {
    same_side_by_side "$MATRIX_BUILD-O2" threads_at_once
    same_side_by_side "$MATRIX_BUILD-O2" threads_make
}
@test "C++: libtorch, and what is trained with it, loaded at run time" { loaded_late "$BUILD/programs/$MATRIX_BUILD-O2/plugin.so"; }

# of_operators COMMAND ARGUMENT...: the programs of rules_a.bats and rules_b.bats
of_operators() {
    export OMP_NUM_THREADS=1
    "$1" "$MATRIX_BUILD" "${@:2}"
}

@test "C++: not optimised, index_loop, mlp_loader and throws" {
    local name
    [ "$MATRIX_BUILD" = wheel ] || skip "of the wheel; Debian's are in every test run"
    for name in index_loop mlp_loader throws; do same_run wheel-O0 "$name" 2; done
}

@test "C++: operators of normalisation" { of_operators same_cases rule_normalise 1000; }
@test "C++: operators that draw" { of_operators same_cases rule_random 400; }
@test "C++: operators of recurrent layers" { of_operators same_cases rule_recurrent 2000; }
@test "C++: attention" { of_operators sweep rule_attention; }
@test "C++: memory that the program reads and writes" { of_operators sweep rule_read; }
@test "C++: indices, and writes in place" { of_operators sweep rule_index; }
@test "C++: layers and losses of torch::nn" { of_operators sweep rule_sweep; }
@test "C++: modules and functions of torch::nn" { of_operators sweep rule_modules; }
@test "Python: modules, functions and expressions" { of_operators operators cases run 2,3; }

# What a libtorch that is bound to itself draws is not seen: there no loader is divided, and that is said.
is_bound() { [[ $MATRIX_BUILD == symbolic-* ]]; }

@test "loading: examples of a plain loader are read by the rank that needs them, without workers and with two" {
    if is_bound; then
        whole "$MATRIX_BUILD-O2" 2 plain
        grep -q 'is read whole by every rank: this libtorch is bound to itself' "$ranks/err"
        return
    fi
    divided "$MATRIX_BUILD-O2" 2 plain
    divided "$MATRIX_BUILD-O2" 3 plain 2
    divided "$MATRIX_BUILD-O2" 3 drop_last 0 31
    divided "$MATRIX_BUILD-O2" 2 tensors 2
}

@test "loading: a loader is read whole when a batch is more than its examples, or reading one draws or counts" {
    local kind
    for kind in get_batch custom_sampler default_generator counting "counting 2" batch_transform "talking 0"; do
        # shellcheck disable=SC2086
        whole "$MATRIX_BUILD-O2" 2 $kind
    done
}

@test "loading: a loader that turns out to depend on what it has read before stops by name" {
    ! is_bound || return 0
    loaders 2 "$MATRIX_BUILD-O2" -- hidden_generator
    [ "$(cat "$ranks/status")" -eq 125 ]
    grep -q 'error AR-LOADING: ' "$ranks/err"
}

@test "Python: classifier.py" { script classifier.py; }
@test "Python: gpt.py" { script gpt.py; }
@test "Python: vae.py" { script vae.py; }
@test "Python: batchnorm.py" { script batchnorm.py; }
@test "Python: lstm.py" { script lstm.py; }

# files NAME: what tests/files.bats and files_seen.bats run on one build
files() { both 2 "$(python_of "$MATRIX_BUILD")" "$BATS_TEST_DIRNAME/programs/$1"; }

@test "Python: files whose names are drawn, with several handles" { files names_and_handles.py; }
@test "Python: files read, moved and changed while they are open" { files open_files.py; }
@test "Python: files under their other names" { files other_names.py; }
@test "Python: files that are open before torch is imported" { files early_and_twins.py; }
@test "Python: files in mapped memory" { files mapped_files.py; }
@test "Python: files that readers have, of names that differ" { files handles.py; }
@test "Python: times, numbers and names that threads are given" { files moments_of_threads.py; }
@test "Python: a tracker's own process" { files tracked.py; }
@test "Python: memory shared by name" { memory_by_name files; }

# same_words NAME [argument...]: the output of 2 and 3 ranks is the plain run's
same_words() {
    local n
    plain_run "$1" "$2"
    for n in 2 3; do
        ranks_run "$n" "$1" "$2"
        same_status && same_errors && "$COMPARE" "$plain/out" "$ranks/out" || return 1
    done
}

@test "autograd: what is called back in C++" { same_words "$MATRIX_BUILD-O2" callbacks; }
@test "autograd: a TorchScript module" { same_words "$MATRIX_BUILD-O2" scripted; }

@test "autograd: views of parameters in another order on each rank" { same_words "$MATRIX_BUILD" parameter_views.py; }
@test "autograd: one collective a step, with views of parameters" { one_collective_a_step "$MATRIX_BUILD"; }

part() { same_part "$1" "$MATRIX_BUILD"; }

@test "autograd: what is called back in Python" { part callbacks.py; }
@test "autograd: hooks on leaves' nodes" { part leaf_hooks.py; }
@test "autograd: gradients in the loss" { part second_derivative.py; }
@test "autograd: gradients in the loss through a normalisation" { part second_derivative_norm.py; }
@test "autograd: layouts of normalised images" { part image_layouts.py; }
@test "autograd: memory by its address" { part memory.py; }
@test "autograd: storages of views" { part storages.py; }
@test "autograd: leaves of divided rows" { part divided_leaves.py; }
@test "autograd: writes in place" { part writes.py; }
@test "autograd: views of what is written" { part rewritten.py; }
@test "autograd: writes to sums, lists and out= tensors" { part written.py; }
@test "autograd: sparse gradients" { part sparse.py; }
@test "autograd: legacy types" { part legacy_types.py; }
@test "autograd: large gradients" { part shared_gradients.py; }
@test "autograd: forward mode" { part forward_mode.py; }
@test "autograd: what does not fit" { part misfits.py; }
@test "autograd: views of columns" { part columns.py; }
@test "autograd: indices outside" { part outside.py; }
@test "autograd: gradients retained" { part retained.py; }
@test "autograd: history alone" { part history.py; }

# MATRIX_SLICE: another twentieth for each build, and with each commit (tests/matrix/run)
@test "autograd: every twentieth operator, called as its schema says" {
    cd "$BATS_TEST_TMPDIR" || return 1
    requires file "$(python_of "$MATRIX_BUILD")"
    OMP_NUM_THREADS=1 "$REPOSITORY/tests/operators" "$ACCEL_RUN" "$(python_of "$MATRIX_BUILD")" schemas run 2,3 found.json --every 20 \
        --offset "${MATRIX_SLICE:-0}"
}

@test "autograd: the operators that are listed as element by element are" {
    requires file "$(python_of "$MATRIX_BUILD")"
    "$(python_of "$MATRIX_BUILD")" "$REPOSITORY/tests/pointwise" --acts
}

@test "refused: hooks of Python on nodes of the graph, by name" {
    ranks_run 2 "$MATRIX_BUILD" refused.py node_hook
    [ "$(cat "$ranks/status")" -eq 125 ]
    contains "$(cat "$ranks/err")" AR-PY-HOOK
    [ ! -s "$ranks/out" ]
}

@test "refused: hooks of a Reducer and of saved tensors, by name" {
    stopped "$MATRIX_BUILD" AR-COMM-HOOK refused.py comm_hook
    stopped "$MATRIX_BUILD" AR-SAVED-HOOK refused.py saved_hook
}

@test "refused: nodes of a C++ program's own, and its hooks on nodes, by name" {
    local mode
    for mode in node_hook accumulator_hook own_node; do
        ranks_run 2 "$MATRIX_BUILD-O2" structures "$mode"
        [ "$(cat "$ranks/status")" -eq 125 ]
        contains "$(cat "$ranks/err")" AR-NODE
        rm -r "$ranks"
    done
}

# parted PROGRAM MODE...: ranks that take results in different orders are stopped
parted() {
    local mode
    for mode in "${@:2}"; do
        ranks_run 2 "$MATRIX_BUILD" "$1" "$mode"
        [ "$(cat "$ranks/status")" -eq 125 ] || { echo "$mode" >&2 && return 1; }
        contains "$(cat "$ranks/err")" "AR-RANKS-PARTED: rank 1 has another "
        rm -r "$ranks"
    done
}

@test "refused: results of two batches, or steps, in another order on each rank" { parted taken.py rows sums losses steps average packed; }
@test "refused: results of one batch in another order on each rank" {
    parted taken_apart.py numbers largest heads scaled factors constants shifted pieces columns normalised answers drawn stacked gradients
}
