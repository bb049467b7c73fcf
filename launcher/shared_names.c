#include "shared_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree.h"

/* The job's name can be read by all: what others put there might be exchanged for a link to elsewhere while it is removed. */
static bool is_own(int folder, const char *name) {
    struct stat status;
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid == geteuid();
}

/* begin: what else the names begin with. */
static void remove_from(const char *folder, const char *begin, const char *job) {
    char part[128], path[512];
    struct dirent *entry;
    DIR *opened = opendir(folder);
    snprintf(part, sizeof part, ".%s.", job);
    while (opened && (entry = readdir(opened))) {
        if (strncmp(entry->d_name, begin, strlen(begin)) || !strstr(entry->d_name, part) || !is_own(dirfd(opened), entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        tree_remove(path);
    }
    if (opened)
        closedir(opened);
}

void shared_names_remove(const char *job) {
    remove_from("/dev/shm", "", job);
    remove_from("/tmp", "accel-run.", job);
}
