#define _GNU_SOURCE
#include "trial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../config/config.h"
#include "../clock.h"
#include "command.h"
#include "../streams/compare.h"
#include "../problem.h"
#include "../tree.h"

enum { RUN_MS = 50000 }; /* some seconds, but machines may be loaded */

volatile sig_atomic_t trial_stop;

static void on_signal(int number) {
    trial_stop = number;
}

/* ---- the folder */

static int make_folder(struct trial *trial) {
    const char *given = config_variable(trial->environment, "TMPDIR"), *base = given && *given ? given : "/tmp";
    char real[PATH_MAX]; /* what is named from here is looked for in that folder */
    snprintf(trial->folder, sizeof trial->folder, "%.3000s/accel-run-test-XXXXXX", realpath(base, real) ? real : base);
    if (mkdtemp(trial->folder))
        return 0;
    fprintf(stderr, "accel-run: error AR-FOLDER: no private folder '%s': %s\n  what to do: name a folder that can be written in TMPDIR\n",
            trial->folder, strerror(errno));
    return -1;
}

int trial_write(struct trial *trial, const char *name, const char *text, char *path) {
    snprintf(path, PATH_MAX, "%s/%s", trial->folder, name);
    FILE *file = fopen(path, "we");
    if (file && fputs(text, file) >= 0 && fclose(file) == 0)
        return 0;
    printf("FAIL  %s: %s\n", path, strerror(errno));
    trial->failed++;
    return -1;
}

/* ---- running */

int trial_command(struct trial *trial, char *const *arguments, uint32_t milliseconds, struct capture *capture) {
    struct capture_request request = {arguments[0], arguments, trial->environment, trial->folder, milliseconds, &trial_stop};
    return capture_run(&request, capture);
}

static int run_ranks(struct trial *trial, char *const *arguments, struct capture *capture) {
    char ranks[16];
    /* by itself, also in a pod or below mpirun, whose variables ask for other processes, which will never come */
    const char *ours[64] = {"/proc/self/exe", "--config-file", "none", "--engine", "none", "-n", ranks, "--log-level", "info", "--"};
    int count = 10;
    snprintf(ranks, sizeof ranks, "%u", trial->ranks);
    for (int i = 0; arguments[i] && count < 63; i++)
        ours[count++] = arguments[i];
    return trial_command(trial, (char *const *)(uintptr_t)ours, RUN_MS, capture);
}

/* ---- comparing */

static void fail(struct trial *trial, const char *title, const char *who, const struct capture *capture) {
    trial->failed++;
    printf("FAIL  %s: %s %s\n", title, who,
           capture->has_timed_out  ? "did not end in time"
           : !capture->has_started ? "could not be started"
                                   : "failed, saying:");
    if (*capture->errors)
        printf("%s%s", capture->errors, capture->errors[strlen(capture->errors) - 1] == '\n' ? "" : "\n");
}

static size_t line_bytes(const char *text) {
    return strcspn(text, "\n");
}

/* The number of equal lines; -1 when some differ (said). */
static int count_equal(struct trial *trial, const char *title, const char *one, const char *other) {
    int lines = 0;
    while (*one || *other) {
        size_t a = line_bytes(one), b = line_bytes(other);
        lines++;
        if (!compare_lines(one, a, other, b)) {
            trial->failed++;
            printf("FAIL  %s: line %d differs\n      one process: %.*s\n      %u ranks:     %.*s\n", title, lines, (int)a, one,
                   trial->ranks, (int)b, other);
            return -1;
        }
        one += a + (one[a] == '\n');
        other += b + (other[b] == '\n');
    }
    return lines;
}

/* "accel-run: 8 batches divided, ...": what rank 0 reports at its end; 0: nothing was. */
static int batches_divided(const char *errors) {
    const char *found = strstr(errors, " batches divided");
    while (found && found > errors && found[-1] >= '0' && found[-1] <= '9')
        found--;
    return found ? atoi(found) : 0;
}

void trial_compare(struct trial *trial, const char *title, char *const *arguments) {
    static struct capture plain, ranks; /* 1 MiB */
    trial->tried++;
    uint64_t begin_ms = clock_ms();
    if (trial_command(trial, arguments, RUN_MS, &plain)) {
        fail(trial, title, "the program alone", &plain);
        return;
    }
    if (run_ranks(trial, arguments, &ranks)) {
        fail(trial, title, "the ranks", &ranks);
        return;
    }
    int lines = count_equal(trial, title, plain.out, ranks.out), batches = batches_divided(ranks.errors);
    if (lines < 0)
        return;
    if (!batches || !lines) {
        trial->failed++;
        printf("FAIL  %s: nothing was divided\n%s", title, ranks.errors);
        return;
    }
    printf("OK    %s: %d lines agree between one process and %u ranks, %d batches divided (%.1f s)\n", title, lines, trial->ranks, batches,
           (double)(clock_ms() - begin_ms) / 1000);
    fflush(stdout);
}

void trial_skip(struct trial *trial, const char *title, const char *why, bool is_named) {
    if (trial_stop)
        return;
    printf("%s  %s: %s\n", is_named ? "FAIL" : "SKIP", title, why);
    trial->failed += is_named;
}

/* ---- the command */

/* Without the user's settings: the trial is about this machine and this libtorch. */
static char **clean_environment(char *const *environment) {
    size_t count = 0, kept = 0;
    while (environment[count])
        count++;
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (strncmp(environment[i], "ACCEL_RUN_", 10) || !strncmp(environment[i], "ACCEL_RUN_SHIM=", 15))
            list[kept++] = environment[i];
    return list;
}

/* Returns NULL, or the argument that is not understood. */
static const char *read_options(struct trial *trial, const struct command_call *call) {
    for (int i = 1; i < call->argc; i++) {
        const char *name = call->arguments[i], *value;
        char *end;
        if ((value = command_value(call, &i, "-n"))) {
            trial->ranks = (uint32_t)strtoul(value, &end, 10);
            if (!*value || *end || trial->ranks < 2 || trial->ranks > 16)
                return name;
        } else if ((value = command_value(call, &i, "--python")) && *value) {
            trial->python = value;
        } else if ((value = command_value(call, &i, "--libtorch")) && *value) {
            trial->libtorch = value;
        } else if ((value = command_value(call, &i, "--only")) && (!strcmp(value, "python") || !strcmp(value, "c++"))) {
            trial->wants_python = *value == 'p';
            trial->wants_cpp = *value == 'c';
        } else {
            return name;
        }
    }
    return NULL;
}

static void catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: what waits is woken */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

static int verdict(const struct trial *trial) {
    if (trial_stop)
        return 128 + trial_stop;
    if (trial->failed)
        printf("\naccel-run does not work here as it should. 'accel-run doctor' may say why.\n");
    else if (trial->tried)
        printf("\naccel-run works here.\n");
    else
        printf("\nNothing was tested: neither a Python with torch nor a compiler with libtorch was found (--python, --libtorch).\n");
    return trial->failed || !trial->tried ? 1 : 0;
}

int trial_run(const struct command_call *call) {
    static struct trial trial;
    trial = (struct trial){.ranks = 2, .wants_python = true, .wants_cpp = true};
    const char *unknown = read_options(&trial, call);
    if (unknown)
        return command_refuse(call, unknown);
    char **environment = clean_environment(call->environment);
    trial.environment = environment;
    trial.search = config_variable(call->environment, "PATH");
    catch_signals();
    if (!environment || make_folder(&trial)) {
        free(environment);
        return EXIT_LAUNCHER;
    }
    if (trial.wants_python)
        trial_of_python(&trial);
    if (trial.wants_cpp && !trial_stop)
        trial_of_cpp(&trial);
    tree_remove(trial.folder);
    free(environment);
    int status = verdict(&trial);
    return command_flush() ? EXIT_LAUNCHER : status;
}
