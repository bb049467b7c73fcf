/* This host has refused its part (a program that is not there, ranks that differ), or the first one has refused all: who comes later is told, too. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../clock.h"
#include "hosts_meet.h"

#define TERMINAL_MS 5000 /* who sits there has read it, and wants to go on; other hosts may come as late as they may to a job that can be */

static bool is_time_left(const struct meet *meet) {
    return isatty(STDERR_FILENO) ? clock_ms() - meet->begin_ms < TERMINAL_MS && !meet_is_over(meet) : !meet_is_over(meet);
}

/* Why this accel-run, which has said that nothing will be, is still there. */
static void say_waiting(struct meet *meet, uint32_t host) {
    char whom[64];
    snprintf(whom, sizeof whom, "host %u of %u, to tell it,", host, meet->config->nnodes);
    if (clock_ms() - meet->begin_ms >= TERMINAL_MS)
        meet_say_waiting(meet, whom, NULL);
}

/* The first host answers all when it has heard it. */
static void tell_first(struct meet *meet, const struct problem *problem) {
    struct hosts_cannot cannot = {.magic = MEET_MAGIC, .host = meet->config->node_rank, .problem = meet_refusal(problem)};
    struct sockaddr_storage address;
    const char *reason;
    snprintf(cannot.job_id, sizeof cannot.job_id, "%s", meet->config->job_id);
    while (is_time_left(meet)) {
        struct hosts_peer first = {.descriptor = meet_connect(meet, &address, &reason)};
        struct hosts_header header;
        const char *body;
        int found = first.descriptor < 0 ? -1 : 0;
        if (!found)
            hosts_tell_peer(&first, HOSTS_CANNOT, &cannot, sizeof cannot);
        while (!found && is_time_left(meet) && !(found = hosts_read(&first, &header, &body)))
            poll(&(struct pollfd){first.descriptor, POLLIN, 0}, 1, MEET_AGAIN_MS);
        hosts_close(&first);
        if (found > 0)
            return;
        poll(NULL, 0, MEET_AGAIN_MS);
        say_waiting(meet, 0);
    }
}

/* The number of a host of the job, which has said who it is or that it has refused, too; 0: none. */
static uint32_t host_of(const struct meet *meet, const struct hosts_header *header, const char *body) {
    struct hosts_hello hello = {.magic = 0};
    struct hosts_cannot cannot = {.magic = 0};
    const char *job_id = hello.job_id;
    if (header->type == HOSTS_HELLO && header->bytes == sizeof hello)
        memcpy(&hello, body, sizeof hello);
    if (header->type == HOSTS_CANNOT && header->bytes == sizeof cannot) {
        memcpy(&cannot, body, sizeof cannot);
        hello.magic = cannot.magic;
        hello.host = cannot.host;
        job_id = cannot.job_id;
    }
    bool is_of_the_job = hello.magic == MEET_MAGIC && !strncmp(job_id, meet->config->job_id, sizeof hello.job_id);
    return is_of_the_job && hello.host < meet->config->nnodes ? hello.host : 0;
}

static void tell_strangers(struct meet *meet, const struct protocol_problem *refusal, bool *is_told) {
    struct hosts_header header;
    const char *body;
    for (int i = 0; i < MEET_STRANGERS; i++) {
        struct hosts_peer *stranger = &meet->strangers[i];
        int found = stranger->descriptor >= 0 ? hosts_read(stranger, &header, &body) : 0;
        if (!found)
            continue;
        uint32_t host = found > 0 ? host_of(meet, &header, body) : 0;
        if (host)
            hosts_tell_peer(stranger, HOSTS_REFUSE, refusal, sizeof *refusal);
        is_told[host] = true;
        hosts_close(stranger);
    }
}

/* Who has not been told yet: the first of them, or the number of hosts. */
static uint32_t next_untold(const struct meet *meet, const bool *is_told) {
    uint32_t host = 1;
    while (host < meet->config->nnodes && is_told[host])
        host++;
    return host;
}

/* is_told: as struct hosts has it. */
static void tell_others(struct meet *meet, const struct protocol_problem *refusal, bool *is_told) {
    struct meet_addresses addresses;
    struct sockaddr_storage address;
    uint32_t untold;
    int listener = -1;
    if (!meet_resolve(meet, &addresses)) {
        address = meet_place(meet, &addresses);
        listener = meet_listen(&address);
    }
    struct pollfd knock = {listener, POLLIN, 0};
    while (listener >= 0 && (untold = next_untold(meet, is_told)) < meet->config->nnodes && is_time_left(meet)) {
        say_waiting(meet, untold);
        poll(&knock, 1, MEET_AGAIN_MS);
        meet_take_strangers(meet, listener);
        tell_strangers(meet, refusal, is_told);
    }
    for (int i = 0; i < MEET_STRANGERS; i++)
        hosts_close(&meet->strangers[i]);
    if (listener >= 0)
        close(listener);
}

void hosts_refuse(const struct config *config, struct hosts *hosts, const struct problem *problem) {
    static bool nobody[BOARD_RANKS_MAX];
    struct protocol_problem refusal = meet_refusal(problem);
    struct meet *meet = calloc(1, sizeof *meet);
    if (!meet)
        return;
    meet->config = config;
    meet->begin_ms = clock_ms();
    for (int i = 0; i < MEET_STRANGERS; i++)
        meet->strangers[i].descriptor = -1;
    if (!config_master(config, meet->master, sizeof meet->master, &meet->port)) {
        if (!hosts)
            snprintf(refusal.what, sizeof refusal.what, "host 0 (%.60s): %.1900s", meet->master, problem->what);
        if (config->node_rank)
            tell_first(meet, problem);
        else
            tell_others(meet, &refusal, hosts ? hosts->is_told : nobody);
    }
    free(meet);
}
