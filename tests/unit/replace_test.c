// sources: shim/replace.c
/*
 * Files that are replaced whole: what is in a folder before, during and after.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../../shim/shim.h"

_Thread_local uint8_t shim_files_aside_now;

static struct replacement replacement;

/* As on file systems that have no files without a name. */
static bool all_are_named;
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (all_are_named && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int listings;
DIR *opendir(const char *path) {
    listings++;
    return fdopendir(open(path, O_RDONLY | O_DIRECTORY));
}

static void enter_folder(void) {
    char name[] = "/tmp/replace-test-XXXXXX";
    EXPECT(mkdtemp(name) && !chdir(name));
}

static void leave_folder(void) {
    char name[PATH_MAX], command[PATH_MAX + 16];
    EXPECT(getcwd(name, sizeof name) && !chdir("/"));
    snprintf(command, sizeof command, "rm -r '%s'", name);
    EXPECT(!system(command));
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    EXPECT(file && fputs(text, file) >= 0 && !fclose(file));
}

/* The only file of the folder is called so, and has this text. */
static bool is_alone(const char *name, const char *text) {
    char found[64] = "";
    int others = 0;
    DIR *entries = opendir(".");
    for (struct dirent *entry; (entry = readdir(entries));)
        others += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, name);
    closedir(entries);
    FILE *file = fopen(name, "r");
    size_t length = file ? fread(found, 1, sizeof found - 1, file) : 0;
    if (file)
        fclose(file);
    return file && !others && length == strlen(text) && !strcmp(found, text);
}

static bool is_empty_folder(void) {
    write_file("probe", "");
    bool is_so = is_alone("probe", "");
    unlink("probe");
    return is_so;
}

/* As libtorch opens it, its call being given what is to be opened. */
static void write_redirected(const char *text) {
    char link[REPLACE_LINK_BYTES];
    write_file(replace_path(&replacement, link), text);
}

TEST("a new file has its own name or none at any moment: a kill leaves nothing") {
    enter_folder();
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    EXPECT(!strncmp(strrchr(replacement.name, '/'), "/model.accel-", 13));
    if (replacement.is_unnamed) {
        EXPECT(is_empty_folder());
        write_redirected("new");
        EXPECT(is_empty_folder());
    } else {
        write_redirected("new");
    }
    EXPECT(!replace_commit(&replacement));
    EXPECT(is_alone("model.pt", "new"));
    leave_folder();
}

TEST("an old file is there until the new one is whole, which has its permissions") {
    struct stat now;
    enter_folder();
    write_file("model.pt", "old");
    EXPECT(!chmod("model.pt", 0640));
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_redirected("new");
    EXPECT(!replacement.is_unnamed || is_alone("model.pt", "old"));
    EXPECT(!replace_commit(&replacement));
    EXPECT(is_alone("model.pt", "new") && !stat("model.pt", &now) && (now.st_mode & 07777) == 0640);
    leave_folder();
}

TEST("a file keeps its attributes, and the rights of further users, and gets no others") {
    /* version 2; user rw, user 1234 r, group r, mask r, others none */
    static const uint32_t list[] = {2, 6u << 16 | 1, -1u, 4u << 16 | 2, 1234, 4u << 16 | 4, -1u, 4u << 16 | 16, -1u, 32, -1u};
    static const char *const names[] = {"user.tag", "system.posix_acl_access"};
    char found[64];
    enter_folder();
    write_file("model.pt", "old");
    bool are_kept[2] = {!setxattr("model.pt", names[0], "best", 4, 0), !setxattr("model.pt", names[1], list, sizeof list, 0)};
    setxattr(".", "system.posix_acl_default", list, sizeof list, 0);
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_redirected("new");
    EXPECT(!replace_commit(&replacement) && is_alone("model.pt", "new"));
    for (int i = 0; i < 2; i++)
        EXPECT(!are_kept[i] || getxattr("model.pt", names[i], found, sizeof found) == (i ? (ssize_t)sizeof list : 4));
    EXPECT(!removexattr("model.pt", names[1]) || !are_kept[1]);
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    EXPECT(!replace_commit(&replacement) && getxattr("model.pt", names[1], found, sizeof found) < 0);
    leave_folder();
}

TEST("what is given up leaves the old file, or none") {
    enter_folder();
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_redirected("new");
    replace_discard(&replacement);
    EXPECT(is_empty_folder());
    write_file("model.pt", "old");
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_redirected("new");
    replace_discard(&replacement);
    EXPECT(is_alone("model.pt", "old"));
    leave_folder();
}

TEST("a file that was opened by its name, by a call that was not seen, is the one") {
    struct stat now;
    enter_folder();
    write_file("model.pt", "old");
    EXPECT(!chmod("model.pt", 0640));
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_file(replacement.name, "new");
    EXPECT(!replace_commit(&replacement));
    EXPECT(is_alone("model.pt", "new") && !stat("model.pt", &now) && (now.st_mode & 07777) == 0640);
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_file(replacement.name, "newer");
    replace_discard(&replacement);
    EXPECT(is_alone("model.pt", "new"));
    leave_folder();
}

TEST("what a killed job has left for a name is removed by the next one, and a living one's is not") {
    char name[64];
    enter_folder();
    write_file("model.accel-7fffffff", "no process has this number");
    snprintf(name, sizeof name, "model.accel-%08x", (unsigned)getppid());
    write_file(name, "its process lives");
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    EXPECT(access("model.accel-7fffffff", F_OK) && !access(name, F_OK));
    replace_discard(&replacement);
    leave_folder();
}

static void begin_and_discard(const char *name) {
    EXPECT(replace_begin(&replacement, name) == REPLACE_WHOLE);
    replace_discard(&replacement);
}

TEST("a folder is looked through for such once, however many files are written there, and again as long as there are some") {
    enter_folder();
    listings = 0;
    begin_and_discard("first");
    begin_and_discard("second");
    begin_and_discard("third");
    EXPECT(listings == 1);
    leave_folder();
    enter_folder();
    write_file("second.accel-7fffffff", "no process has this number");
    begin_and_discard("first");
    EXPECT(!access("second.accel-7fffffff", F_OK));
    begin_and_discard("second");
    EXPECT(access("second.accel-7fffffff", F_OK));
    leave_folder();
}

TEST("a link to nowhere leads to the file that is made: over further links, from the folder of each, but not in a ring") {
    char text[PATH_MAX];
    enter_folder();
    EXPECT(!mkdir("old", 0700) && !mkdir("links", 0700));
    EXPECT(!symlink("links/latest", "model.pt") && !symlink("../old/third.pt", "links/latest"));
    EXPECT(replace_begin(&replacement, "model.pt") == REPLACE_WHOLE);
    write_redirected("new");
    EXPECT(!replace_commit(&replacement));
    EXPECT(readlink("model.pt", text, sizeof text) > 0 && readlink("links/latest", text, sizeof text) > 0);
    EXPECT(!chdir("old") && is_alone("third.pt", "new") && !chdir(".."));
    EXPECT(!symlink("none/model.pt", "astray") && replace_begin(&replacement, "astray") == REPLACE_FAIL);
    EXPECT(!symlink("ring", "again") && !symlink("again", "ring") && replace_begin(&replacement, "ring") == REPLACE_FAIL);
    leave_folder();
}

/* By another descriptor than the one that is in place. */
static bool can_be_locked(const char *name) {
    int other = open(name, O_WRONLY);
    bool can = !flock(other, LOCK_EX | LOCK_NB);
    close(other);
    return can;
}

TEST("who has opened a file that has a name from the beginning can lock it when it is in its place: our lock is gone, his own stays") {
    enter_folder();
    all_are_named = true;
    EXPECT(replace_open(&replacement, "log", O_WRONLY, 0600) == REPLACE_WHOLE && !can_be_locked(replacement.name));
    int file = replacement.file;
    EXPECT(!replace_commit(&replacement) && can_be_locked("log"));
    close(file);
    EXPECT(replace_open(&replacement, "log", O_WRONLY, 0600) == REPLACE_WHOLE);
    replace_unlock(&replacement);
    file = replacement.file;
    EXPECT(!flock(file, LOCK_EX) && !replace_commit(&replacement) && !can_be_locked("log"));
    close(file);
    all_are_named = false;
    leave_folder();
}

TEST("what cannot be replaced whole is written in its place, or fails as opening it does") {
    enter_folder();
    write_file("one", "text");
    EXPECT(!link("one", "two") && !mkfifo("pipe", 0600) && !mkdir("folder", 0700));
    EXPECT(replace_begin(&replacement, "one") == REPLACE_DIRECT);
    EXPECT(replace_begin(&replacement, "pipe") == REPLACE_DIRECT);
    EXPECT(replace_begin(&replacement, "/dev/null") == REPLACE_DIRECT);
    EXPECT(replace_begin(&replacement, "folder") == REPLACE_FAIL);
    EXPECT(replace_begin(&replacement, "none/model.pt") == REPLACE_FAIL);
    leave_folder();
}

TEST("a name that leaves no room for a temporary one beside it is written in its place") {
    char name[NAME_MAX + 1] = "";
    enter_folder();
    memset(name, 'n', NAME_MAX);
    EXPECT(replace_begin(&replacement, name) == REPLACE_DIRECT);
    EXPECT(replace_open(&replacement, name, O_WRONLY, 0600) == REPLACE_DIRECT && is_empty_folder());
    strcpy(name + NAME_MAX - 4, ".pt"); /* the end is not part of the temporary name */
    EXPECT(replace_begin(&replacement, name) == REPLACE_DIRECT);
    strcpy(name + 240, ".pt");
    EXPECT(replace_begin(&replacement, name) == REPLACE_WHOLE);
    replace_discard(&replacement);
    leave_folder();
}
