# Runs a program of data loaders (tests/programs/loaders.cpp) plain and as ranks of accel-run, and counts what each process has read. Load after programs.
# shellcheck shell=bash disable=SC2154,SC2034

export ACCEL_TEST_READS=.nv/reads # left alone by accel-run: each process has its own

# reads_of FOLDER: how many examples each process read, most first, in $reads
reads_of() {
    local file
    mapfile -t reads < <(for file in "$1"/.nv/reads.*; do od -An -td8 "$file"; done | tr -d ' ' | sort -rn)
}

# loaders N BUILD [option of accel-run]... -- KIND [argument]...: a run of N ranks of $program beside the plain one; $plain, $ranks, $read_alone, $reads
program=loaders
loaders() {
    local n=$1 build=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    plain_run "$build" "$program" "${plain_arguments[@]:-$@}"
    ranks=$BATS_TEST_TMPDIR/$build-$n-$*
    rm -rf "$ranks"
    run_in "$ranks" "$ACCEL_RUN" -n "$n" "${options[@]}" "${command[@]}" "$@"
    reads_of "$plain"
    read_alone=${reads[0]}
    reads_of "$ranks"
    [ "${#reads[@]}" -eq "$n" ]
}

# divided BUILD N KIND...: the plain run's words, and no rank reads more than its rows, the batches that are watched, and rows that all ranks read
divided() {
    local build=$1 n=$2
    shift 2
    loaders "$n" "$build" -- "$@"
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
    echo "$build, $n ranks of $*: ${reads[*]} of $read_alone" >&2
    [ "${reads[0]}" -lt $((read_alone / n + 160)) ]
    [ "${reads[0]}" -lt $((read_alone * 3 / 4)) ]
}

# whole BUILD N KIND...: the plain run's words; the training loader is read whole by every rank, and --explain says so
whole() {
    local build=$1 n=$2
    shift 2
    loaders "$n" "$build" --explain -- "$@"
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
    echo "$build, $n ranks of $*: ${reads[*]} of $read_alone" >&2
    [ "${reads[-1]}" -gt $((read_alone * 9 / 10)) ]
    grep -q 'is read whole by every rank: ' "$ranks/err"
}
