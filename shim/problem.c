/* What the user is to be told: a problem stops the job, a warning does not. The launcher prints them; where it is gone they go to standard error. */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "explain.h"
#include "joined.h"
#include "last_words.h"
#include "link.h"
#include "shim.h"

enum { EXPLAIN_MS = 3000 };

__attribute__((format(printf, 4, 0))) static void fill(struct protocol_problem *problem, const char *id, const char *cure,
                                                       const char *format, va_list arguments) {
    *problem = (struct protocol_problem){.id = ""};
    snprintf(problem->id, sizeof problem->id, "%s", id);
    snprintf(problem->cure, sizeof problem->cure, "%s", cure);
    vsnprintf(problem->what, sizeof problem->what, format, arguments);
}

static void print_problem(const struct protocol_problem *problem) {
    dprintf(2, "accel-run: error %s: %s\n  what to do: %s\n", problem->id, problem->what, problem->cure);
}

/* The launcher stops the job, however little the program cares for its child's end. */
__attribute__((noreturn)) static void end_as_child(const struct protocol_problem *problem) {
    struct protocol_child message = {.problem = *problem};
    if (joined_has_parent())
        joined_stop_parent(problem);
    else if (!link_say_as_child(PROTOCOL_CHILD, &message.claim, sizeof message))
        print_problem(problem);
    _exit(125);
}

void shim_problem(const char *id, const char *cure, const char *format, ...) {
    struct protocol_problem problem;
    va_list arguments;
    va_start(arguments, format);
    fill(&problem, id, cure, format, arguments);
    va_end(arguments);
    if (shim_is_worker())
        end_as_child(&problem);
    if (joined_is_here()) {
        joined_problem(&problem);
        link_wait_for_end();
    }
    struct board *board = link_board();
    uint32_t running = 0;
    if (board)
        atomic_compare_exchange_strong(&board->abort, &running, link_slot() + 1);
    explain_send(EXPLAIN_STOPPED, "the program was stopped");
    if (link_slot()) /* rank 0's last words are said at the end of this: the launcher waits a moment for them, as here, but not for ever */
        last_words_await(board);
    if (shim_records() && link_slot()) /* rank 0, which meets the same or sees the abort word, is to say first what it has met */
        poll(NULL, 0, EXPLAIN_MS);
    if (!link_send(PROTOCOL_PROBLEM, &problem, sizeof problem))
        print_problem(&problem);
    link_wait_for_end();
}

void shim_warning(const char *id, const char *cure, const char *format, ...) {
    struct protocol_problem warning;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(warning.what, sizeof warning.what, format, arguments);
    va_end(arguments);
    shim_log('w', "%s: %s\n  what to do: %s", id, warning.what, cure);
}

void shim_tell_of_other(const char *id, const char *cure, const char *format, ...) {
    struct protocol_child message;
    va_list arguments;
    va_start(arguments, format);
    fill(&message.problem, id, cure, format, arguments);
    va_end(arguments);
    link_say_as_child(PROTOCOL_CHILD_WRITES, &message.claim, sizeof message);
}
