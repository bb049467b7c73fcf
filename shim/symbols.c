/*
 * Symbol tables, read from the files themselves: programs do not export their functions, so dlsym and dladdr know nothing of them. A stripped program has no
 * table; then nothing is found.
 */
#define _GNU_SOURCE
#include "symbols.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resolve.h"
#include "shim.h"

struct search {
    const char *address;
    char path[512];
    char *base;
};

bool shim_module_holds(const struct dl_phdr_info *info, const void *address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const char *begin = (const char *)info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (const char *)address >= begin && (const char *)address < begin + segment->p_memsz)
            return true;
    }
    return false;
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    if (!shim_module_holds(info, search->address))
        return 0;
    const char *name = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
    if (strlen(name) >= sizeof search->path)
        return 0;
    strcpy(search->path, name);
    search->base = (char *)info->dlpi_addr;
    return 1;
}

/* Whether [offset, offset + count * each) is within the file. */
static bool within(const struct symbols *symbols, uint64_t offset, uint64_t count, uint64_t each) {
    return offset <= symbols->bytes && count <= (symbols->bytes - offset) / (each ? each : 1);
}

static bool is_elf(const struct symbols *symbols) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)symbols->file;
    return symbols->bytes >= sizeof *head && !memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_ident[EI_CLASS] == ELFCLASS64 &&
           head->e_shentsize == sizeof(Elf64_Shdr) && within(symbols, head->e_shoff, head->e_shnum, sizeof(Elf64_Shdr));
}

struct symbols symbols_open(const void *address) {
    struct symbols symbols = {.file = NULL};
    struct search search = {.address = address};
    if (!dl_iterate_phdr(visit_module, &search))
        return symbols;
    int file = open(search.path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return symbols;
    if (!fstat(file, &status) && status.st_size > 0) {
        void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (memory != MAP_FAILED)
            symbols = (struct symbols){.file = memory, .bytes = (size_t)status.st_size, .base = search.base};
    }
    close(file);
    if (symbols.file && !is_elf(&symbols))
        symbols_close(&symbols);
    return symbols;
}

void symbols_close(struct symbols *symbols) {
    if (symbols->file)
        munmap((void *)(uintptr_t)symbols->file, symbols->bytes);
    symbols->file = NULL;
}

static bool find_in_table(const struct symbols *symbols, const Elf64_Shdr *table, const Elf64_Shdr *text, symbol_visitor *visit,
                          void *data) {
    uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    if (!within(symbols, table->sh_offset, count, sizeof(Elf64_Sym)) || !within(symbols, text->sh_offset, text->sh_size, 1) ||
        !text->sh_size || symbols->file[text->sh_offset + text->sh_size - 1])
        return false;
    const Elf64_Sym *entries = (const Elf64_Sym *)(symbols->file + table->sh_offset);
    for (uint64_t i = 0; i < count; i++) {
        unsigned type = ELF64_ST_TYPE(entries[i].st_info);
        bool defined = entries[i].st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_OBJECT);
        if (defined && entries[i].st_name < text->sh_size &&
            visit(symbols->file + text->sh_offset + entries[i].st_name, symbols->base + entries[i].st_value, data))
            return true;
    }
    return false;
}

bool symbols_find(const struct symbols *symbols, symbol_visitor *visit, void *data) {
    if (!symbols->file)
        return false;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)symbols->file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(symbols->file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *section = &sections[i];
        bool is_table = section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM;
        if (is_table && section->sh_link < head->e_shnum && find_in_table(symbols, section, &sections[section->sh_link], visit, data))
            return true;
    }
    return false;
}

char *symbol_demangle(const char *mangled) {
    char *(*demangle)(const char *, char *, size_t *, int *) = resolve_function("libstdc++", "__cxa_demangle");
    int status = 0;
    return demangle ? demangle(mangled, NULL, NULL, &status) : NULL;
}
