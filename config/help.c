/* The options as text: for people (brief, all, other launchers' flags) and for the manual pages. */
#include <string.h>

#include "foreign.h"

static const char usage[] = "usage: accel-run [options] [--] program [arguments]\n";

static void print_option(const struct config_option *option, FILE *out) {
    char left[64];
    int n = option->letter ? snprintf(left, sizeof left, "  -%c, ", option->letter) : snprintf(left, sizeof left, "      ");
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", option->name, *option->argument ? " " : "", option->argument);
    fprintf(out, "%-34s %s", left, option->help);
    if (*option->argument && *option->initial && option->type != CONFIG_TOPIC)
        fprintf(out, " (%s)", option->initial);
    fputc('\n', out);
}

/* A second line for those who want to know all. */
static void print_spellings(const struct config_option *option, FILE *out) {
    if (*option->key || *option->variable)
        fprintf(out, "%-34s ", "");
    if (*option->key)
        fprintf(out, "in a file: %s%s", option->key, *option->variable ? "; " : "");
    if (*option->variable)
        fprintf(out, "environment: %s", option->variable);
    if (*option->key || *option->variable)
        fputc('\n', out);
}

static bool has_shown(enum config_group group, bool all) {
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (config_options[i].group == group && (all || config_options[i].shown == CONFIG_SHOWN_BRIEF))
            return true;
    return false;
}

static void print_people(bool all, FILE *out) {
    fprintf(out, "%s\nRuns an unmodified libtorch training program as N ranks that together are the one-process run.\n", usage);
    for (int group = 0; group < CONFIG_GROUP_COUNT; group++) {
        if (!has_shown((enum config_group)group, all))
            continue;
        fprintf(out, "\n%s:\n", config_group_titles[group]);
        for (int i = 0; i < CONFIG_OPTIONS; i++) {
            const struct config_option *option = &config_options[i];
            if ((int)option->group != group || (!all && option->shown != CONFIG_SHOWN_BRIEF))
                continue;
            print_option(option, out);
            if (all)
                print_spellings(option, out);
        }
    }
    if (all)
        fputs(
            "\nWhere a value comes from: the default, then a file (--config-file, else ./accel-run.yaml, else\n"
            "$XDG_CONFIG_HOME/accel-run/config.yaml), then the environment, then the command line; the last one counts. An empty variable\n"
            "counts as unset.\n"
            "'accel-run --show-config' shows which. Flags of accelerate launch and torchrun are known, too: 'accel-run --help flags'.\n",
            out);
    else
        fputs("\n'accel-run --help all' tells more: limits, file keys, environment variables.\n", out);
    fputs("Exit status: the first failing rank's, 128 + its signal, 125 accel-run itself, 126 not executable, 127 not found.\n", out);
}

static const char *fate_of(const struct foreign_row *row) {
    switch (row->verdict) {
    case FOREIGN_WORKS:
    case FOREIGN_SAME:
        return "works";
    case FOREIGN_NOTICE:
        return "no effect";
    case FOREIGN_PART:
    case FOREIGN_REFUSED:
        return "refused";
    }
    return "";
}

static void print_flags(FILE *out) {
    fputs("Flags of accelerate launch and torchrun ('_' is as good as '-'). Own options of the same name are not repeated.\n\n", out);
    for (int i = 0; i < FOREIGN_ROWS; i++) {
        const struct foreign_row *row = &foreign_rows[i];
        if (!(row->homes & (FOREIGN_LAUNCH | FOREIGN_TORCHRUN)))
            continue;
        fprintf(out, "  --%-45s %-9s  ", row->name, fate_of(row));
        if (row->verdict == FOREIGN_WORKS)
            fprintf(out, "--%s%s%s", config_options[row->target].name, row->type == FOREIGN_SWITCH ? " " : "",
                    row->type == FOREIGN_SWITCH ? row->words : "");
        else
            fputs(row->verdict == FOREIGN_PART ? "belongs to an engine that is not available"
                  : *row->words                ? row->words
                                               : "it is so already",
                  out);
        fputc('\n', out);
    }
}

/* Signs that Markdown would take for its own: pandoc makes one dash of two. */
static void print_escaped(const char *text, FILE *out) {
    for (; *text; text++)
        fprintf(out, strchr("*_[]<>`", *text) || (text[0] == '-' && text[1] == '-') ? "\\%c" : "%c", *text);
}

static void print_markdown(FILE *out) {
    for (int group = 0; group < CONFIG_GROUP_COUNT; group++) {
        fprintf(out, "## %s\n\n", config_group_titles[group]);
        for (int i = 0; i < CONFIG_OPTIONS; i++) {
            const struct config_option *option = &config_options[i];
            if ((int)option->group != group)
                continue;
            if (option->letter)
                fprintf(out, "**-%c**%s%s%s, ", option->letter, *option->argument ? " *" : "", option->argument,
                        *option->argument ? "*" : "");
            fprintf(out, "**\\--%s**%s%s%s\n", option->name, *option->argument ? " *" : "", option->argument, *option->argument ? "*" : "");
            fputs(":   ", out);
            print_escaped(option->help, out);
            fputc('.', out);
            if (*option->argument && *option->initial && option->type != CONFIG_TOPIC)
                fprintf(out, " Default: %s.", option->initial);
            if (*option->variable)
                fprintf(out, " Environment: `%s`.", option->variable);
            if (*option->key)
                fprintf(out, " In a file: `%s`.", option->key);
            fprintf(out, " Since %s.\n\n", option->since);
        }
    }
}

static void print_keys(FILE *out) {
    static const char *const kinds[] = {"whole number, 1 to 256",
                                        "whole number, 0 to 1024",
                                        "number of seconds",
                                        "true or false",
                                        "text",
                                        "error, warn, info or debug",
                                        "whole number, 1 to 256",
                                        "whole number, 1 to 65535",
                                        "none, auto, core, cache, numa or socket",
                                        "auto or none"};
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        if (!*option->key)
            continue;
        fputs("**", out);
        print_escaped(option->key, out);
        fprintf(out, "** (%s; %s%s)\n:   ", kinds[option->type], *option->initial ? "default " : "no default",
                option->type == CONFIG_FLAG ? "false" : option->initial);
        print_escaped(option->help, out);
        fprintf(out, ". As **\\--%s**.\n\n", option->name);
    }
}

void config_print_help(enum config_topic topic, FILE *out) {
    switch (topic) {
    case CONFIG_TOPIC_NO:
    case CONFIG_TOPIC_BRIEF:
        print_people(false, out);
        return;
    case CONFIG_TOPIC_ALL:
        print_people(true, out);
        return;
    case CONFIG_TOPIC_FLAGS:
        print_flags(out);
        return;
    case CONFIG_TOPIC_MARKDOWN:
        print_markdown(out);
        return;
    case CONFIG_TOPIC_KEYS:
        print_keys(out);
    }
}
