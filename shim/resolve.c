/*
 * Originals of hooked functions.
 *
 * Where the program is linked with libtorch, RTLD_NEXT sees it, and the original is what would have been bound without us. `import torch` loads it in a
 * local scope, so neither RTLD_NEXT nor RTLD_DEFAULT see anything of it (style.md fact 1): then dl_iterate_phdr → dlopen(path, RTLD_NOLOAD) → dlsym on
 * that handle. A handle, once found, stays valid: libtorch is never unloaded.
 *
 * Originals are not looked for by dlopen first, because exit() calls hooks: libc10 destroys tensors of its own then, and dlopen runs the constructors of a
 * library whose destructors have run. Its flags were registered twice, and a program that had only printed its usage ended with exit code 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>

#include "resolve.h"
#include "shim.h"

enum { LIBRARIES = 12, PATH_CHARS = 512 };

struct library {
    char name[32];
    char path[PATH_CHARS];
    _Atomic(void *) handle;
};

static struct library libraries[LIBRARIES] = {
    {.name = "libtorch_cpu"}, {.name = "libc10"}, {.name = "libtorch_python"},
    {.name = "libstdc++"},    {.name = "libc"},   {.name = "libtorch"},
};

struct search {
    const char *name;
    char path[PATH_CHARS];
};

/* "libc10" must match libc10.so and libc10.so.1.13, never libc10_cuda.so. */
static bool is_library(const char *path, const char *name) {
    const char *base = shim_base_of(path);
    size_t length = strlen(name);
    return !strncmp(base, name, length) && (!strncmp(base + length, ".so", 3) || base[length] == '-');
}

static int visit_library(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    if (!info->dlpi_name || !is_library(info->dlpi_name, search->name) || strlen(info->dlpi_name) >= PATH_CHARS)
        return 0;
    strcpy(search->path, info->dlpi_name);
    return 1;
}

static struct library *library_find(const char *name) {
    for (int i = 0; i < LIBRARIES && libraries[i].name[0]; i++)
        if (!strcmp(libraries[i].name, name))
            return &libraries[i];
    return NULL;
}

static void *library_handle(const char *name) {
    struct library *library = library_find(name);
    if (!library)
        return NULL;
    void *handle = atomic_load_explicit(&library->handle, memory_order_acquire);
    if (handle)
        return handle;
    struct search search = {.name = name};
    if (!dl_iterate_phdr(visit_library, &search))
        return NULL;
    handle = dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle) {
        strcpy(library->path, search.path);
        atomic_store_explicit(&library->handle, handle, memory_order_release);
    }
    return handle;
}

void *resolve_function(const char *library, const char *symbol) {
    void *handle = library_handle(library);
    return handle ? dlsym(handle, symbol) : NULL;
}

void *resolve_data(const char *library, const char *symbol) {
    void *data = dlsym(RTLD_DEFAULT, symbol);
    return data ? data : resolve_function(library, symbol);
}

void *resolve_python(const char *symbol) {
    return dlsym(RTLD_DEFAULT, symbol);
}

bool resolve_has_libtorch(void) {
    return library_handle("libtorch_cpu") != NULL;
}

const char *resolve_libtorch_path(void) {
    return library_handle("libtorch_cpu") ? library_find("libtorch_cpu")->path : "?";
}

void *resolve_original(enum hook_id id) {
    struct hook_row *row = &hook_table[id];
    int saved_errno = errno;
    void *original = dlsym(RTLD_NEXT, row->symbol);
    if (!original)
        original = resolve_function(row->library, row->symbol);
    if (!original)
        original = dlsym(RTLD_DEFAULT, row->symbol);
    if (!original || original == row->own)
        shim_problem("AR-NO-ORIGINAL", "Another preloaded library, or RTLD_DEEPBIND, hides libtorch from accel-run: remove it.",
                     "%s (%s) was called, but the library that defines it (%s) cannot be found in this process", row->name, row->symbol,
                     row->library);
    atomic_store_explicit(&row->original, original, memory_order_release);
    errno = saved_errno;
    return original;
}
