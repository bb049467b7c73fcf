#!/usr/bin/env bats
# Several hosts: network namespaces with a switch between them, each with an accel-run of its own. Abstract sockets do not meet across them, folders do or do
# not, as the test wants it.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=180
HOSTS=3

# The hosts are NET-1, NET-2..., 10.77.0.1 and so on; NET-0 is the switch. Nothing is made in the machine's own network.
setup_file() {
    programs_setup_file
    export NET="ar$$" OMP_NUM_THREADS=1
    local host
    [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null || return 0
    ip netns add "$NET-0" && ip -n "$NET-0" link add switch type bridge && ip -n "$NET-0" link set switch up || return 0
    for host in $(seq "$HOSTS"); do
        ip netns add "$NET-$host"
        ip -n "$NET-$host" link add wire type veth peer name "port$host" netns "$NET-0"
        ip -n "$NET-0" link set "port$host" master switch up
        ip -n "$NET-$host" addr add "10.77.0.$host/24" dev wire
        ip -n "$NET-$host" link set wire up
        ip -n "$NET-$host" link set lo up
    done
}

teardown_file() {
    local host
    for host in $(seq 0 "$HOSTS"); do
        ip netns delete "$NET-$host" 2>/dev/null || true
    done
}

setup() {
    requires root
    requires command ip
    [ -e "/run/netns/$NET-$HOSTS" ] || skip "needs the right to make network namespaces"
    T=$BATS_TEST_TMPDIR
    cd "$T" || return 1
    shared_folder= # "yes": all hosts run in one folder
    options=()     # of accel-run, on all hosts
}

teardown() {
    ip -n "$NET-0" link set port2 up 2>/dev/null || true
    local pid
    for pid in "${launchers[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
}

# start_host K NNODES RANKS command...: one accel-run in its folder, $T/hostK; its number in launchers[K]
start_host() {
    local host=$1 nnodes=$2 ranks=$3 folder=$T/host$1
    shift 3
    [ -z "$shared_folder" ] || folder=$T/host1
    mkdir -p "$folder/.cache"
    (cd "$folder" && exec env --default-signal=INT,QUIT ACCEL_TEST_DUMP="$folder/.cache/dump" PYTHONDONTWRITEBYTECODE=1 ip netns exec "$NET-$host" "$ACCEL_RUN" \
        -n "$ranks" --nnodes "$nnodes" --node-rank $((host - 1)) --master-addr 10.77.0.1 "${options[@]}" "$@" >"$T/out$host" 2>"$T/err$host" 3>&- 4>&-) &
    launchers[host]=$!
}

# start_hosts "RANKS RANKS..." command...: the same command on each host
start_hosts() {
    local counts host
    read -ra counts <<<"$1"
    shift
    rm -f "$T"/out[0-9] "$T"/err[0-9]
    launchers=()
    for host in "${!counts[@]}"; do
        start_host $((host + 1)) "${#counts[@]}" "${counts[host]}" "$@"
    done
}

# wait_hosts STATUS: every accel-run ends with it
wait_hosts() {
    local host code
    for host in "${!launchers[@]}"; do
        code=0
        wait "${launchers[host]}" || code=$?
        [ "$code" -eq "$1" ] || { echo "host $((host - 1)) ended with $code, not $1:" >&2 && show "$T/out$host" "$T/err$host" && return 1; }
    done
    launchers=()
}

on_hosts() { # "RANKS RANKS..." STATUS command...
    local wanted=$2
    start_hosts "$1" "${@:3}"
    wait_hosts "$wanted"
}

all_say() { # TEXT: on standard error of every host
    local file
    for file in err*; do
        contains "$(cat "$file")" "$1"
    done
}

has_printed() {
    [ -s "$T/out1" ]
}

# same_run_on "RANKS..." BUILD NAME: the first host prints and saves what the plain program does, the others nothing; parameters are the same bit by bit
same_run_on() {
    local host ranks=0 count plain_dump
    plain_run "$2" "$3"
    echo "== $1 of $2 $3" >&2
    on_hosts "$1" 0 "${command[@]}"
    "$COMPARE" "$plain/out" out1
    diff <(files_of "$plain" | grep -vE '^(out|err|status)$') <(files_of host1)
    for count in $1; do ranks=$((ranks + count)); done
    for ((host = 2; host <= $(wc -w <<<"$1"); host++)); do
        [ ! -s "out$host" ] && [ ! -s "err$host" ]
        [ -z "$(files_of "host$host")" ]
    done
    dumps_of "$plain"
    plain_dump=${dumps[0]}
    shopt -s nullglob
    dumps=(host*/.cache/dump.[0-9]*)
    shopt -u nullglob
    [ "${#dumps[@]}" -eq "$ranks" ]
    "$COMPARE" --dump --kind gradient --tolerance 1e-5 "$plain_dump" "${dumps[0]}"
    "$COMPARE" --dump --identical "${dumps[@]}"
    rm -rf host*
}

# ---- the same run

@test "C++ on two hosts is the one-process run: output, files, parameters bit by bit" {
    same_run_on "1 1" debian-O2 gru
    same_run_on "2 1" debian-O2 fashion
    same_run_on "2 2" debian-O2 mlp_loader
}

@test "and on three hosts" {
    same_run_on "1 1 1" debian-O2 mlp_loader
}

@test "Python on two hosts" {
    same_run_on "1 2" wheel classifier.py
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
    [ ! -s err1 ] && [ ! -s err2 ]
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

@test "Ctrl-C at one host ends the job on all" {
    for host in 1 2; do
        start_long
        kill -INT "${launchers[host]}"
        wait_hosts 130
        wait_pids_gone "${trainers[@]}"
        lacks "$(cat err1 err2)" "AR-"
    done
}

@test "a rank that leaves early is named for all hosts" {
    on_hosts "1 1" 125 "$BUILD/venv/bin/python" -c '
import os, torch
model = torch.nn.Linear(4, 1)
for step in range(6):
    model(torch.ones(8, 4)).sum().backward()
    if step == 3 and os.environ["ACCEL_RUN_RANK"] == "1":
        os._exit(0)'
    all_say "AR-RANK-EARLY: rank 1 finished at step 4"
}

@test "ranks that part are named with their numbers in the job" {
    on_hosts "2 1" 125 "$BUILD/venv/bin/python" -c '
import os, torch
model = torch.nn.Linear(4, 1)
rank = int(os.environ["ACCEL_RUN_RANK"])
for step in range(6):
    model(torch.ones(12, 4) * (2 if step == 3 and rank == 2 else 1)).sum().backward()'
    all_say "AR-RANKS-PARTED: rank 2 has another"
}

# ---- coming together

@test "what differs between the hosts is refused by name on all of them" {
    options=(--start-timeout 20)
    launchers=()
    start_host 1 2 1 true
    start_host 2 2 1 echo
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: the program: true on host 0, echo on host 1 (10.77.0.2)"
    start_host 1 2 1 echo one
    start_host 2 2 1 echo two
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: the program's arguments"
    start_host 1 2 1 --scale-batch true
    start_host 2 2 1 true
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: --scale-batch: given on host 0, not given on host 1"
    start_host 1 2 1 true
    start_host 2 3 1 true
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: --nnodes: 2 on host 0, 3 on host 1"
    start_host 1 2 1 --threads 1 true
    start_host 2 2 1 --threads 2 true
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: threads of each rank"
}

@test "a host that refuses its part is named on the others at once, whichever it is" {
    options=(--start-timeout 100)
    launchers=()
    start_host 1 2 1 true
    start_host 2 2 1 no-such-program
    wait "${launchers[1]}" || code=$?
    [ "$code" -eq 125 ]
    wait "${launchers[2]}" || code=$?
    [ "$code" -eq 127 ]
    contains "$(cat err1)" "AR-EXEC-NOT-FOUND: host 1 (10.77.0.2): "
    start_host 1 3 1 no-such-program
    start_host 2 3 1 true
    start_host 3 3 1 true
    wait "${launchers[1]}" "${launchers[2]}" || true
    wait "${launchers[3]}" || code=$?
    [ "$code" -eq 125 ]
    contains "$(cat err2)" "AR-EXEC-NOT-FOUND: host 0 (10.77.0.1): "
    contains "$(cat err3)" "AR-EXEC-NOT-FOUND: host 0 (10.77.0.1): "
}

@test "--dry-run shows the hosts, the meeting place and the world size" {
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 --nnodes 3 --node-rank 1 --master-addr 10.77.0.1 --dry-run true
    contains "$output" "hosts               3, and this is host 1"
    contains "$output" "meeting place       10.77.0.1 port 29500"
    contains "$output" "world size          6, if the other hosts have as many ranks"
}

@test "two hosts with one number, a host that never comes, no first host: each is named" {
    options=(--start-timeout 5)
    launchers=()
    start_host 1 3 1 true
    start_host 2 3 1 true
    start_host 3 3 1 --node-rank 1 true
    code=0
    wait "${launchers[1]}" || code=$?
    [ "$code" -eq 125 ]
    contains "$(cat err1)" "AR-HOSTS-TWICE: two hosts say that they are host 1: 10.77.0."
    wait "${launchers[2]}" "${launchers[3]}" || true
    on_hosts_missing() { contains "$(cat "err$1")" "AR-HOSTS-MISSING: $2"; }
    launchers=()
    start_host 1 3 1 true
    start_host 3 3 1 true
    wait_hosts 125
    on_hosts_missing 1 "host 1 of 3 did not come to 10.77.0.1:29500 within 5 s"
    launchers=()
    start_host 2 2 1 true
    wait_hosts 125
    on_hosts_missing 2 "host 0 was not reached at 10.77.0.1:29500 within 5 s"
}

@test "a port that is taken, an address that is none" {
    options=(--start-timeout 1)
    launchers=()
    ip netns exec "$NET-1" python3 -c 'import socket, time
s = socket.create_server(("10.77.0.1", 29500)); print("there", flush=True); time.sleep(100)' >taken 3>&- 4>&- &
    taker=$!
    retry 100 0.1 grep -q there taken
    start_host 1 2 1 true
    wait_hosts 125
    kill "$taker"
    contains "$(cat err1)" "AR-HOSTS-PORT: port 29500 of 10.77.0.1 cannot be taken: Address already in use"
    start_host 1 2 1 --master-addr no.such.host.invalid true
    wait_hosts 125
    contains "$(cat err1)" "AR-HOSTS-ADDRESS: --master-addr 'no.such.host.invalid'"
}

@test "strangers at the port hold up nobody; a host of another job is not let in" {
    options=(--start-timeout 30 --job-id mine)
    launchers=()
    start_host 1 2 1 echo let in
    ip netns exec "$NET-2" python3 -c '
import socket, time
def call():
    for _ in range(100):
        try: return socket.create_connection(("10.77.0.1", 29500))
        except OSError: time.sleep(0.1)
kept = [call() for _ in range(100)]
for i, one in enumerate(kept):
    try: one.send(b"GET / HTTP/1.1\r\n" * i)
    except OSError: pass
print("there", flush=True); time.sleep(100)' >knocked 3>&- 4>&- &
    knocker=$!
    retry 200 0.1 grep -q there knocked
    start_host 3 2 1 --node-rank 1 --job-id theirs --start-timeout 1 echo let in
    code=0
    wait "${launchers[3]}" || code=$?
    [ "$code" -eq 125 ]
    contains "$(cat err3)" "is another job there"
    unset "launchers[3]"
    start_host 2 2 1 echo let in
    wait_hosts 0
    kill "$knocker"
    [ "$(cat out1)" = "let in" ]
}

@test "the words of accelerate launch and of torchrun" {
    launchers=()
    for host in 1 2; do
        (cd "$T" && exec ip netns exec "$NET-$host" "$ACCEL_RUN" --num_processes 4 --num_machines 2 --machine_rank $((host - 1)) --main_process_ip 10.77.0.1 \
            --main_process_port 4000 sh -c 'echo $ACCEL_RUN_RANK >>ranks' >"out$host" 2>"err$host" 3>&- 4>&-) &
        launchers[host]=$!
    done
    wait_hosts 0
    [ "$(sort ranks | tr -d '\n')" = 0123 ]
    rm ranks
    for host in 1 2; do
        (cd "$T" && exec ip netns exec "$NET-$host" "$ACCEL_RUN" --nproc-per-node "$host" --nnodes 2 --node_rank $((host - 1)) --rdzv-backend static \
            --rdzv-endpoint 10.77.0.1:4001 --rdzv-id some sh -c 'echo $ACCEL_RUN_RANK >>ranks' >"out$host" 2>"err$host" 3>&- 4>&-) &
        launchers[host]=$!
    done
    wait_hosts 0
    [ "$(sort ranks | tr -d '\n')" = 012 ]
}

@test "below Kubeflow, whose variables say which host of how many, it is the same run" {
    plain_run debian-O2 mlp_loader
    launchers=()
    for host in 1 2; do
        mkdir -p "host$host"
        (cd "host$host" && exec ip netns exec "$NET-$host" env PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_NODE_RANK=$((host - 1)) PET_MASTER_ADDR=10.77.0.1 \
            PET_MASTER_PORT=4002 ACCEL_RUN_LOG_LEVEL=warn "$ACCEL_RUN" "${command[@]}" >"../out$host" 2>"../err$host" 3>&- 4>&-) &
        launchers[host]=$!
    done
    wait_hosts 0
    "$COMPARE" "$plain/out" out1
    [ ! -s out2 ] && [ ! -s err1 ] && [ ! -s err2 ]
}

# below_torchrun COMMAND...: two hosts with a torchrun each, which starts two processes there; its words are left out of err1 and err2
below_torchrun() {
    local host
    launchers=()
    for host in 1 2; do
        mkdir -p "host$host"
        (cd "host$host" && exec ip netns exec "$NET-$host" env PYTHONWARNINGS=ignore "$BUILD/venv/bin/torchrun" --no-python --nnodes 2 --nproc-per-node 2 \
            --node-rank $((host - 1)) --master-addr 10.77.0.1 --master-port 4003 "$ACCEL_RUN" "$@" >"../out$host" 2>"../err$host" 3>&- 4>&-) &
        launchers[host]=$!
    done
}

@test "below torchrun with two processes on each of two hosts it is the same run, and ends as one" {
    requires file "$BUILD/venv/bin/torchrun"
    plain_run debian-O2 mlp_loader
    below_torchrun "${command[@]}"
    wait_hosts 0
    "$COMPARE" "$plain/out" out1
    [ ! -s out2 ]
    below_torchrun sh -c 'exit 3'
    wait_hosts 1 # torchrun's own
    contains "$(cat err1)" "exitcode  : 3"
    contains "$(cat err2)" "exitcode  : 3"
    contains "$(cat err1)" "AR-RANK-FAILED"
}

@test "below torchrun a host whose processes differ is named on the other one, with their numbers in the job" {
    requires file "$BUILD/venv/bin/torchrun"
    printf '#!/bin/sh\n[ "$RANK" != 3 ] || set -- --grace 3 "$@"\nexec %s "$@"\n' "$ACCEL_RUN" >wrapper
    chmod +x wrapper
    ACCEL_RUN=$T/wrapper below_torchrun true
    wait_hosts 1
    contains "$(cat err2)" "AR-ENGINE-DIFFERS: rank 3 was started with other options, another program or other arguments than rank 2"
    contains "$(cat err1)" "AR-ENGINE-DIFFERS: host 1 (10.77.0.2): rank 3 was started with other options"
}

@test "a torchrun that is ended on one host is named by the other host's accel-run" {
    requires file "$BUILD/venv/bin/torchrun"
    below_torchrun --log-level warn sh -c 'echo >"started.$ACCEL_RUN_RANK"; exec sleep 300'
    retry 300 0.1 files_exist host1/started.0 host1/started.1 host2/started.2 host2/started.3
    kill -9 "${launchers[2]}"
    wait "${launchers[1]}" "${launchers[2]}" || true
    contains "$(cat err1)" "AR-HOST-SIGNAL: host 1 (10.77.0.2) was told to end by signal 15 (Terminated): the job ends on all hosts"
}
