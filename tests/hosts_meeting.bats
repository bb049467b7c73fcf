#!/usr/bin/env bats
# How several hosts come together, and what keeps them from it (tests/hosts.bash, which uses the settings that seem unused here).
# shellcheck disable=SC2034
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load hosts

export BATS_TEST_TIMEOUT=180

@test "what differs between the hosts is refused by name on all of them" {
    options=(--start-timeout 20)
    launchers=()
    start_host 1 2 1 true
    start_host 2 2 1 echo
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: the program: true on host 0, echo on host 1 (10.77.0.2)"
    start_host 1 2 1 echo --out run_1 --seed 3
    start_host 2 2 1 echo --out run_2 --seed 3
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: the program's arguments: run_1 --seed 3 on host 0, run_2 --seed 3 on host 1"
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

# No timing: who comes first says so when it stays for longer than it would where somebody reads at a terminal.
@test "a host that comes late is told what another has refused, and the refusal of all, and none waits for who was told" {
    options=(--start-timeout 1000)
    waits() { retry 300 0.1 grep -q ", to tell it" "err$1"; }
    tells_late() { # the host that refuses, the one that comes later; by their numbers from 1 on
        local code=0
        launchers=()
        start_host "$1" 2 1 no-such-program
        waits "$1"
        start_host "$2" 2 1 true
        wait "${launchers[$1]}" || true
        wait "${launchers[$2]}" || code=$?
        [ "$code" -eq 125 ]
        contains "$(cat "err$2")" "AR-EXEC-NOT-FOUND: host $(($1 - 1)) (10.77.0.$1): "
    }
    launchers=()
    start_host 1 3 1 true
    start_host 2 3 1 echo
    waits 1
    start_host 3 3 1 true
    wait_hosts 125
    all_say "AR-HOSTS-DIFFER: the program: true on host 0, echo on host 1 (10.77.0.2)"
    tells_late 1 2
    tells_late 2 1
    launchers=()
    start_host 1 2 1 no-such-program
    start_host 2 2 1 no-such-program
    wait_hosts 127
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
    contains "$(cat err2)" "waiting for host 0 at 10.77.0.1:29500 (Connection refused), for 5 s at most"
    on_hosts_missing 2 "host 0 was not reached at 10.77.0.1:29500 within 5 s"
}

@test "a host that has come, loses its power, and starts again before all have come, is the same host" {
    options=(--start-timeout 100)
    launchers=()
    start_host 1 3 1 true
    start_host 2 3 1 true
    is_connected() { ip netns exec "$NET-2" ss -Htn state established | grep -q :29500; }
    retry 200 0.1 is_connected
    ip -n "$NET-2" link delete wire # nobody is told of what ends there
    kill -9 "${launchers[2]}"
    wait "${launchers[2]}" || true
    ip netns delete "$NET-2"
    add_host 2
    start_host 2 3 1 true
    retry 200 0.1 is_connected
    start_host 3 3 1 true
    wait_hosts 0
}

@test "the first host's own name is its loopback address there, as Debian's installer has it" {
    for host in 1 2; do
        mkdir -p "/etc/netns/$NET-$host"
        echo "$([ "$host" = 1 ] && echo 127.0.1.1 || echo 10.77.0.1) leader" >"/etc/netns/$NET-$host/hosts"
    done
    MASTER=leader on_hosts "1 1" 0 touch ended
    [ -e host1/ended ]
    [ -e host2/ended ]
}

@test "the first host's own name leads there to an address that only it has, before the one that the others know" {
    for host in 1 2; do
        mkdir -p "/etc/netns/$NET-$host"
        echo "10.77.0.1 leader" >"/etc/netns/$NET-$host/hosts"
    done
    sed -i '1i 10.78.0.1 leader' "/etc/netns/$NET-1/hosts"
    ip -n "$NET-1" addr add 10.78.0.1/32 dev lo
    MASTER=leader on_hosts "1 1" 0 touch ended
    ip -n "$NET-1" addr del 10.78.0.1/32 dev lo
    rm -r "/etc/netns/$NET-"[12]
    [ -e host1/ended ]
    [ -e host2/ended ]
}

@test "the others know the first host by an address of IPv6, or by two of which one is dead, and its own name is a loopback address there" {
    requires file /proc/sys/net/ipv6
    local names=("" "127.0.1.1 leader" "fd77::1 leader" $'fd77::99 leader\n10.77.0.1 leader')
    for host in 1 2 3; do
        mkdir -p "/etc/netns/$NET-$host"
        echo "${names[host]}" >"/etc/netns/$NET-$host/hosts"
        ip -n "$NET-$host" addr add "fd77::$host/64" dev wire nodad
    done
    MASTER=leader on_hosts "1 1 1" 0 "$BUILD/programs/debian-O2/told" until 3 file
    grep -q "^saved after 3 " out1
    rm -r "/etc/netns/$NET-"[123]
}

@test "where standard input, output and errors of one host's accel-run are closed its ranks find them closed, and the hosts understand each other" {
    printf '#!/bin/bash\nexec "%s" "$@" <&- >&- 2>&-\n' "$ACCEL_RUN" >closed
    chmod +x closed
    # shellcheck disable=SC2016 # for the inner shell
    printf '%s\n' '[ ! -e /proc/self/fd/0 ] || cat; echo "$ACCEL_RUN_RANK" >"ended.$ACCEL_RUN_RANK"' >program
    for closed in 1 2; do
        rm -f host[12]/ended.*
        launchers=()
        for host in 1 2; do
            ACCEL_RUN=$([ "$host" = "$closed" ] && echo "$T/closed" || echo "$ACCEL_RUN") start_host "$host" 2 2 sh "$T/program" </dev/null
        done
        wait_hosts 0
        [ "$(cat host1/ended.* host2/ended.* | xargs)" = "0 1 2 3" ]
    done
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

@test "a host that has another version of accel-run is named, however long its greeting is" {
    options=(--start-timeout 20)
    launchers=()
    start_host 1 2 1 true
    retry 200 0.1 ip netns exec "$NET-2" python3 -c 'import socket, struct
s = socket.create_connection(("10.77.0.1", 29500))
hello = struct.pack("<II16s64s40s", 0x61726831, 99, b"9.9", b"", b"")
s.sendall(struct.pack("<II", 1, len(hello)) + hello)
s.recv(1)' 2>tries
    wait_hosts 125
    grep -q "AR-HOSTS-DIFFER: versions of accel-run: .* on host 0, 9.9 (protocol 99) on 10.77.0.2" err1
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
    start_host 3 2 1 --node-rank 1 --job-id theirs --start-timeout 5 echo let in
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
