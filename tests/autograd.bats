#!/usr/bin/env bats
# What programs do around autograd: each prints what one process would, with any number of ranks. The programs are tests/programs/*.py and .cpp.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers
load programs

export BATS_TEST_TIMEOUT=600

setup_file() {
    programs_setup_file
}

# same_words NAME: the output of ranks of a program in C++ is the plain run's, on both builds
same_words() {
    local name=$1 build n numbers runs=()
    for build in debian-O2 wheel-O2; do
        set_command "$build" "$name"
        plain_run "$build" "$name" &
        runs+=($!)
    done
    wait "${runs[@]}"
    for build in debian-O2 wheel-O2; do
        plain_run "$build" "$name"
        [ "$(cat "$plain/status")" -eq 0 ] || { echo "the plain run failed" >&2 && show "$plain/err" && return 1; }
        numbers_of "$build"
        for n in "${numbers[@]}"; do
            echo "== $n ranks of $build $name" >&2
            ranks_run "$n" "$build" "$name"
            same_status && same_errors && "$COMPARE" "$plain/out" "$ranks/out" || return 1
            rm -r "$ranks"
        done
    done
}

# in_place_share FILE: the share in percent of all bytes exchanged that were summed where they lay, by the summary in FILE, in $share
in_place_share() {
    share=$(sed -n 's/.* \([0-9.]*\) MiB exchanged, \([0-9.]*\) of them.*/\1 \2/p' "$1" | awk 'NR == 1 { printf "%d", 100 * $2 / $1 }')
}

@test "programs one after another end as they do alone, and nothing but what they say themselves is on standard error" {
    local build n numbers
    plain_series debian wheel
    for build in debian wheel; do
        set_command "$build" series.py
        plain=$BATS_FILE_TMPDIR/series-$build-0
        [ "$(cat "$plain/status")" -eq 0 ] || { show "$plain/err" && return 1; }
        numbers_of "$build"
        for n in "${numbers[@]}"; do
            series_run "$build" "$n"
            ranks=$series
            same_status
            same_errors
        done
    done
}

@test "gradients that are retained are those of one process" {
    same_part retained.py debian wheel
}

@test "a loss whose graph alone leads back to divided rows has one process's gradients, and so has one of parameters alone beside it" {
    same_part history.py debian wheel
}

@test "one output of several, seeds that come from the batch and gradients that are differentiated have one process's gradients" {
    same_part roots.py debian wheel
}

@test "what a backward calls back sees features of the batch and finished gradients as in one process, also where no rows are divided" {
    same_part called_back.py debian wheel
}

@test "functions that the engine calls when a backward is through see whole gradients" {
    same_part queued.py debian wheel
}

@test "a tensor that is given another one's data keeps its place in the graph" {
    same_part given_data.py debian wheel
}

@test "what a backward computes again, and what functions for saved tensors give it back, has one process's gradients" {
    same_part recomputed.py debian wheel
}

@test "sums over the batch with numbers of Python keep their types, and with zeros and infinities their values" {
    same_part sums_and_numbers.py debian wheel
}

@test "accuracies, counts, flags, whole numbers that wrap and half precision that overflows are exact where one process is" {
    same_part exact_sums.py debian wheel
}

@test "operators of the program's own in Python see whole rows in all that they use, and so do their derivatives" {
    same_part own_operators.py wheel
}

@test "a leaf made from divided rows keeps its rows, and its gradient is that of its rows" {
    same_part divided_leaves.py debian wheel
}

@test "large gradients are accumulated, kept, shared, written, seen and written by children as those of one process" {
    same_part shared_gradients.py debian wheel
}

@test "large gradients are summed where they lie, also after forks and where zero_grad() leaves zeros" {
    local build word
    for build in debian wheel; do
        word=drop
        [ "$build" = wheel ] || word=keep
        plain_run "$build" shared_gradients.py "$word"
        ACCEL_RUN_LOG_LEVEL=info ranks_run 2 "$build" shared_gradients.py "$word"
        "$COMPARE" "$plain/out" "$ranks/out"
        show "$ranks/err"
        in_place_share "$ranks/err"
        [ "$share" -ge 60 ]
        rm -r "$ranks"
    done
}

@test "ranks in process namespaces of their own, where each has the same number, sum each other's gradients" {
    requires command unshare
    unshare --pid --fork --mount-proc true || skip "no right to make a namespace"
    set_command wheel gpt.py
    plain_run wheel gpt.py
    ranks=$BATS_TEST_TMPDIR/apart
    run_in "$ranks" "$ACCEL_RUN" -n 2 unshare --pid --fork --mount-proc "${command[@]}"
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "... and their loaders' workers, of which each rank's have the same numbers, share tensors with their own rank" {
    requires command unshare
    unshare --pid --fork --mount-proc true || skip "no right to make a namespace"
    set_command wheel shared_tensors.py
    plain_run wheel shared_tensors.py file_system whole
    ranks=$BATS_TEST_TMPDIR/apart
    run_in "$ranks" "$ACCEL_RUN" -n 2 unshare --pid --fork --mount-proc "${command[@]}" file_system whole
    same_status
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "what autograd calls back in Python sees whole gradients: hooks, custom functions, module hooks, checkpoints" {
    same_part callbacks.py debian wheel
}

@test "hooks on the nodes that accumulate into leaves see whole gradients, before and after, step there, and shard models" {
    same_part leaf_hooks.py debian wheel
}

@test "what a parameter's own hooks put where its gradient is, or a backward of theirs adds there, is what the gradient is added to" {
    same_part own_gradients.py debian wheel
}

@test "gradients that the program gives, of all sizes: what one process refuses is refused, what it sums is summed" {
    same_part wrong_sizes.py debian wheel
}

@test "what autograd calls back in C++ sees whole gradients: hooks, custom functions; what they give is of the size that one process asks for" {
    same_words callbacks
}

@test "threads that look at one divided tensor at one time, or write rows of it, each its own, do what they do in one process" {
    same_words rows_of_threads
    same_part rows_of_pool.py debian wheel
    same_part branches_of_pool.py debian wheel
}

@test "a TorchScript module is trained operator by operator: sizes, means, loops and conditions are those of one process" {
    same_words scripted
}

@test "hooks of Python in a model that was pickled whole are empty, and a removed one is not called" {
    local name
    for name in loaded removed; do
        plain_run debian tensor_hooks.py "$name"
        ranks_run 2 debian tensor_hooks.py "$name"
        same_status
        same_errors
        "$COMPARE" "$plain/out" "$ranks/out"
        rm -r "$ranks"
    done
}

@test "gradients computed in the loss, and their derivatives, are those of one process" {
    same_part second_derivative.py debian wheel
}

@test "so they are through a normalisation over the batch; a third derivative there is refused by name" {
    same_part second_derivative_norm.py debian wheel
    stopped wheel AR-THIRD-DERIVATIVE refused.py third_derivative
}

@test "gradients of normalised images are read as one process reads them, in whatever layout they come; differentiated again they are refused by name" {
    same_part image_layouts.py debian wheel
    stopped wheel AR-GRAD-KIND refused.py image_layout
}

@test "what is written in place to divided rows, and to views of them, is where one process has it" {
    same_part writes.py debian wheel
}

@test "views of rows follow what is written to their tensor, with its history" {
    same_part rewritten.py debian wheel
}

@test "rows read one by one, with writes in between, are what one process reads" {
    same_part rows_read.py debian wheel
}

@test "gradients that are not there, at gathered rows and normalisations, are none; a checkpoint that ends in one keeps nothing" {
    same_part no_gradients.py debian wheel
}

@test "batch norms in evaluation mode and then in training, one backward: the running statistics' versions are the plain run's" {
    same_part running_statistics.py debian wheel
}

@test "rows that are kept, written through their memory or seen as another type are right, beside a thread, too, and keep no memory but their own" {
    same_part rows_kept.py debian wheel
}

@test "out= tensors, lists, running statistics and sums over the batch are written as one process writes them" {
    same_part written.py debian wheel
}

@test "legacy types of Python know parameters and divided tensors" {
    same_part legacy_types.py debian wheel
}

@test "sparse gradients of embeddings are one process's, entry by entry; differentiated again they are refused by name" {
    same_part sparse.py debian wheel
    stopped debian AR-GRAD-KIND refused.py sparse_again
    stopped debian AR-GRAD-KIND refused.py sparse_penalty
}

@test "memory that Python is given the address of is the whole batch's, both ways" {
    same_part memory.py debian wheel
}

@test "so it is in a program that has never had a second thread, where arrays of one memory are one also between two operators" {
    local build python program
    for build in debian wheel; do
        python=$(python_of "$build")
        for program in memory arrays_of_parts; do
            "$python" "$REPOSITORY/tests/programs/$program.py" >"$BATS_TEST_TMPDIR/plain"
            "$ACCEL_RUN" -n 2 "$python" "$REPOSITORY/tests/programs/$program.py" >"$BATS_TEST_TMPDIR/ranks"
            "$COMPARE" "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/ranks"
        done
    done
}

@test "strides, offsets and storages of views of divided tensors are those of one process, and so are deep copies, pickles and files" {
    same_part storages.py debian wheel
}

@test "forward-mode derivatives are those of the whole batch" {
    same_part forward_mode.py debian wheel
}

@test "torch.compile, also with fullgraph, changes nothing, and its names are in the checkpoint; flex_attention" {
    same_part compiled.py wheel
}

@test "torch.func on a living model computes what one process does" {
    same_part functional.py debian wheel
}

@test "a mode that sees every operator sees it with the shapes of one process" {
    same_part modes.py debian wheel
}

@test "tensors of classes of the program's own, beside divided rows and as a parameter, compute as in one process" {
    same_part subclasses.py debian wheel
}

@test "gradients that the program has views and arrays of, or has set itself, are what it sees while later backwards add to them" {
    same_part seen_gradients.py debian wheel
}

@test "a scaler skips the steps whose gradients are beyond float16 in one process, though each rank's part is not" {
    same_part half_overflow.py wheel
}

@test "a backward that throws leaves the gradients that were there before, by a hook or because one of them is expanded" {
    same_part thrown_backward.py debian wheel
}

@test "gradients that the program holds by another name, from a hook or because it has set them, are one memory with .grad as in one process" {
    same_part kept_gradients.py debian wheel
}

@test "views of some columns of a batch, their rows and copies, share memory as in one process, and draw the same numbers" {
    same_part columns.py debian wheel
}

@test "what does not fit is said of whole sizes, what the program's own operators write is written, and training goes on" {
    same_part misfits.py debian wheel
}

@test "an index outside of what it indexes, on whichever rank its row is, throws on all, and a program that catches it goes on" {
    same_part outside.py debian wheel
}

@test "an operator that throws on one rank alone, caught, stops the job before a file is opened or saved, or at the end" {
    local end kind python caught=$REPOSITORY/tests/programs/caught.py
    cd "$BATS_TEST_TMPDIR"
    for python in "$(python_of debian)" "$(python_of wheel)"; do
        run -0 "$ACCEL_RUN" -n 2 "$python" "$caught" none print none file none save all file all save all print
        [ "$output" = "$(printf '%s\n' "['good', 'good']"{,,} "['bad', 'bad']"{,,})" ]
        rm states.txt states.pt
    done
    for end in print file save; do
        python=$(python_of debian) # torch's import is most of each run, and on the wheel three times as long
        [ "$end" != save ] || python=$(python_of wheel)
        for kind in "3 last" "2 one_each"; do
            run "$ACCEL_RUN" -n "${kind% *}" "$python" "$caught" "${kind#* }" $end
            [ "$status" -eq 125 ]
            contains "$output" AR-RANKS-PARTED
            contains "$output" "Look at the values before the operator does"
            [ ! -e states.txt ]
            [ ! -e states.pt ]
        done
    done
}

@test "parameters that some ranks alone have reached take part with zeros, and stop the job by what they are where they are to be differentiated again" {
    local python
    printf '%s\n' 'import os, sys, torch' 'rank, who = int(os.environ.get("ACCEL_RUN_RANK", 0)), sys.argv[1]' 'class Gates(torch.autograd.Function):' \
        '    @staticmethod' '    def forward(context, one, other):' '        return one.clone(), other.clone()' '    @staticmethod' '    def backward(context, one, other):' \
        '        return None if who == "each" and rank == 0 else one, None if who != "none" and rank == 1 else other' 'torch.manual_seed(0)' \
        'front, one, other = (torch.nn.Linear(4, 4, bias=False) for _ in range(3))' 'rows, (first, second) = front(torch.randn(8, 4)), Gates.apply(one.weight, other.weight)' \
        'loss = (rows @ first + rows @ second).pow(2).mean()' 'loss.backward(create_graph="again" in sys.argv)' \
        'print(one.weight.grad.norm().item() > 0, other.weight.grad.norm().item() > 0)' >"$BATS_TEST_TMPDIR/program.py"
    for python in "$(python_of debian)" "$(python_of wheel)"; do
        run -0 "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_TMPDIR/program.py" some
        [ "$output" = "True True" ]
        run -0 "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_TMPDIR/program.py" none again
        contains "$output" "True True"
        run -125 "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_TMPDIR/program.py" some again
        contains "$output" "reach different parameters, whose gradients are to be differentiated again"
        run -125 "$ACCEL_RUN" -n 2 "$python" "$BATS_TEST_TMPDIR/program.py" each again
        contains "$output" "does the program train several models in threads of their own?"
    done
}

@test "zeros where one rank has not reached a parameter lie as the others' gradients do, and are infinite where theirs are beyond float16" {
    local build kind
    for build in debian wheel; do
        for kind in gaps zeros half; do
            [ "$build $kind" != "debian half" ] || continue # multiplied on the CPU by no release before 2.0
            plain_run "$build" some_reach.py "$kind"
            ranks_run 3 "$build" some_reach.py "$kind"
            same_status && "$COMPARE" "$plain/out" "$ranks/out" || { echo "$build $kind" >&2 && return 1; }
            lacks "$(cat "$ranks/err")" "[rank 1] True"
            rm -r "$ranks"
        done
    done
}

@test "targets in bytes, ignored classes of infinite weight, packed elements under other sizes, normalisations of nothing and in bfloat16" {
    same_part rare_forms.py debian wheel
}

@test "elements of divided rows that share memory, expanded or in windows that overlap, have a gradient each where all rows are needed" {
    same_part repeated_memory.py debian wheel
}

@test "masks and indices that are expanded, and crops, are compared where they lie: no rank has a copy of what they repeat" {
    local build n
    for build in $(builds); do
        plain_run "$build" expanded.py
        [ "$(wc -l <"$plain/out")" -eq 12 ]
        numbers_of "$build"
        for n in "${numbers[@]}"; do
            ranks_run "$n" "$build" expanded.py
            same_status
            "$COMPARE" "$plain/out" "$ranks/out"
            same_errors
        done
    done
}

@test "a tensor that is given the memory of another one (set_), or of a storage, is what that one is" {
    same_part set_memory.py debian wheel
}

@test "rows that are held stay what they are when their tensor is turned around, detached or given other memory in place" {
    same_part turned_rows.py debian wheel
}

@test "what is written through the data of a tensor, or of its rows, is no other version of it" {
    same_part data_writes.py debian wheel
}

@test "finalizers of divided tensors compute with whole batches" {
    same_part finalizers.py debian wheel
}

@test "rows of conjugated and negated tensors are views where they are in one process, and copies once they are resolved" {
    same_part conjugated.py debian wheel
}

@test "gradients that share memory with what flows on, with what a hook keeps and with each other; what create_graph makes is made anew" {
    same_part one_memory.py debian wheel
}

@test "a C++ program that begins with a mode trains, or evaluates, as alone; one that asks for a tensor's type() of old stops by name" {
    local build kind
    for build in debian-O2 wheel-O2; do
        for kind in inference autocast; do
            plain_run "$build" modes_first "$kind"
            [ "$(cat "$plain/status")" -eq 0 ]
            numbers_of "$build"
            for n in "${numbers[@]}"; do
                ranks_run "$n" "$build" modes_first "$kind"
                same_status && "$COMPARE" "$plain/out" "$ranks/out" || return 1
                rm -r "$ranks"
            done
        done
        stopped "$build" AR-LEGACY-TYPE modes_first type
    done
}

@test "a tensor whose own hook holds it is let go when it is in one process, and its hook sees whole gradients until then" {
    same_part hooks_that_hold.py debian wheel
}

@test "parameters that one thread lets go of while another one has them compared over the ranks" {
    same_part leaves_that_end.py debian wheel
}

@test "backwards from, and gradients at, places of the graph whose tensors are gone; gradients that are leaves, or a Reducer's memory" {
    same_part graph_edges.py debian wheel
    stopped wheel AR-GRAD-KIND refused.py edge_of_a_node
}

@test "transforms of divided features, by torch.func, compute what one process does, forward and back through them" {
    same_part transforms.py debian wheel
}

@test "a step takes one collective, that of its gradients, also where layers use views of their parameters" {
    one_collective_a_step wheel
}

@test "gradients that autograd.grad gives for all parameters are summed together" {
    collectives_a_step 2 debian asked # the other says that no leaf has one
}

@test "views of parameters that are used in another order on each rank, and added up, are no other operation" {
    plain_run debian parameter_views.py
    ranks_run 2 debian parameter_views.py
    same_status
    same_errors
    "$COMPARE" "$plain/out" "$ranks/out"
}

@test "parameters of complex types and of half precision that part by rounding are told of once, others stop the job" {
    local type python
    for type in float16:1.001 bfloat16:1.01 complex64:1.0000003 complex128:1.000000000000002; do
        python=$(python_of debian)
        [ "${type%%:*}" != float16 ] || python=$(python_of wheel)
        run -0 "$ACCEL_RUN" -n 2 "$python" "$REPOSITORY/tests/programs/rounded.py" "${type%:*}" "${type#*:}"
        contains "$output" AR-ROUNDING
        run -125 "$ACCEL_RUN" -n 2 "$python" "$REPOSITORY/tests/programs/rounded.py" "${type%:*}" 1.2
        contains "$output" AR-MODELS-PARTED
    done
}

@test "a node of the program's own is refused by name also where its file, or its class, is called as if it were libtorch's" {
    local mode
    for mode in own_node own_node_of_torch; do
        cp "$BUILD/programs/debian-O2/structures" "$BATS_TEST_TMPDIR/libtorch_$mode"
        run -125 "$ACCEL_RUN" -n 2 "$BATS_TEST_TMPDIR/libtorch_$mode" "$mode"
        contains "$output" AR-NODE
        run -125 "$ACCEL_RUN" -n 2 "$BUILD/programs/debian-O2/structures" "$mode"
        contains "$output" AR-NODE
    done
}
