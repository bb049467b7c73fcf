/*
 * Records: what a marked tensor is. A table from TensorImpl* to a record that lives exactly as long as its tensor (the deleting destructor is hooked), and
 * moves to copies of the tensor (metadata.c). A tensor is looked up only when it carries our key bit, so tensors that are not ours cost nothing;
 * the lock is a short spin, needed because loader threads and device threads free tensors too.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "../python.h"
#include "../shim.h"
#include "functions.h"

struct entry {
    struct tensor *tensor;
    struct entry *older, *younger; /* of its list */
    bool is_in_graph;
    struct record record;
    struct record_told told; /* as of when the program last asked: another thread may be reading it */
    bool is_told;            /* it is still so */
};

static struct entry **table; /* open addressing, a power of two */
static size_t table_size, table_used;
/* All entries, those of the graph and the others: a backward looks through the former alone, while the program may keep any number of results. */
static struct entry *youngest[2];
static size_t listed[2];
static atomic_flag table_lock = ATOMIC_FLAG_INIT;

static void table_unlock(int *unused) {
    atomic_flag_clear_explicit(&table_lock, memory_order_release);
}

static int table_acquire(void) {
    for (int spins = 0; atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire); spins++)
        if (spins > 1000)
            sched_yield();
    return 0;
}

#define TABLE_SCOPE __attribute__((cleanup(table_unlock), unused)) int table_scope_ = table_acquire()

static size_t table_home(struct tensor *tensor) {
    return (size_t)(((uintptr_t)tensor * 0x9E3779B97F4A7C15ull) >> 32) & (table_size - 1);
}

/* The place of the tensor's entry, or of the hole where it belongs. Lock held. */
static size_t table_place(struct tensor *tensor) {
    size_t place = table_home(tensor);
    while (table[place] && table[place]->tensor != tensor)
        place = (place + 1) & (table_size - 1);
    return place;
}

static void table_grow(void) {
    struct entry **old = table;
    size_t old_size = table_size;
    table_size = old_size ? 2 * old_size : 4096;
    table = calloc(table_size, sizeof *table);
    for (size_t i = 0; i < old_size; i++)
        if (old[i])
            table[table_place(old[i]->tensor)] = old[i];
    free(old);
}

static void list_add(struct entry *entry, bool is_in_graph) {
    struct entry **head = &youngest[is_in_graph];
    listed[is_in_graph]++;
    entry->is_in_graph = is_in_graph;
    entry->older = *head;
    entry->younger = NULL;
    if (*head)
        (*head)->younger = entry;
    *head = entry;
}

static void list_remove(struct entry *entry) {
    listed[entry->is_in_graph]--;
    if (entry->older)
        entry->older->younger = entry->younger;
    if (entry->younger)
        entry->younger->older = entry->older;
    else
        youngest[entry->is_in_graph] = entry->older;
}

/* A new entry at a hole. Lock held. */
static struct entry *table_add(size_t place) {
    struct entry *entry = malloc(sizeof *entry);
    entry->told.dims = -1;
    table[place] = entry;
    table_used++;
    list_add(entry, false);
    return entry;
}

/* Removes the entry and closes the gap it leaves (Knuth 6.4 R). Lock held. Returns the entry. */
static struct entry *table_remove(struct tensor *tensor) {
    size_t hole = table_place(tensor);
    struct entry *entry = table[hole];
    if (!entry)
        return NULL;
    list_remove(entry);
    table_used--;
    for (size_t next = hole;;) {
        table[hole] = NULL;
        size_t home;
        do {
            next = (next + 1) & (table_size - 1);
            if (!table[next])
                return entry;
            home = table_home(table[next]->tensor);
        } while (hole <= next ? hole < home && home <= next : hole < home || home <= next);
        table[hole] = table[next];
        hole = next;
    }
}

static void before_fork(void) {
    table_acquire();
}

static void after_fork(void) {
    table_unlock(NULL);
}

/* At a fork the table is whole and nobody's: a child looks into it, too. */
void record_begin(void) {
    TABLE_SCOPE;
    if (table)
        return;
    table_grow();
    pthread_atfork(before_fork, after_fork, after_fork);
}

size_t record_count(void) {
    TABLE_SCOPE;
    return table_used;
}

void record_rows(int64_t total, int64_t rank, int64_t *first, int64_t *rows) {
    int64_t ranks = shim_world_size(), each = total / ranks, more = total % ranks;
    *first = rank * each + (rank < more ? rank : more);
    *rows = each + (rank < more);
}

double record_share(int64_t rank, int64_t count) {
    int64_t power = 1;
    while (power < count)
        power *= 2;
    return (rank < 2 * count - power ? 1.0 : 2.0) / (double)power;
}

struct record record_shard(int dim, int64_t total) {
    struct record record = {.kind = RECORD_SHARD, .dim = dim, .total = total, .outer = 1, .inner = 1};
    record_rows(total, shim_rank(), &record.first, &record.rows);
    return record;
}

struct record record_get(struct tensor *tensor) {
    if (!tensor_is_marked(tensor))
        return (struct record){.kind = RECORD_NONE};
    TABLE_SCOPE;
    struct entry *entry = table[table_place(tensor)];
    return entry ? entry->record : (struct record){.kind = RECORD_NONE};
}

/* ---- marks */

/* SizesStridesPolicy::CustomSizes and its origin flag, in the byte two before the key set (0x01 becomes 0x49 from 1.13 to 2.15): libtorch then asks
   the virtuals that we hook. Proven by the self-check. */
enum { POLICY_CUSTOM_SIZES = 0x48 };

static uint8_t *tensor_policy(struct tensor *tensor) {
    return (uint8_t *)tensor + torch_facts.key_set - 2;
}

/* Python tells its sizes: nested tensors of the jagged kind. */
static bool has_sizes_of_its_own(struct tensor *tensor) {
    return !tensor_is_marked(tensor) && *tensor_policy(tensor) & POLICY_CUSTOM_SIZES;
}

void record_set(struct tensor *tensor, struct record record) {
    if (tensor == torch_facts.undefined)
        return;
    if (!tensor_is_plain(tensor) || has_sizes_of_its_own(tensor) || tensor_dims(tensor) > TORCH_DIMS_MAX)
        shim_problem("AR-SHARD-KIND", "Make such tensors of what no layer has computed, or run with -n 1; please report the operator.",
                     "a tensor of a special kind (sparse, quantised, nested or of more than %d dimensions) would have to be divided",
                     TORCH_DIMS_MAX);
    record.node = tensor_node(tensor);
    bool is_in_graph = record.node || tensor_requires_grad(tensor);
    {
        TABLE_SCOPE;
        if (2 * table_used >= table_size)
            table_grow();
        size_t place = table_place(tensor);
        struct entry *entry = table[place] ? table[place] : table_add(place);
        entry->tensor = tensor;
        entry->record = record;
        entry->is_told = false;
        if (entry->is_in_graph != is_in_graph) {
            list_remove(entry);
            list_add(entry, is_in_graph);
        }
    }
    *tensor_key_set(tensor) |= torch_facts.bit_shard;
    /* a part of a sum tells its offset (told.c), which is another one while it is lent memory */
    if (record.kind == RECORD_SHARD || (record.kind == RECORD_PARTIAL && tensor_own_offset(tensor)))
        *tensor_policy(tensor) |= POLICY_CUSTOM_SIZES;
    else
        *tensor_policy(tensor) &= (uint8_t)~POLICY_CUSTOM_SIZES;
}

void record_set_origin(struct tensor *tensor, struct origin origin) {
    TABLE_SCOPE;
    struct entry *entry = table[table_place(tensor)];
    if (entry)
        entry->record.origin = origin;
}

/* The tensor that is visited just now, which another thread may be about to end. */
static _Atomic(struct tensor *) visited;

static void wait_for_visit(struct tensor *tensor) {
    void *python = python_let_go();
    while (atomic_load(&visited) == tensor)
        sched_yield();
    python_take_again(python);
}

void record_clear(struct tensor *tensor) {
    if (tensor == torch_facts.undefined || !tensor_is_marked(tensor))
        return;
    *tensor_key_set(tensor) &= ~torch_facts.bit_shard;
    if (*(void **)tensor == torch_facts.tensor_vtable)
        *tensor_policy(tensor) &= (uint8_t)~POLICY_CUSTOM_SIZES;
    struct entry *entry;
    {
        TABLE_SCOPE;
        entry = table_remove(tensor);
    }
    if (atomic_load(&visited) == tensor)
        wait_for_visit(tensor);
    free(entry);
}

/* Returns false when it has no record any more. Else its end, which begins with record_clear, waits until it is not shown any more. */
static bool visit_begin(struct tensor *tensor, struct record *record) {
    TABLE_SCOPE;
    const struct entry *entry = table[table_place(tensor)];
    if (!entry)
        return false;
    *record = entry->record;
    atomic_store(&visited, tensor);
    return true;
}

static pthread_mutex_t visit_mutex = PTHREAD_MUTEX_INITIALIZER; /* one visits at a time */

static void visit_end(int *unused) {
    atomic_store(&visited, NULL);
    pthread_mutex_unlock(&visit_mutex);
}
#define VISIT_SCOPE                                                                                                                        \
    __attribute__((cleanup(visit_end), unused)) int visit_scope_ = (python_lock(&visit_mutex), 0) /* also when what it calls throws */

/* Live tensors with this node: those that had it when they were marked, which costs a look at each entry only, or all. Borrowed; returns how many, of which
   up to `room` are listed. */
static size_t tensors_of_node(void *node, bool all, struct tensor **tensors, size_t room) {
    size_t count = 0;
    TABLE_SCOPE;
    for (int list = !all; list < 2; list++)
        for (struct entry *entry = youngest[list]; entry; entry = entry->older)
            if ((all || entry->record.node == node) && tensor_node(entry->tensor) == node && count++ < room)
                tensors[count - 1] = entry->tensor;
    return count;
}

/* That was marked last with this node; NULL: none. Borrowed. */
static struct tensor *youngest_of_node(void *node) {
    TABLE_SCOPE;
    for (struct entry *entry = youngest[1]; entry; entry = entry->older)
        if (entry->record.node == node && tensor_node(entry->tensor) == node)
            return entry->tensor;
    return NULL;
}

/* Owned; NULL: another thread has ended it meanwhile. */
static struct tensor *hold(struct tensor *tensor, struct record *record) {
    VISIT_SCOPE;
    return visit_begin(tensor, record) && tensor_retain_living(tensor) ? tensor : NULL;
}

static bool is_output(struct tensor *tensor, void *node, uint32_t number, struct record *record) {
    if (!hold(tensor, record))
        return false;
    bool is_it = tensor_node(tensor) == node && /* else another one has its address now */
                 TORCH_CALL("aten::output_nr", "", value_tensor(tensor)).integer == (int64_t)number;
    tensor_release(tensor);
    return is_it;
}

static struct tensor *find_output(void *node, uint32_t number, bool all, struct record *record) {
    enum { FEW = 16 };
    struct tensor *few[FEW], **tensors = few, **many = NULL, *found = NULL;
    struct tensor *newest = all ? NULL : youngest_of_node(node); /* most often a loss of just now */
    if (newest && is_output(newest, node, number, record))
        return newest;
    size_t count = tensors_of_node(node, all, few, FEW), room = FEW;
    if (count > FEW) {
        tensors = many = malloc(count * sizeof *many);
        room = count;
        count = tensors_of_node(node, all, many, room);
    }
    for (size_t i = 0; i < count && i < room && !found; i++)
        if (is_output(tensors[i], node, number, record))
            found = tensors[i];
    free(many);
    return found;
}

/* What was written through a view of it (loss.view(1).mul_(3)) has another node than when it was marked. */
static struct tensor *output_of(void *node, uint32_t number, struct record *record) {
    struct tensor *found = node ? find_output(node, number, false, record) : NULL;
    return found || !node ? found : find_output(node, number, true, record);
}

struct tensor *record_output(void *node, uint32_t number) {
    struct record record;
    return output_of(node, number, &record);
}

struct record record_of_output(void *node, uint32_t number) {
    struct record record;
    return output_of(node, number, &record) ? record : (struct record){.kind = RECORD_NONE};
}

/* Other threads end tensors meanwhile, also those that are still to be shown. */
void record_each(bool in_graph, record_visit *visit, void *context) {
    VISIT_SCOPE;
    size_t count = 0;
    struct tensor **tensors;
    {
        TABLE_SCOPE;
        tensors = malloc(((in_graph ? 0 : listed[0]) + listed[1] + 1) * sizeof *tensors);
        for (int list = in_graph; list < 2; list++)
            for (struct entry *entry = youngest[list]; entry; entry = entry->older)
                tensors[count++] = entry->tensor;
    }
    struct record record;
    for (size_t i = 0; i < count; i++)
        if (visit_begin(tensors[i], &record)) {
            visit(tensors[i], &record, context);
            atomic_store(&visited, NULL);
        }
    free(tensors);
}

/* ---- the whole batch's */

/* What has not changed is not written: a thread that reads the sizes while another writes rows (and marks the tensor anew) sees no moment in between. */
static void tell(struct entry *entry, struct tensor *tensor) {
    struct record_told now;
    now.dims = layout_told(tensor, &entry->record, now.sizes, now.strides);
    size_t bytes = (size_t)now.dims * sizeof *now.sizes;
    if (now.dims != entry->told.dims || memcmp(now.sizes, entry->told.sizes, bytes) || memcmp(now.strides, entry->told.strides, bytes))
        entry->told = now;
    entry->is_told = true;
}

const struct record_told *record_told(struct tensor *tensor) {
    TABLE_SCOPE;
    struct entry *entry = table[table_place(tensor)];
    if (!entry || entry->record.kind != RECORD_SHARD)
        return NULL;
    if (!entry->is_told)
        tell(entry, tensor);
    return &entry->told;
}

/* ---- hooks: life (copies: metadata.c) */

static void tensor_ends(struct tensor *tensor) {
    loans_return_of(tensor); /* also in a child of a rank: what it has been lent is a copy's */
    if (!shim_active())
        return;
    if (tensor_is_parameter(tensor))
        leaf_gone(tensor);
    if (tensor_is_marked(tensor))
        record_clear(tensor);
}

void hook_tensor_delete(struct tensor *tensor) {
    tensor_ends(tensor);
    ORIGINAL(tensor_delete)(tensor);
}

void hook_tensor_end(struct tensor *tensor) {
    tensor_ends(tensor);
    ORIGINAL(tensor_end)(tensor);
}
