// sources: launcher/hosts/look_serve.c
/*
 * What the first host answers to ranks of other hosts that look at its files.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../launcher/hosts/look.h"

static struct look_sent sent;
static struct look_answer answer;

static int look(uint32_t what, const char *path, uint64_t offset) {
    sent = (struct look_sent){.rank = 3, .look = {.number = sent.look.number + 1, .what = what, .offset = offset}};
    strcpy(sent.path, path);
    look_serve(&sent, &answer);
    EXPECT(answer.rank == 3 && answer.looked.number == sent.look.number && answer.looked.bytes <= sizeof answer.data);
    return answer.looked.error;
}

static void enter_folder(void) {
    char name[] = "/tmp/look-test-XXXXXX";
    EXPECT(mkdtemp(name) && !chdir(name));
}

static void leave_folder(void) {
    char name[PATH_MAX], command[PATH_MAX + 16];
    EXPECT(getcwd(name, sizeof name) && !chdir("/"));
    snprintf(command, sizeof command, "rm -r '%s'", name);
    EXPECT(!system(command));
}

static void write_file(const char *name, size_t bytes) {
    FILE *file = fopen(name, "w");
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i * 7 % 251), file);
    EXPECT(!fclose(file));
}

TEST("what lies below the folder that accel-run was started in is told from what lies beside it") {
    EXPECT_TEXT(look_below("/a/run", "/a/run/x/y"), "x/y");
    EXPECT_TEXT(look_below("/a/run", "/a/run//x"), "x");
    EXPECT_TEXT(look_below("/a/run", "/a/run"), ".");
    EXPECT_TEXT(look_below("/a/run", "/a/run/"), ".");
    EXPECT(!look_below("/a/run", "/a/runs/x"));
    EXPECT(!look_below("/a/run", "/a/ru"));
    EXPECT(!look_below("/a/run", "/b"));
    EXPECT(!look_below("/", "/a"));
}

TEST("status, access and links are the system's, errors too") {
    struct stat now;
    enter_folder();
    write_file("file", 100);
    EXPECT(!symlink("file", "link") && !symlink("nowhere", "lost") && !stat("file", &now));
    EXPECT(look(PROTOCOL_LOOK_STATUS, "link", 0) == 0);
    EXPECT(answer.looked.status.size == 100 && answer.looked.status.inode == now.st_ino && answer.looked.status.mode == now.st_mode);
    EXPECT(answer.looked.status.modified[0] == now.st_mtim.tv_sec && answer.looked.status.modified[1] == now.st_mtim.tv_nsec);
    EXPECT(look(PROTOCOL_LOOK_NAME, "link", 0) == 0 && S_ISLNK(answer.looked.status.mode));
    EXPECT(look(PROTOCOL_LOOK_STATUS, "lost", 0) == ENOENT);
    EXPECT(look(PROTOCOL_LOOK_STATUS, "file/x", 0) == ENOTDIR);
    EXPECT(look(PROTOCOL_LOOK_ACCESS, "file", R_OK) == 0 && look(PROTOCOL_LOOK_ACCESS, "none", F_OK) == ENOENT);
    EXPECT(look(PROTOCOL_LOOK_LINK, "link", 0) == 0 && answer.looked.bytes == 4 && !memcmp(answer.data, "file", 4));
    EXPECT(look(PROTOCOL_LOOK_LINK, "file", 0) == EINVAL);
    EXPECT(look(99, "file", 0) == ENOSYS);
    leave_folder();
}

TEST("content comes in pieces, and nothing behind the end; a pipe that nobody writes to holds up nobody") {
    enter_folder();
    size_t bytes = PROTOCOL_LOOK_DATA * 2 + 5, done = 0;
    write_file("file", bytes);
    do {
        EXPECT(look(PROTOCOL_LOOK_READ, "file", done) == 0 && answer.looked.status.size == bytes);
        for (uint32_t i = 0; i < answer.looked.bytes; i++)
            EXPECT((unsigned char)answer.data[i] == (done + i) * 7 % 251);
        done += answer.looked.bytes;
    } while (answer.looked.bytes);
    EXPECT(done == bytes);
    EXPECT(look(PROTOCOL_LOOK_READ, ".", 0) == 0 && S_ISDIR(answer.looked.status.mode) && !answer.looked.bytes);
    EXPECT(!mkfifo("pipe", 0600));
    EXPECT(look(PROTOCOL_LOOK_READ, "pipe", 0) == 0 && S_ISFIFO(answer.looked.status.mode) && !answer.looked.bytes);
    EXPECT(look(PROTOCOL_LOOK_READ, "none", 0) == ENOENT);
    leave_folder();
}

TEST("a folder of many names comes in pieces, each name once") {
    enum { NAMES = 3000 };
    static char seen[NAMES];
    char name[32];
    uint64_t count = 0;
    int dots = 0;
    enter_folder();
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "name-%07d", i);
        int file = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        EXPECT(file >= 0 && !close(file));
    }
    do {
        EXPECT(look(PROTOCOL_LOOK_LIST, ".", count) == 0);
        for (uint32_t at = 0; at < answer.looked.bytes; count++) {
            const char *found = answer.data + at + sizeof(struct protocol_entry);
            if (found[0] == '.')
                dots++;
            else
                seen[atoi(found + 5)]++;
            at += (uint32_t)(sizeof(struct protocol_entry) + strlen(found) + 1);
        }
    } while (answer.looked.bytes);
    EXPECT(count == NAMES + 2 && dots == 2);
    for (int i = 0; i < NAMES; i++)
        EXPECT(seen[i] == 1);
    EXPECT(look(PROTOCOL_LOOK_LIST, "none", 0) == ENOENT);
    leave_folder();
}
