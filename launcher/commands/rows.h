/*
 * The functions that libaccelshim.so hooks and calls (read from the file: PROTOCOL_ROWS_SECTION), and how they are bound in a libtorch: read with libelf
 * from symbols and relocations, nothing is loaded.
 */
#ifndef ACCEL_RUN_ROWS_H
#define ACCEL_RUN_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum row_need { ROW_REQUIRED, ROW_OPTIONAL, ROW_VARIANT };

struct row {
    const char *name, *library, *symbol; /* in the text */
    enum row_need need;
    bool is_call; /* the shim calls the function; else it hooks it. Both spellings of a called one have the same name */
    /* what was found */
    bool is_present;  /* the library defines the symbol */
    uint64_t address; /* in its file */
    bool by_name;     /* some file refers to it by its symbol: a preloaded function of that name is called instead */
    bool by_address;  /* its library refers to it by address: it is bound to itself there */
};

struct rows {
    char *text;             /* owned */
    struct row *list;       /* owned, hooks in the order of hooks/hooks.def */
    struct row **by_symbol; /* owned: the same, in the order of the symbols */
    int count;
};

/* Returns 0, or -1 when the file has no such section (or is not ELF). */
int rows_read(struct rows *rows, const char *shim);

/* Adds what a file says; library: the rows' name for it ("libtorch_cpu"), "" for a program. Returns 0, or -1 when it cannot be read. */
int rows_look(struct rows *rows, const char *path, const char *library);

/* Is the function there, in one of its spellings? Those of a hook are VARIANT rows whose names are alike up to the last '_'. */
bool rows_is_satisfied(const struct rows *rows, const struct row *row);

/* Is the library linked so that it calls its own functions whatever is preloaded (-Bsymbolic)? Then some row is by address. */
bool rows_is_bound(const struct rows *rows, const char *library);

/* "by name", "by address (bound to itself)", "by other files only", "absent". */
const char *rows_binding(const struct row *row);

void rows_clear(struct rows *rows);

#endif
