/*
 * Makes of a shared library what -Bsymbolic-functions would have made: its references to functions that it defines itself, calls and
 * tables of virtual functions alike, lead to its own definitions, whatever is preloaded. Ubuntu's packages are linked so.
 *
 *   bind_own LIBRARY...          changed in place: give it copies
 *
 * The option leaves relative relocations where symbolic ones would stand. Here the relocations stay and the functions' symbols become
 * protected in the dynamic symbol table: the loader then gives every reference from within the library its own definition (System V ABI,
 * visibility), while others may still be given a preloaded one. So each word that is relocated holds the same address at run time as with
 * the option. Rewriting JUMP_SLOTs as relative relocations would need -z now, which the wheels are not linked with. Data stays as it is:
 * tables of virtual functions are still found through copy relocations.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <gelf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void fail(const char *library, const char *what) {
    fprintf(stderr, "bind_own: %s: %s\n", library, what);
    exit(1);
}

static void protect(int file, const char *library, const GElf_Shdr *table) {
    size_t count = table->sh_size / sizeof(Elf64_Sym), bound = 0;
    Elf64_Sym *symbols = malloc(table->sh_size);
    if (!symbols || pread(file, symbols, table->sh_size, (off_t)table->sh_offset) != (ssize_t)table->sh_size)
        fail(library, "its symbols cannot be read");
    for (size_t i = 0; i < count; i++) {
        Elf64_Sym *symbol = &symbols[i];
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
            ELF64_ST_VISIBILITY(symbol->st_other) != STV_DEFAULT || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
            continue;
        symbol->st_other = STV_PROTECTED;
        bound++;
    }
    if (pwrite(file, symbols, table->sh_size, (off_t)table->sh_offset) != (ssize_t)table->sh_size)
        fail(library, "its symbols cannot be written");
    free(symbols);
    printf("%s: %zu of %zu symbols bound to itself\n", library, bound, count);
}

static void bind_library(const char *library) {
    int file = open(library, O_RDWR | O_CLOEXEC);
    Elf *elf = file < 0 ? NULL : elf_begin(file, ELF_C_READ, NULL);
    if (!elf || elf_kind(elf) != ELF_K_ELF || gelf_getclass(elf) != ELFCLASS64)
        fail(library, "not a 64-bit ELF file that can be written");
    GElf_Shdr header, table = {.sh_type = SHT_NULL};
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));)
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
            table = header;
    if (table.sh_type == SHT_NULL || table.sh_entsize != sizeof(Elf64_Sym))
        fail(library, "no dynamic symbols");
    protect(file, library, &table);
    elf_end(elf);
    close(file);
}

int main(int argc, char **argv) {
    elf_version(EV_CURRENT);
    for (int i = 1; i < argc; i++)
        bind_library(argv[i]);
    return argc < 2;
}
