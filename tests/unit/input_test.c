// sources: launcher/streams/input.c launcher/streams/console.c launcher/loop.c launcher/problem.c
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/uio.h>

#include "../../launcher/streams/input.h"

enum { RANKS = 2, CHUNK = 8192, BEHIND = 15, CHUNKS = 4000 }; /* behind: more than a pipe holds, so that the rest waits in the launcher */

static int pipe_ends[2], reached[RANKS];

/* The k-th chunk goes into the launcher's pipe, and from there to the ranks as far as theirs have room. */
static void write_chunk(struct input *input, struct loop *loop, int k) {
    char bytes[CHUNK];
    memset(bytes, 'a' + k % 26, sizeof bytes);
    EXPECT(write(pipe_ends[1], bytes, sizeof bytes) == CHUNK);
    input_add(input, loop);
    loop_round(loop, 0);
}

static bool read_chunk(int rank, int k) {
    char bytes[CHUNK];
    for (size_t got = 0; got < sizeof bytes;) {
        ssize_t n = read(reached[rank], bytes + got, sizeof bytes - got);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i] != 'a' + k % 26)
            return false;
    return true;
}

TEST("ranks that are always behind get every byte in its order, and what has gone through takes no memory") {
    struct input input;
    struct loop loop = {0};
    struct problem problem;
    bool is_right = true;
    EXPECT(pipe(pipe_ends) == 0);
    EXPECT(input_open_other(&input, pipe_ends[0], false, RANKS, &problem) == 0);
    for (int rank = 0; rank < RANKS; rank++)
        reached[rank] = input_descriptor(&input, (uint32_t)rank);
    for (int k = 0; k < CHUNKS && is_right; k++) {
        write_chunk(&input, &loop, k);
        for (int rank = 0; k >= BEHIND && rank < RANKS && is_right; rank++)
            is_right = read_chunk(rank, k - BEHIND);
    }
    EXPECT(is_right);
    for (int rank = 0; rank < RANKS; rank++) {
        EXPECT(input.sinks[rank].end > input.sinks[rank].begin);
        EXPECT(input.sinks[rank].capacity < 1 << 20);
    }
    input_clear(&input);
    loop_clear(&loop);
}

/* Somebody else who reads the same pipe, and is faster. */
static void steal(void *context, size_t index, short events) {
    char bytes[CHUNK];
    EXPECT(read(pipe_ends[0], bytes, sizeof bytes) > 0);
}

TEST("a pipe that somebody else has emptied meanwhile does not stop the launcher") {
    struct input input;
    struct loop loop = {0};
    struct problem problem;
    EXPECT(pipe(pipe_ends) == 0);
    EXPECT(input_open_other(&input, pipe_ends[0], false, RANKS, &problem) == 0);
    EXPECT(write(pipe_ends[1], "text", 4) == 4);
    alarm(20); /* instead of waiting for ever */
    loop_add(&loop, pipe_ends[0], POLLIN, steal, NULL, 0);
    input_add(&input, &loop);
    loop_round(&loop, 0);
    alarm(0);
    EXPECT(!input.has_ended);
    EXPECT(write(pipe_ends[1], "more", 4) == 4);
    input_add(&input, &loop);
    loop_round(&loop, 0);
    for (int rank = 0; rank < RANKS; rank++) {
        char bytes[8];
        EXPECT(read(input_descriptor(&input, (uint32_t)rank), bytes, sizeof bytes) == 4 && !memcmp(bytes, "more", 4));
    }
    input_clear(&input);
    loop_clear(&loop);
}

static bool somebody_is_faster; /* what poll() has said is so no more when the launcher comes to use it */

int poll(struct pollfd *list, nfds_t count, int timeout_ms) {
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    if (!somebody_is_faster)
        return ppoll(list, count, timeout_ms < 0 ? NULL : &timeout, NULL);
    for (nfds_t i = 0; i < count; i++)
        list[i].revents = list[i].events;
    return (int)count;
}

TEST("a pipe that somebody else has filled meanwhile does not stop the launcher") {
    char bytes[4096] = "";
    struct iovec one = {bytes, sizeof bytes};
    EXPECT(pipe(pipe_ends) == 0);
    while (console_write_now(pipe_ends[1], bytes, sizeof bytes) > 0)
        ;
    EXPECT(errno == EAGAIN);
    if (pwritev2(pipe_ends[1], &one, 1, -1, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP)
        return; /* an older kernel */
    alarm(20);  /* instead of waiting for ever */
    somebody_is_faster = true;
    EXPECT(console_write_now(pipe_ends[1], bytes, sizeof bytes) < 0 && errno == EAGAIN);
    somebody_is_faster = false;
    alarm(0);
    EXPECT(read(pipe_ends[0], bytes, sizeof bytes) == sizeof bytes);
    EXPECT(console_write_now(pipe_ends[1], bytes, sizeof bytes) == sizeof bytes);
}

static bool memory_is_short;

void *realloc(void *memory, size_t bytes) {
    size_t had = memory ? malloc_usable_size(memory) : 0;
    void *larger = memory_is_short ? NULL : malloc(bytes);
    if (!larger)
        return NULL;
    if (memory)
        memcpy(larger, memory, had < bytes ? had : bytes);
    free(memory);
    return larger;
}

TEST("input for which there is no memory is not passed over: the launcher is to end the job, and reads no more") {
    struct input input;
    struct loop loop = {0};
    struct problem problem;
    EXPECT(pipe(pipe_ends) == 0);
    EXPECT(input_open_other(&input, pipe_ends[0], false, RANKS, &problem) == 0);
    write_chunk(&input, &loop, 0);
    EXPECT(!input.has_gap);
    for (int k = 1; k < BEHIND && !input.has_gap; k++) {
        memory_is_short = input.sinks[0].capacity > CHUNK; /* the pipes are full */
        write_chunk(&input, &loop, k);
    }
    memory_is_short = false;
    EXPECT(input.has_gap);
    EXPECT(write(pipe_ends[1], "more", 4) == 4);
    input_add(&input, &loop);
    loop_round(&loop, 0);
    char left[8];
    EXPECT(read(pipe_ends[0], left, sizeof left) == 4);
    input_clear(&input);
    loop_clear(&loop);
}
