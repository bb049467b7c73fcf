/*
 * Hosts for unit tests: each has a segment of its own, as on a machine of its own; their leaders speak over the loopback device.
 */
#ifndef ACCEL_TESTS_HOSTS_H
#define ACCEL_TESTS_HOSTS_H

#include "loopback.h"
#include "ranks.h"

#include <unistd.h>

enum { HOSTS_MAX = 4 };

/* Ranks on each host; 0 ends. */
struct layout {
    uint32_t counts[HOSTS_MAX + 1];
};

static const struct layout layouts[] = {{{1, 1}}, {{2, 1}}, {{1, 2}}, {{2, 2}}, {{1, 1, 1}}, {{2, 1, 3}}};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static struct layout layout; /* of the job in progress */
static uint32_t hosts;
static struct board *boards[HOSTS_MAX];
static int listeners[HOSTS_MAX];

static void make_hosts(const struct layout *wanted) {
    static struct board_host list[HOSTS_MAX];
    layout = *wanted;
    world = 0;
    for (hosts = 0; layout.counts[hosts]; hosts++) {
        snprintf(list[hosts].name, sizeof list[hosts].name, "127.0.0.%u", hosts + 1);
        list[hosts].first = world;
        list[hosts].count = layout.counts[hosts];
        listeners[hosts] = loopback_listen(&list[hosts]);
        world += layout.counts[hosts];
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (uint32_t host = 0; host < hosts; host++) {
        boards[host] = mmap(NULL, segment_bytes(world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        boards[host]->magic = BOARD_MAGIC;
        boards[host]->world_size = world;
        boards[host]->hosts = hosts;
        boards[host]->host = host;
        memcpy(boards[host]->list, list, hosts * sizeof *list);
    }
}

static uint32_t host_of(uint32_t rank) {
    uint32_t host = 0;
    while (rank >= boards[0]->list[host].first + boards[0]->list[host].count) {
        host++;
    }
    return host;
}

static pid_t start_on_host(uint32_t rank, void (*body)(void)) {
    board = boards[host_of(rank)];
    listener = rank == board->list[board->host].first ? listeners[board->host] : -1;
    return start_rank(rank, body);
}

static void clear_hosts(void) {
    for (uint32_t host = 0; host < hosts; host++) {
        munmap(boards[host], segment_bytes(world));
        close(listeners[host]);
    }
    munmap(shared, sizeof *shared);
    listener = -1;
}

/* Runs body on every rank; EXPECTs that each ends with status expected. Leaves the reports until clear_hosts(). */
static void run_on(const struct layout *wanted, void (*body)(void), int expected) {
    pid_t pids[RANKS_MAX];
    make_hosts(wanted);
    for (uint32_t rank = 0; rank < world; rank++) {
        pids[rank] = start_on_host(rank, body);
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        int ended = end_of(pids[rank]);
        if (ended != expected) {
            printf("    rank %u of %u on %u hosts ended with %d: %s %s\n", rank, world, hosts, ended, shared->reports[rank].id,
                   shared->reports[rank].text);
        }
        EXPECT(ended == expected);
        EXPECT(expected || !memcmp(shared->digest[rank], shared->digest[0], sizeof shared->digest[0]));
    }
}

__attribute__((unused)) static void run_layouts(void (*body)(void)) {
    for (int index = 0; index < LAYOUTS; index++) {
        run_on(&layouts[index], body, 0);
        clear_hosts();
    }
}

#endif
