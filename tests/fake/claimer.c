/*
 * A rank without libtorch: speaks the protocol of config/protocol.h as its arguments say, one after the other.
 *
 *   cookie=TEXT rank=N version=N program=N   what the next claim says instead of the truth
 *   claim            claims; prints "denied: reason" on stdout and exits 90 if it is not granted
 *   malformed        sends a message whose length is a lie
 *   short            sends half a claim;  old: one that ends with the secret
 *   release          closes the connection
 *   granted          prints the grant
 *   log:LEVEL:TEXT   a log line          problem:ID:WHAT:CURE   a problem
 *   child:ID:WHAT:CURE   the problem of a rank's forked child, on a connection of its own
 *   phase=N step=N collective=N waiting=N where=TEXT            what the board says of this rank
 *   clean            exits 93 unless no rank has written a step on the board yet
 *   meet             waits until all ranks are here (needs the segment)
 *   only=R ... all   what lies between is done by rank R alone;  not=R ... all   by all but R
 *   out:TEXT err:TEXT  a line            touch=FILE  makes a file; %r in it is the rank, its content the process number
 *   await=FILE       waits until the file exists
 *   abort            waits until the board says that the job is being stopped, then prints "aborted" on stdout
 *   pause            for ever            exit=N                 raise=SIGNAL
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../config/board.h"
#include "../../config/protocol.h"

static struct protocol_claim claim = {.version = PROTOCOL_VERSION};
static struct protocol_grant grant;
static struct board *board;
static int connection = -1;

static void die(const char *what) {
    perror(what);
    exit(91);
}

static void open_connection(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv(PROTOCOL_ENV_SOCKET);
    if (!name)
        die(PROTOCOL_ENV_SOCKET);
    memcpy(address.sun_path + 1, name, strlen(name));
    connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(connection, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))))
        die("connect");
}

static void send_message(uint32_t type, const void *payload, size_t bytes, size_t told) {
    char message[sizeof(struct protocol_header) + PROTOCOL_TEXT_MAX];
    struct protocol_header header = {type, (uint32_t)told};
    memcpy(message, &header, sizeof header);
    memcpy(message + sizeof header, payload, bytes);
    if (send(connection, message, sizeof header + bytes, MSG_NOSIGNAL) < 0)
        die("send");
}

static void receive_grant(void) {
    struct {
        struct protocol_header header;
        char payload[PROTOCOL_TEXT_MAX + 1];
    } message;
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&message, sizeof message - 1};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(connection, &header, 0);
    if (n <= 0) {
        puts("denied: closed");
        exit(90);
    }
    ((char *)&message)[n] = 0;
    if (message.header.type != PROTOCOL_GRANT) {
        printf("denied: %s\n", message.payload);
        exit(90);
    }
    int memfd;
    memcpy(&grant, message.payload, sizeof grant);
    memcpy(&memfd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof memfd);
    board = mmap(NULL, grant.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (board == MAP_FAILED || board->magic != BOARD_MAGIC || board->world_size != grant.world_size)
        die("segment");
}

static void do_claim(void) {
    claim.pid = getpid();
    if (connection < 0)
        open_connection();
    send_message(PROTOCOL_CLAIM, &claim, sizeof claim, sizeof claim);
    receive_grant();
}

static void meet(void) {
    _Atomic uint32_t *counter = (_Atomic uint32_t *)((char *)board + board_bytes(grant.world_size));
    uint32_t mine = ++*counter, goal = (mine + grant.world_size - 1) / grant.world_size * grant.world_size;
    while (*counter < goal)
        usleep(1000);
}

static void expect_clean(void) {
    for (uint32_t i = 0; i < grant.world_size; i++)
        if (board->ranks[i].step)
            exit(93);
}

static struct protocol_problem problem_of(char *text) {
    struct protocol_problem problem = {0};
    char *id = strsep(&text, ":"), *what = strsep(&text, ":");
    snprintf(problem.id, sizeof problem.id, "%s", id);
    snprintf(problem.what, sizeof problem.what, "%s", what);
    snprintf(problem.cure, sizeof problem.cure, "%s", text);
    return problem;
}

static void send_problem(char *text) {
    struct protocol_problem problem = problem_of(text);
    send_message(PROTOCOL_PROBLEM, &problem, sizeof problem, sizeof problem);
}

static void send_child(char *text) {
    struct protocol_child child = {claim, problem_of(text)};
    int parents = connection;
    open_connection();
    send_message(PROTOCOL_CHILD, &child, sizeof child, sizeof child);
    connection = parents;
}

static void path_of(const char *pattern, char *path, size_t size) {
    const char *hole = strstr(pattern, "%r");
    if (hole)
        snprintf(path, size, "%.*s%u%s", (int)(hole - pattern), pattern, claim.rank, hole + 2);
    else
        snprintf(path, size, "%s", pattern);
}

static void touch(const char *pattern) {
    char path[4096], whole[4200];
    path_of(pattern, path, sizeof path);
    snprintf(whole, sizeof whole, "%s.part", path);
    FILE *file = fopen(whole, "w");
    if (!file)
        die(whole);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    rename(whole, path);
}

static void await_file(const char *pattern) {
    char path[4096];
    path_of(pattern, path, sizeof path);
    while (access(path, F_OK))
        usleep(1000);
}

static void await_abort(void) {
    while (!board->abort)
        usleep(1000);
    puts("aborted");
}

/* Operations "name=value" and "name:text". Returns 0 when it is not one. */
static int assign(const char *name, char *value) {
    struct board_rank *me = board ? &board->ranks[claim.rank] : NULL;
    unsigned long number = strtoul(value, NULL, 0);
    if (!strcmp(name, "cookie"))
        snprintf(claim.cookie, sizeof claim.cookie, "%s", value);
    else if (!strcmp(name, "rank"))
        claim.rank = (uint32_t)number;
    else if (!strcmp(name, "version"))
        claim.version = (uint32_t)number;
    else if (!strcmp(name, "program"))
        claim.program = (uint64_t)number;
    else if (!strcmp(name, "phase"))
        me->phase = (uint32_t)number;
    else if (!strcmp(name, "step"))
        me->step = number;
    else if (!strcmp(name, "collective"))
        me->collective = number;
    else if (!strcmp(name, "waiting"))
        me->waiting = (uint32_t)number;
    else if (!strcmp(name, "where"))
        snprintf(me->where, sizeof me->where, "%s", value);
    else if (!strcmp(name, "log")) {
        value[1] = value[0]; /* "w:text" → "wtext" */
        send_message(PROTOCOL_LOG, value + 1, strlen(value + 1), strlen(value + 1));
    } else if (!strcmp(name, "problem"))
        send_problem(value);
    else if (!strcmp(name, "child"))
        send_child(value);
    else if (!strcmp(name, "out"))
        puts(value);
    else if (!strcmp(name, "err"))
        fprintf(stderr, "%s\n", value);
    else if (!strcmp(name, "touch"))
        touch(value);
    else if (!strcmp(name, "await"))
        await_file(value);
    else if (!strcmp(name, "exit"))
        exit((int)number);
    else if (!strcmp(name, "raise"))
        raise((int)number);
    else
        return 0;
    return 1;
}

static int plain(const char *name) {
    if (!strcmp(name, "claim"))
        do_claim();
    else if (!strcmp(name, "malformed")) {
        open_connection();
        send_message(PROTOCOL_CLAIM, &claim, sizeof claim, 4000000);
        receive_grant();
    } else if (!strcmp(name, "short")) {
        open_connection();
        send_message(PROTOCOL_CLAIM, &claim, 8, 8);
        receive_grant();
    } else if (!strcmp(name, "old")) {
        open_connection();
        send_message(PROTOCOL_CLAIM, &claim, PROTOCOL_CLAIM_COMMON, PROTOCOL_CLAIM_COMMON);
        receive_grant();
    } else if (!strcmp(name, "release")) {
        close(connection);
        connection = -1;
    } else if (!strcmp(name, "granted"))
        printf("rank %u of %u, segment %llu, cores %u, timeout %u ms, flags %u, level %u\n", grant.rank, grant.world_size,
               (unsigned long long)grant.segment_bytes, grant.cores, grant.collective_timeout_ms, grant.flags, grant.log_level);
    else if (!strcmp(name, "meet"))
        meet();
    else if (!strcmp(name, "clean"))
        expect_clean();
    else if (!strcmp(name, "abort"))
        await_abort();
    else if (!strcmp(name, "pause"))
        for (;;)
            pause();
    else
        return 0;
    return 1;
}

int main(int argc, char **argv) {
    const char *cookie = getenv(PROTOCOL_ENV_COOKIE), *rank = getenv(PROTOCOL_ENV_RANK);
    int skipping = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cookie)
        memcpy(claim.cookie, cookie, strnlen(cookie, sizeof claim.cookie));
    claim.rank = rank ? (uint32_t)atoi(rank) : 0;
    uint32_t self = claim.rank;
    for (int i = 1; i < argc; i++) {
        char name[64];
        size_t n = strcspn(argv[i], "=:");
        snprintf(name, sizeof name, "%.*s", (int)n, argv[i]);
        if (!strcmp(name, "only") || !strcmp(name, "not"))
            skipping = ((uint32_t)atoi(argv[i] + n + 1) == self) == !strcmp(name, "not");
        else if (!strcmp(name, "all"))
            skipping = 0;
        else if (!skipping && !(argv[i][n] ? assign(name, argv[i] + n + 1) : plain(name))) {
            fprintf(stderr, "claimer: what is '%s'?\n", argv[i]);
            return 92;
        }
    }
    return 0;
}
