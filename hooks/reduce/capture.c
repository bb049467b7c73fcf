/*
 * torch::autograd::grad: the gradient of divided rows is divided like them, that of anything replicated (parameters, a whole batch) is summed over the ranks.
 * With create_graph both stay part of the graph.
 */
#include <stdlib.h>

#include "reduce.h"

/* Edge: the node, last its output's number (4 bytes, padded to 8). */
uint32_t edge_output(const char *edge, size_t edge_bytes) {
    return *(const uint32_t *)(edge + edge_bytes - 8);
}

struct tensor *edge_leaf(const char *edge) {
    void *node = *(void *const *)edge;
    return node && node_is_accumulator(node) ? leaf_of_node(node) : NULL;
}

static struct record record_of_edge(const char *edge, size_t edge_bytes) {
    void *node = *(void *const *)edge;
    struct tensor *leaf = edge_leaf(edge);
    if (leaf) {
        struct record record = record_get(leaf);
        record.origin.calls = leaf_ordinal(leaf) + 1;
        return record;
    }
    struct record record = record_of_output(node, edge_output(edge, edge_bytes));
    if (record.kind == RECORD_NONE)
        edges_find(node, edge_output(edge, edge_bytes), &record);
    return record;
}

bool capture_is_of_wrapped(const struct vector *edges, size_t edge_bytes) {
    for (const char *edge = edges->begin; edge_bytes && edge < edges->end; edge += edge_bytes) {
        struct tensor *leaf = edge_leaf(edge);
        if (leaf && *tensor_key_set(leaf) & torch_facts.bit_wrapped)
            return true;
    }
    return false;
}

void capture_begin(struct capture *capture, const struct vector *edges, size_t edge_bytes) {
    capture->count = edge_bytes ? (size_t)(edges->end - edges->begin) / edge_bytes : 0;
    capture->tensors = malloc((capture->count + 1) * sizeof *capture->tensors);
    for (size_t i = 0; i < capture->count; i++)
        capture->tensors[i] = record_of_edge(edges->begin + i * edge_bytes, edge_bytes);
}

/* Of leaves alike in shape, listed in a set's order, each rank may have asked for another one. */
static void note_place(const struct record *tensor) {
    SHIM_NOTE_SCOPE;
    comm_note("tensor that a gradient is asked for", tensor->origin.calls);
}

/* Takes the gradient. Owned. */
static struct tensor *final_gradient(struct tensor *gradient, const struct record *tensor) {
    note_place(tensor);
    if (!tensor_is_plain(gradient)) {
        SHIM_COMM_SCOPE;
        struct tensor *sum = sparse_sum(gradient, "torch.autograd.grad");
        tensor_release(gradient);
        return sum;
    }
    struct record record = boundary_record_of_gradient(tensor);
    struct tensor *seen = boundary_show(gradient, &record);
    tensor_release(gradient);
    if (record.kind == RECORD_SHARD)
        return seen;
    struct tensor *whole = dispatch_client.whole(seen);
    tensor_release(seen);
    return boundary_hand_out(whole);
}

/* What the engine has returned for several places as one tensor, or as views of one, is so for the program, too, which may write to it. */
struct shared {
    struct tensor **list; /* as many as gradients; owned, as the engine has returned them; NULL: nobody else has it */
    size_t count;
};

static void shared_drop(struct shared *shared) {
    for (size_t i = 0; i < shared->count; i++)
        tensor_release(shared->list[i]);
    free(shared->list);
}

static bool is_shared(struct tensor *gradient) {
    if (gradient == torch_facts.undefined || !tensor_is_plain(gradient))
        return false;
    return tensor_owners(gradient) > 1 || (tensor_has_memory(gradient) && storage_owners(tensor_storage(gradient)) > 1);
}

static void shared_find(struct shared *shared, const struct vector *gradients) {
    size_t count = vector_tensors(gradients);
    shared->list = calloc(count + 1, sizeof *shared->list);
    for (size_t i = 0; i < count; i++)
        shared->list[i] = is_shared(*vector_tensor(gradients, i)) ? *vector_tensor(gradients, i) : NULL;
    for (; shared->count < count; shared->count++)
        if (shared->list[shared->count])
            tensor_retain(shared->list[shared->count]);
}

/* Both are the same elements of one memory, of whatever shape, and `made` is the sum of the one over the ranks, as it lies. */
static bool are_twins(struct tensor *one, struct tensor *other, struct tensor *made) {
    uint64_t differs = (*tensor_key_set(one) ^ *tensor_key_set(other)) | (*tensor_key_set(one) ^ *tensor_key_set(made));
    if (tensor_requires_grad(made) || tensor_is_marked(made) || differs & (torch_facts.bit_conjugate | torch_facts.bit_negative))
        return false;
    return tensor_has_memory(one) && tensor_has_memory(other) && tensor_storage(one) == tensor_storage(other) &&
           tensor_storage_offset(one) == tensor_storage_offset(other) && tensor_elements(one) == tensor_elements(other) &&
           tensor_dtype(one) == tensor_dtype(other) && tensor_is_dense(one) && tensor_is_dense(other) && tensor_same_layout(one, made);
}

struct tensor *capture_in_shape_of(struct tensor *made, struct tensor *gradient) {
    struct sizes sizes = tensor_sizes(gradient), strides = tensor_strides(gradient);
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(made));
    struct value twin = TORCH_CALL("aten::as_strided", "", plain, value_int_list(sizes.data, sizes.count),
                                   value_int_list(strides.data, strides.count), value_int(tensor_storage_offset(made)));
    value_drop(plain);
    return twin.tensor;
}

/* What the gradient is where one before it is the same: owned; NULL: none is. */
static struct tensor *made_before(const struct capture *capture, const struct vector *gradients, const struct shared *shared,
                                  size_t index) {
    struct tensor *own = shared->list[index];
    struct record form = boundary_record_of_gradient(&capture->tensors[index]);
    for (size_t i = 0; own && i < index; i++) {
        struct tensor *other = shared->list[i], *made = *vector_tensor(gradients, i);
        struct record of_other = other ? boundary_record_of_gradient(&capture->tensors[i]) : form;
        if (!other || of_other.kind != form.kind || (form.kind == RECORD_SHARD && own != other))
            continue;
        if (own == other) {
            tensor_retain(made);
            return made;
        }
        if (are_twins(other, own, made))
            return capture_in_shape_of(made, own);
    }
    return NULL;
}

/* ---- sums over the ranks without a history: one collective for all of a type, in which the elements are added as backward() adds those of leaves (targets.c):
   in one process both are the same numbers. */

struct part {
    struct tensor *sum;  /* a copy of the gradient, in whose place it stands */
    struct tensor *host; /* owned: where one on a device is summed; NULL: where it lies */
    enum comm_dtype dtype;
    struct comm_span span;
};

struct parts {
    struct part *list;
    struct comm_span *spans;
    size_t count;
};

/* Memory is added to memory. */
static void note_layout(struct tensor *tensor) {
    SHIM_NOTE_SCOPE;
    comm_note("memory layout of a gradient", layout_hash(tensor));
}

static void parts_begin(struct parts *parts, size_t most) {
    parts->list = malloc((most + 1) * sizeof *parts->list);
    parts->spans = malloc((most + 1) * sizeof *parts->spans);
}

static void parts_drop(struct parts *parts) {
    free(parts->list);
    free(parts->spans);
}

/* The same on all ranks. */
static bool is_part(struct tensor *gradient, const struct record *tensor) {
    enum comm_dtype dtype;
    size_t factor;
    return !grad_mode_is_enabled() && tensor_has_memory(gradient) && !tensor_requires_grad(gradient) &&
           !dispatch_is_of_subclass(*tensor_key_set(gradient)) && dtype_for_comm(tensor_dtype(gradient), &dtype, &factor) &&
           boundary_record_of_gradient(tensor).kind == RECORD_PARTIAL;
}

/* Takes the gradient, whose memory others may have, too. Owned; its values are there when all are summed. */
static struct tensor *part_add(struct parts *parts, struct tensor *gradient, const struct record *tensor) {
    OUTSIDE_TRANSFORM_SCOPE;
    size_t factor = 1;
    struct part *part = &parts->list[parts->count++];
    note_place(tensor);
    part->sum = TORCH_CALL("aten::clone", "", value_tensor(gradient), value_none()).tensor;
    tensor_release(gradient);
    record_clear(part->sum);
    note_layout(part->sum);
    dtype_for_comm(tensor_dtype(part->sum), &part->dtype, &factor);
    part->host = tensor_is_on_host(part->sum) ? NULL : host_copy(part->sum);
    part->span = (struct comm_span){tensor_data(part->host ? part->host : part->sum), (size_t)tensor_elements(part->sum) * factor};
    return part->sum;
}

static void parts_sum(struct parts *parts) {
    if (!parts->count) /* a turn that is taken must be used (shard/write.c) */
        return;
    SHIM_COMM_SCOPE;
    for (int dtype = 0; dtype < COMM_DTYPES; dtype++) {
        size_t count = 0;
        for (size_t i = 0; i < parts->count; i++)
            if ((int)parts->list[i].dtype == dtype)
                parts->spans[count++] = parts->list[i].span;
        if (count)
            comm_all_reduce("gradients that are asked for", parts->spans, count, (enum comm_dtype)dtype, COMM_SUM);
    }
    for (size_t i = 0; i < parts->count; i++)
        if (parts->list[i].host) {
            host_copy_values(parts->list[i].sum, parts->list[i].host);
            tensor_release(parts->list[i].host);
        }
}

void capture_end(const struct capture *capture, const struct vector *gradients) {
    OPAQUE_SCOPE;
    if (!capture->count)
        return;
    __attribute__((cleanup(shared_drop))) struct shared shared = {};
    __attribute__((cleanup(parts_drop))) struct parts parts = {};
    shared_find(&shared, gradients);
    parts_begin(&parts, capture->count);
    for (size_t i = 0; i < capture->count && i < vector_tensors(gradients); i++) {
        struct tensor **gradient = vector_tensor(gradients, i);
        if (*gradient == torch_facts.undefined)
            continue;
        struct tensor *made = made_before(capture, gradients, &shared, i);
        if (!made) {
            *gradient = is_part(*gradient, &capture->tensors[i]) ? part_add(&parts, *gradient, &capture->tensors[i])
                                                                 : final_gradient(*gradient, &capture->tensors[i]);
            continue;
        }
        note_place(&capture->tensors[i]);
        tensor_release(*gradient);
        *gradient = made;
    }
    parts_sum(&parts);
}

void capture_free(struct capture *capture) {
    free(capture->tensors);
}
