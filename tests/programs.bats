#!/usr/bin/env bats
# Training programs that know nothing of us (tests/programs): N ranks are the one-process run. For each number of ranks the output is
# compared word by word, the gradients of the first step to 1e-5, all ranks at the end bit by bit, standard error and the files saved
# by name; one rank must equal the plain program to the bit. See programs.bash for what is done where a program amplifies rounding.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=900

setup_file() {
    programs_setup_file
}

# ---- the ground: without it no comparison below would mean anything

@test "plain programs repeat themselves to the bit with one thread" {
    local build name first again
    for build in debian-O2 wheel-O2; do
        for name in fashion mlp_loader gru batchnorm; do
            again=$BATS_TEST_TMPDIR/$build-$name
            set_command "$build" "$name"
            run_in "$again" "${command[@]}" & # each has a core
            plain_run "$build" "$name"
            wait $!
            first=$plain
            cmp "$first/out" "$again/out"
            dumps_of "$first"
            "$COMPARE" --dump --identical "${dumps[0]}" "$again"/.nv/dump.[0-9]*
        done
    done
}

@test "the comparison notices one word, one count, one digit, one line, one bit" {
    cd "$BATS_TEST_TMPDIR" || return 1
    printf 'epoch 1 [ 640/1000] loss: 0.1234, correct 17\nend\n' >a
    "$COMPARE" a a
    sed 's/0.1234/0.1235/' a >b && "$COMPARE" a b
    local change
    for change in s/0.1234/0.1238/ s/17/18/ s/640/320/ s/loss/less/ s/epoch// s/0.1234/nan/ '$d' 's/end/end\nend/'; do
        sed "$change" a >b
        run -1 "$COMPARE" a b
    done
    : >b
    run -1 "$COMPARE" b b
    printf 'gradient w 2 0x1p+0 0x1p-1\ngradient b undefined\n' >a
    "$COMPARE" --dump a a
    sed 's/0x1p-1/0x1.000001p-1/' a >b
    "$COMPARE" --dump a b
    run -1 "$COMPARE" --dump --identical a b
    for change in s/0x1p-1/0x1.001p-1/ s/undefined/'1 0x0p+0'/ s/0x1p-1/nan/ '$d'; do
        sed "$change" a >b
        run -1 "$COMPARE" --dump a b
    done
}

@test "operators that have nothing to do with parameters alone do not arrive for them, on both builds" {
    local build
    for build in debian wheel; do
        requires file "$BUILD/programs/$build-O2/l2"
        run -0 --separate-stderr "$ACCEL_RUN" -n 2 --log-level debug "$BUILD/programs/$build-O2/l2"
        contains "$stderr" "arrive for divided tensors only" || return 1
    done
}

# same_model BUILD N: what the runs of fashion in the same test have saved is the plain run's, with one rank to the bit
same_model() {
    local runs=$BATS_TEST_TMPDIR/$1-fashion
    cmp "$plain/model.pt" "$runs-1/model.pt"
    "$(python_of "$1")" "$COMPARE" --model --tolerance 2e-2 "$plain/model.pt" "$runs-$2/model.pt"
}

# compiled BUILD NAME: with 3 ranks, whose shares of a batch differ
compiled() { same_run "$1-O2" "$2" 3; }

script() {
    numbers_of "$1"
    same_run "$1" "$2" "${numbers[@]}"
}

# ---- on both builds: some with 2 ranks, too, two with 4, where each of two cores has two; one rank, which is the plain program, of each kind once

@test "fashion, and the model that it saves, debian" { same_run debian-O2 fashion 1 2 3 4; same_model debian-O2 3; }
@test "mlp_loader, debian" { same_run debian-O2 mlp_loader 2 3; }
@test "gru, debian" { same_run debian-O2 gru 1 3 4; }
@test "batchnorm, debian" { same_run debian-O2 batchnorm 2 3; }
@test "throws, debian" { same_run debian-O2 throws 1 3; }
@test "classifier.py, debian" { same_run debian classifier.py 1 3; }
@test "gpt.py, debian" { same_run debian gpt.py 2; }

@test "fashion, and the model that it saves, wheel" { same_run wheel-O2 fashion 1 3; same_model wheel-O2 3; }
@test "mlp_loader, wheel" { same_run wheel-O2 mlp_loader 2; }
@test "gru, wheel" { same_run wheel-O2 gru 3; }
@test "batchnorm, wheel" { same_run wheel-O2 batchnorm 3; }
@test "throws, wheel" { same_run wheel-O2 throws 3; }
@test "classifier.py, wheel" { same_run wheel classifier.py 1 2; }
@test "gpt.py, wheel" { same_run wheel gpt.py 3; }

# ---- on one build or the other; `make check-matrix` has them on each

@test "index_loop" { alternate 0 compiled index_loop; }
@test "transformer" { alternate 1 compiled transformer; }
@test "vae" { alternate 0 compiled vae; }
@test "gan" { alternate 1 compiled gan; }
@test "accumulate" { alternate 0 compiled accumulate; }
@test "l2" { alternate 1 compiled l2; }
@test "autoencoder" { alternate 0 compiled autoencoder; }
@test "multi_model" { alternate 1 compiled multi_model; }
@test "vae.py" { alternate 0 script vae.py; }
@test "batchnorm.py" { alternate 1 script batchnorm.py; }
@test "lstm.py" { alternate 0 script lstm.py; }

@test "by gcc, not optimised or with -O2: index_loop, mlp_loader, throws, debian" { # not optimised for the wheel: tests/matrix.bats
    local build compared=
    in_turn 0 debian-O0 debian-gcc-O2
    for build in "${its_turn[@]}"; do
        [ -d "$BUILD/programs/$build" ] || continue # make builds this commit's
        same_run "$build" index_loop 3
        same_run "$build" mlp_loader 2
        same_run "$build" throws 2
        compared=yes
    done
    [ -n "$compared" ]
}

@test "more ranks than cores: eight of fashion, sixteen of mlp_loader" {
    in_turn 0 "fashion 8" "mlp_loader 16"
    local run
    for run in "${its_turn[@]}"; do same_run debian-O2 "${run% *}" "${run#* }"; done
}

# ---- what the comparison of one run cannot show

# The figures are bytes of tensors that were made, which nothing else on the machine changes. (CPU seconds of runs side by side did: 1.6 once, of ranks that shared
# the work.) 0.56 of the plain run is what each of two ranks makes when all is divided but the loading and the optimizer's step. N copies that do not share the work
# have 1.
work_is_divided() {
    local build=$1 plain_work
    plain_run "$build" fashion
    ranks_run 2 "$build" fashion
    [ "$(cat "$plain/status" "$ranks/status" | tr -d '\n')" = 00 ]
    plain_work=$(work_in "$plain")
    [ "$(work_in "$ranks" | wc -l)" -eq 2 ]
    work_in "$ranks" | awk -v plain="$plain_work" '
        { print "work of a rank over work of the plain run:", $1 / plain; bad += $1 >= 0.6 * plain }
        END { exit bad > 0 }'
}

@test "each of two ranks does much less work than the plain run, debian" { work_is_divided debian-O2; }
@test "each of two ranks does much less work than the plain run, wheel" { work_is_divided wheel-O2; }

# A forked child has the parameters with their marks, but no other ranks: it computes alone, and must not take what is only a part for the whole.
@test "forked children compute with the model, debian" { same_children debian 2 3; }
@test "forked children compute with the model, wheel" { same_children wheel 2; }

same_children() {
    local build=$1 n
    shift
    plain_run "$build" forked.py
    for n in "$@"; do
        ranks_run "$n" "$build" forked.py
        same_status
        same_errors
        "$COMPARE" "$plain/out" "$ranks/out"
    done
}

@test "a forked child that uses rows divided before stops the job by name" {
    for use in 0 1 2; do
        ranks_run 2 debian forked.py divided "$use"
        [ "$(cat "$ranks/status")" -eq 125 ]
        [ "$(grep -c "error AR-FORKED: a child process" "$ranks/err")" -eq 1 ]
    done
}

# No two runs of it are alike; its end depends on the data. The ranks must nevertheless be one run: end together, equal to the bit.
unseeded_is_one_run() {
    local build=$1 n
    for n in 2 3; do
        ranks_run "$n" "$build" unseeded
        [ "$(cat "$ranks/status")" -eq 0 ]
        contains "$(tail -n 1 "$ranks/out")" "y = 2.0 a -1.0 b +0.5 c +1.0"
        [ "$(grep -c 'reached the goal' "$ranks/out")" -eq 1 ]
        dumps_of "$ranks"
        [ "${#dumps[@]}" -eq "$n" ]
        "$COMPARE" --dump --identical "${dumps[@]}"
    done
}

@test "an unseeded program with a data-dependent end is one run, debian" { unseeded_is_one_run debian-O2; }
@test "an unseeded program with a data-dependent end is one run, wheel" { unseeded_is_one_run wheel-O2; }

@test "two runs of the unseeded program differ, as without us" {
    ranks_run 2 debian-O2 unseeded
    mv "$ranks" "$ranks.first"
    ranks_run 2 debian-O2 unseeded
    run -1 cmp "$ranks.first/out" "$ranks/out"
}

# Status 134 is SIGABRT of an exception that nobody catches.
throws_out_of_main() {
    local build=$1
    plain_run "$build" throws fatal
    [ "$(cat "$plain/status")" -eq 134 ]
    ranks_run 2 "$build" throws fatal
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
    [ "$(grep -c 'the data of step 5 are damaged' "$ranks/err")" -ge 1 ]
    contains "$(cat "$ranks/err")" "AR-"
}

@test "an exception thrown out of main ends the job with its status, debian" { throws_out_of_main debian-O2; }
@test "an exception thrown out of main ends the job with its status, wheel" { throws_out_of_main wheel-O2; }
