#!/usr/bin/env bats
# The templates of hooks/null/: what docs/adding-a-hook.md and docs/adding-a-rule.md show really works, on every libtorch the tests have.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=300

setup() {
    unset OMP_NUM_THREADS ACCEL_RUN_SHIM ACCEL_RUN_LOG_LEVEL ACCEL_RUN_EXPLAIN
    TEMPLATE_SHIM=$BUILD/template/libaccelshim.so
    T=$BATS_TEST_TMPDIR
    cd "$T" || return 1
}

# for_each_build COMMAND...: with $TRAINER set to the trainer of each build of libtorch
for_each_build() {
    local found=
    for TRAINER in "$BUILD"/template/*/trainer; do
        [ -x "$TRAINER" ] || continue
        found=1
        "$@" || { echo "with $TRAINER" >&2 && return 1; }
    done
    [ -n "$found" ] || { echo "make templates has built no trainer" >&2 && return 1; }
}

# train_with SHIM ARGUMENT...: plain and with two ranks under the shim; what they print must agree. The ranks' stderr is left in $T/err.
train_with() {
    OMP_NUM_THREADS=1 "$TRAINER" "${@:2}" >plain
    ACCEL_RUN_SHIM=$1 "$ACCEL_RUN" -n 2 --log-level "${LEVEL:-info}" --explain "$TRAINER" "${@:2}" >ranks 2>err || { show err && return 1; }
    "$REPOSITORY/tests/compare" plain ranks
}

hook_counts() {
    train_with "$TEMPLATE_SHIM" || return 1
    contains "$(cat plain)" "caught: no learning rate today" || return 1
    # Six steps, of which the third throws through the hook.
    diff -u - <(grep 'null:' err) <<'END'
accel-run: null: step 1 of a learning-rate scheduler
accel-run: null: step 2 of a learning-rate scheduler
accel-run: null: step 3 of a learning-rate scheduler
accel-run: null: step 4 of a learning-rate scheduler
accel-run: null: step 5 of a learning-rate scheduler
END
}

@test "the template's hook counts a scheduler's steps, also after one that threw, and training is what it was" {
    for_each_build hook_counts
}

scope_ends() {
    LEVEL=debug train_with "$TEMPLATE_SHIM" || return 1
    [ "$(grep -c 'null: left the scheduler' err)" -eq 6 ]
}

@test "an exception of the program ends the template's scope as a return does" {
    for_each_build scope_ends
}

hook_passes_through() {
    "$TRAINER" >plain
    ACCEL_RUN_SHIM=$TEMPLATE_SHIM "$ACCEL_RUN" --log-level info "$TRAINER" >one 2>err || return 1
    diff -u plain one && [ ! -s err ]
}

@test "with one rank the template's hook only passes through" {
    for_each_build hook_passes_through
}

rule_divides() {
    train_with "$TEMPLATE_SHIM" || return 1
    lacks "$(cat err)" renorm
}

@test "with the template's rule the operator is divided among the ranks" {
    for_each_build rule_divides
}

rule_gathers() {
    train_with "$TEMPLATE_SHIM" columns || return 1
    contains "$(cat err)" "operator aten::renorm gathered its rows"
}

@test "where rows mix, the template's rule gathers" {
    for_each_build rule_gathers
}

# When this fails because renorm has got a row: give the template an operator that has none.
nothing_of_the_templates() {
    train_with "$BUILD/libaccelshim.so" || return 1
    lacks "$(cat err)" "null:" || return 1
    contains "$(cat err)" "operator aten::renorm gathered its rows"
}

@test "the ordinary shim has no template: nothing is counted, the operator gathers" {
    for_each_build nothing_of_the_templates
}
