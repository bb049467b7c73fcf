/*
 * What the words of a command line come to, where the program is one that starts another: env's command, Python's script. Pure.
 */
#ifndef ACCEL_RUN_INTERPRET_H
#define ACCEL_RUN_INTERPRET_H

#include <stdbool.h>

enum { INTERPRET_WORDS_MAX = 24, INTERPRET_LINE_BYTES = 256 };

/* The words that the kernel, and env's -S, make of a script's first line: NULL at the end. */
struct interpret_line {
    const char *words[INTERPRET_WORDS_MAX + 2];
    char text[INTERPRET_LINE_BYTES];
};

bool interpret_is_env(const char *path);
bool interpret_is_python(const char *path);
bool interpret_is_python_file(const char *name); /* by its name: *.py */

/* The argument that stands behind the interpreter in a first line ("" none), then the script. The kernel makes one word of it; that of env is split where it
   is "-S ...". Returns false where it cannot be told how: quotes and variables are left to env. */
bool interpret_first_line(const char *interpreter, const char *argument, const char *script, struct interpret_line *line);

/* words: env's arguments, NULL at the end. Returns those from its command on: the first is NULL where there is none. NULL: not understood. *search, the PATH
   in which env looks, is changed where env is told to (NULL: the system's). */
const char *const *interpret_env(const char *const *words, const char **search);

/* words: Python's arguments. Its script, "-m"'s module, "-c", or NULL. */
const char *interpret_python(const char *const *words);

/* The name that a user has for a program started as these words: train.py of "env A=1 python3 -u train.py". Never NULL. */
const char *interpret_shown(char *const *words);

#endif
