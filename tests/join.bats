#!/usr/bin/env bats
# accel-run below other launchers: each process that they start becomes a rank. With the real torchrun, Open MPI and hydra; srun is tests/fake/srun.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=300

setup_file() {
    programs_setup_file
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
}

# fake_launcher NAME N VARIABLE=VALUE...: in $launched, one that is called NAME, and sets these variables
fake_launcher() {
    # shellcheck disable=SC2016
    launched=(bash -c 'exec -a "$0" /usr/bin/python3 "$@"' "$1" "$REPOSITORY/tests/fake/ranks" "${@:2}" --)
}

# launched LAUNCHER N: the command that starts N processes, in $launched
launched() {
    case $1 in
    torchrun)
        requires file "$BUILD/venv/bin/torchrun"
        launched=("$BUILD/venv/bin/torchrun" --no-python --nproc-per-node "$2")
        ;;
    openmpi)
        requires command mpirun.openmpi
        launched=(mpirun.openmpi --oversubscribe --bind-to none -n "$2")
        ;;
    hydra)
        requires command mpirun.mpich
        launched=(mpirun.mpich -n "$2")
        ;;
    # Slurm's own process above a task is called so
    flux) fake_launcher flux-shell "$2" FLUX_TASK_RANK=%r FLUX_JOB_SIZE=%n FLUX_TASK_LOCAL_ID=%r FLUX_JOB_NNODES=1 FLUX_JOB_ID=f1 PMI_RANK=%r PMI_SIZE=%n ;;
    srun) launched=(bash -c 'exec -a slurmstepd /usr/bin/python3 "$@"' bash "$REPOSITORY/tests/fake/srun" "$2") ;;
    esac
}

# same_joined LAUNCHER N BUILD NAME [same_numbers]: the run is the plain one, word by word, with the same files, and numbers where the program dumps them
same_joined() {
    local launcher=$1 n=$2 build=$3 name=$4 numbers=${5-true}
    launched "$launcher" "$n"
    plain_run "$build" "$name"
    [ "$(cat "$plain/status")" -eq 0 ]
    ranks=$BATS_TEST_TMPDIR/$launcher-$build-$name-$n
    run_in "$ranks" "${launched[@]}" "$ACCEL_RUN" "${command[@]}"
    same_status && same_output "$build" "$name" "$n" && "$numbers" "$n" && same_files
}

@test "below torchrun, Open MPI, hydra and srun it is the plain program's run: output, numbers and files" {
    same_joined torchrun 2 wheel-O2 classifier.py same_numbers
    same_joined openmpi 2 debian-O2 mlp_loader same_numbers
    same_joined hydra 3 debian-O2 mlp_loader same_numbers
    same_joined srun 3 wheel-O2 save_modes
}

@test "an operator that throws on one rank alone, caught, is noticed at the end below another launcher, too" {
    launched torchrun 2
    run "${launched[@]}" "$ACCEL_RUN" "$BUILD/venv/bin/python" "$REPOSITORY/tests/programs/caught.py" last print
    [ "$status" -ne 0 ]
    contains "$output" "the program ended well, but operators have thrown exceptions on some ranks alone"
}

@test "MVAPICH, PALS, Flux and jsrun are followed by what they set" {
    same_joined flux 2 debian-O2 mlp_loader same_numbers
    followed() { # NAME, as --show-config calls it; the launcher's process; variables
        fake_launcher "$2" 2 "${@:3}"
        run -0 "${launched[@]}" "$ACCEL_RUN" --show-config
        contains "$output" "# Other launcher: rank 1 of 2: $1 ("
    }
    followed "MVAPICH's mpirun_rsh" mpispawn MV2_COMM_WORLD_{RANK,LOCAL_RANK}=%r MV2_COMM_WORLD_{SIZE,LOCAL_SIZE}=%n PMI_ID=%r PMI_PORT=h:1
    followed "PALS's mpiexec" palsd PALS_{RANKID,LOCAL_RANKID}=%r PALS_NODEID=0 PMI_{RANK,LOCAL_RANK}=%r PMI_{SIZE,LOCAL_SIZE}=%n
    followed jsrun jsmd JSM_NAMESPACE_{RANK,LOCAL_RANK}=%r JSM_NAMESPACE_{SIZE,LOCAL_SIZE}=%n PMIX_RANK=%r PMIX_NAMESPACE=1
}

@test "below a launcher that does not say how many ranks there are nothing is started: each would train alone" {
    for variables in "prted PMIX_RANK=%r PMIX_NAMESPACE=1" "hydra_pmi_proxy PMI_ID=%r PMI_PORT=h:1" "aprun ALPS_APP_PE=%r" "res LSF_PM_TASKID=%r" \
        "horovodrun HOROVOD_RANK=%r HOROVOD_SIZE=%n HOROVOD_LOCAL_RANK=%r" "torchrun RANK=%r WORLD_SIZE=%n LOCAL_RANK=%r" "flux-shell FLUX_TASK_RANK=%r"; do
        # shellcheck disable=SC2086
        fake_launcher ${variables%% *} 2 ${variables#* }
        run -125 "${launched[@]}" "$ACCEL_RUN" touch started
        contains "$output" "AR-ENGINE-HOSTS: the variables of another launcher"
        [ ! -e started ]
    done
    run -0 "${launched[@]}" "$ACCEL_RUN" --engine none touch started
    # of a shell they are left over
    PMIX_RANK=0 LSF_PM_TASKID=1 run -0 bash -c '"$@"; exit' bash "$ACCEL_RUN" true
    lacks "$output" AR-ENGINE
}

@test "below another launcher, too, a forked child that uses rows divided before stops the job" {
    launched srun 2
    set_command wheel forked.py
    local whose
    for whose in child grandchild; do
        run ! "${launched[@]}" "$ACCEL_RUN" "${command[@]}" divided 0 "$whose"
        [ "$(grep -c "error AR-FORKED: a child process" <<<"$output")" -eq 1 ]
    done
}

@test "below another launcher files are written once, too" {
    launched hydra 2
    set_command debian-O2 files
    mkdir plain ranks
    (cd plain && "${command[@]}" .) >plain.out
    (cd ranks && "${launched[@]}" "$ACCEL_RUN" "${command[@]}" .) >ranks.out
    diff plain.out ranks.out
    diff -r --no-dereference plain ranks
}

@test "each process that the launcher has started is the program, and there is no other one" {
    cat >look <<'END'
#!/bin/sh
for try in $(seq 1000); do # until the other one has become it, too; and it stays until the other one has seen that
    [ -e "seen.$$" ] || seen=$(ps -o comm= --ppid $PPID | sort | uniq -c | xargs)
    [ "$seen" != "2 look" ] || : >"seen.$$"
    [ "$(ls seen.* 2>/dev/null | wc -l)" -lt 2 ] || break
done
echo "$seen"
END
    chmod +x look
    launched hydra 2
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" --log-level error ./look
    [ "$output" = "2 look" ]
}

@test "the program finds no variable of the launcher, and threads by its share of the cores: torchrun's 1 is no choice" {
    unset OMP_NUM_THREADS
    launched torchrun 2
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" --log-level error sh -c 'env | grep -E "^(RANK|LOCAL_.*|WORLD_SIZE|MASTER_.*|TORCHELASTIC_.*|OMP_.*)="'
    alone=$("$ACCEL_RUN" -n 2 --dry-run true | sed -n 's/^threads per rank *//p')
    [ "$output" = "OMP_NUM_THREADS=$alone" ]
    launched srun 2
    run -0 --separate-stderr taskset -c "$(processors 1)" "${launched[@]}" "$ACCEL_RUN" --log-level error sh -c 'echo $OMP_NUM_THREADS ${SLURM_PROCID-none} $SLURM_JOB_ID'
    [ "$output" = "1 none 77" ]
    OMP_NUM_THREADS=5 run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" --log-level error sh -c 'echo $OMP_NUM_THREADS'
    [ "$output" = 5 ]
}

@test "more ranks than cores and a misspelled variable are said, once" {
    launched srun 3
    ACCEL_RUN_RANK_COUNT=3 run -0 --separate-stderr taskset -c "$(processors 1)" "${launched[@]}" "$ACCEL_RUN" --log-level warn true
    [ "$(grep -c "AR-CORES: 3 ranks share 1 core:" <<<"$stderr")" -eq 1 ]
    [ "$(grep -c "AR-ENV-UNKNOWN: nobody reads the variable ACCEL_RUN_RANK_COUNT" <<<"$stderr")" -eq 1 ]
}

@test "how it was decided is shown: by --dry-run and --show-config, with what was not followed" {
    launched srun 2
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" --dry-run true
    contains "$output" "other launcher      rank 1 of 2: srun (SLURM_LOCALID)"
    SLURM_PROCID=0 SLURM_NTASKS=2 run -0 "$ACCEL_RUN" --show-config
    contains "$output" "# Other launcher: ignored: SLURM_PROCID=0, no task of a step"
}

@test "of nested launchers the nearest one is followed, and what is outside of it is said" {
    # Hydra's mpirun dies of SIGPIPE now and then where its program ends at once: of 16 runs of /bin/true, two at a time, 2 did. Two of Open MPI's that begin at once
    # both make their folder in /tmp, and the later one ends.
    ends_well() {
        local attempt
        for attempt in 1 2 3 4 5; do
            run --separate-stderr "$@"
            [ "$status" -eq 13 ] || [[ $stderr == *"unable to create the desired directory"* ]] || break
        done
        [ "$status" -eq 0 ] || { echo "attempt $attempt: status $status: $stderr" >&2 && return 1; }
    }
    run_ranks() { # OUTER N INNER N: each of the outer's processes starts a job of the inner's
        local outer
        launched "$1" "$2"
        outer=("${launched[@]}")
        launched "$3" "$4"
        ends_well "${outer[@]}" "${launched[@]}" "$ACCEL_RUN" --log-level error sh -c 'echo "rank $ACCEL_RUN_RANK"'
        [ "$(grep -c "rank 0" <<<"$output")" -eq "$2" ]
        ends_well "${outer[@]}" "${launched[@]}" "$ACCEL_RUN" --show-config
    }
    run_ranks torchrun 2 openmpi 2
    contains "$output" "Open MPI's mpirun (OMPI_COMM_WORLD_LOCAL_RANK); ignored: RANK=1, outside of it (torchrun)"
    run_ranks openmpi 1 torchrun 2
    contains "$output" "rank 1 of 2: torchrun (LOCAL_RANK); ignored: OMPI_COMM_WORLD_RANK=0, only one process"
    run_ranks srun 2 hydra 2
    contains "$output" "rank 1 of 2: hydra's mpiexec (MPI_LOCALRANKID); ignored: SLURM_PROCID=0, outside of it (srun)"
}

@test "a pod that does not know where the others are is refused: each would train by itself" {
    RANK=1 WORLD_SIZE=2 run -125 "$ACCEL_RUN" -n 2 true
    contains "$output" "AR-ENGINE-HOSTS: RANK and WORLD_SIZE of a pod: this is host 1 of 2 (RANK), and where the first one is, is not known"
    RANK=1 WORLD_SIZE=2 run -0 --separate-stderr "$ACCEL_RUN" --show-config
    contains "$output" "# Refused: AR-ENGINE-HOSTS"
    RANK=1 WORLD_SIZE=2 run -0 --separate-stderr "$ACCEL_RUN" --engine none --log-level error sh -c 'echo rank $ACCEL_RUN_RANK'
    [ "$output" = "rank 0" ]
}

@test "a port that is none is refused by name where hosts would meet at it, and is nothing to a job on one host" {
    MASTER_ADDR=first MASTER_PORT=65536 RANK=0 WORLD_SIZE=2 run -125 "$ACCEL_RUN" -n 2 --dry-run true
    contains "$output" "there is no port 65536 for the hosts to meet at"
    contains "$output" "--master-port"
    MASTER_ADDR=first MASTER_PORT=65536 RANK=0 WORLD_SIZE=1 run -0 "$ACCEL_RUN" -n 2 --dry-run true
}

@test "variables that a shell has kept from a job are not followed" {
    run -0 --separate-stderr env SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_TASKS_PER_NODE=2 \
        "$ACCEL_RUN" --log-level error sh -c 'echo $ACCEL_RUN_RANK'
    [ "$output" = 0 ]
}

@test "--engine none starts ranks in each process of the launcher" {
    launched srun 2
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" --engine none -n 2 --log-level error sh -c 'echo rank $ACCEL_RUN_RANK'
    [ "$(grep -c 'rank 0' <<<"$output")" -eq 2 ]
    run -125 "$ACCEL_RUN" --engine mpi true
    contains "$output" AR-OPTION-VALUE
}

@test "what cannot be is said once, by name: another number of ranks, another program, no program, several hosts" {
    launched srun 2
    run "${launched[@]}" "$ACCEL_RUN" -n 3 true
    [ "$(grep -c "AR-ENGINE-RANKS" <<<"$output")" -eq 1 ]
    contains "$output" "task 1: 125"
    run "${launched[@]}" sh -c '"$0" --log-level error echo $SLURM_PROCID' "$ACCEL_RUN"
    [ "$(grep -c "AR-ENGINE-DIFFERS" <<<"$output")" -eq 1 ]
    run -127 "${launched[@]}" "$ACCEL_RUN" no-such-program
    [ "$(grep -c "AR-EXEC-NOT-FOUND" <<<"$output")" -eq 1 ]
    contains "$output" "task 1: 127"
    run "${launched[@]}" "$ACCEL_RUN" explain true
    [ "$(grep -c "AR-ENGINE-EXPLAIN" <<<"$output")" -eq 1 ]
    launched openmpi 2
    run "${launched[@]}" env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$ACCEL_RUN" true
    [ "$(grep -c "AR-ENGINE-HOSTS" <<<"$output")" -eq 1 ]
}

@test "a rank that never comes is named at the deadline" {
    launched srun 3
    run "${launched[@]}" sh -c '[ $SLURM_PROCID -eq 1 ] || exec "$0" --log-level warn --collective-timeout 7 true' "$ACCEL_RUN"
    contains "$output" "notice AR-ENGINE-ALONE: srun has started 3 processes, and rank 1 has not come yet"
    contains "$output" "error AR-ENGINE-ALONE"
    contains "$output" "rank 1 has not come"
    [ "$(grep -c "AR-" <<<"$output")" -eq 2 ]
    contains "$output" "task 2: 125"
}

@test "one process on each host, and this is the only one: the ranks are started here" {
    PET_NNODES=1 PET_NPROC_PER_NODE=2 run -0 "$ACCEL_RUN" --dry-run true
    contains "$output" "ranks               2"
    lacks "$output" PET_NNODES=
    RANK=0 WORLD_SIZE=1 MASTER_ADDR=x run -0 "$ACCEL_RUN" -n 2 --dry-run true
    contains "$output" "ranks               2"
    launched srun 1
    run -0 "${launched[@]}" "$ACCEL_RUN" -n 2 --dry-run true
    contains "$output" "ranks               2"
}

# ---- failures. srun lets the others run on, so what ends them is us.

@test "a rank that is killed, or ends by itself, is named by those who wait for it, and all end" {
    set_command debian-O2 faulty
    launched srun 3
    run "${launched[@]}" "$ACCEL_RUN" "${command[@]}" 2 kill backward 5 1
    [ "$(grep -c "accel-run: error" <<<"$output")" -eq 1 ]
    contains "$output" "AR-RANK-KILLED: rank 1 of 3"
    contains "$output" "task 0: 125"
    contains "$output" "task 1: -9"
    contains "$output" "task 2: 125"
    run "${launched[@]}" "$ACCEL_RUN" "${command[@]}" 2 exit forward 5 0
    [ "$(grep -c "accel-run: error" <<<"$output")" -eq 1 ]
    contains "$output" "AR-RANK-FAILED: rank 0 of 3"
    contains "$output" "exit code 7"
    contains "$output" "task 2: 125"
}

@test "a rank that hangs is named, once, while the others wait, and ended at the deadline" {
    set_command debian-O2 faulty
    launched srun 3
    run "${launched[@]}" "$ACCEL_RUN" --stall-timeout 2 --collective-timeout 8 "${command[@]}" 2 hang forward 5 1
    [ "$(grep -c "AR-RANK-STALLED" <<<"$output")" -eq 1 ]
    contains "$output" "AR-RANK-STALLED: rank 1 of 3"
    [ "$(grep -c "accel-run: error" <<<"$output")" -eq 1 ]
    contains "$output" "AR-COLLECTIVE-TIMEOUT: rank 1 has not come"
    contains "$output" "task 0: 125"
    contains "$output" "task 1: -9"
}

@test "--stall-timeout 0 names no rank that hangs; the deadline ends it" {
    set_command debian-O2 faulty
    launched srun 2
    run "${launched[@]}" "$ACCEL_RUN" --stall-timeout 0 --collective-timeout 4 "${command[@]}" 2 hang forward 5 1
    lacks "$output" AR-RANK-STALLED
    contains "$output" "AR-COLLECTIVE-TIMEOUT: rank 1 has not come"
}

@test "ranks that part are stopped, and it is said once" {
    requires file "$BUILD/venv/bin/python"
    launched srun 2
    run "${launched[@]}" "$ACCEL_RUN" "$BUILD/venv/bin/python" "$REPOSITORY/tests/programs/swapped.py"
    [ "$(grep -c "accel-run: error" <<<"$output")" -eq 1 ]
    contains "$output" AR-RANKS-PARTED
    contains "$output" "task 0: 125"
    contains "$output" "task 1: 125"
}

@test "the program below a script is the rank; a script does not go on when the job was stopped" {
    set_command debian-O2 faulty
    launched srun 2
    printf '#!/bin/sh\n"$@"\necho "and then $?"\n' >script
    chmod +x script
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" ./script "${command[@]}" 1
    [ "$(grep -c "step 1 " <<<"$output")" -eq 1 ]
    contains "$output" "and then 0"
    run "${launched[@]}" "$ACCEL_RUN" ./script "${command[@]}" 2 kill backward 5 1
    contains "$output" "AR-RANK-KILLED: rank 1 of 2"
    lacks "$output" "and then 125"
    contains "$output" "task 0: -15"
}

@test "a script may train often: more programs, one after the other, than the memory has places" {
    set_command debian-O2 faulty
    launched srun 2
    printf '#!/bin/sh\nfor i in 1 2 3 4 5 6; do "$@" | tail -n 1; done\n' >script
    chmod +x script
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" ./script "${command[@]}" 1
    [ "${#lines[@]}" -eq 6 ]
    [ "$(sort -u <<<"$output" | wc -l)" -eq 1 ]
}

@test "programs that fork, execute themselves, call system() or close all descriptors print and end as alone" {
    set_command debian-O2 restless
    launched srun 2
    for what in fork exec system close; do
        plain_status=0 ranks_status=0
        "${command[@]}" $what >plain || plain_status=$?
        timeout 60 "${launched[@]}" "$ACCEL_RUN" "${command[@]}" $what >ranks 2>err || ranks_status=$?
        [ "$plain_status" -eq "$ranks_status" ] || { echo "$what: $plain_status and $ranks_status" && show err && return 1; }
        "$COMPARE" plain ranks
    done
}

@test "of ranks 1 and up only the last words of one that fails alone are shown, or all of it with --log-dir" {
    launched srun 2
    fails='echo "rank $ACCEL_RUN_RANK here"; [ $ACCEL_RUN_RANK -eq 0 ] || { echo "no disk" >&2; exit 3; }; sleep 2'
    run "${launched[@]}" "$ACCEL_RUN" sh -c "$fails"
    contains "$output" "    no disk"
    contains "$output" "AR-RANK-FAILED: rank 1 of 2"
    contains "$output" "task 1: 3"
    run "${launched[@]}" "$ACCEL_RUN" sh -c 'echo "no disk" >&2; exit 3'
    [ "$(grep -c "no disk" <<<"$output")" -eq 1 ]
    lacks "$output" AR-
    run "${launched[@]}" "$ACCEL_RUN" --log-dir logs --log-level error sh -c 'echo out; echo err >&2'
    [ "$(grep -c out <<<"$output")" -eq 1 ]
    [ "$(cat logs/rank-1.out logs/rank-1.err | xargs)" = "out err" ]
}

@test "what rank 0 prints and nobody reads for longer than the deadline, or saves to a slow disk, is waited for there, too" {
    local pid
    launched srun 2
    set_command debian-O2 held_up.py
    mkfifo unread
    exec 9<>unread
    "${launched[@]}" "$ACCEL_RUN" --collective-timeout 4 --stall-timeout 8 "${command[@]}" prints >unread 2>err 3>&- 4>&- 9>&- &
    bg_pid=$!
    retry 600 0.1 grep -q AR-RANK-STALLED err
    cat unread >out 9>&- &
    pid=$!
    retry 100 0.1 test -s out
    exec 9>&-
    wait_bg
    [ "$status" -eq 0 ]
    wait "$pid"
    "${command[@]}" prints >plain
    "$COMPARE" --quiet plain out

    FAKE=$BUILD/fake
    mkdir -p "$FAKE"
    build_fake slow_disk.so -shared -fPIC slow_disk.c
    run env LD_PRELOAD="$FAKE/slow_disk.so" "${launched[@]}" "$ACCEL_RUN" --collective-timeout 4 "${command[@]}" saves model.pt
    [ "$status" -eq 0 ]
    contains "$output" "True 7.0"
}

# lingering: writes a training that sees at its steps, for three seconds, what has become of the processes above it
lingering() {
    cat >lingering.py <<'END'
import os, resource, sys, time, torch
torch.manual_seed(1)
layer = torch.nn.Linear(4, 1)
layer(torch.randn(8, 4)).sum().backward()
if "full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    kept = []
    try:
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
print("begun", flush=True)
for step in range(6):
    layer(torch.randn(8, 4)).pow(2).mean().backward()
    time.sleep(0.5)
print("done", flush=True)
END
}

@test "a rank that has no descriptor left takes nobody for dead" {
    lingering
    launched srun 2
    run -0 --separate-stderr "${launched[@]}" "$ACCEL_RUN" /usr/bin/python3 lingering.py full
    [ "$output" = $'begun\ndone' ]
    lacks "$stderr" AR-
}

@test "where /proc hides other users' processes the launcher is not taken for dead" {
    requires mount
    requires reach
    lingering
    launched srun 2
    # shellcheck disable=SC2016
    run -0 --separate-stderr unshare --mount sh -c 'mount -t proc -o hidepid=2 proc /proc && cd / && exec "$@"' sh \
        "${launched[@]}" setpriv --reuid 65534 --regid 65534 --clear-groups "$ACCEL_RUN" /usr/bin/python3 -c "$(cat lingering.py)"
    [ "$output" = $'begun\ndone' ]
}

@test "a training that its script leaves behind goes on where the script has ended well, and else says why it does not" {
    lingering
    launched srun 2
    cat >script <<'END'
/usr/bin/python3 lingering.py >"out.$1.$ACCEL_RUN_RANK" 2>&1 &
echo $! >"pid.$1.$ACCEL_RUN_RANK"
until grep -q begun "out.$1.$ACCEL_RUN_RANK"; do sleep 0.1; done
[ "$1" != killed ] || kill -9 $$
exit "$1"
END
    behind() { # HOW: what the trainings say is in $output: they have its descriptor
        run "${launched[@]}" "$ACCEL_RUN" bash script "$1"
        wait_pids_gone "$(cat "pid.$1.0")" "$(cat "pid.$1.1")"
    }
    behind 0
    [ "$(cat out.0.*)" = $'begun\ndone\nbegun\ndone' ]
    lacks "$output" AR-
    behind 3
    [ "$(cat out.3.*)" = $'begun\nbegun' ]
    [ "$(grep -c "error AR-RANK-FAILED: rank . of 2 .* ended with exit code 3: srun has started it" <<<"$output")" -eq 1 ]
    behind killed
    [ "$(cat out.killed.*)" = $'begun\nbegun' ]
    [ "$(grep -c "error AR-RANK-KILLED: rank . of 2 .* was killed: srun has started it" <<<"$output")" -eq 1 ]
}

@test "nothing outlives the launcher" {
    launched srun 2
    spawn_bg "${launched[@]}" "$ACCEL_RUN" --log-level error sh -c 'echo $$ >pid.$ACCEL_RUN_RANK; exec sleep 300'
    await_files pid.0 pid.1
    retry 100 0.05 test -s pid.0
    retry 100 0.05 test -s pid.1
    if pid_is_alive "$bg_pid"; then kill -9 "$bg_pid"; fi
    wait_bg
    wait_pids_gone "$(cat pid.0)" "$(cat pid.1)"
}

@test "a program that does not train is named, once" {
    launched srun 2
    run -0 "${launched[@]}" "$ACCEL_RUN" true
    [ "$(grep -c AR-NO-TRAINING <<<"$output")" -eq 1 ]
}
