#define _GNU_SOURCE
#include "elf_target.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel reads 256 bytes of a script's first line (BINPRM_BUF_SIZE). */
#define HEAD_BYTES 256

void elf_target_shebang(const char *head, size_t n, struct elf_target *target) {
    size_t begin = 2, end = 2, middle;
    while (end < n && head[end] && head[end] != '\n')
        end++;
    while (begin < end && strchr(" \t", head[begin]))
        begin++;
    while (end > begin && strchr(" \t", head[end - 1]))
        end--;
    for (middle = begin; middle < end && !strchr(" \t", head[middle]);)
        middle++;
    snprintf(target->interpreter, sizeof target->interpreter, "%.*s", (int)(middle - begin), head + begin);
    while (middle < end && strchr(" \t", head[middle]))
        middle++;
    snprintf(target->argument, sizeof target->argument, "%.*s", (int)(end - middle), head + middle);
}

static void read_interpreter(Elf *elf, const GElf_Phdr *header, struct elf_target *target) {
    size_t bytes;
    const char *file = elf_rawfile(elf, &bytes);
    target->is_dynamic = true;
    if (file && header->p_offset < bytes && header->p_filesz <= bytes - header->p_offset && header->p_filesz < PATH_MAX)
        snprintf(target->interpreter, PATH_MAX, "%.*s", (int)header->p_filesz, file + header->p_offset);
}

/* A sanitizer's runtime that is part of the program (clang's, where nothing else is asked for) is seen by its beginning, in the dynamic table. One with a
   libstdc++ of its own exports what libtorch's libraries need of it, unless it was told not to: then the other table has it. */
static void read_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, struct elf_target *target) {
    static const char *const beginnings[][2] = {{"__asan_init", "address"}, {"__tsan_init", "thread"}, {"__msan_init", "memory"}};
    Elf_Data *data = elf_getdata(section, NULL);
    for (int i = 0; data && header->sh_entsize && i < (int)(header->sh_size / header->sh_entsize); i++) {
        GElf_Sym symbol;
        const char *name = gelf_getsym(data, i, &symbol) ? elf_strptr(elf, header->sh_link, symbol.st_name) : NULL;
        target->has_own_random |= name && symbol.st_shndx != SHN_UNDEF && !strcmp(name, "_ZNSt13random_device9_M_getvalEv");
        for (size_t k = 0; name && header->sh_type == SHT_DYNSYM && k < sizeof(beginnings) / sizeof(*beginnings); k++)
            if (!strcmp(name, beginnings[k][0]))
                snprintf(target->checks, sizeof target->checks, "%s", beginnings[k][1]);
    }
}

/* What the dynamic section says: a sanitizer that is needed; that a shared object is a program. */
static void read_dynamic(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, struct elf_target *target) {
    static const char *const runtimes[] = {"libasan.so",   "libtsan.so",       "liblsan.so",
                                           "libhwasan.so", "libclang_rt.asan", "libclang_rt.tsan"};
    Elf_Data *data = elf_getdata(section, NULL);
    for (int i = 0; data && header->sh_entsize && i < (int)(header->sh_size / header->sh_entsize); i++) {
        GElf_Dyn entry;
        if (!gelf_getdyn(data, i, &entry))
            continue;
        if (entry.d_tag == DT_FLAGS_1 && entry.d_un.d_val & DF_1_PIE)
            target->form = ELF_FORM_PROGRAM;
        if (entry.d_tag != DT_NEEDED)
            continue;
        const char *name = elf_strptr(elf, header->sh_link, entry.d_un.d_val);
        for (size_t k = 0; name && k < sizeof(runtimes) / sizeof(*runtimes); k++)
            if (!strncmp(name, runtimes[k], strlen(runtimes[k])))
                snprintf(target->sanitizer, sizeof target->sanitizer, "%s", name);
    }
}

/* The name of a class whose functions lie in c10, as its type information has it: also in a program without symbols. One that needs c10 as a library has this
   name of libtorch's, too, in front of it more letters. */
static bool has_torch_types(Elf_Scn *section, const GElf_Shdr *header) {
    char name[] = ".N3c1010TensorImplE";
    name[0] = 0; /* here, so that this program has it not */
    bool is_constant = header->sh_type == SHT_PROGBITS && header->sh_flags & SHF_ALLOC && !(header->sh_flags & (SHF_WRITE | SHF_EXECINSTR));
    Elf_Data *data = is_constant ? elf_rawdata(section, NULL) : NULL;
    return data && data->d_buf && memmem(data->d_buf, data->d_size, name, sizeof name);
}

static enum elf_target_form form_of(int type) {
    return type == ET_REL ? ELF_FORM_OBJECT : type == ET_CORE ? ELF_FORM_CORE : type == ET_DYN ? ELF_FORM_LIBRARY : ELF_FORM_PROGRAM;
}

/* The loader, and whether all that is to be loaded is there. */
static void read_segments(Elf *elf, const GElf_Ehdr *header, struct elf_target *target) {
    size_t count = 0, bytes = 0;
    elf_rawfile(elf, &bytes);
    if (elf_getphdrnum(elf, &count))
        count = 0;
    if (count < header->e_phnum)
        target->is_truncated = true;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf, (int)i, &segment)) {
            target->is_truncated = true;
            return;
        }
        if (segment.p_type == PT_INTERP)
            read_interpreter(elf, &segment, target);
        if (segment.p_type == PT_LOAD && (segment.p_offset > bytes || segment.p_filesz > bytes - segment.p_offset))
            target->is_truncated = true;
    }
}

static void read_program(Elf *elf, struct elf_target *target) {
    GElf_Ehdr header;
    if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
        return;
    target->kind = ELF_TARGET_PROGRAM;
    target->elf_class = gelf_getclass(elf);
    target->machine = header.e_machine;
    target->form = form_of(header.e_type);
    read_segments(elf, &header, target);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr section_header;
        if (!gelf_getshdr(section, &section_header))
            continue;
        if (section_header.sh_type == SHT_DYNAMIC)
            read_dynamic(elf, section, &section_header, target);
        target->has_own_torch |= has_torch_types(section, &section_header);
        if (section_header.sh_type == SHT_DYNSYM || section_header.sh_type == SHT_SYMTAB)
            read_symbols(elf, section, &section_header, target);
    }
    if (target->is_dynamic && target->form == ELF_FORM_LIBRARY) /* old linkers do not mark a program; libc.so.6 is one, too */
        target->form = ELF_FORM_PROGRAM;
}

void elf_target_read(const char *path, struct elf_target *target) {
    char head[HEAD_BYTES];
    memset(target, 0, sizeof *target);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (n < 0) {
        target->kind = ELF_TARGET_UNREADABLE;
    } else if (n >= 2 && !memcmp(head, "#!", 2)) {
        target->kind = ELF_TARGET_SCRIPT;
        elf_target_shebang(head, (size_t)n, target);
    } else if (n >= 4 && !memcmp(head, ELFMAG, SELFMAG)) {
        target->kind = ELF_TARGET_BROKEN;
        elf_version(EV_CURRENT);
        Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
        if (elf)
            read_program(elf, target);
        elf_end(elf);
    } else {
        target->kind = memchr(head, 0, (size_t)n) ? ELF_TARGET_BINARY : ELF_TARGET_OTHER;
    }
    if (fd >= 0)
        close(fd);
}
