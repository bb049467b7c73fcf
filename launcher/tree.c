#define _GNU_SOURCE
#include "tree.h"

#include <ftw.h>
#include <stdio.h>

enum { DESCRIPTORS = 16 };

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    remove(path);
    return 0; /* what cannot be removed stays, alone */
}

void tree_remove(const char *path) {
    nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}
