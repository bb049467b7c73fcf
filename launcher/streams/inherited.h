/*
 * Descriptors beyond standard input, output and error that the launcher has been started with ("3>log", "<(zcat data.gz)", which is /dev/fd/63): N ranks
 * would write to one, and each would read another part of one.
 *
 *   a pipe that is written                    rank 0 has it, the others /dev/null, and the launcher no longer: the reader sees the end
 *   a file that may be written                rank 0 has it, the others their own copy without a name, as long, with the content if it may be read
 *   a file that is read alone                 rank 0 has it, the others their own at the same position
 *   a pipe that is read                       every rank gets a copy through a pipe (input.h), if an argument names it: what nobody asks for may be
 *                                             somebody else's, whose bytes must not be taken
 *   a pipe that is standard input, too        the same copy
 *   make's jobserver, all else                as it is
 */
#ifndef ACCEL_RUN_INHERITED_H
#define ACCEL_RUN_INHERITED_H

#include "../spawn.h"
#include "input.h"

enum { INHERITED_MOST = 64 };

struct inherited_one {
    int number, flags; /* as fcntl's F_GETFL */
    bool is_file;
    int copy; /* owned until the rank is started: its copy of a file that may be written; 0: none */
    const struct input
        *reader; /* what the ranks have: `input`, or that of another number of the same pipe ("3<&0"); NULL: rank 0 alone writes */
    struct input input;
};

struct inherited {
    struct inherited_one list[INHERITED_MOST];
    size_t count;
    bool has_later; /* ranks on hosts before this one */
    int nowhere;    /* owned: /dev/null; 0: none */
};

struct inherited_request {
    char *const *arguments;
    const char *make_flags;       /* the variable MAKEFLAGS, or NULL */
    uint32_t world_size;          /* on this host */
    uint32_t first;               /* number of the first rank here */
    const struct input *standard; /* input */
};

/* Before the launcher opens anything that it does not close on exec. Returns 0 or -1 with *problem. */
int inherited_open(struct inherited *inherited, const struct inherited_request *request, struct problem *problem);
/* What the rank (of this host) has instead: list[INHERITED_MOST]. Returns how many. Once for each rank, before it is started. */
size_t inherited_descriptors(struct inherited *inherited, uint32_t rank, struct spawn_descriptor *list);
void inherited_started(struct inherited *inherited, uint32_t rank);
/* All ranks are: nobody writes from here. */
void inherited_all_started(struct inherited *inherited);
void inherited_add(struct inherited *inherited, struct loop *loop);
/* Of one of them (input.h). */
bool inherited_has_gap(const struct inherited *inherited);
void inherited_clear(struct inherited *inherited);

/* Does an argument name the descriptor: "--data=/dev/fd/63"? */
bool inherited_is_named(char *const *arguments, int number);
/* Is it one of the two by which the makes above share their jobs ("--jobserver-auth=3,4")? */
bool inherited_is_of_make(const char *make_flags, int number);

#endif
