/*
 * Who owns a storage. In libtorch 2.13 and later the object that Python has for a storage owns it, and lives as long as anybody else owns it too:
 * a bit of the counts says that there is one. Where nobody has that object any more, it counts for nobody.
 */
#include <pthread.h>

#include "../python.h"
#include "../resolve.h"
#include "../shim.h"
#include "../threads.h"
#include "functions.h"
#include "loader.h"

enum { STORAGE_BYTES = 128, HAS_OBJECT = 63 };

static pthread_mutex_t wrapper_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void storage_owners_start(void) {
    threads_renew_in_child(&wrapper_mutex);
}

static bool is_wrapper(const void *word, const void *class) {
    void *type;
    return word && peek_memory((const char *)word + offsetof(struct object, type), &type, sizeof type) && type == class;
}

/* Where a storage has its object, found in the first one that has. NULL: not found. */
static const struct object *wrapper_of(const char *storage) {
    static _Atomic long place;
    if (!place) {
        static struct object *const *class;
        pthread_mutex_lock(&wrapper_mutex);
        if (!class)
            class = resolve_function("libtorch_python", "THPStorageClass");
        for (long at = 16; class && *class && at < STORAGE_BYTES && !place; at += 8)
            if (is_wrapper(*(void *const *)(storage + at), *class))
                place = at;
        pthread_mutex_unlock(&wrapper_mutex);
    }
    return place ? *(struct object *const *)(storage + place) : NULL;
}

uint32_t storage_owners(const void *storage) {
    uint64_t counts = __atomic_load_n((const uint64_t *)((const char *)storage + 8), __ATOMIC_ACQUIRE);
    uint32_t owners = tensor_owners(storage);
    if (!(counts >> HAS_OBJECT) || owners < 2)
        return owners;
    const struct object *wrapper = wrapper_of(storage);
    return owners - (wrapper && __atomic_load_n(&wrapper->references, __ATOMIC_ACQUIRE) == 1);
}
