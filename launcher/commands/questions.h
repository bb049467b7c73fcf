/*
 * The dialogue of `accel-run config`: one question for each setting that people set, a number or a word as the answer, the default in brackets, and a list
 * for arrow keys in a terminal. Reads and writes streams, decides nothing about files.
 */
#ifndef ACCEL_RUN_QUESTIONS_H
#define ACCEL_RUN_QUESTIONS_H

#include <stdio.h>

#include "../../config/config.h"

#define QUESTIONS_ANSWER_CHARS 512

/* What the answers are kept in; config borrows from it. */
struct questions {
    bool has_menu; /* lists are shown for arrow keys (menu.h); else `in` is read by lines */
    char answers[CONFIG_OPTIONS][QUESTIONS_ANSWER_CHARS];
};

enum { QUESTIONS_BACK = 1 };

/* Asks for the settings, with the values of *config as defaults, and sets them. Empty: the default; "b": back one question; "?": more words.
   Returns 0; QUESTIONS_BACK from the first one; -1 when the input ended before the last answer. */
int questions_ask(struct questions *questions, struct config *config, FILE *in, FILE *out);

/* Ranks to offer on a machine of so many cores. */
uint32_t questions_ranks(uint32_t cores);

/* Asks which of the files (NULL at the end). Returns its index, or a negative number at the end of the input. */
int questions_place(const struct questions *questions, const char *const *places, FILE *in, FILE *out);

#endif
