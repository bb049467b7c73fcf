/*
 * `accel-run test`: trains tiny programs in one process and as ranks, and compares what they print. In a private folder that is removed at the end, also
 * after a Ctrl-C.
 */
#ifndef ACCEL_RUN_TRIAL_H
#define ACCEL_RUN_TRIAL_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture.h"

struct trial {
    char *const *environment; /* owned list of borrowed strings: the user's, without his settings of accel-run */
    const char *search;       /* borrowed: PATH */
    uint32_t ranks;
    const char *python, *libtorch; /* borrowed: what the user named; NULL nothing */
    bool wants_python, wants_cpp;
    char folder[PATH_MAX - 128]; /* ours, private */
    int tried, failed;
};

/* Raised by a signal that asks us to end: what runs is ended, the folder removed. */
extern volatile sig_atomic_t trial_stop;

/* trial.c: runs a program plain and as ranks, prints how they compare. title: "Python 3.11, torch 2.13". */
void trial_compare(struct trial *trial, const char *title, char *const *arguments);
/* trial.c: says why something was not tried. is_named: the user has named what to try it with, so that is a failure. */
void trial_skip(struct trial *trial, const char *title, const char *why, bool is_named);
/* trial.c: writes a file into the folder. Returns 0 and its path[PATH_MAX], or -1 (said). */
int trial_write(struct trial *trial, const char *name, const char *text, char *path);
/* trial.c: a command in the folder, with a deadline; words for what went wrong are printed by the caller. */
int trial_command(struct trial *trial, char *const *arguments, uint32_t milliseconds, struct capture *capture);

/* trial_programs.c */
void trial_of_python(struct trial *trial);
void trial_of_cpp(struct trial *trial);

#endif
