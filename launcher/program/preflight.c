#define _GNU_SOURCE
#include "preflight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../../config/config.h"
#include "elf_target.h"
#include "interpret.h"

#define CHAIN_DEPTH 6 /* the kernel gives up behind five first lines (ELOOP) */
#define SHIM_NAME "libaccelshim.so"
#define CURE_PATH "check the spelling; a program in the current directory is written ./name"

#define CURE_LINE_ENDS "give the file line ends of Unix: sed -i 's/\\r$//' %.400s"
#define CURE_SUBCOMMAND "a subcommand is the first word, options come behind it: 'accel-run --help' lists them"
#define CURE_PYTHON "check the spelling; a Python file that lies elsewhere is named with its folder"

static bool file_exists(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

/* What to do when there is no such program; words of accelerate's command line are not ours. */
static const char *cure_of_name(const char *name) {
    static const char *const subcommands[] = {"config", "doctor", "explain"};
    if (!strcmp(name, "launch"))
        return "leave the word out: accel-run -n 4 train.py is what 'accelerate launch --num_processes 4 train.py' was";
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (config_is_near(name, subcommands[i]))
            return strcmp(name, subcommands[i]) ? "check the spelling; subcommands are config, doctor, env, explain and test"
                                                : CURE_SUBCOMMAND;
    if (!strcmp(name, "to-fsdp2"))
        return "write 'accel-run config to-fsdp2'";
    if (!strcmp(name, "estimate-memory") || !strcmp(name, "merge-weights") || !strcmp(name, "tpu-config"))
        return "that is Accelerate's: it stays 'accelerate' and this word; accel-run has nothing like it";
    if (!strcmp(name, "python"))
        return "write python3, as Debian and others call it, or leave the word out: accel-run -n 2 train.py";
    return interpret_is_python_file(name) ? CURE_PYTHON : CURE_PATH;
}

/* As execvp: the first file that exists and may not be executed is remembered, the search goes on. Returns 0, ENOENT, or EACCES with that file's path. */
static int search_path(const char *name, const char *search, char path[PATH_MAX]) {
    char refused[PATH_MAX] = "";
    const char *part = search ? search : "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t n = strcspn(part, ":");
        struct stat status;
        int length = snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, part, n ? "/" : "", name);
        if (length < PATH_MAX && stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            if (access(path, X_OK) == 0)
                return 0;
            if (!*refused)
                memcpy(refused, path, sizeof refused);
        }
        if (!part[n])
            break;
        part += n + 1;
    }
    memcpy(path, refused, sizeof refused);
    return *refused ? EACCES : ENOENT;
}

int preflight_find(const char *name, const char *search, char *path, struct problem *problem) {
    struct stat status;
    if (strchr(name, '/')) {
        if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
            return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", CURE_PATH, "the program's path is too long");
    } else {
        int result = *name ? search_path(name, search, path) : ENOENT;
        if (result == ENOENT)
            return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", cure_of_name(name), "no program '%s' in PATH", name);
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

/* ---- the chain of files: first lines of scripts, and env, lead from one to the next */

struct walk {
    const struct elf_target *shim;
    struct target *target;
    struct problem *problem;
    const char *search;       /* PATH, as env may have changed it */
    const char *const *words; /* what follows target->last; NULL: not known */
    bool is_script;           /* first lines have led here, not the command line alone */
    char script[PATH_MAX];    /* the last of them */
    struct interpret_line line;
};

/* A name of a first line is not there, or no program. Editors of Windows end lines with CR LF, and the CR is a part of the name then. */
static int fault_of_line(const struct walk *walk, const char *name, int code, const char *what) {
    char cure[1024];
    size_t n = strlen(name);
    if (n && name[n - 1] == '\r') {
        snprintf(cure, sizeof cure, CURE_LINE_ENDS, walk->script);
        return problem_set(walk->problem, code, "AR-EXEC-INTERPRETER", cure,
                           "the first line of '%s' ends with CR LF: it names '%.*s' and a carriage return, which %s", walk->script,
                           (int)n - 1, name, what);
    }
    if (!n)
        return problem_set(walk->problem, code, "AR-EXEC-INTERPRETER",
                           "write it behind #!, or leave the line out: it is a shell's script then",
                           "the first line of '%s' names no interpreter", walk->script);
    snprintf(cure, sizeof cure,
             strchr(name, ' ') ? "env takes that for one name; write '#!/usr/bin/env -S %.200s'"
                               : "install the interpreter, or correct the file's first line",
             name);
    return problem_set(walk->problem, code, "AR-EXEC-INTERPRETER", cure, "'%s' needs '%s', which %s", walk->script, name, what);
}

/* What stands behind the interpreter is one word to it, the CR included, and none of these knows an option "-e\r". Others may. */
static int check_argument(const struct walk *walk, const struct elf_target *elf) {
    static const char *const known[] = {"sh", "bash", "dash", "ksh", "zsh", "fish"};
    const char *slash = strrchr(elf->interpreter, '/'), *name = slash ? slash + 1 : elf->interpreter;
    size_t n = strlen(elf->argument);
    bool is_known = interpret_is_python(elf->interpreter);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= !strcmp(name, known[i]);
    if (!n || elf->argument[n - 1] != '\r' || !is_known)
        return 0;
    char cure[1024];
    snprintf(cure, sizeof cure, CURE_LINE_ENDS, walk->script);
    return problem_set(walk->problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-INTERPRETER", cure,
                       "the first line of '%s' ends with CR LF: %s gets the option '%.*s' and a carriage return, which it does not know",
                       walk->script, name, (int)n - 1, elf->argument);
}

/* Can the file be executed? Returns 0 or an exit code, with *what in words. */
static int judge_interpreter(const char *path, const char **what) {
    struct stat status;
    *what = "does not exist";
    if (!*path || stat(path, &status))
        return EXIT_NOT_FOUND;
    *what = "is not executable";
    return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : EXIT_NOT_EXECUTABLE;
}

/* A file that is no program, though it begins as one. */
static int check_form(const char *path, const struct elf_target *elf, struct problem *problem) {
    static const char *const forms[] = {[ELF_FORM_LIBRARY] = "is a shared library",
                                        [ELF_FORM_OBJECT] = "is an object file, not linked yet",
                                        [ELF_FORM_CORE] = "is a core dump"};
    if (elf->is_truncated)
        return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-FORMAT", "copy or build the file again",
                           "'%s' is only a part of a program: the file ends before what its header names", path);
    if (elf->form != ELF_FORM_PROGRAM)
        return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-FORMAT", "name the program, not a part of it or what it left behind",
                           "'%s' %s: it cannot be started", path, forms[elf->form]);
    return 0;
}

/* A static interpreter of a script may still start a dynamic program, which keeps the preload, so only the program itself, which the user named, is refused for
   being static. */
static int check_elf(struct walk *walk, const struct elf_target *elf) {
    struct problem *problem = walk->problem;
    const char *path = walk->target->last;
    const char *what;
    if (check_machine(path, elf, walk->shim, problem) || check_form(path, elf, problem))
        return -1;
    if (!elf->is_dynamic)
        return walk->is_script ? 0
                               : problem_set(problem, EXIT_LAUNCHER, "AR-ELF-STATIC",
                                             "link the program dynamically (without -static); if it only starts another one, put accel-run "
                                             "behind it: WRAPPER accel-run ...",
                                             "'%s' is statically linked: the shim cannot be loaded into it", path);
    int code = judge_interpreter(elf->interpreter, &what);
    if (code)
        return problem_set(problem, code, "AR-EXEC-INTERPRETER", "install that loader (another C library's?), or build the program here",
                           "'%s' needs '%s', which %s", path, elf->interpreter, what);
    if (strstr(elf->interpreter, "/ld-musl"))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ELF-MUSL", "use a build for the GNU C library", "'%s' uses musl's loader, '%s'",
                           path, elf->interpreter);
    if (elf->has_own_torch)
        return problem_set(problem, EXIT_LAUNCHER, "AR-ELF-TORCH",
                           "link it against libtorch's shared libraries (-ltorch -ltorch_cpu -lc10), as its official builds are",
                           "libtorch is a part of '%s' (linked statically): the shim cannot see what the program asks of it", path);
    if (walk->is_script)
        return 0;
    if (!strcmp(elf->checks, "thread") || !strcmp(elf->checks, "memory"))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ELF-SANITIZER", "build it without, or with -fsanitize=address or undefined",
                           "'%s' is built with -fsanitize=%s, whose runtime replaces the same functions as the shim: it would not start",
                           path, elf->checks);
    memcpy(walk->target->sanitizer, elf->sanitizer, sizeof walk->target->sanitizer);
    walk->target->has_own_random = elf->has_own_random;
    memcpy(walk->target->checks, elf->checks, sizeof walk->target->checks);
    return 0;
}

/* To the next file of the chain, which is written down. */
static void go_on(struct walk *walk, const char *path, const char *how) {
    struct target *target = walk->target;
    size_t used = strlen(target->chain);
    snprintf(target->chain + used, sizeof target->chain - used, "%s%s", how, path);
    if (path != target->last)
        snprintf(target->last, sizeof target->last, "%s", path);
    if (!*target->python && interpret_is_python(path))
        memcpy(target->python, target->last, sizeof target->python);
}

enum { WALK_ENDS = 1 };

static int follow_script(struct walk *walk, const struct elf_target *elf) {
    const char *what;
    memcpy(walk->script, walk->target->last, sizeof walk->script);
    walk->is_script = true;
    int code = judge_interpreter(elf->interpreter, &what);
    if (code)
        return fault_of_line(walk, elf->interpreter, code, what);
    if (check_argument(walk, elf))
        return -1;
    walk->words = interpret_first_line(elf->interpreter, elf->argument, walk->script, &walk->line) ? walk->line.words : NULL;
    go_on(walk, elf->interpreter, ", a script of ");
    return 0;
}

/* What env would start. */
static int follow_env(struct walk *walk) {
    char path[PATH_MAX];
    struct problem problem;
    const char *const *command = walk->words ? interpret_env(walk->words, &walk->search) : NULL;
    if (!command || !*command)
        return WALK_ENDS;
    bool is_again = *command == walk->script;
    if (preflight_find(*command, walk->search, path, &problem)) {
        if (!walk->is_script)
            *walk->problem = problem;
        else
            fault_of_line(walk, *command, problem.exit_code, problem.exit_code == EXIT_NOT_FOUND ? "is not in PATH" : "is not executable");
        return -1;
    }
    walk->words = command + 1;
    go_on(walk, path, is_again ? ", which starts again " : ", which starts ");
    return 0;
}

/* The file that an interpreter of Python would be the first to miss, N times. */
static int check_python_file(struct walk *walk) {
    const char *file = walk->words ? interpret_python(walk->words) : NULL;
    if (!file || !interpret_is_python_file(file) || access(file, R_OK) == 0)
        return 0;
    if (errno == EACCES)
        return problem_set(walk->problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-NOT-EXECUTABLE",
                           "chmod +r makes a file readable, chmod +x a folder", "'%s' cannot be read: %s", file, strerror(errno));
    return problem_set(walk->problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", CURE_PYTHON, "'%s' cannot be read: %s", file, strerror(errno));
}

static int follow(struct walk *walk) {
    static struct elf_target elf; /* static: 4 KiB; preflight runs once, in one thread */
    const char *path = walk->target->last;
    bool is_python_now = !strcmp(walk->target->python, path);
    if (check_rights(path, walk->problem) || (is_python_now && check_python_file(walk)))
        return -1;
    elf_target_read(path, &elf);
    switch (elf.kind) {
    case ELF_TARGET_UNREADABLE: /* an executable without read permission: exec may still work, and the claim will tell */
    case ELF_TARGET_OTHER:
        walk->target->through_shell = elf.kind == ELF_TARGET_OTHER && !strcmp(path, walk->target->path);
        return WALK_ENDS;
    case ELF_TARGET_SCRIPT:
        return follow_script(walk, &elf);
    case ELF_TARGET_PROGRAM:
        if (check_elf(walk, &elf))
            return -1;
        return interpret_is_env(path) ? follow_env(walk) : WALK_ENDS;
    case ELF_TARGET_BINARY:
    case ELF_TARGET_BROKEN:
        break;
    }
    return problem_set(walk->problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-FORMAT", "is this the right file?",
                       "'%s' is neither a program nor a script", path);
}

static int check_program(struct walk *walk) {
    go_on(walk, walk->target->path, "");
    for (int depth = 0; depth < CHAIN_DEPTH; depth++) {
        int status = follow(walk);
        if (status)
            return status == WALK_ENDS ? 0 : -1;
    }
    return problem_set(walk->problem, EXIT_NOT_EXECUTABLE, "AR-EXEC-INTERPRETER", "name the program itself",
                       "'%s': scripts that need scripts, too deep", walk->target->path);
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
    /* LD_PRELOAD separates names by spaces and colons and has no way to quote them, and replaces $ORIGIN and its like: ld.so would say "ignored" and the
       program would run without us (P16). */
    if (target->shim[0] != '/' || strpbrk(target->shim, " :$"))
        return problem_set(problem, EXIT_LAUNCHER, "AR-SHIM-PATH", "install accel-run where the path has no space, ':' or '$'",
                           "the dynamic loader cannot preload a library with the path '%s'", target->shim);
    return 0;
}

int preflight_run(char *const *arguments, const char *search, const char *shim, struct target *target, struct problem *problem) {
    static struct elf_target library;
    memset(target, 0, sizeof *target);
    if (!strcmp(arguments[0], "test")) /* is in every PATH, and trains nothing */
        return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", CURE_SUBCOMMAND,
                           "'test' behind options is the system's, which does not train");
    if (preflight_find(arguments[0], search, target->path, problem) || find_shim(shim, target, problem))
        return -1;
    elf_target_read(target->shim, &library);
    if (library.kind != ELF_TARGET_PROGRAM)
        return problem_set(problem, EXIT_LAUNCHER, "AR-SHIM-MISSING", "build it (make), or install accel-run again (make install)",
                           "'%s' is not a library", target->shim);
    static struct walk walk; /* 6 KiB */
    walk = (struct walk){&library, target, problem, search, (const char *const *)arguments + 1, false, "", {{NULL}, ""}};
    return check_program(&walk);
}

/* Its calls do not pass through symbols, or end at its own, before the preload's. */
void preflight_advise(const struct target *target, struct problem *advice) {
    memset(advice, 0, sizeof *advice);
    if (target->has_own_random)
        problem_set(advice, 0, "AR-ELF-LIBSTDCXX", "link it without -static-libstdc++; or seed by a number, where it draws",
                    "libstdc++ is a part of '%s': what it draws from std::random_device is another number on each rank", target->last);
}
