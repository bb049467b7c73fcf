/*
 * Who reads a file of this process's that is about to be rewritten: descriptors, and mappings (np.load with mmap_mode). What they see is the file itself, so it
 * is written in place, as one process does.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "files.h"

/* A millisecond where thousands of libraries' pieces are mapped. */
bool readers_any_mapped(bool (*visit)(dev_t device, ino_t inode, const void *what), const void *what) {
    char line[PATH_MAX + 128];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned major_number, minor_number;
        unsigned long inode;
        found = sscanf(line, "%*x-%*x %*s %*x %x:%x %lu", &major_number, &minor_number, &inode) == 3 && inode &&
                visit(makedev(major_number, minor_number), inode, what);
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Of file systems without a device of their own (btrfs, overlayfs) another one is told here. A file that is not mapped may be taken for one, and is written in
   place. */
static bool is_file(dev_t device, ino_t inode, const void *what) {
    const struct stat *file = what;
    return inode == file->st_ino && (device == file->st_dev || !major(device));
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
static bool have(const char *path, bool also_mapped) {
    struct stat file;
    int saved_errno = errno;
    bool it_has = !stat(path, &file) && S_ISREG(file.st_mode) && (is_open(&file) || (also_mapped && readers_any_mapped(is_file, &file)));
    errno = saved_errno;
    return it_has;
}

bool readers_have(const char *path) {
    return have(path, true);
}

bool readers_hold(const char *path) {
    return have(path, false);
}
