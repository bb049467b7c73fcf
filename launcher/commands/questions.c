#include "questions.h"

#include <stdlib.h>
#include <string.h>

#include "../../config/utf8.h"
#include "menu.h"

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

/* From a list that was printed: "2", or the choice itself. Returns the index; MENU_BACK, MENU_MORE, MENU_END. */
static int choose_by_line(const char *const *choices, int chosen, FILE *in, FILE *out) {
    char line[QUESTIONS_ANSWER_CHARS];
    for (int i = 0; choices[i]; i++)
        fprintf(out, "  %d  %s\n", i + 1, choices[i]);
    for (;;) {
        fprintf(out, "[%d] > ", chosen + 1);
        fflush(out);
        if (read_line(line, in))
            return MENU_END;
        if (!strcmp(line, "b"))
            return MENU_BACK;
        if (!strcmp(line, "?"))
            return MENU_MORE;
        int answer = *line ? number_of(line, choices) : chosen;
        if (answer >= 0)
            return answer;
        fprintf(out, "One of the numbers, please.\n");
    }
}

static int choose(const struct questions *questions, const char *text, const char *more, const char *const *choices, int chosen, FILE *in,
                  FILE *out) {
    int answer = MENU_MORE;
    while (answer == MENU_MORE) {
        if (questions->has_menu) {
            answer = menu_choose(text, choices, chosen);
        } else {
            fprintf(out, "%s\n", text);
            answer = choose_by_line(choices, chosen, in, out);
        }
        if (answer == MENU_MORE)
            fprintf(out, "%s\n", more);
    }
    return answer;
}

int questions_place(const struct questions *questions, const char *const *places, FILE *in, FILE *out) {
    int place = MENU_BACK;
    while (place == MENU_BACK) /* to where? */
        place = choose(questions, "Where shall the settings be kept? In this directory, or for all your runs.",
                       "A file in this directory is for runs that are started here, and stronger than the other one.", places, 0, in, out);
    return place;
}

/* ---- one answer. Returns the step to the next question: 1, 0 (ask again), -1 (back); STEP_END at the end of the input. */

enum { STEP_END = 2 };

/* The settings point to the answer that is kept, so that one that is not taken must not be written over it. */
static int take(const struct question *question, const char *line, char *answer, struct config *config, FILE *out) {
    char fault[CONFIG_FAULT_CHARS], before[QUESTIONS_ANSWER_CHARS];
    if (!utf8_is_text(line)) {
        fprintf(out, "That is not UTF-8, and a file could not hold it.\n");
        return 0;
    }
    snprintf(before, sizeof before, "%s", answer);
    snprintf(answer, QUESTIONS_ANSWER_CHARS, "%s", line);
    if (config_set(config, question->id, answer, CONFIG_FROM_COMMAND_LINE, "That", fault) == 0)
        return 1;
    snprintf(answer, QUESTIONS_ANSWER_CHARS, "%s", before);
    fprintf(out, "%s.\n", fault);
    return 0;
}

static int ask_level(const struct questions *questions, const struct question *question, char *answer, struct config *config, FILE *in,
                     FILE *out) {
    char now[QUESTIONS_ANSWER_CHARS];
    config_text(config, question->id, now, sizeof now);
    int before = number_of(now, levels);
    int level = choose(questions, question->text, question->more, levels, before, in, out);
    if (level < 0)
        return level == MENU_END ? STEP_END : -1;
    return level == before ? 1 : take(question, levels[level], answer, config, out);
}

static int ask_text(const struct question *question, char *answer, struct config *config, FILE *in, FILE *out) {
    char now[QUESTIONS_ANSWER_CHARS], line[QUESTIONS_ANSWER_CHARS];
    config_text(config, question->id, now, sizeof now);
    fprintf(out, "%s\n[%s] > ", question->text, now);
    fflush(out);
    if (read_line(line, in))
        return STEP_END;
    if (!*line)
        return 1;
    if (!strcmp(line, "b"))
        return -1;
    if (!strcmp(line, "?") || strchr(line, '\033')) { /* an arrow key, where there is no list */
        fprintf(out, "%s\n", *line == '?' ? question->more : "Type the answer, please; b goes back.");
        return 0;
    }
    return take(question, line, answer, config, out);
}

int questions_ask(struct questions *questions, struct config *config, FILE *in, FILE *out) {
    fprintf(out, "An empty answer takes what stands in brackets; b goes back one question, ? tells more.\n\n");
    for (int i = 0; i < QUESTIONS;) {
        char *answer = questions->answers[list[i].id];
        int step = config_options[list[i].id].type == CONFIG_LEVEL ? ask_level(questions, &list[i], answer, config, in, out)
                                                                   : ask_text(&list[i], answer, config, in, out);
        if (step == STEP_END)
            return -1;
        if (i + step < 0)
            return QUESTIONS_BACK;
        i += step;
    }
    return 0;
}
