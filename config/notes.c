#include "notes.h"

#include <stdarg.h>
#include <stdio.h>

void config_note(struct config_notes *notes, enum config_weight weight, const char *id, const char *format, ...) {
    notes->refused += weight == CONFIG_REFUSED;
    if (notes->count == CONFIG_NOTES_MAX) {
        notes->lost++;
        return;
    }
    struct config_note *note = &notes->list[notes->count++];
    va_list list;
    va_start(list, format);
    note->weight = weight;
    note->id = id;
    vsnprintf(note->text, sizeof note->text, format, list);
    va_end(list);
}
