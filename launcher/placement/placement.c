#include "placement.h"

#include <stdlib.h>
#include <string.h>

/* A rank's share: cores [first, end) in the order of the topology. */
struct share {
    uint32_t first, end;
};

/* The place in the topology's list where core number `core` begins; count for the one behind the last. */
static uint32_t start_of(const struct topology *topology, uint32_t core) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < topology->count; i++)
        if (!i || topology->list[i].core != topology->list[i - 1].core)
            if (seen++ == core)
                return i;
    return topology->count;
}

/* Splits cores [first, end) among ranks [rank, rank + count): each the same, the first ones one more. */
static void split(struct share *shares, uint32_t rank, uint32_t count, struct share cores) {
    uint32_t all = cores.end - cores.first, at = cores.first;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = all / count + (i < all % count);
        shares[rank + i] = (struct share){at, at + size};
        at += size;
    }
}

/* The cores of the node that core `first` is in. */
static struct share node_at(const struct topology *topology, uint32_t first) {
    uint32_t i = start_of(topology, first);
    uint32_t node = topology->list[i].node, end = first;
    for (; i < topology->count && topology->list[i].node == node; i++)
        end += !i || topology->list[i].core != topology->list[i - 1].core;
    return (struct share){first, end};
}

/* Each node gets as many ranks as have room for their share there. Returns whether that was all. */
static bool share_nodes(const struct topology *topology, uint32_t ranks, struct share *shares) {
    uint32_t rank = 0, share = topology->cores / ranks;
    for (struct share node = {0, 0}; node.end < topology->cores && rank < ranks;) {
        node = node_at(topology, node.end);
        uint32_t room = (node.end - node.first) / share;
        room = room > ranks - rank ? ranks - rank : room;
        split(shares, rank, room, node);
        rank += room;
    }
    return rank == ranks;
}

static uint32_t unit_of(const struct topology_cpu *cpu, enum config_bind level) {
    switch (level) {
    case CONFIG_BIND_CACHE:
        return cpu->cache;
    case CONFIG_BIND_NUMA:
        return cpu->node;
    case CONFIG_BIND_SOCKET:
        return cpu->socket;
    default:
        return cpu->core;
    }
}

/* All processors in the units that the share touches. */
static void widen(const struct topology *topology, struct share share, enum config_bind level, struct cpus *set) {
    uint32_t first = start_of(topology, share.first), end = start_of(topology, share.end);
    for (uint32_t i = first; i < end; i++) {
        if (i > first && unit_of(&topology->list[i], level) == unit_of(&topology->list[i - 1], level))
            continue;
        for (uint32_t j = 0; j < topology->count; j++)
            if (unit_of(&topology->list[j], level) == unit_of(&topology->list[i], level))
                cpus_add(set, topology->list[j].number);
    }
}

static const char *why_nothing(const struct placement *placement) {
    const struct topology *topology = placement->topology;
    if (placement->ranks == 1)
        return "one rank has the whole machine";
    if (placement->ranks > topology_cores(topology))
        return "more ranks than cores";
    if (placement->wanted != CONFIG_BIND_AUTO)
        return "";
    if (topology->nodes < 2)
        return "one NUMA node";
    if (topology->count < topology->machine_cpus)
        return "accel-run itself was bound already (srun, taskset, numactl)";
    if (topology->quota_cores && topology->quota_cores < topology->cores)
        return "the control group has a quota: others use these processors, too";
    return "";
}

static bool sets_are_equal_in_size(const struct placement *placement) {
    for (uint32_t i = 1; i < placement->ranks; i++)
        if (cpus_count(&placement->sets[i]) != cpus_count(&placement->sets[0]))
            return false;
    return true;
}

static void drop(struct placement *placement, const char *why) {
    placement_clear(placement);
    placement->done = CONFIG_BIND_NONE;
    placement->why = why;
}

int placement_build(struct placement *placement, const struct topology *topology, enum config_bind wanted, uint32_t ranks) {
    *placement = (struct placement){.topology = topology, .wanted = wanted, .why = "", .ranks = ranks};
    if (wanted == CONFIG_BIND_NONE)
        return 0;
    placement->why = why_nothing(placement);
    if (*placement->why)
        return 0;
    placement->done = wanted == CONFIG_BIND_AUTO ? CONFIG_BIND_NUMA : wanted;
    struct share *shares = calloc(ranks, sizeof *shares);
    placement->sets = calloc(ranks, sizeof *placement->sets);
    if (!shares || !placement->sets) {
        free(shares);
        return -1;
    }
    bool fits = share_nodes(topology, ranks, shares);
    if (!fits)
        split(shares, 0, ranks, (struct share){0, topology->cores});
    for (uint32_t i = 0; i < ranks; i++)
        widen(topology, shares[i], placement->done, &placement->sets[i]);
    free(shares);
    if (wanted == CONFIG_BIND_AUTO && (!fits || !sets_are_equal_in_size(placement)))
        drop(placement, "the ranks do not fit evenly into the NUMA nodes");
    return 0;
}

void placement_clear(struct placement *placement) {
    free(placement->sets);
    placement->sets = NULL;
}

const struct cpus *placement_of(const struct placement *placement, uint32_t rank) {
    return placement && placement->sets && rank < placement->ranks ? &placement->sets[rank] : NULL;
}

void placement_print(const struct placement *placement, FILE *out) {
    const struct topology *topology = placement->topology;
    char text[CPUS_TEXT_CHARS];
    fprintf(out, "processors          %u of %u; cores %u, caches %u, NUMA nodes %u, sockets %u", topology->count, topology->online,
            topology->cores, topology->caches, topology->nodes, topology->sockets);
    fprintf(out, topology->quota_cores ? "; quota %u\n" : "\n", topology->quota_cores);
    fprintf(out, "binding             %s%s%s\n", config_bind_name(placement->done), *placement->why ? ": " : "", placement->why);
    for (uint32_t i = 0; placement->sets && i < placement->ranks; i++) {
        cpus_text(&placement->sets[i], text, sizeof text);
        fprintf(out, "rank %-14u processors %s\n", i, text);
    }
}
