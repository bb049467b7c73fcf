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

enum elf_target_form {
    ELF_FORM_PROGRAM,
    ELF_FORM_LIBRARY, /* a shared object that names no loader and is not marked as a (static) program */
    ELF_FORM_OBJECT,  /* not linked yet */
    ELF_FORM_CORE,
};

struct elf_target {
    enum elf_target_kind kind;
    int elf_class, machine;     /* ELFCLASS64, EM_X86_64, ... */
    enum elf_target_form form;  /* of ELF */
    bool is_truncated;          /* the file ends before what its headers name */
    bool is_dynamic;            /* has PT_INTERP: a dynamic loader will read LD_PRELOAD */
    char interpreter[PATH_MAX]; /* of a script (first word after #!), or PT_INTERP */
    char argument[256];         /* of a script's interpreter: the rest of the first line, one word to the kernel; "" none */
    char checks[16];            /* what a sanitizer looks at, as in -fsanitize=: "address", "thread", "memory"; "" none of these */
    bool has_own_random;        /* defines std::random_device: libstdc++ is a part of it (-static-libstdc++) */
    bool has_own_torch;         /* libtorch is a part of it (linked statically): its calls do not pass through symbols */
    char sanitizer[64];         /* DT_NEEDED name of a sanitizer's runtime that wants to be loaded first; "" none (P19) */
};

/* Reads the file; never fails (kind says). Opens and closes it. */
void elf_target_read(const char *path, struct elf_target *target);

/* Interpreter and argument of a script's head ("#!..."), as the kernel takes them: a carriage return is a part of them. "" where there is none. Pure. */
void elf_target_shebang(const char *head, size_t n, struct elf_target *target);

#endif
