/* Throwing, from C, what libtorch itself throws. */
#ifndef ACCEL_SHIM_THROW_H
#define ACCEL_SHIM_THROW_H

/* Throws a c10::Error (RuntimeError in Python) whose message begins with `text` (copied). Only in functions that libtorch or the program
   calls and that may throw, with no lock of ours held outside a cleanup attribute. where: a literal that the message names as the function.
   */
void shim_throw(const char *where, const char *text) __attribute__((noreturn));

#endif
