#include "gpu_peers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WORD_CHARS = 16 };

/* The next word of the line; returns what follows it, or NULL at the line's end. */
static const char *next_word(const char *at, char *word) {
    at += strspn(at, " \t\r");
    size_t n = strcspn(at, " \t\r\n");
    snprintf(word, WORD_CHARS, "%.*s", (int)n, at);
    return n ? at + n : NULL;
}

/* A row: "GPU1" and a cell for each GPU. The heading has names only. Returns its cells, 0: another line, -1: no such cell. */
static int read_row(const char *line, int row, struct gpu_peers *peers) {
    char name[WORD_CHARS], cell[WORD_CHARS];
    const char *at = next_word(line, name);
    int cells = 0;
    if (!at || strncmp(name, "GPU", 3) != 0 || !isdigit((unsigned char)name[3]))
        return 0;
    for (; (at = next_word(at, cell)) && strncmp(cell, "GPU", 3) != 0; cells++) {
        if ((cells == row) != !strcmp(cell, "X"))
            return -1;
        if (cells == row)
            continue;
        bool is_reachable = !strcmp(cell, "OK");
        peers->pairs++;
        peers->reachable += is_reachable;
        if (!is_reachable && !*peers->first_fault)
            snprintf(peers->first_fault, sizeof peers->first_fault, "GPU%d from %s: %s", cells, name, cell);
    }
    return cells;
}

int gpu_peers_read(const char *text, struct gpu_peers *peers) {
    int rows = 0, width = 0;
    *peers = (struct gpu_peers){0};
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int cells = read_row(line, rows, peers);
        if (cells < 0 || (cells > 0 && rows && cells != width))
            return -1;
        width = cells ? cells : width;
        rows += cells > 0;
    }
    return rows > 1 && rows == width ? 0 : -1;
}
