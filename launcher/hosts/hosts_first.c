#define _GNU_SOURCE
#include "hosts_meet.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../clock.h"
#include "../secret.h"

/* ---- the first host: who has come, and do all mean the same? */

static int differ(struct meet *meet, uint32_t host, const char *what, const char *first, const char *other) {
    return meet_fail(meet, "AR-HOSTS-DIFFER", "start the same command on every host; only --node-rank and -n may differ",
                     "%s: %.200s on host 0, %.200s on host %u (%s)", what, first, other, host, meet->hosts->list[host].name);
}

static const char *number_text(uint32_t number, char *text) {
    snprintf(text, 16, "%u", number);
    return text;
}

static int compare_flags(struct meet *meet, const struct hosts_hello *other) {
    static const struct {
        uint32_t flag;
        const char *option;
    } options[] = {{PROTOCOL_FLAG_EXPLAIN, "--explain"},
                   {PROTOCOL_FLAG_SCALE_BATCH, "--scale-batch"},
                   {PROTOCOL_FLAG_WHOLE_LOADING, "--no-shard-loading"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if ((meet->own.flags ^ other->flags) & options[i].flag)
            return differ(meet, other->host, options[i].option, meet->own.flags & options[i].flag ? "given" : "not given",
                          other->flags & options[i].flag ? "given" : "not given");
    return 0;
}

/* From the first word that differs: --out run_$(date +%s), a folder in another home. */
static int differ_in_words(struct meet *meet, const struct hosts_hello *other) {
    const char *own = meet->own.words;
    size_t at = 0, word = 0;
    for (; own[at] && own[at] == other->words[at]; at++)
        if (own[at] == ' ')
            word = at + 1;
    if (own[at] == other->words[at])
        return differ(meet, other->host, "the program's arguments, far behind their beginning", "some", "others");
    return differ(meet, other->host, "the program's arguments", own[word] ? own + word : "no more",
                  other->words[word] ? other->words + word : "no more");
}

static int compare_hello(struct meet *meet, const struct hosts_hello *other) {
    char first[16], second[16];
    const struct hosts_hello *own = &meet->own;
    if (strcmp(own->version, other->version) || own->protocol != other->protocol)
        return differ(meet, other->host, "versions of accel-run", own->version, other->version);
    if (own->nnodes != other->nnodes)
        return differ(meet, other->host, "--nnodes", number_text(own->nnodes, first), number_text(other->nnodes, second));
    if (strcmp(own->program, other->program))
        return differ(meet, other->host, "the program", own->program, other->program);
    if (own->arguments != other->arguments)
        return differ_in_words(meet, other);
    if (own->collective_timeout_ms != other->collective_timeout_ms)
        return differ(meet, other->host, "--collective-timeout, in milliseconds", number_text(own->collective_timeout_ms, first),
                      number_text(other->collective_timeout_ms, second));
    if (own->threads_are_users && other->threads_are_users && own->threads != other->threads)
        return differ(meet, other->host, "threads of each rank (OMP_NUM_THREADS, --threads)", number_text(own->threads, first),
                      number_text(other->threads, second));
    return compare_flags(meet, other);
}

/* The host that has come with this number has ended since, or its connection is broken: it is waited for again. */
static bool is_gone(const struct hosts_peer *peer) {
    char byte;
    ssize_t n = recv(peer->descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Two hosts have one number, or one has lost its power and started again, of which the first host was told nothing: its kernel answers no more, or that it
   knows nothing of the older connection. */
static int take_second(struct meet *meet, struct hosts_peer *stranger, const struct hosts_hello *hello,
                       const struct sockaddr_storage *address) {
    struct meet_second *second = &meet->seconds[stranger - meet->strangers];
    char name[BOARD_HOST_CHARS];
    if (!second->since_ms)
        *second = (struct meet_second){*hello, clock_ms()};
    if (!meet_is_heard_since(meet->hosts->peers[hello->host].descriptor, second->since_ms))
        return 0;
    meet_name_of(address, name);
    return meet_fail(meet, "AR-HOSTS-TWICE", "each host has a --node-rank of its own", "two hosts say that they are host %u: %s and %s",
                     hello->host, meet->hosts->list[hello->host].name, name);
}

/* A stranger has said who it is. Returns -1 with the problem when the job cannot be. */
static int take_host(struct meet *meet, struct hosts_peer *stranger, const struct hosts_hello *hello) {
    struct hosts *hosts = meet->hosts;
    struct sockaddr_storage address;
    if (hello->magic != MEET_MAGIC ||
        strncmp(hello->job_id, meet->own.job_id, sizeof hello->job_id)) { /* of another job: it tries again elsewhere */
        hosts_close(stranger);
        return 0;
    }
    if (!hello->host || hello->host >= BOARD_RANKS_MAX || !hello->ranks || hello->ranks > BOARD_RANKS_MAX ||
        meet_peer_of(stranger->descriptor, &address)) {
        bool is_first = !hello->host;
        hosts_close(stranger);
        return is_first ? meet_fail(meet, "AR-HOSTS-TWICE", "each host has a --node-rank of its own", "two hosts say that they are host 0")
                        : 0;
    }
    struct hosts_peer *before = hello->host < hosts->count ? &hosts->peers[hello->host] : NULL;
    if (hello->nnodes == hosts->count && before && before->descriptor >= 0) {
        if (!is_gone(before))
            return take_second(meet, stranger, hello, &address);
        hosts_close(before);
    }
    meet_name_of(&address, hosts->list[hello->host].name);
    strcpy(hosts->list[hello->host].node, hello->node);
    meet->said[hello->host] = *hello;
    hosts->is_told[hello->host] = true; /* it will be, with all */
    if (compare_hello(meet, &meet->said[hello->host]))
        return -1;
    if (hello->host >= hosts->count) { /* no accel-run says so */
        hosts_close(stranger);
        return 0;
    }
    meet_set_address(&hosts->list[hello->host], address, hello->port);
    meet_set_options(stranger->descriptor);
    hosts->peers[hello->host] = *stranger;
    *stranger = (struct hosts_peer){.descriptor = -1};
    return 0;
}

/* A hello as long as none of ours. */
static int take_other_version(struct meet *meet, struct hosts_peer *stranger, const char *body, uint32_t bytes) {
    struct hosts_hello hello = {.magic = 0};
    struct sockaddr_storage address;
    char name[BOARD_HOST_CHARS];
    if (bytes >= offsetof(struct hosts_hello, nnodes))
        memcpy(&hello, body, offsetof(struct hosts_hello, nnodes));
    hello.version[sizeof hello.version - 1] = 0;
    if (hello.magic != MEET_MAGIC || strncmp(hello.job_id, meet->own.job_id, sizeof hello.job_id) ||
        meet_peer_of(stranger->descriptor, &address)) {
        hosts_close(stranger);
        return 0;
    }
    meet_name_of(&address, name);
    return meet_fail(meet, "AR-HOSTS-DIFFER", "install the same build on every host (make install)",
                     "versions of accel-run: %s (protocol %u) on host 0, %s (protocol %u) on %s", meet->own.version, meet->own.protocol,
                     hello.version, hello.protocol, name);
}

/* A host has refused its part. */
static int take_refusal(struct meet *meet, struct hosts_peer *stranger, const char *body) {
    struct hosts_cannot cannot;
    struct sockaddr_storage address;
    char name[BOARD_HOST_CHARS];
    memcpy(&cannot, body, sizeof cannot);
    struct protocol_problem *said = &cannot.problem;
    said->id[sizeof said->id - 1] = said->what[sizeof said->what - 1] = said->cure[sizeof said->cure - 1] = 0;
    if (cannot.magic != MEET_MAGIC || strncmp(cannot.job_id, meet->own.job_id, sizeof cannot.job_id) ||
        meet_peer_of(stranger->descriptor, &address)) {
        hosts_close(stranger);
        return 0;
    }
    meet_name_of(&address, name);
    if (cannot.host < meet->hosts->count)
        meet->hosts->is_told[cannot.host] = true;
    return meet_fail(meet, said->id, said->cure, "host %u (%s): %s", cannot.host, name, said->what);
}

/* Looks again at one that has said who it is, and waits. */
static int hear_second(struct meet *meet, struct hosts_peer *stranger, struct meet_second *second) {
    struct hosts_hello hello = second->hello;
    if (is_gone(stranger))
        hosts_close(stranger);
    int status = stranger->descriptor >= 0 ? take_host(meet, stranger, &hello) : 0;
    if (stranger->descriptor < 0)
        second->since_ms = 0;
    return status;
}

static int hear_strangers(struct meet *meet) {
    struct hosts_header header;
    const char *body;
    for (int i = 0; i < MEET_STRANGERS; i++) {
        struct hosts_peer *stranger = &meet->strangers[i];
        if (meet->seconds[i].since_ms) {
            if (hear_second(meet, stranger, &meet->seconds[i]))
                return -1;
            continue;
        }
        int found = stranger->descriptor >= 0 ? hosts_read(stranger, &header, &body) : 0;
        if (found > 0 && header.type == HOSTS_CANNOT && header.bytes == sizeof(struct hosts_cannot)) {
            if (take_refusal(meet, stranger, body))
                return -1;
        } else if (found < 0 || (found > 0 && header.type != HOSTS_HELLO)) {
            hosts_close(stranger);
        } else if (found > 0 && header.bytes != sizeof(struct hosts_hello)) {
            if (take_other_version(meet, stranger, body, header.bytes))
                return -1;
        } else if (found > 0) {
            struct hosts_hello hello;
            memcpy(&hello, body, sizeof hello);
            hello.version[sizeof hello.version - 1] = hello.program[sizeof hello.program - 1] =
                hello.processor[sizeof hello.processor - 1] = hello.node[sizeof hello.node - 1] = hello.words[sizeof hello.words - 1] = 0;
            if (take_host(meet, stranger, &hello))
                return -1;
        }
    }
    return 0;
}

void meet_take_strangers(struct meet *meet, int listener) {
    int descriptor;
    while ((descriptor = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct hosts_peer *place = NULL;
        for (int i = 0; i < MEET_STRANGERS && !place; i++)
            place = meet->strangers[i].descriptor < 0 ? &meet->strangers[i] : NULL;
        if (!place)
            place = &meet->strangers[meet->next_stranger++ % MEET_STRANGERS];
        hosts_close(place);
        meet->seconds[place - meet->strangers].since_ms = 0;
        *place = (struct hosts_peer){.descriptor = descriptor};
    }
}

/* Somebody else says that it is this host. */
static bool is_doubted(const struct meet *meet, uint32_t host) {
    for (int i = 0; i < MEET_STRANGERS; i++)
        if (meet->seconds[i].since_ms && meet->seconds[i].hello.host == host)
            return true;
    return false;
}

/* Hosts that have come, but have been ended since, are waited for again. Returns how many are missing; their names, at most size, to names. */
static uint32_t find_missing(struct meet *meet, char *names, size_t size) {
    uint32_t missing = 0;
    *names = 0;
    for (uint32_t host = 1; host < meet->hosts->count; host++) {
        struct hosts_peer *peer = &meet->hosts->peers[host];
        if (peer->descriptor >= 0 && is_gone(peer))
            hosts_close(peer);
        if (peer->descriptor >= 0 && !is_doubted(meet, host))
            continue;
        size_t used = strlen(names);
        if (used + 16 < size)
            snprintf(names + used, size - used, "%s%u", missing ? ", " : "", host);
        missing++;
    }
    return missing;
}

static int wait_for_all(struct meet *meet, int listener) {
    char names[200], whom[256];
    struct pollfd polled[MEET_STRANGERS + 1];
    uint32_t missing;
    while ((missing = find_missing(meet, names, sizeof names))) {
        snprintf(whom, sizeof whom, "host%s %s of %u", missing > 1 ? "s" : "", names, meet->hosts->count);
        meet_say_waiting(meet, whom, NULL);
        if (meet_is_over(meet))
            return meet_fail(
                meet, "AR-HOSTS-MISSING",
                "was accel-run started there with --nnodes, its --node-rank and this --master-addr, and does a firewall let it pass? "
                "--start-timeout SECONDS waits longer",
                "%s did not come to %s:%u within %.0f s (hosts are counted from 0)", whom, meet->master, meet->port,
                meet->config->start_timeout_ms / 1000.0);
        for (int i = 0; i < MEET_STRANGERS; i++)
            polled[i] = (struct pollfd){meet->strangers[i].descriptor, POLLIN, 0};
        polled[MEET_STRANGERS] = (struct pollfd){listener, POLLIN, 0};
        poll(polled, MEET_STRANGERS + 1, MEET_AGAIN_MS);
        meet_take_strangers(meet, listener);
        if (hear_strangers(meet))
            return -1;
    }
    return 0;
}

/* The least number of threads, or the user's: what a thread computes must not depend on the host. */
static uint32_t agree_threads(const struct meet *meet) {
    uint32_t least = meet->own.threads;
    for (uint32_t host = 0; host < meet->hosts->count; host++) {
        const struct hosts_hello *hello = host ? &meet->said[host] : &meet->own;
        if (hello->threads_are_users)
            return hello->threads;
        least = hello->threads < least ? hello->threads : least;
    }
    return least;
}

static int give_ranks(struct meet *meet) {
    struct hosts *hosts = meet->hosts;
    const struct hosts_hello *user = NULL; /* whose user has said how many threads */
    meet->said[0] = meet->own;
    for (uint32_t host = 0; host < hosts->count; host++) {
        if (user && meet->said[host].threads_are_users && user->threads != meet->said[host].threads)
            return meet_fail(meet, "AR-HOSTS-DIFFER", "set --threads, or OMP_NUM_THREADS, alike on all hosts",
                             "threads of each rank: %u on host %u, %u on host %u", user->threads, user->host, meet->said[host].threads,
                             host);
        user = meet->said[host].threads_are_users ? &meet->said[host] : user;
        hosts->list[host].first = hosts->world_size;
        hosts->list[host].count = meet->said[host].ranks;
        hosts->world_size += meet->said[host].ranks;
    }
    if (hosts->world_size > BOARD_RANKS_MAX)
        return meet_fail(meet, "AR-HOSTS-SETTINGS", "start fewer ranks",
                         "%u ranks on all hosts are more than the %d that accel-run can run", hosts->world_size, BOARD_RANKS_MAX);
    return 0;
}

static void say_processors(const struct meet *meet) {
    for (uint32_t host = 1; host < meet->hosts->count && meet->config->log_level >= CONFIG_LEVEL_WARN; host++)
        if (strcmp(meet->own.processor, meet->said[host].processor)) {
            dprintf(STDERR_FILENO,
                    "accel-run: warning AR-HOSTS-PROCESSORS: host 0 has '%s', host %u has '%s': their libraries may round differently, and "
                    "the ranks' "
                    "parameters drift apart by it\n  what to do: use equal hosts, or set ATEN_CPU_CAPABILITY, DNNL_MAX_CPU_ISA and "
                    "MKL_ENABLE_INSTRUCTIONS to what both have\n",
                    meet->own.processor, host, meet->said[host].processor);
            return;
        }
}

/* All have come, or the job cannot be: everybody who has come is told. */
static void answer_all(struct meet *meet, int status) {
    struct hosts *hosts = meet->hosts;
    static struct hosts_welcome welcome;
    struct protocol_problem refusal = meet_refusal(meet->problem);
    memcpy(welcome.cookie, hosts->cookie, PROTOCOL_COOKIE_CHARS);
    welcome.threads = hosts->threads;
    welcome.hosts = hosts->count;
    welcome.port = meet->own.port;
    memcpy(welcome.list, hosts->list, sizeof welcome.list);
    if (status) {
        for (int i = 0; i < MEET_STRANGERS; i++) /* the one that differs is among them */
            hosts_tell_peer(&meet->strangers[i], HOSTS_REFUSE, &refusal, sizeof refusal);
        hosts_tell_all(hosts, 0, HOSTS_REFUSE, &refusal, sizeof refusal);
    } else {
        hosts_tell_all(hosts, 0, HOSTS_WELCOME, &welcome, sizeof welcome);
    }
    hosts_flush(hosts);
}

int meet_as_first(struct meet *meet) {
    struct hosts *hosts = meet->hosts;
    struct meet_addresses addresses;
    int status = meet_resolve(meet, &addresses);
    if (status)
        return meet_fail(meet, "AR-HOSTS-ADDRESS", "name an address of the first host that the others can reach", "--master-addr '%s': %s",
                         meet->master, gai_strerror(status));
    struct sockaddr_storage address = meet_place(meet, &addresses);
    int listener = meet_listen(&address);
    if (listener < 0)
        return meet_fail(meet, "AR-HOSTS-PORT", "name another port on all hosts (--master-port), or end who has it: ss -tlnp",
                         "port %u of %s cannot be taken: %s", meet->port, meet->master, strerror(errno));
    snprintf(hosts->list[0].name, BOARD_HOST_CHARS, "%.*s", BOARD_HOST_CHARS - 1, meet->master);
    strcpy(hosts->list[0].node, meet->own.node);
    status = meet_open_leaders(meet, address) || wait_for_all(meet, listener) || give_ranks(meet);
    if (!status && secret_make(hosts->cookie, PROTOCOL_COOKIE_CHARS / 2))
        status = meet_fail(meet, "AR-MEMORY", "free some memory", "no random numbers from the system: %s", strerror(errno));
    hosts->threads = status ? 0 : agree_threads(meet);
    hosts->is_refused = status && !meet_is_over(meet);
    answer_all(meet, status);
    close(listener);
    if (!status)
        say_processors(meet);
    return status ? -1 : 0;
}
