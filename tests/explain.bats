#!/usr/bin/env bats
# `accel-run explain`: what a program does, as rank 0's library meets it, after some steps; and that nothing of the user's is harmed.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=180

setup() {
    unset ACCEL_RUN_SHIM ACCEL_RUN_LOG_LEVEL
    export OMP_NUM_THREADS=1
    T=$BATS_TEST_TMPDIR
    cd "$T" || return 1
}

some_python() {
    python=$(pythons | head -1)
    [ -n "$python" ] || skip "no Python with torch"
}

@test "explain says how it is used" {
    run -0 "$ACCEL_RUN" explain --help
    contains "$output" "usage: accel-run explain [--steps K]"
}

@test "helpers that torch.set_num_threads() makes are no threads of the program: rows that are read one by one are gathered once" {
    local python
    cat >rows.py <<'END'
import torch

torch.set_num_threads(1)
hidden = torch.nn.Linear(4, 6)(torch.ones(12, 4)).detach()
print(sum(hidden[i][j].item() for i in range(12) for j in range(6)))
END
    for python in $(pythons); do
        run -0 --separate-stderr "$ACCEL_RUN" explain -n 2 "$python" rows.py
        [[ "$output" =~ [[:space:]]1\ x\ +aten::select.int ]] || { echo "$output" >&2 && return 1; }
    done
}

@test "a C++ program: steps, batches, losses, optimizers, reads, and it ends after the asked steps" {
    for build in $(builds); do
        program=$BUILD/programs/$build/l2
        requires file "$program"
        run -0 --separate-stderr "$ACCEL_RUN" explain --steps 2 -n 2 "$program"
        contains "$output" "l2 with 2 ranks: 2 steps (backward passes); the steps are made"
        contains "$output" "1 x  torch::optim::Adam" # as in Python: objects, not steps
        contains "$output" "1 x  training  2 backward passes"
        contains "$output" "binary_cross_entropy_with_logits  reduction mean"
        contains "$output" "60 rows  aten::addmm, training"
        contains "$output" "_local_scalar_dense  summed its parts"
        contains "$output" "gradients are summed over the ranks"
        contains "$output" "-n 1 divides nothing (docs"
        lacks "$stderr" "accel-run: error"
    done
}

@test "a C++ program that trains on a thread beside an interpreter whose lock it keeps, or that has not begun, or has ended" {
    local library how
    library=$(find /usr/lib -name 'libpython3.*.so.1.0' | sort -V | tail -n 1)
    requires file "$library"
    for how in held loaded ended; do
        run -0 --separate-stderr timeout 60 "$ACCEL_RUN" explain --steps 2 -n 2 "$BUILD/programs/debian-O2/embeds_python" "$library" "$how"
        contains "$output" "with 2 ranks: 2 steps (backward passes); the steps are made"
        lacks "$stderr" "accel-run: error"
    done
}

@test "a C++ program with a loader, as text and JSON: what it is, and what a flag would change" {
    for build in $(builds); do
        program=$BUILD/programs/$build/mlp_loader
        requires file "$program"
        run -0 --separate-stderr "$ACCEL_RUN" explain --steps 2 -n 2 "$program"
        contains "$output" "1 x  torch::data  batches of 64, 2 workers, RandomSampler"
        contains "$output" "1 x  torch::optim::SGD"
        contains "$output" "--no-shard-loading lets every rank read all rows"
        run -0 --separate-stderr "$ACCEL_RUN" explain --json --steps 2 -n 2 --no-shard-loading "$program"
        python3 - "$output" <<'END'
import json, sys
said = json.loads(sys.argv[1])
met = {(note["kind"], note["name"]): note for note in said["met"]}
assert "RandomSampler" in met["loader", "torch::data"]["detail"]
assert met["whole", "batches of 64"]["detail"] == "--no-shard-loading", met
assert met["optimizer", "torch::optim::SGD"]["count"] == 1
assert sum("--scale-batch" in flag for flag in said["flags"]) == 1
END
    done
}

@test "a batch of too few rows counts once, though every layer meets it" {
    some_python
    cat >small.py <<'END'
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in (20, 2, 20, 2, 20):
    optimizer.zero_grad()
    model(torch.ones(rows, 4)).mean().backward()
    optimizer.step()
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(3, 4)).sum().item()
END
    run -0 --separate-stderr "$ACCEL_RUN" explain --json --steps 50 "$python" small.py
    python3 - "$output" <<'END'
import json, sys
met = {(note["kind"], note["name"]): note["count"] for note in json.loads(sys.argv[1])["met"]}
assert met["batch", "20 rows"] == 3 and met["undivided", "2 rows"] == 2 and met["undivided", "3 rows"] == 3, met
assert met["optimizer", "SGD"] == 1, met
assert met["loop", "training"] == met["loop", "evaluation"] == 1, met
END
}

@test "a Python program, as JSON: loaders, optimizers, schedulers, random draws, evaluation; the save is not carried out" {
    some_python
    cat >train.py <<'END'
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
loader = DataLoader(TensorDataset(torch.randn(60, 4), torch.randint(3, (60,))), batch_size=20, shuffle=True)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y, reduction="sum").backward()
    optimizer.step()
scheduler.step()
with torch.no_grad():
    print(model(torch.randn(10, 4)).renorm(2, 0, 1).sum().item(), flush=True)
torch.save(model.state_dict(), "model.pt")
open("after", "w").close()
END
    echo kept >model.pt
    run -0 --separate-stderr "$ACCEL_RUN" explain --json --steps=50 "$python" train.py
    python3 - "$output" <<'END'
import json, sys
said = json.loads(sys.argv[1])
met = {(note["kind"], note["name"].replace("aten::", "")): note for note in said["met"]}
assert said["ranks"] == 2 and said["steps"] == 3 and "saves" in said["ended"] and said["not_exact"] is None, said
assert "batches of 20" in met["loader", "DataLoader"]["detail"]
assert "4 parameters" in met["optimizer", "AdamW"]["detail"]
assert met["scheduler", "StepLR"]["detail"] == "of AdamW"
assert met["loop", "training"]["detail"] == "3 backward passes" and met["loop", "evaluation"]["detail"] == "1 batch without gradients", met
assert met["loss", "cross_entropy_loss"]["detail"] == "reduction sum"
assert any(kind == "random" for kind, name in met)
assert any(note["name"] == "10 rows" and "evaluation" in note["detail"] for note in said["met"])
assert "there is no rule for it" in met["gathered", "renorm"]["detail"], met
assert met["save", "libtorch"]["detail"] == "model.pt"
assert any("--scale-batch is refused" in flag for flag in said["flags"]) and said["changed"]
assert not any("--no-shard-loading" in flag for flag in said["flags"])
END
    [ "$(cat model.pt)" = kept ]
    [ ! -e after ]
    [[ $stderr =~ [0-9]\.[0-9] ]] # what the program printed
}

@test "rows in another order, and those that follow an empty list, stay divided" {
    some_python
    cat >orders.py <<'END'
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 8)
hidden, order = model(torch.randn(10, 4)), torch.randperm(10)
for rows in (hidden[order], hidden[order - 10], hidden.index_select(0, order), torch.cat([torch.tensor([]), hidden]), torch.cat([torch.tensor([]), hidden], 1)):
    rows.exp()
END
    run -0 --separate-stderr "$ACCEL_RUN" explain --json "$python" orders.py
    python3 - "$output" <<'END'
import json, sys
met = {(note["kind"], note["name"].replace("aten::", "")): note for note in json.loads(sys.argv[1])["met"]}
assert met["divided", "exp"]["count"] == 5 and met["divided", "cat"]["count"] == 2 and ("gathered", "cat") not in met, met
END
}

@test "what cannot be exact is said with its id and cure, and what was met before it" {
    some_python
    run -125 --separate-stderr "$ACCEL_RUN" explain "$python" "$REPOSITORY/tests/programs/refused.py" node_hook
    contains "$output" "AR-PY-HOOK"
    contains "$output" "what to do:"
    contains "$output" "23 rows"
    contains "$output" "the program was stopped"
}

@test "a program that ends before the steps are made, and one that fails" {
    some_python
    cat >short.py <<'END'
import sys, torch
layer = torch.nn.Linear(3, 2)
layer(torch.ones(3, 3)).sum().backward()
sys.exit(int(sys.argv[1]))
END
    run -0 --separate-stderr "$ACCEL_RUN" explain "$python" short.py 0
    contains "$output" "1 step (backward pass); the program has ended"
    contains "$output" "3 rows  aten::linear, training"
    contains "$output" "a smaller -n divides batches"
    run -7 --separate-stderr "$ACCEL_RUN" explain "$python" short.py 7
    run -0 --separate-stderr "$ACCEL_RUN" explain true
    contains "$output" "no rank has trained"
}

@test "the options of a run stay those of the run" {
    run -125 --separate-stderr "$ACCEL_RUN" explain --steps 0 true
    contains "$stderr" AR-OPTION-VALUE
    run -125 --separate-stderr "$ACCEL_RUN" explain --rnaks 3 true
    contains "$stderr" AR-OPTION-UNKNOWN
    run -127 --separate-stderr "$ACCEL_RUN" explain -n 3 ./nowhere
    run -0 --separate-stderr "$ACCEL_RUN" explain -n 3 --log-dir logs -- echo --json
    [ "$(cat logs/rank-2.out)" = --json ]
    contains "$output" "echo with 3 ranks"
    for ranks in --num_processes -np; do
        run -0 --separate-stderr "$ACCEL_RUN" explain "$ranks" 2 --steps 1 true
        contains "$output" "true with 2 ranks"
    done
}
