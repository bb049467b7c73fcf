#!/usr/bin/env bats
# A libtorch that accel-run does not understand ends the run before training, with one message that names what is missing. Fakes of a few bytes stand for
# such builds (tests/fake/libfaketorch.c).

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup() {
    unset ACCEL_RUN_SHIM ACCEL_RUN_LOG_LEVEL
    T=$BATS_TEST_TMPDIR
    cd "$T" || return 1
}

# stopped TEXT...: two ranks are stopped before training, by one message with all the texts; no process and no file is left
stopped() {
    local text
    # shellcheck disable=SC2016 # for the inner shell
    run -125 --separate-stderr sh -c 'echo $$ >job; exec "$@"' sh "$ACCEL_RUN" -n 2 ./program "$T/pid"
    [ -z "$output" ] || { echo "it trained: $output" >&2 && return 1; }
    [ "$(grep -c 'accel-run: error' <<<"$stderr")" -eq 1 ] || { echo "$stderr" >&2 && return 1; }
    for text in AR-TORCH-UNSUPPORTED "what to do:" "$@"; do
        contains "$stderr" "$text" || return 1
    done
    wait_pids_gone "$(cat pid.0)" "$(cat pid.1)"
    [ -z "$(find /dev/shm -name "*accel-run-$(cat job)-*")" ]
}

@test "a libtorch without the functions that the shim calls stops the job and is named with the first of them" {
    fake_torch
    stopped "$T/libtorch_cpu.so" "check 'functions' failed" "_ZN3c1010Dispatcher13realSingletonEv is missing"
}

@test "a libtorch that lacks one function is told which" {
    every_symbol >all.def
    fake_torch all.def _ZN3c108GradMode10is_enabledEv
    stopped "check 'functions' failed" "_ZN3c108GradMode10is_enabledEv is missing"
}

@test "a libtorch that lacks one function to be hooked is told which" {
    every_symbol >all.def
    fake_torch all.def _ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE
    stopped "check 'hook rows' failed" "libtorch_cpu lacks accumulate_grad_apply"
}

@test "a libtorch that has every function but behaves otherwise is stopped by the check that noticed" {
    every_symbol >all.def
    fake_torch all.def
    stopped "check 'dispatch keys' failed"
}

@test "a program into which libtorch was linked statically is refused before it begins, also without symbols" {
    cat >static.cpp <<'END'
#include <cstdio>
#include <typeinfo>
namespace c10 {
struct TensorImpl {
    virtual ~TensorImpl();
    virtual void release_resources();
};
TensorImpl::~TensorImpl() {}
void TensorImpl::release_resources() {}
} // namespace c10
int main() {
    c10::TensorImpl tensor;
    c10::TensorImpl *volatile which = &tensor;
    which->release_resources();
    std::puts("trained");
}
END
    g++ -O2 -s -o program static.cpp
    [ "$(./program)" = trained ]
    run -125 --separate-stderr "$ACCEL_RUN" -n 2 ./program
    [ -z "$output" ]
    contains "$stderr" "error AR-ELF-TORCH: "
    contains "$stderr" "'./program'"
}

@test "a program whose libtorch is no library of its own is told so" {
    fake_torch
    gcc -DFAKE_PROGRAM -o program "$REPOSITORY/tests/fake/libfaketorch.c" -L. -Wl,-rpath,"$T" -lc10
    stopped "libtorch_cpu is not loaded as a shared library"
}

@test "a Python without a global lock is stopped by name before the first parameter" {
    echo 'void _Py_MergeZeroLocalRefcount(void) {}' | gcc -shared -fPIC -x c -o free.so - # what such builds alone export
    requires file "$(python_of debian)"
    LD_PRELOAD=$T/free.so run -125 --separate-stderr "$ACCEL_RUN" -n 2 "$(python_of debian)" -c 'import torch; torch.nn.Linear(1, 1); print("trained")'
    [ -z "$output" ]
    contains "$stderr" "error AR-PYTHON: "
    contains "$stderr" "this Python has no global lock"
}

@test "with one rank nothing is checked and nothing is changed" {
    fake_torch
    run -0 --separate-stderr "$ACCEL_RUN" ./program
    [ "$output" = trained ]
    [ -z "$stderr" ]
}

@test "without the launcher the preloaded shim does nothing" {
    fake_torch
    LD_PRELOAD=$BUILD/libaccelshim.so run -0 --separate-stderr ./program
    [ "$output" = trained ]
    [ -z "$stderr" ]
}

@test "a program that uses no libtorch runs, and is said not to have been divided" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 printf 'hello\n'
    [ "$output" = hello ]
    contains "$stderr" "AR-NO-TRAINING"
}
