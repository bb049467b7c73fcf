/*
 * Notes: what the reading of settings has to say to the user without an end in itself. Collected here, printed by the launcher.
 */
#ifndef ACCEL_RUN_CONFIG_NOTES_H
#define ACCEL_RUN_CONFIG_NOTES_H

#include <stdint.h>

/* NOTICE: has no effect, and why. WARNING: probably not what was meant. REFUSED: stops the run, unless --allow-unsupported. */
enum config_weight { CONFIG_NOTICE, CONFIG_WARNING, CONFIG_REFUSED };

#define CONFIG_NOTES_MAX 96
#define CONFIG_NOTE_CHARS 360

struct config_note {
    enum config_weight weight;
    const char *id; /* literal, "AR-..." */
    char text[CONFIG_NOTE_CHARS];
};

struct config_notes {
    struct config_note list[CONFIG_NOTES_MAX];
    uint32_t count;
    uint32_t refused; /* how many, those that found no room included */
    uint32_t lost;    /* found no room */
};

/* `format` as printf's. */
void config_note(struct config_notes *notes, enum config_weight weight, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
