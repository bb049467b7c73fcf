#define _GNU_SOURCE
#include "explain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../config/foreign.h"
#include "../program/interpret.h"
#include "json.h"

enum { STEPS = 3 };

/* What the library notes: its word, our heading. In the order in which they are shown. */
static const struct {
    const char *kind, *heading;
} kinds[] = {
    {"loader", "data loaders"},
    {"whole", "data loaders that every rank reads whole, and why"},
    {"loop", "loops, the last one as far as the run went"},
    {"optimizer", "optimizers"},
    {"scheduler", "learning-rate schedulers"},
    {"batch", "batches, divided among the ranks"},
    {"undivided", "batches of too few rows, left whole"},
    {"loss", "losses"},
    {"random", "random draws for divided rows"},
    {"divided", "operators that were divided"},
    {"gathered", "operators that were gathered: exact, but not divided"},
    {"read", "numbers that the program reads"},
    {"save", "saves"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the command line */

/* Does the option take the next argument? As options.c reads them, also those of other launchers. */
static bool takes_value(const char *argument) {
    bool is_long = argument[1] == '-';
    size_t n = strcspn(argument + 2, "=");
    int id = is_long ? config_find(argument + 2, n) : config_find_letter(argument[1]);
    int other = is_long ? foreign_find_flag(argument + 2, n) : foreign_find_letter(argument[1]);
    if (!strcmp(argument, "-np"))
        return true;
    bool takes = id >= 0 ? config_options[id].type != CONFIG_FLAG && config_options[id].type != CONFIG_TOPIC
                         : other >= 0 && foreign_takes_value((enum foreign_id)other);
    return takes && (is_long ? !argument[2 + n] : !argument[2]);
}

static int take_steps(struct explain *explain, const char *text, struct problem *problem) {
    char *end = NULL;
    unsigned long number = text ? strtoul(text, &end, 10) : 0;
    if (!text || end == text || *end || number < 1 || number > 100000)
        return problem_set(problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "accel-run explain --steps 3 -n 2 ./train",
                           "--steps needs a whole number from 1 to 100000");
    explain->steps = (uint32_t)number;
    return 0;
}

int explain_take(struct explain *explain, int *argc, char ***argv, struct problem *problem) {
    char **old = *argv;
    *explain = (struct explain){.steps = STEPS, .output = -1};
    if (*argc < 2 || strcmp(old[1], "explain"))
        return 0;
    char **list = calloc((size_t)*argc + 1, sizeof *list);
    int count = 0, at = 2;
    if (!list)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    explain->is_asked = true;
    list[count++] = old[0];
    for (; at < *argc && old[at][0] == '-' && strcmp(old[at], "--"); at++) {
        if (!strcmp(old[at], "--json")) {
            explain->json = true;
        } else if (!strncmp(old[at], "--steps", 7) && (!old[at][7] || old[at][7] == '=')) {
            if (take_steps(explain, old[at][7] ? old[at] + 8 : at + 1 < *argc ? old[++at] : NULL, problem)) {
                free(list);
                return -1;
            }
        } else {
            bool two = takes_value(old[at]) && at + 1 < *argc;
            list[count++] = old[at];
            if (two)
                list[count++] = old[++at];
        }
    }
    while (at < *argc)
        list[count++] = old[at++];
    *argc = count;
    *argv = list; /* lives as long as the process, as argv does */
    return 0;
}

int explain_begin(struct explain *explain, struct config *config, struct problem *problem) {
    if (!explain->is_asked)
        return 0;
    config->ranks = config->ranks < 2 ? 2 : config->ranks;
    explain->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3); /* no rank inherits it (streams/inherited.h) */
    if (explain->output >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        return 0;
    return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "is stdout open?", "the explanation has nowhere to go: %s", strerror(errno));
}

/* ---- what the library says */

bool explain_hear(struct explain *explain, const char *text) {
    char *copy = strdup(text), *rest = copy, *kind = strsep(&rest, "\t"), *count = strsep(&rest, "\t"), *name = strsep(&rest, "\t");
    bool ends = copy && rest && !strcmp(kind, "end");
    if (ends || (copy && rest && !strcmp(kind, "stopped"))) {
        explain->is_over = true;
        explain->steps_made = strtoull(count, NULL, 10);
        snprintf(explain->why, sizeof explain->why, "%s", rest);
        free(copy);
        return ends;
    }
    struct explain_note *list = copy && rest ? realloc(explain->list, (size_t)(explain->count + 1) * sizeof *list) : NULL;
    for (int i = 0; list && i < KINDS; i++)
        if (!strcmp(kinds[i].kind, kind)) {
            explain->list = list;
            list[explain->count++] = (struct explain_note){kinds[i].kind, strtoull(count, NULL, 10), name, rest, copy};
            return false;
        }
    if (list)
        explain->list = list;
    free(copy);
    return false;
}

/* ---- saying it */

static int count_of(const struct explain *explain, const char *kind) {
    int count = 0;
    for (int i = 0; i < explain->count; i++)
        count += !strcmp(explain->list[i].kind, kind);
    return count;
}

struct words {
    const char *list[16];
    int count;
};

static void say(struct words *words, bool is_so, const char *text) {
    if (is_so && words->count < 16)
        words->list[words->count++] = text;
}

static struct words changes(const struct explain *explain, const struct plan *plan) {
    struct words words = {.count = 0};
    bool divides = count_of(explain, "batch");
    say(&words, divides, "each rank computes its rows of a batch; the program sees the whole batch's sizes, losses and results");
    say(&words, divides && explain->steps_made,
        "gradients are summed over the ranks after each backward pass; each rank then makes the same step");
    say(&words, !divides, "nothing: no batch was divided, every rank did all the work");
    say(&words, count_of(explain, "save"), "files that libtorch saves are written once, by rank 0");
    say(&words, plan->threads, "each rank has its share of the cores as threads (OMP_NUM_THREADS)");
    say(&words, true, "torch.compile is switched off (TORCH_COMPILE_DISABLE=1, unless you have set it)");
    say(&words, plan->removed_count, "other launchers' variables are kept from the ranks");
    return words;
}

/* A loader of C++ (torch::data), whose sampler the library asks; else one of Python's. */
static bool has_loader(const struct explain *explain, bool of_cpp) {
    for (int i = 0; i < explain->count; i++)
        if (!strcmp(explain->list[i].kind, "loader") && !strncmp(explain->list[i].name, "torch::", 7) == of_cpp)
            return true;
    return false;
}

static struct words flags(const struct explain *explain) {
    struct words words = {.count = 0};
    say(&words, true, "-n 1 divides nothing (docs/how-it-works.md, One rank)");
    say(&words, count_of(explain, "undivided"), "a smaller -n divides batches of at least two rows for each rank");
    say(&words, has_loader(explain, true), "--scale-batch makes each batch N times as large: another run, with N times fewer steps");
    say(&words, has_loader(explain, true), "--no-shard-loading lets every rank read all rows");
    say(&words, has_loader(explain, false), "--scale-batch is refused for Python's loaders: their batch size is set in the program");
    say(&words, count_of(explain, "gathered"),
        "no flag divides a gathered operator; a rule does (docs/adding-a-rule.md), or writing it with operators that have one");
    return words;
}

static const char no_exactness[] = "nothing was met in these steps that cannot be exact; docs/limits.md says what cannot be seen";

static void print_notes(const struct explain *explain, const char *kind, const char *heading, FILE *out) {
    if (!count_of(explain, kind))
        return;
    fprintf(out, "\n%s:\n", heading);
    for (int i = 0; i < explain->count; i++) {
        const struct explain_note *note = &explain->list[i];
        if (!strcmp(note->kind, kind))
            fprintf(out, "  %5llu x  %s%s%s\n", note->count, note->name, *note->detail ? "  " : "", note->detail);
    }
}

static void print_words(const char *heading, const struct words *words, FILE *out) {
    fprintf(out, "\n%s:\n", heading);
    for (int i = 0; i < words->count; i++)
        fprintf(out, "  %s\n", words->list[i]);
}

static void print_text(const struct explain *explain, const struct plan *plan, const struct problem *problem, FILE *out) {
    struct words changed = changes(explain, plan), other = flags(explain);
    bool is_one = explain->steps_made == 1;
    fprintf(out, "%s with %u ranks: %llu step%s (backward pass%s); %s\n", interpret_shown(plan->arguments), plan->ranks,
            explain->steps_made, is_one ? "" : "s", is_one ? "" : "es", explain->why);
    for (int i = 0; i < KINDS; i++)
        print_notes(explain, kinds[i].kind, kinds[i].heading, out);
    print_words("what is changed", &changed, out);
    fprintf(out, "\nwhat cannot be exact:\n");
    if (problem->exit_code)
        fprintf(out, "  %s: %s\n  what to do: %s\n", problem->id, problem->what, problem->cure);
    else
        fprintf(out, "  %s\n", explain->is_over ? no_exactness : "not known: no rank has trained");
    print_words("what a flag would change", &other, out);
}

static void print_list_json(const char *name, int *members, const struct words *words, FILE *out) {
    json_member(out, members, name);
    fputc('[', out);
    for (int i = 0; i < words->count; i++) {
        fputs(i ? ", " : "", out);
        json_string(out, words->list[i]);
    }
    fputc(']', out);
}

static void print_notes_json(const struct explain *explain, FILE *out) {
    fputc('[', out);
    for (int i = 0; i < explain->count; i++) {
        int members = 0;
        fputs(i ? ", {" : "{", out);
        json_text(out, &members, "kind", explain->list[i].kind);
        json_member(out, &members, "count");
        fprintf(out, "%llu", explain->list[i].count);
        json_text(out, &members, "name", explain->list[i].name);
        json_text(out, &members, "detail", explain->list[i].detail);
        fputc('}', out);
    }
    fputc(']', out);
}

static void print_json(const struct explain *explain, const struct plan *plan, const struct problem *problem, FILE *out) {
    struct words changed = changes(explain, plan), other = flags(explain);
    int members = 0, inner = 0;
    fputc('{', out);
    json_text(out, &members, "program", interpret_shown(plan->arguments));
    json_member(out, &members, "ranks");
    fprintf(out, "%u", plan->ranks);
    json_member(out, &members, "steps");
    fprintf(out, "%llu", explain->steps_made);
    json_text(out, &members, "ended", explain->why);
    json_member(out, &members, "met");
    print_notes_json(explain, out);
    print_list_json("changed", &members, &changed, out);
    json_member(out, &members, "not_exact");
    fputs(problem->exit_code ? "{" : "null", out);
    if (problem->exit_code) {
        json_text(out, &inner, "id", problem->id);
        json_text(out, &inner, "what", problem->what);
        json_text(out, &inner, "cure", problem->cure);
        fputc('}', out);
    }
    print_list_json("flags", &members, &other, out);
    fputs("\n}\n", out);
}

int explain_finish(struct explain *explain, const struct plan *plan, const struct problem *problem, int code) {
    if (!explain->is_asked)
        return code;
    bool has_ended = explain->is_over && !problem->exit_code;
    FILE *out = fdopen(explain->output, "w");
    if (!explain->is_over)
        snprintf(explain->why, sizeof explain->why, "it ended before a rank could say more");
    if (out)
        (explain->json ? print_json : print_text)(explain, plan, problem, out);
    for (int i = 0; i < explain->count; i++)
        free(explain->list[i].text);
    free(explain->list);
    if (!out || fclose(out))
        return EXIT_LAUNCHER;
    return has_ended && code == 128 + 9 ? 0 : code;
}
