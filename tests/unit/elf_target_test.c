// sources: launcher/elf_target.c launcher/preflight.c launcher/problem.c
#define _GNU_SOURCE
#include "unit.h"

#include <elf.h>
#include <sys/stat.h>

#include "../../launcher/elf_target.h"
#include "../../launcher/preflight.h"

static char path[] = "/tmp/accel-elf-XXXXXX";
static struct elf_target target;

static void with_file(const void *bytes, size_t count) {
    int fd = mkstemp(path);
    EXPECT(write(fd, bytes, count) == (ssize_t)count);
    fchmod(fd, 0755);
    close(fd);
    elf_target_read(path, &target);
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
    unlink(path);
}

TEST("first lines of all kinds") {
    char interpreter[PATH_MAX];
    elf_target_shebang("#!/bin/sh", 9, interpreter);
    EXPECT_TEXT(interpreter, "/bin/sh");
    elf_target_shebang("#!\t/bin/sh -e\n", 14, interpreter);
    EXPECT_TEXT(interpreter, "/bin/sh");
    elf_target_shebang("#!/bin/sh\r\n", 11, interpreter);
    EXPECT_TEXT(interpreter, "/bin/sh");
    elf_target_shebang("#!\n", 3, interpreter);
    EXPECT_TEXT(interpreter, "");
}

TEST("text, rubbish, half an ELF file, nothing, no file") {
    with_file("echo hi\n", 8);
    EXPECT(target.kind == ELF_TARGET_OTHER);
    unlink(path);
    strcpy(path, "/tmp/accel-elf-XXXXXX");
    with_file("a\0b", 3);
    EXPECT(target.kind == ELF_TARGET_BINARY);
    unlink(path);
    strcpy(path, "/tmp/accel-elf-XXXXXX");
    with_file("\177ELF\2\1", 6);
    EXPECT(target.kind == ELF_TARGET_BROKEN);
    unlink(path);
    strcpy(path, "/tmp/accel-elf-XXXXXX");
    with_file("", 0);
    EXPECT(target.kind == ELF_TARGET_OTHER);
    unlink(path);
    elf_target_read("/no/such/file", &target);
    EXPECT(target.kind == ELF_TARGET_UNREADABLE);
}

TEST("a header of another machine, with program headers that lie about their place") {
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr interpreter;
    } file;
    memset(&file, 0, sizeof file);
    memcpy(file.header.e_ident, "\177ELF\2\1\1", 7);
    file.header.e_type = ET_DYN;
    file.header.e_machine = EM_RISCV;
    file.header.e_version = EV_CURRENT;
    file.header.e_ehsize = sizeof file.header;
    file.header.e_phoff = sizeof file.header;
    file.header.e_phentsize = sizeof file.interpreter;
    file.header.e_phnum = 1;
    file.interpreter.p_type = PT_INTERP;
    file.interpreter.p_offset = 1 << 30;
    file.interpreter.p_filesz = 100;
    with_file(&file, sizeof file);
    EXPECT(target.kind == ELF_TARGET_PROGRAM && target.machine == EM_RISCV && target.is_dynamic);
    EXPECT_TEXT(target.interpreter, "");
    unlink(path);
}

TEST("preflight refuses by id and exit code") {
    struct target found;
    struct problem problem;
    const char *shim = "/proc/self/exe"; /* any library of this machine */
    EXPECT(preflight_run("/bin/true", NULL, shim, &found, &problem) == 0);
    EXPECT_TEXT(found.path, "/bin/true");
    EXPECT(preflight_run("true", "/nowhere:/bin", shim, &found, &problem) == 0);
    EXPECT_TEXT(found.path, "/bin/true");
    EXPECT(preflight_run("true", "/nowhere", shim, &found, &problem) == -1 && problem.exit_code == 127);
    EXPECT(preflight_run("", "/bin", shim, &found, &problem) == -1 && problem.exit_code == 127);
    EXPECT(preflight_run("/tmp", NULL, shim, &found, &problem) == -1 && problem.exit_code == 126);
    EXPECT_TEXT(problem.id, "AR-EXEC-DIRECTORY");
    EXPECT(preflight_run("/bin/true", NULL, "/no/shim.so", &found, &problem) == -1 && problem.exit_code == 125);
    EXPECT_TEXT(problem.id, "AR-SHIM-MISSING");
    EXPECT(preflight_run("/bin/true", NULL, "/etc/passwd", &found, &problem) == -1);
    EXPECT_TEXT(problem.id, "AR-SHIM-MISSING");
}
