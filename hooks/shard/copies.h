/* The copies that stand in for divided memory (read.c), found by what they are of. All of it within COPIES_SCOPE. */
#ifndef ACCEL_HOOKS_SHARD_COPIES_H
#define ACCEL_HOOKS_SHARD_COPIES_H

#include <pthread.h>

#include "list.h"
#include "read.h"

/* What copies show in the end: the memory of a divided tensor, of which a watched one is a view. */
struct family {
    struct list_node hasty; /* among those that are_hasty(), while it is one of them */
    struct list_node *copies;
    const void *source; /* a storage */
    int memories;       /* how many storages its copies are of */
    int watched, lost;  /* how many are watched, and of these, how many are views of nothing that is known */
    bool is_hasty;
};

/* All copies of one storage. */
struct place {
    struct list_node *copies;
    const void *storage;
    uint32_t count; /* each of which owns it */
};

struct copy {
    struct list_node all, of_place, of_family;
    struct place *place;
    struct family *family;
    struct tensor *alias; /* owned: the divided memory as this rank has it, unmarked */
    struct tensor *whole; /* owned: what the program sees; the alias itself: watched only */
    struct record record;
    size_t look; /* its place among those that are looked through */
    enum copy_extent extent;
    bool is_changed, is_lost;
};

extern struct list_kept copies;
extern _Atomic unsigned copies_made; /* ever */
extern pthread_mutex_t copies_mutex;
void copies_unlock(int *unused);
#define COPIES_SCOPE __attribute__((cleanup(copies_unlock), unused)) int copies_scope_ = (python_lock(&copies_mutex), 0)

/* What the program sees of a copy, and whether it has written there. All of them lie side by side: a backward may read what any of them is of, so it looks
   through all, and the program may have kept one of each step. */
struct look {
    struct copy *copy;
    const void *storage;  /* of its whole */
    size_t offset, bytes; /* from its first element to the end of its last */
    uint64_t checksum;    /* when last equal to what the ranks have */
};

static inline bool copy_is_watched(const struct copy *copy) {
    return copy->whole == copy->alias;
}

/* Is the copy of this tensor, in this shape; of all of the storage that the tensor lies in; and where do pointers to the tensor lead into it? */
copy_fits copies_is_same, copies_is_of_storage, copies_is_of_memory;
/* The copy of the tensor's memory that fits; *others: the same memory has copies that do not. */
struct copy *copies_find(struct tensor *tensor, const struct record *record, copy_fits *fits, bool *others);
/* Has nobody but us its memory any more (nor, through a view, what it is a view of)? */
bool copies_is_unowned(const struct copy *copy);
struct place *copies_place(const void *storage);   /* NULL: there are none of it */
struct family *copies_family(const void *source);  /* the same */
struct copy *copies_with_whole(const void *whole); /* the one whose whole has this storage; NULL: none */
/* Where the program sees it; NULL: the program has given the memory back (untyped_storage().resize_(0)). What it puts there once it has some again counts as
   written. */
char *copies_memory(const struct copy *copy);
size_t copies_bytes(const struct copy *copy);
bool copies_is_written(const struct copy *copy);
void copies_note_equal(const struct copy *copy); /* as it is now, it is equal to what the ranks have */
bool copies_any_written(void);
void copies_add(struct copy *copy);
void copies_remove(struct copy *copy);
/* Windows have lost their sources (x.data = y): families anew. */
void copies_follow_windows(void);
/* Families in which what was written to a watched copy must be taken back before anything else is written: there is other memory to write to, or nothing is
   known of which it is a view. The first one's node `hasty`. */
struct list_node *copies_hasty(void);

/* Has the copy any of what was written? Beside other threads those of other parts of the storage may be there on some ranks only. */
bool copies_is_met(const struct copy *copy, const struct written *written);
/* Before a look at a tensor: is what was written to its copies taken back, if it has others than the one that fits? */
static inline bool copies_are_settled(bool others, const struct record *record) {
    return others || record->kind == RECORD_GATHERED;
}
/* read_turn.c, as read_turn(): around what makes a copy of the tensor where there is none; makes those anew that have any of what was written; takes back what
   was written through pointers, before a call (NULL: all of it), or a look at a tensor. */
bool read_turn_to_make(struct tensor *tensor, const struct record *record);
bool read_turn_to_renew(const struct written *written);
bool read_turn_to_settle(const struct shard_call *call);
bool read_turn_to_look(struct tensor *tensor, const struct record *record, copy_fits *fits);
/* Does taking back what was written to a watched copy exchange anything? */
bool read_is_due_through(const struct copy *copy);
/* read.c: windows of the storage have been made anew; what was written through pointers to what they show has been taken back before. */
void read_after_renewal(const void *source);
/* children.c: what the program sees of a storage's copies is one memory from now on. In a forked child. */
void children_unite(const struct place *place);
/* storage.c: where a storage begins; NULL: it has no memory, or not so many bytes. */
char *storage_memory(const void *storage, size_t bytes);

#endif
