/*
 * Leaves: the tensors that gradients are accumulated into.
 *
 * Rules
 *  - A leaf is known by its ordinal, the same on all ranks: the thread (or task, threads.h) that has made it, and its number among those. The main thread's
 *    are 0, 1, ...
 *  - Leaves are compared once over the ranks (start_check.c), in an order that all ranks know: a thread looks at those that it has made itself and at those
 *    that were there when it was made; what other threads make meanwhile is theirs.
 */
#ifndef ACCEL_SHIM_TORCH_LEAF_H
#define ACCEL_SHIM_TORCH_LEAF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tensor;

/* Any thread. */
size_t leaf_ordinal(struct tensor *leaf);       /* known from then on, and marked as a parameter */
size_t leaf_place(const struct tensor *leaf);   /* its ordinal + 1; 0: none, as of a view of a parameter, which is marked, too */
struct tensor *leaf_by_ordinal(size_t ordinal); /* NULL: gone, or never made here */
bool leaf_has_ordinal(struct tensor *leaf, size_t ordinal); /* false also when the leaf is gone, or another one stands in its place */
bool leaf_is_of_thread(size_t ordinal);                     /* another one than the main thread has made it */
uint32_t leaf_number(size_t ordinal);                       /* among those of its thread: for people */
void leaf_node_made(void *node, struct tensor *leaf);       /* an AccumulateGrad node was constructed */
struct tensor *leaf_of_node(void *node);                    /* NULL: never seen */

/* The thread of that word (threads_word_of_new), which this one is about to make, knows the leaves that this one knows. */
void leaves_pass_on(uint64_t word);
/* Of those that this thread knows: are there some that have not been compared? */
bool leaves_are_new(void);
/* Those, in the same order on all ranks; gone ones are NULL. They count as compared from now on. The list, and a reference to each, are the
   caller's. Communication lock held. */
size_t leaves_take_new(struct tensor ***list);
/* A leaf that this thread has met although it does not know it: made by a thread that it did not come from. Taken are all that have been made there up to it
   and not been compared. Communication lock held. */
bool leaf_is_known(size_t ordinal);
size_t leaves_take_until(size_t ordinal, struct tensor ***list);

#endif
