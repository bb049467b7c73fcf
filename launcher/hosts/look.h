/*
 * Ranks of other hosts look at the first host's files: there rank 0 writes, so what lies there is what one process would see.
 *
 * Rules
 *  - A rank asks its launcher (config/protocol.h), which passes the question on to the first host's; the answer goes the same way back. Ranks of the first
 *    host look for themselves.
 *  - Nobody waits for another rank: rank 0 changes files only when all ranks have come to a meeting (shim/meeting.h), so between two meetings it does not
 *    matter when somebody looks.
 *  - The first host's launcher itself touches no disk: a thread does, with the launcher's own rights (look_serve.c). A disk that does not answer holds up who
 *    has asked, nobody else.
 *  - Folders below the one that accel-run was started in are the same folder on all hosts, whatever it is called there; other paths are what they say.
 */
#ifndef ACCEL_RUN_LOOK_H
#define ACCEL_RUN_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../config/protocol.h"
#include "../loop.h"

struct job;

/* What goes to the first host, and to its thread. */
struct look_sent {
    uint32_t rank;
    uint32_t is_below; /* the path is relative to the folder that the first host's accel-run was started in */
    struct protocol_look look;
    char path[PROTOCOL_PATH_MAX]; /* terminated; look.path_bytes are sent */
};

/* What comes back: of it the rank gets all behind its number. */
struct look_answer {
    uint32_t rank, unused;
    struct protocol_looked looked;
    char data[PROTOCOL_LOOK_DATA];
};

/* A rank of this host asks: struct protocol_look and its path. */
void look_ask(struct job *job, uint32_t rank, const char *body, uint32_t bytes);
/* HOSTS_LOOK, on the first host, and HOSTS_LOOKED. */
void look_hear(struct job *job, const char *body, uint32_t bytes);
void look_hear_answer(struct job *job, const char *body, uint32_t bytes);
void look_add(struct job *job, struct loop *loop);

/* look_serve.c: looks. Fills all of *answer but the rank; at most its looked.bytes of data count. */
void look_serve(const struct look_sent *sent, struct look_answer *answer);
/* path below folder (both absolute) → what follows it, or NULL: it lies elsewhere. Pure. */
const char *look_below(const char *folder, const char *path);
/* The same, below the folder that this accel-run was started in. */
const char *look_below_start(const char *path);

static inline size_t look_answer_bytes(const struct look_answer *answer) {
    return offsetof(struct look_answer, data) + answer->looked.bytes;
}

#endif
