#include "questions.h"

#include <stdlib.h>
#include <string.h>

static const struct question {
    enum config_id id;
    const char *text, *more;
} list[] = {
    {CONFIG_ID_ranks, "How many ranks shall run the program?",
     "Each rank computes its part of every batch. As many as cores is a good start; a batch needs two rows or more for each rank."},
    {CONFIG_ID_threads, "How many threads for each rank (0: the cores, divided)?", "More threads than cores make every rank wait."},
    {CONFIG_ID_log_dir, "A folder for each rank's own output (empty: none)?",
     "Rank 0's output is always shown as the program's. The folder gets rank-R.out and rank-R.err of all."},
    {CONFIG_ID_log_level, "What shall accel-run itself say?",
     "warn is warnings and notices; info adds what it does; debug is for reports of defects."},
    {CONFIG_ID_collective_timeout_ms, "After how many seconds without an answer shall a run be stopped?",
     "A rank that computes longer than this while the others wait for it ends the run. Raise it for very long steps."},
    {CONFIG_ID_grace_ms, "How many seconds may ranks take to end by themselves?",
     "Between SIGTERM and SIGKILL. A program that saves when it is told to end needs time."},
};
enum { QUESTIONS = sizeof list / sizeof *list };

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

uint32_t questions_ranks(uint32_t cores) {
    return cores < 1 ? 1 : cores > 8 ? 8 : cores; /* beyond eight nothing has been measured */
}

/* A line without its end and outer blanks. Returns 0, or -1 at the end of the input. */
static int read_line(char *line, FILE *in) {
    int sign, n = 0;
    while ((sign = fgetc(in)) != EOF && sign != '\n')
        if (n < QUESTIONS_ANSWER_CHARS - 1 && sign && (n || sign != ' '))
            line[n++] = (char)sign;
    while (n && (line[n - 1] == ' ' || line[n - 1] == '\r' || line[n - 1] == '\t'))
        n--;
    line[n] = 0;
    return sign == EOF && !n ? -1 : 0;
}

static int number_of(const char *line, const char *const *choices) {
    int count = 0;
    while (choices[count])
        if (!strcmp(line, choices[count++]))
            return count - 1;
    int number = atoi(line);
    return number >= 1 && number <= count ? number - 1 : -1;
}

int questions_choose(const char *question, const char *const *choices, FILE *in, FILE *out) {
    char line[QUESTIONS_ANSWER_CHARS];
    for (;;) {
        fprintf(out, "%s\n", question);
        for (int i = 0; choices[i]; i++)
            fprintf(out, "  %d  %s\n", i + 1, choices[i]);
        fprintf(out, "[1] > ");
        fflush(out);
        if (read_line(line, in))
            return -1;
        int chosen = *line ? number_of(line, choices) : 0;
        if (chosen >= 0)
            return chosen;
        fprintf(out, "One of the numbers, please.\n");
    }
}

/* One answer. Returns the step to the next question: 1, 0 (ask again), -1 (back); 2 at the end of the input. */
static int ask(const struct question *question, char *answer, struct config *config, FILE *in, FILE *out) {
    char now[QUESTIONS_ANSWER_CHARS], fault[CONFIG_FAULT_CHARS];
    bool has_levels = config_options[question->id].type == CONFIG_LEVEL;
    config_text(config, question->id, now, sizeof now);
    fprintf(out, "%s\n", question->text);
    for (int i = 0; has_levels && levels[i]; i++)
        fprintf(out, "  %d  %s\n", i + 1, levels[i]);
    fprintf(out, "[%s] > ", now);
    fflush(out);
    char line[QUESTIONS_ANSWER_CHARS];
    if (read_line(line, in))
        return 2;
    if (!*line)
        return 1;
    if (!strcmp(line, "b"))
        return -1;
    if (!strcmp(line, "?")) {
        fprintf(out, "%s\n", question->more);
        return 0;
    }
    int level = has_levels ? number_of(line, levels) : -1;
    snprintf(answer, QUESTIONS_ANSWER_CHARS, "%s", level >= 0 ? levels[level] : line);
    if (config_set(config, question->id, answer, CONFIG_FROM_COMMAND_LINE, "That", fault)) {
        fprintf(out, "%s.\n", fault);
        return 0;
    }
    return 1;
}

int questions_ask(struct questions *questions, struct config *config, FILE *in, FILE *out) {
    fprintf(out, "An empty answer takes what stands in brackets; b goes back one question, ? tells more.\n\n");
    for (int i = 0; i < QUESTIONS;) {
        int step = ask(&list[i], questions->answers[list[i].id], config, in, out);
        if (step == 2)
            return -1;
        i = i + step < 0 ? 0 : i + step;
    }
    return 0;
}
