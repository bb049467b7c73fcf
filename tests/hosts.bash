# Several hosts on one machine: network namespaces with a switch between them, each with an accel-run of its own. Load after helpers.
# shellcheck shell=bash disable=SC2154,SC2034
#
# Abstract sockets do not meet across them, folders do or do not, as the test wants it.

load programs

HOSTS=3

# The hosts are NET-1, NET-2..., 10.77.0.1 and so on; NET-0 is the switch. Nothing is made in the machine's own network.
setup_file() {
    programs_setup_file
    export NET="ar$$" OMP_NUM_THREADS=1
    local host
    [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null || return 0
    ip netns add "$NET-0" && ip -n "$NET-0" link add switch type bridge && ip -n "$NET-0" link set switch up || return 0
    for host in $(seq "$HOSTS"); do add_host "$host"; done
}

add_host() {
    ip netns add "$NET-$1"
    ip -n "$NET-$1" link add wire type veth peer name "port$1" netns "$NET-0"
    ip -n "$NET-0" link set "port$1" master switch up
    ip -n "$NET-$1" addr add "10.77.0.$1/24" dev wire
    ip -n "$NET-$1" link set wire up
    ip -n "$NET-$1" link set lo up
}

teardown_file() {
    local host
    for host in $(seq 0 "$HOSTS"); do
        ip netns delete "$NET-$host" 2>/dev/null || true
        rm -rf "/etc/netns/$NET-$host"
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
    mkdir -p "$folder/.nv"
    (cd "$folder" && exec env --default-signal=INT,QUIT ACCEL_TEST_DUMP="$folder/.nv/dump" PYTHONDONTWRITEBYTECODE=1 ip netns exec "$NET-$host" "$ACCEL_RUN" \
        -n "$ranks" --nnodes "$nnodes" --node-rank $((host - 1)) --master-addr "${MASTER:-10.77.0.1}" "${options[@]}" "$@" >"$T/out$host" 2>"$T/err$host" 3>&- 4>&-) &
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
        [ ! -s "out$host" ]
        [ ! -s "err$host" ]
        [ -z "$(files_of "host$host")" ]
    done
    dumps_of "$plain"
    plain_dump=${dumps[0]}
    shopt -s nullglob
    dumps=(host*/.nv/dump.[0-9]*)
    shopt -u nullglob
    [ "${#dumps[@]}" -eq "$ranks" ]
    "$COMPARE" --dump --kind gradient --tolerance 1e-5 "$plain_dump" "${dumps[0]}"
    "$COMPARE" --dump --identical "${dumps[@]}"
    rm -rf host*
}
