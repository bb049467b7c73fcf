/*
 * The dialogue of `accel-run config`: one question for each setting that people set, a number or a word as the answer, the default in brackets. Pure:
 * reads and writes streams, decides nothing about files.
 */
#ifndef ACCEL_RUN_QUESTIONS_H
#define ACCEL_RUN_QUESTIONS_H

#include <stdio.h>

#include "../../config/config.h"

#define QUESTIONS_ANSWER_CHARS 512

/* What the answers are kept in; config borrows from it. */
struct questions {
    char answers[CONFIG_OPTIONS][QUESTIONS_ANSWER_CHARS];
};

/* Asks for the settings, with the values of *config as defaults, and sets them. Empty: the default; "b": back one question; "?": more words.
   Returns 0, or -1 when the input ended before the last answer. */
int questions_ask(struct questions *questions, struct config *config, FILE *in, FILE *out);

/* Ranks to offer on a machine of so many cores. */
uint32_t questions_ranks(uint32_t cores);

/* Asks for one of the choices (NULL at the end); the first is the default. Returns its index, or -1 at the end of the input. */
int questions_choose(const char *question, const char *const *choices, FILE *in, FILE *out);

#endif
