#!/usr/bin/env bats
# Data loaders of C++ programs: a rank reads its own rows only where that cannot be told from reading all, and all rows everywhere else. What a
# process reads is counted by the program (tests/programs/loaders.cpp); what it prints is compared word by word with the plain program.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs
load loading

export BATS_TEST_TIMEOUT=600

setup_file() {
    unset RANK WORLD_SIZE OMP_NUM_THREADS ACCEL_RUN_SHIM ATEN_CPU_CAPABILITY
}

@test "examples of a plain loader are read by the rank that needs them, without workers" {
    local build
    for build in debian-O2 wheel-O2; do
        divided "$build" 2 plain
        divided "$build" 3 drop_last 0 31
    done
}

@test "examples of a plain loader are read by the rank that needs them, with two workers" {
    local build
    for build in debian-O2 wheel-O2; do
        divided "$build" 3 plain 2
        divided "$build" 2 drop_last 2 20
    done
}

@test "batches of one tensor are born divided, too" {
    divided debian-O2 3 tensors
    divided wheel-O2 2 tensors
    divided wheel-O2 2 tensors 2
    loaders 2 debian-O2 -- tensor_dataset
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "a data set that asks the model is asked by the rank that needs the example; one that computes gradients is read whole" {
    divided debian-O2 2 hardest
    divided wheel-O2 3 hardest
    whole debian-O2 3 adversarial
    whole wheel-O2 2 adversarial
    whole debian-O2 3 sloped
    whole debian-O2 2 sloped 2
    whole wheel-O2 3 sloped_backward 3
}

@test "a loader is read whole when a data set makes something that could be trained" {
    whole debian-O2 2 making
    whole debian-O2 3 making 2
    whole wheel-O2 2 making 3
}

@test "a thread that has the number of a loader's former worker trains as any other" {
    local build
    for build in debian-O2 wheel-O2; do
        loaders 2 "$build" -- later_thread
        same_status
        "$COMPARE" "$plain/out" "$ranks/out"
        same_numbers 2
    done
}

@test "many loaders, each left while its workers have something to read, are what they are in one process" {
    loaders 2 debian-O2 -- left 2 12
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "with workers a last batch as long as a rank's rows of a whole one is not taken for those" {
    loaders 2 debian-O2 -- sequential 2 124
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "a loader is read whole when reading an example draws random numbers" {
    local kind
    in_turn 1 default_generator member_generator static_generator pointed_generator deep_generator captured_generator inner_generator rand
    for kind in "${its_turn[@]}"; do
        whole debian-O2 2 "$kind"
    done
    whole wheel-O2 3 default_generator
}

@test "a loader is read whole when reading an example counts in the middle of 20 MB, or in a global vector" {
    whole debian-O2 2 counted_visits
    whole debian-O2 2 global_visits
    whole debian-O2 2 counting
    whole debian-O2 3 counting 2
    whole wheel-O2 2 counting 3
}

@test "a loader is read whole when a batch is more than its examples stacked" {
    local kind
    in_turn 0 get_batch batch_transform apply_batch collate unstacked batches custom_sampler frames "frames 2" talking
    for kind in "${its_turn[@]}"; do
        # shellcheck disable=SC2086
        whole debian-O2 2 $kind
    done
    whole wheel-O2 3 get_batch 2
    loaders 2 debian-O2 -- chunks
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "loaders of a program whose allocator is not glibc's are read whole, and --explain says why" {
    local workers
    for workers in 0 2; do
        LD_PRELOAD=$BUILD/structures/liballocator.so whole debian-O2 2 plain "$workers"
        grep -q "is read whole by every rank: the program's allocator is not glibc's" "$ranks/err"
    done
}

@test "where libstdc++ is a part of the program loaders with workers are read whole, whose exceptions are not seen; others are divided" {
    program=loaders_static
    divided debian-O2 2 plain
    whole debian-O2 2 plain 2
    grep -q 'is read whole by every rank: it has workers, and libstdc++ is a part of the program' "$ranks/err"
}

@test "a program without a symbol table reads everything when its data set could have a get_batch of its own" {
    command=("$BUILD/programs/debian-O2/loaders")
    strip -o "$BATS_TEST_TMPDIR/stripped" "${command[0]}"
    plain_run debian-O2 loaders plain
    run_in "$BATS_TEST_TMPDIR/run" "$ACCEL_RUN" -n 2 --explain "$BATS_TEST_TMPDIR/stripped" plain
    "$COMPARE" "$plain/out" "$BATS_TEST_TMPDIR/run/out"
    grep -q 'not found in the program.s symbol table' "$BATS_TEST_TMPDIR/run/err"
}

@test "a loader that turns out to depend on what it has read before stops by name, and --no-shard-loading reads everything" {
    local kind
    in_turn 0 late looking_back hidden_generator "late 2" "rare_member 0 8" "rare_static 0 8" "rare_pointed 0 8" "rare_written 0 8"
    for kind in "${its_turn[@]}"; do
        # shellcheck disable=SC2086
        loaders 2 debian-O2 -- $kind
        [ "$(cat "$ranks/status")" -eq 125 ]
        grep -q 'error AR-LOADING: ' "$ranks/err"
    done
    loaders 2 debian-O2 --no-shard-loading -- hidden_generator
    "$COMPARE" "$plain/out" "$ranks/out"
    [ "${reads[*]}" = "$read_alone $read_alone" ]
}

@test "loaders that drop their last batch, others at their places that do not, more than are remembered, and one that another thread goes on with" {
    program=loader_traces
    local kind
    in_turn 1 "stale" "stale_evaluation" "stale 2" "stale_evaluation 2" clients
    for kind in "${its_turn[@]}"; do
        # shellcheck disable=SC2086
        loaders 2 debian-O2 -- $kind
        same_status
        "$COMPARE" "$plain/out" "$ranks/out"
        [ "$kind" != "${kind% 2}" ] || [ "${reads[0]}" -lt $((read_alone * 4 / 5)) ]
    done
    loaders 3 wheel-O2 -- stale
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "a loader that stands where another has stood on one rank only, also where all have copies of one sampler, is divided all the same" {
    program=loader_traces
    divided_at_last() {
        loaders "$@"
        same_status
        "$COMPARE" "$plain/out" "$ranks/out"
        echo "${reads[*]} of $read_alone" >&2
        [ "${reads[0]}" -lt $((read_alone * 4 / 5)) ]
    }
    divided_at_last 2 debian-O2 -- stale_elsewhere
    divided_at_last 3 wheel-O2 -- stale_copied
    divided_at_last 2 debian-O2 -- stale_zipped
    divided_at_last 2 debian-O2 -- beside_distributed
}

@test "a sampler of the program's own that leaves out examples and fills batches up hands out what it does in one process" {
    program=loader_traces
    whole debian-O2 2 filtered
    whole debian-O2 3 filtered 2
    whole wheel-O2 2 filtered
}

@test "a sampler of the program's own behind a loader in memory hands out what it is asked for" {
    program=loader_traces
    loaders 2 debian-O2 -- neighbours
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "a loader is read whole when reading an example leaves something behind: among many, in a library, in a thread, in a file, in a buffer" {
    program=loader_traces
    local kind
    in_turn 1 crowded crowded_stack shown painted library log "log 2" "tally 2" dots
    for kind in "${its_turn[@]}"; do
        # shellcheck disable=SC2086
        whole debian-O2 2 $kind
        ! cmp "$plain/reads.log" "$ranks/reads.log" || continue
        [ ! -e "$plain/reads.log" ] || diff <(sort "$plain/reads.log") <(sort "$ranks/reads.log")
    done
    whole wheel-O2 3 library
}

@test "a data set of many allocations that keeps nothing, and one with a buffer that grows once, are divided" {
    program=loader_traces
    divided debian-O2 2 growing 2
    divided debian-O2 2 gallery
    divided wheel-O2 2 gallery 2
}

@test "what only looks like an address keeps no loader from being divided" {
    program=loader_traces
    divided debian-O2 2 half_stale
}

@test "a word about one bad example, written to a file that is open, stops by name where only its rank has read it; so do what is thrown and late counts" {
    program=loader_traces
    local kind
    in_turn 0 skipped "tally_late 2" handed_over "caught 2" few_bad few_bad_bare
    for kind in "${its_turn[@]}"; do
        # shellcheck disable=SC2086
        loaders 2 debian-O2 -- $kind
        [ "$(cat "$ranks/status")" -eq 125 ]
        grep -q 'error AR-LOADING: .*\(has written to a file\|thread_local\|by another thread\|gave up a batch\)' "$ranks/err"
    done
}

@test "an exception that a data set handles itself gives up no batch, whatever else the program is given" {
    # shellcheck disable=SC2034 # read by loaders
    program=loader_traces
    loaders 2 debian-O2 -- mended 2
    [ "${reads[0]}" -lt "$read_alone" ] # it was divided
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "a data set that a worker leaves as it was after a whole batch, but not after a rank's rows, stops by name" {
    program=loader_traces
    loaders 3 debian-O2 -- turning 2
    [ "$(cat "$ranks/status")" -eq 125 ]
    grep -q "error AR-LOADING: .* has changed a worker's data set" "$ranks/err"
}

# scaled N KIND...: accel-run --scale-batch with batches of 13 is the plain program with batches of 13 * N
scaled() {
    local n=$1 build
    shift
    for build in debian-O2 wheel-O2; do
        # shellcheck disable=SC2034 # read by loaders
        plain_arguments=("$@" $((13 * n)))
        loaders "$n" "$build" --scale-batch -- "$@" 13
        "$COMPARE" "$plain/out" "$ranks/out"
    done
}

@test "--scale-batch trains as the plain program with N times the batch size" {
    scaled 2 plain 0
    scaled 3 drop_last 2
}

@test "--scale-batch stops by name before the first step of a program whose loader it does not know" {
    local build
    for build in debian-O2 wheel-O2; do
        loaders 2 "$build" --scale-batch -- chunks
        [ "$(cat "$ranks/status")" -eq 125 ]
        grep -q 'error AR-SCALE-BATCH: ' "$ranks/err"
        [ ! -s "$ranks/out" ]
    done
    for program in loaders loader_traces; do
        set_command debian-O2 "$program"
        run_in "$BATS_TEST_TMPDIR/$program" "$ACCEL_RUN" -n 2 --scale-batch "${command[@]}" "$([ "$program" = loaders ] && echo custom_sampler || echo filtered)"
        [ "$(cat "$BATS_TEST_TMPDIR/$program/status")" -eq 125 ]
        grep -q "error AR-SCALE-BATCH: .*: its sampler is the program's own" "$BATS_TEST_TMPDIR/$program/err"
    done
}

@test "--scale-batch stops by name where another thread uses the loader" {
    set_command debian-O2 loader_traces
    run_in "$BATS_TEST_TMPDIR/run" "$ACCEL_RUN" -n 2 --scale-batch "${command[@]}" clients
    [ "$(cat "$BATS_TEST_TMPDIR/run/status")" -eq 125 ]
    grep -q 'error AR-SCALE-BATCH: .*: it is not the main thread' "$BATS_TEST_TMPDIR/run/err"
}
