#!/usr/bin/env bats
# A program that seeds itself from nowhere is one program all the same.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers
export OMP_NUM_THREADS=1

# on_ranks COUNT command...: what each rank printed must be the same; leaves it in $output
on_ranks() {
    local count=$1 rank
    shift
    rm -rf "$BATS_TEST_TMPDIR/log"
    "$ACCEL_RUN" -n "$count" --log-dir "$BATS_TEST_TMPDIR/log" "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || {
        show "$BATS_TEST_TMPDIR/err"
        return 1
    }
    for ((rank = 1; rank < count; rank++)); do
        diff "$BATS_TEST_TMPDIR/log/rank-0.out" "$BATS_TEST_TMPDIR/log/rank-$rank.out" >&2
    done
    output=$(cat "$BATS_TEST_TMPDIR/out")
}

@test "all ranks draw the same from every source, in their workers too, and two workers differ" {
    for build in $(builds); do
        on_ranks 3 "$BUILD/programs/$build/seed_draws"
        contains "$output" "gradient: 4.0"
        [ "$(sed -n 's/^worker 0: //p' <<<"$output")" != "$(sed -n 's/^worker 1: //p' <<<"$output")" ]
    done
}

@test "the next job draws other numbers, with one rank as with two" {
    draws=$BUILD/programs/${MATRIX_BUILD:-debian}-O2/seed_draws
    for count in 1 2; do
        on_ranks $count "$draws"
        first=$output second=$EPOCHSECONDS
        until [ "$EPOCHSECONDS" -gt "$second" ]; do :; done # time() is a source, too: two jobs of one second draw the same from it
        on_ranks $count "$draws"
        for source in random_device getrandom syscall urandom kept 'srand(time)' torch 'manual_seed(time)' 'worker 0'; do
            [ "$(grep -F "$source:" <<<"$first")" != "$(grep -F "$source:" <<<"$output")" ]
        done
    done
}

@test "a seed that is the time is rank 0's on every rank, for each use of it, in any unit" {
    cat >"$BATS_TEST_TMPDIR/times.py" <<'PYTHON'
import os, time, torch
rank, begun = int(os.environ.get("ACCEL_RUN_RANK", 0)), int(time.time())
while rank and int(time.time()) == begun:  # a second ends between the ranks
    pass
seconds, nanoseconds = int(time.time()), time.time_ns()
drawn = []
for seed in seconds, seconds, seconds - 1, nanoseconds:
    torch.manual_seed(seed)
    drawn.append(torch.rand(3))
print("twice the same:", torch.equal(drawn[0], drawn[1]), torch.equal(drawn[0], drawn[2]))
if not rank:
    with open(os.environ["SEEDS"], "w") as file:
        print(seconds, nanoseconds, file=file)
print(torch.stack(drawn), torch.initial_seed())
model = torch.nn.Linear(4, 2)
model(torch.randn(8, 4)).sum().backward()
PYTHON
    local python seeds expected
    mkdir "$BATS_TEST_TMPDIR/.nv" # left alone by accel-run
    python=$(python_of "${MATRIX_BUILD:-debian}") # in C++ both builds are given the time, above
    SEEDS=$BATS_TEST_TMPDIR/.nv/seeds on_ranks 3 "$python" "$BATS_TEST_TMPDIR/times.py"
    contains "$output" "twice the same: True False"
    read -r -a seeds <"$BATS_TEST_TMPDIR/.nv/seeds"
    expected=$("$python" -c '
import sys, torch
seconds, nanoseconds = map(int, sys.argv[1:])
print(torch.stack([(torch.manual_seed(seed), torch.rand(3))[1] for seed in (seconds, seconds, seconds - 1, nanoseconds)]), torch.initial_seed())' "${seeds[@]}")
    contains "$output" "$expected"
}

@test "Python's generators and NumPy's that are seeded by the time draw what rank 0 draws; other seeds, and what the functions look like, stay" {
    cat >"$BATS_TEST_TMPDIR/generators.py" <<'PYTHON'
import inspect, os, pickle, random, sys, threading, time
from random import seed as by_name
seed_before = inspect.signature(random.seed), random.seed.__name__, random.seed.__qualname__, type(random.seed)
import torch
import numpy
if sys.argv[2:]:
    seconds, fraction = int(sys.argv[1]), float(sys.argv[2])
else:
    rank, begun = int(os.environ.get("ACCEL_RUN_RANK", 0)), int(time.time())
    while rank and int(time.time()) == begun:  # a second ends between the ranks
        pass
    seconds, fraction = int(time.time()), time.time()
    if not rank:
        with open(sys.argv[1], "w") as file:
            print(seconds, repr(fraction), file=file)

def drawn(function, *given, **named):
    return function(*given, **named), random.random(), float(numpy.random.rand())
random.seed(3), numpy.random.seed(3)
for seed in random.seed, by_name, numpy.random.seed:
    print(drawn(seed, seconds), drawn(seed, seconds), drawn(seed, seconds + 1))
print(drawn(random.seed, a=fraction), drawn(random.seed, fraction))
print(drawn(numpy.random.seed, seed=seconds), numpy.random.default_rng(seconds).random(), numpy.random.default_rng(seed=seconds).random())
print(random.Random(seconds).random(), random.Random(7).random(), drawn(random.seed, fraction)[1])

for chosen in 1234, "text", 2.5, True, -4, 1 << 70, 2**31:
    print(chosen, drawn(random.seed, chosen), drawn(random.seed, chosen, 1))
print(drawn(numpy.random.seed, 1234), drawn(numpy.random.seed, [1, 2]), numpy.random.default_rng(5).random())
for seed, chosen in (numpy.random.seed, -1), (numpy.random.seed, 1.5), (random.seed, [1]), (numpy.random.default_rng, -1):
    try:
        print(seed(chosen))
    except Exception as error:
        print(type(error), error)
print(seed_before == (inspect.signature(random.seed), random.seed.__name__, random.seed.__qualname__, type(random.seed)))
print(pickle.loads(pickle.dumps(random.Random.seed)) is random.Random.seed, numpy.random.seed.__name__, numpy.random.default_rng.__name__)
random.seed(3), numpy.random.seed(3)
model = torch.nn.Linear(4, 2)
model(torch.randn(8, 4)).sum().backward()
PYTHON
    local python seeds
    mkdir -p "$BATS_TEST_TMPDIR/.nv" # left alone by accel-run
    for python in $(pythons); do
        on_ranks 3 "$python" "$BATS_TEST_TMPDIR/generators.py" "$BATS_TEST_TMPDIR/.nv/seeds"
        read -r -a seeds <"$BATS_TEST_TMPDIR/.nv/seeds"
        diff <("$python" "$BATS_TEST_TMPDIR/generators.py" "${seeds[@]}") - <<<"$output"
    done
}

@test "a seed that the program chose is not touched" {
    draws=$BUILD/programs/${MATRIX_BUILD:-debian}-O2/seed_draws
    plain=$("$draws" | grep chosen)
    on_ranks 2 "$draws"
    contains "$output" "$plain"
}

@test "without a launcher the library changes nothing" {
    export LD_PRELOAD=$BUILD/libaccelshim.so
    first=$("$BUILD/programs/${MATRIX_BUILD:-debian}-O2/seed_draws" | grep random_device)
    [ "$first" != "$("$BUILD/programs/${MATRIX_BUILD:-debian}-O2/seed_draws" | grep random_device)" ]
    [ "$(head -c 2000000 /dev/urandom | wc -c)" = 2000000 ]
}

@test "Python's hash seed, random module and entropy are the same on all ranks and new in the next job" {
    cat >"$BATS_TEST_TMPDIR/draw.py" <<'PYTHON'
import os, random, uuid
print(hash("a"), list({"x", "y", "z"}), random.random(), os.urandom(4).hex(), uuid.uuid4())
print(open("/dev/urandom", "rb").read(4).hex())
PYTHON
    python=$(python_of "${MATRIX_BUILD:-debian}") # no torch: the others are the same interpreter
    on_ranks 2 "$python" "$BATS_TEST_TMPDIR/draw.py"
    first=$output
    on_ranks 2 "$python" "$BATS_TEST_TMPDIR/draw.py"
    [ "$first" != "$output" ]
}

@test "Python's workers, forked or spawned, draw what the same worker of the other ranks draws" {
    cat >"$BATS_TEST_TMPDIR/workers.py" <<'PYTHON'
import multiprocessing, os, sys, threading
def work(number):
    return number, os.urandom(4).hex()
def fork():
    child = os.fork()
    if not child:
        print("forked by a thread", os.urandom(4).hex(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
if __name__ == "__main__":
    for way in "fork", "spawn":
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(work, range(2)))
    for _ in range(int(os.environ["ACCEL_RUN_RANK"])): # another thread's child does not hang on how far this one has come
        os.urandom(4)
    sys.stdout.flush()
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
PYTHON
    on_ranks 2 "$(python_of "${MATRIX_BUILD:-debian}")" "$BATS_TEST_TMPDIR/workers.py" # no torch here either
    contains "$output" spawn
}

@test "what a script makes anew on each rank before it hands it on, the time and a temporary folder, changes no draw; another name does" {
    cat >"$BATS_TEST_TMPDIR/run.sh" <<'END'
folder=$(mktemp -d) nanoseconds=$(date +%s%N) second=$(date +%Y-%m-%d_%H-%M-%S)
draw() { /usr/bin/python3 -c 'import os, random; print(random.random(), os.urandom(4), list(set("abcdefgh")))' "$@"; }
draw --out "$folder/model.pt" "--run=runs/$nanoseconds" "$second" "${TMPDIR:-/tmp}/tmp$(tr -dc a-z0-9_ </dev/urandom | head -c 8)"
draw --out /tmp/tmp_one
draw --out /tmp/tmp_two
rmdir "$folder"
END
    on_ranks 2 bash "$BATS_TEST_TMPDIR/run.sh"
    [ "$(sort -u <<<"$output" | wc -l)" = 3 ]
}

@test "programs that do not train draw from the system: no two names of mktemp are alike" {
    "$ACCEL_RUN" -n 2 --log-dir "$BATS_TEST_TMPDIR/log" bash -c 'mktemp -u; head -c 8 /dev/urandom | od -An -tx1; echo $SRANDOM' >/dev/null 2>&1
    while read -r line <&3 && read -r other <&4; do
        [ "$line" != "$other" ]
    done 3<"$BATS_TEST_TMPDIR/log/rank-0.out" 4<"$BATS_TEST_TMPDIR/log/rank-1.out"
}

@test "parameters that differ all the same are those of rank 0, with one warning" {
    for build in $(builds); do
        on_ranks 3 "$BUILD/programs/$build/seed_differs"
        contains "$(cat "$BATS_TEST_TMPDIR/err")" "2 of 2 parameters began with other values"
        [ "$(grep -c "began with other values" "$BATS_TEST_TMPDIR/err")" = 1 ]
    done
}

@test "ranks whose optimizers make other steps are stopped after one; other rounding is not" {
    requires file "$BUILD/venv/bin/python"
    cat >"$BATS_TEST_TMPDIR/steps.py" <<'END'
import os, sys, torch
torch.manual_seed(1)
rank = int(os.environ["ACCEL_RUN_RANK"])
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[2]) * (1 + (sys.argv[1] == "rate") * rank))
data = torch.randn(64, 8)
for step in range(100):
    loss = (model(data) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    print("step", step, flush=True)
    optimizer.step()
    with torch.no_grad():
        if sys.argv[1] == "rounding" and rank == 1:
            model[0].weight.mul_(1 + 3e-7 * (-1) ** step)
        if sys.argv[1] == "late" and rank == 1 and step == 50:
            model[2].bias.add_(0.1)
END
    run "$ACCEL_RUN" -n 2 "$BUILD/venv/bin/python" "$BATS_TEST_TMPDIR/steps.py" rate 0.01
    [ "$status" -eq 125 ]
    contains "$output" "AR-MODELS-PARTED: rank 1 has other values in parameter"
    contains "$output" "step 0"
    lacks "$output" "step 2"
    run "$ACCEL_RUN" -n 2 "$(python_of debian)" "$BATS_TEST_TMPDIR/steps.py" rate 1e-5 # no digit that is shown differs
    [ "$status" -eq 125 ]
    contains "$output" "AR-MODELS-PARTED"
    run "$ACCEL_RUN" -n 2 "$(python_of debian)" "$BATS_TEST_TMPDIR/steps.py" late 0.01
    [ "$status" -eq 125 ]
    contains "$output" "AR-MODELS-PARTED"
    run "$ACCEL_RUN" -n 2 "$(python_of debian)" "$BATS_TEST_TMPDIR/steps.py" rounding 0.01
    [ "$status" -eq 0 ]
    contains "$output" "differ by rounding"
}

@test "ranks that have other labels for the same data are stopped before they make a step of it" {
    cat >"$BATS_TEST_TMPDIR/labels.py" <<'END'
import os, sys, torch
torch.manual_seed(1)
rank = int(os.environ["ACCEL_RUN_RANK"])
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(16, 8)
rows = torch.arange(16)
losses = {
    "loss": lambda scores, labels: torch.nn.functional.cross_entropy(scores, labels),
    "looked up": lambda scores, labels: -scores.log_softmax(1)[rows, labels].mean(),
    "gathered": lambda scores, labels: -scores.log_softmax(1)[rows.flip(0), labels].mean(),
    "in another order": lambda scores, labels: scores.index_select(0, (labels + 3 * rows) % 16).pow(2).mul(rows[:, None]).mean(),
}
for step in range(3):
    labels = (torch.arange(16) + (step == 2) * (torch.arange(16) == 9) * rank) % 3
    optimizer.zero_grad()
    loss = losses[sys.argv[1]](model(data), labels)
    loss.backward()
    optimizer.step()
    print("made", step, flush=True)
END
    local loss # the other build has those below
    for loss in loss "looked up" gathered "in another order"; do
        run -125 --separate-stderr "$ACCEL_RUN" -n 2 "$(python_of "${MATRIX_BUILD:-wheel}")" "$BATS_TEST_TMPDIR/labels.py" "$loss"
        contains "$stderr" AR-RANKS-PARTED
        contains "$stderr" "labels, masks or indices of a batch"
        contains "$output" "made 1"
        lacks "$output" "made 2"
    done
}

@test "an expanded index, a crop or a column that is another one on some rank is noticed" {
    cat >"$BATS_TEST_TMPDIR/strided.py" <<'END'
import os, sys, torch
torch.manual_seed(1)
other = int(os.environ["ACCEL_RUN_RANK"]) * (sys.argv[2] == "other")
linear, conv = torch.nn.Linear(8, 3), torch.nn.Conv2d(1, 2, 2)
data, images, table = torch.randn(16, 5, 8), torch.randn(16, 1, 6, 6), torch.arange(48).view(16, 3) % 3
table[9, 1] += other
images[9, 0, 3, 4] += other
made = {
    "index": lambda: linear(data).gather(1, table[:, 1:2, None].expand(16, 4, 3)),
    "crop": lambda: conv(images[:, :, 1:5, 2:5]),
    "column": lambda: torch.nn.functional.cross_entropy(linear(data[:, 0]), table[:, 1]),
}[sys.argv[1]]()
print("made", made.mean().item() > -9)
END
    local what
    for what in index crop column; do
        run -0 "$ACCEL_RUN" -n 2 "$(python_of "${MATRIX_BUILD:-wheel}")" "$BATS_TEST_TMPDIR/strided.py" "$what" same
        run -125 "$ACCEL_RUN" -n 2 "$(python_of "${MATRIX_BUILD:-wheel}")" "$BATS_TEST_TMPDIR/strided.py" "$what" other
        contains "$output" AR-RANKS-PARTED
    done
}

# The thread that cuts the batch exchanges nothing: what it has noted is compared where its loss is learned from.
@test "batches and labels that differ between the ranks are noticed where the loss is computed in a task, too" {
    cat >"$BATS_TEST_TMPDIR/tasks.py" <<'END'
import os, sys, torch
from concurrent.futures import ThreadPoolExecutor
torch.manual_seed(1)
rank, kind = int(os.environ["ACCEL_RUN_RANK"]), sys.argv[1]
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pool = ThreadPoolExecutor(1)
data, labels = torch.randn(16, 8), torch.arange(16) % 3
for step in range(3):
    if step == 2:
        where = (torch.arange(16) == 9) * rank
        data, labels = (data + where[:, None] * 0.5, labels) if kind == "data" else (data, (labels + where) % 3)
    loss = pool.submit(lambda: torch.nn.functional.cross_entropy(model(data), labels)).result()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("made", step, flush=True)
END
    local kind
    for kind in data labels; do
        run -125 --separate-stderr "$ACCEL_RUN" -n 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/tasks.py" "$kind"
        contains "$stderr" AR-RANKS-PARTED
        contains "$output" "made 1"
        lacks "$output" "made 2"
    done
}
