#define _GNU_SOURCE
#include "inherited.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static bool names(const char *argument, const char *folder, int number) {
    for (const char *at = argument; (at = strstr(at, folder)); at++) {
        char *end;
        const char *digits = at + strlen(folder);
        if (isdigit((unsigned char)*digits) && strtol(digits, &end, 10) == number)
            return true;
    }
    return false;
}

bool inherited_is_named(char *const *arguments, int number) {
    for (; *arguments; arguments++)
        if (names(*arguments, "/dev/fd/", number) || names(*arguments, "/proc/self/fd/", number))
            return true;
    return false;
}

bool inherited_is_of_make(const char *make_flags, int number) {
    static const char *const options[] = {"--jobserver-auth=", "--jobserver-fds="}; /* make 4.2 and later, earlier ones */
    for (size_t i = 0; make_flags && i < sizeof options / sizeof *options; i++) {
        int ends[2];
        const char *at = strstr(make_flags, options[i]);
        if (at && sscanf(at + strlen(options[i]), "%d,%d", &ends[0], &ends[1]) == 2 && (ends[0] == number || ends[1] == number))
            return true;
    }
    return false;
}

static bool reads(const struct input *input, const struct stat *pipe) {
    struct stat source;
    return input->is_copied && !fstat(input->source, &source) && source.st_dev == pipe->st_dev && source.st_ino == pipe->st_ino;
}

/* What reads the same pipe already: two readers would divide its bytes. */
static const struct input *reader_of(const struct inherited *inherited, const struct input *standard, const struct stat *pipe) {
    if (reads(standard, pipe))
        return standard;
    for (size_t i = 0; i < inherited->count; i++)
        if (reads(&inherited->list[i].input, pipe))
            return &inherited->list[i].input;
    return NULL;
}

static int add(struct inherited *inherited, const struct inherited_request *request, int number, struct problem *problem) {
    struct stat status;
    int flags = fcntl(number, F_GETFL);
    if (flags < 0 || flags & O_PATH || fstat(number, &status) || inherited->count == INHERITED_MOST ||
        inherited_is_of_make(request->make_flags, number))
        return 0;
    bool is_file = S_ISREG(status.st_mode), is_pipe = S_ISFIFO(status.st_mode),
         is_written = (flags & O_ACCMODE) == O_WRONLY || (is_file && (flags & O_ACCMODE) == O_RDWR);
    struct inherited_one *one = &inherited->list[inherited->count];
    *one = (struct inherited_one){.number = number, .flags = flags, .is_file = is_file};
    if (is_pipe && (flags & O_ACCMODE) == O_RDONLY) {
        one->reader = reader_of(inherited, request->standard, &status);
        if (!one->reader && !inherited_is_named(request->arguments, number))
            return 0;
    } else if (!is_file && !(is_pipe && is_written)) {
        return 0;
    }
    inherited->count++;
    if (is_written || one->reader)
        return 0;
    one->reader = &one->input;
    return input_open_other(&one->input, number, is_file, request->world_size, problem);
}

static int add_all(struct inherited *inherited, const struct inherited_request *request, DIR *folder, struct problem *problem) {
    const struct dirent *entry;
    bool is_there[1024] = {false}; /* what is opened below must not be found, too */
    while ((entry = readdir(folder))) {
        int number = atoi(entry->d_name);
        if (number > STDERR_FILENO && number < (int)sizeof is_there)
            is_there[number] = !(fcntl(number, F_GETFD) & FD_CLOEXEC);
    }
    for (int number = 0; number < (int)sizeof is_there; number++)
        if (is_there[number] && add(inherited, request, number, problem))
            return -1;
    return 0;
}

int inherited_open(struct inherited *inherited, const struct inherited_request *request, struct problem *problem) {
    inherited->has_later = request->first > 0;
    if (request->world_size == 1 && !request->first)
        return 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    int status = add_all(inherited, request, folder, problem);
    closedir(folder);
    if (!status && (inherited->nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0) {
        inherited->nowhere = 0;
        return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n'", "cannot open /dev/null: %s", strerror(errno));
    }
    return status;
}

/* As long as the file, and with what it holds if the program may look. */
static bool fill_copy(int copy, const struct inherited_one *one) {
    char name[32];
    struct stat now;
    off_t place = lseek(one->number, 0, SEEK_CUR), done = 0;
    if (fstat(one->number, &now) || ftruncate(copy, now.st_size))
        return false;
    if ((one->flags & O_ACCMODE) == O_RDWR) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", one->number);
        int from = open(name, O_RDONLY | O_CLOEXEC);
        while (from >= 0 && sendfile(copy, from, &done, (size_t)now.st_size) > 0)
            ;
        if (from >= 0)
            close(from);
        if (done < now.st_size)
            return false;
    }
    return lseek(copy, place, SEEK_SET) == place;
}

/* A file that can do what files can (fsync, ftruncate), unlike /dev/null. 0: there is no room. */
static int make_copy(const struct inherited_one *one) {
    int access = one->flags & O_ACCMODE, copy = open("/tmp", O_TMPFILE | access | O_CLOEXEC, 0600);
    if (copy < 0)
        copy = memfd_create("accel-run", MFD_CLOEXEC);
    if (copy >= 0 && fill_copy(copy, one) && fcntl(copy, F_SETFL, one->flags & O_APPEND) == 0)
        return copy;
    if (copy >= 0)
        close(copy);
    return 0;
}

static int descriptor_of(const struct inherited *inherited, struct inherited_one *one, uint32_t rank) {
    if (one->reader)
        return input_descriptor(one->reader, rank);
    if (rank == 0 && !inherited->has_later)
        return one->number;
    one->copy = one->is_file ? make_copy(one) : 0;
    return one->copy ? one->copy : inherited->nowhere;
}

size_t inherited_descriptors(struct inherited *inherited, uint32_t rank, struct spawn_descriptor *list) {
    size_t count = 0;
    for (size_t i = 0; i < inherited->count; i++) {
        struct inherited_one *one = &inherited->list[i];
        int from = descriptor_of(inherited, one, rank);
        if (from != one->number)
            list[count++] = (struct spawn_descriptor){from, one->number};
    }
    return count;
}

void inherited_started(struct inherited *inherited, uint32_t rank) {
    for (size_t i = 0; i < inherited->count; i++) {
        struct inherited_one *one = &inherited->list[i];
        if (one->reader == &one->input)
            input_started(&one->input, rank);
        if (one->copy)
            close(one->copy);
        one->copy = 0;
    }
}

void inherited_all_started(struct inherited *inherited) {
    for (size_t i = 0; i < inherited->count; i++)
        if (!inherited->list[i].reader && !inherited->list[i].is_file)
            close(inherited->list[i].number);
}

void inherited_add(struct inherited *inherited, struct loop *loop) {
    for (size_t i = 0; i < inherited->count; i++)
        input_add(&inherited->list[i].input, loop);
}

bool inherited_has_gap(const struct inherited *inherited) {
    for (size_t i = 0; i < inherited->count; i++)
        if (inherited->list[i].input.has_gap)
            return true;
    return false;
}

void inherited_clear(struct inherited *inherited) {
    for (size_t i = 0; i < inherited->count; i++)
        input_clear(&inherited->list[i].input);
    if (inherited->nowhere)
        close(inherited->nowhere);
    *inherited = (struct inherited){.count = 0};
}
