/* Variables of other launchers that say what a flag of theirs would: torchrun reads PET_LOG_DIR for --log-dir, Accelerate ACCELERATE_MIXED_PRECISION. */
#include <ctype.h>
#include <string.h>

#include "foreign.h"

/* Those that launcher/engines/ follows, or says why not. */
static bool is_followed(const char *name) {
    static const char *const followed[] = {"nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "rdzv_endpoint"};
    for (size_t i = 0; i < sizeof followed / sizeof *followed; i++)
        if (!strcmp(name, followed[i]))
            return true;
    return false;
}

static void note(struct config_notes *notes, const char *variable, int length, const char *value, const char *words) {
    config_note(notes, CONFIG_NOTICE, "AR-NO-EFFECT", "%.*s=%.40s: %s", length, variable, value, words);
}

/* variable: "PET_NAME=value"; name: "name", in small letters. */
static void note_torchruns(struct config_notes *notes, const char *variable, const char *name, const char *value) {
    int own = config_find(name, strlen(name)), row = foreign_find_flag(name, strlen(name)), length = (int)strcspn(variable, "=");
    char words[160];
    if (own < 0 && row >= 0 && foreign_rows[row].homes & FOREIGN_TORCHRUN && !foreign_is_plain((enum foreign_id)row, value))
        own = foreign_rows[row].verdict == FOREIGN_WORKS ? foreign_rows[row].target : -1;
    else if (own < 0 || (config_options[own].type == CONFIG_FLAG && config_truth(value) == 0))
        return;
    if (own < 0 && foreign_rows[row].verdict == FOREIGN_SAME)
        return;
    snprintf(words, sizeof words, "accel-run does not read it; --%s%s%s does that", own < 0 ? "" : config_options[own].name,
             own >= 0 && *config_options[own].variable ? ", or " : "", own < 0 ? "" : config_options[own].variable);
    note(notes, variable, length, value, own < 0 ? foreign_rows[row].words : words);
}

static void note_accelerates(struct config_notes *notes, const char *variable, const char *name, const char *value) {
    int row = foreign_find_flag(name, strlen(name));
    if (row < 0 || foreign_rows[row].verdict == FOREIGN_SAME || foreign_is_plain((enum foreign_id)row, value))
        return;
    note(notes, variable, (int)strcspn(variable, "="), value, "accel-run does not read it, only a program that uses Accelerate does");
}

/* What follows the prefix, up to '=', in small letters: name[64]. Returns the value, or NULL. */
static const char *split(const char *variable, const char *prefix, char *name) {
    size_t begin = strlen(prefix), n = strcspn(variable, "=");
    if (strncmp(variable, prefix, begin) || !variable[n] || n - begin > 63)
        return NULL;
    for (size_t i = begin; i < n; i++)
        name[i - begin] = (char)tolower((unsigned char)variable[i]);
    name[n - begin] = 0;
    return variable + n + 1;
}

void foreign_note_variables(char *const *environment, bool has_torchruns, struct config_notes *notes) {
    for (; *environment; environment++) {
        char name[64];
        const char *value = has_torchruns ? split(*environment, "PET_", name) : NULL;
        if (value && !is_followed(name))
            note_torchruns(notes, *environment, name, value);
        if ((value = split(*environment, "ACCELERATE_", name)))
            note_accelerates(notes, *environment, name, value);
    }
}
