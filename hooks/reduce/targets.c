/*
 * Summing the gradients of a backward. They stay where the program has them: large ones are summed in memory that all ranks see (memory.c), where they lie in
 * it; all others go through shared memory in cache-sized chunks as one stream, so that many small parameters cost what one large one does.
 */
#include <stdio.h>
#include <stdlib.h>

#include "reduce.h"

struct target {
    struct tensor *gradient; /* borrowed: stands in the leaf's slot */
    struct tensor *copy;     /* owned: memory without gaps that takes the gradient's place; NULL: in place */
    struct tensor *host;     /* owned: the copy of one on a device in which it is summed; NULL: where it lies */
    bool is_of_others;       /* its memory is seen elsewhere, where it stays this rank's part */
    bool is_held;            /* by the program, perhaps */
    struct target *twin;     /* whose gradient is the same elements of one memory; NULL: nobody's */
    enum comm_dtype dtype;
    struct comm_span span;
    void *onto; /* the gradient's values from before, to which the collective adds the sum; NULL: added afterwards, if there were any */
};

struct targets {
    struct target *list;
    struct comm_span *spans;
    void **onto;
    size_t count;
    unsigned types[2]; /* bits of those that small spans, and large ones, have */
};

static void targets_free(struct targets *targets) {
    free(targets->list);
    free(targets->spans);
    free(targets->onto);
}

static void targets_drop_copies(struct targets *targets) {
    for (size_t i = 0; i < targets->count; i++) {
        tensor_release(targets->list[i].copy);
        tensor_release(targets->list[i].host);
    }
}

static size_t target_bytes(const struct target *target) {
    return target->span.count * comm_dtype_bytes(target->dtype);
}

/* May it lie where the other ranks see it? */
static bool is_large(const struct target *target) {
    return arena_is_open() && target_bytes(target) >= ARENA_LEAST_BYTES;
}

/* Is the memory of `before` all that adding to it changes, element by element in the order of the gradient's memory? */
static bool is_added_to_memory(struct tensor *before, struct tensor *gradient) {
    return tensor_is_ordinary(before) && tensor_is_ordinary(gradient) && !tensor_is_marked(before) && tensor_is_dense(before) &&
           tensor_same_layout(before, gradient);
}

/* ---- memory that others have, too */

/* A gradient, and whose memory it is. */
struct share {
    const void *storage;
    int64_t offset;
    size_t index; /* in the list */
};

static int by_storage(const void *one, const void *other) {
    const struct share *a = one, *b = other;
    int order = (a->storage > b->storage) - (a->storage < b->storage);
    order = order ? order : (a->offset > b->offset) - (a->offset < b->offset);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static bool is_shared(const struct leaf_gradient *leaf, struct tensor *gradient) {
    return tensor_is_plain(gradient) && tensor_has_memory(gradient) && !leaf->zeros && !unseen_has_reducer() &&
           storage_owners(tensor_storage(gradient)) > 1;
}

/* Two views of one gradient, as of a.unsqueeze(0) + b.unsqueeze(0), of whatever shape: they stay one memory, which one process clips twice, too. */
static bool are_twins(const struct backward *backward, size_t one, size_t other) {
    const struct leaf_gradient *leaves = backward->leaves;
    struct tensor *a = leaf_gradient_of(&leaves[one]), *b = leaf_gradient_of(&leaves[other]);
    return !leaves[one].before && !leaves[other].before && tensor_elements(a) == tensor_elements(b) && tensor_dtype(a) == tensor_dtype(b) &&
           tensor_is_dense(a) && tensor_is_dense(b);
}

/*
 * The sum may not be made in memory that flows on as this rank's part: the gradient that a backward within this one has left at a leaf of its own (a custom
 * function that returns x.grad); one that another branch of the graph, or a hook, has too. AccumulateGrad takes over any view that it is the only owner of,
 * whatever shares its memory: of w + p.view(3, 4) the gradients of both branches are one memory. What other leaves of the list have of it is summed, too.
 */
static void find_shared(const struct backward *backward, struct targets *targets) {
    struct share *shares = NULL;
    size_t count = 0;
    for (size_t i = 0; i < backward->count; i++) {
        struct tensor *gradient = leaf_gradient_of(&backward->leaves[i]);
        if (!is_shared(&backward->leaves[i], gradient))
            continue;
        shares = shares ? shares : malloc(backward->count * sizeof *shares);
        shares[count++] = (struct share){tensor_storage(gradient), tensor_storage_offset(gradient), i};
    }
    if (count)
        qsort(shares, count, sizeof *shares, by_storage);
    for (size_t first = 0, next; first < count; first = next) {
        size_t known = 0;
        for (next = first; next < count && shares[next].storage == shares[first].storage; next++)
            known++;
        bool is_of_others = storage_owners(shares[first].storage) > known;
        for (size_t at = first, twin = first; at < next; at++) {
            targets->list[shares[at].index].is_of_others = is_of_others;
            if (at == first || shares[at].offset != shares[twin].offset || !are_twins(backward, shares[twin].index, shares[at].index))
                twin = at;
            else
                targets->list[shares[at].index].twin = &targets->list[shares[twin].index];
        }
    }
    free(shares);
}

/* A copy of the first one's elements in the second one's shape, in the same memory: conjugated or negated where the one is, and the other is not. */
static struct tensor *twin_of(const struct target *first, struct tensor *gradient) {
    uint64_t differs = *tensor_key_set(first->gradient) ^ *tensor_key_set(gradient);
    struct value twin = value_tensor(capture_in_shape_of(first->copy, gradient));
    if (differs & torch_facts.bit_conjugate)
        value_replace(&twin, TORCH_CALL("aten::_conj", "", twin));
    if (differs & torch_facts.bit_negative)
        value_replace(&twin, TORCH_CALL("aten::_neg_view", "", twin));
    return twin.tensor;
}

static void put_twins_together(struct targets *targets) {
    for (size_t i = 0; i < targets->count; i++) {
        struct target *target = &targets->list[i];
        if (target->twin && target->twin->copy)
            target->copy = twin_of(target->twin, target->gradient);
    }
}

/* The program may hold it: it does not lose its record. */
static bool may_be_held(const struct leaf_gradient *leaf, const struct target *target) {
    bool is_part = record_get(target->gradient).kind == RECORD_PARTIAL;
    return is_part && !leaf->zeros && (target->is_of_others || tensor_owners(target->gradient) > 1);
}

static struct target target_of(const struct leaf_gradient *leaf, struct target target) {
    target.gradient = leaf_gradient_of(leaf);
    if (!tensor_is_plain(target.gradient))
        return target; /* sparse: nothing to sum in place */
    target.is_held = may_be_held(leaf, &target);
    target.is_of_others |= target.is_held;
    if (!target.is_held)
        record_clear(target.gradient);
    size_t factor;
    bool is_zero = *tensor_key_set(target.gradient) & torch_facts.bit_zero; /* the derivative of sgn: its clone has memory */
    if (!dtype_for_comm(tensor_dtype(target.gradient), &target.dtype, &factor) || (!is_zero && !tensor_has_memory(target.gradient)))
        shim_problem("AR-GRAD-KIND",
                     "Train a parameter of another type (float32, bfloat16), or run with -n 1: docs/limits.md says which can be summed.",
                     "the gradient of parameter %u (type %d) cannot be summed over the ranks", leaf_number(leaf->ordinal),
                     tensor_dtype(target.gradient));
    if (target.twin)
        return target;
    struct tensor *reduced = target.gradient;
    if (target.is_of_others || is_zero || !tensor_is_dense(reduced)) {
        struct value format = tensor_is_dense(reduced) ? value_none() : value_int(0);
        target.copy = TORCH_CALL("aten::clone", "", value_tensor(reduced), format).tensor;
        reduced = target.copy;
    }
    if (!tensor_is_on_host(reduced))
        reduced = target.host = host_copy(reduced);
    target.span = (struct comm_span){tensor_data(reduced), (size_t)tensor_elements(reduced) * factor};
    if (!target.copy && leaf->before && !leaf->is_copied && !leaf->is_half && is_large(&target) &&
        is_added_to_memory(leaf->before, target.gradient))
        target.onto = tensor_data(leaf->before);
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
            end = begin + target_bytes(target);
    }
    free(sorted);
}

/* A piece of memory that the sums write to. */
struct piece {
    const char *begin, *end;
    struct target *target;
};

static int by_begin(const void *one, const void *other) {
    const char *a = ((const struct piece *)one)->begin, *b = ((const struct piece *)other)->begin;
    return a < b ? -1 : a > b;
}

/* A program may have given two parameters the same memory for gradients: what is added there comes one after the other then, by put_back(). */
static void separate_onto(struct targets *targets) {
    size_t count = 0, onto_count = 0;
    for (size_t i = 0; i < targets->count; i++)
        onto_count += targets->list[i].onto != NULL;
    if (!onto_count)
        return;
    struct piece *pieces = malloc((2 * targets->count + 1) * sizeof *pieces);
    for (size_t i = 0; i < targets->count; i++) {
        struct target *target = &targets->list[i];
        const char *data = target->span.data, *onto = target->onto;
        if (data)
            pieces[count++] = (struct piece){data, data + target_bytes(target), target};
        if (onto)
            pieces[count++] = (struct piece){onto, onto + target_bytes(target), target};
    }
    qsort(pieces, count, sizeof *pieces, by_begin);
    for (size_t i = 0, next; i < count; i = next) {
        const char *end = pieces[i].end;
        for (next = i + 1; next < count && pieces[next].begin < end; next++)
            end = pieces[next].end > end ? pieces[next].end : end;
        for (size_t at = i; at < next && next - i > 1; at++)
            pieces[at].target->onto = NULL;
    }
    free(pieces);
}

static void sum_sparse(const struct backward *backward, struct targets *targets) {
    for (size_t i = 0; i < targets->count; i++) {
        char whose[40];
        if (tensor_is_plain(targets->list[i].gradient))
            continue;
        snprintf(whose, sizeof whose, "parameter %u", leaf_number(backward->leaves[i].ordinal));
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

/* The collective has added to its memory: whoever has saved it for a backward must hear of it, as of any write. */
static void note_write(struct tensor *gradient) {
    struct value none = TORCH_CALL("aten::narrow", "", value_tensor(gradient), value_int(0), value_int(0), value_int(0));
    value_drop(TORCH_CALL("aten::zero_", "", none));
    value_drop(none);
}

/* A copy takes the gradient's place in the leaf when memory was shared, else its values are written back. */
static void put_back_one(struct target *target, struct leaf_gradient *leaf) {
    struct tensor **slot = tensor_grad_slot(leaf->leaf);
    if (leaf->is_half && target->dtype == COMM_FLOAT32)
        half_overflow(target->span.data, target->span.count);
    if (target->host) {
        host_copy_values(target->copy ? target->copy : target->gradient, target->host);
        tensor_release(target->host);
    }
    if (target->copy) {
        *slot = target->copy;
        if (target->is_held && !leaf->before) /* in one process both have one memory: what is written to either is seen in the other */
            dispatch_client.stand_for(target->gradient, target->copy);
        tensor_release(target->gradient);
    }
    if (leaf->before && target->onto) {
        tensor_release(*slot);
        *slot = leaf->before;
        note_write(*slot);
    } else if (leaf->before && leaf->is_copied)
        *slot = accumulate(*slot, leaf->before);
    else if (leaf->before)
        *slot = accumulate(leaf->before, *slot);
    leaf->before = NULL;
    leaf->is_settled = true;
}

/* Adding to it may throw: one that the program has expanded. */
static bool may_throw(const struct leaf_gradient *leaf) {
    return leaf->before && tensor_is_plain(leaf->before) && !tensor_is_dense(leaf->before);
}

/* What may throw comes last: what had come before it in the backward is there then, as in one process. */
static void put_back(struct backward *backward, struct targets *targets) {
    GRAD_SCOPE(false); /* as the engine adds: a gradient may be a leaf itself, or have a history */
    put_twins_together(targets);
    for (size_t i = 0; i < targets->count; i++)
        if (!may_throw(&backward->leaves[i]))
            put_back_one(&targets->list[i], &backward->leaves[i]);
    for (size_t i = 0; i < targets->count; i++)
        if (!backward->leaves[i].is_settled)
            put_back_one(&targets->list[i], &backward->leaves[i]);
}

/* Notes the types that occur, and returns the list's hash with what the first collective does not compare because it does not sum it. */
static uint64_t look_through(struct targets *targets, uint64_t list) {
    for (size_t i = 0; i < targets->count; i++) {
        const struct target *target = &targets->list[i];
        bool large = is_large(target);
        targets->types[large] |= 1u << target->dtype;
        if (large)
            list = (list ^ target_bytes(target) ^ (uint64_t)target->dtype << 60) * 0x9E3779B97F4A7C15ull;
    }
    return list | 1;
}

/* The spans of one type, of one kind of size. */
static size_t spans_of(struct targets *targets, int dtype, bool large) {
    size_t count = 0;
    for (size_t i = 0; i < targets->count && targets->types[large] >> dtype & 1; i++) {
        const struct target *target = &targets->list[i];
        if ((int)target->dtype == dtype && is_large(target) == large) {
            targets->spans[count] = target->span;
            targets->onto[count++] = target->onto;
        }
    }
    return count;
}

/* Whether all ranks have this list is agreed in the first collective, at no price when there are small ones: false, nothing summed, when they have not. */
static bool sum_all(struct targets *targets, uint64_t list) {
    bool agreed = false;
    list = look_through(targets, list);
    for (int dtype = 0; dtype < COMM_DTYPES; dtype++) {
        size_t count = spans_of(targets, dtype, false);
        if (count && !comm_all_reduce_listed("gradients", agreed ? 0 : list, targets->spans, count, (enum comm_dtype)dtype, COMM_SUM))
            return false;
        agreed |= count > 0;
    }
    if (!agreed && !comm_all_reduce_listed("gradients", list, NULL, 0, COMM_FLOAT32, COMM_SUM))
        return false;
    for (int dtype = 0; dtype < COMM_DTYPES; dtype++) {
        size_t count = spans_of(targets, dtype, true);
        if (count)
            comm_all_reduce_in_place("gradients", targets->spans, targets->onto, count, (enum comm_dtype)dtype, COMM_SUM);
    }
    return true;
}

bool targets_sum(struct backward *backward, uint64_t list) {
    __attribute__((cleanup(targets_free))) struct targets targets = {.list = calloc(backward->count + 1, sizeof(struct target)),
                                                                     .spans = calloc(backward->count + 1, sizeof(struct comm_span)),
                                                                     .onto = calloc(backward->count + 1, sizeof(void *)),
                                                                     .count = backward->count};
    find_shared(backward, &targets);
    for (size_t i = 0; i < backward->count; i++)
        targets.list[i] = target_of(&backward->leaves[i], targets.list[i]);
    separate_overlaps(&targets);
    separate_onto(&targets);
    bool summed = sum_all(&targets, list);
    if (summed) {
        sum_sparse(backward, &targets);
        put_back(backward, &targets);
    } else
        targets_drop_copies(&targets);
    return summed;
}
