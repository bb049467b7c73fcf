#define _GNU_SOURCE
#include "modules.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "../../shim/shim.h"

enum { MODULES_MAX = 4096 };

struct module {
    struct span span;
    const ElfW(Dyn) * dynamic;
    const char *strings, *file, *called; /* its names: without folders; as others are linked with it */
    bool is_executable, is_torchs, is_programs;
};

struct modules {
    struct module all[MODULES_MAX]; /* ascending */
    size_t count;
};

/* ---- what is mapped */

/* The dynamic loader has made addresses of what stands in there (glibc, x86-64), but for the kernel's own library. */
static void read_names(struct module *module) {
    const ElfW(Dyn) *called = NULL;
    for (const ElfW(Dyn) *entry = module->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            module->strings = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SONAME)
            called = entry;
    }
    if ((uintptr_t)module->strings < module->span.first || (uintptr_t)module->strings >= module->span.end)
        module->dynamic = NULL;
    module->called = called && module->dynamic ? module->strings + called->d_un.d_val : module->file;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct modules *modules = data;
    if (modules->count == MODULES_MAX)
        return 1;
    struct module module = {.span = {UINTPTR_MAX, 0}, .file = shim_base_of(info->dlpi_name ? info->dlpi_name : "")};
    module.is_executable = !module.file[0];
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t first = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC)
            module.dynamic = (const void *)first;
        if (part->p_type != PT_LOAD)
            continue;
        module.span.first = first < module.span.first ? first : module.span.first;
        module.span.end = first + part->p_memsz > module.span.end ? first + part->p_memsz : module.span.end;
    }
    read_names(&module);
    modules->all[modules->count++] = module;
    return 0;
}

static int ascending(const void *one, const void *other) {
    uintptr_t first = ((const struct module *)one)->span.first, second = ((const struct module *)other)->span.first;
    return first < second ? -1 : first > second;
}

struct modules *modules_look(void) {
    struct modules *modules = malloc(sizeof *modules);
    if (!modules)
        return NULL;
    modules->count = 0;
    if (dl_iterate_phdr(note_module, modules)) {
        free(modules);
        return NULL;
    }
    qsort(modules->all, modules->count, sizeof *modules->all, ascending);
    return modules;
}

void modules_free(struct modules *modules) {
    free(modules);
}

static const struct module *find(const struct modules *modules, uintptr_t address) {
    return span_find(modules->all, modules->count, sizeof *modules->all, address);
}

bool modules_hold(const struct modules *modules, uintptr_t address) {
    return find(modules, address);
}

/* ---- whose they are */

static struct module *find_called(struct modules *modules, const char *name) {
    for (size_t i = 0; i < modules->count; i++)
        if (!strcmp(modules->all[i].called, name) || !strcmp(modules->all[i].file, name))
            return &modules->all[i];
    return NULL;
}

static void tell(struct modules *modules, struct module *module, bool is_torchs) {
    bool *told = is_torchs ? &module->is_torchs : &module->is_programs;
    if (*told)
        return;
    *told = true;
    for (const ElfW(Dyn) *entry = module->dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        struct module *needed = entry->d_tag == DT_NEEDED ? find_called(modules, module->strings + entry->d_un.d_val) : NULL;
        if (needed)
            tell(modules, needed, is_torchs);
    }
}

void modules_tell_programs(struct modules *modules, const void *address) {
    for (size_t i = 0; i < modules->count; i++) {
        struct module *module = &modules->all[i];
        bool holds = (uintptr_t)address >= module->span.first && (uintptr_t)address < module->span.end;
        if (shim_is_file_of_libtorch(module->file))
            tell(modules, module, true);
        if (module->is_executable || holds)
            tell(modules, module, false);
    }
}

bool modules_is_programs(const struct modules *modules, const void *inside) {
    const struct module *module = find(modules, (uintptr_t)inside);
    return module && module->is_programs && !module->is_torchs;
}
