/* Finding functions and data of the libraries the program has loaded. */
#ifndef ACCEL_SHIM_RESOLVE_H
#define ACCEL_SHIM_RESOLVE_H

#include <stdbool.h>

/* The address of a symbol in the loaded library whose soname begins with `library` (libtorch_cpu, libc10, libtorch_python), or NULL. Takes no lock of
   ours; may be called from any thread, not from a signal handler. */
void *resolve_function(const char *library, const char *symbol);
/* Data: the program's COPY relocation is the live one, so the global scope comes first (libtorch.md 1.3). */
void *resolve_data(const char *library, const char *symbol);
/* A function of the interpreter, which exports its API globally; NULL in a program without one. */
void *resolve_python(const char *symbol);
/* True when libtorch_cpu is mapped in this process. */
bool resolve_has_libtorch(void);
/* The path libtorch_cpu was loaded from, or "?" (for messages). */
const char *resolve_libtorch_path(void);

#endif
