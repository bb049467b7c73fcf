#define _GNU_SOURCE
#include "shared_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS = 16 };

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path);
    return 0;
}

/* begin: what else the names begin with. */
static void remove_from(const char *folder, const char *begin, const char *job) {
    char part[128], path[512];
    struct dirent *entry;
    DIR *opened = opendir(folder);
    snprintf(part, sizeof part, ".%s.", job);
    while (opened && (entry = readdir(opened))) {
        if (strncmp(entry->d_name, begin, strlen(begin)) || !strstr(entry->d_name, part))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    }
    if (opened)
        closedir(opened);
}

void shared_names_remove(const char *job) {
    remove_from("/dev/shm", "", job);
    remove_from("/tmp", "accel-run.", job);
}
