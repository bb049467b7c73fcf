/*
 * Reduction of gradients.
 *
 * Rules of hooks/reduce/
 *  - Gradients are final when backward() returns: programs clip them and read them right after.
 *  - Only what this backward added is reduced: a gradient that was there before is put aside, the new one is summed over the ranks, then added to it.
 *  - Summed, never averaged: the sum over ranks of the local losses is the loss.
 *  - Nothing is reduced when nothing divided took part: then all ranks have computed the same.
 */
#ifndef ACCEL_HOOKS_REDUCE_H
#define ACCEL_HOOKS_REDUCE_H

#include "../../shim/shim.h"

struct leaf_gradient {
    struct tensor *leaf; /* borrowed: the graph holds it during the backward */
    size_t ordinal;
    struct tensor *before; /* owned: the gradient that was there when the backward began; NULL: none */
};

struct backward {
    struct leaf_gradient *leaves;
    size_t count, room;
    bool finished;
};

/* True while the engine runs a backward whose roots were computed from divided rows. */
bool backward_is_divided(void);
/* Stops the job when Python code would be called back in a divided backward (boundary.c). */
void boundary_check(void);
/* Remembers the dictionary of a hook object of Python's that libtorch is told of; false: it is none. The interpreter's lock is held. */
bool python_hooks_watch(void *const *hook);
/* Has the program put a hook into one of those that are alive? The interpreter's lock is not held. */
bool python_hooks_exist(void);
/* Sums the new gradients of the leaves over all ranks and adds those from before back in. Every rank calls it for the same backward. */
void reduce_gradients(struct backward *backward);
/* After a backward that has thrown: gradients are what they were before. */
void reduce_undo(struct backward *backward);

#endif
