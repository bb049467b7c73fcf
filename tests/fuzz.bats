#!/usr/bin/env bats
# What `make fuzz` gives random input to, for a moment: else nobody notices that a fuzzer does not compile any more, or that its own corpus breaks something.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

@test "files, options, programs, claims, rows and output that anybody may give: a second of random input to each breaks nothing" {
    local source fuzzers=()
    for source in "$REPOSITORY"/tests/fuzz/*.c; do
        fuzzers+=("$BUILD/fuzz/$(basename "$source" .c)")
    done
    [ "${#fuzzers[@]}" -gt 0 ]
    run "$REPOSITORY/tests/fuzz/run" 1 "${fuzzers[@]}"
    [ "$status" -eq 0 ] || { echo "$output" >&2 && return 1; }
}
