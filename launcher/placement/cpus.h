/*
 * Sets of processors, as the kernel counts and writes them: "0-3,8". A processor is what the scheduler runs a thread on; with SMT a core has several.
 * Pure.
 */
#ifndef ACCEL_RUN_CPUS_H
#define ACCEL_RUN_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPUS_MAX 4096
#define CPUS_WORD_BITS (8 * sizeof(unsigned long))
#define CPUS_TEXT_CHARS 512

/* The layout is that of sched_setaffinity, for more than the 1024 of cpu_set_t. */
struct cpus {
    unsigned long words[CPUS_MAX / (8 * sizeof(unsigned long))];
};

static inline bool cpus_has(const struct cpus *cpus, uint32_t number) {
    return number < CPUS_MAX && cpus->words[number / CPUS_WORD_BITS] >> number % CPUS_WORD_BITS & 1;
}

static inline void cpus_add(struct cpus *cpus, uint32_t number) {
    if (number < CPUS_MAX)
        cpus->words[number / CPUS_WORD_BITS] |= 1ul << number % CPUS_WORD_BITS;
}

uint32_t cpus_count(const struct cpus *cpus);

/* Adds what the other has. */
void cpus_unite(struct cpus *cpus, const struct cpus *other);
/* Keeps what both have. */
void cpus_intersect(struct cpus *cpus, const struct cpus *other);

/* Reads "0-3,8" up to the end or to a line's end; what is not such a list ends it. Numbers from CPUS_MAX on are left out. */
void cpus_read(struct cpus *cpus, const char *text);

/* Writes the same; text[size] is cut, and ends with "..." then. */
void cpus_text(const struct cpus *cpus, char *text, size_t size);

#endif
