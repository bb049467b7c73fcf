#define _GNU_SOURCE
#include "attached.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct attached *make(struct attached_list *list, const struct segments *job, uint64_t program) {
    struct attached *attached = calloc(1, sizeof *attached);
    if (!attached)
        return NULL;
    if (segment_make(&attached->segment, job)) {
        int error = errno;
        free(attached);
        errno = error;
        return NULL;
    }
    attached->program = program;
    attached->world_size = job->world_size;
    attached->next = list->newest;
    return list->newest = attached;
}

struct attached *attached_come(struct attached_list *list, const struct segments *job, uint64_t program, uint32_t rank) {
    struct attached *found = NULL;
    for (struct attached *one = list->newest; one; one = one->next)
        if (one->program == program && !one->has_come[rank])
            found = one; /* the oldest */
    if (!found && !(found = make(list, job, program)))
        return NULL;
    found->has_come[rank] = true;
    found->come++;
    found->open++;
    return found;
}

static void drop(struct attached *attached) {
    munmap(attached->segment.board, board_bytes());
    close(attached->segment.memfd);
    free(attached);
}

void attached_leave(struct attached_list *list, struct attached *attached) {
    if (--attached->open || attached->come < attached->world_size || attached->is_kept)
        return;
    struct attached **place = &list->newest;
    while (*place != attached)
        place = &(*place)->next;
    *place = attached->next;
    drop(attached);
}

void attached_abort(const struct attached_list *list) {
    for (struct attached *one = list->newest; one; one = one->next) {
        uint32_t running = 0;
        atomic_compare_exchange_strong(&one->segment.board->abort, &running, BOARD_ABORT_LAUNCHER);
    }
}

void attached_clear(struct attached_list *list) {
    while (list->newest) {
        struct attached *one = list->newest;
        list->newest = one->next;
        drop(one);
    }
}
