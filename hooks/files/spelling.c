/*
 * Two ranks' names for one file. Numbers of processes, times and drawn parts make them differ, and rank 0's counts. Where a rank's name is itself the name of
 * another file the ranks have taken their files in different orders (a set of modules goes by their addresses, a parallel loop by who comes first): reading one
 * of them would give the other.
 *
 *  - One such name says nothing: a rank whose second has come earlier, or that has drawn once more, has the other's next name each time. Only a name that each
 *    of the ranks has used, for another file than the other one.
 *  - Or one of other letters that was there before the program: nobody draws it.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>

#include "files.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pairs rank_0s; /* its names, by their checksums */
static struct pairs own;     /* this rank's, where they were not rank 0's */

static void *key_of(const char *name) {
    return (void *)(checksum_bytes(0, name, strlen(name)) | 1);
}

static bool differ_in_numbers(const char *one, const char *other) {
    while (*one || *other) {
        if (isdigit((unsigned char)*one) && isdigit((unsigned char)*other)) {
            one += strspn(one, "0123456789");
            other += strspn(other, "0123456789");
        } else if (*one++ != *other++) {
            return false;
        }
    }
    return true;
}

static bool is_on_disk(const char *name) {
    struct stat now;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool is_there = !shim_has_hosts() && !lstat(name, &now); /* another host may call the folder differently */
    errno = saved_errno;
    return is_there;
}

__attribute__((noreturn)) static void refuse(const char *name, const char *rank_0s_name) {
    shim_problem(
        "AR-FILE-PARTED",
        "All ranks must change the same files in the same order: does the program go through a set, or share its files out among threads?",
        "rank %u changes '%s' where rank 0 changes '%s', and both are files of the program", shim_rank(), name, rank_0s_name);
}

void spelling_met(const char *name, const char *rank_0s_name, bool opens) {
    char whole[PATH_MAX], rank_0s_whole[PATH_MAX];
    if (!files_clean(name, whole) || !files_clean(rank_0s_name, rank_0s_whole))
        return;
    void *mine = key_of(whole), *theirs = key_of(rank_0s_whole);
    bool is_same = mine == theirs || beside_spells_alike(whole, rank_0s_whole);
    pthread_mutex_lock(&mutex);
    bool was_rank_0s = pairs_get(&rank_0s, mine), was_own = pairs_get(&own, theirs);
    pairs_put(&rank_0s, theirs, theirs);
    if (!is_same)
        pairs_put(&own, mine, mine);
    pthread_mutex_unlock(&mutex);
    if (is_same)
        return;
    bool is_programs = opens && !was_rank_0s && !differ_in_numbers(whole, rank_0s_whole) && is_on_disk(whole);
    if ((was_rank_0s && was_own) || is_programs)
        refuse(name, rank_0s_name);
}
