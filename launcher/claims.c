#define _GNU_SOURCE
#include "claims_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process.h"
#include "secret.h"

static bool is_of(const struct claims_connection *connection, uint32_t rank) {
    return connection->descriptor >= 0 && connection->rank == (int)rank && connection->is_granted;
}

bool claims_is_granted(const struct claims *claims, uint32_t rank) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (is_of(&claims->connections[i], rank))
            return true;
    return false;
}

void claims_tell(const struct claims *claims, uint32_t rank, uint32_t type, const void *payload, size_t bytes) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (is_of(&claims->connections[i], rank))
            claims_send(claims->connections[i].descriptor, type, payload, bytes, NULL);
}

void claims_deny(struct claims_connection *connection, const char *reason) {
    claims_send(connection->descriptor, PROTOCOL_DENY, reason, strlen(reason), NULL);
    claims_close(connection);
}

/* It goes on as it is. */
static void deny_rank(struct claims_connection *connection) {
    static const char reason[] = "another process is this rank";
    if (connection->is_attached)
        claims_send(connection->descriptor, PROTOCOL_DENY, reason, strlen(reason), NULL);
    else
        claims_deny(connection, reason);
}

/* As long for a wrong first character as for a wrong last one. */
static bool cookie_is_right(const struct claims *claims, const char *cookie) {
    unsigned difference = 0;
    for (int i = 0; i < PROTOCOL_COOKIE_CHARS; i++)
        difference |= (unsigned)(claims->cookie[i] ^ cookie[i]);
    return difference == 0;
}

/* A rank that was refused for our own reasons would train alone, a full copy beside the others (P45): the job ends instead. */
static void deny_and_stop(struct claims *claims, struct claims_connection *connection, uint32_t number,
                          const struct protocol_problem *problem) {
    claims_deny(connection, problem->what);
    claims->events.problem(claims->events.context, number, problem);
}

/* A read end opened anew, not a copy: whom the kernel tells of the launcher's death belongs to the open file. It outlives the connection, which a program
   that closes all its descriptors may end at any time. */
static int open_lifeline(const struct claims *claims) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", claims->lifeline[0]);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* Sends the grant with its descriptors. Returns 0 or -1 with errno. */
static int send_grant(const struct claims *claims, int descriptor, const struct protocol_grant *message, int memfd) {
    int passed[PROTOCOL_DESCRIPTORS_MOST] = {[PROTOCOL_SEGMENT] = memfd,
                                             [PROTOCOL_LIFELINE] = open_lifeline(claims),
                                             [PROTOCOL_LISTENER] = message->rank == claims->first ? claims->leader_listener : -1};
    if (passed[PROTOCOL_LIFELINE] < 0)
        return -1;
    int status = claims_send(descriptor, PROTOCOL_GRANT, message, sizeof *message, passed);
    close(passed[PROTOCOL_LIFELINE]);
    return status;
}

/* The memory of the rank's next program; if need be at a stranger's expense. NULL: the job is being stopped. */
static const struct segment *segment_of(struct claims *claims, struct claims_connection *connection, uint32_t number) {
    struct segment *segment;
    while (!(segment = segments_get(&claims->segments, connection->segment)) && errno == EMFILE && claims_drop_stranger(claims))
        ;
    if (!segment)
        deny_and_stop(claims, connection, number,
                      &(struct protocol_problem){.id = "AR-SEGMENT",
                                                 .what = "the launcher cannot make the shared memory through which the ranks exchange",
                                                 .cure = "raise the limits of file size (ulimit -f) and memory, or use fewer ranks"});
    return segment;
}

/* Sends a grant of the rank's next memory, or of what the process has already. Returns false when the connection is closed. */
static bool pass(struct claims *claims, struct claims_connection *connection, uint32_t number) {
    struct rank *rank = &claims->ranks[number - claims->first];
    bool is_first = !connection->is_attached;
    if (is_first)
        connection->segment = rank->segments;
    const struct segment *segment = segment_of(claims, connection, number);
    if (!segment)
        return false;
    struct protocol_grant message = claims->grant;
    message.rank = number;
    message.segment_bytes = segment->bytes;
    message.generation = rank->generation;
    int status;
    while ((status = send_grant(claims, connection->descriptor, &message, segment->memfd)) && errno == EMFILE &&
           claims_drop_stranger(claims))
        ;
    if (status) {
        claims_close(connection);
        return false;
    }
    connection->rank = (int)number;
    rank->segments += is_first;
    rank->board = segment->board;
    return true;
}

static void note_above(struct rank *rank) {
    pid_t pid, parent = 0;
    process_started(rank->claimer, &parent, NULL);
    for (int i = 0; i < RANK_ABOVE_MAX; i++) {
        pid = parent > 1 && parent != getpid() ? parent : 0;
        parent = 0;
        rank->above[i] = (struct rank_ancestor){pid, pid ? process_started(pid, &parent, NULL) : 0};
    }
}

static void grant(struct claims *claims, struct claims_connection *connection, uint32_t number, uint64_t program) {
    struct rank *rank = &claims->ranks[number - claims->first];
    if (!pass(claims, connection, number))
        return;
    connection->is_granted = true;
    rank->has_claimed = true;
    rank->claimer = connection->pid;
    rank->claimer_started = process_started(connection->pid, NULL, NULL);
    rank->program_code = rank->program_signal = 0;
    rank->program_is_known = false;
    rank->program_ended_ms = 0;
    note_above(rank);
    rank->generation++;
    rivals_grant(&rank->rivals, program, connection->segment);
}

/* Their results would be mixed. */
static void look_for_rivals(const struct claims *claims, uint32_t number) {
    struct protocol_problem problem = {
        .id = "AR-SIDE-BY-SIDE",
        .cure = "Let the script start one after the other (no & between them), or start accel-run within it, once for each."};
    const struct rivals *own = &claims->ranks[number - claims->first].rivals;
    for (uint32_t i = 0; i < claims->local_size; i++) {
        if (!rivals_are_exchanged(own, &claims->ranks[i].rivals))
            continue;
        snprintf(
            problem.what, sizeof problem.what,
            "the program starts several trainings side by side, and rank %u has begun with one that is not rank %u's: each of them would "
            "be trained with a part of the other's ranks",
            number > claims->first + i ? number : claims->first + i, number > claims->first + i ? claims->first + i : number);
        claims->events.problem(claims->events.context, number, &problem);
        return;
    }
}

static bool is_process_of_rank(const struct claims_connection *connection) {
    return connection->descriptor >= 0 && connection->rank >= 0 && (connection->is_granted || connection->is_attached) &&
           connection->pid > 1;
}

static bool is_such(const struct claims_connection *connection, bool is_granted) {
    return is_process_of_rank(connection) && (is_granted ? connection->is_granted : connection->is_attached);
}

static bool has_such(const struct claims *claims, int rank, bool is_granted) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].rank == rank && is_such(&claims->connections[i], is_granted))
            return true;
    return false;
}

void claims_signal(const struct claims *claims, int but, bool is_granted, int signal) {
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct claims_connection *connection = &claims->connections[i];
        bool is_process = is_process_of_rank(connection) && connection->rank != but;
        if (is_process && (is_such(connection, is_granted) || !has_such(claims, connection->rank, is_granted)))
            kill(connection->pid, signal);
    }
}

void claims_signal_others(const struct claims *claims, int signal) {
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct claims_connection *connection = &claims->connections[i];
        if (is_process_of_rank(connection) && connection->pid != claims->ranks[(uint32_t)connection->rank - claims->first].pid)
            kill(connection->pid, signal);
    }
}

bool claims_is_here(const struct claims *claims, uint32_t rank) {
    return rank - claims->first < claims->local_size;
}

/* It is of a rank of this host. */
static void answer_claim(struct claims *claims, struct claims_connection *connection, const struct protocol_claim *claim) {
    if (connection->rank >= 0 && connection->rank != (int)claim->rank)
        claims_deny(connection, "it is another rank");
    else if (claims_is_granted(claims, claim->rank)) {
        rivals_deny(&claims->ranks[claim->rank - claims->first].rivals, claim->program);
        deny_rank(connection);
    } else
        grant(claims, connection, claim->rank, claim->program);
    look_for_rivals(claims, claim->rank);
}

static void handle_claim(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_claim claim;
    if (message->header.bytes < sizeof claim.version) {
        claims_deny(connection, "malformed claim");
        return;
    }
    memset(&claim, 0, sizeof claim);
    memcpy(&claim, message->payload, message->header.bytes < sizeof claim ? message->header.bytes : sizeof claim);
    bool is_of_the_job = message->header.bytes >= PROTOCOL_CLAIM_COMMON && cookie_is_right(claims, claim.cookie);
    if (claim.version != PROTOCOL_VERSION && is_of_the_job)
        deny_and_stop(claims, connection, 0,
                      &(struct protocol_problem){.id = "AR-VERSION",
                                                 .what = "libaccelshim.so and accel-run are of different versions",
                                                 .cure = "install both from the same build (make install)"});
    else if (claim.version != PROTOCOL_VERSION)
        claims_deny(connection, "the shim and accel-run are of different versions");
    else if (message->header.bytes != sizeof claim)
        claims_deny(connection, "malformed claim");
    else if (!cookie_is_right(claims, claim.cookie))
        claims_deny(connection, "wrong cookie");
    else if (!claims_is_here(claims, claim.rank))
        claims_deny(connection, "no such rank");
    else
        answer_claim(claims, connection, &claim);
}

/* Of a rank's process, which has the job's secret from its launcher. */
static bool is_of_a_rank(const struct claims *claims, const struct protocol_claim *claim) {
    return claim->version == PROTOCOL_VERSION && cookie_is_right(claims, claim->cookie) && claims_is_here(claims, claim->rank);
}

/* A rank's first process, which may become the rank. */
static void handle_attach(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_claim claim;
    if (message->header.bytes != sizeof claim || connection->rank >= 0) {
        claims_deny(connection, "malformed message");
        return;
    }
    memcpy(&claim, message->payload, sizeof claim);
    bool is_first_process = is_of_a_rank(claims, &claim) && claims->ranks[claim.rank - claims->first].pid == connection->pid;
    if (!is_first_process || claims->segments.hosts)
        claims_deny(connection, "no such rank");
    else if (claims_is_granted(claims, claim.rank))
        deny_rank(connection);
    else
        connection->is_attached = pass(claims, connection, claim.rank);
}

static void end_texts(struct protocol_problem *problem) {
    problem->id[sizeof problem->id - 1] = 0;
    problem->what[sizeof problem->what - 1] = 0;
    problem->cure[sizeof problem->cure - 1] = 0;
}

static void handle_problem(struct claims *claims, uint32_t rank, const void *payload, size_t bytes) {
    struct protocol_problem problem;
    if (bytes != sizeof problem)
        return;
    memcpy(&problem, payload, sizeof problem);
    end_texts(&problem);
    claims->events.problem(claims->events.context, rank, &problem);
}

static void handle_signalled(struct claims *claims, const struct claims_connection *connection, const void *payload, size_t bytes) {
    int32_t signal;
    if (bytes != sizeof signal)
        return;
    memcpy(&signal, payload, sizeof signal);
    claims->events.signalled(claims->events.context, (uint32_t)connection->rank, connection->is_granted, signal);
}

/* A child has no part in its parent's connection: it comes once, with the job's secret, to say why it cannot go on, or what it does. */
static void handle_child(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_child child;
    if (message->header.bytes != sizeof child) {
        claims_deny(connection, "malformed message");
        return;
    }
    memcpy(&child, message->payload, sizeof child);
    end_texts(&child.problem);
    bool is_heard = is_of_a_rank(claims, &child.claim);
    if (is_heard && message->header.type == PROTOCOL_CHILD_WRITES)
        claims->events.child_writes(claims->events.context, &child.problem);
    else if (is_heard)
        claims->events.problem(claims->events.context, child.claim.rank, &child.problem);
    claims_close(connection);
}

static void handle_child_trains(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_claim claim;
    if (message->header.bytes != sizeof claim) {
        claims_deny(connection, "malformed message");
        return;
    }
    memcpy(&claim, message->payload, sizeof claim);
    if (is_of_a_rank(claims, &claim))
        claims->events.child(claims->events.context, claim.rank);
    claims_close(connection);
}

static void handle_is_taken(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_claim claim;
    bool is_claim = message->header.bytes == sizeof claim;
    if (is_claim)
        memcpy(&claim, message->payload, sizeof claim);
    if (is_claim && is_of_a_rank(claims, &claim) && claims_is_granted(claims, claim.rank))
        deny_rank(connection);
    else
        claims_close(connection);
}

void claims_handle(struct claims *claims, struct claims_connection *connection, struct message *message) {
    uint32_t bytes = message->header.bytes;
    message->payload[bytes] = 0;
    if (message->header.type == PROTOCOL_CLAIM) {
        handle_claim(claims, connection, message);
        return;
    }
    if (message->header.type == PROTOCOL_ATTACH) {
        handle_attach(claims, connection, message);
        return;
    }
    if (message->header.type == PROTOCOL_CHILD || message->header.type == PROTOCOL_CHILD_WRITES) {
        handle_child(claims, connection, message);
        return;
    }
    if (message->header.type == PROTOCOL_IS_TAKEN) {
        handle_is_taken(claims, connection, message);
        return;
    }
    if (message->header.type == PROTOCOL_CHILD_TRAINS) {
        handle_child_trains(claims, connection, message);
        return;
    }
    if (connection->rank < 0) { /* only ranks are listened to */
        claims_deny(connection, "claim first");
        return;
    }
    uint32_t rank = (uint32_t)connection->rank;
    if (message->header.type == PROTOCOL_LOG && bytes > 1)
        claims->events.log(claims->events.context, rank, message->payload[0], message->payload + 1);
    else if (message->header.type == PROTOCOL_PROBLEM)
        handle_problem(claims, rank, message->payload, bytes);
    else if (message->header.type == PROTOCOL_REPORT)
        claims->events.report(claims->events.context, rank, message->payload);
    else if (message->header.type == PROTOCOL_MEETING)
        claims->events.meeting(claims->events.context, rank, message->payload, bytes);
    else if (message->header.type == PROTOCOL_LOOK)
        claims->events.look(claims->events.context, rank, message->payload, bytes);
    else if (message->header.type == PROTOCOL_SIGNALLED)
        handle_signalled(claims, connection, message->payload, bytes);
}
