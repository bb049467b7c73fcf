/*
 * Do two lines say the same? Pure.
 */
#ifndef ACCEL_RUN_COMPARE_H
#define ACCEL_RUN_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

/* Equal word by word, where
    - any amount of white space equals any other,
    - numbers with a fraction or an exponent may differ by 1e-3 of the larger, or by one in the last of three or more printed decimals:
   ranks that compute the same sum on other cores may round it otherwise,
    - a time ("1.31 s", "12ms", "3.2it/s", "12:01:33", "12:01:33,038", "'train_runtime': 2.05", "Time 0.31 (0.29)") equals any other time: no two
      processes need the same.
   Whole numbers must be equal. The lines need no terminator. */
bool compare_lines(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

#endif
