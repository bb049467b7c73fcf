/* The symbol tables of the files this process was made from: what an address of the program is called. */
#ifndef ACCEL_SHIM_SYMBOLS_H
#define ACCEL_SHIM_SYMBOLS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/* The file that an address belongs to, mapped: the program or a library. */
struct symbols {
    const char *file; /* NULL: not found, or not an ELF file of this machine */
    size_t bytes;
    char *base; /* what its addresses are relative to */
};

/* Maps the file. To be closed. */
struct symbols symbols_open(const void *address);
void symbols_close(struct symbols *symbols);

/* Calls visit for every defined function and object of the full and of the dynamic table (some stand in both) until it returns true. Returns whether it did.
   address: where the symbol is in this process. */
typedef bool symbol_visitor(const char *name, char *address, void *data);
bool symbols_find(const struct symbols *symbols, symbol_visitor *visit, void *data);

/* A mangled name or type as C++ writes it, allocated; NULL when it is none or this process has no demangler. */
char *symbol_demangle(const char *mangled);

#endif
