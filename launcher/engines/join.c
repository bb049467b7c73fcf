#define _GNU_SOURCE
#include "join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../streams/logs.h"
#include "../plan.h"
#include "../secret.h"
#include "../segment.h"

/* ---- cores. Open MPI binds each rank to cores of its own, torchrun gives all of them the same. */

/* The part of its cores that a rank has when those who may use them, too, have theirs. */
static double part_of(const struct rendezvous_hello *hellos, uint32_t world_size, uint32_t rank) {
    double part = 0;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        uint32_t users = 0;
        if (!cpus_has(&hellos[rank].cpus, cpu))
            continue;
        for (uint32_t i = 0; i < world_size; i++)
            users += cpus_has(&hellos[i].cpus, cpu);
        part += 1.0 / users;
    }
    uint32_t count = cpus_count(&hellos[rank].cpus);
    return count ? part / count * hellos[rank].cores : 0;
}

uint32_t join_share(const struct rendezvous_hello *hellos, uint32_t world_size, uint32_t rank) {
    double share = part_of(hellos, world_size, rank) + 1e-6;
    return share < 1 ? 1 : (uint32_t)share;
}

uint32_t join_cores(const struct rendezvous_hello *hellos, uint32_t world_size) {
    double cores = 1e-6;
    for (uint32_t rank = 0; rank < world_size; rank++)
        cores += part_of(hellos, world_size, rank);
    return cores < 1 ? 1 : (uint32_t)cores;
}

/* ---- the page */

/* Most of it is never touched and takes no memory. */
static int make_memory(struct join *join, uint64_t slot_bytes) {
    join->memory = segment_memory(join_page_bytes() + JOIN_SLOTS * slot_bytes);
    if (join->memory < 0)
        return -1;
    void *page = mmap(NULL, join_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, join->memory, 0);
    join->page = page == MAP_FAILED ? NULL : page;
    return join->page ? 0 : -1;
}

static void fill_page(struct join *join, const struct config *config, const struct rendezvous_hello *hellos, uint64_t slot_bytes) {
    struct join_page *page = join->page;
    page->version = PROTOCOL_VERSION;
    page->world_size = join->world_size;
    page->slot_bytes = slot_bytes;
    page->stall_timeout_ms = config->stall_timeout_ms;
    page->grant = plan_grant(config, join->world_size, join_cores(hellos, join->world_size));
    page->grant.segment_bytes = slot_bytes;
    for (uint32_t rank = 0; rank < join->world_size; rank++) {
        page->ranks[rank].front = hellos[rank].front;
        page->ranks[rank].engine = hellos[rank].engine;
        page->ranks[rank].errors = page->ranks[rank].last_words = -1;
    }
    page->magic = JOIN_MAGIC;
}

/* ---- output: the file of --log-dir, or one in memory from which the last words are shown if the rank fails (shim/joined_words.c) */

static int make_output(struct join *join, const char *folder, uint32_t rank, struct problem *problem) {
    int *output = join->outputs[rank];
    if (*folder) {
        output[0] = logs_open(folder, rank, "out", O_RDWR | O_APPEND, problem);
        output[1] = output[0] < 0 ? -1 : logs_open(folder, rank, "err", O_RDWR | O_APPEND, problem);
        return output[1] < 0 ? -1 : 0;
    }
    output[0] = memfd_create("accel-run output", MFD_CLOEXEC);
    if (output[0] < 0 || fcntl(output[0], F_SETFL, O_APPEND))
        return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n', or run fewer ranks",
                           "cannot connect the ranks' output: %s", strerror(errno));
    output[1] = output[0];
    return 0;
}

static int make_outputs(struct join *join, const char *folder, struct problem *problem) {
    for (uint32_t rank = 0; rank < join->world_size; rank++)
        join->outputs[rank][0] = join->outputs[rank][1] = -1;
    if (*folder && logs_make_folder(folder, problem))
        return -1;
    for (uint32_t rank = 1; rank < join->world_size; rank++)
        if (make_output(join, folder, rank, problem))
            return -1;
    return 0;
}

int join_make(struct join *join, const struct config *config, const struct engine *engine, const char *program,
              const struct rendezvous_hello *hellos, struct problem *problem) {
    uint64_t slot_bytes = board_segment_bytes(engine->world_size);
    *join = (struct join){.world_size = engine->world_size, .memory = -1, .outputs = calloc(engine->world_size, sizeof *join->outputs)};
    if (!join->outputs || make_memory(join, slot_bytes) || secret_make(join->page->cookie, PROTOCOL_COOKIE_CHARS / 2))
        return problem_set(problem, EXIT_LAUNCHER, "AR-SEGMENT", "raise the limits of file size (ulimit -f) and memory, or use fewer ranks",
                           "the memory through which the ranks exchange cannot be made: %s", strerror(errno));
    fill_page(join, config, hellos, slot_bytes);
    snprintf(join->page->program, sizeof join->page->program, "%s", program);
    snprintf(join->page->engine, sizeof join->page->engine, "%s", engines_name(engine));
    return make_outputs(join, config->log_dir, problem);
}

void join_clear(struct join *join) {
    for (uint32_t rank = 0; join->outputs && rank < join->world_size; rank++)
        for (int which = 1; which >= 0; which--)
            if (join->outputs[rank][which] >= 0 && (which == 0 || join->outputs[rank][1] != join->outputs[rank][0]))
                close(join->outputs[rank][which]);
    free(join->outputs);
    if (join->page)
        munmap(join->page, join_page_bytes());
    if (join->memory >= 0)
        close(join->memory);
    *join = (struct join){.memory = -1};
}
