/*
 * Reduction of gradients.
 *
 * Rules of hooks/reduce/
 *  - Gradients are final when backward() returns: programs clip them and read them right after.
 *  - Only what this backward added is reduced: a gradient that was there before, and is not all zeros, is put aside, the new one is summed over the
 *    ranks, then added to it.
 *  - Summed, never averaged: the sum over ranks of the local losses is the loss.
 *  - Nothing is reduced when nothing divided took part: then all ranks have computed the same.
 */
#ifndef ACCEL_HOOKS_REDUCE_H
#define ACCEL_HOOKS_REDUCE_H

#include "../../shim/shim.h"

static inline size_t vector_tensors(const struct vector *vector) {
    return (size_t)(vector->end - vector->begin) / sizeof(struct tensor *);
}
static inline struct tensor **vector_tensor(const struct vector *vector, size_t index) {
    return (struct tensor **)vector->begin + index;
}

struct leaf_gradient {
    struct tensor *leaf; /* borrowed: the graph holds it during the backward */
    size_t ordinal;
    size_t arrival;        /* which gradient of the backward this was: 0, 1, ... */
    const void *thread;    /* to which it came: the address of something of its own */
    struct tensor *before; /* owned: the gradient that was there when the backward began; NULL: none */
    struct tensor *zeros;  /* borrowed: there was one, all zeros: it stays where it is and is accumulated into; NULL: there was not */
    const char *memory;    /* that is there, where others may have a part of it; NULL: nobody has */
    size_t bytes;
    struct tensor *copy; /* owned: of `before`, to whose memory DistributedDataParallel may write meanwhile (backward.c); NULL: none */
    bool is_copied;      /* it has, and the copy is `before` now */
    bool is_half;        /* the gradient passes through float16 */
    bool is_settled;     /* what stands in the leaf's slot is final, whatever becomes of the others */
};

struct backward {
    struct leaf_gradient *leaves;
    size_t count, room, arrivals;
    bool has_graph; /* create_graph: the gradients are to be differentiated again */
    bool finished;
    bool is_summed;      /* just now */
    struct pairs places; /* leaf → its number in the list + 1: reached.c */
    struct pairs halves; /* leaves whose gradient comes through float16: half.c */
    uint64_t numbers;    /* what the program has computed since the one before: drift.c */
    struct settled *settled;
    size_t settled_count;
};

/* Grad mode until the end of the block. */
static inline char grad_mode_begin(char enabled) {
    char outer = grad_mode_is_enabled();
    ORIGINAL(set_grad_mode)(enabled);
    return outer;
}
static inline void grad_mode_end(const char *outer) {
    ORIGINAL(set_grad_mode)(*outer);
}
#define GRAD_SCOPE(enabled) __attribute__((cleanup(grad_mode_end), unused)) char grad_scope_ = grad_mode_begin(enabled)

/* ---- what a leaf has as its gradient before (before.c) */
/* Is what there is accumulated into where it lies? */
bool before_is_left_in_place(struct tensor *leaf, struct tensor *gradient);
/* Makes what the program has set there whole. A collective where it is divided. */
void before_settle(struct tensor *leaf);

/* ---- gradients that pass through float16 (half.c) */
/* A node of the graph: if it is of such a cast, later backwards look for the leaves that are cast. */
void half_meet(const void *node);
/* The leaves all of whose gradient comes through one such cast in the graph of these roots. */
void half_find(const struct vector *roots, struct pairs *leaves);
/* Sums over the ranks: infinite where float16 is. */
void half_overflow(float *sums, size_t count);
void half_overflow_tensor(struct tensor *sum);
/* What a hook of such a leaf is shown: in one process it comes after float16 has ended, so it is the sum, infinite where that one's is, and what the hook makes
   of it is the hook's. NULL: it is no such leaf. Owned. A collective. */
struct tensor *half_show(struct tensor *leaf, struct tensor *gradient);

/* ---- who may accumulate into a leaf (accumulate.c). Any thread. */
/* Of the divided one, until the scope ends, be it by an exception: locks its list of leaves, when no undivided one writes to this leaf (NULL: any). */
#define ACCUMULATE_SCOPE(leaf) __attribute__((cleanup(accumulate_unlock), unused)) int accumulate_scope_ = accumulate_lock(leaf)
int accumulate_lock(struct tensor *leaf);
void accumulate_unlock(int *unused);
void accumulate_set_holder(struct backward *backward); /* the divided one; NULL: its gradients are final */
void accumulate_set_summed(struct backward *backward, bool is_summed);
/* Around what an undivided one, of another thread, accumulates. */
void accumulate_begin_beside(struct tensor *leaf);
void accumulate_end_beside(struct tensor *leaf);

/* ---- the leaves that a backward has come to (reached.c). ACCUMULATE_SCOPE. */
/* The first arrival at a leaf: what is there is put aside. thread: backward.c's. */
void reached_add(struct backward *backward, struct tensor *leaf, const void *thread);
struct leaf_gradient *reached_find(const struct backward *backward, struct tensor *leaf); /* NULL: it has not */
/* gradient_as_bucket_view=True: what is there may be a view of the Reducer's memory, to which it copies the gradient that arrives. NULL: it is not. */
struct tensor *reached_copy(struct tensor *leaf, struct tensor *gradient);
/* It has not come to this one: what was there before is back. */
void reached_withdraw(struct backward *backward, struct tensor *leaf);
struct reached_taken {
    size_t first;       /* which ones: from this arrival on */
    const void *thread; /* that came to this one; NULL: any */
};
/* Moves them into an empty list. */
void reached_take(struct backward *from, struct backward *to, const struct reached_taken *taken);
void reached_free(struct backward *backward);

/* ---- what is final before the backward ends, and a Reducer may write over (settled.c). ACCUMULATE_SCOPE, but for the last two. */
void settled_note_parts(struct backward *backward, const struct backward *arrived); /* which are about to be summed */
void settled_note_sums(struct backward *backward);                                  /* they have been */
void settled_put_back(const struct backward *backward);                             /* the engine has run */
void settled_free(struct backward *backward);

/* True while the engine runs a backward whose roots were computed from divided rows. */
bool backward_is_divided(void);
/* Is the leaf among those whose gradient comes through float16? Not any more, then. */
bool backward_takes_half(struct tensor *leaf);
/* Code of the program is about to run in this thread: it may look at the gradients that the backward has brought to leaves, so they are made final now. The
   leaf into which this thread is about to accumulate, whose hook it is, has what was there before. NULL: it is none's. */
struct arrival;
struct arrival *backward_pause(void);
/* It has run. */
void backward_resume(struct arrival *arriving);
/* Gradients of tensors that are no leaves (retained.c): marked as what they are; and, before a backward, brought into the form of what it adds to them. The
   latter is a collective where the program has set another one. */
void retained_mark(void);
void retained_settle(bool is_divided);
/* The program asks for one. And: code of the program is about to run, which may look at those that a divided backward has brought so far. */
void retained_begins(void);
void retained_show(void);
/* The gradient that AccumulateGrad has in hand in this thread lies in its leaf now. */
void backward_has_arrived(void);

/* ---- what a backward begins with (seeds.c). Roots and inputs are the engine's: as many edges and gradients. */
enum { SEEDS_FEW = 4 };
struct seeds {
    struct tensor *few[SEEDS_FEW], **tensors; /* owned; the list itself lies in `few`, or is malloc's */
    size_t count;
};
void seeds_begin(struct seeds *seeds, size_t roots);
size_t seeds_edge_bytes(const struct vector *roots, size_t count);
struct record seeds_root(const struct vector *roots, size_t index, size_t count);
/* Was any computed from divided rows? */
bool seeds_come_from_rows(const struct vector *roots, size_t count);
/* What must flow into each, so that the sum over the ranks is what one process lets flow. A collective where that is whole and given divided. */
void seeds_make(struct seeds *seeds, const struct vector *roots, const struct vector *inputs);
/* The same for a graph in which nothing is divided. */
void seeds_take_whole(struct seeds *seeds, const struct vector *inputs);
bool seeds_are_marked(const struct vector *inputs);
struct vector seeds_vector(struct seeds *seeds); /* borrowed */
void seeds_release(struct seeds *seeds);

/* A DistributedDataParallel reduces gradients (unseen.c). */
bool unseen_has_reducer(void);

/* What was kept of a tensor whose place in the graph the program has as a GradientEdge (edges.c). False: there is none. */
bool edges_find(void *node, uint32_t output, struct record *record);

/* Stops the job when the engine would run nodes, or hooks on nodes, of classes of the program's own (foreign.c). Edges: its roots, and what gradients are
   asked for (empty: of all leaves), which accumulate there or are returned. */
void foreign_refuse(const struct vector *roots, const struct vector *asked, bool accumulate);

/* ---- sizes of gradients that the program gives (fit.c): those of the whole batch */
enum { FIT_ANY = -1 };
struct fit_size {
    int dims; /* FIT_ANY: nothing is known, and nothing compared */
    int64_t sizes[TORCH_DIMS_MAX];
};
/* Of a divided tensor; any of another, whose sizes the engine knows. */
struct fit_size fit_size_of(struct tensor *tensor, const struct record *record);
/* Takes a gradient, gives one of the size: what the engine sums to it is summed. Throws what the engine throws; node: whose function has returned it, or NULL;
   index: its number there. A collective where it is divided and is summed. */
struct tensor *fit_summed(struct tensor *gradient, const struct fit_size *size, void *node, size_t index);
/* The same of what a hook returns: of another size it gets one that libtorch, which asks next, refuses in its own words. */
struct tensor *fit_exact(struct tensor *gradient, const struct fit_size *size);

/* ---- code of the program that autograd calls back (boundary.c): it runs at user level and is shown what one process would show */
/* The gradient of a divided tensor is divided like it; that of anything replicated is a partial sum; that of a partial sum is replicated. */
struct record boundary_record_of_gradient(const struct record *tensor);
/* Around code of the program, in any backward but a transform's. */
struct boundary {
    struct opaque_scope level;
    struct arrival *arriving;
};
struct boundary boundary_enter(void);
void boundary_leave(struct boundary *boundary);
#define BOUNDARY_SCOPE __attribute__((cleanup(boundary_leave), unused)) struct boundary boundary_scope_ = boundary_enter()
/* What the code computes again is divided as it was when the batch that had been cut last was this. */
int64_t boundary_set_batch(int64_t batch);
static inline void boundary_reset_batch(const int64_t *before) {
    boundary_set_batch(*before);
}
#define BATCH_SCOPE(batch) __attribute__((cleanup(boundary_reset_batch), unused)) int64_t batch_scope_ = boundary_set_batch(batch)
/* What such code returns in a backward through nothing that is divided: each is replaced by its whole. */
void boundary_make_all_whole(const struct vector *returned);
/* Takes a gradient that may be differentiable; owned. */
struct tensor *boundary_hand_out(struct tensor *whole);
/* A gradient of the engine's as the program may see it. Borrowed in, owned out. */
struct tensor *boundary_show(struct tensor *gradient, const struct record *record);
/* Brings a value that the program gives (taken) into the form in which it flows on. Owned. A collective when the form differs. */
struct tensor *boundary_return(struct tensor *returned, const struct record *wanted);
/* What a hook that returns nothing may have written to the gradient that it was shown (borrowed), in that form: owned. NULL: it is an alias of the engine's
   own, where all of that stands. */
struct tensor *boundary_written(struct tensor *seen, const struct record *wanted);
/* Python's hooks on tensors (python_hooks.c): notes of which tensor a hook object's gradient is. Interpreter's lock held. */
void python_hook_met(struct tensor *tensor, void *const *holder);
/* Of an object of Python for a node of the graph (python_nodes.c): how many words of memory its class has, from PYTHON_OBJECT_WORDS on its own; the node, if it
   is a custom function's, else NULL. */
enum { PYTHON_OBJECT_WORDS = 2 };
int64_t python_words(const struct object *object);
void *python_custom_node(struct object *object);
/* The records of a custom function's inputs and results by its node (custom_function.c); false: it is none. */
struct custom;
const struct custom *custom_of_node(void *node);
/* A custom function's node, and something that it took or gave was divided, or computed from rows. Every rank answers alike. */
bool custom_is_divided(void *node);
struct custom_value {
    struct record record; /* RECORD_NONE: replicated, or there is no such value */
    struct fit_size size;
};
struct custom_value custom_input(const struct custom *custom, size_t index);
struct custom_value custom_output(const struct custom *custom, size_t index);

/* ---- torch::autograd::grad (capture.c): gradients that are handed out instead of accumulated */
struct capture {
    struct record *tensors; /* what the gradients are asked of */
    size_t count;
};
/* Before the engine runs. edges: std::vector<Edge> of edge_bytes each; 0: nothing is handed out. */
void capture_begin(struct capture *capture, const struct vector *edges, size_t edge_bytes);
/* gradients: what the engine has returned; in their final form afterwards. A collective. */
void capture_end(const struct capture *capture, const struct vector *gradients);
void capture_free(struct capture *capture);
/* The same memory in the second one's sizes and strides, without a history. Owned. */
struct tensor *capture_in_shape_of(struct tensor *made, struct tensor *gradient);
/* Is the gradient of a leaf asked for that a transform of torch.func has wrapped? */
bool capture_is_of_wrapped(const struct vector *edges, size_t edge_bytes);
/* The number of the output of its node that an edge of the graph, of so many bytes, begins at. */
uint32_t edge_output(const char *edge, size_t edge_bytes);
/* The leaf whose gradient it leads to; NULL: none. */
struct tensor *edge_leaf(const char *edge);

/* Before a divided backward, on all ranks, one at a time: memory for the gradients of leaves that are new to this thread (memory.c). A collective when there
   are any. */
void memory_for_new_leaves(void);

/* Sums the new gradients of the leaves over all ranks and adds those from before back in. Every rank calls it for the same backward. */
void reduce_gradients(struct backward *backward);
/* The gradient in the leaf's slot, borrowed, or NULL. */
struct tensor *leaf_gradient_of(const struct leaf_gradient *leaf);
/* The sums themselves (targets.c), in the order of the leaves' ordinals. list: a hash of the list, and of what else must be the same where the
   lists are; false, nothing summed, where the ranks' differ. Communication lock held. */
bool targets_sum(struct backward *backward, uint64_t list);
/* The sum over the ranks of their parts of a sparse gradient (sparse.c). Owned. Communication lock held. */
struct tensor *sparse_sum(struct tensor *gradient, const char *whose);
/* One without entries, of as many sparse and dense dimensions (zeros_like of 1.13 has sparse ones alone). Owned. */
struct tensor *sparse_none(struct tensor *like);
/* drift.c: have the parameters remained the same, and were the program's own numbers the same? Called by all ranks for each backward that is summed. A word
   that differs where they have not; and, with leaves that all ranks have, what is to be done then: a collective, which stops the job unless it was rounding.
   Communication lock held. */
void drift_next(struct backward *backward);
void drift_note_undivided(void); /* a backward that is not summed: each rank makes the same step by itself */
uint64_t drift_word(const struct backward *backward);
void drift_examine(const struct backward *backward);
/* After a backward that has thrown: gradients are what they were before. */
void reduce_undo(struct backward *backward);

#endif
