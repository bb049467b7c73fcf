# Runs a training program plain and as ranks of accel-run, and says whether the two are the same run. Load after helpers.
# shellcheck shell=bash disable=SC2154,SC2034
#
# A run lies in a folder: out, err, status, .nv/dump.PID of each process that trained (tests/programs/dump.h), and the
# files the program saved. In .nv every rank writes for itself (hooks/files). Plain runs are made once per bats file. One thread each: then a plain run repeats itself to the bit, on every build.

COMPARE=$REPOSITORY/tests/compare

# Each file's setup_file calls it: nothing of the caller's environment decides what a run does.
programs_setup_file() {
    unset RANK WORLD_SIZE OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS ACCEL_RUN_SHIM ATEN_CPU_CAPABILITY
}

# for_training NAME: the real shim where a file of the launcher's tests has the fake one, and the program in $command
for_training() {
    unset ACCEL_RUN_SHIM
    set_command debian-O2 "$1"
}

# set_command BUILD NAME: the program and its arguments, in $command; skips the test where this build of libtorch is not installed
set_command() {
    local build=$1 name=$2
    requires file "$(python_of "$build")"
    case $name in
    *.py) command=("$(python_of "$build")" "$REPOSITORY/tests/programs/$name") ;;
    *) command=("$BUILD/programs/$build/$name") ;;
    esac
    # 1920 images: enough for 30 steps, few enough that no image of the test set is on the edge between two classes (see drifts).
    case $name in
    fashion) command+=("$BUILD/data/fashion" 1 1920 model.pt) ;;
    classifier.py) command+=(700 3 state.pt) ;;
    esac
    [ -e "${command[0]}" ] || { echo "not built: ${command[0]}" >&2 && return 1; }
}

# numbers_of BUILD: with how many ranks programs are run there, in $numbers. `make check` has 2 on the one build and 3, whose shares of a batch differ, on the
# other; `make check-matrix` both on each.
numbers_of() {
    case ${MATRIX_BUILD:+matrix-}$1 in
    matrix-*) numbers=(2 3) ;;
    debian*) numbers=(2) ;;
    *) numbers=(3) ;;
    esac
}

# alternate NUMBER COMMAND [ARGUMENT...]: COMMAND BUILD ARGUMENT..., for debian or wheel: of what alternates, the NUMBERth has the one build in this run of
# `make check` and the other in the next commit's (tests/run-all sets CHECK_HALF to 0 or 1); both where CHECK_HALF is "all" or not set
alternate() {
    local build its_turn
    in_turn "$1" debian wheel
    for build in "${its_turn[@]}"; do "$2" "$build" "${@:3}"; done # no "|| return": what stands left of it would go on after a failure
}

# in_turn NUMBER THING...: those that this run of `make check` has, every other one, and with another NUMBER the others; all where CHECK_HALF is "all" or not set.
# In $its_turn.
in_turn() {
    local at
    its_turn=("${@:2}")
    [ "${CHECK_HALF:-all}" = all ] && return 0
    for at in "${!its_turn[@]}"; do
        (((at + $1 + CHECK_HALF) % 2 == 0)) || unset "its_turn[at]"
    done
}

# run_in FOLDER command...: in a new folder; a program that hangs is ended after two minutes (or $limit seconds) and has status 124
run_in() {
    local folder=$1 status=0
    shift
    last_run=$folder
    mkdir -p "$folder/.nv" || return 1
    (cd "$folder" && env ACCEL_TEST_DUMP="$folder/.nv/dump" OMP_NUM_THREADS="${threads:-1}" PYTHONDONTWRITEBYTECODE=1 timeout -k 5 "${limit:-120}" "$@" \
        >out 2>err 3>&- 4>&-) || status=$?
    echo "$status" >"$folder/status"
}

# Of a test that failed: what its last run has said, which may be what only a busy machine sees.
teardown() {
    [ -z "${BATS_TEST_COMPLETED:-}" ] && [ -e "${last_run:-}/status" ] || return 0
    echo "the last run, in ${last_run##*/}, ended with status $(cat "$last_run/status"), and said in the end:" >&2
    tail -n 20 "$last_run/err" | show
}

# plain_run BUILD NAME [argument...]: leaves the folder in $plain
plain_run() {
    local build=$1 name=$2
    set_command "$build" "$name"
    shift 2
    plain=$BATS_FILE_TMPDIR/$build-$name$*
    [ -e "$plain/status" ] || run_in "$plain" "${command[@]}" "$@"
}

# ranks_run N BUILD NAME [argument...]: leaves the folder in $ranks
ranks_run() {
    local n=$1 build=$2 name=$3
    set_command "$build" "$name"
    shift 3
    ranks=$BATS_TEST_TMPDIR/$build-$name-$n
    run_in "$ranks" "$ACCEL_RUN" -n "$n" "${command[@]}" "$@"
}

# dumps_of FOLDER: the dumps of its processes, in $dumps
dumps_of() {
    shopt -s nullglob
    dumps=("$1"/.nv/dump.[0-9]*)
    shopt -u nullglob
}

same_status() {
    cmp -s "$plain/status" "$ranks/status" && return 0
    echo "exit status $(cat "$ranks/status") where the plain run has $(cat "$plain/status"); standard error:" >&2
    show "$ranks/err"
    return 1
}

# Plain runs on other kernels, for drifts: 2 threads, no vector units in ATen, older vector units in oneDNN and OpenBLAS.
kernel_variants=("ATEN_CPU_CAPABILITY=default" "DNNL_MAX_CPU_ISA=SSE41 ONEDNN_MAX_CPU_ISA=SSE41"
    "DNNL_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell" "OMP_NUM_THREADS=2")

first_difference() {
    "$COMPARE" "$1/out" "$2/out" | sed -n 's/^line \([0-9]*\):.*/\1/p' | head -n 1
}

# drifts BUILD NAME LINE: does the plain program, computed with other kernels of the same library, differ from itself by LINE at the
# latest? A max or a threshold that rounding turns over changes all that follows. Measured with the sizes and rates used here: no program
# differs from itself on either build with any variant; with other sizes fashion does (1600 images: line 3, 3200: one test image of 3200).
drifts() {
    local build=$1 name=$2 line=$3 variant folder found
    for variant in "${!kernel_variants[@]}"; do
        folder=$plain.variant$variant
        # shellcheck disable=SC2086
        [ -e "$folder/status" ] || run_in "$folder" env ${kernel_variants[variant]} "${command[@]}"
        found=$(first_difference "$plain" "$folder")
        if [ -n "$found" ] && [ "$found" -le "$line" ]; then
            echo "# $build $name: line $line differs; the plain program with ${kernel_variants[variant]} differs from line $found on" >&3
            return 0
        fi
    done
    return 1
}

# same_output BUILD NAME N: word by word. The first two lines must agree in any case; what follows, unless the plain program drifts too.
same_output() {
    local build=$1 name=$2 n=$3 line
    drifted=
    if [ "$n" -eq 1 ]; then
        cmp "$plain/out" "$ranks/out"
        return
    fi
    [ -s "$plain/out" ] && cmp -s "$plain/out" "$ranks/out" && return 0 # as most are: without an interpreter
    "$COMPARE" "$plain/out" "$ranks/out" && return 0
    line=$(first_difference "$plain" "$ranks")
    drifted=yes
    [ "$line" -gt 2 ] && drifts "$build" "$name" "$line"
}

# same_errors: standard error is the program's own, no line twice, and nothing of ours but what the number of cores of this machine says
same_errors() {
    diff "$plain/err" <(sed '/^accel-run: warning AR-CORES: /,+1d' "$ranks/err") >&2
}

# same_numbers N: first-step gradients, final parameters, and all ranks equal to the bit
same_numbers() {
    local n=$1 plain_dump
    dumps_of "$plain"
    plain_dump=${dumps[0]}
    dumps_of "$ranks"
    [ "${#dumps[@]}" -eq "$n" ] || { echo "${#dumps[@]} processes trained, not $n" >&2 && return 1; }
    if [ "$n" -eq 1 ]; then
        "$COMPARE" --dump --identical "$plain_dump" "${dumps[0]}"
        return
    fi
    "$COMPARE" --dump --kind gradient --tolerance 1e-5 "$plain_dump" "${dumps[0]}" || return 1
    # Only a bound against nonsense, since later steps amplify rounding: 4e-4 was the most that a plain program drifted from itself.
    [ -n "$drifted" ] || "$COMPARE" --dump --tolerance 1e-2 "$plain_dump" "${dumps[0]}" || return 1
    "$COMPARE" --dump --identical "${dumps[@]}"
}

files_of() {
    find "$1" -type f -printf '%P\n' | grep -v '^\.nv/' | sort
}

# same_files: the same names in both folders, apart from what the dumps are called
same_files() {
    diff <(files_of "$plain") <(files_of "$ranks") >&2
}

# same_run BUILD NAME N...: the whole comparison, for each number of ranks; 1 comes first, if at all
same_run() {
    local build=$1 name=$2 n
    shift 2
    set_command "$build" "$name"
    plain_run "$build" "$name" & # of one thread, like a single rank: each has a core
    [ "$1" -ne 1 ] || ranks_run 1 "$build" "$name"
    wait $!
    plain_run "$build" "$name"
    [ "$(cat "$plain/status")" -eq 0 ] || { echo "the plain run failed" >&2 && show "$plain/err" && return 1; }
    for n in "$@"; do
        echo "== $n ranks of $build $name" >&2
        [ "$n" -eq 1 ] || ranks_run "$n" "$build" "$name"
        same_status && same_output "$build" "$name" "$n" && same_numbers "$n" && same_errors && same_files || return 1
    done
}

# same_structure BUILD MODE N...: of tests/programs/structures.cpp
same_structure() {
    local build=$1 mode=$2 n
    shift 2
    plain_run "$build" structures "$mode"
    [ "$(cat "$plain/status")" -eq 0 ] || { echo "the plain run failed" >&2 && show "$plain/err" && return 1; }
    for n in "$@"; do
        ranks_run "$n" "$build" structures "$mode"
        drifted=
        same_status && same_numbers "$n" && same_errors && "$COMPARE" "$plain/out" "$ranks/out" || { echo "$build $mode, $n ranks" >&2 && return 1; }
        rm -r "$ranks"
    done
}

# same_side_by_side BUILD MODE: the order in which they come is another one on each rank; the words that they are known by say whose sum is whose.
same_side_by_side() {
    local n text
    plain_run "$1" structures "$2"
    dumps_of "$plain"
    text=${dumps[0]}
    for n in 2 3; do
        ranks_run "$n" "$1" structures "$2"
        [ "$(cat "$ranks/status")" -eq 0 ]
        dumps_of "$ranks"
        "$COMPARE" --dump --tolerance 1e-2 <(sort "$text") <(sort "${dumps[0]}") || return 1
        rm -r "$ranks"
    done
}

# loaded_late PLUGIN: a program that loads it, and libtorch with it, when it runs: in the plugin's own scope and in all
loaded_late() {
    local scope n
    for scope in local global; do
        run_in "$BATS_TEST_TMPDIR/plain-$scope" "$BUILD/structures/host" "$scope" "$1"
        [ "$(cat "$BATS_TEST_TMPDIR/plain-$scope/status")" -eq 0 ]
        for n in 2 3; do
            run_in "$BATS_TEST_TMPDIR/$scope-$n" "$ACCEL_RUN" -n "$n" "$BUILD/structures/host" "$scope" "$1"
            [ "$(cat "$BATS_TEST_TMPDIR/$scope-$n/status")" -eq 0 ] || { show "$BATS_TEST_TMPDIR/$scope-$n/err" && return 1; }
            "$COMPARE" "$BATS_TEST_TMPDIR/plain-$scope/out" "$BATS_TEST_TMPDIR/$scope-$n/out"
            lacks "$(cat "$BATS_TEST_TMPDIR/$scope-$n/err")" AR-NOTHING-DIVIDED
            [ -s "$BATS_TEST_TMPDIR/$scope-$n/plugin.pt" ]
        done
    done
}

# divided_rows FILE OPERATOR...: what --explain said there: batches are divided, and these operators keep the rows where they are
divided_rows() {
    local said operator
    said=$(cat "$1")
    grep -Eq ' [1-9][0-9]* batches divided' "$1" || { show "$1" && return 1; }
    for operator in "${@:2}"; do
        lacks "$said" "operator aten::$operator gathered"
    done
}

# rule_numbers BUILD: for the programs of single operators; `make check-matrix` has one rank, too
rule_numbers() {
    numbers_of "$1"
    [ -z "${MATRIX_BUILD:-}" ] || numbers=(1 "${numbers[@]}")
}

# same_cases BUILD PROGRAM LINES [OPERATOR...]: plain against ranks, in so many lines at least; the operators are not gathered
same_cases() {
    local program=$BUILD/programs/$1-O2/$2 n
    requires file "$(python_of "$1")"
    cd "$BATS_TEST_TMPDIR" || return 1
    "$program" >plain.out 2>plain.err
    [ "$(wc -l <plain.out)" -ge "$3" ]
    rule_numbers "$1"
    for n in "${numbers[@]}"; do
        "$ACCEL_RUN" -n "$n" --explain --log-level info "$program" >"$n.out" 2>"$n.err" || { show "$n.err" && return 1; }
        "$COMPARE" plain.out "$n.out" --tolerance 5e-6 || return 1
        [ "$n" -eq 1 ] || divided_rows "$n.err" "${@:4}"
    done
}

# sweep BUILD PROGRAM: each of its cases by itself (tests/sweep)
sweep() {
    set_command "$1-O2" "$2"
    rule_numbers "$1"
    "$REPOSITORY/tests/sweep" "$ACCEL_RUN" "$(IFS=, && echo "${numbers[*]}")" "${command[@]}"
}

# operators BUILD cases|schemas check|run RANKS,RANKS... [argument...]
operators() {
    requires file "$(python_of "$1")"
    "$REPOSITORY/tests/operators" "$ACCEL_RUN" "$(python_of "$1")" "${@:2}"
}

# work_in FOLDER: of each process, the bytes of all tensors that it made (tests/programs/work.h), one per line
work_in() {
    cat "$1"/.nv/dump.work.*
}

# Programs in Python run one after another in one process (tests/programs/series.py), once per bats file and number of ranks: most of the time of each alone is
# torch's import. series_of BUILD: which ones, in $programs; torch.func is of 2.0, and modes among divided rows are refused before 2.2. Of those for both builds
# every other one in this run of `make check`, and the others in the next.
series_of() {
    programs=(divided_leaves.py shared_gradients.py callbacks.py leaf_hooks.py second_derivative.py second_derivative_norm.py writes.py rewritten.py written.py
        legacy_types.py sparse.py memory.py storages.py forward_mode.py misfits.py outside.py retained.py history.py roots.py called_back.py recomputed.py sums_and_numbers.py queued.py given_data.py turned_rows.py seen_gradients.py thrown_backward.py wrong_sizes.py columns.py kept_gradients.py exact_sums.py rows_of_pool.py rows_read.py one_memory.py conjugated.py set_memory.py finalizers.py data_writes.py graph_edges.py rare_forms.py repeated_memory.py hooks_that_hold.py leaves_that_end.py rows_kept.py no_gradients.py running_statistics.py own_gradients.py)
    [[ $1 = symbolic* ]] || programs+=(branches_of_pool.py) # docs/limits.md
    programs+=(image_layouts.py) # time-first sequences, which teach the layers that come after it
    case $1 in
    debian) in_turn 0 "${programs[@]}" && programs=("${its_turn[@]}") ;;
    wheel) in_turn 1 "${programs[@]}" && programs=("${its_turn[@]}") ;;
    esac
    [ "$1" != wheel ] || programs=(functional.py modes.py subclasses.py transforms.py own_operators.py compiled.py half_overflow.py "${programs[@]}")
}

# series_run BUILD N: N ranks of them, 0 for the plain run; leaves the folder in $series
series_run() {
    series=$BATS_FILE_TMPDIR/series-$1-$2
    [ ! -e "$series/status" ] || return 0
    set_command "$1" series.py
    series_of "$1"
    [ "$2" -eq 0 ] || command=("$ACCEL_RUN" -n "$2" "${command[@]}")
    limit=420 run_in "$series" "${command[@]}" "${programs[@]}" # forty programs, of three ranks on two cores beside another file's
}

plain_series() { # BUILD...
    local build runs=()
    for build in "$@"; do
        series_run "$build" 0 & # of one thread: each has a core
        runs+=($!)
    done
    wait "${runs[@]}"
}

# part_of FOLDER NAME: what this program of a series printed
part_of() {
    awk -v name="$2" '$1 == "==" { its = $2 == name } its' "$1/out"
}

# same_part NAME.py BUILD...: what the ranks of the builds' series print for this program is what the plain run does
same_part() {
    local name=$1 build n numbers compared=
    shift
    plain_series "$@"
    for build in "$@"; do
        series_of "$build"
        [[ " ${programs[*]} " = *" $name "* ]] || continue
        set_command "$build" "$name"
        part_of "$BATS_FILE_TMPDIR/series-$build-0" "$name" >"$BATS_TEST_TMPDIR/part.plain"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/part.plain")" -gt 1 ] || { echo "no plain run" >&2 && show "$BATS_FILE_TMPDIR/series-$build-0/err" && return 1; }
        numbers_of "$build"
        for n in "${numbers[@]}"; do
            echo "== $n ranks of $build $name" >&2
            series_run "$build" "$n"
            part_of "$series" "$name" >"$BATS_TEST_TMPDIR/part.ranks"
            "$COMPARE" "$BATS_TEST_TMPDIR/part.plain" "$BATS_TEST_TMPDIR/part.ranks" || { show "$series/err" && return 1; }
            compared=yes
        done
    done
    [ -n "$compared" ]
}

# stopped BUILD ID NAME [argument...]: two ranks end by the message, before anything is printed
stopped() {
    local build=$1 id=$2 name=$3
    shift 3
    ranks_run 2 "$build" "$name" "$@"
    [ "$(cat "$ranks/status")" -eq 125 ]
    contains "$(cat "$ranks/err")" "$id"
    [ -z "$(grep -v '^\[Gloo\] ' "$ranks/out")" ] # of libtorch 2.9's, whom it is connected to
    rm -r "$ranks"
}

# collectives BUILD STEPS [asked]: of rank 0 in as many steps of tied_views.py, as its library counts them
collectives() {
    ACCEL_RUN_LOG_LEVEL=info ranks_run 2 "$1" tied_views.py "${@:2}"
    sed -n 's/^accel-run: .* \([0-9]*\) collectives.*/\1/p' "$ranks/err"
    rm -r "$ranks"
}

collectives_a_step() { # NUMBER BUILD [asked]
    local few many
    few=$(collectives "$2" 20 "${@:3}")
    many=$(collectives "$2" 60 "${@:3}")
    echo "$few collectives in 20 steps, $many in 60"
    [ $((many - few)) -eq $((40 * $1)) ]
}

one_collective_a_step() { collectives_a_step 1 "$1"; } # BUILD
