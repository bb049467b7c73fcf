/* What a window (window.c) asks of the tensor that was gathered, and of what is written. */
#include "window.h"

void window_take_rows(struct tensor *source, const struct record *record, struct tensor *whole) {
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct value rows = TORCH_CALL("aten::detach", "", value_tensor(source)), plain = TORCH_CALL("aten::detach", "", value_tensor(whole));
    rows_put(plain.tensor, record, rows.tensor);
    value_drop(rows);
    value_drop(plain);
}

struct tensor *window_stand_in(struct tensor *source) {
    struct record record = record_get(source);
    struct tensor *whole = dispatch_client.whole(source);
    window_open(source, &record, whole);
    mark_gathered(whole, true);
    return whole;
}

/* The window has a tensor of its own of that memory: one that Python has seen and we hold stays Python's for good (2.13), and the window open. */
void window_stand_for(struct tensor *source, struct tensor *whole) {
    struct record record = record_get(source);
    {
        OPAQUE_SCOPE;
        struct value own = TORCH_CALL("aten::detach", "", value_tensor(whole));
        record_clear(own.tensor);
        window_open(source, &record, own.tensor);
        value_drop(own);
    }
    mark_gathered(whole, true);
}

static bool has_class(void *node, const char *const *classes, size_t count) {
    const char *class = virtual_class(node);
    for (size_t i = 0; class && i < count; i++)
        if (strstr(class, classes[i]))
            return !strstr(class, "Unsafe") && !strstr(class, "IndexSelect") && !strstr(class, "MaskedSelect");
    return false;
}

/* Itself, or a view of such a one. */
bool window_is_of_many(struct tensor *source) {
    static const char *const many[] = {"SplitBackward", "SplitWithSizesBackward", "UnbindBackward"},
                             *const views[] = {"SelectBackward",      "SliceBackward",     "ViewBackward",      "AliasBackward",
                                               "TBackward",           "TransposeBackward", "PermuteBackward",   "SqueezeBackward",
                                               "ExpandBackward",      "UnsqueezeBackward", "AsStridedBackward", "DiagonalBackward",
                                               "ReshapeAliasBackward"};
    void *node = tensor_node(source);
    while (node && has_class(node, views, sizeof views / sizeof *views)) {
        const struct vector *edges = graph_edges_of(node);
        node = graph_edges(edges) ? graph_edge(edges, 0) : NULL;
    }
    return node && has_class(node, many, sizeof many / sizeof *many);
}

const void *window_counter(struct tensor *tensor) {
    return torch_facts.version ? *(void **)((char *)tensor + torch_facts.version) : NULL;
}

bool window_counts_apart(const struct window *window, const struct window *through, const struct written *written) {
    if (!written || !written->counter)
        return false;
    const void *source = window_counter(window->source);
    return through ? written->counter != window_counter(through->whole) || window_counter(through->source) != source
                   : written->counter != source;
}

struct value window_values_of(struct tensor *tensor, bool apart) {
    return apart ? TORCH_CALL("aten::data", "", value_tensor(tensor)) : TORCH_CALL("aten::detach", "", value_tensor(tensor));
}

bool window_is_view(struct tensor *whole) {
    if (tensor_is_lazy(whole))
        return tensor_requires_grad(whole);
    struct sizes sizes = tensor_sizes(whole), strides = tensor_strides(whole);
    for (size_t i = 0; i < sizes.count; i++)
        if (!strides.data[i] && sizes.data[i] > 1)
            return tensor_requires_grad(whole);
    return false;
}

uint32_t window_owns(const struct window *window) {
    return window_is_view(window->whole) ? 2 : 1;
}

bool window_are_one(struct tensor *one, struct tensor *other) {
    return tensor_same_layout(one, other) && tensor_own_offset(one) == tensor_own_offset(other);
}

struct value window_part(struct tensor *tensor, const struct extent *extent) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    struct value part = TORCH_CALL("aten::as_strided", "", plain, value_int_list(extent->sizes, (size_t)extent->dims),
                                   value_int_list(extent->strides, (size_t)extent->dims), value_int(extent->offset));
    value_drop(plain);
    return part;
}

/* What is written to one counts for the other, or what is written to either counts for nobody else (h.data). */
static bool count_alike(struct tensor *one, struct tensor *other) {
    const void *ones = window_counter(one), *others = window_counter(other);
    return torch_facts.version && (ones == others || (ones && others && tensor_owners(ones) == 1 && tensor_owners(others) == 1));
}

bool window_is_twin(struct tensor *source, const struct record *record, struct tensor *other) {
    struct record now = record_get(source), others = record_get(other);
    if (tensor_own_storage(source) != tensor_own_storage(other) || now.kind != RECORD_SHARD || others.kind != RECORD_SHARD ||
        others.dim != record->dim || !record_same_rows(&others, record) || tensor_requires_grad(source) || tensor_requires_grad(other))
        return false;
    return window_are_one(source, other) && tensor_dtype(source) == tensor_dtype(other) && !tensor_is_lazy(source) &&
           !tensor_is_lazy(other) && count_alike(source, other);
}

bool window_may_be_shared(const struct window *window, struct tensor *other) {
    return window_counter(window->source) == window_counter(other) && (shim_has_threads() || window_has_source_alone(window));
}

bool window_makes_views(const struct operator *op) {
    static const char *const names[] = {
        "narrow", "split", "chunk", "view_as", "expand_as", "movedim", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes"};
    if (op->may_alias && !op->written && !op->is_composite)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(op->short_name, names[i]))
            return true;
    return false;
}
