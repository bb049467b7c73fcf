/*
 * Processes of the job that are no ranks: scripts around the program, commands and workers that it starts. Below each rank there is one, and each writes:
 * the first that does is told of, below another rank than 0, so that nobody takes N writers for one. Nothing is said of new folders, locks, hidden files, and
 * of what lies in a temporary folder: compilers and caches are at home there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "early.h"
#include "files.h"

static _Atomic bool is_told;

/* Unless the program itself runs in a folder there that it has not drawn. own: where it runs. */
static bool is_temporary(const char *real, const char *own) {
    const char *folders[] = {shim_temporary_folder(), "/tmp", "/var/tmp", "/dev/shm"}; /* the first may lie in one of the others */
    char first[NAME_MAX + 1];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *name = folders[i] ? files_below(real, folders[i]) : NULL;
        if (!name)
            continue;
        snprintf(first, sizeof first, "%.*s", (int)strcspn(name, "/"), name);
        return !files_below(own, folders[i]) || !files_below(real, own) || scratch_may_be_drawn(first);
    }
    return false;
}

/* Not where the folder that it runs in is. */
static bool is_hidden(const char *real, const char *own) {
    const char *name = files_below(real, own);
    return (name && name[0] == '.') || strstr(name ? name : real, "/.");
}

static bool is_of_concern(const char *path, const char *real) {
    char own[PATH_MAX];
    if (!getcwd(own, sizeof own))
        own[0] = 0;
    return early_concerns(path) && !is_hidden(real, own) && !is_temporary(real, own);
}

static bool is_no_rank(void) {
    uint8_t kind = atomic_load_explicit(&shim_kind_now, memory_order_relaxed);
    return !shim_files_aside_now && (kind == SHIM_WORKER || kind == SHIM_OTHER || kind == SHIM_UNDECIDED);
}

bool others_may_tell(void) {
    return atomic_load_explicit(&files_watched, memory_order_relaxed) && shim_slot() && !atomic_load(&is_told) && is_no_rank();
}

/* What a handler writes on a small stack of its own goes untold. */
static bool is_on_alternate_stack(void) {
    stack_t stack;
    return !sigaltstack(NULL, &stack) && stack.ss_flags & SS_ONSTACK;
}

FILES_DEEP static void tell(int directory, const char *path, const char *does) {
    char whole[PATH_MAX], real[PATH_MAX];
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    path = files_whole_path(directory, path, whole);
    files_locate(path, real);
    if (is_of_concern(path, real) && !atomic_exchange(&is_told, true))
        shim_tell_of_other("AR-CHILD-WRITES",
                           "do it in the program itself, whose files are written once; where doing it twice changes nothing, let it be",
                           "'%s', which is no rank, %s '%s': there is such a process below each rank, so it is done once for every rank",
                           program_invocation_short_name, does, real);
    errno = saved_errno;
}

void others_tell(int directory, const char *path, const char *does) {
    if (path && others_may_tell() && !is_on_alternate_stack())
        tell(directory, path, does);
}
