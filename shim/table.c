/* The hook table: one entry per row of hooks/hooks.def. */
#include "shim.h"

struct hook_row hook_table[HOOK_COUNT] = {
#define HOOK(name, library, need, symbol, type, arguments) {#name, #library, symbol, need, (void *)hook_##name, NULL},
#include "../hooks/hooks.def"
#undef HOOK
};
