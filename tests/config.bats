#!/usr/bin/env bats
# accel-run config: questions, and files written, renewed and converted.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    T=$BATS_TEST_TMPDIR
    export HOME=$T/home
    mkdir -p "$HOME"
    unset XDG_CONFIG_HOME XDG_CACHE_HOME HF_HOME
    cd "$T" || return 1
}

settings_of() { # FILE: without comments and empty lines
    grep -v -e '^#' -e '^$' "$1" || true
}

@test "config asks, takes numbers and words, goes back, explains, asks again, and writes a file that the next run reads" {
    #       place ranks back again help threads log_dir  level wrong seconds grace
    answers='1\n4\nb\n3\n?\n\nlogs of mine\n4\nsoon\n30\n\n'
    # shellcheck disable=SC2059
    run -0 bash -c 'printf "$2" | "$1" config' _ "$ACCEL_RUN" "$answers"
    contains "$output" "More threads than cores make every rank wait."
    contains "$output" "'soon' is not a number of seconds"
    contains "$output" "written: accel-run.yaml"
    diff <(settings_of accel-run.yaml) - <<'END'
ranks: 3
log_dir: "logs of mine"
log_level: debug
collective_timeout: 30
END
    run -0 "$ACCEL_RUN" --show-config
    contains "$output" "# accel-run.yaml:4"
    # what was said is the default the next time
    run -0 bash -c 'printf "\n\n\n\n\n\n7\n" | "$1" config' _ "$ACCEL_RUN"
    contains "$output" "[logs of mine] >"
    settings_of accel-run.yaml | grep -qx 'log_dir: "logs of mine"'
    settings_of accel-run.yaml | grep -qx 'grace: 7'
}

# in_terminal STEP... : accel-run config, played by tests/terminal; what it has shown is $output
in_terminal() {
    TERM=xterm run -0 "$REPOSITORY/tests/terminal" "$@" -- "$ACCEL_RUN" config
}

@test "in a terminal, lists are chosen from by arrow keys and numbers, and b or the left arrow goes back one question" {
    list='expect=then Enter' prompt='expect=] > '
    # place: down, up; ranks; back to the place, which is asked anew; ranks, threads, log_dir; level: left, log_dir again
    in_terminal "$list" raw 'send=\x1b[B\x1b[A\n' "$prompt" 'send=b\n' "$list" 'send=\n' "$prompt" 'send=4\n' "$prompt" 'send=\x1b[A\n' \
        'expect=Type the answer' "$prompt" 'send=\n' "$prompt" 'send=\n' "$list" raw 'send=\x1b[D' 'expect=own output' "$prompt" 'send=mine\n' \
        "$list" 'send=?' 'expect=warn is warnings' "$list" 'send=1\x1bOB\x1b[B\x1b[1;2B\n' "$prompt" 'send=7\n' "$prompt" 'send=\n' ended=0
    diff <(settings_of accel-run.yaml) <(printf 'ranks: 4\nlog_dir: "mine"\nlog_level: debug\ncollective_timeout: 7\n')
    # a terminal that cannot move its cursor gets numbers
    TERM=dumb run -0 "$REPOSITORY/tests/terminal" 'expect=[1] > ' 'send=\x04' ended=125 -- "$ACCEL_RUN" config
}

@test "in a narrow terminal no line of a list is longer than it: the way up would be wrong" {
    TERM=xterm run -0 "$REPOSITORY/tests/terminal" 'expect=Arrow keys or a num' raw 'send=\x1b[B' 'expect=Arrow keys or a num' 'send=\x04' ended=125 -- \
        bash -c 'stty cols 20; exec "$0" config' "$ACCEL_RUN"
    lacks "$output" "Arrow keys or a numb"
}

@test "the terminal is given back as it was: after Ctrl-C, Ctrl-D, signals, a crash, and while Ctrl-Z holds the questions" {
    ulimit -c 0
    in_terminal 'expect=then Enter' raw 'send=\x03' ended=-2
    in_terminal 'expect=then Enter' raw 'send=\x04' ended=125
    for signal in TERM:15 HUP:1 SEGV:11 ABRT:6; do
        in_terminal 'expect=then Enter' raw "signal=${signal%:*}" "ended=-${signal#*:}"
    done
    in_terminal 'expect=then Enter' raw 'send=\x1a' stopped continue raw 'expect=then Enter' 'send=\x1a' stopped continue raw 'expect=then Enter' \
        'send=\x1b[B\n' 'expect=] > ' 'send=\x03' ended=-2
    [ -z "$(find . -name '*.yaml*')" ]
}

@test "config says which keys nobody reads, before it writes the file without them" {
    printf 'rank: 3\ngrace: 5\n' >accel-run.yaml
    run -0 --separate-stderr bash -c 'printf "\n\n\n\n\n\n\n" | "$1" config' _ "$ACCEL_RUN"
    contains "$stderr" "accel-run: warning AR-CONFIG-KEY: accel-run.yaml:1: nobody reads the key 'rank'; did you mean 'ranks'?"
    settings_of accel-run.yaml | grep -qx 'grace: 5'
}

@test "answers that end too early write nothing" {
    run -125 bash -c 'printf "1\n4\n" | "$1" config' _ "$ACCEL_RUN"
    contains "$output" "AR-CONFIG-UNFINISHED"
    [ -z "$(find . -name "*.yaml*")" ]
}

@test "config leaves a file of Accelerate alone" {
    cp "$REPOSITORY/tests/config/accelerate-0.13.yaml" theirs.yaml
    run -125 bash -c 'printf "4\n\n\n\n\n\n" | "$1" config --config_file theirs.yaml' _ "$ACCEL_RUN"
    contains "$output" "AR-CONFIG-EXISTS"
    cmp theirs.yaml "$REPOSITORY/tests/config/accelerate-0.13.yaml"
}

@test "config default writes the machine's ranks for all runs, and replaces nothing unasked" {
    run -0 "$ACCEL_RUN" config default
    [ "$output" = "written: $HOME/.config/accel-run/config.yaml" ]
    [ "$(settings_of "$HOME/.config/accel-run/config.yaml" | wc -l)" -eq 1 ]
    run -0 "$ACCEL_RUN" --show-config
    [[ $output == *"ranks: "*"$HOME/.config/accel-run/config.yaml:4"* ]]
    echo 'ranks: 7' >"$HOME/.config/accel-run/config.yaml"
    run -125 "$ACCEL_RUN" config default
    contains "$output" "AR-CONFIG-EXISTS"
    [ "$(cat "$HOME/.config/accel-run/config.yaml")" = 'ranks: 7' ]
    run -0 "$ACCEL_RUN" config default --overwrite
    run -0 "$ACCEL_RUN" config default --config_file=here/new.yaml
    [ -e here/new.yaml ]
    run -125 "$ACCEL_RUN" config default --config_file /dev/null/x.yaml
    contains "$output" "AR-CONFIG-FILE"
}

@test "config update keeps what a file says; Accelerate's file becomes one of ours and stays as it is" {
    printf 'grace: 5 # mine\nranks: 3\n' >accel-run.yaml
    ACCEL_RUN_RANKS=8 run -0 "$ACCEL_RUN" config update
    diff <(settings_of accel-run.yaml) <(printf 'ranks: 3\ngrace: 5\n')
    rm accel-run.yaml
    mkdir -p "$HOME/.cache/huggingface/accelerate"
    file=$HOME/.cache/huggingface/accelerate/default_config.yaml
    cp "$REPOSITORY/tests/config/accelerate-0.34-fp8.yaml" "$file"
    run -125 "$ACCEL_RUN" config update # a file without what is refused would run, and do something else
    contains "$output" "refused AR-UNSUPPORTED: $file:19: mixed_precision: fp8"
    [ ! -e accel-run.yaml ]
    # of the variables it wants a few, wherever they stand
    run -0 env -i XDG_{A,B,C,D,E,F,G,H}=none "HOME=$HOME" "$ACCEL_RUN" config update --overwrite
    cmp "$file" "$REPOSITORY/tests/config/accelerate-0.34-fp8.yaml"
    [ "$(settings_of accel-run.yaml)" = "ranks: 2" ]
    rm accel-run.yaml "$file"
    run -125 "$ACCEL_RUN" config update
    contains "$output" "there is no file to update"
}

@test "config update without a file's name renews the one that a run would read: ACCEL_RUN_CONFIG_FILE's" {
    printf 'grace: 5\n' >named.yaml
    printf 'ranks: 3\n' >accel-run.yaml
    ACCEL_RUN_CONFIG_FILE=named.yaml run -0 "$ACCEL_RUN" config update
    [ "$output" = "written: named.yaml" ]
    grep -q '^# Settings of accel-run' named.yaml
    [ "$(cat accel-run.yaml)" = 'ranks: 3' ]
    ACCEL_RUN_CONFIG_FILE=none run -125 "$ACCEL_RUN" config update
    contains "$output" "there is no file to update"
}

@test "config update of a file that Accelerate's hosts share writes each host's ranks, and no file where they cannot be shared" {
    printf 'machine_rank: 0\nnum_processes: 8\nnum_machines: 2\n' >shared.yaml # as all of Accelerate's have it
    run -0 "$ACCEL_RUN" config update --config-file shared.yaml --output-file ours.yaml
    diff <(settings_of ours.yaml) <(printf 'ranks: 4\nnnodes: 2\n')
    run -0 "$ACCEL_RUN" --config-file ours.yaml --node-rank 1 --master-addr first --show-config
    printf 'num_processes: 7\nnum_machines: 2\n' >shared.yaml
    run -125 "$ACCEL_RUN" config update --config-file shared.yaml --output-file none.yaml --overwrite
    contains "$output" "AR-HOSTS-SETTINGS: shared.yaml:1:16: num_processes is 7 over all hosts, which 2 hosts cannot share evenly"
    printf 'ranks: 4\nnnodes: 2\nnode_rank: 2\n' >own.yaml
    run -125 "$ACCEL_RUN" config update --config-file own.yaml
    contains "$output" "AR-HOSTS-SETTINGS: own.yaml:3:12: --node-rank 2 is not below --nnodes 2"
    [ ! -e none.yaml ]
    [ "$(wc -l <own.yaml)" -eq 3 ]
}

@test "config to-fsdp2 converts a file of Accelerate as accelerate to-fsdp2 does, and keeps the rest" {
    cp "$REPOSITORY/tests/config/accelerate-0.24-fsdp.yaml" one.yaml
    run -0 "$ACCEL_RUN" config to-fsdp2 --config_file one.yaml
    contains "$output" "  fsdp_version: 2"
    contains "$output" "  fsdp_reshard_after_forward: true"
    contains "$output" "  fsdp_state_dict_type: SHARDED_STATE_DICT"
    for gone in backward_prefetch forward_prefetch sync_module_states use_orig_params sharding_strategy; do lacks "$output" $gone; done
    [ "$(diff one.yaml <(echo "$output") | grep -c '^<')" -eq 5 ]
    run -0 "$ACCEL_RUN" config to-fsdp2 --config_file one.yaml --output_file two.yaml
    run -125 "$ACCEL_RUN" config to-fsdp2 --config_file one.yaml --output_file two.yaml
    contains "$output" "AR-CONFIG-EXISTS"
    run -125 "$ACCEL_RUN" config to-fsdp2 --config_file two.yaml
    contains "$output" "version 2 already"
    sed -i 's/sharding_strategy: 4/reshard_after_forward: SHARD_GRAD_OP/' one.yaml
    run -0 "$ACCEL_RUN" config to-fsdp2 --config_file one.yaml --overwrite
    grep -qx '  fsdp_reshard_after_forward: false' one.yaml
    run -125 "$ACCEL_RUN" config to-fsdp2 --config_file "$REPOSITORY/tests/config/accelerate-0.13.yaml"
    contains "$output" "no fsdp_config"
}

@test "config to-fsdp2 leaves a file as it is that it cannot convert: in braces, behind an anchor, two keys in a line" {
    printf '{\n  "num_processes": 2,\n  "fsdp_config": {\n    "fsdp_sharding_strategy": 1,\n    "fsdp_use_orig_params": true\n  }\n}\n' >json.yaml
    printf 'fsdp_config: {\n  fsdp_sharding_strategy: 1,\n  fsdp_use_orig_params: true }\n' >braces.yaml
    printf 'deepspeed_config: &there\n  fsdp_sharding_strategy: 1\nfsdp_config: *there\n' >anchor.yaml
    printf 'fsdp_config:\n  fsdp_sharding_strategy: 1\n  ? fsdp_offload_params\n  : true\n' >question.yaml
    for file in json braces anchor question; do
        cp $file.yaml before
        run -125 --separate-stderr "$ACCEL_RUN" config to-fsdp2 --config-file $file.yaml
        [ -z "$output" ]
        run -125 "$ACCEL_RUN" config to-fsdp2 --config-file $file.yaml --overwrite
        contains "$output" "AR-CONFIG: $file.yaml: "
        case $file in json | braces) contains "$output" "in braces, as in JSON" ;; esac
        cmp $file.yaml before
    done
    [ "$(find . -name '*.part*')" = "" ]
}

@test "a file with keys of both is ours: config update writes it in its place, config says so before it asks" {
    printf 'num_processes: 2\ngrace: 5\n' >accel-run.yaml
    run -125 bash -c 'echo 1 | "$1" config' _ "$ACCEL_RUN"
    contains "$output" "accel-run.yaml has keys of Accelerate's beside those of accel-run"
    run -0 "$ACCEL_RUN" config update
    diff <(settings_of accel-run.yaml) <(printf 'ranks: 2\ngrace: 5\n')
}

@test "config default takes Accelerate's --mixed_precision, and refuses what is not there yet; env shows a file's settings" {
    run -0 "$ACCEL_RUN" config default --config_file a.yaml --mixed_precision no
    run -125 "$ACCEL_RUN" config default --config_file b.yaml --mixed_precision=bf16
    contains "$output" "AR-UNSUPPORTED: --mixed-precision bf16: mixed precision is not available yet"
    run -125 "$ACCEL_RUN" config default --config_file b.yaml --mixed-precision fp17
    contains "$output" "AR-OPTION-VALUE"
    [ ! -e b.yaml ]
    run -125 "$ACCEL_RUN" config update --mixed_precision no
    contains "$output" "AR-OPTION-UNKNOWN"
    printf 'ranks: 3\n' >c.yaml
    run -0 "$ACCEL_RUN" env --config_file c.yaml
    contains "$output" "ranks: 3"
}

@test "a file behind a link is written there; a pipe or a folder is not replaced; an option without its value says so" {
    printf 'ranks: 3\n' >real.yaml
    ln -s real.yaml link.yaml
    run -0 "$ACCEL_RUN" config update --config-file link.yaml
    [ -L link.yaml ]
    grep -q '^# Settings of accel-run' real.yaml
    mkfifo pipe
    mkdir folder
    for place in pipe folder; do # never a device of the machine: if this fails, it is gone
        run -125 "$ACCEL_RUN" config default --overwrite --output-file $place
        contains "$output" "AR-CONFIG-FILE: $place cannot be written: it is not a regular file"
    done
    [ -p pipe ]
    for arguments in "config --config-file" "config default --output_file=" "test --only rust" "test -n 0" "env --config-file"; do
        # shellcheck disable=SC2086
        run -125 "$ACCEL_RUN" $arguments
        contains "$output" "AR-OPTION-VALUE: 'accel-run ${arguments%% *} "
    done
}

@test "a file that is written anew belongs to whom it did, and is read by whom it was; a link to nothing stays one" {
    printf 'ranks: 3\n' >accel-run.yaml
    chmod 0600 accel-run.yaml
    run -0 "$ACCEL_RUN" config update
    [ "$(stat -c %a accel-run.yaml)" = 600 ]
    chmod 0664 accel-run.yaml
    run -0 "$ACCEL_RUN" config default --overwrite --output-file accel-run.yaml
    [ "$(stat -c %a accel-run.yaml)" = 664 ]
    (umask 027 && "$ACCEL_RUN" config default --output-file new.yaml)
    [ "$(stat -c %a new.yaml)" = 640 ]
    ln -s nowhere.yaml link.yaml
    run -125 "$ACCEL_RUN" config default --overwrite --output-file link.yaml
    contains "$output" "AR-CONFIG-FILE: link.yaml cannot be written: it is a link to what is not there"
    [ "$(readlink link.yaml)" = nowhere.yaml ]
    requires root
    requires command setpriv
    chown 1234:4321 accel-run.yaml
    run -0 "$ACCEL_RUN" config update
    [ "$(stat -c %u:%g:%a accel-run.yaml)" = 1234:4321:664 ]
    # who may not give it away, nor to that group: the group's rights are not another's
    chmod 0640 accel-run.yaml
    run -0 setpriv --bounding-set -chown "$ACCEL_RUN" config update
    [ "$(stat -c %u:%g:%a accel-run.yaml)" = 0:0:600 ]
}

@test "what config does not take is refused, and a program called config is started behind --" {
    run -125 "$ACCEL_RUN" config defualt
    contains "$output" "AR-OPTION-UNKNOWN"
    for words in "config --help" "config default --help" "config update --config-file x -h" "env --json --help" "test --only=python -h" "--help config"; do
        # shellcheck disable=SC2086
        run -0 "$ACCEL_RUN" $words
        contains "$output" "usage: accel-run "
    done
    run -0 "$ACCEL_RUN" env --config_file=/dev/null
    contains "$output" "/dev/null"
    run -0 "$ACCEL_RUN" --help
    contains "$output" "config "
}
