/* Notes for --explain: what was gathered, once per operator. */
#include "shard.h"

enum { NOTES_MAX = 256 };

static struct {
    const struct operator *op;
    const char *what;
} notes[NOTES_MAX];
static _Atomic int note_count;

void explain_gather(const struct operator *op, const char *what) {
    if (!shim_explains())
        return;
    int count = atomic_load(&note_count);
    for (int i = 0; i < count; i++)
        if (notes[i].op == op && notes[i].what == what)
            return;
    if (count == NOTES_MAX || shim_rank() != 0)
        return;
    notes[count].op = op;
    notes[count].what = what;
    atomic_store(&note_count, count + 1);
    shim_log('w', "operator %s%s%s %s: exact, but not divided among the ranks", op->name, op->overload[0] ? "." : "", op->overload, what);
}
