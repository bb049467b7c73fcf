#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "look.h"

_Static_assert(PROTOCOL_PATH_MAX == PATH_MAX, "paths of the protocol are those of the system");

const char *look_below(const char *folder, const char *path) {
    size_t length = strlen(folder);
    if (length == 1) /* the root is the same everywhere */
        return NULL;
    if (strncmp(folder, path, length) || (path[length] && path[length] != '/'))
        return NULL;
    path += length;
    while (*path == '/')
        path++;
    return *path ? path : ".";
}

const char *look_below_start(const char *path) {
    char folder[PATH_MAX];
    return getcwd(folder, sizeof folder) ? look_below(folder, path) : NULL;
}

static void set_time(int64_t to[2], const struct timespec *from) {
    to[0] = from->tv_sec;
    to[1] = from->tv_nsec;
}

static void set_status(struct protocol_status *to, const struct stat *from) {
    to->device = from->st_dev;
    to->inode = from->st_ino;
    to->links = from->st_nlink;
    to->size = (uint64_t)from->st_size;
    to->block_bytes = (uint64_t)from->st_blksize;
    to->blocks = (uint64_t)from->st_blocks;
    to->special = from->st_rdev;
    to->mode = from->st_mode;
    to->user = from->st_uid;
    to->group = from->st_gid;
    set_time(to->accessed, &from->st_atim);
    set_time(to->modified, &from->st_mtim);
    set_time(to->changed, &from->st_ctim);
}

static int serve_status(const struct look_sent *sent, struct look_answer *answer, int flags) {
    struct stat now;
    if (fstatat(AT_FDCWD, sent->path, &now, flags))
        return errno;
    set_status(&answer->looked.status, &now);
    return 0;
}

/* O_NONBLOCK: a pipe without a writer holds up nobody. */
static int serve_content(const struct look_sent *sent, struct look_answer *answer) {
    struct stat now;
    int file = open(sent->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return errno;
    int error = fstat(file, &now) ? errno : 0;
    set_status(&answer->looked.status, &now);
    if (!error && S_ISREG(now.st_mode)) {
        ssize_t got = pread(file, answer->data, sizeof answer->data, (off_t)sent->look.offset);
        error = got < 0 ? errno : 0;
        answer->looked.bytes = got < 0 ? 0 : (uint32_t)got;
    }
    close(file);
    return error;
}

/* The folder's own order: that is how rank 0 reads it. */
static int serve_list(const struct look_sent *sent, struct look_answer *answer) {
    struct dirent *found;
    uint64_t index = 0;
    DIR *folder = opendir(sent->path);
    if (!folder)
        return errno;
    while ((found = readdir(folder))) {
        struct protocol_entry entry = {found->d_ino, found->d_type};
        size_t name = strlen(found->d_name) + 1;
        if (index++ < sent->look.offset)
            continue;
        if (answer->looked.bytes + sizeof entry + name > sizeof answer->data)
            break;
        memcpy(answer->data + answer->looked.bytes, &entry, sizeof entry);
        memcpy(answer->data + answer->looked.bytes + sizeof entry, found->d_name, name);
        answer->looked.bytes += (uint32_t)(sizeof entry + name);
    }
    closedir(folder);
    return 0;
}

static int serve_link(const struct look_sent *sent, struct look_answer *answer) {
    ssize_t length = readlink(sent->path, answer->data, PATH_MAX);
    answer->looked.bytes = length < 0 ? 0 : (uint32_t)length;
    return length < 0 ? errno : 0;
}

static int serve(const struct look_sent *sent, struct look_answer *answer) {
    switch (sent->look.what) {
    case PROTOCOL_LOOK_STATUS:
        return serve_status(sent, answer, 0);
    case PROTOCOL_LOOK_NAME:
        return serve_status(sent, answer, AT_SYMLINK_NOFOLLOW);
    case PROTOCOL_LOOK_ACCESS:
        return access(sent->path, (int)sent->look.offset) ? errno : 0;
    case PROTOCOL_LOOK_READ:
        return serve_content(sent, answer);
    case PROTOCOL_LOOK_LIST:
        return serve_list(sent, answer);
    case PROTOCOL_LOOK_LINK:
        return serve_link(sent, answer);
    default:
        return ENOSYS;
    }
}

void look_serve(const struct look_sent *sent, struct look_answer *answer) {
    answer->rank = sent->rank;
    answer->unused = 0;
    memset(&answer->looked, 0, sizeof answer->looked);
    answer->looked.number = sent->look.number;
    answer->looked.error = serve(sent, answer);
}
