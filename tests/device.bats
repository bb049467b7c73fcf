#!/usr/bin/env bats
# Programs whose model and data are on an accelerator: one without hardware (tests/fake/accelerator.cpp), whose memory no process can read. `make check-device` runs
# every operator there.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    programs_setup_file
}

# on_device NAME...: in $command
on_device() {
    set_command wheel series.py
    [ -e "$BUILD/fake/libaccelerator.so" ] || { echo "not built" >&2 && return 1; }
    command=("${command[0]}" "$REPOSITORY/tests/fake/on_device.py" "$BUILD/fake/libaccelerator.so" "${command[1]}" "$@")
}

@test "networks, drop-out, batch normalisation, derivatives, losses on an accelerator are one process's, with 2 and 3 ranks" {
    local n
    on_device vae.py gpt.py batchnorm.py retained.py divided_leaves.py second_derivative.py functional.py forward_mode.py subclasses.py
    run_in "$BATS_TEST_TMPDIR/plain" "${command[@]}" &
    run_in "$BATS_TEST_TMPDIR/2" "$ACCEL_RUN" -n 2 "${command[@]}"
    run_in "$BATS_TEST_TMPDIR/3" "$ACCEL_RUN" -n 3 "${command[@]}"
    wait %%
    [ "$(cat "$BATS_TEST_TMPDIR/plain/status")" -eq 0 ] || { show "$BATS_TEST_TMPDIR/plain/err" && return 1; }
    for n in 2 3; do
        "$COMPARE" "$BATS_TEST_TMPDIR/plain/out" "$BATS_TEST_TMPDIR/$n/out" || { show "$BATS_TEST_TMPDIR/$n/err" && return 1; }
    done
}

@test "a C++ program that counts accelerators, for which their library opens a device, before it makes a model" {
    set_command wheel-O2 counted
    command+=("$BUILD/fake/libaccelerator.so")
    run_in "$BATS_TEST_TMPDIR/plain" "${command[@]}"
    [ "$(cat "$BATS_TEST_TMPDIR/plain/status")" -eq 0 ] || { show "$BATS_TEST_TMPDIR/plain/err" && return 1; }
    run_in "$BATS_TEST_TMPDIR/3" "$ACCEL_RUN" -n 3 "${command[@]}"
    "$COMPARE" "$BATS_TEST_TMPDIR/plain/out" "$BATS_TEST_TMPDIR/3/out" || { show "$BATS_TEST_TMPDIR/3/err" && return 1; }
}

@test "the address of divided rows on an accelerator is refused by name" {
    on_device device_pointer.py
    run_in "$BATS_TEST_TMPDIR/2" "$ACCEL_RUN" -n 2 "${command[@]}"
    [ "$(cat "$BATS_TEST_TMPDIR/2/status")" -eq 125 ]
    grep -q "accel-run: error AR-DEVICE: .*address\|accel-run: error AR-DEVICE: .*pointer" "$BATS_TEST_TMPDIR/2/err"
}

@test "two threads that train on an accelerator at the same time, one of them with a batch too small to be divided, are stopped by name" {
    on_device undivided_beside.py
    run_in "$BATS_TEST_TMPDIR/2" "$ACCEL_RUN" -n 2 "${command[@]}"
    [ "$(cat "$BATS_TEST_TMPDIR/2/status")" -eq 125 ]
    grep -q "accel-run: error AR-BACKWARD-BESIDE: " "$BATS_TEST_TMPDIR/2/err"
}
