/* Which of the open files have been given to children as their own (dup2 in them, before they become other programs). */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "files.h"

static _Atomic(_Atomic uint8_t *) given;               /* by the place of the file, in memory that a fork()ed child shares */
enum { GIVEN = 1, MAY_BE_GIVEN = 2, GIVES_MS = 2000 }; /* a forked child makes it its own soon, or never */
static _Atomic uint64_t forked_at;

void given_forget(uint32_t place) {
    _Atomic uint8_t *all = atomic_load_explicit(&given, memory_order_relaxed), *none = NULL;
    if (!all) {
        void *memory = mmap(NULL, BOARD_ENDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        all = memory == MAP_FAILED ? NULL : memory;
        if (all && !atomic_compare_exchange_strong(&given, &none, all)) {
            munmap(memory, BOARD_ENDS);
            all = none;
        }
    }
    if (all)
        atomic_store(&all[place], 0);
}

void given_add(int descriptor) {
    _Atomic uint8_t *all = atomic_load(&given);
    uint32_t place = all ? written_place_at(descriptor) : BOARD_ENDS;
    if (place < BOARD_ENDS)
        atomic_fetch_or(&all[place], GIVEN);
}

static void may_be_given(struct written *file, const void *all) {
    if (file->is_own)
        atomic_fetch_or(&(*(_Atomic uint8_t *const *)all)[file->place], MAY_BE_GIVEN);
}

void given_may_be(void) {
    _Atomic uint8_t *all = atomic_load(&given);
    atomic_store(&forked_at, clock_ms());
    if (all)
        written_each(may_be_given, &all);
}

static uint8_t given_of(const struct written *file) {
    const _Atomic uint8_t *all = atomic_load(&given);
    return all ? atomic_load(&all[file->place]) : 0;
}

bool given_has(const struct written *file) {
    return given_of(file) & GIVEN;
}

bool given_is_perhaps(const struct written *file) {
    uint8_t how = given_of(file);
    return how & GIVEN || (how && clock_ms() < atomic_load(&forked_at) + GIVES_MS);
}
