#!/usr/bin/env bats
# Single operators (tests/programs/rule_*): every case of N ranks prints what the plain program prints, or is stopped by name where the
# document says so. Nothing silently different, nothing that hangs. C++ programs on one build or the other (alternate of programs.bash), on each by
# `make check-matrix`.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=900

setup_file() {
    programs_setup_file
    export OMP_NUM_THREADS=1
}

@test "attention by hand, fused and of torch::nn" {
    alternate 0 sweep rule_attention
}

@test "memory that the program reads and writes" {
    alternate 1 sweep rule_read
}

@test "rows of tensors that share one memory, taken and kept one by one, are put together once, and written for all of them" {
    requires file /usr/bin/python3
    plain_run debian rows_of_aliases.py
    ranks=$BATS_TEST_TMPDIR/ranks
    run_in "$ranks" "$ACCEL_RUN" -n 2 --log-level info "${command[@]}"
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
    gathered=$(sed -n 's/.*backwards, \([0-9]*\) tensors gathered.*/\1/p' "$ranks/err" | head -1)
    [ "$gathered" -lt 20 ] # 33 rows, twice
}

@test "indices, and writes in place" {
    alternate 2 sweep rule_index
}

@test "layers and losses of torch::nn" {
    alternate 3 sweep rule_sweep
}

@test "other modules of torch::nn, losses with each reduction, and functions of torch::nn::functional" {
    alternate 0 sweep rule_modules
}

# functions NAMESPACE HEADER...: that are declared there, but for helpers
functions() {
    awk '/^namespace detail/ { hidden = 1 } /^} \/\/ namespace detail/ { hidden = 0 } /^inline / && !hidden' "${@:2}" |
        grep -oP '\b[a-z]\w*(?=\()' | sed "s/^/$1::/"
}

# declared HEADERS: the modules and functions of torch::nn, and the optimizers and their schedulers, as programs name them
declared() {
    grep -rhoP '^TORCH_MODULE\(\K\w+|^class \K\w+(?= : public torch::nn::ModuleHolder)' "$1/nn/modules" | sed 's/^/nn::/'
    functions F "$1"/nn/functional/*.h
    functions utils "$1"/nn/utils/*.h
    grep -rhoP '^class TORCH_API \K\w+(?= : public (Optimizer|LRScheduler))|^class TORCH_API \KReduceLROnPlateauScheduler' "$1/optim" | sed 's/^/optim::/'
}

@test "every module, function and optimizer of libtorch's headers has a case in C++" {
    local headers programs=$REPOSITORY/tests/programs
    cd "$BATS_TEST_TMPDIR" || return 1
    {
        grep -ohP '\bnn::\w+(?=[ (,])|\bF::\w+(?=\()' "$programs"/rule_*.cpp "$programs"/rule_case.h
        grep -ohP '\butils::(rnn::)?\K\w+(?=\()' "$programs"/rule_*.cpp | sed 's/^/utils::/'
        grep -ohP '\boptim::\w+(?=[ (>])' "$programs"/*.cpp
    } | sort -u >used
    for headers in /usr/include/torch/csrc/api/include/torch "$BUILD"/venv/lib/python3*/site-packages/torch/include/torch/csrc/api/include/torch; do
        requires file "$headers"
        declared "$headers" | sort -u >names
        [ "$(wc -l <names)" -gt 200 ]
        comm -13 used names >without
        show without
        [ ! -s without ]
    done
}

@test "modules, functions and expressions in Python: 2 ranks, wheel, and docs/operators.md says what became of each" {
    operators wheel cases check 2
}

@test "modules, functions and expressions in Python: 3 ranks, debian, of two cases one in this run and the other in the next" {
    local half=()
    [ "${CHECK_HALF:-all}" = all ] || half=(--half "$CHECK_HALF")
    operators debian cases run 3 "${half[@]}"
}

# schemas_slice BUILD: a fortieth of its operators; a build's turn comes with every second commit
schemas_slice() {
    local slice=$((${CHECK_NUMBER:-1} / 2 % 40))
    echo "every 40th operator of $1 from number $slice on" >&2
    operators "$1" schemas run 2 "$BATS_TEST_TMPDIR/$1.json" --every 40 --offset "$slice"
}

@test "operators called as their schemas say, others with each commit: 2 ranks, one build or the other" {
    alternate 0 schemas_slice
}

@test "every class of torch.nn and every function of torch.nn.functional has a case" {
    local build
    for build in debian wheel; do
        requires file "$(python_of $build)"
        "$(python_of $build)" "$REPOSITORY/tests/programs/rule_sweep.py" --complete
    done
}

@test "the list of operators that work element by element is what the schemas of both builds give" {
    local build
    for build in debian wheel; do
        requires file "$(python_of $build)"
        "$(python_of $build)" "$REPOSITORY/tests/pointwise" --check
    done
}

@test "the sweep notices a figure, an infinity, what an infinity hides, a missing case, a run without cases, with few of them or with many that libtorch refuses, and a stop that is not expected or is none" {
    local change
    cd "$BATS_TEST_TMPDIR" || return 1
    cat >program <<'END'
#!/bin/sh
if [ -n "$CHANGED" ]; then echo "case b 16" >&2; fi
[ "$CHANGED" = none ] || echo "a 16 [7] 0.12345"
[ "$CHANGED" = none ] || echo "b 16 [7] ${CHANGED:-${PLAIN:-0.5}}"
[ "$CHANGED" = raises ] || echo "c 16 ValueError"
case $CHANGED in
stop) echo "error AR-WRITE stopped" >&2 && exit 125 ;;
killed) echo "error AR-RANK-KILLED: rank 1 of 2 killed by SIGSEGV" >&2 && exit 139 ;;
late) echo "error AR-COLLECTIVE-TIMEOUT: rank 1 has not come" >&2 && exit 125 ;;
parted) echo "error AR-RANKS-PARTED: rank 1 does something else" >&2 && exit 125 ;;
esac
END
    cat >launcher <<'END'
#!/bin/sh
shift 2
CHANGED=$CHANGE exec "$@"
END
    printf '#!/bin/sh\nexit 0\n' >silent
    chmod +x program launcher silent
    CHANGE='' "$REPOSITORY/tests/sweep" ./launcher 2 ./program
    CHANGE=0.500001 "$REPOSITORY/tests/sweep" ./launcher 2 ./program
    CHANGE=inf PLAIN=inf "$REPOSITORY/tests/sweep" ./launcher 2 ./program
    for change in 0.5001 nan inf none raises stop killed late; do
        CHANGE=$change run -1 "$REPOSITORY/tests/sweep" ./launcher 2 ./program
    done
    CHANGE=0.5001 run -1 "$REPOSITORY/tests/sweep" ./launcher 3,2 ./program
    for change in 0.5 nan -inf; do
        CHANGE=$change PLAIN=inf run -1 "$REPOSITORY/tests/sweep" ./launcher 2 ./program
    done
    run -1 "$REPOSITORY/tests/sweep" ./launcher 2 ./silent
    CHANGE='' "$REPOSITORY/tests/sweep" ./launcher 2 --at-least 3 --refused-at-most 1 ./program
    CHANGE='' run -1 "$REPOSITORY/tests/sweep" ./launcher 2 --at-least 4 ./program
    CHANGE='' run -1 "$REPOSITORY/tests/sweep" ./launcher 2 --refused-at-most 0 ./program
    CHANGE=stop "$REPOSITORY/tests/sweep" ./launcher 2,3 --stopped b ./program
    CHANGE=stop run -1 "$REPOSITORY/tests/sweep" ./launcher 1,2 --stopped b ./program
    for change in killed late parted; do
        CHANGE=$change run -1 "$REPOSITORY/tests/sweep" ./launcher 2 --stopped b ./program
        CHANGE=$change run -1 "$REPOSITORY/tests/sweep" ./launcher 2 --any-stop ./program
    done
}

@test "the sweep's figures tell finite elements beside an infinite one, and where the infinite ones are" {
    local build
    cd "$BATS_TEST_TMPDIR" || return 1
    sed '/^main()$/d' "$REPOSITORY/tests/programs/rule_sweep.py" >rule_sweep_parts.py
    for build in debian wheel; do
        requires file "$(python_of $build)"
        PYTHONPATH=$REPOSITORY/tests/programs "$(python_of $build)" -B - <<'PYTHON'
from rule_sweep_parts import figure, torch
nan, inf = float("nan"), float("inf")
lines = [[1, nan, 2], [1, nan, 3], [nan, 1, 2], [1, inf, 2], [1, -inf, 2], [1, inf, 3], [inf, 1, 2]]
figures = [figure(torch.tensor(line)) for line in lines]
assert len(set(figures)) == len(figures), figures
PYTHON
    done
}
