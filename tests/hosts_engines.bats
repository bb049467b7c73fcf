#!/usr/bin/env bats
# Several hosts as other launchers describe them: by the words of accelerate launch and torchrun, below Kubeflow, below a torchrun on each.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load hosts

export BATS_TEST_TIMEOUT=180

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
    [ ! -s out2 ]
    [ ! -s err1 ]
    [ ! -s err2 ]
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

@test "where a launcher binds each of its processes, the ranks of a host may run on the processors of all of them" {
    requires file "$BUILD/venv/bin/torchrun"
    taskset -c 0,1 true || skip "needs processors 0 and 1"
    printf '#!/bin/sh\nexec taskset -c "$LOCAL_RANK" %s "$@"\n' "$ACCEL_RUN" >wrapper
    chmod +x wrapper
    # shellcheck disable=SC2016
    ACCEL_RUN=$T/wrapper below_torchrun --log-level warn --bind none sh -c 'grep Cpus_allowed_list /proc/self/status >cpus.$ACCEL_RUN_RANK'
    wait_hosts 0
    [ "$(cat host1/cpus.[01] host2/cpus.[23] | cut -f 2 | tr '\n' ' ')" = "0-1 0-1 0-1 0-1 " ]
    lacks "$(cat err1 err2)" "AR-CORES"
}
