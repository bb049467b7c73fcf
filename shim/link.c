/*
 * The unix socket to the launcher. A connected socket and not an inherited descriptor: Python's close_fds or a daemonising program cannot cut it before
 * the claim (P38). It is moved to a high number. With the grant comes a lifeline, a pipe: the kernel sends SIGKILL when its other end closes (F_SETSIG),
 * so a rank never outlives its launcher, however deep below it in the process tree it was started (PDEATHSIG reaches direct children only, L7).
 *
 * Under torchrun, mpirun or srun there is no launcher of ours: then joined.c stands in for the socket, behind the same functions.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm/clock.h"
#include "comm/own.h"
#include "joined.h"
#include "last_words.h"
#include "link.h"
#include "process.h"
#include "shim.h"

enum { NAME_CHARS = 100, CLAIM_SECONDS = 30, LOOK_MS = 100 };

static char socket_name[NAME_CHARS];
static char cookie[PROTOCOL_COOKIE_CHARS + 1];
static uint32_t slot;
static bool has_hosts;
static struct own_descriptor connection = {-1, 0, 0}, lifeline = {-1, 0, 0};
static uint32_t log_level;
static void *segment;
static int listener = -1;
static pid_t launcher = -1;
static pid_t attached; /* the process that meets the others without being the rank, or before it is; 0: none */

bool link_snapshot(void) {
    if (cookie[0])
        return true;
    const char *name = getenv(PROTOCOL_ENV_SOCKET), *secret = getenv(PROTOCOL_ENV_COOKIE), *rank = getenv(PROTOCOL_ENV_RANK);
    const char *joined = getenv(JOIN_ENV);
    if (!(name || joined) || !secret || !rank || (name && strlen(name) >= NAME_CHARS) || strlen(secret) != PROTOCOL_COOKIE_CHARS)
        return false;
    slot = (uint32_t)strtoul(rank, NULL, 10);
    has_hosts = getenv(PROTOCOL_ENV_HOSTS) != NULL;
    if (!name && !joined_snapshot(joined, secret, slot))
        return false;
    strcpy(socket_name, name ? name : "");
    strcpy(cookie, secret);
    return true;
}

bool link_must_exchange(void) {
    return getenv(PROTOCOL_ENV_EXCHANGE) != NULL;
}

const char *link_cookie(void) {
    return cookie[0] ? cookie : NULL;
}

const char *link_job(void) {
    return socket_name[0] ? socket_name : NULL;
}

uint32_t link_slot(void) {
    return slot;
}

bool link_has_hosts(void) {
    return has_hosts;
}

/* Returns 0, or -1 with errno. */
static int connect_to(struct own_descriptor *to) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(socket_name);
    memcpy(address.sun_path + 1, socket_name, length);
    int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (low < 0)
        return -1;
    int failed;
    do /* where many ranks come at a time it waits */
        failed = connect(low, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
    while (failed && errno == EINTR);
    if (failed) {
        int error = errno;
        close(low);
        errno = error;
        return -1;
    }
    struct ucred peer;
    socklen_t size = sizeof peer;
    launcher = getsockopt(low, SOL_SOCKET, SO_PEERCRED, &peer, &size) ? -1 : peer.pid;
    *to = own_take(low);
    return 0;
}

pid_t link_launcher(void) {
    return launcher;
}

static bool send_over(const struct own_descriptor *over, uint32_t type, const void *body, uint32_t bytes) {
    int saved_errno = errno;
    if (!own_is_there(over)) {
        errno = saved_errno;
        return false;
    }
    struct protocol_header header = {type, bytes};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)body, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    do
        sent = sendmsg(over->number, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    errno = saved_errno;
    return sent >= 0;
}

bool link_send(uint32_t type, const void *body, uint32_t bytes) {
    return send_over(&connection, type, body, bytes);
}

/* Until the launcher has answered. In slices: a whole job may have been stopped (Ctrl-Z) meanwhile, and that time counts as one. Signals end slices early. */
static bool await_answer(const struct own_descriptor *from) {
    const uint64_t second_ns = 1000000000;
    struct pollfd ready = {from->number, POLLIN, 0};
    for (uint64_t waited_ns = 0; waited_ns < CLAIM_SECONDS * second_ns;) {
        uint64_t began_ns = clock_ns();
        int polled = poll(&ready, 1, 1000);
        if (polled > 0 || (polled < 0 && errno != EINTR))
            return polled > 0;
        uint64_t took_ns = clock_ns() - began_ns;
        waited_ns += took_ns < second_ns ? took_ns : second_ns;
    }
    return false;
}

/* Receives one message into `body`; passed: PROTOCOL_DESCRIPTORS_MOST descriptors, or -1. Returns its type, 0 on any failure. */
static uint32_t receive(const struct own_descriptor *from, void *body, size_t capacity, int *passed) {
    struct protocol_header header;
    struct iovec parts[2] = {{&header, sizeof header}, {body, capacity}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PROTOCOL_DESCRIPTORS_MOST * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    for (int i = 0; i < PROTOCOL_DESCRIPTORS_MOST; i++)
        passed[i] = -1;
    if (!await_answer(from))
        return 0;
    ssize_t got = recvmsg(from->number, &message, MSG_CMSG_CLOEXEC);
    if (got < (ssize_t)sizeof header || (size_t)got != sizeof header + header.bytes)
        return 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            memcpy(passed, CMSG_DATA(part), part->cmsg_len - CMSG_LEN(0));
    return header.type;
}

/* The launcher's end closing must end this process. */
static void link_die_with_launcher(void) {
    struct f_owner_ex owner = {F_OWNER_PID, getpid()};
    if (fcntl(lifeline.number, F_SETSIG, SIGKILL) || fcntl(lifeline.number, F_SETOWN_EX, &owner))
        return;
    fcntl(lifeline.number, F_SETFL, fcntl(lifeline.number, F_GETFL) | O_ASYNC);
    struct pollfd now = {lifeline.number, POLLIN, 0}; /* it may have gone before the signal was armed */
    if (poll(&now, 1, 0) > 0 && (now.revents & (POLLHUP | POLLIN)))
        raise(SIGKILL);
}

/* Neither granted nor denied: going on as if there were no launcher would train the whole model once more beside the other ranks (P45). */
__attribute__((noreturn)) static void claim_failed(const char *what, int error) {
    shim_problem("AR-CLAIM",
                 "raise 'ulimit -n' and the memory limits if one is short; start accel-run as the user whom the program runs as",
                 "rank %u cannot speak to accel-run: %s%s%s", slot, what, error ? ": " : "", error ? strerror(error) : "");
}

/* It would train by itself, as N others do: abstract sockets belong to a network namespace. */
__attribute__((noreturn)) static void claim_apart(void) {
    shim_problem(
        "AR-CLAIM",
        "start accel-run inside of what keeps the program from the network (unshare -n, bwrap, firejail, a container), or leave it the "
        "network; a process that is to be no rank is started by 'env -u LD_PRELOAD'",
        "rank %u cannot speak to accel-run: it is in another network namespace", slot);
}

static void map_segment(const struct protocol_grant *grant, int memory) {
    segment = mmap(NULL, grant->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    close(memory);
    if (segment != MAP_FAILED)
        return;
    segment = NULL;
    shim_problem("AR-SEGMENT", "raise the limit of address space (ulimit -v), or use fewer ranks",
                 "rank %u cannot map the ranks' shared memory of %llu bytes", grant->rank, (unsigned long long)grant->segment_bytes);
}

/* The rank is already there, started by another launcher (joined.h). */
static int claim_joined(struct protocol_grant *grant) {
    const char *what;
    int status = joined_claim(grant, &segment, &what);
    if (status < 0)
        claim_failed(what, errno);
    log_level = grant->log_level;
    return status;
}

static struct protocol_claim own_claim(void) {
    struct protocol_claim claim = {.version = PROTOCOL_VERSION, .rank = slot, .pid = getpid(), .program = seed_program()};
    memcpy(claim.cookie, cookie, PROTOCOL_COOKIE_CHARS);
    return claim;
}

/* Says it, and hears the answer: with a grant its descriptors, and *grant. Returns the answer's type. */
static uint32_t ask(uint32_t type, const void *body, uint32_t bytes, struct protocol_grant *grant, int *passed) {
    char answered[PROTOCOL_TEXT_MAX];
    uint32_t answer = link_send(type, body, bytes) ? receive(&connection, answered, sizeof answered, passed) : 0;
    if (answer != PROTOCOL_GRANT && answer != PROTOCOL_DENY)
        claim_failed("no answer", 0);
    if (answer == PROTOCOL_DENY)
        return answer;
    for (int i = 0; i < PROTOCOL_DESCRIPTORS; i++)
        if (passed[i] < 0)
            claim_failed("no room for another descriptor", EMFILE);
    memcpy(grant, answered, sizeof *grant);
    log_level = grant->log_level;
    return answer;
}

bool link_attach(struct protocol_grant *grant) {
    struct protocol_claim claim = own_claim();
    int passed[PROTOCOL_DESCRIPTORS_MOST];
    if (connect_to(&connection))
        return false;
    if (ask(PROTOCOL_ATTACH, &claim, sizeof claim, grant, passed) == PROTOCOL_DENY) {
        own_close(&connection);
        return false;
    }
    close(passed[PROTOCOL_LIFELINE]); /* it is not the rank: it may outlive the job as any process may */
    map_segment(grant, passed[PROTOCOL_SEGMENT]);
    attached = getpid();
    return true;
}

bool link_is_taken(void) {
    struct protocol_claim claim = own_claim();
    struct own_descriptor aside = OWN_NONE; /* another thread may claim meanwhile */
    char answered[PROTOCOL_TEXT_MAX];
    int passed[PROTOCOL_DESCRIPTORS_MOST];
    if (joined_is_here() || link_is_attached() || connect_to(&aside))
        return false;
    bool is_taken =
        send_over(&aside, PROTOCOL_IS_TAKEN, &claim, sizeof claim) && receive(&aside, answered, sizeof answered, passed) == PROTOCOL_DENY;
    own_close(&aside);
    return is_taken;
}

bool link_is_attached(void) {
    return attached == getpid();
}

int link_claim(struct protocol_grant *grant) {
    if (joined_is_here())
        return claim_joined(grant);
    bool is_attached = link_is_attached() && own_is_there(&connection);
    if (!is_attached && connect_to(&connection)) {
        if (errno != ECONNREFUSED)
            claim_failed("no connection", errno);
        if (process_is_apart(socket_name))
            claim_apart();
        return 0; /* the launcher has gone: what is still there, or was started with its variables (at, sbatch), is no part of a job */
    }
    struct protocol_claim claim = own_claim();
    int passed[PROTOCOL_DESCRIPTORS_MOST];
    if (ask(PROTOCOL_CLAIM, &claim, sizeof claim, grant, passed) == PROTOCOL_DENY) {
        if (!is_attached)
            own_close(&connection);
        return 0;
    }
    lifeline = own_take(passed[PROTOCOL_LIFELINE]);
    link_die_with_launcher();
    if (is_attached)
        close(passed[PROTOCOL_SEGMENT]); /* it is the same */
    else
        map_segment(grant, passed[PROTOCOL_SEGMENT]);
    listener = passed[PROTOCOL_LISTENER];
    return 1;
}

int link_listener(void) {
    return listener;
}

void *link_segment(void) {
    return segment;
}

struct board *link_board(void) {
    return segment;
}

void link_forget(void) {
    joined_forget();
    own_close(&lifeline);
    own_close(&connection);
    segment = NULL; /* the board's line is the parent's */
}

void link_wait_for_end(void) {
    last_words_say(link_board());
    if (joined_is_here()) {
        joined_stop();
        _exit(125);
    }
    for (;;) {
        struct pollfd gone = {connection.number, 0, 0}; /* an answer that nobody reads any more may lie there */
        if (!own_is_there(&connection) || poll(&gone, 1, 1000) > 0)
            _exit(125);
    }
}

void shim_log(char level, const char *format, ...) {
    static const char levels[] = "ewid";
    const char *place = strchr(levels, level);
    if (!place || place - levels > (long)log_level || (connection.number < 0 && !joined_is_here()))
        return;
    char text[1024];
    text[0] = level;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + 1, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 2)
        length = sizeof text - 2;
    if (joined_is_here())
        joined_words_log(level, text + 1);
    else
        link_send(PROTOCOL_LOG, text, (uint32_t)length + 1);
}

void link_meeting(const struct protocol_meeting *meeting, const char *path, const char *second) {
    char message[sizeof *meeting + 2 * BOARD_PATH_CHARS];
    struct protocol_meeting said = *meeting;
    said.lengths[0] = (uint32_t)strnlen(path, BOARD_PATH_CHARS - 1);
    said.lengths[1] = (uint32_t)strnlen(second, BOARD_PATH_CHARS - 1);
    memcpy(message, &said, sizeof said);
    memcpy(message + sizeof said, path, said.lengths[0]);
    memcpy(message + sizeof said + said.lengths[0], second, said.lengths[1]);
    if (!link_send(PROTOCOL_MEETING, message, (uint32_t)sizeof said + said.lengths[0] + said.lengths[1]))
        link_wait_for_end(); /* the other hosts would wait for it until their deadline */
}

bool link_send_look(const void *body, uint32_t bytes) {
    return link_send(PROTOCOL_LOOK, body, bytes);
}

bool link_receive_look(void *body, size_t capacity) {
    struct protocol_header header;
    struct iovec parts[2] = {{&header, sizeof header}, {body, capacity}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct pollfd ready = {connection.number, POLLIN, 0};
    if (!own_is_there(&connection))
        link_wait_for_end();
    if (poll(&ready, 1, LOOK_MS) <= 0)
        return false;
    ssize_t got = recvmsg(connection.number, &message, MSG_DONTWAIT);
    if (!got)
        link_wait_for_end();
    return got >= (ssize_t)(sizeof header + sizeof(struct protocol_looked)) && header.type == PROTOCOL_LOOKED;
}

void link_report(const char *line) {
    link_send(PROTOCOL_REPORT, line, (uint32_t)strlen(line));
}

bool link_say_as_child(uint32_t type, struct protocol_claim *message, uint32_t bytes) {
    struct own_descriptor aside = OWN_NONE;
    *message = own_claim();
    bool is_said = !joined_is_here() && !joined_has_parent() && !connect_to(&aside) && send_over(&aside, type, message, bytes);
    own_close(&aside);
    return is_said;
}

const char *shim_driver_cache_folder(void) {
    return getenv("CUDA_CACHE_PATH");
}

const char *shim_temporary_folder(void) {
    return getenv("TMPDIR");
}

void link_look(uint32_t late) {
    if (joined_is_here() && joined_look(late))
        link_wait_for_end();
}

void shim_ends(int status, int signal) {
    if (joined_is_here())
        joined_ends(status, signal);
}
