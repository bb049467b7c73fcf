/*
 * Windows of several threads (window.c). What one thread writes while another has a view of the same memory is nobody's race as long as they touch other
 * elements; whether the other's view is there at that moment is another matter on each rank. So the writer exchanges nothing for it:
 *  - what was written through a view all ranks know, and it is put where the other's copy has the same elements, and nowhere else;
 *  - of other writes it is only noted which elements they were (those of all ranks' rows), and who uses these later, which the program must have ordered, has
 *    the copy gathered anew;
 *  - a rank takes back what was written, not the rest of the copy, which may be older than what the other thread has written to the rows.
 * Elements are told apart by where they lie in one process. What cannot be told apart counts as all of it.
 */
#include "window.h"

static bool repeats(const struct extent *extent) {
    for (int i = 0; i < extent->dims; i++)
        if (!extent->strides[i] && extent->sizes[i] > 1)
            return true;
    return false;
}

bool window_told_of_part(const struct window *window, const struct extent *part, struct extent *told) {
    struct extent all = extent_told(window->source, &window->record), lies = extent_of(window->whole);
    for (int i = 0; i < all.dims; i++)
        if (all.dims != lies.dims || all.sizes[i] != lies.sizes[i] || (all.sizes[i] > 1 && all.strides[i] != lies.strides[i]))
            return false;
    *told = *part;
    told->offset += all.offset - lies.offset;
    return part->dims >= 0;
}

/* Zeros that lie as far as `end` says, of the tensor's type or as flags. Owned. */
static struct value blank(struct tensor *tensor, int64_t end, bool as_flags) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    struct value made = TORCH_CALL("aten::new_zeros", "", plain, value_int_list(&end, 1), as_flags ? value_int(DTYPE_BOOL) : value_none(),
                                   value_none(), value_none(), value_none());
    value_drop(plain);
    return made;
}

/* How far memory goes that has both. */
static int64_t end_of_both(const struct extent *one, const struct extent *other) {
    int64_t end = extent_end(one), others = extent_end(other);
    return end > others ? end : others;
}

struct value window_flags(struct tensor *tensor, const struct extent *others, const struct written *written, const struct extent *of) {
    struct value all = blank(tensor, end_of_both(others, of), true);
    window_mark(all.tensor, others, written);
    struct value part = window_part(all.tensor, of);
    value_drop(all);
    return part;
}

/* Without history, and as whole numbers: there are types that have next to no operators (float8, uint16), zeros of two signs, and NaNs, which equal nothing.
   Complex numbers of 16 bytes stay what they are. Owned. */
static struct value bits_of(struct tensor *tensor) {
    static const enum torch_dtype of_bytes[] = {[1] = DTYPE_UINT8, [2] = DTYPE_INT16, [4] = DTYPE_INT32, [8] = DTYPE_INT64};
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    size_t bytes = dtype_bytes(tensor_dtype(tensor));
    if (bytes <= 8 && of_bytes[bytes] != tensor_dtype(tensor))
        value_replace(&plain, TORCH_CALL("aten::view", "dtype", plain, value_int(of_bytes[bytes])));
    return plain;
}

void window_put_flagged(struct tensor *tensor, struct value flags, struct value values) {
    if (!tensor_is_on_host(tensor) && tensor_has_no_values(tensor)) /* meta, which has none to select */
        return;
    struct value own = bits_of(tensor), from = bits_of(values.tensor), chosen = TORCH_CALL("aten::masked_select", "", from, flags);
    value_drop(TORCH_CALL("aten::masked_scatter_", "", own, flags, chosen));
    value_drop(chosen);
    value_drop(from);
    value_drop(own);
}

static struct value numbers_of_pairs(struct value complex) {
    struct value real = TORCH_CALL("aten::view_as_real", "", complex),
                 numbers = TORCH_CALL("aten::view", "dtype", real, value_int(DTYPE_INT64));
    value_drop(real);
    return numbers;
}

struct value window_changed(struct value before, struct value values) {
    struct value now = bits_of(values.tensor), then = bits_of(before.tensor);
    bool is_of_pairs = tensor_dtype(before.tensor) == DTYPE_COMPLEX128;
    if (is_of_pairs) {
        value_replace(&now, numbers_of_pairs(now));
        value_replace(&then, numbers_of_pairs(then));
    }
    struct value flags = TORCH_CALL("aten::ne", "Tensor", now, then);
    if (is_of_pairs)
        value_replace(&flags, TORCH_CALL("aten::any", "dim", flags, value_int(-1), value_bool(false)));
    value_drop(then);
    value_drop(now);
    return flags;
}

void window_put_changed(struct tensor *tensor, struct value before, struct value values) {
    struct value flags = window_changed(before, values);
    window_put_flagged(tensor, flags, values);
    value_drop(flags);
}

bool window_any_flag(struct value flags) {
    struct value any = TORCH_CALL("aten::any", "", flags), is_any = TORCH_CALL("aten::is_nonzero", "", any);
    value_drop(any);
    return value_flag(&is_any);
}

bool window_extent_meets(struct tensor *tensor, const struct record *record, const struct extent *told) {
    struct extent of = extent_told(tensor, record);
    if (!extent_end(&of) || !extent_end(told))
        return false;
    OUTSIDE_TRANSFORM_SCOPE;
    struct value flags = window_flags(tensor, told, NULL, &of);
    bool is_met = window_any_flag(flags);
    value_drop(flags);
    return is_met;
}

bool window_has_all(struct tensor *tensor, const struct extent *all, const struct extent *part) {
    int64_t end = extent_end(part), others = extent_end(all);
    if (!end || (!tensor_is_on_host(tensor) && tensor_has_no_values(tensor)))
        return true;
    if (end > others || tensor_is_dense(tensor))
        return end <= others && part->offset >= all->offset;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct value flags = window_flags(tensor, all, NULL, part);
    value_replace(&flags, TORCH_CALL("aten::logical_not", "", flags));
    bool is_any_other = window_any_flag(flags);
    value_drop(flags);
    return !is_any_other;
}

/* ---- what one thread's write means for another's window */

/* Where the elements are that have been written; false: nobody knows. */
static bool find_written(const struct window *window, const struct window *through, const struct written *written, struct extent *told) {
    struct extent lies = extent_of(window->whole);
    bool is_lazy = tensor_is_lazy(window->whole) || tensor_is_lazy(window->source) || (through && tensor_is_lazy(through->whole));
    if (!written || is_lazy || written->dtype != tensor_dtype(window->whole) || lies.dims < 0 || repeats(&lies))
        return false;
    if (through)
        return tensor_dtype(through->whole) == written->dtype && window_told_of_part(through, &written->extent, told);
    *told = written->told;
    return told->dims >= 0;
}

/* From the copy of one thread's window to that of another's, where the flags are. */
static void bring_values(const struct window *window, const struct window *through, const struct written *written,
                         const struct extent *told, struct value flags) {
    struct extent of = extent_told(window->source, &window->record);
    struct value all = blank(window->whole, end_of_both(told, &of), false), to = window_part(all.tensor, told),
                 from = window_part(through->whole, &written->extent), values = window_part(all.tensor, &of);
    struct value own = window_values_of(window->whole, window_counts_apart(window, through, written));
    value_drop(TORCH_CALL("aten::copy_", "", to, from, value_bool(false)));
    window_put_flagged(own.tensor, flags, values);
    value_drop(own);
    value_drop(values);
    value_drop(from);
    value_drop(to);
    value_drop(all);
}

/* Where the copy has them. Owned; none: it has none of them. */
static struct value flags_of_written(const struct window *window, const struct written *written, const struct extent *told) {
    struct extent of = extent_told(window->source, &window->record);
    return extent_end(told) && extent_end(&of) ? window_flags(window->whole, told, written, &of) : value_none();
}

bool window_find_written(const struct window *window, const struct window *through, const struct written *written, struct value *flags) {
    struct extent told;
    bool is_known = find_written(window, through, written, &told);
    *flags = is_known ? flags_of_written(window, written, &told) : value_none();
    return is_known;
}

void window_bring(struct window *window, const struct window *through, const struct written *written) {
    if (!tensor_is_on_host(window->whole) && tensor_has_no_values(window->whole)) /* meta */
        return;
    bool is_version = written && !window_counts_apart(window, through, written);
    if (is_version &&
        window_has_history(window)) /* of all its rows, whichever were written: they are views of what has another history now */
        window_owe_history(window);
    struct extent told;
    bool is_known = find_written(window, through, written, &told);
    struct value flags = is_known ? flags_of_written(window, written, &told) : value_none();
    bool is_met = value_is_tensor(&flags) && window_any_flag(flags);
    if (is_met && through && (!tensor_requires_grad(window->whole) || window_is_of_leaf(window)))
        bring_values(window, through, written, &told, flags);
    else if (is_met || !is_known)
        window_miss(window, flags, is_version);
    value_drop(flags);
}

struct value window_without(struct value flags, struct value others) {
    struct value rest = TORCH_CALL("aten::logical_not", "", others);
    struct value left = TORCH_CALL("aten::logical_and", "", flags, rest);
    value_drop(rest);
    return left;
}

bool window_write_back(const struct window *window, const struct written *written) {
    struct extent lies = extent_of(window->whole), source = extent_of(window->source);
    bool is_lazy = tensor_is_lazy(window->whole) || tensor_is_lazy(window->source);
    if (is_lazy || written->extent.dims < 0 || lies.dims < 0 || repeats(&lies) || repeats(&source))
        return false;
    if (!extent_end(&written->extent) || !extent_end(&lies))
        return true;
    struct value flags = window_flags(window->whole, &written->extent, written, &lies), values = own_part(window->whole, &window->record);
    if (window->stale)
        value_replace(&flags, window_without(flags, value_tensor(window->stale)));
    value_replace(&flags, value_tensor(window_own_flags(window, flags.tensor)));
    struct value own = window_values_of(window->source, window_counts_apart(window, window, written));
    window_put_flagged(own.tensor, flags, values);
    value_drop(own);
    value_drop(flags);
    value_drop(values);
    record_set(window->source, window->record);
    return true;
}
