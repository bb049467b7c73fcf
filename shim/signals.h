/*
 * What is kept of one signal, for the hooks that let it come (alarms.c).
 */
#ifndef ACCEL_SHIM_SIGNALS_H
#define ACCEL_SHIM_SIGNALS_H

#include <stdbool.h>

/* A signal that is kept is forgotten. */
void signals_forget_kept(int number);
/* The handler of one that is kept runs on this thread, now. True: it was Python's, whose function goes when the interpreter next looks. */
bool signals_run_kept(int number);

#endif
