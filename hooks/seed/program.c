/*
 * What a process is, for its draws: the hash of its program's path and of its arguments, by which the same process of each rank draws the same.
 *
 *  - What a script makes anew on each rank before it hands it on is left out of the arguments: times and dates that are not far from now ($(date +%s%N)), and
 *    the drawn part of names that mktemp and Python's tempfile make. A script's other numbers ($$, $RANDOM) may be what tells two of its processes apart.
 *  - Over several hosts the program may lie in another folder on each (launcher/hosts compares its name alone): there its path counts from the last slash on,
 *    and so does the first argument that is a path, for a script may stand behind its interpreter and options.
 *  - Read from the kernel, since a constructor has not run yet when another library's draws.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "seed.h"

enum { BLOCK_BYTES = 4096, DRAWN_MARK = '\2' };

struct arguments {
    struct siphash_key secret;
    uint64_t hash;
    long long now;
    bool is_name, has_met_path; /* of several hosts */
    size_t count;
    char bytes[BLOCK_BYTES + 1]; /* of the present one: longer than any path */
};

static uint64_t hash_bytes(const struct siphash_key *secret, uint64_t before, const char *bytes, size_t count) {
    uint64_t words[BLOCK_BYTES / 8 + 2] = {before, count};
    memcpy(words + 2, bytes, count);
    return siphash(*secret, words, 2 + (count + 7) / 8);
}

/* How long a name is that mktemp has drawn (tmp. and ten of 62 characters), or tempfile (tmp and eight of 37); 0: it is none. */
static size_t drawn_behind(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_",
                      both[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    bool is_mktemps = name[3] == '.';
    size_t drawn = is_mktemps ? strspn(name + 4, both) : strspn(name + 3, letters);
    return drawn == (is_mktemps ? 10 : 8) ? 3 + is_mktemps + drawn : 0;
}

static void leave_out_drawn(char *text) {
    char *out = text;
    while (*text) {
        size_t drawn = strncmp(text, "/tmp", 4) ? 0 : drawn_behind(text + 1);
        *out++ = drawn ? DRAWN_MARK : *text;
        text += 1 + drawn;
    }
    *out = 0;
}

static size_t folder_length(const char *path, size_t count) {
    while (count && path[count - 1] != '/')
        count--;
    return count;
}

static void end_argument(struct arguments *arguments) {
    size_t folder = 0;
    if (arguments->is_name || (shim_has_hosts() && !arguments->has_met_path && arguments->bytes[0] != '-')) {
        folder = folder_length(arguments->bytes, arguments->count);
        arguments->has_met_path |= folder && !arguments->is_name;
    }
    char spelled[BLOCK_BYTES + 1];
    arguments->bytes[arguments->count] = 0;
    moment_spell(arguments->bytes + folder, &(struct moment){.start = arguments->now, .now = arguments->now}, spelled);
    leave_out_drawn(spelled);
    arguments->hash = hash_bytes(&arguments->secret, arguments->hash, spelled, strlen(spelled));
    arguments->is_name = false;
    arguments->count = 0;
}

static void take_bytes(struct arguments *arguments, const char *bytes, size_t count) {
    for (const char *byte = bytes; byte < bytes + count; byte++) {
        if (*byte)
            arguments->bytes[arguments->count++] = *byte;
        if (!*byte || arguments->count == BLOCK_BYTES)
            end_argument(arguments);
    }
}

uint64_t program_hash(struct siphash_key secret) {
    char block[BLOCK_BYTES];
    ssize_t length = readlink("/proc/self/exe", block, sizeof block);
    size_t count = length > 0 ? (size_t)length : 0, folder = shim_has_hosts() ? folder_length(block, count) : 0;
    struct arguments arguments = {.secret = secret,
                                  .hash = hash_bytes(&secret, 0, block + folder, count - folder),
                                  .now = (long long)time(NULL),
                                  .is_name = shim_has_hosts()};
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return arguments.hash;
    while ((length = read(file, block, sizeof block)) > 0)
        take_bytes(&arguments, block, (size_t)length);
    end_argument(&arguments); /* a process that has renamed itself may have left none of the zeros */
    close(file);
    return arguments.hash;
}
