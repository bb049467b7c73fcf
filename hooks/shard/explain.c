/* Notes for --explain: what was gathered, once per operator; each time with --log-level debug. */
#include <stdio.h>

#include "shard.h"

enum { NOTES_MAX = 256 };

static struct {
    const struct operator *op;
    const char *what;
} notes[NOTES_MAX];
static _Atomic int note_count;

enum { SHAPES_CHARS = 256 };

/* The arguments' whole shapes, the divided dimension starred: "(64*, 10) (64)". */
static void write_shapes(const struct shard_call *call, char *text) {
    int used = 0;
    for (int i = 0; i < call->argument_count && used < SHAPES_CHARS - 64; i++) {
        const struct argument *argument = &call->arguments[i];
        used += snprintf(text + used, (size_t)(SHAPES_CHARS - used), "%s(", i ? " " : "");
        for (int dim = 0; dim < argument_dims(argument) && used < SHAPES_CHARS - 32; dim++)
            used +=
                snprintf(text + used, (size_t)(SHAPES_CHARS - used), "%s%lld%s", dim ? ", " : "", (long long)argument_size(argument, dim),
                         argument->record.kind == RECORD_SHARD && argument->record.dim == dim ? "*" : "");
        used += snprintf(text + used, (size_t)(SHAPES_CHARS - used), ")");
    }
}

/* 'w' the first time for this operator, 'd' from then on. */
static char note_level(const struct operator *op, const char *what) {
    int count = atomic_load(&note_count);
    for (int i = 0; i < count; i++)
        if (notes[i].op == op && notes[i].what == what)
            return 'd';
    if (count == NOTES_MAX)
        return 'd';
    notes[count].op = op;
    notes[count].what = what;
    atomic_store(&note_count, count + 1);
    return 'w';
}

void explain_gather(const struct shard_call *call, const char *what) {
    if ((!shim_explains() && !shim_records()) || shim_rank() != 0)
        return;
    const struct operator *op = call->op;
    char shapes[SHAPES_CHARS] = "";
    write_shapes(call, shapes);
    recognise_gathered(call, what, shapes);
    if (!shim_explains())
        return;
    shim_log(note_level(op, what), "operator %s%s%s %s %s: exact, but not divided among the ranks", op->name, op->overload[0] ? "." : "",
             op->overload, what, shapes);
}

void explain_cut(const struct shard_call *call) {
    if (!shim_explains() || shim_rank() != 0)
        return;
    char shapes[SHAPES_CHARS] = "";
    write_shapes(call, shapes);
    shim_log('d', "operator %s divided its batch %s", call->op->name, shapes);
}
