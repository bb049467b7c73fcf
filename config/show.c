/* Every setting that a file can hold, written as such a file: what is shown can be kept. */
#include <string.h>

#include "config.h"

static void print_origin(const struct config *config, enum config_id id, FILE *out) {
    switch (config->origin[id]) {
    case CONFIG_FROM_DEFAULT:
        fputs("default", out);
        return;
    case CONFIG_FROM_FILE:
        fprintf(out, "%s:%u", config->file, config->line[id]);
        return;
    case CONFIG_FROM_ENVIRONMENT:
        fprintf(out, "environment (%s)", config_options[id].variable);
        return;
    case CONFIG_FROM_COMMAND_LINE:
        fputs("command line", out);
        return;
    case CONFIG_FROM_LAUNCHER:
        fputs("the other launcher's variables", out);
    }
}

/* Between double quotes, with what YAML wants to be written otherwise there. */
static void print_quoted(const char *text, FILE *out) {
    fputc('"', out);
    for (; *text; text++) {
        unsigned char sign = (unsigned char)*text;
        if (sign == '"' || sign == '\\')
            fprintf(out, "\\%c", sign);
        else if (sign < 32 || sign == 127)
            fprintf(out, "\\x%02x", sign);
        else
            fputc(sign, out);
    }
    fputc('"', out);
}

int config_print_value(const struct config *config, enum config_id id, FILE *out) {
    char text[64];
    if (config_options[id].type == CONFIG_TEXT) {
        const char *value = *(const char *const *)((const char *)config + config_options[id].offset);
        print_quoted(value, out);
        return (int)strlen(value) + 2;
    }
    config_text(config, id, text, sizeof text);
    fputs(text, out);
    return (int)strlen(text);
}

void config_print(const struct config *config, FILE *out) {
    fprintf(out, "# Settings of accel-run " ACCEL_RUN_VERSION ". File read: %s\n", config->file ? config->file : "none");
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        if (!*config_options[i].key)
            continue;
        int width = fprintf(out, "%s: ", config_options[i].key) + config_print_value(config, (enum config_id)i, out);
        fprintf(out, "%*s # ", width < 32 ? 32 - width : 0, "");
        print_origin(config, (enum config_id)i, out);
        fputc('\n', out);
    }
}
