/* What this rank is doing, on the board: for the words of messages, and for whoever watches that it goes on. */
#include <string.h>

#include "joined.h"
#include "link.h"
#include "shim.h"

void shim_phase(enum board_phase phase, const char *where) {
    struct board *board = link_board();
    if (!board)
        return;
    struct board_rank *line = &board->ranks[link_slot()];
    atomic_store_explicit(&line->phase, phase, memory_order_relaxed);
    strncpy(line->where, where, BOARD_WHERE_CHARS - 1);
}

bool shim_is_in_phase(enum board_phase phase) {
    struct board *board = link_board();
    return board && atomic_load_explicit(&board->ranks[link_slot()].phase, memory_order_relaxed) == phase;
}

void shim_step_reset(void) {
    struct board *board = link_board();
    if (board)
        atomic_store_explicit(&board->ranks[link_slot()].step, 0, memory_order_relaxed);
    shim_phase(BOARD_SETUP, "start");
}

void shim_step_done(void) {
    struct board *board = link_board();
    if (joined_is_here() && joined_step())
        link_wait_for_end();
    if (board)
        atomic_fetch_add_explicit(&board->ranks[link_slot()].step, 1, memory_order_relaxed);
}
