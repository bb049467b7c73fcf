/*
 * Scratch files: names that the program draws until nobody else has them. Every rank has its own, on the disk, as every process would;
 * a rename into a name that all ranks know ends that (names.c).
 */
#include "files.h"

enum { SCRATCH_NAMES = 128 };

static struct {
    _Atomic uint8_t state; /* 0 free, 1 being written, 2 there */
    char path[PATH_MAX];   /* real */
} names[SCRATCH_NAMES];
static _Atomic uint32_t used;

void scratch_add(const char *path) {
    for (int i = 0; i < SCRATCH_NAMES; i++) {
        uint8_t is_free = 0;
        if (!atomic_compare_exchange_strong(&names[i].state, &is_free, 1))
            continue;
        files_locate(path, names[i].path);
        atomic_store(&names[i].state, 2);
        atomic_fetch_add(&used, 1);
        return;
    }
}

bool scratch_has(const char *real) {
    if (!atomic_load_explicit(&used, memory_order_relaxed))
        return false;
    for (int i = 0; i < SCRATCH_NAMES; i++) {
        size_t length = atomic_load(&names[i].state) == 2 ? strlen(names[i].path) : 0;
        if (length && !strncmp(real, names[i].path, length) && (!real[length] || real[length] == '/'))
            return true;
    }
    return false;
}

void scratch_forget(const char *real) {
    for (int i = 0; i < SCRATCH_NAMES && atomic_load_explicit(&used, memory_order_relaxed); i++) {
        uint8_t is_there = 2;
        if (atomic_load(&names[i].state) == 2 && !strcmp(names[i].path, real) &&
            atomic_compare_exchange_strong(&names[i].state, &is_there, 0))
            atomic_fetch_sub(&used, 1);
    }
}
