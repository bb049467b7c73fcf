#include "shared_names.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tree.h"

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
        tree_remove(path);
    }
    if (opened)
        closedir(opened);
}

void shared_names_remove(const char *job) {
    remove_from("/dev/shm", "", job);
    remove_from("/tmp", "accel-run.", job);
}
