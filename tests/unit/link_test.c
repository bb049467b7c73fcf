// sources: shim/link.c shim/problem.c shim/checksum.c shim/joined*.c shim/process.c shim/comm/own.c launcher/claims.c launcher/rivals.c launcher/claims_socket.c launcher/process.c launcher/secret.c launcher/segment.c launcher/loop.c
/* Both ends of the claim socket: the parent is the launcher, forked children are ranks and strangers. */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../../launcher/claims.h"
#include "../../shim/explain.h"
#include "../../shim/last_words.h"
#include "../../shim/link.h"
#include "../../shim/shim.h"

_Atomic uint8_t shim_kind_now; /* shim/kind.c is not here */

uint64_t seed_program(void) {
    return 0;
}

/* No `accel-run explain` here. */
bool shim_records(void) {
    return false;
}
void explain_send(const char *kind, const char *why) {
}

/* Nothing has been printed. */
void last_words_say(struct board *board) {
}
void last_words_await(struct board *board) {
}

enum { RANKS = 2 };

static struct claims claims;
static struct rank ranks[RANKS];
static int logs, problems;
static char last_problem[32];
static pid_t served;

static void hear_log(void *context, uint32_t rank, char level, const char *text) {
    logs++;
}

static void hear_problem(void *context, uint32_t rank, const struct protocol_problem *problem) {
    problems++;
    memcpy(last_problem, problem->id, sizeof last_problem);
    kill(served, SIGTERM); /* as the launcher stops a job */
}

static void hear_report(void *context, uint32_t rank, const char *text) {
}

static void open_launcher(void) {
    claims.ranks = ranks;
    claims.local_size = RANKS;
    claims.leader_listener = -1;
    claims.segments.world_size = RANKS;
    claims.events = (struct claims_events){hear_log, hear_problem, hear_report, NULL, NULL, NULL, NULL, NULL, NULL};
    claims.grant = (struct protocol_grant){.world_size = RANKS, .log_level = 3};
    EXPECT(claims_open(&claims) == 0);
    setenv(PROTOCOL_ENV_SOCKET, claims.name, 1);
    setenv(PROTOCOL_ENV_COOKIE, claims.cookie, 1);
}

static int errors = -1; /* standard error of all processes started */

/* A process that may claim the rank and does what body says; it ends with body's result. */
static pid_t start(const char *rank, int (*body)(void)) {
    if (errors < 0)
        errors = memfd_create("errors", MFD_CLOEXEC);
    pid_t pid = fork();
    if (pid)
        return pid;
    dup2(errors, 2);
    close(errors);
    claims_clear(&claims); /* the launcher's descriptors are not the rank's */
    setenv(PROTOCOL_ENV_RANK, rank, 1);
    _exit(body());
}

/* The launcher's loop, until the process has ended; 128 + signal, or its exit code. */
static int serve_until_end(pid_t pid) {
    struct loop loop = {0};
    int status;
    served = pid;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        claims_add(&claims, &loop);
        loop_round(&loop, 5);
    }
    claims_drain(&claims);
    loop_clear(&loop);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int stderr_says(const char *words) {
    char text[4096] = "";
    return pread(errors, text, sizeof text - 1, 0) > 0 && strstr(text, words);
}

static struct protocol_grant grant;

static int claim(void) {
    return link_snapshot() ? link_claim(&grant) : -1;
}

static int claim_once(void) {
    return claim() == 1 && grant.world_size == RANKS && link_board()->magic == BOARD_MAGIC ? 0 : 1;
}

TEST("a rank is granted, a second one of the same number is told no") {
    open_launcher();
    EXPECT(serve_until_end(start("1", claim_once)) == 0);
    EXPECT(ranks[1].has_claimed && !ranks[0].has_claimed);
    claims_drain(&claims);
    EXPECT(!claims_is_granted(&claims, 1)); /* its connection ended with it */
    EXPECT(serve_until_end(start("7", claim_once)) == 1);
}

/* ---- the launcher is busy, or gone */

static int say_much(void) {
    if (claim() != 1)
        return 1;
    for (int i = 0; i < 2000; i++)
        shim_log('w', "operator %d was gathered; this line is as long as such lines are", i);
    return 0;
}

/* The signal that ends a rank with its launcher must not come when a full socket has room again. */
TEST("a rank that has filled the socket of a busy launcher lives on, and no line is lost") {
    open_launcher();
    pid_t pid = start("0", say_much);
    struct loop loop = {0};
    while (!ranks[0].has_claimed) {
        claims_add(&claims, &loop);
        loop_round(&loop, -1);
    }
    loop_clear(&loop);
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != 'S') { /* until it waits for room */
        FILE *file = fopen(path, "r");
        EXPECT(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
        usleep(1000);
    }
    EXPECT(serve_until_end(pid) == 0);
    EXPECT(logs == 2000);
}

static int claim_and_wait(void) {
    if (claim() != 1)
        return 1;
    for (;;)
        pause();
}

TEST("a rank dies with its launcher, wherever it stands") {
    open_launcher();
    pid_t pid = start("0", claim_and_wait);
    struct loop loop = {0};
    while (!ranks[0].has_claimed) {
        claims_add(&claims, &loop);
        loop_round(&loop, -1);
    }
    loop_clear(&loop);
    claims_clear(&claims);
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int claim_nobody(void) {
    return claim() == 0 ? 0 : 1;
}

TEST("without a launcher a process goes on as if there were none") {
    open_launcher();
    int listener = claims.listener;
    claims.listener = -1;
    close(listener);
    EXPECT(serve_until_end(start("0", claim_nobody)) == 0);
}

TEST("a process that was given another network ends, on another machine, to which a batch system has carried the variables, it goes on") {
    open_launcher();
    close(claims.listener);
    claims.listener = -1;
    char name[sizeof claims.name];
    memcpy(name, claims.name, sizeof name);
    char *place = strrchr(name, '-') + 1;
    EXPECT(strlen(place) == PROTOCOL_PLACE_CHARS);
    memset(place + PROTOCOL_PLACE_BOOT, '1', PROTOCOL_PLACE_CHARS - PROTOCOL_PLACE_BOOT);
    setenv(PROTOCOL_ENV_SOCKET, name, 1);
    EXPECT(serve_until_end(start("0", claim_nobody)) == 125);
    EXPECT(stderr_says("AR-CLAIM"));
    memset(place, 'x', PROTOCOL_PLACE_BOOT);
    setenv(PROTOCOL_ENV_SOCKET, name, 1);
    EXPECT(serve_until_end(start("0", claim_nobody)) == 0);
}

/* ---- descriptors */

static int claim_without_descriptors(void) {
    struct rlimit none = {3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
    return claim();
}

static int claim_without_room_for_the_grant(void) {
    int lowest = dup(0);
    struct rlimit one = {(rlim_t)lowest + 1, (rlim_t)lowest + 1};
    close(lowest);
    setrlimit(RLIMIT_NOFILE, &one);
    return claim();
}

TEST("a rank that has no descriptor left says so and ends, instead of training alone") {
    open_launcher();
    EXPECT(serve_until_end(start("0", claim_without_descriptors)) == 125);
    EXPECT(stderr_says("AR-CLAIM"));
    EXPECT(serve_until_end(start("1", claim_without_room_for_the_grant)) == 128 + SIGTERM);
    EXPECT_TEXT(last_problem, "AR-CLAIM");
}

static int claim_without_memory(void) {
    struct rlimit none = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
    return claim();
}

TEST("a rank that has no room for the shared memory stops the job by name") {
    open_launcher();
    EXPECT(serve_until_end(start("1", claim_without_memory)) == 128 + SIGTERM);
    EXPECT_TEXT(last_problem, "AR-SEGMENT");
}

/* All descriptors closed, others opened under their numbers: to these nothing may be written, nor may they be closed. */
static int close_everything(void) {
    int ends[2];
    if (claim() != 1)
        return 1;
    close_range(3, ~0u, 0);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
        return 2;
    for (int i = 0; i < 1000; i++)
        if (fcntl(i, F_GETFD) < 0)
            dup2(ends[0], i);
    shim_log('e', "this must not reach the program's own socket");
    link_forget();
    char byte;
    if (recv(ends[1], &byte, 1, MSG_DONTWAIT) != -1)
        return 3;
    for (int i = 0; i < 1000; i++)
        if (fcntl(i, F_GETFD) < 0)
            return 4;
    shim_problem("AR-X", "cure", "what");
}

TEST("a program that closes all descriptors and opens its own in their place gets no byte of ours in them") {
    open_launcher();
    EXPECT(serve_until_end(start("0", close_everything)) == 125);
    EXPECT(stderr_says("AR-X"));
    EXPECT(logs == 0);
}

/* ---- strangers */

static int connect_stranger(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, claims.name, strlen(claims.name));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(claims.name))) == 0)
        return fd;
    close(fd);
    return -1;
}

TEST("a thousand silent connections do not keep a rank from its claim") {
    open_launcher();
    for (int i = 0; i < 1000; i++) {
        if (connect_stranger() < 0) /* the queue is full */
            claims_drain(&claims);
    }
    EXPECT(serve_until_end(start("0", claim_once)) == 0);
    EXPECT(ranks[0].has_claimed);
    EXPECT(claims.count <= CLAIMS_STRANGERS_MAX + RANKS);
}

TEST("silent connections that take the launcher's last descriptor make room") {
    open_launcher();
    enum { FEW = 40 };
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){FEW, before.rlim_max};
    pid_t pid = start("0", claim_once);
    pid_t flood = fork();
    if (flood == 0) {
        for (int i = 0; i < FEW; i++)
            connect_stranger();
        for (;;)
            pause();
    }
    setrlimit(RLIMIT_NOFILE, &few);
    EXPECT(serve_until_end(pid) == 0);
    kill(flood, SIGKILL);
    EXPECT(serve_until_end(flood) == 128 + SIGKILL);
    setrlimit(RLIMIT_NOFILE, &before);
}

TEST("garbage, empty messages, passed descriptors and half claims are refused; who sent them is dropped") {
    open_launcher();
    char garbage[5000];
    memset(garbage, 0x5a, sizeof garbage);
    for (size_t n = 0; n < sizeof garbage; n += 97) {
        int fd = connect_stranger();
        send(fd, garbage, n, MSG_NOSIGNAL);
        claims_drain(&claims);
        claims_drain(&claims);
        char answer[200];
        while (recv(fd, answer, sizeof answer, 0) > 0)
            ;
        EXPECT(recv(fd, answer, sizeof answer, 0) <= 0);
        close(fd);
    }
    EXPECT(problems == 0 && logs == 0);
    EXPECT(serve_until_end(start("0", claim_once)) == 0);
}

/* ---- processes that meet before they are ranks */

/* On the board, which the other rank's process must have, too. */
static void meet_other(uint64_t number) {
    atomic_store(&link_board()->ranks[link_slot()].step, number);
    while (atomic_load(&link_board()->ranks[1 - link_slot()].step) < number)
        usleep(1000);
}

static bool attach(void) {
    return link_snapshot() && link_attach(&grant);
}

static int meet_and_claim(void) {
    if (!attach())
        return 1;
    meet_other(1);
    const struct board *before = link_board();
    if (link_claim(&grant) != 1 || link_board() != before)
        return 2;
    meet_other(2);
    return 0;
}

static int claim_and_meet(void) {
    if (claim() != 1)
        return 1;
    meet_other(1);
    meet_other(2);
    return 0;
}

/* Both ranks do something; their ends. */
static void both(int (*zero)(void), int (*one)(void), int *ends) {
    open_launcher();
    ranks[1].pid = start("1", one);
    ranks[0].pid = start("0", zero);
    ends[0] = serve_until_end(ranks[0].pid);
    ends[1] = serve_until_end(ranks[1].pid);
}

TEST("the ranks' first processes have one memory before they are ranks and afterwards, also with one that has claimed at once") {
    int ends[2];
    both(meet_and_claim, meet_and_claim, ends);
    EXPECT(ends[0] == 0 && ends[1] == 0);
    EXPECT(ranks[0].has_claimed && ranks[1].has_claimed);
    claims_clear(&claims);
    both(meet_and_claim, claim_and_meet, ends);
    EXPECT(ends[0] == 0 && ends[1] == 0);
}

/* Its child, then, is the rank: with another memory than the parent's. */
static int meet_and_let_child_claim(void) {
    if (!attach())
        return 1;
    meet_other(1);
    pid_t child = fork();
    if (child == 0) {
        link_forget();
        _exit(claim() == 1 && atomic_load(&link_board()->ranks[link_slot()].step) == 0 ? (meet_other(1), 0) : 3);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

TEST("a child that claims while its parent meets has a memory of its own, the same on all ranks") {
    int ends[2];
    both(meet_and_let_child_claim, meet_and_let_child_claim, ends);
    EXPECT(ends[0] == 0 && ends[1] == 0);
}

static int attach_from_below(void) {
    if (!link_snapshot())
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(attach() ? 3 : 0);
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

TEST("a process that the rank's first one has started does not meet") {
    open_launcher();
    ranks[0].pid = start("0", attach_from_below);
    EXPECT(serve_until_end(ranks[0].pid) == 0);
}
