/* Preprocessed, never compiled: every hook row becomes a line EXPORT "symbol", from which the Makefile makes the export map. */
#define HOOK(name, library, need, symbol, type, arguments) EXPORT symbol
#include "hooks.def"
