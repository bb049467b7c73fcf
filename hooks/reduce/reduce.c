/*
 * Summing the gradients of one backward. They stay where the program has them: the collective takes a list of spans and passes them through shared memory in
 * cache-sized chunks as one stream, so many small parameters cost what one large one does.
 */
#include <stdio.h>
#include <stdlib.h>

#include "reduce.h"

struct target {
    struct tensor *gradient; /* borrowed: stands in the leaf's slot */
    struct tensor *copy;     /* owned: contiguous memory that is reduced instead; NULL: in place */
    enum comm_dtype dtype;
    struct comm_span span;
};

struct targets {
    struct target *list;
    struct comm_span *spans;
    size_t count;
};

static void targets_free(struct targets *targets) {
    free(targets->list);
    free(targets->spans);
}

static void targets_drop_copies(struct targets *targets) {
    for (size_t i = 0; i < targets->count; i++)
        if (targets->list[i].copy)
            tensor_release(targets->list[i].copy);
}

static int by_ordinal(const void *one, const void *other) {
    size_t a = ((const struct leaf_gradient *)one)->ordinal, b = ((const struct leaf_gradient *)other)->ordinal;
    return a < b ? -1 : a > b;
}

/* Gradients arrive from the last layer to the first: mostly the other way round. */
static void sort_leaves(struct backward *backward) {
    struct leaf_gradient *leaves = backward->leaves;
    bool is_reversed = true;
    for (size_t i = 1; i < backward->count && is_reversed; i++)
        is_reversed = leaves[i].ordinal < leaves[i - 1].ordinal;
    if (!is_reversed) {
        qsort(leaves, backward->count, sizeof *leaves, by_ordinal);
        return;
    }
    for (size_t i = 0, j = backward->count; i + 1 < j; i++) {
        struct leaf_gradient last = leaves[--j];
        leaves[j] = leaves[i];
        leaves[i] = last;
    }
}

static struct tensor *gradient_of(const struct leaf_gradient *leaf) {
    struct tensor *gradient = *tensor_grad_slot(leaf->leaf);
    return gradient && gradient != torch_facts.undefined ? gradient : NULL;
}

/* A rank may reach fewer parameters than another. If none has reached them all, the ranks are not in the same backward: threads that train models of their
   own take turns in different orders, and the sum would mix the models. */
static void refuse_different_backwards(bool has_all) {
    uint64_t all[BOARD_RANKS_MAX];
    bool somebody = false;
    comm_all_gather_words("has all parameters with gradients", has_all, all);
    for (uint32_t rank = 0; rank < shim_world_size(); rank++)
        somebody |= all[rank];
    if (!somebody)
        shim_problem("AR-RANKS-PARTED", "Train one model after the other, in one thread, or run with -n 1.",
                     "the ranks' backwards reach different parameters: does the program train several models in threads of their own?");
}

/* Leaves that this rank did not reach but another did take part with zeros. Rare: ranks take the same branches. */
static void add_missing(struct backward *backward) {
    size_t count = leaf_count();
    uint8_t *reached = calloc(count ? count : 1, 1);
    for (size_t i = 0; i < backward->count; i++)
        reached[backward->leaves[i].ordinal] = 1;
    struct comm_span span = {reached, count};
    comm_note("number of parameters", count);
    comm_all_reduce("parameters with gradients", &span, 1, COMM_UINT8, COMM_MAX);
    for (size_t i = 0; i < backward->count; i++)
        reached[backward->leaves[i].ordinal] = 0;
    refuse_different_backwards(!memchr(reached, 1, count));
    for (size_t ordinal = 0; ordinal < count; ordinal++) {
        struct tensor *leaf = reached[ordinal] ? leaf_by_ordinal(ordinal) : NULL;
        if (!leaf)
            continue;
        struct tensor **slot = tensor_grad_slot(leaf);
        bool has_gradient = *slot && *slot != torch_facts.undefined;
        struct value plain = TORCH_CALL("aten::detach", "", value_tensor(leaf));
        struct value zeros =
            TORCH_CALL("aten::zeros_like", "", plain, value_none(), value_none(), value_none(), value_none(), value_none());
        value_drop(plain);
        backward->leaves = realloc(backward->leaves, (backward->count + 1) * sizeof *backward->leaves);
        backward->room = ++backward->count;
        backward->leaves[backward->count - 1] = (struct leaf_gradient){leaf, ordinal, has_gradient ? *slot : NULL, false};
        *slot = zeros.tensor;
    }
    free(reached);
}

/* Leaves that got no defined gradient have none. The others in the order of their making, which is the same on all ranks. */
static void keep_reached(struct backward *backward) {
    size_t kept = 0;
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient leaf = backward->leaves[i];
        if (gradient_of(&leaf))
            backward->leaves[kept++] = leaf;
        else if (leaf.before)
            *tensor_grad_slot(leaf.leaf) = leaf.before;
    }
    backward->count = kept;
    sort_leaves(backward);
}

static uint64_t list_hash(const struct backward *backward) {
    uint64_t hash = backward->count;
    for (size_t i = 0; i < backward->count; i++)
        hash = (hash ^ backward->leaves[i].ordinal) * 0x9E3779B97F4A7C15ull;
    return hash | 1; /* 0 means no list */
}

static struct target target_of(const struct leaf_gradient *leaf) {
    struct target target = {.gradient = gradient_of(leaf)};
    if (!tensor_is_plain(target.gradient))
        return target; /* sparse: nothing to sum in place */
    record_clear(target.gradient);
    size_t factor;
    if (!dtype_for_comm(tensor_dtype(target.gradient), &target.dtype, &factor) || !tensor_is_on_host(target.gradient))
        shim_problem("AR-GRAD-KIND", "Please report the parameter's type and device.",
                     "the gradient of parameter %zu (type %d) cannot be summed over the ranks", leaf->ordinal,
                     tensor_dtype(target.gradient));
    struct tensor *reduced = target.gradient;
    if (!tensor_is_dense(reduced)) {
        target.copy = TORCH_CALL("aten::clone", "", value_tensor(reduced), value_int(0)).tensor;
        reduced = target.copy;
    }
    target.span = (struct comm_span){tensor_data(reduced), (size_t)tensor_elements(reduced) * factor};
    return target;
}

static int by_address(const void *one, const void *other) {
    const char *a = (*(struct target *const *)one)->span.data, *b = (*(struct target *const *)other)->span.data;
    return a < b ? -1 : a > b;
}

/* Autograd lets two gradients share memory (the gradients of a and b in a + b.t() are one tensor and its transpose); summing it twice would be wrong. */
static void separate_overlaps(struct targets *targets) {
    struct target **sorted = malloc((targets->count + 1) * sizeof(struct target *));
    for (size_t i = 0; i < targets->count; i++)
        sorted[i] = &targets->list[i];
    qsort(sorted, targets->count, sizeof *sorted, by_address);
    const char *end = NULL;
    for (size_t i = 0; i < targets->count; i++) {
        struct target *target = sorted[i];
        const char *begin = target->span.data;
        if (begin < end && target->span.count) {
            struct value own = TORCH_CALL("aten::clone", "", value_tensor(target->gradient), value_none());
            target->copy = own.tensor;
            target->span.data = tensor_data(own.tensor);
        } else if (target->span.count)
            end = begin + target->span.count * comm_dtype_bytes(target->dtype);
    }
    free(sorted);
}

static void sum_sparse(const struct backward *backward, struct targets *targets) {
    for (size_t i = 0; i < targets->count; i++) {
        char whose[40];
        if (tensor_is_plain(targets->list[i].gradient))
            continue;
        snprintf(whose, sizeof whose, "parameter %zu", backward->leaves[i].ordinal);
        targets->list[i].copy = sparse_sum(targets->list[i].gradient, whose);
    }
}

/* before += added, as one process accumulates: a sparse one that a dense one is added to becomes dense. Takes both, owned result. */
static struct tensor *accumulate(struct tensor *before, struct tensor *added) {
    bool turned = !tensor_is_plain(before) && tensor_is_plain(added);
    struct tensor *sum = turned ? added : before, *other = turned ? before : added;
    value_drop(TORCH_CALL("aten::add_", "Tensor", value_tensor(sum), value_tensor(other), value_int(1)));
    tensor_release(other);
    return sum;
}

/* A copy takes the gradient's place in the leaf when memory was shared, else its values are written back. */
static void put_back(struct backward *backward, struct targets *targets) {
    for (size_t i = 0; i < targets->count; i++) {
        struct target *target = &targets->list[i];
        struct leaf_gradient *leaf = &backward->leaves[i];
        struct tensor **slot = tensor_grad_slot(leaf->leaf);
        if (target->copy) {
            *slot = target->copy;
            tensor_release(target->gradient);
        }
        if (!leaf->before)
            continue;
        *slot = accumulate(leaf->before, *slot);
        leaf->before = NULL;
    }
}

/* Whether all ranks have this list is agreed in the first collective, at no price when they have: false, nothing summed, when they have not. */
static bool sum_targets(struct targets *targets, uint64_t list) {
    bool agreed = false;
    for (int dtype = 0; dtype < COMM_DTYPES; dtype++) {
        size_t count = 0;
        for (size_t i = 0; i < targets->count; i++)
            if ((int)targets->list[i].dtype == dtype)
                targets->spans[count++] = targets->list[i].span;
        if (!count)
            continue;
        if (!comm_all_reduce_listed("gradients", agreed ? 0 : list, targets->spans, count, (enum comm_dtype)dtype, COMM_SUM))
            return false;
        agreed = true;
    }
    return agreed || comm_all_reduce_listed("gradients", list, NULL, 0, COMM_FLOAT32, COMM_SUM);
}

/* The gradient of a leaf that holds this rank's rows (features taken with detach().requires_grad_()), owned by its slot, in its final form. */
static void settle_divided(const struct leaf_gradient *leaf, const struct record *record) {
    struct tensor **slot = tensor_grad_slot(leaf->leaf), *fresh = *slot;
    record_clear(fresh);
    if (record->kind == RECORD_SHARD)
        record_set(fresh, *record);
    if (!leaf->before)
        return;
    struct record had = record_get(leaf->before);
    bool alike = had.kind == RECORD_SHARD && record->kind == RECORD_SHARD && had.dim == record->dim;
    struct tensor *added = alike ? fresh : dispatch_client.whole(fresh);
    *slot = leaf->before;
    value_drop(TORCH_CALL("aten::add_", "Tensor", value_tensor(*slot), value_tensor(added), value_int(1)));
    if (!alike)
        tensor_release(added);
    tensor_release(fresh);
}

/* A leaf whose rows are divided gets the gradient of its rows, and a leaf that is a part of a sum one that all ranks have: neither is summed. */
static void settle_divided_leaves(struct backward *backward) {
    size_t kept = 0;
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient leaf = backward->leaves[i];
        struct record record = record_get(leaf.leaf);
        if ((record.kind != RECORD_SHARD && record.kind != RECORD_PARTIAL) || !gradient_of(&leaf))
            backward->leaves[kept++] = leaf;
        else
            settle_divided(&leaf, &record);
    }
    backward->count = kept;
}

/* A leaf that is gone (a checkpoint's input, detached for a nested backward) is nobody's any more. */
static void forget_the_gone(struct backward *backward) {
    size_t kept = 0;
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient leaf = backward->leaves[i];
        if (leaf_has_ordinal(leaf.leaf, leaf.ordinal))
            backward->leaves[kept++] = leaf;
        else
            tensor_release(leaf.before);
    }
    backward->count = kept;
}

void reduce_mark_parts(struct backward *backward) {
    forget_the_gone(backward);
    settle_divided_leaves(backward);
    for (size_t i = 0; i < backward->count; i++) {
        struct tensor *gradient = gradient_of(&backward->leaves[i]);
        if (gradient && tensor_is_plain(gradient))
            record_set(gradient, (struct record){.kind = RECORD_PARTIAL});
    }
}

static void stop_for_other_kinds(void) {
    shim_problem("AR-RANKS-PARTED", "Run this program with -n 1 and report it.",
                 "the ranks have gradients of different kinds for the same parameters");
}

static void agree_on_list(const struct backward *backward) {
    SHIM_COMM_SCOPE;
    if (!comm_all_reduce_listed("gradients", list_hash(backward), NULL, 0, COMM_FLOAT32, COMM_SUM))
        stop_for_other_kinds();
}

/* create_graph: the sum is part of the graph, and what was there before is added by it. */
static void sum_with_graph(struct backward *backward) {
    agree_on_list(backward);
    for (size_t i = 0; i < backward->count; i++) {
        struct tensor **slot = tensor_grad_slot(backward->leaves[i].leaf), *before = backward->leaves[i].before;
        record_set(*slot, (struct record){.kind = RECORD_PARTIAL});
        struct value sum = value_tensor(dispatch_client.whole(*slot));
        if (before) {
            struct value total = TORCH_CALL("aten::add", "Tensor", value_tensor(before), sum, value_int(1));
            value_drop(sum);
            tensor_release(before);
            backward->leaves[i].before = NULL;
            sum = total;
        }
        tensor_release(*slot);
        *slot = sum.tensor;
        if (tensor_requires_grad(sum.tensor))
            record_set(sum.tensor, (struct record){.kind = RECORD_GATHERED});
    }
}

/* word: of what else must be the same where the lists are; 0: nothing. */
static bool sum_listed(struct backward *backward, uint64_t word) {
    __attribute__((cleanup(targets_free))) struct targets targets = {.list = calloc(backward->count + 1, sizeof(struct target)),
                                                                     .spans = calloc(backward->count + 1, sizeof(struct comm_span)),
                                                                     .count = backward->count};
    for (size_t i = 0; i < backward->count; i++)
        targets.list[i] = target_of(&backward->leaves[i]);
    separate_overlaps(&targets);
    bool summed = sum_targets(&targets, (list_hash(backward) ^ word) | 1);
    if (summed) {
        sum_sparse(backward, &targets);
        put_back(backward, &targets);
    } else
        targets_drop_copies(&targets);
    return summed;
}

void reduce_gradients(struct backward *backward) {
    forget_the_gone(backward);
    settle_divided_leaves(backward);
    keep_reached(backward);
    if (backward->has_graph) {
        sum_with_graph(backward);
        return;
    }
    SHIM_COMM_SCOPE;
    drift_next();
    if (sum_listed(backward, drift_word(backward)))
        return;
    add_missing(backward);
    sort_leaves(backward);
    drift_examine(backward);
    if (!sum_listed(backward, 0))
        stop_for_other_kinds();
}

void reduce_undo(struct backward *backward) {
    for (size_t i = 0; i < backward->count; i++) {
        struct leaf_gradient *leaf = &backward->leaves[i];
        struct tensor **slot = tensor_grad_slot(leaf->leaf);
        if (leaf->was_zero) {
            value_drop(TORCH_CALL("aten::zero_", "", value_tensor(*slot)));
            continue;
        }
        if (*slot != torch_facts.undefined)
            tensor_release(*slot);
        *slot = leaf->before ? leaf->before : torch_facts.undefined;
    }
}
