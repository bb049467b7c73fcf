/* What a call means for windows before it is run (window.c): refused, read from elsewhere. Within the scope of window.c's lock. */
#include "window.h"

/* What autograd does not ask for a history. */
static bool takes_values(const struct operator *op) {
    static const char *const names[] = {"detach",       "_local_scalar_dense",
                                        "argmax",       "argmin",
                                        "eq",           "ne",
                                        "lt",           "le",
                                        "gt",           "ge",
                                        "equal",        "isnan",
                                        "isinf",        "any",
                                        "all",          "signbit",
                                        "isfinite",     "argsort",
                                        "nonzero",      "count_nonzero",
                                        "resolve_conj", "resolve_neg",
                                        "bucketize"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(op->short_name, names[i]))
            return true;
    return false;
}

/* As libtorch refuses the source, and views of it: all but their values. */
static void check_unspent(const struct shard_call *call, const struct argument *argument) {
    struct tensor *tensor = argument_tensor(argument);
    bool has_history =
        argument->record.kind == RECORD_GATHERED && !takes_values(call->op) && grad_mode_is_enabled() && tensor_requires_grad(tensor);
    const struct window *window = has_history ? window_onto(tensor_storage(tensor)) : NULL;
    if (window && window->is_spent)
        shim_throw("autograd",
                   "This is a view and its base or another view of its base has been modified inplace. It is a view of the output of a "
                   "function that returns multiple views (split, chunk, unbind). Such functions do not allow the output views to be "
                   "modified inplace. You should replace the inplace operation by an out-of-place one.");
}

bool window_is_written_through(const struct shard_call *call, const struct argument *argument) {
    return argument->record.kind == RECORD_GATHERED && argument->record.is_view_of_gathered && call_writes_values(call, argument);
}

/* What is read through a view of another copy of what is written is read from that one: they may have elements in common, in whose order libtorch writes
   (h[:, 0][1:] += h[:, 0][:-1]), or which it refuses. */
static void read_from_written(const struct shard_call *call, struct argument *argument) {
    struct tensor *read = argument_tensor(argument);
    for (int i = 0; i < call->argument_count; i++) {
        if (&call->arguments[i] == argument || !window_is_written_through(call, &call->arguments[i]))
            continue;
        const struct window *from = window_onto(tensor_storage(read)),
                            *to = window_onto(tensor_storage(argument_tensor(&call->arguments[i])));
        if (tensor_dims(read) <= TORCH_DIMS_MAX && from && to && from != to && !from->is_left && !to->is_left &&
            !window_has_history(from) && !window_has_history(to) && tensor_own_storage(from->source) == tensor_own_storage(to->source) &&
            tensor_dtype(from->whole) == tensor_dtype(to->whole) && window_have_same_place(from, to)) {
            struct written region = window_region(read);
            struct value part = window_part(to->whole, &region.extent);
            mark_gathered(part.tensor, true);
            value_replace(argument->slot, part);
            return;
        }
    }
}

static bool has_history(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (tensor_is_recorded(argument_tensor(&call->arguments[i])))
            return true;
    return false;
}

/* Rows of two tensors that share their memory and have no history, held as views of one copy: whose a history would be, if this is one of both, cannot be
   told. */
static void check_alone(const struct shard_call *call, const struct argument *argument) {
    struct tensor *tensor = argument_tensor(argument);
    if (call_writes_values(call, argument) && !tensor_is_recorded(tensor) && window_is_shared(tensor_own_storage(tensor)))
        refuse_write(
            call,
            "rows of it, and of another tensor that shares its memory (x.detach()), are held, and would be told apart by their history");
}

static void refresh_those(const struct shard_call *call, bool that_are_written) {
    for (int i = 0; i < call->argument_count; i++) {
        const struct argument *argument = &call->arguments[i];
        if (argument->record.kind != RECORD_GATHERED || call_writes(call, argument) != that_are_written)
            continue;
        __attribute__((cleanup(window_end_call))) struct written written = window_region_of_call(call, argument);
        window_refresh(argument_tensor(argument), &written);
    }
}

/* First what is read, which may choose what is written; of that those elements alone: others may just be written elsewhere. */
void window_refresh_arguments(const struct shard_call *call) {
    if (!call->gathered || window_makes_views(call->op))
        return;
    refresh_those(call, false);
    refresh_those(call, true);
}

struct tensor *window_at_hand(const struct shard_call *call, const struct argument *argument) {
    bool is_written_beside = shim_has_threads() && call_writes(call, argument);
    return argument->record.kind == RECORD_SHARD && !is_written_beside ? window_whole(argument_tensor(argument), call->op) : NULL;
}

/* Views of two copies of one memory (h[3], and h[:, :2][5]) of which a call writes both: what is taken back of one would be put into the other's copy before
   that is taken back, too. */
static void check_apart(const struct shard_call *call, const struct argument *argument, const struct window *window) {
    for (int i = 0; i < call->argument_count; i++) {
        const struct argument *other = &call->arguments[i];
        bool is_written = other != argument && window_is_written_through(call, other);
        const struct window *others = is_written ? window_onto(tensor_storage(argument_tensor(other))) : NULL;
        if (others && others != window && tensor_own_storage(others->source) == tensor_own_storage(window->source))
            refuse_write(call, "it is a view of rows, and another argument that is written is a view of others of the same memory");
    }
}

void window_check_call(struct shard_call *call, bool through_view) {
    for (int i = 0; i < call->argument_count && call->gathered; i++)
        check_unspent(call, &call->arguments[i]);
    for (int i = 0; i < call->argument_count && through_view; i++) {
        bool is_written = window_is_written_through(call, &call->arguments[i]);
        const struct window *window = is_written ? window_onto(tensor_storage(argument_tensor(&call->arguments[i]))) : NULL;
        if (is_written && !window)
            refuse_write(call, "it is a view of a divided tensor whose rows have been gathered");
        window_check_write(window, argument_tensor(&call->arguments[i]));
        if (window)
            check_apart(call, &call->arguments[i], window);
    }
    bool is_followed = has_history(call); /* by autograd */
    for (int i = 0; i < call->argument_count && is_followed; i++)
        check_alone(call, &call->arguments[i]);
    for (int i = 0; i < call->argument_count && through_view; i++)
        if (call->arguments[i].record.kind == RECORD_GATHERED && !call_writes(call, &call->arguments[i]))
            read_from_written(call, &call->arguments[i]);
}
