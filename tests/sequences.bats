#!/usr/bin/env bats
# Models of sequences (tests/programs/sequences.py): rows that are merged with the time, with heads, with other views of them. N ranks are the one-process run,
# and once the program has shown which dimension is its time, nothing is gathered but what it reads.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    programs_setup_file
    export OMP_NUM_THREADS=1
}

# same_sequences BUILD N: what the ranks print, figure by figure
same_sequences() {
    local build=$1 n=$2 python
    python=$(python_of "$build")
    requires file "$python"
    cd "$BATS_FILE_TMPDIR" || return 1
    [ -e "$build.plain" ] || "$python" "$REPOSITORY/tests/programs/sequences.py" >"$build.plain"
    [ "$(wc -l <"$build.plain")" -ge 38 ]
    "$ACCEL_RUN" -n "$n" "$python" "$REPOSITORY/tests/programs/sequences.py" >"$build.$n" 2>"$build.$n.err" || { show "$build.$n.err" && return 1; }
    "$COMPARE" "$build.plain" "$build.$n" --tolerance 1e-8
}

# gathers command...: how often rows were gathered by two ranks, in $gathers, but for what $allowed names
gathers() {
    "$ACCEL_RUN" -n 2 --explain --log-level debug "$@" >/dev/null 2>"$BATS_TEST_TMPDIR/explained"
    grep -q 'embedding divided its batch (' "$BATS_TEST_TMPDIR/explained"
    gathers=$(grep 'exact, but not divided' "$BATS_TEST_TMPDIR/explained" | grep -vc "${allowed:-none}" || true)
}

# gathers_nothing_later FEW MANY command...: as often in many steps as in few; the number is added to the command
gathers_nothing_later() {
    local few
    gathers "${@:3}" "$1"
    few=$gathers
    gathers "${@:3}" "$2"
    echo "$few gathers in $1 steps, $gathers in $2"
    [ "$gathers" -eq "$few" ] || { show "$BATS_TEST_TMPDIR/explained" && return 1; }
}

@test "sequences, 2 ranks, debian" { same_sequences debian 2; }
@test "sequences, 3 ranks, wheel" { same_sequences wheel 3; }

@test "words with the time first, attention and transformers gather nothing after their first step" {
    local build
    for build in $(builds); do
        requires file "$(python_of "$build")"
        gathers_nothing_later 1 3 "$(python_of "$build")" "$REPOSITORY/tests/programs/sequences.py" lm_lstm lm_channels lm_loop merged_layers views \
            attention attention_first attention_bias encoder decoder translator packed_gru --steps
        gathers_nothing_later 1 3 "$(python_of "$build")" "$REPOSITORY/tests/programs/sequences.py" lm_cells --steps # alone: the others teach it
    done
}

@test "a transformer in C++ gathers nothing after its first step" {
    local build allowed=masked_select # of each element's loss, by 1.13 for smoothed labels
    for build in $(builds); do
        set_command "$build" transformer
        gathers_nothing_later 2 5 bash -c "exec ${command[0]} \$1 1" bash
    done
}

# stopped ID STATEMENT [BUILD]: on Debian's build, whose import takes a third; a program that packs divided sequences and runs the statement on their elements, `data`
stopped() {
    local python
    python=$(python_of "${3:-debian}")
    requires file "$python"
    printf '%s\n' 'import torch' 'torch.manual_seed(1)' 'from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence' 'table, rnn = torch.nn.Embedding(9, 4), torch.nn.GRU(4, 4)' \
        'packed = pack_padded_sequence(table(torch.arange(56).view(8, 7) % 9), [7, 5, 4, 4, 3, 2, 2, 1], batch_first=True)' 'data = packed.data' "$2" \
        'rnn(packed)[0].data.sum().backward()' 'print(rnn.weight_ih_l0.grad.abs().sum().item())' >"$BATS_TEST_TMPDIR/program.py"
    run "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_TMPDIR/program.py"
    if [ -z "$1" ]; then
        "$python" "$BATS_TEST_TMPDIR/program.py" >"$BATS_TEST_TMPDIR/plain"
        [ "$status" -eq 0 ] && "$COMPARE" "$BATS_TEST_TMPDIR/plain" <(echo "$output") --tolerance 1e-4
    else
        [ "$status" -eq 125 ] && contains "$output" "$1"
    fi
}

@test "elements of packed sequences are read as a whole; what cannot be shared out of them stops by name" {
    stopped '' 'print(data.shape, data[3].sum().item(), (data * 2).mean().item())' wheel
    stopped '' 'data.data.mul_(2)'
    stopped AR-GRAD-KIND 'data.register_hook(lambda g: print(g.sum()))'
    stopped AR-GRAD-KIND 'data.retain_grad()'
    stopped AR-GRAD-KIND 'loss = rnn(packed)[0].data.sum(); print(torch.autograd.grad(loss, +data)[0].norm().item())'
    stopped '' 'data.mul_(2); loss = rnn(packed)[0].data.sum(); print(torch.autograd.grad(loss, data)[0].norm().item())' wheel
    stopped AR-WRITE 'data.data.add_(1)' wheel
    stopped AR-WRITE 'data.detach().add_(1)'
    stopped AR-WRITE-MEMORY 'data.detach().numpy()[2] = 1.0'
}
