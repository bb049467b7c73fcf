#define _GNU_SOURCE
#include "preflight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "elf_target.h"

#define SCRIPT_DEPTH 5 /* the kernel gives up at the same depth (ELOOP) */
#define SHIM_NAME "libaccelshim.so"
#define CURE_PATH "check the spelling; a program in the current directory is written ./name"

#define CURE_PYTHON "check the spelling; a Python file that lies elsewhere is named with its folder"

static bool is_python(const char *name) {
    size_t length = strlen(name);
    return length > 3 && !strcmp(name + length - 3, ".py");
}

static bool file_exists(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

/* As execvp: a file that exists and may not be executed is remembered, the search goes on. Returns 0, ENOENT or EACCES. */
static int search_path(const char *name, const char *search, char path[PATH_MAX]) {
    int result = ENOENT;
    const char *part = search ? search : "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t n = strcspn(part, ":");
        struct stat status;
        int length = snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, part, n ? "/" : "", name);
        if (length < PATH_MAX && stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            if (access(path, X_OK) == 0)
                return 0;
            result = EACCES;
        }
        if (!part[n])
            break;
        part += n + 1;
    }
    snprintf(path, PATH_MAX, "%s", name);
    return result;
}

int preflight_find(const char *name, const char *search, char *path, struct problem *problem) {
    struct stat status;
    if (strchr(name, '/')) {
        if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
            return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", CURE_PATH, "the program's path is too long");
    } else {
        int result = *name ? search_path(name, search, path) : ENOENT;
        if (result == ENOENT)
            return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", is_python(name) ? CURE_PYTHON : CURE_PATH,
                               "no program '%s' in PATH", name);
    }
    if (stat(path, &status)) {
        int code = errno == EACCES ? EXIT_NOT_EXECUTABLE : EXIT_NOT_FOUND;
        return problem_set(problem, code, "AR-EXEC-NOT-FOUND", CURE_PATH, "'%s': %s", path, strerror(errno));
    }
    if (S_ISDIR(status.st_mode))
        return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-DIRECTORY", "name the program inside it", "'%s' is a directory", path);
    if (access(path, X_OK))
        return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-NOT-EXECUTABLE",
                           "chmod +x makes a program executable; a Python file is started as 'accel-run python file.py'",
                           "'%s' is not executable", path);
    return 0;
}

/* ld.so ignores preloads with a path in programs that gain rights (P14). */
static int check_rights(const char *path, struct problem *problem) {
    struct stat status;
    if (stat(path, &status) == 0 && ((status.st_mode & S_ISUID) || (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ELF-SETUID",
                           "start accel-run inside: sudo accel-run ... with a copy without the setuid bit",
                           "'%s' is a setuid or setgid program: the dynamic loader would ignore the shim", path);
    if (getxattr(path, "security.capability", NULL, 0) > 0)
        return problem_set(problem, EXIT_LAUNCHER, "AR-ELF-CAPABILITIES", "use a copy of the program without capabilities (cp drops them)",
                           "'%s' has file capabilities: the dynamic loader would ignore the shim", path);
    return 0;
}

static int check_machine(const char *path, const struct elf_target *elf, const struct elf_target *shim, struct problem *problem) {
    if (elf->elf_class == shim->elf_class && elf->machine == shim->machine)
        return 0;
    return problem_set(problem, elf->machine == shim->machine ? EXIT_LAUNCHER : EXIT_NOT_EXECUTABLE, "AR-ELF-MACHINE",
                       "use a build of the program for this machine, or a build of accel-run for the program's",
                       "'%s' is for another machine (ELF class %d, machine %d; accel-run's library is class %d, machine %d)", path,
                       elf->elf_class, elf->machine, shim->elf_class, shim->machine);
}

static int check_interpreter(const char *path, const char *interpreter, struct problem *problem) {
    struct stat status;
    if (!*interpreter || !file_exists(interpreter))
        return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-INTERPRETER", "install the interpreter, or correct the file's first line",
                           "'%s' needs '%s', which does not exist", path, interpreter);
    if (stat(interpreter, &status) == 0 && (!S_ISREG(status.st_mode) || access(interpreter, X_OK)))
        return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-INTERPRETER", "correct the file's first line",
                           "'%s' needs '%s', which is not executable", path, interpreter);
    return 0;
}

/* One file of the chain. depth 0 is the program itself: a static interpreter of a script may still start a dynamic program, which keeps the
   preload, so only the program is refused for being static. */
static int check_elf(const char *path, const struct elf_target *elf, const struct elf_target *shim, int depth, struct target *target,
                     struct problem *problem) {
    if (check_machine(path, elf, shim, problem))
        return -1;
    if (!elf->is_dynamic)
        return depth ? 0
                     : problem_set(problem, EXIT_LAUNCHER, "AR-ELF-STATIC", "link the program dynamically (without -static)",
                                   "'%s' is statically linked: the shim cannot be loaded into it", path);
    if (check_interpreter(path, elf->interpreter, problem))
        return -1;
    if (strstr(elf->interpreter, "/ld-musl"))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ELF-MUSL", "use a build for the GNU C library", "'%s' uses musl's loader, '%s'",
                           path, elf->interpreter);
    if (!depth)
        memcpy(target->sanitizer, elf->sanitizer, sizeof target->sanitizer);
    return 0;
}

static int check_program(struct target *target, const struct elf_target *shim, struct problem *problem) {
    static struct elf_target elf; /* static: 4 KiB; preflight runs once, in one thread */
    char path[PATH_MAX];
    memcpy(path, target->path, sizeof path);
    for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
        if (check_rights(path, problem))
            return -1;
        elf_target_read(path, &elf);
        switch (elf.kind) {
        case ELF_TARGET_UNREADABLE: /* an executable without read permission: exec may still work, and the claim will tell */
            return 0;
        case ELF_TARGET_PROGRAM:
            return check_elf(path, &elf, shim, depth, target, problem);
        case ELF_TARGET_OTHER:
            target->through_shell = depth == 0;
            return 0;
        case ELF_TARGET_BINARY:
        case ELF_TARGET_BROKEN:
            return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-FORMAT", "is this the right file?",
                               "'%s' is neither a program nor a script", path);
        case ELF_TARGET_SCRIPT:
            if (check_interpreter(path, elf.interpreter, problem))
                return -1;
            memcpy(path, elf.interpreter, sizeof path);
        }
    }
    return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-INTERPRETER", "name the program itself",
                       "'%s': scripts that need scripts, too deep", target->path);
}

/* Beside accel-run (a build tree) or in ../lib/accel-run (installed). */
static int find_shim(const char *given, struct target *target, struct problem *problem) {
    char self[PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        n = 0;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    snprintf(target->shim, PATH_MAX, "%s/" SHIM_NAME, self);
    if (given && *given)
        snprintf(target->shim, PATH_MAX, "%s", given);
    else if (!file_exists(target->shim))
        snprintf(target->shim, PATH_MAX, "%s/../lib/accel-run/" SHIM_NAME, self);
    if (!file_exists(target->shim))
        return problem_set(problem, EXIT_LAUNCHER, "AR-SHIM-MISSING", "build it (make), or install accel-run again (make install)",
                           SHIM_NAME " is neither beside accel-run (%s) nor in ../lib/accel-run", self);
    /* LD_PRELOAD separates names by spaces and colons and has no way to quote them: ld.so would say "ignored" and the program would run
       without us (P16). */
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-";
    if (target->shim[0] != '/' || target->shim[strspn(target->shim, safe)])
        return problem_set(problem, EXIT_LAUNCHER, "AR-SHIM-PATH",
                           "install accel-run where the path has only letters, digits and / . _ + -",
                           "the dynamic loader cannot preload a library with the path '%s'", target->shim);
    return 0;
}

int preflight_run(const char *name, const char *search, const char *shim, struct target *target, struct problem *problem) {
    static struct elf_target library;
    memset(target, 0, sizeof *target);
    if (preflight_find(name, search, target->path, problem) || find_shim(shim, target, problem))
        return -1;
    elf_target_read(target->shim, &library);
    if (library.kind != ELF_TARGET_PROGRAM)
        return problem_set(problem, EXIT_LAUNCHER, "AR-SHIM-MISSING", "build it (make), or install accel-run again (make install)",
                           "'%s' is not a library", target->shim);
    return check_program(target, &library, problem);
}
