/* Text as files and JSON want it. Pure. */
#ifndef ACCEL_RUN_CONFIG_UTF8_H
#define ACCEL_RUN_CONFIG_UTF8_H

#include <stdbool.h>
#include <stdint.h>

/* The bytes of the UTF-8 character that text, terminated, begins with, 1 to 4, and its *code; 0: none, also where it is longer than it need be, a surrogate,
   or beyond U+10FFFF (RFC 3629): readers of JSON and YAML refuse these. */
int utf8_character(const char *text, uint32_t *code);

/* Only characters? */
bool utf8_is_text(const char *text);

#endif
