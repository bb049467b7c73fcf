#!/usr/bin/env bats
# Several hosts, each with an accel-run of its own (tests/hosts.bash, which uses the settings that seem unused here).
# shellcheck disable=SC2034
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load hosts

export BATS_TEST_TIMEOUT=180

# ---- the same run

@test "C++ on two hosts is the one-process run: output, files, parameters bit by bit" {
    same_run_on "1 1" debian-O2 gru
    same_run_on "2 1" debian-O2 fashion
    same_run_on "2 2" debian-O2 mlp_loader
}

@test "and on three hosts" {
    same_run_on "1 1 1" debian-O2 mlp_loader
}

# In Python with the wheel's libtorch; what hangs on no build is tried with Debian's below, whose import takes a third.
@test "Python on two hosts" {
    same_run_on "1 2" wheel classifier.py
}

@test "an operator that throws on another host's rank alone, caught, is noticed before a file is opened, and at the end" {
    local end
    for end in print file; do
        on_hosts "1 1" 125 "$(python_of debian)" "$REPOSITORY/tests/programs/caught.py" last $end
        contains "$(cat err1)" AR-RANKS-PARTED
    done
}

@test "hosts that share a folder: every file is written once and read back by all" {
    shared_folder=yes
    for name in save_modes files; do
        set_command debian-O2 $name
        [ $name = save_modes ] || command+=(.)
        plain=$T/plain-$name
        run_in "$plain" "${command[@]}"
        [ "$(cat "$plain/status")" -eq 0 ]
        on_hosts "1 2" 0 "${command[@]}"
        "$COMPARE" "$plain/out" out1
        diff <(files_of "$plain" | grep -vE '^(out|err|status)$') <(files_of host1)
        rm -r host1
    done
}

@test "a program that draws its own seed draws the same one on all hosts" {
    set_command debian-O2 unseeded
    on_hosts "1 1" 0 "${command[@]}"
    [ ! -s err1 ]
    [ ! -s err2 ]
}

@test "and so it does where each host has it in a folder of its own: a binary, and a script behind its interpreter" {
    local host python name
    set_command debian-O2 unseeded
    read -r python < <(pythons)
    for host in 1 2; do
        mkdir -p "folder$host/$host"
        cp "${command[0]}" "folder$host/unseeded"
        printf '#!/usr/bin/env -S %s -B\n%s\n' "$python" 'import numpy, random, torch
model = torch.nn.Linear(4, 1)
for numbers in torch.randn(12, 4), torch.from_numpy(numpy.random.default_rng().random((12, 4), "float32")) + random.random():
    model(numbers).sum().backward()
print(model.weight.grad.shape)' >"folder$host/$host/draws.py"
        chmod +x "folder$host/$host/draws.py"
    done
    for name in unseeded draws.py; do
        start_host 1 2 1 "$(find "$T/folder1" -name "$name")"
        start_host 2 2 1 "$(find "$T/folder2" -name "$name")"
        wait_hosts 0
        [ -s out1 ]
    done
}

@test "two programs one after the other in the same script" {
    set_command debian-O2 faulty
    on_hosts "1 2" 0 sh -c "'${command[0]}' && '${command[0]}' && echo both"
    [ "$(tail -n 1 out1)" = both ]
    [ ! -s out2 ]
}

@test "standard output comes from the first host alone, the exit status is one" {
    on_hosts "1 1" 0 sh -c 'echo hello'
    [ "$(cat out1 out2)" = hello ]
    on_hosts "1 1 1" 3 sh -c 'exit 3'
    # ACCEL_RUN_RANK counts over all hosts
    on_hosts "2 2" 9 sh -c '[ "$ACCEL_RUN_RANK" != 3 ] || exit 9'
    all_say "rank 3 of 4"
}

@test "output of the first host that nobody reads for longer than the deadline holds all hosts up, and ends none" {
    set_command debian-O2 held_up.py
    plain_run debian-O2 held_up.py prints
    options=(--collective-timeout 4 --stall-timeout 8)
    local ranks pid
    for ranks in 1 2; do
        rm -f out1 err1 out
        mkfifo out1
        exec 9<>out1
        start_host 1 2 "$ranks" "${command[@]}" prints 9>&-
        start_host 2 2 1 "${command[@]}" prints 9>&-
        retry 600 0.1 grep -q "AR-RANK-STALLED.*its output is not being read" err1
        cat out1 >out 9>&- &
        pid=$!
        retry 100 0.1 test -s out
        exec 9>&-
        wait_hosts 0
        wait "$pid"
        "$COMPARE" --quiet "$plain/out" out
    done
}

@test "a signal that comes to each host at another step is handled at one" {
    on_hosts "1 2" 0 "$(python_of debian)" "$REPOSITORY/tests/programs/told.py" apart file
    [[ $(sed -n 's/^saved after \([0-9]*\) .*/\1/p' out1) =~ ^3[678]$ ]]
}

@test "every signal that may be for the program comes to the ranks of all hosts, whichever accel-run got it" {
    cat >listen <<'END'
for s in USR1 ALRM VTALRM PROF IO PWR RTMIN+3; do trap "echo $s >>got" $s; done
touch ready
until [ -e leave ]; do read -r -t 0.05 <>../fifo; done
exit 0
END
    mkfifo fifo
    start_hosts "1 1" bash ../listen
    await_files host1/ready host2/ready
    for s in USR1 ALRM VTALRM PROF IO PWR RTMIN+3; do
        kill "-$s" "${launchers[2]}"
        retry 100 0.05 grep -qx "$s" host1/got
        retry 100 0.05 grep -qx "$s" host2/got
    done
    touch host1/leave host2/leave
    wait_hosts 0
    [ -z "$(sort host1/got | uniq -d)" ]
    [ -z "$(sort host2/got | uniq -d)" ]
}

# ---- failures

@test "a rank that dies is named on every host, and all end with its status" {
    set_command debian-O2 faulty
    for fault in "kill backward 3 1" "exit data 2 2" "kill start 1 2" "exit forward 5 0"; do
        read -r what place step rank <<<"$fault"
        status=$([ "$what" = kill ] && echo 137 || echo 7)
        on_hosts "1 2" "$status" "${command[@]}" 3 "$what" "$place" "$step" "$rank"
        all_say "rank $rank of 3 (process "
        all_say "on 10.77.0.$((rank ? 2 : 1)))"
    done
}

start_long() { # trains on two hosts until it is ended
    set_command debian-O2 fashion
    start_hosts "1 1" "${command[0]}" "$BUILD/data/fashion" 20 60000 model.pt
    retry 600 0.1 has_printed
    mapfile -t trainers < <(pgrep -x fashion -P "${launchers[1]},${launchers[2]}")
    [ "${#trainers[@]}" -eq 2 ]
}

@test "an accel-run that is killed is named by the other host, and nothing is left" {
    for killed in 1 2; do
        start_long
        other=$((3 - killed))
        kill -9 "${launchers[killed]}"
        code=0
        wait "${launchers[other]}" || code=$?
        [ "$code" -eq 125 ]
        contains "$(cat "err$other")" "AR-HOST-GONE: host $((killed - 1)) (10.77.0.$killed, rank $((killed - 1))) is gone: its accel-run has ended without a word"
        wait_pids_gone "${trainers[@]}" "${launchers[@]}"
    done
}

@test "a host that vanishes from the network is named on both sides, and nothing is left" {
    start_long
    ip -n "$NET-0" link set port2 down
    wait_hosts 125
    contains "$(cat err1)" "AR-HOST-GONE: host 1 (10.77.0.2, rank 1) is gone: it has not been heard for"
    contains "$(cat err2)" "AR-HOST-GONE: host 0 (10.77.0.1, rank 0) is gone: it has not been heard for"
    wait_pids_gone "${trainers[@]}"
}

@test "Ctrl-C at one host ends the job on all, and the other one says where it was" {
    for host in 1 2; do
        start_long
        kill -INT "${launchers[host]}"
        wait_hosts 130
        wait_pids_gone "${trainers[@]}"
        lacks "$(cat "err$host")" "AR-"
        contains "$(cat "err$((3 - host))")" "AR-HOST-SIGNAL: host $((host - 1)) (10.77.0.$host) was told to end by signal 2 (Interrupt): the job ends on all hosts"
    done
}

@test "a host that Ctrl-Z has stopped does not keep the other one from ending, which names it; it ends when it goes on" {
    printf '#!/usr/bin/python3\nimport os, sys\nos.setpgid(0, 0)\nos.execv("%s", sys.argv)\n' "$ACCEL_RUN" >job
    chmod +x job
    is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
    for stopped in 1 2; do
        other=$((3 - stopped))
        ACCEL_RUN=$T/job start_long
        kill -TSTP "${launchers[stopped]}"
        retry 200 0.1 is_stopped "${launchers[stopped]}"
        kill -INT "${launchers[other]}"
        retry 300 0.1 pids_are_gone "${launchers[other]}"
        contains "$(cat "err$other")" "warning AR-HOST-GONE: host $((stopped - 1)) (10.77.0.$stopped, rank $((stopped - 1))) is gone: it is stopped"
        kill -CONT "${launchers[stopped]}"
        wait_hosts 130
        wait_pids_gone "${trainers[@]}"
    done
}

@test "a rank that leaves early is named for all hosts" {
    on_hosts "1 1" 125 "$(python_of debian)" -c '
import os, torch
model = torch.nn.Linear(4, 1)
for step in range(6):
    model(torch.ones(8, 4)).sum().backward()
    if step == 3 and os.environ["ACCEL_RUN_RANK"] == "1":
        os._exit(0)'
    all_say "AR-RANK-EARLY: rank 1 finished at step 4"
}

@test "so is the first host's only rank, whether the other waits for it in a collective or at a file" {
    local waits
    for waits in 'model(torch.ones(8, 4)).sum().backward()' 'open("file", "w")'; do
        on_hosts "1 1" 125 "$(python_of debian)" -c "
import os, torch
model = torch.nn.Linear(4, 1)
model(torch.ones(8, 4)).sum().backward()
if os.environ['ACCEL_RUN_RANK'] == '0':
    os._exit(0)
$waits"
        all_say "AR-RANK-EARLY: rank 0 finished at step 1"
    done
}

@test "ranks that part are named with their numbers in the job" {
    on_hosts "2 1" 125 "$(python_of debian)" -c '
import os, torch
model = torch.nn.Linear(4, 1)
rank = int(os.environ["ACCEL_RUN_RANK"])
for step in range(6):
    model(torch.ones(12, 4) * (2 if step == 3 and rank == 2 else 1)).sum().backward()'
    all_say "AR-RANKS-PARTED: rank 2 has another"
}
