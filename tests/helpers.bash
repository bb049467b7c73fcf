# Helpers of the bats tests. Load with: load helpers
# shellcheck shell=bash disable=SC2034

REPOSITORY=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
BUILD=${O:-$REPOSITORY/build}
case $BUILD in /*) ;; *) BUILD=$REPOSITORY/$BUILD ;; esac
ACCEL_RUN=$BUILD/accel-run
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-300} # a test that hangs is a failure; files say another number

# requires root | mount | reach | command NAME | file PATH...: skips the test, and says why, where it cannot run. mount: the right to, which root in a container
# has not; reach: another user may start what was built, which below a closed home he may not.
requires() {
    case $1 in
    root) [ "$(id -u)" -eq 0 ] || skip "needs root" ;;
    mount) unshare -m mount -t tmpfs none /mnt 2>/dev/null || skip "needs the right to mount" ;;
    reach) setpriv --reuid 65533 --clear-groups test -x "$ACCEL_RUN" -a -x "$CLAIMER" -a -r "$BUILD/libaccelshim.so" || skip "another user cannot reach the build" ;;
    command) command -v "$2" >/dev/null || skip "needs $2" ;;
    file) [ -e "$2" ] || skip "needs $2" ;;
    *) echo "requires: what is '$1'?" >&2 && return 1 ;;
    esac
}

# processors COUNT: as many of those that this process may use, for taskset -c
processors() {
    python3 -c 'import os, sys; print(*sorted(os.sched_getaffinity(0))[:int(sys.argv[1])], sep=",")' "$1"
}

# python_of BUILD: the interpreter that has this build of libtorch. wheel-VERSION, debian-13 and so on: tests/matrix/install; debian-gcc-O2-pie and the like:
# tests/structures.mk
python_of() {
    local build=${1%-O[0-9]}
    case $build in
    debian | debian-gcc* | debian-clang*) echo /usr/bin/python3 ;;
    wheel | wheel-gcc*) echo "$BUILD/venv/bin/python" ;;
    *) echo "$BUILD/matrix/$build/bin/python" ;;
    esac
}

# builds: what a test goes through, optimised: the two builds that every test run has, or the one that `make check-matrix` is at
builds() {
    local build
    for build in ${MATRIX_BUILD:-debian wheel}; do
        [ ! -d "$BUILD/programs/$build-O2" ] || echo "$build-O2"
    done
}

# pythons: their interpreters
pythons() {
    local build python
    for build in ${MATRIX_BUILD:-debian wheel}; do
        python=$(python_of "$build")
        [ ! -x "$python" ] || echo "$python"
    done
}

# is_taken PROCESS SIGNAL: is the signal, a number, not waiting for the process any more, or is that gone?
is_taken() {
    local waiting
    waiting=$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    [ $((16#${waiting:-0} >> ($2 - 1) & 1)) -eq 0 ]
}

# retry COUNT DELAY command...: until it succeeds; this is how tests wait (never a bare sleep)
retry() {
    local count=$1 delay=$2 i
    shift 2
    for ((i = 0; i < count; i++)); do
        "$@" && return 0
        sleep "$delay"
    done
    echo "never became true: $*" >&2
    return 1
}

# is the process alive? A zombie is not.
pid_is_alive() {
    local state
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
    [ -n "$state" ] && [ "$state" != Z ]
}

pids_are_gone() {
    local pid
    for pid in "$@"; do
        ! pid_is_alive "$pid" || return 1
    done
}

wait_pids_gone() {
    retry 200 0.1 pids_are_gone "$@"
}

# spawn_bg command...: in the background, its number in $bg_pid, its output in $BATS_TEST_TMPDIR/out and err. Closes the descriptors that bats waits
# for (L41), and gives SIGINT and SIGQUIT back, which a shell's "&" ignores.
spawn_bg() {
    : >"$BATS_TEST_TMPDIR/out" # before it begins: what an earlier one printed is not its
    env --default-signal=INT,QUIT "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- 4>&- &
    bg_pid=$! job_pid=$!
}

# spawn_job command...: as a shell that knows jobs starts one, in a group of its own, so that Ctrl-Z stops it; its number in $job_pid
spawn_job() {
    rm -f "$BATS_TEST_TMPDIR/job"
    spawn_bg python3 -c 'import os, sys
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(job))
os.rename(sys.argv[1] + ".new", sys.argv[1])
code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
sys.exit(code if code >= 0 else 128 - code)' "$BATS_TEST_TMPDIR/job" "$@"
    await_files "$BATS_TEST_TMPDIR/job"
    job_pid=$(cat "$BATS_TEST_TMPDIR/job")
}

# find_ranks pgrep-options...: rank_pids[RANK] of the background accel-run, of those of its processes that the options name. Process numbers wrap around:
# their order says nothing.
find_ranks() {
    local pid
    rank_pids=()
    for pid in $(pgrep -P "$job_pid" "$@"); do
        rank_pids[$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^ACCEL_RUN_RANK=//p')]=$pid
    done
}

# wait_bg: until the background process ends; $status is its exit code
wait_bg() {
    status=0
    wait "$bg_pid" || status=$?
}

# job_ends [SECONDS]: the job has that long, three times what accel-run gives itself, since a busy machine is slow; $status is its exit code
job_ends() {
    retry "${1:-15}0" 0.1 pids_are_gone "$bg_pid"
    wait_bg
}

files_exist() {
    local file
    for file in "$@"; do
        [ -e "$file" ] || return 1
    done
}

await_files() {
    retry 200 0.05 files_exist "$@"
}

# output_of FILE: for messages of failing tests
show() {
    sed 's/^/    | /' "$@" >&2
}

contains() {
    case $1 in *"$2"*) return 0 ;; esac
    printf 'no "%s" in:\n%s\n' "$2" "$1" >&2
    return 1
}

lacks() {
    case $1 in *"$2"*) printf 'there is "%s" in:\n%s\n' "$2" "$1" >&2 && return 1 ;; esac
    return 0
}

# is_fresh TARGET SOURCE...: is it newer than all that it is made of?
is_fresh() {
    local target=$1 source
    shift
    for source in "$@"; do
        [ "$target" -nt "$source" ] || return 1
    done
}

# build_fake NAME flag... SOURCE: tests/fake/SOURCE as $FAKE/NAME; several bats files may do so at the same time
build_fake() {
    local name=$1 source=$REPOSITORY/tests/fake/${*: -1}
    set -- "${@:2:$#-2}"
    is_fresh "$FAKE/$name" "$source" "$REPOSITORY"/config/*.h && return 0
    gcc -std=gnu11 -O1 -Wall -Werror "$@" -o "$FAKE/$name.$$" "$source" && mv "$FAKE/$name.$$" "$FAKE/$name"
}

# For tests of the launcher with programs that do not train: call in setup_file and in setup. The shim is one that does nothing.
launcher_setup_file() {
    export ACCEL_RUN_LOG_LEVEL=error # no warning about programs that do not train
    unset RANK WORLD_SIZE OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS
}

launcher_setup() {
    FAKE=$BUILD/fake
    mkdir -p "$FAKE"
    build_fake claimer claimer.c
    build_fake shim_stub.so -shared -fPIC shim_stub.c
    CLAIMER=$FAKE/claimer
    export ACCEL_RUN_SHIM=$FAKE/shim_stub.so
    T=$BATS_TEST_TMPDIR
    cd "$T" || return 1
}

# fake_torch [STUBS [WITHOUT]]: libtorch_cpu.so, libc10.so and ./program, in $T; STUBS lists what they have, but for the symbol WITHOUT
fake_torch() {
    local source=$REPOSITORY/tests/fake/libfaketorch.c stubs=()
    if [ -n "${1-}" ]; then
        grep -vF "\"${2-no such symbol}\"" "$1" >stubs.def || true
        stubs=("-DSTUBS=\"$T/stubs.def\"")
    fi
    gcc -shared -fPIC -DFAKE_LIBC10 "${stubs[@]}" -o libc10.so "$source"
    gcc -shared -fPIC "${stubs[@]}" -o libtorch_cpu.so "$source"
    gcc -DFAKE_PROGRAM -o program "$source" -L. -Wl,-rpath,"$T" -Wl,--no-as-needed -ltorch_cpu -lc10
}

# every_symbol: STUB lines for each function that the shim calls and each row that it hooks, whatever the library: as if all were there
every_symbol() {
    {
        echo '#define TORCH(name, library, need, type, arguments, symbol, other) STUB(symbol)'
        echo '#include "shim/torch/functions.def"'
        echo '#define HOOK(name, library, need, symbol, type, arguments) ROW library STUB(symbol)'
        echo '#include "hooks/hooks.def"'
    } | gcc -E -P -I"$REPOSITORY" -x c - | grep -E '^ *(ROW (libc10|libtorch_cpu) )?STUB' | grep -oE 'STUB\(.*\)' | sort -u |
        grep -v '_ZN3c1010TensorImpl17set_requires_gradEb'
}
