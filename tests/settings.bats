#!/usr/bin/env bats
# Where settings come from: options, the environment, configuration files of ours and of Accelerate's; and what becomes of other launchers' flags.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    launcher_setup_file
    unset ACCEL_RUN_LOG_LEVEL
}

setup() {
    launcher_setup
    unset XDG_CONFIG_HOME XDG_CACHE_HOME HF_HOME
    export HOME=$T/home
    mkdir -p "$HOME"
}

# value KEY: as --show-config has it in $output, with its origin
value() {
    sed -n "s/^$1: *//p" <<<"$output" | tr -s ' '
}

accelerates_file() { # FOLDER: lies where Accelerate looks
    mkdir -p "$1/accelerate"
    printf 'distributed_type: MULTI_CPU\nnum_processes: 3\nuse_cpu: true\n' >"$1/accelerate/default_config.yaml"
}

@test "show-config says where every value came from, and its output is a file that can be read" {
    printf 'ranks: 1\ngrace: 5\nstall_timeout: 6\nlog_dir: logs\n' >accel-run.yaml
    ACCEL_RUN_GRACE=7 ACCEL_RUN_STALL_TIMEOUT=8 run -0 --separate-stderr "$ACCEL_RUN" --stall-timeout 9 --show-config
    [ "$(value ranks)" = "1 # accel-run.yaml:1" ]
    [ "$(value grace)" = "7 # environment (ACCEL_RUN_GRACE)" ]
    [ "$(value stall_timeout)" = "9 # command line" ]
    [ "$(value collective_timeout)" = "300 # default" ]
    echo "$output" >kept.yaml
    run -0 --separate-stderr "$ACCEL_RUN" --config-file kept.yaml --show-config
    [ "$(value stall_timeout | cut -d' ' -f1)" = 9 ]
    [ -z "$stderr" ]
}

@test "one file is read: the one named, else of this directory, else the user's, else Accelerate's" {
    printf 'ranks: 2\n' >named.yaml
    printf 'ranks: 3\n' >accel-run.yaml
    mkdir -p "$HOME/.config/accel-run" xdg/accel-run
    printf 'ranks: 4\n' >"$HOME/.config/accel-run/config.yaml"
    printf 'ranks: 5\n' >xdg/accel-run/config.yaml
    run -0 "$ACCEL_RUN" --config_file named.yaml --show-config
    [ "$(value ranks)" = "2 # named.yaml:1" ]
    ACCEL_RUN_CONFIG_FILE=named.yaml run -0 "$ACCEL_RUN" --show-config
    [ "$(value ranks)" = "2 # named.yaml:1" ]
    run -0 "$ACCEL_RUN" --show-config
    [ "$(value ranks)" = "3 # accel-run.yaml:1" ]
    rm accel-run.yaml
    run -0 "$ACCEL_RUN" --show-config
    [ "$(value ranks)" = "4 # $HOME/.config/accel-run/config.yaml:1" ]
    XDG_CONFIG_HOME=$T/xdg run -0 "$ACCEL_RUN" --show-config
    [ "$(value ranks)" = "5 # $T/xdg/accel-run/config.yaml:1" ]
    run -0 "$ACCEL_RUN" --config-file none --show-config
    [ "$(value ranks)" = "1 # default" ]
}

@test "Accelerate's own file says how many ranks when nobody else does, and accel-run says so" {
    accelerates_file "$HOME/.cache/huggingface"
    run -0 --separate-stderr "$ACCEL_RUN" --show-config
    [ "$(value ranks)" = "3 # $HOME/.cache/huggingface/accelerate/default_config.yaml:2" ]
    contains "$stderr" "notice AR-ACCELERATE-FILE"
    accelerates_file xdg/huggingface
    XDG_CACHE_HOME=$T/xdg run -0 "$ACCEL_RUN" --show-config
    contains "$(value ranks)" "$T/xdg/huggingface/"
    accelerates_file hf
    XDG_CACHE_HOME=$T/xdg HF_HOME=$T/hf run -0 "$ACCEL_RUN" --show-config
    contains "$(value ranks)" "$T/hf/accelerate/"
}

@test "Accelerate's own file changes nothing once somebody has said how many ranks, even one that is not YAML" {
    accelerates_file "$HOME/.cache/huggingface"
    echo "'" >>"$HOME/.cache/huggingface/accelerate/default_config.yaml"
    printf 'ranks: 2\n' >own.yaml
    for way in "-n 2" "--num_processes 2" "--config-file own.yaml"; do
        # shellcheck disable=SC2086
        run -0 --separate-stderr "$ACCEL_RUN" $way --show-config
        [ "$(value ranks | cut -d' ' -f1)" = 2 ]
        [ -z "$stderr" ]
    done
    ACCEL_RUN_RANKS=2 run -0 --separate-stderr "$ACCEL_RUN" --show-config
    [ -z "$stderr" ]
    run -0 --separate-stderr "$ACCEL_RUN" --cpu --show-config
    [ "$(value ranks)" = "1 # default" ]
    # shellcheck disable=SC2016
    run -0 --separate-stderr "$ACCEL_RUN" --cpu sh -c 'echo "$ACCELERATE_USE_CPU"' # as accelerate launch has it
    [ "$output" = true ]
    for answer in true false; do
        printf 'num_processes: 2\nuse_cpu: %s\n' "$answer" >cpu.yaml
        # shellcheck disable=SC2016
        run -0 --separate-stderr "$ACCEL_RUN" --config-file cpu.yaml sh -c 'echo "is ${ACCELERATE_USE_CPU-unset}"'
        contains "$output" "is $([ "$answer" = true ] && echo true || echo unset)"
    done
    run -125 "$ACCEL_RUN" --show-config
    contains "$output" "AR-CONFIG:"
}

@test "what a file asks for and is not there stops the run before it starts, line by line, unless it is allowed" {
    printf 'distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 2\n' >ds.yaml
    run -125 "$ACCEL_RUN" --config_file ds.yaml touch started
    [ "${lines[0]}" = "accel-run: refused AR-UNSUPPORTED: ds.yaml:1: distributed_type: DEEPSPEED: DeepSpeed is not available yet; without it the run is plain data parallel" ]
    [ "${lines[1]}" = "accel-run: notice AR-NO-EFFECT: ds.yaml:4: zero_stage: 2: no effect, as DeepSpeed is not available yet" ]
    contains "${lines[2]}" "error AR-UNSUPPORTED: 1 setting of another launcher cannot be carried out"
    contains "${lines[3]}" "--allow-unsupported"
    [ ! -e started ]
    run -0 "$ACCEL_RUN" --allow-unsupported --config_file ds.yaml touch started
    contains "$output" "warning AR-UNSUPPORTED: ds.yaml:1"
    [ -e started ]
}

@test "a file that is for another service says so, also where what it says of hosts cannot be followed" {
    printf 'compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: x\niam_role_name: y\nnum_machines: 2\n' >sm.yaml
    run -125 "$ACCEL_RUN" --config_file sm.yaml touch started
    contains "$output" "refused AR-UNSUPPORTED: sm.yaml:1: compute_environment: AMAZON_SAGEMAKER: SageMaker is not available"
    contains "$output" "AR-HOSTS-SETTINGS"
    [ ! -e started ]
}

@test "a command line of accelerate launch or torchrun works, or is refused by name" {
    run -0 --separate-stderr "$ACCEL_RUN" --num_processes 2 --num_machines 1 --mixed_precision no --multi_gpu --log_level warn --dry-run true
    contains "$output" "ranks               2"
    contains "$stderr" "notice AR-NO-EFFECT: --multi_gpu: "
    run -0 --separate-stderr "$ACCEL_RUN" --standalone --nnodes=1 --nproc-per-node=2 --dry-run true
    contains "$output" "ranks               2"
    [ -z "$stderr" ]
    run -125 "$ACCEL_RUN" --num_processes 2 --use_megatron_lm touch started
    contains "$output" "refused AR-UNSUPPORTED: --use_megatron_lm: Megatron-LM"
    run -125 "$ACCEL_RUN" --tpu -q touch started
    contains "$output" "--tpu: TPUs are not available"
    [ ! -e started ]
    run -0 --separate-stderr "$ACCEL_RUN" -q --num_processes 2 --multi_gpu --dry-run true
    [ -z "$stderr" ]
    run -125 "$ACCEL_RUN" -n 2 --num_processes 4 touch started
    contains "$output" "AR-OPTION-CONTRADICTION: -n and --num_processes both set --ranks, to '2' and to '4'"
    # a key of somebody's account is not repeated
    run -125 "$ACCEL_RUN" --aws_secret_access_key hidden true
    lacks "$output" hidden
}

@test "every option of the torchrun that is installed is known, with and without a value as there" {
    requires file "$BUILD/venv/bin/torchrun"
    "$BUILD/venv/bin/python" - >options <<'END'
from torch.distributed.run import get_args_parser
for action in get_args_parser()._actions:
    for name in action.option_strings:
        value = "" if action.nargs == 0 else (action.choices or ["7"])[-1]
        if name not in ("-h", "--help"):
            print(name, value)
END
    [ "$(wc -l <options)" -ge 40 ]
    while read -r name value; do
        run -0 "$ACCEL_RUN" "$name" ${value:+"$value"} --version
        [[ ${lines[-1]} == "accel-run "* ]]
        # torchrun reads each flag from a variable, too: none is passed over, but what is so already, and where the first of several hosts is
        [[ $name == --*_* || $name == -? || $name == --standalone || $name == --master-* || $name == --rdzv-endpoint ]] && continue
        variable=${name#--}
        variable=PET_${variable//-/_}
        run env "${variable^^}=${value:-1}" "$ACCEL_RUN" -n 2 --show-config
        contains "$output" PET_
    done <options
}

@test "variables of Accelerate are its programs' own: accel-run says that it does not read them" {
    run -0 --separate-stderr env ACCELERATE_MIXED_PRECISION=no ACCELERATE_USE_CPU=true ACCELERATE_DYNAMO_BACKEND=NO PET_MODULE=0 "$ACCEL_RUN" --dry-run true
    [ -z "$stderr" ]
    for variable in ACCELERATE_MIXED_PRECISION=bf16 ACCELERATE_USE_FSDP=true ACCELERATE_DYNAMO_BACKEND=INDUCTOR ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4; do
        run -0 --separate-stderr env "$variable" "$ACCEL_RUN" --dry-run true
        contains "$stderr" "notice AR-NO-EFFECT: $variable: accel-run does not read it"
    done
}

@test "a file that is missing, malformed or contradictory is said with its place, and nothing is started" {
    run -125 "$ACCEL_RUN" --config-file missing.yaml touch started
    contains "$output" "AR-CONFIG-FILE"
    printf 'ranks: 2\ngrace: soon\n' >wrong.yaml
    run -125 "$ACCEL_RUN" --config-file wrong.yaml touch started
    contains "$output" "AR-CONFIG: wrong.yaml:2:8: grace: 'soon' is not a number of seconds"
    printf 'ranks: "2\n' >open.yaml
    run -125 "$ACCEL_RUN" --config-file open.yaml touch started
    contains "$output" "AR-CONFIG: open.yaml:"
    run -125 "$ACCEL_RUN" --config-file . touch started
    contains "$output" "AR-CONFIG-FILE"
    [ ! -e started ]
    printf 'rank: 2\n' >unknown.yaml
    run -0 "$ACCEL_RUN" --config-file unknown.yaml true
    contains "$output" "warning AR-CONFIG-KEY: unknown.yaml:1: nobody reads the key 'rank'; did you mean 'ranks'?"
}

@test "contradictions of our own keys have line and column; a key with '-' is told its name; a file that cannot be read says where it is named" {
    printf 'ranks: 2\nnnodes: 2\nnode_rank: 3\n' >hosts.yaml
    run -125 "$ACCEL_RUN" --config-file hosts.yaml true
    contains "$output" "AR-HOSTS-SETTINGS: hosts.yaml:3:12: --node-rank 3 is not below --nnodes 2"
    run -125 "$ACCEL_RUN" --config-file hosts.yaml --node-rank 0 true
    contains "$output" "AR-HOSTS-SETTINGS: hosts.yaml:2:9: --nnodes 2 needs --master-addr"
    printf 'no-shard-loading: true\nconfig-file: x\n' >dash.yaml
    run -0 "$ACCEL_RUN" --config-file dash.yaml true
    contains "$output" "dash.yaml:1: nobody reads the key 'no-shard-loading'; did you mean 'no_shard_loading'?"
    contains "$output" "dash.yaml:2: nobody reads the key 'config-file'; it is for the command line only"
    printf 'deepspeed_config:\n  zero_stage: 9\n' >stage.yaml
    run -125 "$ACCEL_RUN" --config-file stage.yaml true
    contains "$output" "AR-CONFIG: stage.yaml:2:15: zero_stage: '9' is not one of 0, 1, 2, 3"
    printf 'ranks: 2\nengine: mpi\n' >engine.yaml
    run -125 "$ACCEL_RUN" --config-file engine.yaml true
    contains "$output" "AR-CONFIG: engine.yaml:2:9: engine: 'mpi' is not one of auto, none"
    printf 'log_dir: ~/logs\n' >home.yaml
    run -125 "$ACCEL_RUN" --config-file home.yaml true
    contains "$output" "AR-CONFIG: home.yaml:1:10: log_dir: '~/logs' is not a folder"
    mkdir accel-run.yaml
    run -125 "$ACCEL_RUN" true
    contains "$output" "what to do: correct the file, move it away, or read none"
}

@test "torchrun's --nproc-per-node auto is as many ranks as cores may be used, and says so" {
    run -0 --separate-stderr taskset -c "$(processors 1)" "$ACCEL_RUN" --nproc-per-node auto --dry-run true
    contains "$output" "ranks               1"
    contains "$stderr" "AR-RANKS-CORES: --nproc-per-node: 1 rank, as many as cores may be used"
    run -0 --separate-stderr "$ACCEL_RUN" --nproc_per_node cpu --show-config
    [ "$(value ranks | cut -d' ' -f1)" = "$("$ACCEL_RUN" --dry-run true | sed -n 's/^cores *//p')" ]
}

@test "threads are what --threads says, also where a variable says otherwise" {
    OMP_NUM_THREADS=7 run -0 "$ACCEL_RUN" -n 2 --threads 3 --dry-run true
    contains "$output" "threads per rank    3"
    contains "$output" "OMP_NUM_THREADS=3"
    OMP_NUM_THREADS=7 run -0 "$ACCEL_RUN" -n 2 --dry-run true
    contains "$output" "threads per rank    as your OMP_NUM_THREADS says"
}

@test "the shells' completions know every option, and bash completes with them" {
    for shell in bash zsh fish; do
        "$ACCEL_RUN" --completion $shell >"completion.$shell"
        for option in ranks config-file show-config stall-timeout; do
            grep -q -e "$option" "completion.$shell"
        done
    done
    run -125 "$ACCEL_RUN" --completion csh
    completed() { # WORD...: what bash offers for the last one
        bash -c 'source ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _accel_run; echo "${COMPREPLY[@]}"' _ "$@"
    }
    [ "$(completed accel-run --show)" = --show-config ]
    [ "$(completed accel-run --log-level d)" = debug ]
    touch only-file
    [ "$(completed accel-run --config-file only)" = only-file ]
    [ "$(completed accel-run -n 2 python only)" = only-file ]
    [ "$(completed accel-run -n 2 python --show)" = "" ]
    contains " $(completed accel-run "") " " doctor "
    # a subcommand has options of its own, and its verbs; of explain a run's, too
    [ "$(completed accel-run doctor --r)" = --rows ]
    [ "$(completed accel-run doctor --ranks)" = "" ]
    [ "$(completed accel-run doctor --json only)" = only-file ]
    [ "$(completed accel-run explain --ste)" = --steps ]
    [ "$(completed accel-run explain --steps 3 --show)" = --show-config ]
    [ "$(completed accel-run explain --steps 3 only)" = only-file ]
    [ "$(completed accel-run config up)" = update ]
    [ "$(completed accel-run config default --mixed-precision b)" = bf16 ]
    [ "$(completed accel-run test --only py)" = python ]
    lacks " $(completed accel-run -n 2 doc) " " doctor "
    # '=' and ':' are words of their own to bash
    [ "$(completed accel-run --bind = c)" = "core cache" ]
    [ "$(completed accel-run --engine n)" = none ]
    [ "$(completed accel-run --log-level =)" = "error warn info debug" ]
    [ "$(completed accel-run --bind = core --show)" = --show-config ]
    [ "$(completed accel-run --master-addr h : 29500 --show)" = --show-config ]
    [ "$(completed accel-run --help fl)" = flags ]
}

@test "bash completes paths as it does elsewhere: a folder's slash, a blank's backslash; a subcommand stays a word" {
    "$ACCEL_RUN" --completion bash >completion.bash
    mkdir runs "my folder" config
    touch "my file.yaml"
    printf '%s\n' ". ./completion.bash" "accel-run() { printf '<%s>' \"\$@\"; }" "PS1='\$ '" >rc.bash
    completes() { # TYPED WORDS
        TERM=dumb run -0 "$REPOSITORY/tests/terminal" 'expect=$ ' "send=accel-run $1\\t" "send=\\r" "expect=$2" 'send=exit\r' ended=0 -- bash --noprofile --rcfile rc.bash -i
    }
    completes "--log-dir ru" "<--log-dir><runs/>"
    completes "--log-dir my" "<--log-dir><my folder/>"
    completes "--log-dir=ru" "<--log-dir=runs/>"
    completes "--config-file my\\\\ fi" "<--config-file><my file.yaml>"
    completes "-n 2 my\\\\ fi" "<-n><2><my file.yaml>"
    completes "-- true ru" "<--><true><runs/>"
    completes "config" "<config>"
}

@test "fish completes with them: options, values, subcommands, and nothing of ours behind the program" {
    requires command fish
    "$ACCEL_RUN" --completion fish >completion.fish
    fish -n completion.fish
    touch only-file
    offered() { # LINE: the first that is offered
        fish --no-config -c 'source completion.fish; complete -C "$argv"' "$1" | cut -f 1 | head -1
    }
    [ "$(offered "accel-run --ra")" = --ranks ]
    [ "$(offered "accel-run --bind=ca")" = --bind=cache ]
    [ "$(offered "accel-run --help fl")" = flags ]
    [ "$(offered "accel-run doctor --ro")" = --rows ]
    [ "$(offered "accel-run config u")" = update ]
    [ "$(offered "accel-run explain --ste")" = --steps ]
    [ "$(offered "accel-run -n 2 true only")" = only-file ]
    for line in "accel-run -n 2 true --sho" "accel-run -- true --sho" "accel-run doctor true --ro" "accel-run explain --steps 3 true --sho"; do
        [ -z "$(offered "$line")" ]
    done
}

@test "zsh completes with them, from a file in its path and where they are sourced" {
    requires command zsh
    mkdir functions
    "$ACCEL_RUN" --completion zsh >functions/_accel-run
    zsh -n functions/_accel-run
    for way in 'fpath=(functions $fpath); autoload -U compinit; compinit -u -D' 'autoload -U compinit; compinit -u -D; . functions/_accel-run'; do
        # what is typed comes back as an echo, what is expected is not in it
        TERM=dumb run -0 "$REPOSITORY/tests/terminal" "send=$way; print READ''Y\\n" expect=READY 'send=accel-run --ra\t' expect=nks= 'send=2 --bi\t' expect=nd= \
            'send=ca\t' expect=che 'send=\x15accel-run config up\t' expect=date 'send=\x15exit 0\n' ended=0 -- zsh -f -i
    done
}

@test "every option that a shell completes for a subcommand is one that it takes, and its --help names" {
    "$ACCEL_RUN" --completion fish >completion.fish
    for option in doctor.--json doctor.--rows doctor.--module config.--overwrite env.--json; do
        grep -q "__accel_run_at ${option%.*}[';].* -l ${option#*.--}" completion.fish
        contains "$("$ACCEL_RUN" "${option%.*}" --help)" "  ${option#*.} "
    done
    sed -n "s/.*__accel_run_at \([a-z]*\)[';].* -\([ls]\) \([a-z0-9-]*\).*/\1 \2 \3/p" completion.fish >listed
    [ "$(wc -l <listed)" -ge 14 ]
    while read -r command kind name; do
        words=("$([ "$kind" = l ] && printf -- --%s "$name" || printf -- -%s "$name")")
        case $name in json | rows | module | overwrite) ;; only) words+=(python) ;; *) words+=(2) ;; esac
        [ "$name" != mixed-precision ] || words=(default "${words[@]}")
        [ "$command" != explain ] || continue
        # with a second option that nobody takes: that one is refused, not this
        run -125 "$ACCEL_RUN" "$command" "${words[@]}" --nobody-takes-this
        contains "$output" "does not take '--nobody-takes-this'"
    done <listed
}

@test "--help takes a topic or a subcommand, and refuses another word; a program's command line is shown the help" {
    run -0 "$ACCEL_RUN" --help doctor
    contains "$output" "usage: accel-run doctor"
    run -0 "$ACCEL_RUN" --help flags
    run -125 "$ACCEL_RUN" --help bogus
    contains "$output" "AR-OPTION-VALUE: --help: 'bogus' is not a topic of the help (all, flags, brief), nor a subcommand"
    run -0 "$ACCEL_RUN" --help ./train
    run -0 "$ACCEL_RUN" -n 2 --help train.py
    run -0 "$ACCEL_RUN" --help train --epochs 3
}

@test "the lists of options in the manual pages are those of the table" {
    "$REPOSITORY/tests/docs-lists" "$ACCEL_RUN" "$REPOSITORY"/docs/accel-run.1.md "$REPOSITORY"/docs/accel-run.yaml.5.md ||
        { echo "tests/docs-lists --write $ACCEL_RUN docs/accel-run*.md writes them" >&2 && return 1; }
}

@test "make install puts binaries, completions and manual pages where they are looked for, and uninstall takes them away" {
    requires command pandoc
    make -s -C "$REPOSITORY" O="$BUILD" install DESTDIR="$T/root" PREFIX=/usr >/dev/null
    [ "$("$T/root/usr/bin/accel-run" --version)" = "$("$ACCEL_RUN" --version)" ]
    for file in lib/accel-run/libaccelshim.so share/bash-completion/completions/accel-run share/zsh/site-functions/_accel-run \
        share/fish/vendor_completions.d/accel-run.fish; do
        [ -s "$T/root/usr/$file" ]
    done
    grep -q 'stall' "$T/root/usr/share/man/man1/accel-run.1"
    grep -q 'stall' "$T/root/usr/share/man/man5/accel-run.yaml.5"
    # two hyphens stay two: pandoc would make one dash of them
    run ! grep -hE -- '\\\[e[mn]\]|\\\(e[mn]|–|—' "$T/root/usr/share/man/man1/accel-run.1" "$T/root/usr/share/man/man5/accel-run.yaml.5"
    make -s -C "$REPOSITORY" O="$BUILD" uninstall DESTDIR="$T/root" PREFIX=/usr >/dev/null
    [ -z "$(find "$T/root" -type f -o -name accel-run)" ]
}

@test "the first of several hosts may be named by its 0 in Accelerate's file; a host's number without their count is no one-host run" {
    cd "$T" || return 1
    printf 'num_processes: 4\nnum_machines: 2\nmachine_rank: 0\nmain_process_ip: 10.0.0.1\n' >first.yaml
    run -0 "$ACCEL_RUN" --config_file first.yaml --show-config
    contains "$output" "node_rank: 0"
    run -125 "$ACCEL_RUN" --node-rank 1 --master-addr 10.0.0.1 -n 2 true
    contains "$output" AR-HOSTS-SETTINGS
}

@test "variables of Kubeflow that cannot be followed are refused: each host would train alone" {
    for variables in "PET_NNODES=2 PET_NODE_RANK=0 PET_NPROC_PER_NODE=2" "PET_NNODES=1:2 PET_NPROC_PER_NODE=2" \
        "PET_NNODES=2 PET_RDZV_ENDPOINT=a:1 PET_NPROC_PER_NODE=1" "PET_NNODES=1 PET_NPROC_PER_NODE=gpu"; do
        # shellcheck disable=SC2086
        run -125 env $variables "$ACCEL_RUN" true
        contains "$output" AR-ENGINE-HOSTS
    done
    run -0 env PET_NNODES=1 PET_NPROC_PER_NODE=gpu "$ACCEL_RUN" -n 2 true
    for word in auto cpu; do
        run -0 --separate-stderr taskset -c "$(processors 1)" env PET_NNODES=1 PET_NPROC_PER_NODE=$word "$ACCEL_RUN" --dry-run true
        contains "$output" "ranks               1"
        contains "$stderr" "AR-RANKS-CORES: PET_NPROC_PER_NODE: 1 rank, as many as cores may be used"
    done
}
