#define _GNU_SOURCE
#include "hosts_meet.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../clock.h"
#include "../hash.h"
#include "../placement/system_file.h"

#define MOMENT_MS 5000   /* for the first host to say who is missing: it may have begun to wait a little later */
#define PATIENCE_MS 3000 /* then the user is told who is waited for */

int meet_fail(struct meet *meet, const char *id, const char *cure, const char *format, ...) {
    char what[sizeof meet->problem->what];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return problem_set(meet->problem, EXIT_LAUNCHER, id, cure, "%s", what);
}

bool meet_is_over(const struct meet *meet) {
    return clock_ms() - meet->begin_ms >= meet->config->start_timeout_ms;
}

struct protocol_problem meet_refusal(const struct problem *problem) {
    struct protocol_problem refusal = {.id = ""};
    snprintf(refusal.id, sizeof refusal.id, "%s", problem->id);
    snprintf(refusal.what, sizeof refusal.what, "%s", problem->what);
    snprintf(refusal.cure, sizeof refusal.cure, "%s", problem->cure);
    return refusal;
}

void meet_say_waiting(struct meet *meet, const char *for_whom, const char *reason) {
    if (meet->is_said || clock_ms() - meet->begin_ms < PATIENCE_MS || meet->config->log_level < CONFIG_LEVEL_WARN)
        return;
    bool is_found = meet->config->origin[CONFIG_ID_nnodes] == CONFIG_FROM_LAUNCHER; /* perhaps left over in a shell */
    dprintf(STDERR_FILENO, "accel-run: waiting for %s at %s:%u%s%s%s, for %.0f s at most%s\n", for_whom, meet->master, meet->port,
            reason ? " (" : "", reason ? reason : "", reason ? ")" : "", meet->config->start_timeout_ms / 1000.0,
            is_found ? "; the environment says that there are several hosts, and --engine none does not follow it" : "");
    meet->is_said = true;
}

/* ---- what is said */

static uint64_t hash_of(char *const *arguments) {
    uint64_t hash = HASH_BEGIN;
    for (; *arguments; arguments++)
        hash = hash_text(hash, *arguments);
    return hash;
}

static void join(char *const *arguments, char *words, size_t room) {
    size_t used = 0;
    for (; *arguments && used < room; arguments++)
        used += (size_t)snprintf(words + used, room - used, "%s%s", used ? " " : "", *arguments);
}

static void make_hello(struct hosts_hello *hello, const struct config *config, const struct plan *plan) {
    *hello = (struct hosts_hello){.magic = MEET_MAGIC,
                                  .protocol = PROTOCOL_VERSION,
                                  .version = ACCEL_RUN_VERSION,
                                  .nnodes = config->nnodes,
                                  .host = config->node_rank,
                                  .ranks = config->ranks,
                                  .flags = plan_grant(config, 0, 0).flags,
                                  .collective_timeout_ms = config->collective_timeout_ms,
                                  .threads = plan->threads,
                                  .threads_are_users = plan->threads_are_users,
                                  .arguments = hash_of(plan->arguments + 1)};
    snprintf(hello->job_id, sizeof hello->job_id, "%s", config->job_id);
    snprintf(hello->program, sizeof hello->program, "%s", basename(plan->arguments[0]));
    join(plan->arguments + 1, hello->words, sizeof hello->words);
    system_file_line("", "/proc/cpuinfo", "model name", hello->processor, sizeof hello->processor);
    if (gethostname(hello->node, sizeof hello->node - 1))
        hello->node[0] = 0;
}

/* ---- the others */

/* A descriptor, or -1 with errno. */
static int connect_to(const struct sockaddr_storage *address) {
    int error = 0, descriptor = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof error;
    struct pollfd ready = {descriptor, POLLOUT, 0};
    if (descriptor < 0)
        return -1;
    if (connect(descriptor, (const struct sockaddr *)address, meet_size_of(address)) && errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, 1000) <= 0)
        error = ETIMEDOUT;
    else
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!error)
        return descriptor;
    close(descriptor);
    errno = error;
    return -1;
}

int meet_connect(const struct meet *meet, struct sockaddr_storage *address, const char **reason) {
    struct meet_addresses addresses;
    int status = meet_resolve(meet, &addresses), descriptor = -1, error = 0; /* why not at the best address */
    for (uint32_t i = 0; !status && descriptor < 0 && i < addresses.count; i++) {
        *address = addresses.list[i];
        descriptor = connect_to(address);
        error = error ? error : errno;
    }
    if (descriptor < 0)
        *reason = status ? gai_strerror(status) : strerror(error);
    return descriptor;
}

static int fail_unreached(struct meet *meet, const char *reason) {
    return meet_fail(
        meet, "AR-HOSTS-MISSING",
        "was accel-run started on the first host with --node-rank 0 and the same --master-addr, and does a firewall let its port pass? "
        "--start-timeout SECONDS waits longer",
        "host 0 was not reached at %s:%u within %.0f s: %s", meet->master, meet->port, meet->config->start_timeout_ms / 1000.0, reason);
}

static int take_welcome(struct meet *meet, const struct hosts_welcome *welcome, const struct sockaddr_storage *first) {
    struct hosts *hosts = meet->hosts;
    if (welcome->hosts != hosts->count)
        return -1;
    memcpy(hosts->list, welcome->list, sizeof hosts->list);
    memcpy(hosts->cookie, welcome->cookie, PROTOCOL_COOKIE_CHARS);
    hosts->threads = welcome->threads;
    meet_set_address(&hosts->list[0], *first, welcome->port);
    for (uint32_t host = 0; host < hosts->count; host++)
        hosts->world_size += hosts->list[host].count;
    return hosts->world_size > BOARD_RANKS_MAX ? -1 : 0;
}

static int hear_refusal(struct meet *meet, const char *body) {
    struct protocol_problem said;
    memcpy(&said, body, sizeof said);
    said.id[sizeof said.id - 1] = said.what[sizeof said.what - 1] = said.cure[sizeof said.cure - 1] = 0;
    return meet_fail(meet, said.id, said.cure, "%s", said.what);
}

/* 1: welcome; 0: the connection has closed, try again; -1: the problem. */
static int await_answer(struct meet *meet, const struct sockaddr_storage *first) {
    struct hosts_peer *peer = &meet->hosts->peers[0];
    struct hosts_header header;
    const char *body;
    int found;
    while (!(found = hosts_read(peer, &header, &body))) {
        struct pollfd ready = {peer->descriptor, POLLIN, 0};
        meet_say_waiting(meet, "the other hosts", NULL);
        if (clock_ms() - meet->begin_ms >= meet->config->start_timeout_ms + MOMENT_MS)
            return meet_fail(meet, "AR-HOSTS-MISSING", "the first host says which are missing; --start-timeout SECONDS waits longer",
                             "host 0 has not seen all %u hosts within %.0f s", meet->hosts->count, meet->config->start_timeout_ms / 1000.0);
        poll(&ready, 1, MEET_AGAIN_MS);
    }
    if (found < 0)
        return 0;
    if (header.type == HOSTS_WELCOME && header.bytes == sizeof(struct hosts_welcome)) {
        static struct hosts_welcome welcome;
        memcpy(&welcome, body, sizeof welcome);
        return take_welcome(meet, &welcome, first) ? 0 : 1;
    }
    return header.type == HOSTS_REFUSE && header.bytes == sizeof(struct protocol_problem) ? hear_refusal(meet, body) : 0;
}

static int meet_others(struct meet *meet) {
    struct hosts *hosts = meet->hosts;
    const char *reason = "it closes every connection";
    for (;; poll(NULL, 0, MEET_AGAIN_MS)) {
        struct sockaddr_storage first, own;
        socklen_t size = sizeof own;
        int descriptor = meet_connect(meet, &first, &reason);
        if (descriptor >= 0 && getsockname(descriptor, (struct sockaddr *)&own, &size) == 0) {
            hosts->peers[0] = (struct hosts_peer){.descriptor = descriptor};
            meet_set_options(descriptor);
            if (hosts->leader_listener < 0 && meet_open_leaders(meet, own))
                return -1;
            hosts_tell(hosts, 0, HOSTS_HELLO, &meet->own, sizeof meet->own);
            int answer = await_answer(meet, &first);
            if (answer)
                return answer > 0 ? 0 : -1;
            hosts_close(&hosts->peers[0]);
            reason = "it closes the connection: is another job there, or another program?";
        }
        meet_say_waiting(meet, "host 0", reason);
        if (meet_is_over(meet))
            return fail_unreached(meet, reason);
    }
}

int hosts_meet(struct hosts *hosts, const struct config *config, const struct plan *plan, struct problem *problem) {
    struct meet *meet = calloc(1, sizeof *meet);
    memset(hosts, 0, sizeof *hosts);
    hosts->count = config->nnodes;
    hosts->host = config->node_rank;
    hosts->timeout_ms = config->host_timeout_ms;
    hosts->leader_listener = hosts->looks = -1;
    hosts->peers = calloc(hosts->count, sizeof *hosts->peers);
    if (!meet || !hosts->peers) {
        free(meet);
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    }
    *meet = (struct meet){.hosts = hosts, .config = config, .problem = problem, .begin_ms = clock_ms()};
    for (uint32_t host = 0; host < hosts->count; host++)
        hosts->peers[host].descriptor = -1;
    for (int i = 0; i < MEET_STRANGERS; i++)
        meet->strangers[i].descriptor = -1;
    config_master(config, meet->master, sizeof meet->master, &meet->port);
    make_hello(&meet->own, config, plan);
    int status = hosts_is_first(hosts) ? meet_as_first(meet) : meet_others(meet);
    for (int i = 0; i < MEET_STRANGERS; i++)
        hosts_close(&meet->strangers[i]);
    for (uint32_t host = 0; host < hosts->count; host++)
        meet_end_options(hosts->peers[host].descriptor);
    hosts_forget_clocks(hosts, clock_ms());
    free(meet);
    return status;
}
