/* Views of gathered rows, between window.c and its neighbours; what the rest calls is in shard.h. */
#ifndef ACCEL_HOOKS_SHARD_WINDOW_H
#define ACCEL_HOOKS_SHARD_WINDOW_H

#include "list.h"

#include "written.h"

struct window {
    struct list_node all, of_whole, of_source, of_memory, of_thread;
    const void *memory, *own; /* storages of the source and of the copy, as they are listed */
    struct tensor *source;    /* owned: the divided tensor, or the sum, that was gathered */
    struct record record;
    struct tensor *whole; /* owned: the copy */
    uint64_t thread;      /* whose it is */
    uint64_t backwards;   /* that the thread had run when it was opened: they free what its history needs */
    int idle;             /* calls since a view of the copy was last asked for */
    bool is_recorded;     /* the copy has a history: it is among those of its thread */
    bool is_pointed;      /* a pointer into the copy was given away; and it may outlive the views */
    bool is_kept;
    bool is_left;         /* the source has other memory now (x.data = y): what is written to one does not reach the other */
    bool is_of_many;      /* the source is one of several views of one operator: once their base is written autograd refuses to use them */
    bool is_spent;        /* and it has been written: the copy has its values, without their history */
    bool has_alias;       /* the source is our view of the program's tensor as it was: h.t_() */
    bool is_shared;       /* views of rows of another tensor of the source's memory are among its views */
    bool is_stale;        /* other threads have written to the source what the copy has not: any of it */
    struct tensor *stale; /* owned: or these elements, as the copy lies; NULL: none */
    bool has_missed_versions; /* and what has been written to them counts as a version of the source */
    bool is_history_due;      /* the values have come, without gradients */
};

/* The window whose copy has this storage: borrowed; false: none. */
bool window_find(const void *storage, struct tensor **source, struct record *record, struct tensor **whole);
/* That copy. Owned; none: there is no such window. */
struct value window_copy(const void *storage);
/* The storage of what this one is a copy of (h of h[3]); NULL: there is no such window. */
const void *window_memory_of(const void *storage);
/* Will the argument be gathered by a collective? Not what a window has at hand. */
bool window_gathers_anew(const struct shard_call *call, const struct argument *argument);
/* What was written through a pointer into the copy goes to its source, but for what the copy has missed. False: there is no such thing. */
bool window_take_known(const void *storage);
/* The program has a pointer into the copy that has this storage, which stays where it is: as long as its source, too? */
void window_keep(const void *storage, bool as_its_source);
/* Has nobody but its window, and so many others, the copy's storage, and may nobody follow a pointer into it, so that nothing is to be looked for there? */
bool window_is_last_owner(const void *storage, uint32_t others);
/* What a tensor of the program's is a view of has been written by other threads: is gathered anew, a collective, where the tensor has any of it. */
void window_refresh(struct tensor *tensor, const struct written *written);
/* Other copies of a storage are brought up to date after one has been written: a collective, if so it is due. */
bool window_others_are_due(const void *source, const void *up_to_date);
void window_renew_others(const void *source, const void *up_to_date);
/* The program does not have the source any more. */
bool window_has_source_alone(const struct window *window);
/* The window has a tensor of its own of its source's memory. */
void window_detach_source(struct window *window);
/* How often windows have got other sources, or these other memory (x.data = y, x.set_(y)). */
unsigned window_changes(void);

/* ---- window_let_go.c. Any thread. */

/* The tensor (owned; taken) is released at the end of the next operator, with nothing in hand. */
void window_let_go(struct tensor *tensor);

/* The window whose copy has this storage; NULL: none. Within the scope of window.c's lock, as what follows. */
struct window *window_onto(const void *storage);
/* Is the memory, or the copy, one of which two tensors' rows are held as views of one copy? */
bool window_is_shared(const void *storage);

/* ---- window_call.c */

/* Those that the call uses of a window that is behind: collectives. */
void window_refresh_arguments(const struct shard_call *call);
/* A copy of rows that a window has; not of what is written beside other threads. Owned; NULL: they are gathered. */
struct tensor *window_at_hand(const struct shard_call *call, const struct argument *argument);

/* Is the argument a view of a copy, which is written? */
bool window_is_written_through(const struct shard_call *call, const struct argument *argument);
/* Before a call: refuses what cannot be done as in one process, and reads from what it writes. */
void window_check_call(struct shard_call *call, bool through_view);

/* ---- window_history.c */

/* The copy may have a history now; the window is done with it. */
void window_note_history(struct window *window);
void window_forget_history(struct window *window);
/* The thread has opened a window. */
void window_let_histories_go(uint64_t thread);

/* ---- window_values.c */

/* Refuses a write to a view of the window's copy (NULL: none), before anything is written, as libtorch refuses one to a view of the source. */
void window_check_write(const struct window *window, struct tensor *view);
/* The source is a leaf: what is written to its rows are values. */
bool window_is_of_leaf(const struct window *window);
/* Does the program's autograd follow what is written to it now? */
bool window_has_history(const struct window *window);
/* Does each element of one copy stand for what the one at the same place in the other stands for? Their sources may be different columns. */
bool window_have_same_place(const struct window *one, const struct window *other);
/* Does what was written to one copy lie at the same place in the other? */
bool window_is_at_same_place(const struct window *window, const struct window *through, const struct written *written);
/* Each rank takes its part of what was written to the copy; the history of the part is then that of the copy. */
void window_take_back(struct window *window, const struct written *written);
/* This rank's rows of flags that lie as the copy does. Owned. */
struct tensor *window_own_flags(const struct window *window, struct tensor *flags);
/* From copy to copy: all ranks have the same. */
void window_carry(const struct window *window, const struct window *through, const struct written *written);
/* The copy's values are gathered anew, a collective, after its source was written, through the window that is up to date or otherwise (NULL). */
void window_renew_written(struct window *window, const struct window *through, const struct written *written);
/* The same of what other threads have written, and is used now of this view or (not NULL) written to it. */
void window_renew_missed(struct window *window, struct tensor *tensor, const struct written *written);

/* ---- window_source.c */

/* What counts the versions of the tensor, and of its views; NULL: not known. */
const void *window_counter(struct tensor *tensor);
/* Is what was written, through a window or (NULL) in another way, no other version of the window's source: through h.data, or a view of it? */
bool window_counts_apart(const struct window *window, const struct window *through, const struct written *written);
/* The tensor without its history; apart: nor does what is written to it count for the tensor. Owned. */
struct value window_values_of(struct tensor *tensor, bool apart);
/* It is one of several views that one operator has made. */
bool window_is_of_many(struct tensor *source);
/* The whole gets the rows of the source as they are now. No collective. */
void window_take_rows(struct tensor *source, const struct record *record, struct tensor *whole);
/* Expanded, conjugated or negated, with a history (gather_shard). */
bool window_is_view(struct tensor *whole);
/* How many owners of the copy's memory are the window's: what is a view is one of what was. */
uint32_t window_owns(const struct window *window);
/* Elements at the same places of a memory each. */
bool window_are_one(struct tensor *one, struct tensor *other);
/* Is it another tensor of the same memory as the one whose rows were gathered, without a history of its own? Each `h.detach()` or `h.data` is a new one. */
bool window_is_twin(struct tensor *source, const struct record *record, struct tensor *other);
/* Is a twin's rows' copy, of which views are held, to have views of the other's rows, too ([h.detach()[i] for i in ...])? Both count alike, and nothing is
   written with a history (window_call.c). Not where the program still has the twin, to whose rows it may write; beside threads nobody knows who has it. */
bool window_may_be_shared(const struct window *window, struct tensor *other);
/* Such an operator reads nothing: of the views that it makes, others may. */
bool window_makes_views(const struct operator *op);
/* A view of that much of the tensor's memory, without its history. Owned. */
struct value window_part(struct tensor *tensor, const struct extent *extent);

/* ---- window_missed.c: within the scope of window.c's lock; flags lie as the copy does; no tensor: all elements */

/* Is any window behind? Any thread. */
bool window_any_behind(void);
/* Other threads have written these. is_version: it counts as one of the source. */
void window_miss(struct window *window, struct value flags, bool is_version);
/* They have been gathered, with their history? */
void window_have(struct window *window, struct value flags, bool has_history);
/* It could not come now. */
void window_owe_history(struct window *window);
/* The copy has been gathered anew, or ends. */
void window_catch_up(struct window *window);
/* None set. Owned. */
struct value window_no_flags(const struct window *window);
/* What is missing of what is used of a view of the copy, or (not NULL) written to it. Owned. */
struct value window_missed_of(const struct window *window, struct tensor *tensor, const struct written *written);
bool window_is_behind(const struct window *window, struct tensor *tensor, const struct written *written);

/* ---- window_written.c */

/* Sets those of the flags that lie as the extent says, and of these what is written alone (NULL: all). */
void window_mark(struct tensor *flags, const struct extent *extent, const struct written *written);

/* ---- window_beside.c: within the scope of window.c's lock */

/* Have the divided tensor, or sum, and elements that lie so in one process any in common? Asked of whole rows: the same on all ranks. Any thread. */
bool window_extent_meets(struct tensor *tensor, const struct record *record, const struct extent *told);
/* Where a part of a window's copy lies in one process; false: the copy lies in another way. */
bool window_told_of_part(const struct window *window, const struct extent *part, struct extent *told);
/* Are all elements of a part those of another extent of the tensor's memory? */
bool window_has_all(struct tensor *tensor, const struct extent *all, const struct extent *part);
/* Brings a window of another thread up to date with what was written through this thread's, or (NULL) in another way: no collective. */
void window_bring(struct window *window, const struct window *through, const struct written *written);
/* Where the copy has what was written, as flags (owned; no tensor: nowhere); false: nobody knows. */
bool window_find_written(const struct window *window, const struct window *through, const struct written *written, struct value *flags);
/* Which of the elements `of` are among the others, and of these among what is written alone (NULL: all)? As a tensor of flags. Owned. */
struct value window_flags(struct tensor *tensor, const struct extent *others, const struct written *written, const struct extent *of);
bool window_any_flag(struct value flags);
/* Those of the flags that are not among the others. Owned. */
struct value window_without(struct value flags, struct value others);
/* Writes the values where the flags are set, and nothing else. No history. */
void window_put_flagged(struct tensor *tensor, struct value flags, struct value values);
/* Writes to this rank's rows what is another value than it was before, and nothing else. */
/* Flags of the elements that are others than before. Owned. */
struct value window_changed(struct value before, struct value values);
void window_put_changed(struct tensor *tensor, struct value before, struct value values);
/* Takes back to the source what was written through the window, and leaves the rest to those who write there now. False: it is not to be told apart. */
bool window_write_back(const struct window *window, const struct written *written);

#endif
