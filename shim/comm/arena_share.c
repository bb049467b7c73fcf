/*
 * A region of the arena: each rank makes a memfd and maps those of all others.
 *
 * The others' are opened through /proc/PID/fd: no name in the file system, no message between processes, gone with the last rank. Where that is not allowed
 * on one rank (another user, no /proc, no address space left) there is no region on any. All by system calls: the functions of libc are hooked in the
 * library, for the program's files.
 */
#define _GNU_SOURCE
#include "arena_blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first thing that this rank could not do. */
struct obstacle {
    const char *step; /* NULL: nothing */
    int error;
    uint32_t rank; /* whose memory it was */
};

static void meet_obstacle(struct obstacle *obstacle, uint32_t rank, const char *step, int error) {
    if (!obstacle->step) {
        *obstacle = (struct obstacle){step, error, rank};
    }
}

/* For whoever asks why sums are slower than they might be. */
static void say_obstacle(const struct obstacle *obstacle) {
    char text[256];
    if (!obstacle->step || !segment.options.say) {
        return;
    }
    snprintf(text, sizeof text, "rank %u cannot %s of rank %u, for gradients that all ranks see (%s): they pass through staging memory",
             segment.options.rank, obstacle->step, obstacle->rank, strerrordesc_np(obstacle->error));
    segment.options.say(text);
}

static int make_memory(size_t bytes, struct obstacle *obstacle) {
    struct rlimit file_size; /* also of files without a name: to be longer would end the process by a signal */
    uint32_t rank = segment.options.rank;
    if (getrlimit(RLIMIT_FSIZE, &file_size) || bytes > file_size.rlim_cur) {
        meet_obstacle(obstacle, rank, "make the memory", EFBIG);
        return -1;
    }
    int memory = (int)syscall(SYS_memfd_create, "accel-run gradients", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0) {
        meet_obstacle(obstacle, rank, "make the memory", errno);
    } else if (syscall(SYS_ftruncate, memory, (off_t)bytes) ||
               syscall(SYS_fcntl, memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        meet_obstacle(obstacle, rank, "size the memory", errno);
        syscall(SYS_close, memory);
        return -1;
    }
    return memory;
}

/* at: NULL, anywhere. Children do not see it, and dumps of a crash do not hold all ranks' gradients. */
static unsigned char *map_memory(void *at, size_t bytes, int memory, off_t offset) {
    void *view =
        (void *)syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0), memory, offset);
    if (view == MAP_FAILED) {
        return NULL;
    }
    madvise(view, bytes, MADV_DONTFORK);
    madvise(view, bytes, MADV_DONTDUMP);
    return view;
}

/* What a rank says of its memory. Ranks may live in process namespaces of their own: the name that leads to it may lead elsewhere here. */
struct identity {
    uint64_t name; /* pid << 32 | descriptor + 1; the latter 0: none */
    uint64_t device, file;
};

static bool is_it(const struct stat *status, const struct identity *identity, size_t bytes) {
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size == bytes && status->st_dev == identity->device &&
           status->st_ino == identity->file;
}

/* Looked at before it is opened: opening somebody else's device or pipe may do something. */
static unsigned char *map_of_rank(uint32_t rank, const struct identity *identity, size_t bytes, struct obstacle *obstacle) {
    char path[64];
    struct stat status;
    unsigned char *view = NULL;
    if (!(uint32_t)identity->name) { /* that rank says why */
        return NULL;
    }
    snprintf(path, sizeof path, "/proc/%u/fd/%u", (unsigned)(identity->name >> 32), (unsigned)(uint32_t)identity->name - 1);
    bool is_there = !syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0);
    if (!is_there || !is_it(&status, identity, bytes)) {
        meet_obstacle(obstacle, rank, "find the memory", is_there ? ESTALE : errno);
        return NULL;
    }
    int memory = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (memory < 0) {
        meet_obstacle(obstacle, rank, "open the memory", errno);
        return NULL;
    }
    if (syscall(SYS_fstat, memory, &status) || !is_it(&status, identity, bytes)) {
        meet_obstacle(obstacle, rank, "open the memory", ESTALE);
    } else if (!(view = map_memory(NULL, bytes, memory, 0))) {
        meet_obstacle(obstacle, rank, "map the memory", errno);
    }
    syscall(SYS_close, memory);
    return view;
}

static unsigned char *map_own(const struct own_descriptor *memory, size_t bytes, struct obstacle *obstacle) {
    unsigned char *view = own_is_there(memory) ? map_memory(NULL, bytes, memory->number, 0) : NULL;
    if (!view) {
        meet_obstacle(obstacle, segment.options.rank, "map the memory", errno);
    }
    return view;
}

static void gather_identities(const struct own_descriptor *memory, struct identity *all) {
    uint64_t words[3][BOARD_RANKS_MAX];
    comm_all_gather_words("shared gradients", (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)(memory->number + 1), words[0]);
    comm_all_gather_words("shared gradients", memory->device, words[1]);
    comm_all_gather_words("shared gradients", memory->file, words[2]);
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        all[rank] = (struct identity){words[0][rank], words[1][rank], words[2][rank]};
    }
}

static void drop_region(struct arena_region *region) {
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        if (region->views[rank]) {
            munmap(region->views[rank], region->bytes);
        }
        region->views[rank] = NULL;
    }
    own_close(&region->memory);
}

static bool all_agree(bool done) {
    uint64_t all[BOARD_RANKS_MAX];
    comm_all_gather_words("shared gradients are mapped", done, all);
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        done &= all[rank] == 1;
    }
    return done;
}

bool arena_make_region(struct arena_region *region, size_t bytes) {
    struct identity all[BOARD_RANKS_MAX];
    struct obstacle obstacle = {0};
    int saved_errno = errno, memory = make_memory(bytes, &obstacle);
    bool done = memory >= 0;
    region->bytes = bytes;
    region->memory = done ? own_take(memory) : OWN_NONE;
    gather_identities(&region->memory, all);
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        bool is_own = rank == segment.options.rank;
        region->views[rank] = is_own ? map_own(&region->memory, bytes, &obstacle) : map_of_rank(rank, &all[rank], bytes, &obstacle);
        done &= region->views[rank] != NULL;
    }
    done = all_agree(done);
    region->own = region->views[segment.options.rank];
    if (!done) {
        say_obstacle(&obstacle);
        drop_region(region);
    }
    errno = saved_errno;
    return done;
}

bool arena_map_shared(const struct arena_region *region, const struct arena_block *block) {
    off_t offset = block->memory - region->own;
    return own_is_there(&region->memory) && map_memory(block->memory, block->bytes, region->memory.number, offset);
}
