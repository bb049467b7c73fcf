/* What the copy of a window (window.c) has, and its source: taken back, carried to other copies, gathered anew. Within the scope of window.c's lock. */
#include "window.h"

bool window_has_history(const struct window *window) {
    return grad_mode_is_enabled() && (tensor_requires_grad(window->whole) || tensor_is_recorded(window->source));
}

bool window_have_same_place(const struct window *one, const struct window *other) {
    return window_are_one(one->whole, other->whole) && window_are_one(one->source, other->source) && !tensor_is_lazy(one->source) &&
           !tensor_is_lazy(other->source) && one->record.kind == other->record.kind;
}

bool window_is_of_leaf(const struct window *window) {
    return tensor_requires_grad(window->source) && !tensor_node(window->source);
}

void window_check_write(const struct window *window, struct tensor *view) {
    if (window && grad_mode_is_enabled() && tensor_requires_grad(view) && window_is_of_leaf(window))
        shim_throw("autograd", "a view of a leaf Variable that requires grad is being used in an in-place operation.");
}

/* With its history, or the values alone. Owned. */
static struct value seen(struct tensor *tensor, bool has_history) {
    if (!has_history)
        return window_values_of(tensor, false);
    tensor_retain(tensor);
    return value_tensor(tensor);
}

struct tensor *window_own_flags(const struct window *window, struct tensor *flags) {
    if (window->record.kind == RECORD_SHARD)
        return rows_take(flags, &window->record, window->record.dim);
    tensor_retain(flags);
    return flags;
}

/* What the copy has missed of other threads' writes stays as the source has it. */
static void leave_missed(const struct window *window, struct value own, struct value *part) {
    struct value missed = value_tensor(window_own_flags(window, window->stale));
    value_replace(part, TORCH_CALL("aten::where", "self", missed, own, *part));
    value_drop(missed);
}

void window_take_back(struct window *window, const struct written *written) {
    loans_return_of(window->source);
    bool is_of_its_type = written->dtype == tensor_dtype(window->whole); /* not h[3].imag, whose elements are others */
    bool apart = window_counts_apart(window, window, written);
    bool has_history = window_has_history(window) && !window_is_of_leaf(window) && !apart;
    if (shim_has_threads() && is_of_its_type && !has_history && window_write_back(window, written))
        return;
    struct value whole = seen(window->whole, !apart), part = own_part(whole.tensor, &window->record);
    struct value own = apart || window_is_of_leaf(window) ? window_values_of(window->source, apart) : seen(window->source, true);
    value_drop(whole);
    if (window->stale)
        leave_missed(window, own, &part);
    layout_copy(own, part);
    value_drop(own);
    value_drop(part);
    record_set(window->source, window->record);
}

bool window_is_at_same_place(const struct window *window, const struct window *through, const struct written *written) {
    return written->extent.dims >= 0 && tensor_dtype(window->whole) == tensor_dtype(through->whole) &&
           written->dtype == tensor_dtype(window->whole) && window_have_same_place(window, through);
}

void window_carry(const struct window *window, const struct window *through, const struct written *written) {
    struct value own = window_values_of(window->whole, window_counts_apart(window, through, written));
    struct value to = window_part(own.tensor, &written->extent), from = window_part(through->whole, &written->extent);
    if (written->some) {
        struct value flags = window_flags(window->whole, &written->extent, written, &written->extent);
        window_put_flagged(to.tensor, flags, from);
        value_drop(flags);
    } else
        value_drop(TORCH_CALL("aten::copy_", "", to, from, value_bool(false)));
    value_drop(own);
    value_drop(to);
    value_drop(from);
}

/* As the program has written to it, or to what it is a view of: what a backward has kept of the copy is no other version of it than in one process. */
static bool put_raw(struct tensor *whole, struct tensor *fresh) {
    if (tensor_is_lazy(whole) || tensor_is_lazy(fresh) || !tensor_is_on_host(whole) || !tensor_same_layout(whole, fresh))
        return false;
    memcpy(tensor_own_data(whole), tensor_own_data(fresh), extent_bytes(whole));
    return true;
}

/* The rest of the copy may just be written, by another thread that has views of it: its values stay, under the history that all of it has now. */
static void put_some(struct value whole, struct value fresh, struct value flags, bool has_history) {
    if (!has_history) {
        window_put_flagged(whole.tensor, flags, fresh);
        return;
    }
    struct value rest = TORCH_CALL("aten::logical_not", "", flags);
    window_put_flagged(fresh.tensor, rest, whole);
    value_drop(rest);
    layout_copy(whole, fresh);
}

/* print(row): what others have written is read now, without gradients, its history comes later. */
static void owe_history(struct window *window) {
    if ((tensor_requires_grad(window->whole) || tensor_requires_grad(window->source)) && !grad_mode_is_enabled())
        window_owe_history(window);
}

/* The copy's values anew, and its history, which that of its views follows: autograd knows them as views of the copy. A collective. Of values that were
   written raw, through a pointer or through h.data, no version moves. Of the values those alone where flags are set (no tensor: all). */
static void renew(struct window *window, bool was_written_raw, struct value flags) {
    bool is_some = value_is_tensor(&flags) && !window->is_stale;
    bool has_history = window_has_history(window) && !was_written_raw;
    window->is_spent |= has_history && window->is_of_many;
    has_history &= !window->is_of_many;
    struct record mark = record_get(window->whole);
    struct value source = seen(window->source, has_history),
                 whole = has_history ? seen(window->whole, true) : window_values_of(window->whole, was_written_raw);
    struct value fresh =
        value_tensor(window->record.kind == RECORD_SHARD ? gather_shard("view of rows after a write", source.tensor, &window->record)
                                                         : gather_partial("view of a sum after a write", source.tensor));
    if (is_some)
        put_some(whole, fresh, flags, has_history);
    else if (!was_written_raw || !put_raw(whole.tensor, fresh.tensor))
        layout_copy(whole, fresh);
    window_have(window, is_some ? flags : value_none(), has_history || window->is_spent);
    if (mark.kind == RECORD_NONE)
        record_clear(window->whole);
    else
        record_set(window->whole, mark);
    value_drop(source);
    value_drop(fresh);
    value_drop(whole);
    window_note_history(window);
}

static bool lacks_versions(const struct window *window) {
    return window->has_missed_versions || window->is_history_due;
}

/* What was not written another thread may just be writing. */
void window_renew_written(struct window *window, const struct window *through, const struct written *written) {
    struct value flags = value_none();
    if (shim_has_threads() && window_find_written(window, through, written, &flags) && !value_is_tensor(&flags))
        flags = window_no_flags(window); /* nothing was: the collective comes all the same */
    bool takes_missed = (!value_is_tensor(&flags) || window->is_stale) && lacks_versions(window); /* all of the copy is had anew */
    renew(window, !takes_missed && (!written || window_counts_apart(window, through, written)), flags);
    if (takes_missed)
        owe_history(window);
    value_drop(flags);
}

void window_renew_missed(struct window *window, struct tensor *tensor, const struct written *written) {
    bool lacked_versions = lacks_versions(window);
    struct value flags = window_missed_of(window, tensor, written);
    renew(window, !lacked_versions, flags);
    value_drop(flags);
    if (lacked_versions)
        owe_history(window);
}
