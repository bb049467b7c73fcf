/* Resolves libtorch's functions by name, trying every spelling and both libraries: symbols moved between libc10 and libtorch_cpu over the releases. */
#include <stdarg.h>
#include <stdio.h>

#include "../../config/protocol.h"
#include "../shim.h"
#include "../resolve.h"
#include "functions.h"

struct torch_functions torch_functions;

static void *functions_find(const char *symbol) {
    void *function = resolve_function("libtorch_cpu", symbol);
    return function ? function : resolve_function("libc10", symbol);
}

const char *functions_resolve(void) {
#define REQUIRED_MISSING(need) (need == REQUIRED)
#define TORCH(name, library, need, type, arguments, symbol, other)                                                                         \
    torch_functions.name = (__typeof__(torch_functions.name))functions_find(symbol);                                                       \
    if (!torch_functions.name && (other))                                                                                                  \
        torch_functions.name = (__typeof__(torch_functions.name))functions_find(other);                                                    \
    if (!torch_functions.name && REQUIRED_MISSING(need))                                                                                   \
        return symbol;
#include "functions.def"
#undef TORCH
    return NULL;
}

/* The functions that are called, for `accel-run doctor`, as the hooks in shim/table.c; the other spelling, in quotes or NULL, as fifth word. */
__attribute__((section(PROTOCOL_ROWS_SECTION), used)) static const char rows[] =
#define TORCH(name, library, need, type, arguments, symbol, other) #name " " #library " CALLED_" #need " " symbol " " #other "\n"
#include "functions.def"
#undef TORCH
    ;

void torch_unsupported(const char *check, const char *format, ...) {
    char detail[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    shim_problem(
        "AR-TORCH-UNSUPPORTED",
        "Use a libtorch that accel-run supports (docs/compatibility.md), or run the program without accel-run; please report this build.",
        "the libtorch loaded from %s is not supported: check '%s' failed: %s", resolve_libtorch_path(), check, detail);
}
