/* The hook table: one entry per row of hooks/hooks.def. */
#include "../config/protocol.h"
#include "shim.h"

struct hook_row hook_table[HOOK_COUNT] = {
#define HOOK(name, library, need, symbol, type, arguments) {#name, #library, symbol, need, (void *)hook_##name, NULL},
#include "../hooks/hooks.def"
#undef HOOK
};

/* The same table as text, a line "name library need symbol" each, in a section that `accel-run doctor` reads from the file: so it knows the rows of the library
   that will be preloaded, and not of another build. */
__attribute__((section(PROTOCOL_ROWS_SECTION), used)) static const char rows[] =
#define HOOK(name, library, need, symbol, type, arguments) #name " " #library " " #need " " symbol "\n"
#include "../hooks/hooks.def"
#undef HOOK
    ;
