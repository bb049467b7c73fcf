#define _GNU_SOURCE
#include "first_host.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "comm/clock.h"
#include "link.h"
#include "shim.h"

enum { AGAIN_MS = 10 };

struct question {
    struct protocol_look look;
    char path[PROTOCOL_PATH_MAX];
};

struct answer {
    struct protocol_looked looked;
    char data[PROTOCOL_LOOK_DATA];
};

/* Of the thread that meets. */
static struct question question;
static struct answer answer;
static uint32_t limit_ms;
static volatile bool is_asking;

void first_host_begin(uint32_t timeout_ms) {
    limit_ms = timeout_ms;
}

bool first_host_is_away(void) {
    const struct board *board = link_board();
    return board && board->hosts > 1 && board->host && !is_asking && meeting_is_here();
}

bool first_host_is_this(void) {
    const struct board *board = link_board();
    return board && (board->hosts < 2 || !board->host);
}

const char *first_host_name(void) {
    return link_board()->list[0].name;
}

const char *first_host_own_name(void) {
    return link_board()->list[link_board()->host].name;
}

__attribute__((noreturn)) static void unanswered(void) {
    shim_problem("AR-FILE-HOSTS",
                 "Is the disk of that host, or its network, slow or gone? Where all hosts see one file system, look at its server.",
                 "rank %u has asked host 0 (%s) for '%s' and had no answer for %u s", shim_rank(), first_host_name(), question.path,
                 limit_ms / 1000);
}

/* One question and its answer. */
static void ask(struct clock_wait *wait) {
    static uint64_t number;
    question.look.number = ++number;
    if (!link_send_look(&question, (uint32_t)sizeof question.look + question.look.path_bytes))
        link_wait_for_end();
    do {
        while (!link_receive_look(&answer, sizeof answer)) {
            if (atomic_load_explicit(&link_board()->abort, memory_order_relaxed))
                link_wait_for_end();
            if (clock_waited_ms(wait) >= limit_ms)
                unanswered();
        }
    } while (answer.looked.number != number);
}

int first_host_fetch(enum protocol_look_what what, const char *path, uint64_t offset, struct protocol_status *status, const char **data,
                     uint32_t *bytes) {
    int saved_errno = errno;
    struct clock_wait wait = clock_wait_begin();
    size_t length = strlen(path);
    if (length >= sizeof question.path)
        return ENAMETOOLONG;
    is_asking = true;
    question.look = (struct protocol_look){.offset = offset, .what = what, .path_bytes = (uint32_t)length};
    memcpy(question.path, path, length + 1);
    for (ask(&wait); answer.looked.error == PROTOCOL_LOOK_LATER; ask(&wait)) {
        poll(NULL, 0, AGAIN_MS);
        if (clock_waited_ms(&wait) >= limit_ms)
            unanswered();
    }
    is_asking = false;
    if (status)
        *status = answer.looked.status;
    *data = answer.data;
    *bytes = answer.looked.bytes;
    errno = saved_errno;
    return answer.looked.error;
}

int first_host_look(enum protocol_look_what what, const char *path, uint64_t offset, struct protocol_status *status) {
    const char *data;
    uint32_t bytes;
    return first_host_fetch(what, path, offset, status, &data, &bytes);
}
