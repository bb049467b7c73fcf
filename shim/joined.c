#define _GNU_SOURCE
#include "joined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAP_MS = 10 };

/* Where the memory can be opened. */
struct place {
    int32_t pid, number;
};

static struct place front, zero;
static char secret[PROTOCOL_COOKIE_CHARS + 1];
static uint32_t own_rank, generation;
static struct join_page *page;
static struct join_page *parents; /* in a forked child of a rank */

bool joined_is_here(void) {
    return front.pid > 0;
}

bool joined_is_front(void) {
    return getpid() == front.pid;
}

struct join_page *joined_page(void) {
    return page;
}

uint32_t joined_rank(void) {
    return own_rank;
}

uint32_t joined_generation(void) {
    return generation;
}

static int open_in(struct place place, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place.pid, (int)place.number);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

int joined_open(uint64_t process, int32_t number, int flags) {
    char state = joined_process_state(process);
    if (number < 0 || (join_pid(process) != getpid() && (!state || state == JOINED_UNSEEN))) { /* under the number may be another one */
        errno = ESRCH;
        return -1;
    }
    return open_in((struct place){join_pid(process), number}, flags);
}

/* The memory, from the first process of this rank, or of rank 0 if the program has closed it there. Returns a descriptor or -1. */
static int open_memory(void) {
    int memory = open_in(front, O_RDWR);
    return memory >= 0 ? memory : open_in(zero, O_RDWR);
}

/* Maps the page, if it is this job's: descriptors are given away again as numbers of processes are. */
static bool map_page(int memory) {
    if (page)
        return true;
    void *mapped = mmap(NULL, join_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (mapped == MAP_FAILED)
        return false;
    struct join_page *found = mapped;
    if (lseek(memory, 0, SEEK_END) >= (off_t)join_page_bytes() && found->magic == JOIN_MAGIC && found->version == PROTOCOL_VERSION &&
        own_rank < found->world_size && !strcmp(found->cookie, secret))
        page = found;
    else
        munmap(mapped, join_page_bytes());
    return page;
}

bool joined_snapshot(const char *value, const char *cookie, uint32_t rank) {
    if (sscanf(value, "%d:%d %d:%d", &front.pid, &front.number, &zero.pid, &zero.number) != 4 || front.pid <= 0) {
        front.pid = 0;
        return false;
    }
    strcpy(secret, cookie);
    own_rank = rank;
    if (!joined_is_front()) /* a shell, a compiler: may become the rank, but its end is not the rank's */
        return true;
    int memory = open_memory();
    if (memory >= 0 && map_page(memory))
        joined_watch_end();
    if (memory >= 0)
        syscall(SYS_close, memory);
    return true;
}

void joined_forget(void) {
    joined_words_close();
    if (page) /* not in a child's own child, which comes by here, too */
        parents = page;
    page = NULL;
    front.pid = 0;
}

bool joined_has_parent(void) {
    return parents;
}

void joined_stop_parent(const struct protocol_problem *problem) {
    uint32_t running = 0;
    if (!atomic_compare_exchange_strong(&parents->stopped, &running, own_rank + 1))
        return;
    page = parents; /* where the rank's words go: its own standard error may be a file in memory that nobody reads */
    joined_words_of_child(problem);
}

/* ---- the claim */

/* Takes the rank, unless a living process has it. One that has replaced itself by exec has it already, and claims again. */
static bool take_rank(struct join_rank *own) {
    uint64_t self = joined_process_self(), before = atomic_load(&own->claimer);
    do {
        if (before && before != self && joined_process_is_alive(before))
            return false;
    } while (!atomic_compare_exchange_strong(&own->claimer, &before, self));
    return true;
}

/* All ranks have come to the next generation: what the last one has used is zero again. */
static void free_slot(uint32_t number, int memory) {
    uint32_t slot = number % JOIN_SLOTS;
    if (!number)
        return;
    syscall(SYS_fallocate, memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(join_page_bytes() + slot * page->slot_bytes),
            (off_t)page->slot_bytes);
    atomic_store(&page->started[slot], 0);
    atomic_store(&page->freed, number);
}

/* Returns false at the deadline: another rank is still in a program that this one has left long ago. */
static bool await_slot(void) {
    for (uint32_t waited_ms = 0; generation > JOIN_SLOTS && atomic_load(&page->freed) < generation - JOIN_SLOTS; waited_ms += NAP_MS) {
        if (waited_ms >= page->grant.collective_timeout_ms || atomic_load(&page->stopped))
            return false;
        poll(NULL, 0, NAP_MS);
    }
    return true;
}

static void *map_slot(int memory) {
    uint32_t slot = generation % JOIN_SLOTS;
    off_t begin = (off_t)(join_page_bytes() + slot * page->slot_bytes);
    void *mapped = mmap(NULL, page->slot_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, begin);
    if (mapped == MAP_FAILED)
        return NULL;
    struct board *board = mapped;
    board->magic = BOARD_MAGIC; /* every rank writes the same */
    board->world_size = page->world_size;
    if (atomic_fetch_add(&page->started[slot], 1) + 1 == page->world_size)
        free_slot(generation - 1, memory);
    return mapped;
}

static int claim_with(int memory, struct protocol_grant *grant, void **segment, const char **what) {
    *what = "the ranks' shared memory is not there";
    if (memory < 0 || !map_page(memory))
        return -1;
    struct join_rank *own = &page->ranks[own_rank];
    if (!take_rank(own))
        return 0;
    atomic_store(&own->ended, 0); /* before: who sees that this one has come takes it for its end */
    generation = atomic_fetch_add(&own->claims, 1) + 1;
    joined_words_open();
    if (!joined_is_front())
        joined_watch_end();
    *what = "another rank is still in an earlier program";
    errno = 0;
    if (!await_slot())
        return -1;
    *what = "the ranks' shared memory cannot be mapped";
    if (!(*segment = map_slot(memory)))
        return -1;
    *grant = page->grant;
    grant->rank = own_rank;
    return 1;
}

int joined_claim(struct protocol_grant *grant, void **segment, const char **what) {
    int memory = open_memory();
    int status = claim_with(memory, grant, segment, what);
    if (memory >= 0) {
        int error = errno;
        syscall(SYS_close, memory);
        errno = error;
    }
    return status;
}
