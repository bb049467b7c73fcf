/*
 * Who reads a file of this process's that is about to be rewritten: descriptors, and mappings (np.load with mmap_mode). What they see is the file itself, so it
 * is written in place, as one process does. Which mappings are gone is not known: a file that was ever mapped is written in place.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "files.h"

enum { MAPPED = 4096 }; /* a power of two */

static _Atomic uint64_t mapped[MAPPED]; /* hashes of device and inode; 0: free */
static _Atomic uint32_t mapped_count;   /* at most three quarters; then every file counts as mapped */

static uint64_t identity_of(const struct stat *file) {
    return checksum_mix(file->st_dev, file->st_ino) | 1;
}

/* The identity's place, or the hole where it belongs. */
static _Atomic uint64_t *place_of(uint64_t identity) {
    size_t place = identity >> 32 & (MAPPED - 1);
    for (uint64_t met; (met = atomic_load_explicit(&mapped[place], memory_order_relaxed)) && met != identity;)
        place = (place + 1) & (MAPPED - 1);
    return &mapped[place];
}

/* Any thread; an allocator's calls come by here, too. Keeps errno. */
void readers_note_mapping(int descriptor) {
    struct stat file;
    int saved_errno = errno;
    if (atomic_load(&mapped_count) < MAPPED / 4 * 3 && !fstat(descriptor, &file) && S_ISREG(file.st_mode)) {
        uint64_t identity = identity_of(&file), none;
        do
            none = 0;
        while (!atomic_compare_exchange_strong(place_of(identity), &none, identity) && none != identity);
        atomic_fetch_add(&mapped_count, !none);
    }
    errno = saved_errno;
}

static bool is_mapped(const struct stat *file) {
    return atomic_load(&mapped_count) >= MAPPED / 4 * 3 || atomic_load(place_of(identity_of(file)));
}

static bool is_open(const struct stat *file) {
    struct stat other;
    bool found = false;
    DIR *descriptors = opendir("/proc/self/fd");
    for (const struct dirent *entry; descriptors && !found && (entry = readdir(descriptors));)
        found = entry->d_name[0] != '.' && !fstat((int)strtol(entry->d_name, NULL, 10), &other) && other.st_ino == file->st_ino &&
                other.st_dev == file->st_dev;
    if (descriptors)
        closedir(descriptors);
    return found;
}

/* To be called inside SHIM_FILES_ASIDE. Keeps errno. */
bool readers_have(const char *path) {
    struct stat file;
    int saved_errno = errno;
    bool have = !stat(path, &file) && S_ISREG(file.st_mode) && (is_mapped(&file) || is_open(&file));
    errno = saved_errno;
    return have;
}
