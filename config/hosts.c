/* What the settings of several hosts come to when all sources have been read. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

/* Digits alone: strtoul would take blanks and signs before them. */
static bool read_port(const char *text, uint32_t *port) {
    size_t length = strspn(text, "0123456789");
    *port = length && length <= 5 && !text[length] ? (uint32_t)strtoul(text, NULL, 10) : 0;
    return *port && *port <= 65535;
}

int config_master(const struct config *config, char *host, size_t size, uint32_t *port) {
    const char *text = config->master_addr, *colon = strrchr(text, ':');
    size_t length = strlen(text);
    *port = config->master_port;
    /* "fe80::1" is an address, "[fe80::1]:29500" one with a port */
    if (colon && (strchr(text, ':') == colon || (colon > text && colon[-1] == ']'))) {
        if (!read_port(colon + 1, port))
            return -1;
        length = (size_t)(colon - text);
    }
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (!length || length >= size)
        return -1;
    memcpy(host, text, length);
    host[length] = 0;
    return 0;
}

/* `id`: the option that is wrong. One of a file is found by line and column. */
static int fail(const struct config *config, enum config_id id, char *fault, const char *format, ...) __attribute__((format(printf, 4, 5)));
static int fail(const struct config *config, enum config_id id, char *fault, const char *format, ...) {
    size_t n = 0;
    va_list list;
    if (config->origin[id] == CONFIG_FROM_FILE)
        n = (size_t)snprintf(fault, CONFIG_FAULT_CHARS, "%.90s:%u:%u: ", config->file, config->line[id], config->column[id]);
    va_start(list, format);
    vsnprintf(fault + n, CONFIG_FAULT_CHARS - n, format, list);
    va_end(list);
    return -1;
}

int config_share_hosts(struct config *config, char *fault) {
    char host[256];
    uint32_t port;
    if (config->nnodes == 1) {
        if (config->node_rank) /* every host would train by itself */
            return fail(config, CONFIG_ID_node_rank, fault, "--node-rank %u says that there are several hosts: how many? --nnodes is %u",
                        config->node_rank, config->nnodes);
        config->origin[CONFIG_ID_node_rank] =
            CONFIG_FROM_DEFAULT; /* machine_rank: 0, which every file of Accelerate has, says nothing then */
        return 0;
    }
    if (config->node_rank >= config->nnodes)
        return fail(config, CONFIG_ID_node_rank, fault, "--node-rank %u is not below --nnodes %u (the first host is 0)", config->node_rank,
                    config->nnodes);
    if (*config->master_addr && config_master(config, host, sizeof host, &port))
        return fail(config, CONFIG_ID_master_addr, fault, "--master-addr: '%.80s' is not HOST or HOST:PORT", config->master_addr);
    if (!config->ranks_are_total)
        return 0;
    if (config->ranks % config->nnodes)
        return fail(config, CONFIG_ID_ranks, fault,
                    "num_processes is %u over all hosts, which %u hosts cannot share evenly; -n says how many ranks this host has",
                    config->ranks, config->nnodes);
    config->ranks /= config->nnodes;
    config->ranks_are_total = false;
    return 0;
}

int config_settle_hosts(struct config *config, char *fault) {
    if (config_share_hosts(config, fault))
        return -1;
    if (config->nnodes > 1 && config->origin[CONFIG_ID_node_rank] == CONFIG_FROM_DEFAULT)
        return fail(config, CONFIG_ID_nnodes, fault,
                    "--nnodes %u needs --node-rank on each host: 0 on the first one, 1 to %u on the others", config->nnodes,
                    config->nnodes - 1);
    if (config->nnodes > 1 && !*config->master_addr)
        return fail(config, CONFIG_ID_nnodes, fault,
                    "--nnodes %u needs --master-addr, the address of the first host (--node-rank 0; this is host %u)", config->nnodes,
                    config->node_rank);
    return 0;
}
