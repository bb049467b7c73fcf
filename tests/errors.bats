#!/usr/bin/env bats
# Every fault that can be known before the start: one message with a stable id and a cure, the right exit code, and nothing was started.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    launcher_setup_file
}

setup() {
    launcher_setup
    printf '#!/bin/sh\ntouch "%s/started"\n' "$T" >program && chmod +x program
}

# refused CODE ID argument...: accel-run says this one thing
refused() {
    local code=$1 id=$2
    shift 2
    run "-$code" --separate-stderr "$ACCEL_RUN" "$@"
    [ -z "$output" ] || { echo "on stdout: $output" >&2 && return 1; }
    [ "$(grep -c '^accel-run: error ' <<<"$stderr")" -eq 1 ] || { echo "not one error: $stderr" >&2 && return 1; }
    contains "$stderr" "accel-run: error $id: " || return 1
    grep -q '^  what to do: ..' <<<"$stderr" || { echo "no cure: $stderr" >&2 && return 1; }
    [ ! -e started ] || { echo "something was started: $*" >&2 && return 1; }
}

@test "a program that is not there: 127" {
    refused 127 AR-EXEC-NOT-FOUND -n 2 ./nowhere
    refused 127 AR-EXEC-NOT-FOUND -n 2 no-such-program-in-path
    refused 127 AR-EXEC-NOT-FOUND -n 2 ""
    refused 127 AR-EXEC-NOT-FOUND -n 2 ./program/below
    ln -s nowhere dangling
    refused 127 AR-EXEC-NOT-FOUND -n 2 ./dangling
    refused 125 AR-NO-PROGRAM -n 2
    refused 127 AR-EXEC-NOT-FOUND launch --num_processes 2 train.py
    contains "$stderr" "leave the word out: accel-run -n 4 train.py"
    refused 127 AR-EXEC-NOT-FOUND -n 2 explain ./train
    contains "$stderr" "a subcommand is the first word"
    refused 127 AR-EXEC-NOT-FOUND -n 2 test
    contains "$stderr" "a subcommand is the first word"
    refused 127 AR-EXEC-NOT-FOUND merge-weights here there
    contains "$stderr" "that is Accelerate's"
}

@test "a Python file that may not be read: 126, and a word that is nearly a subcommand is told which there are" {
    touch unreadable.py
    chmod 000 unreadable.py
    local ACCEL_RUN_HERE=$ACCEL_RUN
    if [ "$(id -u)" -eq 0 ]; then # root may read all
        printf '#!/bin/sh\nexec setpriv --bounding-set -dac_override,-dac_read_search %q "$@"\n' "$ACCEL_RUN_HERE" >as_user
        chmod +x as_user
        ACCEL_RUN=$PWD/as_user
    fi
    refused 126 AR-EXEC-NOT-EXECUTABLE -n 2 python3 unreadable.py
    contains "$stderr" "chmod +r"
    ACCEL_RUN=$ACCEL_RUN_HERE
    refused 127 AR-EXEC-NOT-FOUND -n 2 doctr
    contains "$stderr" "subcommands are config, doctor"
    refused 127 AR-EXEC-NOT-FOUND -n 2 "$(printf '%0200d' 0)"
    lacks "$stderr" "subcommands are"
}

@test "a file that cannot be executed: 126" {
    mkdir folder
    printf '\0\1\2\3' >rubbish
    printf '\177ELF\2\1\1 and nothing more' >broken
    cp program plain
    chmod +x rubbish broken
    chmod -x plain
    refused 126 AR-EXEC-DIRECTORY -n 2 ./folder
    refused 126 AR-EXEC-NOT-EXECUTABLE -n 2 ./plain
    refused 126 AR-EXEC-FORMAT -n 2 ./rubbish
    refused 126 AR-EXEC-FORMAT -n 2 ./broken
    # PATH has the name as such a file only: nothing of this folder is started in its place
    mkdir bin
    touch bin/in-path bin/rubbish-there
    printf '#!/bin/sh\ntouch started\n' >in-path
    chmod +x in-path
    PATH=$T/bin:$PATH refused 126 AR-EXEC-NOT-EXECUTABLE -n 2 in-path
    contains "$stderr" "'$T/bin/in-path' is not executable"
    PATH=$T/bin:$PATH refused 126 AR-EXEC-NOT-EXECUTABLE -n 2 rubbish-there
}

@test "a part of a program, an object file, a library: 126, by what it is" {
    head -c 64 /bin/true >header
    head -c 3000 /bin/true >part
    echo 'int f(void) { return 0; }' | gcc -c -x c - -o object
    echo 'int f(void) { return 0; }' | gcc -shared -fPIC -x c - -o library
    chmod +x header part object library
    refused 126 AR-EXEC-FORMAT -n 2 ./header
    contains "$stderr" "only a part of a program"
    refused 126 AR-EXEC-FORMAT -n 2 ./part
    contains "$stderr" "only a part of a program"
    refused 126 AR-EXEC-FORMAT -n 2 ./object
    contains "$stderr" "object file"
    refused 126 AR-EXEC-FORMAT -n 2 ./library
    contains "$stderr" "shared library"
}

@test "what a first line's env, or env itself, would start is looked for before: 127, 126" {
    printf '#!/usr/bin/env no-such-interpreter\n' >missing
    printf '#!/usr/bin/env -S A=1 no-such-interpreter -u\n' >splits
    printf '#!/usr/bin/env sh -e\n' >joined
    printf '#!/usr/bin/env\n' >itself
    printf '#!/bin/sh\r\n' >carriage
    printf '#!/usr/bin/env sh\r\n' >carriage_env
    printf '#!/usr/bin/env -S A=1 sh\necho "ran $A"\n' >right
    chmod +x missing splits joined itself carriage carriage_env right
    refused 127 AR-EXEC-INTERPRETER -n 2 ./missing
    contains "$stderr" "'./missing' needs 'no-such-interpreter', which is not in PATH"
    refused 127 AR-EXEC-INTERPRETER -n 2 ./splits
    refused 127 AR-EXEC-INTERPRETER -n 2 ./joined
    contains "$stderr" "write '#!/usr/bin/env -S sh -e'"
    refused 126 AR-EXEC-INTERPRETER -n 2 ./itself
    for file in carriage carriage_env; do
        refused 127 AR-EXEC-INTERPRETER -n 2 ./$file
        contains "$stderr" "ends with CR LF"
        contains "$stderr" "sed -i 's/\\r\$//' ./$file"
        run -1 "$ACCEL_RUN" doctor ./$file
        contains "$output" "AR-EXEC-INTERPRETER: the first line of './$file' ends with CR LF"
    done
    # an option of an interpreter that knows none with a CR is no run of two ranks that fail
    printf '#!/bin/sh -e\r\n' >option_sh
    printf '#!/usr/bin/python3 -u\r\n' >option_python
    printf '#!/usr/bin/env -S A=1 sh -e\r\ntrue\n' >option_env # env takes it for a blank
    chmod +x option_*
    for file in option_sh option_python; do
        refused 126 AR-EXEC-INTERPRETER -n 2 ./$file
        contains "$stderr" "ends with CR LF"
        run -1 "$ACCEL_RUN" doctor ./$file
        contains "$output" "AR-EXEC-INTERPRETER: the first line of './$file' ends with CR LF"
    done
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 ./option_env
    refused 127 AR-EXEC-NOT-FOUND -n 2 env A=1 ./nowhere
    refused 127 AR-EXEC-NOT-FOUND -n 2 env PATH=/nowhere true
    refused 127 AR-EXEC-INTERPRETER -n 2 env A=1 ./missing
    refused 127 AR-EXEC-NOT-FOUND -n 2 python3 -u nowhere.py
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 ./right
    [ "$output" = "ran 1" ]
    run -0 --separate-stderr env -u PATH "$ACCEL_RUN" -n 2 env PATH="$PATH" A=2 sh -c 'echo "ran $A"'
    [ "$output" = "ran 2" ]
}

@test "a failure names the script, not its interpreter" {
    echo 'raise SystemExit(3)' >train.py
    run -3 --separate-stderr "$ACCEL_RUN" -n 2 python3 -u train.py
    contains "$stderr" "every one of 2 ranks of 'train.py' ended with exit code 3"
}

@test "a program of another C library: 125, also behind a script; without its loader 127" {
    echo 'int main(void) { return 0; }' | gcc -x c - -o musl -Wl,--dynamic-linker="$T/ld-musl-x86_64.so.1"
    printf '#!%s\n' "$T/musl" >script
    chmod +x script
    refused 127 AR-EXEC-INTERPRETER -n 2 ./musl
    contains "$stderr" "'./musl' needs '$T/ld-musl-x86_64.so.1', which does not exist"
    cp "$(ldd /bin/true | grep -o '/lib[^ ]*/ld-linux[^ ]*')" ld-musl-x86_64.so.1
    ./musl
    refused 125 AR-ELF-MUSL -n 2 ./musl
    refused 125 AR-ELF-MUSL -n 2 ./script
}

@test "a script whose interpreter is missing or none: 127, 126" {
    printf '#!/no/such/interpreter\n' >missing
    printf '#!\n' >empty
    printf '#!/etc/passwd\n' >plain
    printf '#!./loop\n' >loop
    printf '#!/tmp\n' >folder
    chmod +x missing empty plain loop folder
    refused 127 AR-EXEC-INTERPRETER -n 2 ./missing
    refused 127 AR-EXEC-INTERPRETER -n 2 ./empty
    contains "$stderr" "the first line of './empty' names no interpreter"
    refused 126 AR-EXEC-INTERPRETER -n 2 ./plain
    refused 126 AR-EXEC-INTERPRETER -n 2 ./loop
    refused 126 AR-EXEC-INTERPRETER -n 2 ./folder
}

@test "a program into which no library can be put: static, with rights, of another machine" {
    echo 'int main(void) { return 0; }' | gcc -static -x c - -o static
    cp /bin/true rights && chmod u+s rights
    cp /bin/true other && printf '\267' | dd of=other bs=1 seek=18 conv=notrunc status=none # EM_AARCH64
    cp /bin/true small && printf '\1' | dd of=small bs=1 seek=4 conv=notrunc status=none    # ELFCLASS32
    refused 125 AR-ELF-STATIC -n 2 ./static
    refused 125 AR-ELF-SETUID -n 2 ./rights
    refused 126 AR-ELF-MACHINE -n 2 ./other
    refused 125 AR-ELF-MACHINE -n 2 ./small
}

@test "options and settings that are wrong: 125" {
    printf 'ranks: [\n' >bad.yaml
    printf 'ranks: many\n' >typed.yaml
    refused 125 AR-OPTION-UNKNOWN -n 2 --nonsense ./program
    refused 125 AR-OPTION-VALUE -n 0 ./program
    refused 125 AR-OPTION-VALUE -n 1000000 ./program
    refused 125 AR-OPTION-VALUE --stall-timeout soon ./program
    refused 125 AR-OPTION-VALUE --collective-timeout 0 ./program
    refused 125 AR-OPTION-VALUE --start-timeout 0.0001 ./program
    refused 125 AR-OPTION-VALUE --log-dir "" ./program
    refused 125 AR-OPTION-VALUE --config-file= ./program
    refused 125 AR-CONFIG --config-file bad.yaml ./program
    contains "$stderr" "bad.yaml:2:1"
    refused 125 AR-CONFIG --config-file typed.yaml ./program
    contains "$stderr" "typed.yaml:1:"
    refused 125 AR-CONFIG-FILE --config-file nowhere.yaml ./program
    refused 125 AR-CONFIG-FILE --config-file "$T" ./program
}

@test "a folder that cannot be written: 125" {
    touch file
    refused 125 AR-LOG-DIR -n 2 --log-dir file/below ./program
    refused 125 AR-LOG-DIR -n 2 --log-dir /proc/nowhere ./program
    if [ "$(id -u)" -ne 0 ]; then
        mkdir closed && chmod 500 closed
        refused 125 AR-LOG-DIR -n 2 --log-dir closed/below ./program
    fi
}

@test "a program with capabilities of its file, which is started without a preload, is refused by name: 125" {
    requires root
    cp /bin/true able
    # cap_net_raw, as setcap writes it (linux/capability.h)
    python3 -c 'import os, struct; os.setxattr("able", "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))' || skip "no capabilities of files here"
    refused 125 AR-ELF-CAPABILITIES -n 2 ./able
}

@test "an installation that is not whole: 125" {
    echo text >library.so
    cp "$ACCEL_RUN_SHIM" "a library.so"
    ACCEL_RUN_SHIM=/nowhere.so refused 125 AR-SHIM-MISSING -n 2 ./program
    ACCEL_RUN_SHIM=$T/library.so refused 125 AR-SHIM-MISSING -n 2 ./program
    ACCEL_RUN_SHIM="$T/a library.so" refused 125 AR-SHIM-PATH -n 2 ./program
}

@test "a Python file that cannot be executed is started by python3, with a notice; -m names a module; --no-python executes what is named" {
    mkdir -p pkg bin
    echo 'import sys; print("ran", sys.argv[1:], __name__)' | tee train.py pkg/train.py >named_otherwise
    export ACCEL_RUN_LOG_LEVEL=warn
    run -0 --separate-stderr "$ACCEL_RUN" train.py --epochs 3
    [ "$output" = "ran ['--epochs', '3'] __main__" ]
    contains "$stderr" "notice AR-PYTHON-FILE: train.py cannot be executed by itself: it is started as 'python3 train.py'"
    run -0 --separate-stderr "$ACCEL_RUN" -n 2 ./train.py x
    [ "$output" = "ran ['x'] __main__" ]
    run -0 --separate-stderr "$ACCEL_RUN" -m pkg.train --epochs 3
    [ "$output" = "ran ['--epochs', '3'] __main__" ]
    lacks "$stderr" AR-PYTHON-FILE
    run -0 "$ACCEL_RUN" -n 2 --module --dry-run pkg.train 1
    contains "$output" "argument            -m"
    run -0 --separate-stderr "$ACCEL_RUN" --run-path --no_python named_otherwise
    [ "$output" = "ran [] __main__" ]
    run -126 "$ACCEL_RUN" --no_python ./train.py
    contains "$output" AR-EXEC-NOT-EXECUTABLE
    run -125 "$ACCEL_RUN" --no_python -m pkg.train
    contains "$output" "AR-OPTION-CONTRADICTION: --module and --no-python"
    run -127 "$ACCEL_RUN" missing.py
    contains "$output" AR-EXEC-NOT-FOUND
    # without python3, python; without either, words; what has a first line of its own is executed
    run -127 env PATH="$T/bin" "$ACCEL_RUN" train.py
    contains "$output" "PATH has neither python3 nor python"
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" bin/python
    run -0 env PATH="$T/bin" "$ACCEL_RUN" --dry-run train.py
    contains "$output" "program             $T/bin/python"
    chmod +x train.py
    run -0 --separate-stderr "$ACCEL_RUN" ./train.py
    contains "$stderr" AR-PYTHON-FILE
    sed -i '1i #!/bin/echo' train.py
    run -0 --separate-stderr "$ACCEL_RUN" ./train.py
    [ "$output" = ./train.py ]
}

@test "more ranks than cores, and a program without libtorch, are warnings" {
    ACCEL_RUN_LOG_LEVEL=warn run -0 --separate-stderr taskset -c "$(processors 1)" "$ACCEL_RUN" -n 3 ./program
    contains "$stderr" "warning AR-CORES: 3 ranks share 1 core"
    contains "$stderr" "warning AR-NO-TRAINING"
    [ -e started ]
}
