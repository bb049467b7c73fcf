#!/usr/bin/env bats
# `accel-run doctor` and `accel-run env`: what they find, and that each fault is named with its cure.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup() {
    unset ACCEL_RUN_SHIM ACCEL_RUN_LOG_LEVEL
    T=$BATS_TEST_TMPDIR
    cd "$T" || return 1
}

# whole_torch [WITHOUT]: libraries that define everything that accel-run hooks or calls, but for one symbol; and ./program
whole_torch() {
    every_symbol >all.def
    fake_torch all.def "$@"
}

# finding STATE CHECK TEXT...: one line of $output has them all
finding() {
    local line text
    line=$(grep -E "^$1  $2 " <<<"$output") || { printf 'no %s %s in:\n%s\n' "$1" "$2" "$output" >&2 && return 1; }
    for text in "${@:3}"; do contains "$line" "$text" || return 1; done
}

@test "a program that works passes every check, with its libtorch, its build and two live ranks" {
    for build in $(builds); do
        requires file "$BUILD/programs/$build/l2"
        run -0 "$ACCEL_RUN" doctor "$BUILD/programs/$build/l2" --lr 1
        lacks "$output" FAIL
        finding PASS program "64-bit, dynamically linked"
        finding PASS libtorch libtorch_cpu.so
        finding PASS build PLT
        finding PASS hooks "all that are required are there"
        finding PASS ranks "exchange verified: 4 MiB summed over 2 ranks"
    done
    python=$(python_of debian)
    [ -z "${MATRIX_BUILD-}" ] || return 0
    touch train.py
    run -0 "$ACCEL_RUN" doctor "$python" -u train.py
    finding PASS python "Python 3" "torch 1.13"
    PATH=/usr/bin:/bin run -0 "$ACCEL_RUN" doctor train.py
    finding PASS python "Python 3" "torch 1.13"
    PATH=/usr/bin:/bin run -0 "$ACCEL_RUN" doctor -m train
    finding PASS python "Python 3" "torch 1.13"
    run -1 "$ACCEL_RUN" doctor "$python" nowhere.py
    finding FAIL program AR-EXEC-NOT-FOUND nowhere.py
}

@test "the rows of the hook table are listed, as JSON with how each is bound" {
    whole_torch
    run -0 --separate-stderr "$ACCEL_RUN" doctor --json ./program
    python3 - "$output" <<'END'
import json, sys
said = json.loads(sys.argv[1])
assert said["ok"] is True and said["libtorch"].endswith("/libtorch_cpu.so"), said
rows = {(row["kind"], row["name"]): row for row in said["functions"]}
assert rows["hooked", "set_requires_grad"]["bound"] == "by name", rows["hooked", "set_requires_grad"]
assert rows["hooked", "engine_execute"]["need"] == "required"
assert rows["hooked", "engine_execute"]["bound"] == "by other files only"
assert rows["called", "dispatcher"]["bound"] == "present"
assert all(finding["state"] in ("PASS", "WARN") for finding in said["findings"])
END
    run -0 "$ACCEL_RUN" doctor --rows ./program
    contains "$output" "set_requires_grad                    libc10           required  by name"
}

@test "a libtorch that is bound to itself is told from one that is not" {
    whole_torch
    for library in "-Wl,-Bsymbolic-functions bound to itself" "-Wl,-O1 PLT"; do
        gcc -shared -fPIC -DSTUBS="\"$T/stubs.def\"" "${library%% *}" -o libtorch_cpu.so "$REPOSITORY/tests/fake/libfaketorch.c" \
            -x c - <<'END'
void run(void) __asm__("_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE");
void *table[] = {(void *)run};
END
        run -0 "$ACCEL_RUN" doctor ./program
        finding PASS build "${library#* }"
    done
}

@test "a libtorch that lacks what accel-run hooks or calls fails, by name" {
    whole_torch _ZN5torch8autograd14AccumulateGradC1EN2at6TensorE
    run -1 "$ACCEL_RUN" doctor ./program
    finding FAIL hooks AR-TORCH-UNSUPPORTED accumulate_grad_complete
    whole_torch _ZN3c1010Dispatcher13realSingletonEv
    run -1 "$ACCEL_RUN" doctor ./program
    finding FAIL functions AR-TORCH-UNSUPPORTED dispatcher
    [ "$(grep -c ^FAIL <<<"$output")" -eq 1 ]
}

@test "a program that cannot be divided fails with the message that a run would give" {
    run -1 "$ACCEL_RUN" doctor ./nowhere
    finding FAIL program AR-EXEC-NOT-FOUND
    touch not-executable
    run -1 "$ACCEL_RUN" doctor ./not-executable
    finding FAIL program AR-EXEC-NOT-EXECUTABLE
    printf '#!/no/such/interpreter\n' >script && chmod +x script
    run -1 "$ACCEL_RUN" doctor ./script
    finding FAIL program AR-EXEC-INTERPRETER
    echo 'int main(void) { return 0; }' | gcc -static -x c - -o static
    run -1 "$ACCEL_RUN" doctor ./static
    finding FAIL program AR-ELF-STATIC
    cp /bin/true rights && chmod u+s rights
    run -1 "$ACCEL_RUN" doctor ./rights
    finding FAIL program AR-ELF-SETUID
    contains "$output" "what to do: start accel-run inside"
}

@test "a program that is not there is a finding as JSON, too, wherever --json stands" {
    for arguments in "--json ./nowhere --epochs 3" "./nowhere --epochs 3 --json"; do
        # shellcheck disable=SC2086
        run -1 --separate-stderr "$ACCEL_RUN" doctor $arguments
        python3 -c 'import json, sys; assert [f["id"] for f in json.loads(sys.argv[1])["findings"] if f["state"] == "FAIL"] == ["AR-EXEC-NOT-FOUND"]' "$output"
    done
    run -1 "$ACCEL_RUN" doctor -- ./nowhere --json
    finding FAIL program AR-EXEC-NOT-FOUND
}

@test "a program without libtorch is warned about, and one without its libraries fails" {
    run -0 "$ACCEL_RUN" doctor true
    finding WARN libtorch AR-TORCH-MISSING
    echo 'int other(void) { return 0; }' | gcc -shared -fPIC -x c - -o libaccelmissing.so
    echo 'int main(void) { return 0; }' | gcc -x c - -x none -o program -L. -Wl,--no-as-needed -laccelmissing
    run -1 "$ACCEL_RUN" doctor ./program
    finding FAIL libraries AR-LIBRARY libaccelmissing.so
}

@test "a script leads to its interpreter, and a Python without torch fails" {
    printf '#!/usr/bin/env -S python3 -u\n' >train.py && chmod +x train.py
    mkdir bin && ln -s "$(command -v python3)" bin/python3
    printf '#!/bin/sh\nexec "%s" -S "$@"\n' "$(command -v python3)" >bin/python3.own && chmod +x bin/python3.own
    mv bin/python3.own bin/python3
    PATH=$T/bin:$PATH run -1 "$ACCEL_RUN" doctor ./train.py
    finding PASS program "./train.py, a script of /usr/bin/env"
    finding FAIL python AR-TORCH-MISSING "has no package torch"
    printf '#!/bin/sh\necho broken >&2; exit 3\n' >bin/python3
    PATH=$T/bin:$PATH run -1 "$ACCEL_RUN" doctor ./train.py
    finding FAIL python AR-PYTHON broken
}

@test "a sanitizer is named" {
    echo 'int main(void) { return 0; }' | gcc -fsanitize=address -x c - -o a || skip "no libasan"
    run -0 "$ACCEL_RUN" doctor ./a
    finding PASS program "built with libasan.so"
}

@test "a program of which libstdc++ is a part is warned about, also when it is run, where there are several ranks" {
    printf '#include <random>\nint main() { return std::random_device()() == 0; }\n' >draw.cpp
    g++ -o other draw.cpp
    run "$ACCEL_RUN" doctor ./other
    lacks "$output" AR-ELF-LIBSTDCXX
    g++ -static-libstdc++ -o own draw.cpp
    run "$ACCEL_RUN" doctor ./own
    finding WARN program AR-ELF-LIBSTDCXX "'./own'" "std::random_device"
    run -0 "$ACCEL_RUN" -n 2 ./own
    contains "$output" "warning AR-ELF-LIBSTDCXX: "
    run -0 "$ACCEL_RUN" -n 1 ./own
    lacks "$output" AR-ELF-LIBSTDCXX
}

@test "the exchange is tried by itself, also in a pod whose variables ask for other hosts" {
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 run "$ACCEL_RUN" doctor
    finding PASS ranks "exchange verified: 4 MiB summed over 2 ranks"
}

@test "ranks that do not exchange fail, and so does a missing library of ours" {
    FAKE=$BUILD/fake
    mkdir -p "$FAKE"
    build_fake shim_stub.so -shared -fPIC shim_stub.c
    ACCEL_RUN_SHIM=$FAKE/shim_stub.so run -1 "$ACCEL_RUN" doctor
    finding FAIL ranks AR-EXCHANGE
    ACCEL_RUN_SHIM=/nowhere.so run -1 "$ACCEL_RUN" doctor
    finding FAIL installation AR-SHIM-MISSING
}

@test "GPUs are named, and whether each can read the others' memory; here they are files in a mount of our own" {
    requires root
    unshare -m mount -t tmpfs none /proc/driver || skip "needs the right to mount"
    printf '#!/bin/sh\n[ "$*" = "topo -p2p r" ] && printf " \\tGPU0\\tGPU1\\t\\n GPU0\\tX\\t%%s\\t\\n GPU1\\t%%s\\tX\\t\\n" $CELL $CELL\n' >nvidia-smi
    chmod +x nvidia-smi
    # shellcheck disable=SC2016
    two_gpus='mount -t tmpfs none /proc/driver; for gpu in 1 2; do mkdir -p /proc/driver/nvidia/gpus/$gpu; echo "Model: NVIDIA H100" >/proc/driver/nvidia/gpus/$gpu/information; done
        exec "$0" doctor'
    for case in "OK every GPU can read every other one's memory" "CNS 2 of 2 pairs of GPUs cannot read each other's memory (GPU1 from GPU0: CNS)" " not known"; do
        run -0 env CELL="${case%% *}" PATH="$T:$PATH" unshare -m sh -c "$two_gpus" "$ACCEL_RUN"
        contains "$output" "AR-DEVICE: 2: NVIDIA H100, NVIDIA H100"
        [[ $output == *"peer access"*"${case#* }"* ]]
    done
}

@test "little shared memory, which loaders with workers need, is said" {
    requires mount
    run -0 unshare -m sh -c 'mount -t tmpfs -o size=1m none /dev/shm; exec "$0" doctor' "$ACCEL_RUN"
    finding WARN /dev/shm AR-SHM
}

@test "the doctor uses what the user's environment says, but for his settings of a run" {
    ACCEL_RUN_RANKS=7 ACCEL_RUN_LOG_LEVEL=error ACCEL_RUN_LOG_DIR=$T/logs run -0 "$ACCEL_RUN" doctor
    finding PASS ranks "over 2 ranks"
    [ ! -e logs ]
}

@test "env prints what a report needs, as text and as JSON" {
    OMP_NUM_THREADS=3 ACCEL_RUN_COOKIE=secret run -0 --separate-stderr "$ACCEL_RUN" env
    for name in accel-run "built with" library system kernel glibc processor cores memory "open files" "gpu driver" c++; do
        grep -q "^$name " <<<"$output" || { echo "no $name in: $output" >&2 && return 1; }
    done
    contains "$output" "$BUILD/libaccelshim.so"
    grep -Eqi '^built with +.*(gcc|clang).* [0-9]+\.[0-9]' <<<"$output"
    grep -Eq '^variable OMP_NUM_THREADS +3$' <<<"$output"
    lacks "$output" secret
    grep -Eq '^setting +ranks: 3 .*environment' <<<"$(ACCEL_RUN_RANKS=3 "$ACCEL_RUN" env)"
    run -0 --separate-stderr "$ACCEL_RUN" env --json
    python3 -c 'import json, sys; facts = {fact["name"]: fact["value"] for fact in json.loads(sys.argv[1])}; assert facts["accel-run"] and facts["kernel"]' "$output"
}

@test "a subcommand refuses what it does not take, and programs of the same name can still be run" {
    run -125 "$ACCEL_RUN" env A=1 true
    contains "$output" AR-OPTION-UNKNOWN
    contains "$output" "accel-run -- env"
    run -125 "$ACCEL_RUN" test A=1
    contains "$output" "accel-run -- ./test"
    run -125 "$ACCEL_RUN" doctor --nonsense
    contains "$output" AR-OPTION-UNKNOWN
    run -0 --separate-stderr "$ACCEL_RUN" -- env A=1 sh -c 'echo $A'
    [ "$output" = 1 ]
    printf '#!/bin/sh\necho own doctor\n' >doctor && chmod +x doctor
    run -0 --separate-stderr "$ACCEL_RUN" ./doctor
    [ "$output" = "own doctor" ]
    run -0 "$ACCEL_RUN" --help
    contains "$output" "  doctor   "
}

@test "what cannot be written is an error that is said: a full disk" {
    for command in env doctor "doctor --json" --help "--completion bash" "--dry-run true"; do
        # shellcheck disable=SC2086
        run -125 sh -c "'$ACCEL_RUN' $command >/dev/full"
        contains "$output" "AR-OUTPUT: stdout cannot be written"
    done
}
