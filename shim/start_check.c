/*
 * The net under hooks/seed: whatever a program seeds itself from, the ranks do not train different models in silence.
 *
 * The parameters are compared once, by checksum, before they are first used with a part of a batch. Values that differ are the sign of
 * entropy that hooks/seed does not know (a clock's nanoseconds, a pid): rank 0's are taken, as if the others had drawn them. Later draws
 * from the same source will differ as well; then the checksum of the batches, which every step exchanges anyway with its first collective,
 * stops the job.
 */
#include "start_check.h"

#include <stdlib.h>

#include "checksum.h"
#include "shim.h"

/* What a tensor holds, in the order of memory: without dimensions of one element and those that repeat it (of stride 0), neighbours merged, the last one of
   adjacent elements. So masks and indices that are expanded, and crops of images, are a few runs. */
struct layout {
    int dims;                                               /* of runs; the last is left out */
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX]; /* bytes */
    size_t run;                                             /* bytes, likewise */
};

static bool has_values(struct tensor *tensor) {
    return tensor_has_memory(tensor) && tensor_dims(tensor) <= TORCH_DIMS_MAX && tensor_elements(tensor) > 0 &&
           !tensor_has_no_values(tensor);
}

/* Outermost first; equal strides keep the order of dimensions. */
static void insert_dim(struct layout *layout, int64_t size, int64_t stride) {
    int place = layout->dims++;
    for (; place > 0 && layout->strides[place - 1] < stride; place--) {
        layout->sizes[place] = layout->sizes[place - 1];
        layout->strides[place] = layout->strides[place - 1];
    }
    layout->sizes[place] = size;
    layout->strides[place] = stride;
}

static void merge_dims(struct layout *layout) {
    int last = 0;
    for (int i = 1; i < layout->dims; i++)
        if (layout->strides[last] == layout->sizes[i] * layout->strides[i]) {
            layout->sizes[last] *= layout->sizes[i];
            layout->strides[last] = layout->strides[i];
        } else {
            last++;
            layout->sizes[last] = layout->sizes[i];
            layout->strides[last] = layout->strides[i];
        }
    layout->dims = layout->dims ? last + 1 : 0;
}

static struct layout layout_of(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    struct layout layout = {.run = dtype_bytes(tensor_dtype(tensor))};
    for (size_t i = 0; i < sizes.count; i++)
        if (sizes.data[i] > 1 && strides.data[i])
            insert_dim(&layout, sizes.data[i], strides.data[i] * (int64_t)layout.run);
    merge_dims(&layout);
    if (layout.dims && layout.strides[layout.dims - 1] == (int64_t)layout.run)
        layout.run *= (size_t)layout.sizes[--layout.dims];
    return layout;
}

static size_t layout_bytes(const struct layout *layout) {
    size_t bytes = layout->run;
    for (int i = 0; i < layout->dims; i++)
        bytes *= (size_t)layout->sizes[i];
    return bytes;
}

struct runs {
    int64_t index[TORCH_DIMS_MAX];
    char *at; /* the run; NULL: that was the last */
};

static void next_run(const struct layout *layout, struct runs *runs) {
    for (int dim = layout->dims - 1; dim >= 0; dim--) {
        runs->at += layout->strides[dim];
        if (++runs->index[dim] < layout->sizes[dim])
            return;
        runs->at -= layout->sizes[dim] * layout->strides[dim];
        runs->index[dim] = 0;
    }
    runs->at = NULL;
}

static uint64_t checksum_values(uint64_t before, struct tensor *tensor) {
    struct layout layout = layout_of(tensor);
    struct checksum sum = checksum_begin(before);
    for (struct runs runs = {.at = tensor_data(tensor)}; runs.at; next_run(&layout, &runs))
        checksum_add(&sum, runs.at, layout.run);
    return checksum_end(&sum);
}

/* Moves the elements to or from a packed buffer. */
static void copy_strided(const struct layout *layout, char *memory, char *packed, bool into_tensor) {
    for (struct runs runs = {.at = memory}; runs.at; next_run(layout, &runs), packed += layout->run)
        memcpy(into_tensor ? runs.at : packed, into_tensor ? packed : runs.at, layout->run);
}

static uint64_t checksum_shape(uint64_t sum, struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor);
    int64_t type = tensor_dtype(tensor);
    sum = checksum_bytes(sum, &type, sizeof type);
    return checksum_bytes(sum, sizes.data, sizes.count * sizeof *sizes.data);
}

uint64_t start_check_batch(struct tensor *tensor) {
    if (tensor_node(tensor))
        return checksum_shape(0, tensor);
    if (!grad_mode_is_enabled() && dtype_is_floating(tensor_dtype(tensor)) && numbers_may_be_apart()) {
        numbers_meet_tensor(tensor);
        return checksum_shape(0, tensor);
    }
    return start_check_tensor(tensor);
}

uint64_t start_check_tensor(struct tensor *tensor) {
    uint64_t sum = checksum_shape(0, tensor);
    if (!has_values(tensor))
        return sum;
    if (!tensor_is_on_host(tensor)) {
        OPAQUE_SCOPE;
        struct tensor *host = host_copy(tensor);
        sum = start_check_tensor(host);
        tensor_release(host);
        return sum;
    }
    return checksum_values(sum, tensor);
}

/* ---- parameters */

/* Values are told apart in their memory's order, so it must be the same for the checksum to mean anything: it goes into the shape's. */
static uint64_t checksum_shapes(struct tensor *const *leaves, size_t count) {
    uint64_t sum = count;
    for (size_t i = 0; i < count; i++) {
        if (!leaves[i])
            continue;
        sum = checksum_shape(sum, leaves[i]);
        if (!has_values(leaves[i]))
            continue;
        struct sizes sizes = tensor_sizes(leaves[i]), strides = tensor_strides(leaves[i]);
        for (size_t dim = 0; dim < sizes.count; dim++)
            if (sizes.data[dim] > 1)
                sum = checksum_bytes(sum, &strides.data[dim], sizeof *strides.data);
    }
    return sum;
}

static void take_rank_0s(const char *label, struct tensor *tensor) {
    if (!tensor_is_on_host(tensor)) {
        OPAQUE_SCOPE;
        struct tensor *host = host_copy(tensor);
        take_rank_0s(label, host);
        host_copy_values(tensor, host);
        tensor_release(host);
        return;
    }
    struct layout layout = layout_of(tensor);
    if (!layout.dims) {
        comm_broadcast(label, tensor_data(tensor), layout.run, 0);
        return;
    }
    size_t bytes = layout_bytes(&layout);
    char *packed = malloc(bytes);
    if (!packed)
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.", "no memory for a copy of %s of %zu bytes",
                     label, bytes);
    copy_strided(&layout, tensor_data(tensor), packed, false);
    comm_broadcast(label, packed, bytes, 0);
    copy_strided(&layout, tensor_data(tensor), packed, true);
    free(packed);
}

void start_check_take_rank_0s(const char *label, struct tensor *tensor) {
    if (has_values(tensor))
        take_rank_0s(label, tensor);
}

/* sums: of this rank's leaves. Every rank finds the same leaves to differ, since all see all sums. Returns how many. */
static size_t make_equal(struct tensor *const *leaves, const uint64_t *sums, size_t count) {
    uint64_t all[BOARD_RANKS_MAX];
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        comm_all_gather_words("checksums of parameters", sums[i], all);
        if (comm_first_other(all) == shim_world_size())
            continue;
        different++;
        take_rank_0s("parameters", leaves[i]);
    }
    return different;
}

static void let_go(struct tensor **leaf) {
    tensor_release(*leaf);
    *leaf = NULL;
}

/* Python's collector frees tensors in cycles when it likes: a leaf that is gone on some rank is not looked at by any. */
static void keep_those_alive(struct tensor **leaves, size_t count) {
    uint64_t all[BOARD_RANKS_MAX];
    for (size_t first = 0; first < count; first += 64) {
        size_t end = first + 64 < count ? first + 64 : count;
        uint64_t alive = 0;
        for (size_t i = first; i < end; i++)
            alive |= (uint64_t)(leaves[i] != NULL) << (i - first);
        comm_all_gather_words("parameters that are alive", alive, all);
        for (uint32_t rank = 0; rank < shim_world_size(); rank++)
            alive &= all[rank];
        for (size_t i = first; i < end; i++)
            if (!(alive >> (i - first) & 1))
                let_go(&leaves[i]);
    }
}

/* Leaves that are used already must be equal. */
static void check_leaves(struct tensor **leaves, size_t count, bool are_used) {
    uint64_t *sums = calloc(count ? count : 1, sizeof *sums), all[BOARD_RANKS_MAX];
    bool are_of_threads = false;
    if (!sums)
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.", "no memory to check %zu parameters", count);
    comm_note("number of parameters", count);
    keep_those_alive(leaves, count);
    for (size_t i = 0; i < count; i++) {
        sums[i] = leaves[i] ? start_check_tensor(leaves[i]) : 0;
        are_of_threads |= leaves[i] && leaf_is_of_thread(leaf_ordinal(leaves[i]));
    }
    comm_note("types and sizes of the parameters", checksum_shapes(leaves, count));
    comm_all_gather_words("checksum of all parameters", checksum_bytes(0, sums, count * sizeof *sums), all);
    bool are_equal = comm_first_other(all) == shim_world_size();
    /* Of threads: one of C++ may have taken another task there, and the values of one model would be given to another one. */
    if (!are_equal && (are_used || are_of_threads))
        shim_problem(
            "AR-RANKS-PARTED",
            "Make the models in one thread, one after the other, or let each draw from a generator of its own (threads that draw from the "
            "common one differ from run to run of one process, too); or run with -n 1.",
            "threads of the program have made parameters that have other values on each rank");
    size_t different = are_equal ? 0 : make_equal(leaves, sums, count);
    if (different && shim_rank() == 0)
        shim_warning(
            "AR-START-DIFFERS", "seed it, and make the files the same, to be sure that the ranks read the same data",
            "%zu of %zu parameters began with other values on some ranks: all go on with those of rank 0. The program draws from a "
            "source of randomness that accel-run does not know, or reads a file that is another one on another host",
            different, count);
    free(sums);
}

/* A leaf that was made from divided rows (detach().requires_grad_()) has other values on each rank, and should. */
static bool is_divided(struct tensor *leaf) {
    enum record_kind kind = leaf ? record_get(leaf).kind : RECORD_NONE;
    return kind == RECORD_SHARD || kind == RECORD_PARTIAL;
}

/* The list and its references are given up. */
static void check_taken(struct tensor **leaves, size_t count, bool are_used) {
    for (size_t i = 0; i < count; i++)
        if (is_divided(leaves[i]))
            let_go(&leaves[i]);
    check_leaves(leaves, count, are_used);
    leaves_client.are_equal(leaves, count);
    for (size_t i = 0; i < count; i++)
        let_go(&leaves[i]);
    free(leaves);
}

/* Of several threads that come with the same ones, one checks them. */
static bool some_are_new(const void *unused) {
    (void)unused;
    return leaves_are_new();
}

void start_check_new_leaves(void) {
    struct tensor **leaves;
    if (!leaves_are_new() || !shim_comm_lock_while(some_are_new, NULL))
        return;
    __attribute__((cleanup(shim_comm_unlock), unused)) int scope = 0;
    size_t count = leaves_take_new(&leaves);
    check_taken(leaves, count, false);
}

static bool is_unknown(const void *ordinal) {
    return !leaf_is_known(*(const size_t *)ordinal);
}

void start_check_used_leaf(size_t ordinal) {
    struct tensor **leaves;
    if (!is_unknown(&ordinal) || !shim_comm_lock_while(is_unknown, &ordinal))
        return;
    __attribute__((cleanup(shim_comm_unlock), unused)) int scope = 0;
    size_t count = leaves_take_until(ordinal, &leaves);
    check_taken(leaves, count, true);
}
