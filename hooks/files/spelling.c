/*
 * Two ranks' names for one file. Numbers of processes, times and drawn parts make them differ, and rank 0's counts. Where a rank's name is itself the name of
 * another file the ranks have taken their files in different orders (a set of modules goes by their addresses, a parallel loop by who comes first): reading one
 * of them would give the other.
 *
 *  - One such name says nothing: a rank whose second has come earlier, or that has drawn once more, has the other's next name each time. Only a name that each
 *    of the ranks has used, for another file than the other one.
 *  - What is done again to the same two files (the oldest of three is removed) says nothing either.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "files.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pairs rank_0s; /* its names, by their checksums */
static struct pairs own;     /* this rank's, where they were not rank 0's: which that was */

static void *key_of(const char *name) {
    return (void *)(checksum_bytes(0, name, strlen(name)) | 1);
}

__attribute__((noreturn)) static void refuse(const char *name, const char *rank_0s_name) {
    shim_problem(
        "AR-FILE-PARTED",
        "All ranks must change the same files in the same order: does the program go through a set, or share its files out among threads?",
        "rank %u changes '%s' where rank 0 changes '%s', and both are files of the program", shim_rank(), name, rank_0s_name);
}

void spelling_met(const char *name, const char *rank_0s_name) {
    char whole[PATH_MAX], rank_0s_whole[PATH_MAX];
    if (!files_clean(name, whole) || !files_clean(rank_0s_name, rank_0s_whole))
        return;
    void *mine = key_of(whole), *theirs = key_of(rank_0s_whole);
    bool is_same = mine == theirs || beside_spells_alike(whole, rank_0s_whole);
    pthread_mutex_lock(&mutex);
    bool was_rank_0s = pairs_get(&rank_0s, mine), was_own = pairs_get(&own, theirs), is_known = pairs_get(&own, mine) == theirs;
    pairs_put(&rank_0s, theirs, theirs);
    if (!is_same)
        pairs_put(&own, mine, theirs);
    pthread_mutex_unlock(&mutex);
    if (!is_same && !is_known && was_rank_0s && was_own)
        refuse(name, rank_0s_name);
}
