/* The files that are mapped, and which of them are the program's. */
#ifndef ACCEL_HOOKS_LOAD_MODULES_H
#define ACCEL_HOOKS_LOAD_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What structs of ascending, disjoint memory begin with. */
struct span {
    uintptr_t first, end;
};

/* The one of `count` such structs, of `bytes` each, that holds the address; NULL: none does. */
static inline void *span_find(const void *spans, size_t count, size_t bytes, uintptr_t address) {
    size_t low = 0, high = count;
    const char *begin = spans;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (((const struct span *)(begin + middle * bytes))->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct span *span = (const struct span *)(begin + low * bytes);
    return low < count && span->first <= address ? (void *)(uintptr_t)span : NULL;
}

struct modules;

/* As they are now. NULL: no memory, or too many. */
struct modules *modules_look(void);
void modules_free(struct modules *modules);
/* Does the address lie in any? */
bool modules_hold(const struct modules *modules, uintptr_t address);
/* The program's are the executable, the file that address belongs to, and the libraries that these are linked with, but for libtorch's own and those that it is
   linked with. What has been loaded by name (a plugin, a GPU's driver) is nobody's. */
void modules_tell_programs(struct modules *modules, const void *address);
bool modules_is_programs(const struct modules *modules, const void *inside);

#endif
