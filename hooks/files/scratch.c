/*
 * Scratch files: names in /tmp that the program draws until nobody else has them. Every rank has its own, on the disk, as every process would: sockets are
 * bound there, children are told of them. A rename into a name that all ranks know ends that (names.c).
 *
 * Python's tempfile draws the same names on all ranks, each of which takes its own part of them: one that was given a name that another has had and removed
 * would show that one's program something where it has removed it.
 */
#include <stdlib.h>

#include "files.h"

struct scratch {
    struct scratch *older;
    _Atomic uint8_t state; /* 0 free, 1 being written, 2 there */
    char path[PATH_MAX];   /* real */
};

static struct scratch *_Atomic youngest; /* entries are used again, never freed */
static _Atomic uint32_t used;

bool scratch_may_be_in(const char *real) {
    const char *folders[] = {"/tmp", "/var/tmp", "/dev/shm", shim_temporary_folder()};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *name = folders[i] ? files_below(real, folders[i]) : NULL;
        if (name && !strchr(name, '/'))
            return true;
    }
    return false;
}

bool scratch_is_by_tempfile(void) {
    const struct python_api *python = python_to_lock();
    if (!python)
        return false;
    int state = python->lock(); /* given up around the call */
    struct object *frame = python->frame(), *module = python->item(python->modules(), "tempfile");
    struct object *names[] = {frame && module ? python->attribute(frame, "f_globals") : NULL,
                              frame && module ? python->attribute(module, "__dict__") : NULL};
    bool is_its = names[0] && names[0] == names[1];
    for (int i = 0; i < 2; i++)
        if (names[i])
            python->release(names[i]);
    python->unlock(state);
    return is_its;
}

/* Not of names without a prefix, by which tempfile finds out where it may write: it gives up after a hundred. */
bool scratch_is_anothers(const char *path) {
    enum { DRAWN = 8 };
    const char *base = shim_base_of(path);
    size_t length = strlen(base);
    uint32_t ranks = shim_world_size();
    return ranks > 1 && length > DRAWN && checksum_bytes(0, base, length) % ranks != shim_rank() && scratch_is_by_tempfile();
}

bool scratch_may_be_drawn(const char *path) {
    enum { DRAWN = 8 };
    const char *base = shim_base_of(path);
    size_t length = strlen(base);
    if (length < DRAWN)
        return false;
    const char *drawn = base + length - DRAWN;
    bool is_usual = length > DRAWN && (scratch_begins_usually(path) || strchr("_-.", drawn[-1]));
    return strspn(drawn, "abcdefghijklmnopqrstuvwxyz0123456789_") == DRAWN && (is_usual || strpbrk(drawn, "0123456789_"));
}

bool scratch_begins_usually(const char *path) {
    const char *base = shim_base_of(path);
    return !strncmp(base, "tmp", 3) || !strncmp(base, "pymp-", 5);
}

/* State 1. */
static struct scratch *take(void) {
    struct scratch *scratch;
    for (scratch = atomic_load(&youngest); scratch; scratch = scratch->older) {
        uint8_t is_free = 0;
        if (atomic_compare_exchange_strong(&scratch->state, &is_free, 1))
            return scratch;
    }
    scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return NULL;
    scratch->state = 1;
    scratch->older = atomic_load(&youngest);
    while (!atomic_compare_exchange_weak(&youngest, &scratch->older, scratch)) {
    }
    return scratch;
}

void scratch_add(const char *path) {
    struct scratch *scratch = take();
    if (!scratch)
        return;
    files_locate(path, scratch->path);
    atomic_store(&scratch->state, 2);
    atomic_fetch_add(&used, 1);
}

bool scratch_has(const char *real) {
    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return false;
    for (struct scratch *scratch = atomic_load(&youngest); scratch; scratch = scratch->older) {
        size_t length = atomic_load(&scratch->state) == 2 ? strlen(scratch->path) : 0;
        if (length && !strncmp(real, scratch->path, length) && (!real[length] || real[length] == '/'))
            return true;
    }
    return false;
}

bool scratch_is_named_in(const char *text) {
    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return false;
    for (struct scratch *scratch = atomic_load(&youngest); scratch; scratch = scratch->older)
        if (atomic_load(&scratch->state) == 2 && strstr(text, shim_base_of(scratch->path)))
            return true;
    return false;
}

void scratch_forget(const char *real) {
    for (struct scratch *scratch = atomic_load(&youngest); scratch; scratch = scratch->older) {
        uint8_t is_there = 2;
        if (atomic_load(&scratch->state) == 2 && !strcmp(scratch->path, real) &&
            atomic_compare_exchange_strong(&scratch->state, &is_there, 0))
            atomic_fetch_sub(&used, 1);
    }
}
