/*
 * The unix socket to the launcher. A connected socket and not an inherited descriptor: Python's close_fds or a daemonising program cannot cut it before
 * the claim (P38). It is moved to a high number, and the kernel sends SIGKILL when its other end closes (F_SETSIG): a rank never outlives its
 * launcher, however deep below it in the process tree it was started (PDEATHSIG reaches direct children only, L7).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "link.h"
#include "shim.h"

enum { HIGH_DESCRIPTOR = 400, NAME_CHARS = 100, CLAIM_TIMEOUT_MS = 30000 };

static char socket_name[NAME_CHARS];
static char cookie[PROTOCOL_COOKIE_CHARS + 1];
static uint32_t slot;
static int descriptor = -1;
static uint32_t log_level;
static void *segment;

bool link_snapshot(void) {
    if (cookie[0])
        return true;
    const char *name = getenv(PROTOCOL_ENV_SOCKET), *secret = getenv(PROTOCOL_ENV_COOKIE), *rank = getenv(PROTOCOL_ENV_RANK);
    if (!name || !secret || !rank || strlen(name) >= NAME_CHARS || strlen(secret) != PROTOCOL_COOKIE_CHARS)
        return false;
    strcpy(socket_name, name);
    strcpy(cookie, secret);
    slot = (uint32_t)strtoul(rank, NULL, 10);
    return true;
}

const char *link_cookie(void) {
    return cookie[0] ? cookie : NULL;
}

static int link_connect(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(socket_name);
    memcpy(address.sun_path + 1, socket_name, length);
    int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (low < 0)
        return -1;
    int high = fcntl(low, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR); /* out of the way of programs that count descriptors */
    if (high >= 0) {
        close(low);
        low = high;
    }
    if (connect(low, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))) {
        close(low);
        return -1;
    }
    return low;
}

static bool link_send(uint32_t type, const void *body, uint32_t bytes) {
    if (descriptor < 0)
        return false;
    struct protocol_header header = {type, bytes};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)body, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int saved_errno = errno;
    ssize_t sent;
    do
        sent = sendmsg(descriptor, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    errno = saved_errno;
    return sent >= 0;
}

/* Receives one message into `body`; *memory is the passed descriptor or -1. Returns its type, 0 on any failure. */
static uint32_t link_receive(void *body, size_t capacity, int *memory) {
    struct protocol_header header;
    struct iovec parts[2] = {{&header, sizeof header}, {body, capacity}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd ready = {descriptor, POLLIN, 0};
    *memory = -1;
    int polled;
    do
        polled = poll(&ready, 1, CLAIM_TIMEOUT_MS);
    while (polled < 0 && errno == EINTR);
    if (polled <= 0)
        return 0;
    ssize_t got = recvmsg(descriptor, &message, MSG_CMSG_CLOEXEC);
    if (got < (ssize_t)sizeof header || (size_t)got != sizeof header + header.bytes)
        return 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            memcpy(memory, CMSG_DATA(part), sizeof(int));
    return header.type;
}

/* The launcher's end closing must end this process; the launcher never writes after the grant. */
static void link_die_with_launcher(void) {
    struct f_owner_ex owner = {F_OWNER_PID, getpid()};
    if (fcntl(descriptor, F_SETSIG, SIGKILL) || fcntl(descriptor, F_SETOWN_EX, &owner))
        return;
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_ASYNC);
    struct pollfd now = {descriptor, POLLIN, 0}; /* it may have gone before the signal was armed */
    if (poll(&now, 1, 0) > 0 && (now.revents & (POLLHUP | POLLIN)))
        raise(SIGKILL);
}

int link_claim(struct protocol_grant *grant) {
    descriptor = link_connect();
    if (descriptor < 0)
        return 0;
    struct protocol_claim claim = {.version = PROTOCOL_VERSION, .rank = slot, .pid = getpid()};
    memcpy(claim.cookie, cookie, PROTOCOL_COOKIE_CHARS);
    char body[PROTOCOL_TEXT_MAX];
    int memory = -1;
    if (!link_send(PROTOCOL_CLAIM, &claim, sizeof claim) || link_receive(body, sizeof body, &memory) != PROTOCOL_GRANT || memory < 0)
        goto refused;
    memcpy(grant, body, sizeof *grant);
    segment = mmap(NULL, grant->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    close(memory);
    memory = -1;
    if (segment == MAP_FAILED) {
        segment = NULL;
        shim_problem("AR-SEGMENT", "Raise the limit of address space (ulimit -v), or use fewer ranks.",
                     "rank %u cannot map the ranks' shared memory of %llu bytes", grant->rank, (unsigned long long)grant->segment_bytes);
    }
    log_level = grant->log_level;
    link_die_with_launcher();
    return 1;
refused:
    if (memory >= 0)
        close(memory);
    close(descriptor);
    descriptor = -1;
    segment = NULL;
    return 0;
}

void *link_segment(void) {
    return segment;
}

struct board *link_board(void) {
    return segment;
}

void link_forget(void) {
    if (descriptor >= 0)
        close(descriptor);
    descriptor = -1;
    segment = NULL; /* the board's line is the parent's */
}

void link_wait_for_end(void) {
    for (;;) {
        struct pollfd gone = {descriptor, POLLIN, 0};
        if (descriptor < 0 || (poll(&gone, 1, 1000) > 0 && (gone.revents & (POLLHUP | POLLERR | POLLNVAL))))
            _exit(125);
    }
}

void shim_log(char level, const char *format, ...) {
    static const char levels[] = "ewid";
    const char *place = strchr(levels, level);
    if (!place || place - levels > (long)log_level || descriptor < 0)
        return;
    char text[1024];
    text[0] = level;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + 1, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 2)
        length = sizeof text - 2;
    link_send(PROTOCOL_LOG, text, (uint32_t)length + 1);
}

void shim_problem(const char *id, const char *cure, const char *format, ...) {
    struct protocol_problem problem;
    memset(&problem, 0, sizeof problem);
    snprintf(problem.id, sizeof problem.id, "%s", id);
    snprintf(problem.cure, sizeof problem.cure, "%s", cure);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem.what, sizeof problem.what, format, arguments);
    va_end(arguments);
    struct board *board = link_board();
    uint32_t running = 0;
    if (board)
        atomic_compare_exchange_strong(&board->abort, &running, slot + 1);
    if (!link_send(PROTOCOL_PROBLEM, &problem, sizeof problem))
        dprintf(2, "accel-run: error %s: %s\n  what to do: %s\n", problem.id, problem.what, problem.cure);
    link_wait_for_end();
}

void shim_phase(enum board_phase phase, const char *where) {
    struct board *board = link_board();
    if (!board)
        return;
    struct board_rank *line = &board->ranks[slot];
    atomic_store_explicit(&line->phase, phase, memory_order_relaxed);
    strncpy(line->where, where, BOARD_WHERE_CHARS - 1);
}

void shim_step_reset(void) {
    struct board *board = link_board();
    if (board)
        atomic_store_explicit(&board->ranks[slot].step, 0, memory_order_relaxed);
    shim_phase(BOARD_SETUP, "start");
}

void shim_step_done(void) {
    struct board *board = link_board();
    if (board)
        atomic_fetch_add_explicit(&board->ranks[slot].step, 1, memory_order_relaxed);
}
