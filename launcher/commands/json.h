/* Writing JSON: strings with what must be escaped; commas between members. */
#ifndef ACCEL_RUN_JSON_H
#define ACCEL_RUN_JSON_H

#include <stdio.h>

/* "text" in quotes; bytes that are not UTF-8 become U+FFFD. */
void json_string(FILE *out, const char *text);

/* A comma and a line end before every member but the first: *count says how many there were, and is raised. Then "name": . */
void json_member(FILE *out, int *count, const char *name);

/* json_member and a string. */
void json_text(FILE *out, int *count, const char *name, const char *text);

#endif
