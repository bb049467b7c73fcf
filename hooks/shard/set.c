/*
 * set_: a tensor gets another one's memory, as it lies, or that of a storage. It is then what the other is to the ranks: rows, a sum or a whole; views that it
 * has had, and copies, stay those of the memory that it has had.
 */
#include "shard.h"

struct moving {
    struct record_move move;
    struct tensor *self;
    struct record before;
    bool is_done;
};

/* Where the operator has thrown, the tensor is what it was. */
static void moving_end(struct moving *moving) {
    if (moving->is_done) {
        record_move_end(&moving->move, moving->self);
        return;
    }
    if (moving->before.kind != RECORD_NONE)
        record_set(moving->self, moving->before);
    tensor_release(moving->move.source);
}

/* set_(self), set_(self, source), set_(self, source, offset, size, stride): the source is a tensor or a storage, which is a whole one's (storage.c) */
RULE_FUNCTION(set) {
    const struct argument *self = call_argument(call, 0), *source = call_argument(call, 1);
    if (!self)
        return RULE_GATHER;
    bool is_divided = source && (source->record.kind == RECORD_SHARD || source->record.kind == RECORD_PARTIAL);
    if (is_divided && call->value_count > 2)
        refuse_write(call, "it would get a part of memory that is divided among the ranks");
    struct tensor *from = source ? argument_tensor(source) : NULL;
    if (from == argument_tensor(self))
        return RULE_GATHER;
    __attribute__((cleanup(moving_end))) struct moving moving = {.self = argument_tensor(self), .before = self->record};
    moving.move = record_move_begin(from, moving.self);
    if (moving.move.source != from)
        refuse_write(call, "it requires a gradient, and would get memory that is divided otherwise than its own");
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    moving.is_done = true;
    return RULE_DONE;
}
