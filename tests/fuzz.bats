#!/usr/bin/env bats
# What `make fuzz` gives random input to, briefly: else nobody notices that a fuzzer does not compile any more, or that its own corpus breaks something.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

@test "files, options, programs, claims, rows and output that anybody may give: the corpus, and some inputs made of it, break nothing" {
    local source name count=0
    for source in "$REPOSITORY"/tests/fuzz/*.c; do
        name=$(basename "$source" .c)
        mkdir "$BATS_TEST_TMPDIR/$name"
        # the same ones with each run: what is new is for make fuzz to find
        run "$BUILD/fuzz/$name" -seed=1 -runs=5000 -timeout=10 -rss_limit_mb=1024 -max_len=20000 -verbosity=0 \
            -artifact_prefix="$BATS_TEST_TMPDIR/" "$BATS_TEST_TMPDIR/$name" "$REPOSITORY/tests/fuzz/corpus/$name"
        [ "$status" -eq 0 ] || { echo "$name: $output" >&2 && return 1; }
        count=$((count + 1))
    done
    [ "$count" -ge 6 ]
}
