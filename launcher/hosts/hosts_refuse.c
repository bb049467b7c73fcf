/* This host has refused its part (a program that is not there, ranks that differ) and would leave the others waiting for it: they are told. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../clock.h"
#include "hosts_meet.h"

#define TELL_MS 5000 /* launchers start their hosts within some seconds; whoever comes later finds nobody */

static bool is_time_left(const struct meet *meet) {
    return clock_ms() - meet->begin_ms < TELL_MS;
}

/* The first host answers all when it has heard it. */
static void tell_first(struct meet *meet, const struct problem *problem) {
    struct hosts_cannot cannot = {.magic = MEET_MAGIC, .host = meet->config->node_rank, .problem = meet_refusal(problem)};
    struct sockaddr_storage address;
    const char *reason;
    snprintf(cannot.job_id, sizeof cannot.job_id, "%s", meet->config->job_id);
    for (bool is_heard = false; !is_heard && is_time_left(meet);) {
        struct hosts_peer first = {.descriptor = meet_connect(meet, &address, &reason)};
        struct hosts_header header;
        const char *body;
        int found = first.descriptor < 0 ? -1 : 0;
        if (!found)
            hosts_tell_peer(&first, HOSTS_CANNOT, &cannot, sizeof cannot);
        while (!found && is_time_left(meet) && !(found = hosts_read(&first, &header, &body)))
            poll(&(struct pollfd){first.descriptor, POLLIN, 0}, 1, MEET_AGAIN_MS);
        is_heard = found > 0;
        hosts_close(&first);
        if (!is_heard)
            poll(NULL, 0, MEET_AGAIN_MS);
    }
}

/* Returns how many hosts of the job have heard it now. */
static uint32_t tell_strangers(struct meet *meet, const struct protocol_problem *refusal) {
    uint32_t told = 0;
    struct hosts_header header;
    const char *body;
    for (int i = 0; i < MEET_STRANGERS; i++) {
        struct hosts_peer *stranger = &meet->strangers[i];
        int found = stranger->descriptor >= 0 ? hosts_read(stranger, &header, &body) : 0;
        if (!found)
            continue;
        struct hosts_hello hello = {.magic = 0};
        if (found > 0 && header.type == HOSTS_HELLO && header.bytes == sizeof hello)
            memcpy(&hello, body, sizeof hello);
        if (hello.magic == MEET_MAGIC && !strncmp(hello.job_id, meet->config->job_id, sizeof hello.job_id)) {
            hosts_tell_peer(stranger, HOSTS_REFUSE, refusal, sizeof *refusal);
            told++;
        }
        hosts_close(stranger);
    }
    return told;
}

static void tell_others(struct meet *meet, const struct problem *problem) {
    struct protocol_problem refusal = meet_refusal(problem);
    struct sockaddr_storage address;
    snprintf(refusal.what, sizeof refusal.what, "host 0 (%.60s): %.1900s", meet->master, problem->what);
    int listener = meet_resolve(meet, &address) ? -1 : meet_listen(&address);
    struct pollfd knock = {listener, POLLIN, 0};
    for (uint32_t told = 0; listener >= 0 && told + 1 < meet->config->nnodes && is_time_left(meet);) {
        poll(&knock, 1, MEET_AGAIN_MS);
        meet_take_strangers(meet, listener);
        told += tell_strangers(meet, &refusal);
    }
    for (int i = 0; i < MEET_STRANGERS; i++)
        hosts_close(&meet->strangers[i]);
    if (listener >= 0)
        close(listener);
}

void hosts_refuse(const struct config *config, const struct problem *problem) {
    struct meet *meet = calloc(1, sizeof *meet);
    if (!meet)
        return;
    meet->config = config;
    meet->begin_ms = clock_ms();
    for (int i = 0; i < MEET_STRANGERS; i++)
        meet->strangers[i].descriptor = -1;
    if (!config_master(config, meet->master, sizeof meet->master, &meet->port)) {
        if (config->node_rank)
            tell_first(meet, problem);
        else
            tell_others(meet, problem);
    }
    free(meet);
}
