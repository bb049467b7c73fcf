/* Every setting that a file can hold, written as such a file: what is shown can be kept. */
#include <string.h>

#include "config.h"
#include "utf8.h"

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

/* Has YAML the character as it is between double quotes? (YAML 1.1, c-printable; libyaml refuses the others, and folds the three ends of lines that are not in
   ASCII: U+0085, U+2028, U+2029) */
static bool is_plain(uint32_t code) {
    bool is_line_end = code == 0x2028 || code == 0x2029;
    return (code >= 0x20 && code < 0x7f) || (code >= 0xa0 && code <= 0xfffd && code != 0xfeff && !is_line_end) || code >= 0x10000;
}

/* Between double quotes, with what YAML wants to be written otherwise there. What is no character becomes U+FFFD. */
static void print_quoted(const char *text, FILE *out) {
    fputc('"', out);
    while (*text) {
        uint32_t code;
        int bytes = utf8_character(text, &code);
        if (!bytes)
            fputs("\xef\xbf\xbd", out);
        else if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (char)code);
        else if (is_plain(code))
            fwrite(text, 1, (size_t)bytes, out);
        else
            fprintf(out, "\\u%04x", code);
        text += bytes ? bytes : 1;
    }
    fputc('"', out);
}

static const char *text_of(const struct config *config, enum config_id id) {
    return *(const char *const *)((const char *)config + config_options[id].offset);
}

bool config_can_be_kept(const struct config *config, enum config_id id) {
    return config_options[id].type != CONFIG_TEXT || utf8_is_text(text_of(config, id));
}

int config_print_value(const struct config *config, enum config_id id, FILE *out) {
    char text[64];
    if (config_options[id].type == CONFIG_TEXT) {
        print_quoted(text_of(config, id), out);
        return (int)strlen(text_of(config, id)) + 2;
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
        bool is_kept = config_can_be_kept(config, (enum config_id)i);
        int width = fprintf(out, "%s%s: ", is_kept ? "" : "# ", config_options[i].key) + config_print_value(config, (enum config_id)i, out);
        fprintf(out, "%*s # ", width < 32 ? 32 - width : 0, "");
        print_origin(config, (enum config_id)i, out);
        fputs(is_kept ? "\n" : "; it is not UTF-8, and no file can hold it\n", out);
    }
}
