#!/usr/bin/env bats
# What surrounds a run: low limits, full disks, programs that do unusual things to their process, strangers.
# Computes.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=200

setup_file() {
    launcher_setup_file
    export OMP_NUM_THREADS=1
}

setup() {
    launcher_setup
}

# limited COMMAND...: accel-run's words and status within a limit; 20 s are a deadline, not a measure
limited() {
    run --separate-stderr bash -c "$1; exec timeout 20 \"\${@:2}\"" bash "$@"
    lacks "$stderr" "core dumped"
}

# ---- limits

@test "few descriptors: eight ranks run, or are refused with what to raise" {
    for limit in 16 32 64; do
        limited "ulimit -n $limit" "$ACCEL_RUN" -n 8 "$CLAIMER" claim out:trained meet
        if [ "$status" -eq 0 ]; then
            [ "$output" = trained ]
        else
            [ "$status" -eq 125 ]
            contains "$stderr" "AR-SPAWN"
            contains "$stderr" "ulimit -n"
        fi
    done
    [ "$status" -eq 0 ] # 64 are enough
    for_training faulty
    "${command[@]}" >plain
    limited "ulimit -n 64" "$ACCEL_RUN" -n 8 "${command[@]}"
    [ "$status" -eq 0 ]
    "$COMPARE" plain <(printf '%s\n' "$output")
}

@test "few descriptors left to the program: what it runs out of is never taken for a libtorch that is not supported" {
    for_training faulty
    local trained=
    for limit in 6 7 8 9; do
        limited true "$ACCEL_RUN" -n 2 bash -c "ulimit -n $limit; exec \"\$@\"" bash "${command[@]}"
        lacks "$stderr" AR-TORCH-UNSUPPORTED
        [ "$status" -ne 0 ] || trained=$limit
    done
    [ -n "$trained" ]
}

@test "a limit of file size, which the shared memory falls under, is named" {
    limited "ulimit -f 100" "$ACCEL_RUN" -n 2 "$CLAIMER" claim meet
    [ "$status" -eq 125 ]
    contains "$stderr" "AR-SEGMENT"
    contains "$stderr" "ulimit -f"
}

@test "a file size limit that the program's output meets is said, not a crash" {
    limited "ulimit -f 8000; exec >big" "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim; head -c 20000000 /dev/zero"
    [ "$status" -eq 125 ]
    contains "$stderr" "error AR-OUTPUT"
}

@test "memory that runs out in the middle of a step is the program's exception, as alone, and every rank is named" {
    unset ACCEL_RUN_SHIM
    cat >program.py <<'PYTHON'
import resource, torch
model = torch.nn.Linear(40, 3)
model(torch.ones(8, 40)).sum().backward()
print("trained", flush=True)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
model(torch.ones(8, 40).repeat(4000000, 1)).sum().backward()
PYTHON
    run --separate-stderr timeout 100 /usr/bin/python3 program.py
    [ "$status" -eq 1 ]
    contains "$stderr" "allocate memory"
    run -1 --separate-stderr timeout 100 "$ACCEL_RUN" -n 2 /usr/bin/python3 program.py
    [ "$output" = trained ]
    [ "$(grep -c "^RuntimeError: .*allocate memory" <<<"$stderr")" -eq 1 ]
    contains "$stderr" "AR-RANK-FAILED: every one of 2 ranks"
}

@test "a limit of processes is named" {
    requires root
    requires command setpriv
    chmod 755 "$T"
    requires reach
    for limit in 2 6; do
        limited "ulimit -u $limit" setpriv --reuid 65533 --clear-groups "$ACCEL_RUN" -n 8 "$CLAIMER" claim
        [ "$status" -eq 125 ] || { echo "status $status" && return 1; }
        contains "$stderr" "AR-SPAWN"
        contains "$stderr" "ulimit -u"
    done
}

# ---- disks

@test "no space in /dev/shm: nothing of it is used" {
    requires mount
    for_training faulty
    "${command[@]}" >plain
    run -0 --separate-stderr unshare -m sh -c 'mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero >/dev/shm/full; exec "$@"' sh \
        "$ACCEL_RUN" -n 2 "${command[@]}"
    "$COMPARE" plain <(printf '%s\n' "$output")
}

# libtorch 1.13 does not notice that a small file was not written: then a run does not fail either, as alone.
@test "a save to a full disk ends as alone" {
    requires mount
    for_training faulty
    on_small_disk() {
        unshare -m sh -c 'mkdir -p small && mount -t tmpfs -o size=4k none small && cd small && head -c 4096 /dev/zero >full; "$@"; status=$?; stat -c "%n %s" *; exit $status' sh "$@"
    }
    plain_status=0
    on_small_disk "${command[@]}" >plain 2>plain.err || plain_status=$?
    run --separate-stderr on_small_disk timeout 60 "$ACCEL_RUN" -n 2 "${command[@]}"
    [ "$status" -eq "$plain_status" ] || { echo "$plain_status and $status: $stderr" && return 1; }
    "$COMPARE" plain <(printf '%s\n' "$output")
}

# ---- the program's process

@test "a program that forks, executes itself, calls system() or closes all descriptors prints and ends as alone" {
    for_training restless
    for what in fork exec system close; do
        plain_status=0 ranks_status=0
        "${command[@]}" $what >plain || plain_status=$?
        timeout 60 "$ACCEL_RUN" -n 2 "${command[@]}" $what >ranks 2>err || ranks_status=$?
        [ "$plain_status" -eq "$ranks_status" ] || { echo "$what: $plain_status and $ranks_status" && show err && return 1; }
        "$COMPARE" plain ranks
    done
}

# same_ports PROGRAM PYTHON: what each of three ranks prints is what the plain run does; a run has three free ports
same_ports() {
    local ports log
    command=("$2" "$REPOSITORY/tests/programs/$1")
    free_ports() {
        python3 -c 'import socket
all = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(one.getsockname()[1] for one in all))'
    }
    unset ACCEL_RUN_SHIM
    read -ra ports < <(free_ports)
    "${command[@]}" "${ports[@]}" >plain
    read -ra ports < <(free_ports)
    run -0 --separate-stderr "$ACCEL_RUN" -n 3 --log-dir logs "${command[@]}" "${ports[@]}"
    for log in logs/rank-*.out; do "$REPOSITORY/tests/compare" plain "$log"; done
}

@test "ports that the program listens on are rank 0's; every rank reaches itself: torch.distributed with one process, a server" {
    requires file "$BUILD/venv/bin/python"
    same_ports ports.py "$BUILD/venv/bin/python"
}

@test "every rank's children have its ports, too, and so has it before torch is imported" {
    same_ports ports_of_children.py /usr/bin/python3
}

@test "a child that trains in its rank's place is warned of once; one of a rank that trains itself is not" {
    local way
    unset ACCEL_RUN_SHIM
    export ACCEL_RUN_LOG_LEVEL=warn
    for way in fork spawn command; do
        run --separate-stderr "$ACCEL_RUN" -n 2 --log-dir logs /usr/bin/python3 "$REPOSITORY/tests/programs/child_trains.py" "$way"
        [ "$status" -eq 0 ]
        [ "$(grep -c AR-CHILD-TRAINS <<<"$stderr")" -eq 1 ]
    done
    [ "$(cat logs/rank-*.out | wc -l)" -eq 1 ] # of a command that is waited for rank 0 has one alone
    run --separate-stderr "$ACCEL_RUN" -n 2 /usr/bin/python3 "$REPOSITORY/tests/programs/child_trains.py" fork also
    [ "$status" -eq 0 ]
    lacks "$stderr" AR-CHILD-TRAINS
}

@test "of trainings that a script starts side by side another one has come first on a rank: that is said; arguments that differ are no sign of it" {
    cat >beside <<'END'
r=$ACCEL_RUN_RANK
"$CLAIMER" program=$(($1)) claim touch=claimed.$r await=second.$r out:first meet &
until [ -e claimed.$r ]; do :; done
"$CLAIMER" program=$(($2)) claim
: >second.$r
wait
END
    CLAIMER=$CLAIMER run -0 timeout 60 "$ACCEL_RUN" -n 3 sh beside 10 20
    contains "$output" first
    rm claimed.* second.*
    CLAIMER=$CLAIMER run -0 timeout 60 "$ACCEL_RUN" -n 3 sh beside 10+r 20+r
    rm claimed.* second.*
    CLAIMER=$CLAIMER run -125 timeout 60 "$ACCEL_RUN" -n 2 sh beside 1+r 2-r
    contains "$output" "AR-SIDE-BY-SIDE"
}

@test "which of a script's trainings a process is, its command tells" {
    unset ACCEL_RUN_SHIM
    cat >beside <<'END'
[ $ACCEL_RUN_RANK = 0 ] && first=1 second=2 || first=2 second=1
exec 3< <("$1" -c 'import signal, torch; print(torch.ones(2).sum(), flush=True); signal.pause()' --seed $first)
read -r _ <&3
"$1" -c 'import signal, torch; print(torch.ones(2).sum(), flush=True); signal.pause()' --seed $second
END
    run -125 timeout 60 "$ACCEL_RUN" -n 2 bash beside /usr/bin/python3
    contains "$output" "AR-SIDE-BY-SIDE"
}

@test "a daemon that the program leaves behind is ended and named" {
    for_training restless
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr timeout 60 "$ACCEL_RUN" -n 2 "${command[@]}" daemon
    contains "$stderr" "AR-STRAY"
    contains "$stderr" "restless ("
}

# shared_tensors RANKS END STATUS: in a /dev/shm of its own, whose content ends up in the file left
shared_tensors() {
    mkdir -p folders
    # shellcheck disable=SC2016
    TMPDIR=$PWD/folders run "-$3" --separate-stderr unshare -m sh -c 'mount -t tmpfs none /dev/shm && "$@"; status=$?; ls -A /dev/shm >left; exit $status' sh \
        timeout 60 "$ACCEL_RUN" -n "$1" "${command[@]}" file_system "$2"
}

@test "tensors that are shared by name: none is left after any end, and libtorch's helper, which looks after that, is no stray" {
    requires command unshare
    unshare -m true || skip "no right to mount"
    unset ACCEL_RUN_SHIM
    set_command wheel shared_tensors.py
    export ACCEL_RUN_LOG_LEVEL=warn
    local ends end
    for ends in "2 whole 0" "1 raise 3" "2 exit 3" "2 signal 143"; do
        read -ra end <<<"$ends"
        shared_tensors "${end[@]}"
        lacks "$stderr" torch_shm_manag
        [ -z "$(cat left)" ]
        [ -z "$(find folders -name 'torch-shm-*')" ]
    done
    shared_tensors 2 kill 137
    lacks "$stderr" AR-CHILD-WRITES # of that helper
    [ -z "$(cat left)" ]
    [ -z "$(find folders -name 'torch-shm-*')" ]
}

@test "a chain of processes that each start the next in another session is ended to its last" {
    cat >chain <<'END'
#!/bin/bash
# chain DEPTH
trap '' TERM
[ "$1" -eq 0 ] && echo $$ >last
[ "$1" -gt 0 ] && setsid "$0" $(($1 - 1)) &
until [ -e never ]; do read -r -t 0.1 <>fifo; done
END
    chmod +x chain && mkfifo fifo
    run --separate-stderr timeout 60 "$ACCEL_RUN" --grace 0.1 sh -c 'setsid ./chain 12 >/dev/null 2>&1 & until [ -e last ]; do :; done'
    [ "$status" -eq 0 ]
    wait_pids_gone "$(cat last)"
}

# makes ./stubborn, which accel-run cannot kill as another user
make_stubborn() {
    requires root
    requires command setpriv
    requires reach
    echo 'int main(void) { setuid(0); for (;;) pause(); }' | gcc -w -include unistd.h -x c - -o stubborn
    chmod 4755 stubborn && chmod 777 "$T"
}

is_roots() {
    grep -q '^Uid:.0' "/proc/$1/status"
}

@test "Ctrl-C held down while a rank is slow to die ends the job as a third one does" {
    make_stubborn
    # shellcheck disable=SC2016 # for the inner shell
    spawn_bg setpriv --reuid 65533 --clear-groups "$ACCEL_RUN" sh -c 'echo $$ >rank.new; mv rank.new rank.pid; exec ./stubborn'
    await_files rank.pid
    retry 200 0.05 is_roots "$(cat rank.pid)"
    for _ in 1 2 3 4 5 6 7 8 9; do
        kill -INT "$bg_pid" || true
        retry 1000 0.01 is_taken "$bg_pid" 2
    done
    kill -9 "$(cat rank.pid)"
    wait_bg
    show err
    [ "$status" -eq 130 ]
}

@test "a process that nobody may kill is left behind, by name" {
    make_stubborn
    ACCEL_RUN_LOG_LEVEL=warn run --separate-stderr timeout 60 setpriv --reuid 65533 --clear-groups "$ACCEL_RUN" --grace 0.1 \
        sh -c './stubborn >/dev/null 2>&1 3>&- 4>&- & echo $! >stubborn.pid; until grep -q "^Uid:.0" /proc/$!/status; do :; done'
    kill -9 "$(cat stubborn.pid)"
    [ "$status" -eq 0 ]
    contains "$stderr" "AR-UNKILLABLE"
    contains "$stderr" "stubborn ($(cat stubborn.pid))"
}

@test "four ranks that print megabytes, half lines, bars and zero bytes at once: rank 0's bytes, all of them" {
    cat >noise <<'END'
import os, sys
rank, out = int(os.environ.get("ACCEL_RUN_RANK", 0)), sys.stdout.buffer
for i in range(400):
    out.write(b"%d\r 50%%|##" % i + bytes(range(256)) * 15 + (b"\n" if i % 3 else b"") + b"rank %d" % rank)
    out.flush()
END
    ACCEL_RUN_RANK=0 python3 noise >plain
    timeout 60 "$ACCEL_RUN" -n 4 sh -c "\"$CLAIMER\" claim; exec python3 noise" >ranks 2>err
    cmp plain ranks
}

@test "a message of accel-run does not cut rank 0's line in two, where stdout and stderr are one" {
    mkfifo written
    cat >half <<'END'
if [ "$ACCEL_RUN_RANK" = 0 ]; then
    printf 'half '; printf 'a line, no end'
    echo >written
    exec sleep 60
fi
"$CLAIMER" claim
read -r _ <written
exit 3
END
    CLAIMER=$CLAIMER run -3 timeout 60 "$ACCEL_RUN" -n 2 sh half
    grep -qx "half a line, no end" <<<"$output"
    contains "$output" "AR-RANK-FAILED: rank 1"
    # what it says on stderr, where that is another file
    sed -i "s/printf 'half '; printf 'a line, no end'/& >\&2/" half
    CLAIMER=$CLAIMER run -3 --separate-stderr timeout 60 "$ACCEL_RUN" -n 2 sh half
    grep -qx "half a line, no end" <<<"half $stderr"
}

@test "what rank 0 wrote before another rank's message is shown before it, also by a launcher that hears of both at once" {
    cat >late <<'END'
[ "$ACCEL_RUN_RANK" = 1 ] && exec "$CLAIMER" claim touch=claimed await=written problem:AR-PARTED:parted:none touch=said pause
until [ -e claimed ]; do :; done
kill -STOP "$PPID"
until grep -q '^State:.T' "/proc/$PPID/status"; do :; done
printf 'step'; printf ' 0\n'
touch written
until [ -e said ]; do :; done
kill -CONT "$PPID"
exec sleep 60
END
    CLAIMER=$CLAIMER run -125 timeout 60 "$ACCEL_RUN" -n 2 sh late
    [ "${lines[0]}" = "step 0" ]
    contains "${lines[1]}" "AR-PARTED"
}

# ---- strangers

@test "a process of another job is refused, and both jobs go on" {
    spawn_bg "$ACCEL_RUN" "$CLAIMER" claim touch=first "await=go"
    await_files first
    socket=$(tr '\0' '\n' <"/proc/$(cat first)/environ" | sed -n 's/^ACCEL_RUN_SOCKET=//p')
    run -0 --separate-stderr "$ACCEL_RUN" sh -c "ACCEL_RUN_SOCKET=$socket \"$CLAIMER\" claim; \"$CLAIMER\" claim && echo fine"
    contains "$output" "denied: wrong cookie"
    contains "$output" "fine"
    touch go
    wait_bg
    [ "$status" -eq 0 ]
}

@test "training as another user than accel-run's is refused by name, not done N times" {
    requires root
    requires command setpriv
    for_training faulty
    chmod 755 "$T"
    setpriv --reuid 65533 --clear-groups test -x "${command[0]}" -a -r "$BUILD/libaccelshim.so" || skip "another user cannot reach the build"
    run --separate-stderr timeout 60 "$ACCEL_RUN" -n 2 setpriv --reuid 65533 --clear-groups "${command[@]}"
    [ "$status" -eq 125 ]
    contains "$stderr" "AR-CLAIM"
    [ -z "$output" ]
}

@test "training in another network than accel-run's is refused by name, not done N times" {
    unshare -rn true || skip "no network name spaces"
    for_training faulty
    run --separate-stderr timeout 60 "$ACCEL_RUN" -n 2 unshare -rn "${command[@]}"
    [ "$status" -eq 125 ]
    contains "$stderr" "AR-CLAIM"
    contains "$stderr" "another network"
    [ -z "$output" ]
}
