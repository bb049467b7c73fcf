/* Memory that may not be there. */
#ifndef ACCEL_SHIM_TORCH_PEEK_H
#define ACCEL_SHIM_TORCH_PEEK_H

#include <stdbool.h>
#include <stddef.h>

/* Copies it; false: it is not all there. Needs no descriptor. */
bool peek_memory(const void *address, void *to, size_t count);

/* Of 8 bytes where a pointer may lead to, which is null or not aligned where it is none. */
bool peek_word(const void *address, void **word);

#endif
