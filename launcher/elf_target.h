/*
 * What an executable file is, read with libelf before it is started: can the shim be preloaded into it?
 */
#ifndef ACCEL_RUN_ELF_TARGET_H
#define ACCEL_RUN_ELF_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum elf_target_kind {
    ELF_TARGET_UNREADABLE, /* cannot be opened: judged by exec itself */
    ELF_TARGET_OTHER,      /* neither ELF nor script: text for /bin/sh, or rubbish */
    ELF_TARGET_BINARY,     /* neither ELF nor script, with zero bytes: rubbish */
    ELF_TARGET_SCRIPT,     /* begins with #!; interpreter is filled */
    ELF_TARGET_PROGRAM,    /* ELF */
    ELF_TARGET_BROKEN,     /* begins like an ELF file, and is none */
};

struct elf_target {
    enum elf_target_kind kind;
    int elf_class, machine;     /* ELFCLASS64, EM_X86_64, ... */
    bool is_dynamic;            /* has PT_INTERP: a dynamic loader will read LD_PRELOAD */
    char interpreter[PATH_MAX]; /* of a script (first word after #!), or PT_INTERP */
    char sanitizer[64];         /* DT_NEEDED name of a sanitizer's runtime that wants to be loaded first; "" none (P19) */
};

/* Reads the file; never fails (kind says). Opens and closes it. */
void elf_target_read(const char *path, struct elf_target *target);

/* The first word after "#!" of a script's head, or "" when the line names none. Pure. */
void elf_target_shebang(const char *head, size_t n, char interpreter[PATH_MAX]);

#endif
