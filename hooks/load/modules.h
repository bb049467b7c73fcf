/* The files that are mapped, and which of them are the program's. */
#ifndef ACCEL_HOOKS_LOAD_MODULES_H
#define ACCEL_HOOKS_LOAD_MODULES_H

#include <stdbool.h>
#include <stdint.h>

struct modules;

/* As they are now. NULL: no memory, or too many. */
struct modules *modules_look(void);
void modules_free(struct modules *modules);
/* Does the address lie in any? */
bool modules_hold(const struct modules *modules, uintptr_t address);
/* The program's are the executable, the file that address belongs to, and the libraries that these are linked with, but for libtorch's own and those that it is
   linked with. What has been loaded by name (a plugin, a GPU's driver) is nobody's. */
void modules_tell_programs(struct modules *modules, const void *address);
bool modules_is_programs(const struct modules *modules, const void *inside);

#endif
