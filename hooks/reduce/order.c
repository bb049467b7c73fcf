/*
 * The order in which the engine runs nodes that are ready: the youngest first, by numbers that each thread counts for itself (at::sequence_number). Which
 * thread of a pool takes which task is another one on each rank, and so would be the order in which a backward comes to what its tasks have computed: to sums
 * over the ranks, hooks and functions of the program. Within a task a node's number is made of the word that all ranks know it by, and counted in it. What
 * depends on what the engine knows by itself. Other threads' own counts are the same on all ranks. Not where libtorch is bound to itself: the numbers of
 * Python's nodes alone would be asked for here.
 */
#include "reduce.h"

struct numbered {
    uint32_t nodes;
};

static struct numbered of_main; /* not used */
static const struct threads_kept all_numbered = {&of_main, sizeof of_main, NULL};

uint64_t hook_node_number(void) {
    enum { WORD_BITS = 31 }; /* leaves' nodes have the largest number there is */
    if (torch_facts.is_bound || !threads_are_several || !threads_is_in_task() || !shim_active())
        return ORIGINAL(node_number)();
    struct numbered *own = threads_own_kept(&all_numbered);
    return threads_own() >> (64 - WORD_BITS) << 32 | own->nodes++;
}
