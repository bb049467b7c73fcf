/*
 * The gradients of one backward: which leaves take part, and that the ranks agree on them. Their sum is targets.c's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "reduce.h"

static int by_ordinal(const void *one, const void *other) {
    size_t a = ((const struct leaf_gradient *)one)->ordinal, b = ((const struct leaf_gradient *)other)->ordinal;
    return a < b ? -1 : a > b;
}

struct tensor *leaf_gradient_of(const struct leaf_gradient *leaf) {
    struct tensor *gradient = *tensor_grad_slot(leaf->leaf);
    return gradient && gradient != torch_facts.undefined ? gradient : NULL;
}

/* DistributedDataParallel has made of what was there before the gradient that has arrived, or has not. */
static void settle_copy(struct leaf_gradient *leaf) {
    struct tensor *gradient = leaf->copy && leaf->before ? leaf_gradient_of(leaf) : NULL;
    bool is_written = gradient && tensor_is_plain(gradient) && tensor_is_plain(leaf->before) && tensor_has_memory(gradient) &&
                      tensor_data(gradient) == tensor_data(leaf->before);
    if (is_written) {
        tensor_release(leaf->before);
        leaf->before = leaf->copy;
        leaf->is_copied = true;
    } else if (leaf->copy)
        tensor_release(leaf->copy);
    leaf->copy = NULL;
}

static void undo_one(struct leaf_gradient *leaf) {
    settle_copy(leaf);
    struct tensor **slot = tensor_grad_slot(leaf->leaf);
    if (leaf->zeros) {
        if (*slot == leaf->zeros) /* not by an operator: it may refuse, and this is a clean-up */
            memset(tensor_data(*slot), 0, tensor_bytes(*slot));
        return;
    }
    if (*slot != torch_facts.undefined)
        tensor_release(*slot);
    *slot = leaf->before ? leaf->before : torch_facts.undefined;
}

static int by_size(const void *one, const void *other) {
    size_t a = *(const size_t *)one, b = *(const size_t *)other;
    return a < b ? -1 : a > b;
}

/* The ordinals of all ranks' leaves, sorted, each once; owned. counts: how many each rank has. */
static size_t *gather_ordinals(const struct backward *backward, const uint64_t *counts, size_t *count) {
    size_t total = 0, *all, filled = 0;
    for (uint32_t rank = 0; rank < shim_world_size(); rank++)
        total += counts[rank];
    if (!(all = malloc(total * sizeof *all + 1)))
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.", "no memory for a list of %zu parameters",
                     total);
    for (uint32_t rank = 0; rank < shim_world_size(); filled += counts[rank++]) {
        for (size_t i = 0; rank == shim_rank() && i < backward->count; i++)
            all[filled + i] = backward->leaves[i].ordinal;
        if (counts[rank])
            comm_broadcast("parameters with gradients", all + filled, counts[rank] * sizeof *all, rank);
    }
    qsort(all, total, sizeof *all, by_size);
    for (size_t i = *count = 0; i < total; i++)
        if (!i || all[i] != all[i - 1])
            all[(*count)++] = all[i];
    return all;
}

/* A rank may reach fewer parameters than another. If none has reached them all, the ranks are not in the same backward: threads that train models of their
   own take turns in different orders, and the sum would mix the models. */
static void refuse_different_backwards(const uint64_t *counts, size_t count) {
    for (uint32_t rank = 0; rank < shim_world_size(); rank++)
        if (counts[rank] == count)
            return;
    shim_problem("AR-RANKS-PARTED", "Train one model after the other, in one thread, or run with -n 1.",
                 "the ranks' backwards reach different parameters: does the program train several models in threads of their own?");
}

/* In the layout that AccumulateGrad gives a gradient. Owned. */
static struct tensor *zeros_for(struct tensor *leaf) {
    bool is_contiguous = tensor_is_plain(leaf) && !tensor_is_dense(leaf);
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(leaf)), format = is_contiguous ? value_int(0) : value_none();
    struct value zeros = TORCH_CALL("aten::zeros_like", "", plain, value_none(), value_none(), value_none(), value_none(), format);
    value_drop(plain);
    return zeros.tensor;
}

/* What is there before is put aside, or left in place, as where the leaf was reached: the sum is made in the order of each rank's memory. */
static void add_zeros(struct backward *backward, size_t ordinal) {
    struct tensor *leaf = leaf_by_ordinal(ordinal);
    if (!leaf)
        return;
    {
        GRAD_SCOPE(false); /* as in the engine */
        ACCUMULATE_SCOPE(leaf);
        reached_add(backward, leaf, NULL);
    }
    struct leaf_gradient *added = &backward->leaves[backward->count - 1];
    if (!added->zeros)
        *tensor_grad_slot(leaf) = zeros_for(leaf);
    settle_copy(added);
}

/* The ordinals of the leaves that any rank has reached, where they are not the same on all; owned. */
static size_t *gather_different(const struct backward *backward, size_t *count) {
    uint64_t counts[BOARD_RANKS_MAX];
    comm_all_gather_words("number of parameters with gradients", backward->count, counts);
    size_t *ordinals = gather_ordinals(backward, counts, count);
    refuse_different_backwards(counts, *count);
    return ordinals;
}

/* Leaves that this rank did not reach but another did take part with zeros. Rare: ranks take the same branches. The list is sorted, and will be. */
static void add_missing(struct backward *backward) {
    size_t count, reached = backward->count, own = 0;
    size_t *ordinals = gather_different(backward, &count);
    for (size_t i = 0; i < count; i++) {
        if (own < reached && backward->leaves[own].ordinal == ordinals[i])
            own++;
        else
            add_zeros(backward, ordinals[i]);
    }
    free(ordinals);
    qsort(backward->leaves, backward->count, sizeof *backward->leaves, by_ordinal);
}

/* Leaves that got no defined gradient have none. The others in the order of their making, which is the same on all ranks. */
static void keep_reached(struct backward *backward) {
    size_t kept = 0;
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient leaf = backward->leaves[i];
        if (leaf_gradient_of(&leaf))
            backward->leaves[kept++] = leaf;
        else if (leaf.before)
            *tensor_grad_slot(leaf.leaf) = leaf.before;
    }
    backward->count = kept;
    qsort(backward->leaves, kept, sizeof *backward->leaves, by_ordinal);
}

static uint64_t list_hash(const struct backward *backward) {
    uint64_t hash = backward->count;
    for (size_t i = 0; i < backward->count; i++)
        hash = (hash ^ backward->leaves[i].ordinal) * 0x9E3779B97F4A7C15ull;
    return hash | 1; /* 0 means no list */
}

/* The gradient of a leaf that holds this rank's rows (features taken with detach().requires_grad_()), owned by its slot, in its final form. */
static void settle_divided(struct leaf_gradient *leaf, const struct record *record, bool has_graph) {
    struct tensor **slot = tensor_grad_slot(leaf->leaf), *fresh = *slot;
    record_clear(fresh);
    if (record->kind == RECORD_SHARD)
        record_set(fresh, *record);
    leaf->is_settled = !leaf->before;
    if (!leaf->before)
        return;
    GRAD_SCOPE(has_graph);
    struct record had = record_get(leaf->before);
    bool alike = had.kind == RECORD_SHARD && record->kind == RECORD_SHARD && had.dim == record->dim;
    struct tensor *added = alike ? fresh : dispatch_client.whole(fresh);
    if (has_graph) { /* the engine makes a new one then: what is there may be part of a graph */
        *slot = TORCH_CALL("aten::add", "Tensor", value_tensor(leaf->before), value_tensor(added), value_int(1)).tensor;
        if (alike || tensor_requires_grad(*slot))
            record_set(*slot, alike ? had : (struct record){.kind = RECORD_GATHERED});
        tensor_release(leaf->before);
    } else {
        value_drop(TORCH_CALL("aten::add_", "Tensor", value_tensor(leaf->before), value_tensor(added), value_int(1)));
        *slot = leaf->before;
        if (tensor_is_marked(*slot))
            dispatch_client.written(*slot);
    }
    leaf->before = NULL;
    leaf->is_settled = true;
    if (!alike)
        tensor_release(added);
    tensor_release(fresh);
}

/* A leaf whose rows are divided gets the gradient of its rows, and a leaf that is a part of a sum one that all ranks have: neither is summed. */
static void settle_divided_leaves(struct backward *backward) {
    size_t kept = 0;
    qsort(backward->leaves, backward->count, sizeof *backward->leaves,
          by_ordinal); /* the copies of what is written are made anew, on all ranks alike */
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient *leaf = &backward->leaves[i];
        struct record record = record_get(leaf->leaf);
        if ((record.kind == RECORD_SHARD || record.kind == RECORD_PARTIAL) && leaf_gradient_of(leaf))
            settle_divided(leaf, &record, backward->has_graph);
    }
    for (size_t i = 0; i < backward->count; i++)
        if (!backward->leaves[i].is_settled)
            backward->leaves[kept++] = backward->leaves[i];
    backward->count = kept;
}

/* Nothing can be added to a gradient that the program has expanded: the exception comes when the sums are added (targets.c). */
static bool will_throw(const struct leaf_gradient *leaf) {
    enum record_kind kind = record_get(leaf->leaf).kind;
    if (!leaf->before || !leaf_gradient_of(leaf) || !tensor_is_plain(leaf->before) || kind == RECORD_SHARD || kind == RECORD_PARTIAL)
        return false;
    struct sizes sizes = tensor_sizes(leaf->before), strides = tensor_strides(leaf->before);
    for (size_t i = 0; i < sizes.count; i++)
        if (sizes.data[i] > 1 && !strides.data[i])
            return true;
    return false;
}

/* In one process the backward ends there: what comes later in it has what it had before. */
static void forget_the_later(struct backward *backward) {
    size_t kept = 0, first = SIZE_MAX;
    for (size_t i = 0; i < backward->count; i++)
        if (backward->leaves[i].arrival < first && will_throw(&backward->leaves[i]))
            first = backward->leaves[i].arrival;
    for (size_t i = 0; i < backward->count; i++)
        if (backward->leaves[i].arrival <= first)
            backward->leaves[kept++] = backward->leaves[i];
        else
            undo_one(&backward->leaves[i]);
    backward->count = kept;
}

/* A leaf that is gone (a checkpoint's input, detached for a nested backward) is nobody's any more. */
static void forget_the_gone(struct backward *backward) {
    size_t kept = 0;
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient leaf = backward->leaves[i];
        if (leaf_has_ordinal(leaf.leaf, leaf.ordinal))
            backward->leaves[kept++] = leaf;
        else {
            tensor_release(leaf.before);
            tensor_release(leaf.copy);
        }
    }
    backward->count = kept;
}

static void stop_for_other_kinds(void) {
    shim_problem("AR-RANKS-PARTED", "Run this program with -n 1 and report it.",
                 "the ranks have gradients of different kinds for the same parameters");
}

/* create_graph. Zeros would have no graph: on their rank nobody would sum what flows back through the sum. */
static void agree_on_list(const struct backward *backward) {
    SHIM_COMM_SCOPE;
    if (comm_all_reduce_listed("gradients", list_hash(backward), NULL, 0, COMM_FLOAT32, COMM_SUM))
        return;
    size_t count;
    free(gather_different(backward, &count));
    shim_problem("AR-RANKS-PARTED",
                 "Let every rank reach all of them (add 0 times the sum of each), leave create_graph=True out, or run with -n 1.",
                 "the ranks' backwards reach different parameters, whose gradients are to be differentiated again (create_graph)");
}

/* Owned. */
static struct tensor *sum_of(struct tensor *gradient) {
    if (!tensor_is_plain(gradient)) {
        SHIM_COMM_SCOPE;
        return sparse_sum(gradient, "a parameter");
    }
    record_set(gradient, (struct record){.kind = RECORD_PARTIAL});
    return boundary_hand_out(dispatch_client.whole(gradient));
}

/* create_graph: the sum is part of the graph, and what was there before is added by it. */
static void sum_with_graph(struct backward *backward) {
    agree_on_list(backward);
    for (size_t i = 0; i < backward->count; i++) {
        struct tensor **slot = tensor_grad_slot(backward->leaves[i].leaf), *before = backward->leaves[i].before;
        struct value sum = value_tensor(sum_of(*slot));
        if (backward->leaves[i].is_half && tensor_is_plain(sum.tensor) && tensor_dtype(sum.tensor) == DTYPE_FLOAT32)
            half_overflow_tensor(sum.tensor);
        if (before) {
            struct value had = value_tensor(before);
            bool is_turned = !tensor_is_plain(before) && tensor_is_plain(sum.tensor); /* a dense one is added to no sparse one */
            struct value total = TORCH_CALL("aten::add", "Tensor", is_turned ? sum : had, is_turned ? had : sum, value_int(1));
            value_drop(sum);
            tensor_release(before);
            backward->leaves[i].before = NULL;
            sum = total;
        } else { /* not a view, which zero_grad() could not detach in place */
            struct value own = TORCH_CALL("aten::clone", "", sum, value_none());
            value_drop(sum);
            sum = own;
        }
        tensor_release(*slot);
        *slot = sum.tensor;
        backward->leaves[i].is_settled = true;
        if (tensor_requires_grad(sum.tensor))
            record_set(sum.tensor, (struct record){.kind = RECORD_GATHERED});
    }
}

static void sum(struct backward *backward) {
    SHIM_COMM_SCOPE;
    drift_next(backward);
    if (targets_sum(backward, list_hash(backward) ^ drift_word(backward)))
        return;
    add_missing(backward);
    drift_examine(backward);
    if (!targets_sum(backward, list_hash(backward)))
        stop_for_other_kinds();
}

/* A gradient of the program's own, which it may have as rows, too. */
static void tell_of_writes(struct backward *backward) {
    for (size_t i = 0; i < backward->count; i++) {
        struct tensor *gradient = *tensor_grad_slot(backward->leaves[i].leaf);
        if (gradient != torch_facts.undefined && tensor_is_marked(gradient))
            dispatch_client.written(gradient);
    }
}

void reduce_gradients(struct backward *backward) {
    forget_the_gone(backward);
    for (size_t i = 0; i < backward->count; i++)
        settle_copy(&backward->leaves[i]);
    if (!backward->has_graph)
        forget_the_later(backward);
    settle_divided_leaves(backward);
    keep_reached(backward);
    for (size_t i = 0; i < backward->count; i++)
        start_check_used_leaf(backward->leaves[i].ordinal);
    if (backward->has_graph) {
        GRAD_SCOPE(true); /* as in the engine, whatever the caller's mode is */
        sum_with_graph(backward);
        return;
    }
    sum(backward);
    tell_of_writes(backward);
}

void reduce_undo(struct backward *backward) {
    forget_the_gone(backward);
    for (size_t i = 0; i < backward->count; i++)
        if (!backward->leaves[i].is_settled)
            undo_one(&backward->leaves[i]);
}
