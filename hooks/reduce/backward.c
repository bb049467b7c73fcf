/* The engine: which backwards are divided, who is accumulated into, and the end of a backward. */
#include <pthread.h>
#include <stdlib.h>

#include "reduce.h"

static struct backward *current; /* one backward at a time: others wait */
static uint8_t number;           /* of the current one */
static pthread_mutex_t backward_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A gradient that AccumulateGrad has in hand: up to 2.0 it itself calls the hooks of its tensor, before it puts the gradient there. */
struct arrival {
    struct tensor *leaf;
    struct arrival *outer;
    bool is_beside; /* an undivided one writes to the leaf (accumulate.c): not within hooks, whose own backwards may come to it */
};

/* What this thread does in it; together, for there is little room for such. */
static __thread struct {
    struct arrival *arriving; /* not within hooks of the leaf */
    uint8_t inside;           /* the number of the backward of which it runs a part: deep ones go on in threads of the engine's */
    bool is_undivided;        /* the one that it runs, beside which another thread may run the current one */
    bool runs_divided;        /* it has begun the current one */
} own;
static _Atomic uint32_t undivided; /* how many of them are run */

/* A child may have been forked in the midst of one. */
static struct backward *own_current(void) {
    return own.is_undivided || !shim_active() ? NULL : current;
}

bool backward_is_divided(void) {
    return own_current();
}

/* ---- leaves */

/* A gradient of the program's own, which it may have as rows, too, has been added to. */
static void tell_of_write(struct tensor *leaf) {
    struct tensor *gradient = *tensor_grad_slot(leaf);
    if (gradient && gradient != torch_facts.undefined && tensor_is_marked(gradient))
        dispatch_client.written(gradient);
}

/* An accelerator's nodes are run by a thread of the engine's, and so is what is sixty backwards deep in others: nothing says of which backward a node there is.
   The undivided gradient was summed over the ranks (tests/fake/accelerator.cpp). */
static void refuse_unknown_backward(void) {
    if (!own.runs_divided && atomic_load(&undivided))
        shim_problem("AR-BACKWARD-BESIDE", "Let one thread at a time train there, or give each batches of two rows for each rank.",
                     "a thread of the engine runs backwards of divided rows and of undivided values, and does not tell them apart");
}

/* Also when hooks of the leaf have run: what they have left as the gradient is what the one that arrives is added to. The backward comes to it only now. */
static void arrival_begin(struct arrival *arrival) {
    struct backward *backward = own_current();
    arrival->is_beside = own.is_undivided && shim_has_threads();
    if (arrival->is_beside)
        accumulate_begin_beside(arrival->leaf);
    own.arriving = arrival;
    if (!backward) {
        before_settle(arrival->leaf);
        return;
    }
    refuse_unknown_backward();
    ACCUMULATE_SCOPE(arrival->leaf);
    reached_add(backward, arrival->leaf, &own);
}

static void arrival_let_go(struct arrival *arrival) {
    if (arrival->is_beside)
        accumulate_end_beside(arrival->leaf);
    arrival->is_beside = false;
}

static void arrival_end(struct arrival *arrival) {
    arrival_let_go(arrival);
    own.arriving = arrival->outer;
}

void *hook_accumulate_grad_apply(void *result, void *node, void *gradients) {
    struct backward *backward = shim_active() ? own_current() : NULL;
    struct tensor *leaf = shim_active() ? leaf_of_node(node) : NULL;
    if (!backward && !leaf)
        return ORIGINAL(accumulate_grad_apply)(result, node, gradients);
    if (!leaf)
        shim_problem("AR-LEAF", "This is a defect of accel-run: please report the program's way of making parameters.",
                     "a gradient arrives at a parameter that accel-run has not seen being made");
    __attribute__((cleanup(arrival_end))) struct arrival arrival = {.leaf = leaf, .outer = own.arriving};
    arrival_begin(&arrival);
    ORIGINAL(accumulate_grad_apply)(result, node, gradients);
    if (!backward)
        tell_of_write(leaf);
    return result;
}

void backward_has_arrived(void) {
    own.arriving = NULL;
}

static void arrived_end(struct backward *arrived) {
    if (!arrived->finished)
        reduce_undo(arrived);
    reached_free(arrived);
}

static void summed_end(struct backward **backward) {
    accumulate_set_summed(*backward, false);
}

/* All that has come. What throws here may be caught by code that has called this backward from within another one. */
static void settle_arrived(struct backward *backward) {
    __attribute__((cleanup(summed_end), unused)) struct backward *summed = backward;
    __attribute__((cleanup(arrived_end))) struct backward arrived = {.has_graph = backward->has_graph};
    OPAQUE_SCOPE;
    {
        ACCUMULATE_SCOPE(NULL);
        reached_take(backward, &arrived, &(struct reached_taken){.thread = NULL});
        settled_note_parts(backward, &arrived);
        backward->is_summed = true;
    }
    if (arrived.count)
        reduce_gradients(&arrived);
    {
        ACCUMULATE_SCOPE(NULL);
        settled_note_sums(backward);
    }
    arrived.finished = true;
}

struct arrival *backward_pause(void) {
    struct backward *backward = own_current();
    struct arrival *arriving = own.arriving;
    if (arriving)
        arrival_let_go(arriving);
    if (backward)
        own.inside = number; /* an accelerator's graph is run in a thread of its own */
    if (backward && arriving) {
        ACCUMULATE_SCOPE(NULL);
        reached_withdraw(backward, arriving->leaf);
    }
    if (backward && backward->count)
        settle_arrived(backward);
    own.arriving = NULL;
    return arriving;
}

void backward_resume(struct arrival *arriving) {
    if (arriving)
        arrival_begin(arriving);
}

/* ---- the engine */

static void backward_end(struct backward *backward) {
    current = NULL;
    own.inside = 0;
    own.runs_divided = false;
    if (!backward->finished) { /* what the program retains has come as far as it has */
        reduce_undo(backward);
        retained_mark();
    }
    accumulate_set_holder(NULL);
    reached_free(backward);
    settled_free(backward);
    pairs_free(&backward->halves);
    pthread_mutex_unlock(&backward_mutex);
}

/* Within a transform of torch.func, or in what its vjp returns, after it: of a graph in which nothing is divided, unless it was made before. */
static bool is_of_transform(const struct vector *roots, size_t count, const struct vector *outputs) {
    for (size_t i = 0; i < count && dispatch_in_transform(); i++) {
        enum record_kind kind = seeds_root(roots, i, count).kind;
        if (kind == RECORD_SHARD || kind == RECORD_PARTIAL)
            shim_problem(
                "AR-GRAD-KIND", "Compute the root within the transform (torch.func.vjp), call autograd.grad in a loop, or run with -n 1.",
                "autograd.grad within a transform of torch.func would go through a graph of divided rows that was made outside of it");
    }
    return dispatch_in_transform() || (count && capture_is_of_wrapped(outputs, seeds_edge_bytes(roots, count)));
}

/* A mode sees what the nodes of the graph compute. Where it has been open since the forward, nothing is divided. */
static void refuse_mode(void) {
    if (dispatch_in_mode())
        shim_problem("AR-MODE", "Open the mode before the first layer, or close it before backward(), or run with -n 1.",
                     "a mode that sees every operator (TorchDispatchMode, e.g. FlopCounterMode) is open in the backward of rows that were "
                     "divided before it: it would see this rank's");
}

/* One call of the engine, as it was asked for. */
struct execution {
    void *result; /* variable_list: the gradients asked for by outputs, of torch::autograd::grad */
    void *engine, *roots, *inputs, *outputs;
    char keep_graph, create_graph, accumulate;
};

static void run(const struct execution *execution, void *inputs) {
    ORIGINAL(engine_execute)
    (execution->result, execution->engine, execution->roots, inputs, execution->keep_graph, execution->create_graph, execution->accumulate,
     execution->outputs);
}

static void restore_undivided(const bool *outer) {
    own.is_undivided = *outer;
}
#define UNDIVIDED_SCOPE(value)                                                                                                             \
    __attribute__((cleanup(restore_undivided), unused)) const bool undivided_outer_ = own.is_undivided;                                    \
    own.is_undivided = value

static void undivided_ends(const bool *counts) {
    atomic_fetch_sub(&undivided, *counts);
}

static void run_undivided(const struct execution *execution, void *inputs) {
    __attribute__((cleanup(undivided_ends))) const bool counts = shim_has_threads();
    atomic_fetch_add(&undivided, counts);
    UNDIVIDED_SCOPE(true);
    run(execution, inputs);
}

static void run_divided(const struct execution *execution, struct seeds *seeds) {
    struct vector inputs = seeds_vector(seeds);
    dispatch_client.settle();
    loans_return_all();
    OPAQUE_SCOPE;
    run(execution, &inputs);
}

bool backward_takes_half(struct tensor *leaf) {
    if (!current || !pairs_get(&current->halves, leaf))
        return false;
    pairs_put(&current->halves, leaf, NULL);
    return true;
}

/* What the outer one has of its own. */
struct outer {
    struct pairs halves;
    bool has_graph;
    size_t arrivals;
    bool is_through; /* the one within it */
};

/* One that throws leaves the gradients that were there before: the leaves may be gone by the end of the outer one. Threads of the engine's for devices may
   bring others of the outer one's meanwhile. */
static void undo_nested(size_t first) {
    __attribute__((cleanup(arrived_end))) struct backward thrown = {.finished = false};
    ACCUMULATE_SCOPE(NULL);
    reached_take(current, &thrown, &(struct reached_taken){.first = first, .thread = &own});
}

static void restore_outer(const struct outer *outer) {
    if (!outer->is_through) {
        undo_nested(outer->arrivals);
        retained_show();
    }
    pairs_free(&current->halves);
    current->halves = outer->halves;
    current->has_graph = outer->has_graph;
}

/* A backward that code called back from one begins (a checkpoint that is computed again). What has arrived by its end, of the outer one, too, is final: the
   code may read and change it. */
static void execute_nested(const struct execution *execution, struct seeds *seeds) {
    __attribute__((cleanup(restore_outer), unused)) struct outer outer = {current->halves, current->has_graph, current->arrivals, false};
    current->halves = (struct pairs){};
    current->has_graph = execution->create_graph;
    retained_settle(true); /* those that the outer one has brought are marked since the code was called back (boundary.c) */
    half_find(execution->roots, &current->halves);
    run_divided(execution, seeds);
    settled_put_back(current);
    outer.is_through = true;
    if (execution->accumulate && current->count)
        settle_arrived(current);
    retained_show();
}

static void execute_outer(const struct execution *execution, struct seeds *seeds) {
    shim_backward_lock(&backward_mutex);
    UNDIVIDED_SCOPE(false);
    __attribute__((cleanup(backward_end))) struct backward backward = {.has_graph = execution->create_graph};
    memory_for_new_leaves();
    retained_settle(true);
    half_find(execution->roots, &backward.halves);
    current = &backward;
    accumulate_set_holder(&backward);
    own.runs_divided = true;
    own.inside = number = number % UINT8_MAX + 1;
    shim_phase(BOARD_BACKWARD, "backward");
    run_divided(execution, seeds);
    settled_put_back(&backward);
    current = NULL;
    shim_phase(BOARD_REDUCE, "gradients");
    accumulate_set_summed(&backward, true);
    OPAQUE_SCOPE;
    reduce_gradients(&backward);
    retained_mark();
    backward.finished = true;
    shim_step_done();
    comm_step();
    shim_phase(BOARD_STEP, "after backward");
}

static void execute_divided(const struct execution *execution, struct seeds *seeds, bool is_nested) {
    refuse_mode();
    foreign_refuse(execution->roots, execution->outputs, execution->accumulate);
    seeds_make(seeds, execution->roots, execution->inputs);
    bool hands_out = !execution->accumulate && seeds->count;
    __attribute__((cleanup(capture_free))) struct capture capture;
    capture_begin(&capture, execution->outputs, hands_out ? seeds_edge_bytes(execution->roots, seeds->count) : 0);
    (is_nested ? execute_nested : execute_outer)(execution, seeds);
    GRAD_SCOPE(execution->create_graph); /* the caller's mode may be another one than the engine's */
    capture_end(&capture, execution->result);
}

/* Nothing to reduce: all ranks compute the same. That they do is what their notes say. */
static void execute_undivided(const struct execution *execution, struct seeds *seeds) {
    if (report_has_batches())
        foreign_refuse(execution->roots, execution->outputs, execution->accumulate);
    shim_note_draw(); /* a data set that trains as it reads must read everything on every rank */
    {
        SHIM_COMM_SCOPE;
        comm_barrier("backward of undivided work");
    }
    drift_note_undivided();
    struct vector whole;
    bool are_marked = seeds_are_marked(execution->inputs);
    if (are_marked) {
        seeds_take_whole(seeds, execution->inputs);
        whole = seeds_vector(seeds);
    }
    OPAQUE_SCOPE;
    retained_settle(false);
    run_undivided(execution, are_marked ? &whole : execution->inputs);
}

static void execute_in_transform(const struct execution *execution, struct seeds *seeds) {
    seeds_take_whole(seeds, execution->inputs);
    struct vector whole = seeds_vector(seeds);
    OPAQUE_SCOPE;
    run(execution, &whole);
}

static void execute_at_user_level(const struct execution *execution) {
    __attribute__((cleanup(seeds_release))) struct seeds seeds;
    size_t count = vector_tensors(execution->inputs);
    seeds_begin(&seeds, count);
    if (is_of_transform(execution->roots, count, execution->outputs)) {
        execute_in_transform(execution, &seeds);
        return;
    }
    report_backward();
    bool is_nested = backward_is_divided() && own.inside == number;
    start_check_new_leaves();
    if (is_nested || seeds_come_from_rows(execution->roots, count))
        execute_divided(execution, &seeds, is_nested);
    else
        execute_undivided(execution, &seeds);
}

static void keeper_ends(const bool *keeps) {
    if (*keeps)
        graph_note_keeper(false);
}

void *hook_engine_execute(void *result, void *engine, void *roots, void *inputs, char keep_graph, char create_graph, char accumulate,
                          void *outputs) {
    const struct execution execution = {result, engine, roots, inputs, outputs, keep_graph, create_graph, accumulate};
    bool is_rank = shim_training_begins();
    __attribute__((cleanup(keeper_ends))) const bool keeps = is_rank && (keep_graph || create_graph);
    if (keeps)
        graph_note_keeper(true);
    if (!is_rank)
        shim_trains_elsewhere();
    if (!is_rank || dispatch_is_opaque() || regions_is_helper()) { /* a backward within a backward belongs to the outer one */
        run(&execution, inputs);
        return result;
    }
    if (shim_reads_example() && !threads_is_main()) { /* of a loader's worker, for an example: its own, of nothing that is divided */
        shim_note_draw();
        run_undivided(&execution, inputs);
        return result;
    }
    execute_at_user_level(&execution);
    shim_run_signals();
    return result;
}
