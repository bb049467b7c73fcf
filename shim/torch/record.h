/* What a marked tensor is to the ranks (record.c). */
#ifndef ACCEL_SHIM_TORCH_RECORD_H
#define ACCEL_SHIM_TORCH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types.h"

enum record_kind {
    RECORD_NONE = 0, /* replicated: the same on all ranks */
    RECORD_SHARD,    /* this rank's rows of a tensor whose dimension `dim` is divided */
    RECORD_PARTIAL,  /* the value is the sum of all ranks' tensors */
    RECORD_GATHERED, /* replicated, but computed from shards: its backward must be summed like a shard's */
};

/* Which batches a value was computed from: the same on all ranks, which compare it where they exchange. Results of two batches, alike in everything else, may
   be taken from a queue by threads that come in another order on each rank. */
struct origin {
    uint64_t newest;  /* a number of the thread that has used the batch first, larger than those before; 0: not used yet */
    uint64_t batches; /* some bits for each */
    uint64_t calls;   /* what was computed of them, and how, modulo a prime (hooks/shard/origin.c) */
};

/* Copied several times a call: 96 bytes. */
struct record {
    enum record_kind kind;
    int16_t dim;              /* SHARD: the divided dimension */
    int8_t layer_dim;         /* see layer */
    bool is_view_of_gathered; /* GATHERED: shares memory with a gathered copy; writes to it would be lost */
    int64_t total;            /* rows of the whole batch */
    int64_t first;            /* this rank's first row */
    int64_t rows; /* this rank's rows; the tensor has outer * rows * inner elements along dim, the whole one outer * total * inner */
    int64_t outer, inner; /* dimensions merged with the rows: (time, batch, head) viewed as one has outer = time, inner = heads; else 1 */
    int64_t packed;       /* PARTIAL: which packed elements, all but the own zero (hooks/shard/packed.c); 0: any sum */
    struct origin origin;
    uint64_t layer; /* where a replicated batch was cut into rows (hooks/shard/entry.c), 0: elsewhere; and along which dimension */
    void *node;     /* the autograd node it had when marked; roots are found by it first */
};

/* Rows [first, first + rows) of total are a rank's: the first total mod world size ranks have one more. */
void record_rows(int64_t total, int64_t rank, int64_t *first, int64_t *rows);
/* A rank's part of one: a power of two, so that no part is rounded, the smaller ones first, so that their sums in the order of ranks seldom are. */
double record_share(int64_t rank, int64_t count);
/* This rank's rows of `total` along dim, nothing merged with them. */
struct record record_shard(int dim, int64_t total);
/* Elements along the divided dimension: of the whole batch, of this rank. */
static inline int64_t record_total(const struct record *record) {
    return record->outer * record->total * record->inner;
}
static inline int64_t record_local(const struct record *record) {
    return record->outer * record->rows * record->inner;
}
/* The same rows at the same places along the divided dimension, whichever that is. */
static inline bool record_same_rows(const struct record *one, const struct record *other) {
    return one->total == other->total && one->inner == other->inner && one->outer == other->outer;
}
/* The batches of both; done once or many times, in any order, it is the same. */
static inline struct origin origin_join(struct origin one, struct origin other) {
    return (struct origin){.newest = one.newest > other.newest ? one.newest : other.newest, .batches = one.batches | other.batches};
}
/* Which batches, for the ranks to compare; 0: none. */
static inline uint64_t origin_word(struct origin origin) {
    return origin.newest ^ origin.batches * 0x9E3779B97F4A7C15ull;
}
/* A copy of the tensor's record; kind RECORD_NONE when there is none. Any thread. */
struct record record_get(struct tensor *tensor);
/* Marks a tensor (or marks it anew). Plain strided tensors only. */
void record_set(struct tensor *tensor, struct record record);
/* Of a tensor that has a record. */
void record_set_origin(struct tensor *tensor, struct origin origin);
/* Removes mark and record. */
void record_clear(struct tensor *tensor);
/* Around what gives a tensor another one's metadata (x.data = y): the mark of a leaf stays, and that of divided rows comes or goes with the rows. But a
   tensor with a history keeps its form: source, owned until the end, is what is to be taken instead of `from`. A collective where it has another form. Not
   active where a tensor is given its own (x.data = x.contiguous()): it stays what it is. From NULL: memory that is no marked tensor's. */
struct record_move {
    bool is_active, was_parameter;
    struct tensor *source;
};
struct record_move record_move_begin(struct tensor *from, struct tensor *to);
void record_move_end(const struct record_move *move, struct tensor *to);
/* The live tensor with a record that is the numbered output of a node, borrowed, or NULL: then all entries are looked at. */
struct tensor *record_output(void *node, uint32_t number);
/* Its record, else RECORD_NONE. */
struct record record_of_output(void *node, uint32_t number);
size_t record_count(void);
/* Calls visit, which clears none, for every live record, or for those of tensors that were part of a graph when they were marked. Any thread: tensors may
   end meanwhile on others, but none while it is shown. */
typedef void record_visit(struct tensor *tensor, const struct record *record, void *context);
void record_each(bool in_graph, record_visit *visit, void *context);
/* Sizes and strides of the whole batch: what the program sees. */
struct record_told {
    int dims;
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX];
};
/* NULL: it is not divided. As long as the tensor lives and is not marked anew. Any thread. */
const struct record_told *record_told(struct tensor *tensor);

#endif
