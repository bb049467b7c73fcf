/*
 * Operators that throw. One that works on divided rows throws on the rank that has the row, and a program that catches it goes on there as if nothing were
 * wrong elsewhere. The next collective of that thread tells the ranks apart; for files that are written before, and for the end, there is a word on the board,
 * of the thread that writes them.
 */
#include <stdio.h>

#include "../link.h"
#include "../shim.h"

void thrown_note(const char *operator) {
    char what[BOARD_THROWER_CHARS + sizeof THROWN_NOTE];
    if (!shim_active() || shim_reads_example()) /* a loader's exceptions come to all ranks, or end the job (hooks/load/watch.c) */
        return;
    uint64_t which = checksum_bytes(dispatch_client.batches(), operator, strlen(operator)); /* the next batch's is another one */
    snprintf(what, sizeof what, THROWN_NOTE "%s", operator);
    {
        SHIM_NOTE_SCOPE;
        comm_note(what, which);
    }
    if (!meeting_is_here())
        return;
    struct board_rank *line = &link_board()->ranks[shim_rank()];
    snprintf(line->thrower, sizeof line->thrower, "%s", operator);
    atomic_store(&line->thrown, checksum_mix(atomic_load(&line->thrown), which));
}
