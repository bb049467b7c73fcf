// sources: launcher/program/elf_target.c launcher/program/preflight.c launcher/program/interpret.c launcher/problem.c config/*.c
#define _GNU_SOURCE
#include "unit.h"

#include <elf.h>
#include <sys/stat.h>

#include "../../launcher/program/elf_target.h"
#include "../../launcher/program/preflight.h"

static struct elf_target target;
#define ARGUMENTS(...) ((char *[]){__VA_ARGS__, NULL})

/* What is said of a file with these bytes. */
static void with_file(const void *bytes, size_t count) {
    char path[] = "/tmp/accel-elf-XXXXXX";
    int fd = mkstemp(path);
    EXPECT(write(fd, bytes, count) == (ssize_t)count);
    fchmod(fd, 0755);
    close(fd);
    elf_target_read(path, &target);
    unlink(path);
}

TEST("this test is a dynamic program, linked with a sanitizer or not") {
    elf_target_read("/proc/self/exe", &target);
    EXPECT(target.kind == ELF_TARGET_PROGRAM && target.is_dynamic);
    EXPECT(strstr(target.interpreter, "ld-") != NULL);
    elf_target_read("/bin/true", &target);
    EXPECT(target.kind == ELF_TARGET_PROGRAM && target.is_dynamic);
    EXPECT_TEXT(target.sanitizer, "");
}

TEST("a script's interpreter") {
    with_file("#! /usr/bin/env python3\nrest", 28);
    EXPECT(target.kind == ELF_TARGET_SCRIPT);
    EXPECT_TEXT(target.interpreter, "/usr/bin/env");
}

static void expect_line(const char *line, const char *interpreter, const char *argument) {
    struct elf_target found;
    elf_target_shebang(line, strlen(line), &found);
    EXPECT_TEXT(found.interpreter, interpreter);
    EXPECT_TEXT(found.argument, argument);
}

TEST("first lines of all kinds, as the kernel takes them") {
    expect_line("#!/bin/sh", "/bin/sh", "");
    expect_line("#!\t/bin/sh -e\n", "/bin/sh", "-e");
    expect_line("#!/usr/bin/env -S  a b \t\nrest", "/usr/bin/env", "-S  a b");
    expect_line("#!/bin/sh\r\n", "/bin/sh\r", "");
    expect_line("#!/bin/sh -e\r\n", "/bin/sh", "-e\r");
    expect_line("#!\n", "", "");
    expect_line("#!  \n/bin/sh", "", "");
}

TEST("text, rubbish, half an ELF file, nothing, no file") {
    with_file("echo hi\n", 8);
    EXPECT(target.kind == ELF_TARGET_OTHER);
    with_file("a\0b", 3);
    EXPECT(target.kind == ELF_TARGET_BINARY);
    with_file("\177ELF\2\1", 6);
    EXPECT(target.kind == ELF_TARGET_BROKEN);
    with_file("", 0);
    EXPECT(target.kind == ELF_TARGET_OTHER);
    elf_target_read("/no/such/file", &target);
    EXPECT(target.kind == ELF_TARGET_UNREADABLE);
}

struct headers {
    Elf64_Ehdr header;
    Elf64_Phdr part;
};

static struct headers headers_of(Elf64_Half machine, Elf64_Word type_of_part) {
    struct headers file;
    memset(&file, 0, sizeof file);
    memcpy(file.header.e_ident, "\177ELF\2\1\1", 7);
    file.header.e_machine = machine;
    file.header.e_version = EV_CURRENT;
    file.header.e_ehsize = sizeof file.header;
    file.header.e_phoff = sizeof file.header;
    file.header.e_phentsize = sizeof file.part;
    file.header.e_phnum = 1;
    file.part.p_type = type_of_part;
    return file;
}

TEST("a program that is cut off, an object file, a library and a static program are told apart") {
    struct headers file = headers_of(EM_X86_64, PT_LOAD);
    file.part.p_filesz = sizeof file;
    static const struct {
        int type;
        enum elf_target_form form;
    } types[] = {{ET_EXEC, ELF_FORM_PROGRAM}, {ET_DYN, ELF_FORM_LIBRARY}, {ET_REL, ELF_FORM_OBJECT}, {ET_CORE, ELF_FORM_CORE}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        file.header.e_type = (Elf64_Half)types[i].type;
        with_file(&file, sizeof file);
        EXPECT(target.kind == ELF_TARGET_PROGRAM && target.form == types[i].form && !target.is_truncated);
    }
    file.part.p_filesz++;
    with_file(&file, sizeof file);
    EXPECT(target.is_truncated);
    with_file(&file, sizeof file.header);
    EXPECT(target.is_truncated);
}

TEST("a header of another machine, with program headers that lie about their place") {
    struct headers file = headers_of(EM_RISCV, PT_INTERP);
    file.header.e_type = ET_DYN;
    file.part.p_offset = 1 << 30;
    file.part.p_filesz = 100;
    with_file(&file, sizeof file);
    EXPECT(target.kind == ELF_TARGET_PROGRAM && target.machine == EM_RISCV && target.is_dynamic);
    EXPECT_TEXT(target.interpreter, "");
}

TEST("preflight refuses by id and exit code") {
    struct target found;
    struct problem problem;
    const char *shim = "/proc/self/exe"; /* any library of this machine */
    EXPECT(preflight_run(ARGUMENTS("/bin/true"), NULL, shim, &found, &problem) == 0);
    EXPECT_TEXT(found.path, "/bin/true");
    EXPECT(preflight_run(ARGUMENTS("true"), "/nowhere:/bin", shim, &found, &problem) == 0);
    EXPECT_TEXT(found.path, "/bin/true");
    EXPECT(preflight_run(ARGUMENTS("true"), "/nowhere", shim, &found, &problem) == -1 && problem.exit_code == 127);
    EXPECT(preflight_run(ARGUMENTS(""), "/bin", shim, &found, &problem) == -1 && problem.exit_code == 127);
    EXPECT(preflight_run(ARGUMENTS("/tmp"), NULL, shim, &found, &problem) == -1 && problem.exit_code == 126);
    EXPECT_TEXT(problem.id, "AR-EXEC-DIRECTORY");
    EXPECT(preflight_run(ARGUMENTS("/bin/true"), NULL, "/no/shim.so", &found, &problem) == -1 && problem.exit_code == 125);
    EXPECT_TEXT(problem.id, "AR-SHIM-MISSING");
    EXPECT(preflight_run(ARGUMENTS("/bin/true"), NULL, "/etc/passwd", &found, &problem) == -1);
    EXPECT_TEXT(problem.id, "AR-SHIM-MISSING");
}
