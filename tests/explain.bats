#!/usr/bin/env bats
# `accel-run explain`: what a program does, as rank 0's library meets it, after some steps; and that nothing of the user's is harmed.

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

@test "a C++ program: steps, batches, losses, optimizers, reads, and it ends after the asked steps" {
    for build in $(builds); do
        program=$BUILD/programs/$build/l2
        requires file "$program"
        run -0 --separate-stderr "$ACCEL_RUN" explain --steps 2 -n 2 "$program"
        contains "$output" "l2 with 2 ranks: 2 steps (backward passes); the steps are made"
        contains "$output" "2 x  torch::optim::Adam"
        contains "$output" "binary_cross_entropy_with_logits  reduction mean"
        contains "$output" "60 rows  aten::addmm, training"
        contains "$output" "_local_scalar_dense  summed its parts"
        contains "$output" "gradients are summed over the ranks"
        contains "$output" "-n 1 runs the program as it is"
        lacks "$stderr" "accel-run: error"
    done
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
assert met["loss", "nll_loss_forward"]["detail"] == "reduction sum"
assert any(kind == "random" for kind, name in met)
assert any(note["name"] == "10 rows" and "evaluation" in note["detail"] for note in said["met"])
assert "there is no rule for it" in met["gathered", "renorm"]["detail"], met
assert met["save", "libtorch"]["detail"] == "model.pt"
assert any("--scale-batch" in flag for flag in said["flags"]) and said["changed"]
END
    [ "$(cat model.pt)" = kept ]
    [ ! -e after ]
    [[ $stderr =~ [0-9]\.[0-9] ]] # what the program printed
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
    contains "$output" "1 steps (backward passes); the program has ended"
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
}
