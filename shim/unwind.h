/* The unwinder that the process has, where it has one. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Gives each place of this thread's stack in code, from the caller's caller outwards, until visit returns false. False: there is no unwinder. */
bool unwind_walk(bool (*visit)(uintptr_t code, void *context), void *context);
