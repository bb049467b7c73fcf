#define _GNU_SOURCE
#include "cpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = sizeof(struct cpus) / sizeof(unsigned long) };

uint32_t cpus_count(const struct cpus *cpus) {
    uint32_t count = 0;
    for (int i = 0; i < WORDS; i++)
        count += (uint32_t)__builtin_popcountl(cpus->words[i]);
    return count;
}

void cpus_unite(struct cpus *cpus, const struct cpus *other) {
    for (int i = 0; i < WORDS; i++)
        cpus->words[i] |= other->words[i];
}

void cpus_intersect(struct cpus *cpus, const struct cpus *other) {
    for (int i = 0; i < WORDS; i++)
        cpus->words[i] &= other->words[i];
}

void cpus_read(struct cpus *cpus, const char *text) {
    memset(cpus, 0, sizeof *cpus);
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < CPUS_MAX; i++)
            cpus_add(cpus, (uint32_t)i);
        text = *end == ',' ? end + 1 : "";
    }
}

void cpus_text(const struct cpus *cpus, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (uint32_t first = 0; first < CPUS_MAX; first++) {
        uint32_t last = first;
        if (!cpus_has(cpus, first))
            continue;
        while (cpus_has(cpus, last + 1))
            last++;
        if (used + 16 > size) {
            snprintf(text + used, size - used, "...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, last > first ? "%s%u-%u" : "%s%u", used ? "," : "", first, last);
        first = last;
    }
}
