#define _GNU_SOURCE
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../config/board.h"
#include "../config/file.h"
#include "engines/engines.h"
#include "options.h"
#include "placement/topology.h"

static const char own_name[] = "accel-run.yaml";

static const char *variable(char *const *environment, const char *name) {
    const char *value = config_variable(environment, name);
    return value && *value ? value : NULL;
}

/* PATH = base + rest, or "" when there is no base. */
static void join(char *path, const char *base, const char *rest) {
    if (!base || snprintf(path, PATH_MAX, "%s%s", base, rest) >= PATH_MAX)
        *path = 0;
}

void settings_user_path(char *const *environment, char *path) {
    join(path, variable(environment, "XDG_CONFIG_HOME"), "/accel-run/config.yaml");
    if (!*path)
        join(path, variable(environment, "HOME"), "/.config/accel-run/config.yaml");
}

static void accelerate_path(char *const *environment, char *path) {
    join(path, variable(environment, "HF_HOME"), "/accelerate/default_config.yaml");
    if (!*path)
        join(path, variable(environment, "XDG_CACHE_HOME"), "/huggingface/accelerate/default_config.yaml");
    if (!*path)
        join(path, variable(environment, "HOME"), "/.cache/huggingface/accelerate/default_config.yaml");
}

/* All of a file, to be freed; NULL with errno. A pipe or device that never ends is cut at what is too long anyway. */
static char *read_whole(const char *path, size_t *bytes) {
    char *text = malloc(YAML_BYTES_MAX + 2);
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = 0;
    *bytes = 0;
    while (fd >= 0 && *bytes <= YAML_BYTES_MAX && (n = read(fd, text + *bytes, YAML_BYTES_MAX + 1 - *bytes)) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        *bytes += n > 0 ? (size_t)n : 0;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && n >= 0)
        return text;
    free(text);
    errno = error;
    return NULL;
}

int settings_load(struct settings *settings, const char *path, struct problem *problem) {
    char fault[YAML_FAULT_CHARS];
    size_t bytes;
    const char *given = settings->config.config_file;
    bool is_named = !given || *given; /* `config to-fsdp2` reads no other settings */
    if (path != settings->path)
        snprintf(settings->path, sizeof settings->path, "%s", path);
    free(settings->text);
    settings->text = read_whole(path, &bytes);
    if (!settings->text)
        return problem_set(problem, EXIT_LAUNCHER, "AR-CONFIG-FILE",
                           is_named ? "correct the path of --config-file (or ACCEL_RUN_CONFIG_FILE), or leave it out"
                                    : "correct the file, move it away, or read none with '--config-file none'",
                           "the configuration file %s cannot be read: %s", path, strerror(errno));
    settings->text[bytes] = 0;
    if (yaml_read(&settings->yaml, settings->text, bytes, fault))
        return problem_set(problem, EXIT_LAUNCHER, "AR-CONFIG",
                           "correct the file; 'accel-run config default --config-file FILE --overwrite' writes a new one", "%s:%s", path,
                           fault);
    return 0;
}

static int apply(struct settings *settings, struct problem *problem) {
    char fault[CONFIG_FAULT_CHARS];
    if (settings_load(settings, settings->path, problem))
        return -1;
    if (config_read_file(&settings->config, &settings->yaml, settings->path, &settings->foreign, &settings->notes, fault))
        return problem_set(problem, EXIT_LAUNCHER, "AR-CONFIG", "correct the file, or read none with '--config-file none'", "%s", fault);
    return 0;
}

static bool was_typed(const struct foreign *foreign, enum foreign_id id) {
    for (uint32_t i = 0; i < foreign->count; i++)
        if (foreign->given[i].id == id)
            return true;
    return false;
}

/* Accelerate's own file, which lies there for Accelerate: read when nobody has said how many ranks, as `accelerate launch` without a number does;
   with --cpu it is not read there either. */
static int apply_accelerates(struct settings *settings, char *const *environment, const struct engine *engine, struct problem *problem) {
    accelerate_path(environment, settings->path);
    bool is_counted = settings->config.origin[CONFIG_ID_ranks] > CONFIG_FROM_DEFAULT || (engine && engine->mode != ENGINE_SPAWN);
    bool is_wanted = !is_counted && !was_typed(&settings->foreign, FOREIGN_ID_cpu);
    if (!*settings->path || !is_wanted || access(settings->path, F_OK)) {
        *settings->path = 0;
        return 0;
    }
    if (apply(settings, problem))
        return -1;
    config_note(&settings->notes, CONFIG_NOTICE, "AR-ACCELERATE-FILE",
                "%.200s: Accelerate's settings are used, as -n was not given: %u rank%s", settings->path, settings->config.ranks,
                settings->config.ranks == 1 ? "" : "s");
    return 0;
}

/* torchrun's "--nproc-per-node auto" or "cpu", also as a variable. */
static void count_cores(struct settings *settings) {
    static struct topology topology; /* 80 KiB */
    struct config *config = &settings->config;
    if (!config->ranks_are_cores)
        return;
    topology_read(&topology, "");
    uint32_t cores = topology_cores(&topology);
    config->ranks = cores < BOARD_RANKS_MAX ? cores : BOARD_RANKS_MAX;
    config->ranks_are_cores = false;
    bool is_variable = config->origin[CONFIG_ID_ranks] == CONFIG_FROM_LAUNCHER;
    config_note(&settings->notes, CONFIG_NOTICE, "AR-RANKS-CORES", "%s: %u rank%s, as many as cores may be used",
                is_variable ? "PET_NPROC_PER_NODE" : "--nproc-per-node", config->ranks, config->ranks == 1 ? "" : "s");
}

/* What all sources come to: with the launcher that has started us, over all hosts. */
static int settle(struct settings *settings, struct engine *engine, struct problem *problem) {
    char fault[CONFIG_FAULT_CHARS];
    if (engine && engines_settle(engine, &settings->config, problem))
        return -1;
    count_cores(settings);
    if (!config_settle_hosts(&settings->config, fault))
        return 0;
    return problem_set(problem, EXIT_LAUNCHER, "AR-HOSTS-SETTINGS",
                       "on each of two hosts: accel-run -n 4 --nnodes 2 --node-rank K --master-addr FIRST_HOST program", "%s", fault);
}

int settings_read(struct settings *settings, int argc, char *const *argv, char *const *environment, struct engine *engine,
                  struct problem *problem) {
    struct config *config = &settings->config;
    memset(settings, 0, sizeof *settings);
    int program = options_read(argc, argv, environment, config, &settings->foreign, problem);
    if (program < 0 || config->help || config->version || *config->completion)
        return program;
    int status = 0;
    if (*config->config_file) {
        if (strcmp(config->config_file, "none") != 0) {
            snprintf(settings->path, sizeof settings->path, "%s", config->config_file);
            status = apply(settings, problem);
        }
    } else {
        snprintf(settings->path, sizeof settings->path, "%s", own_name);
        if (access(settings->path, F_OK))
            settings_user_path(environment, settings->path);
        status = *settings->path && access(settings->path, F_OK) == 0 ? apply(settings, problem)
                                                                      : apply_accelerates(settings, environment, engine, problem);
    }
    if (!status && settle(settings, engine, problem)) {
        settings->refused = *problem;
        status = config->show_config ? 0 : -1; /* what was found is shown still, and that it is refused */
        /* a file of SageMaker's counts hosts, too: its user hears first that it is no file for us */
        if (status)
            foreign_judge(&settings->foreign, config, &settings->notes);
    }
    /* where torchrun is above, it has read its own */
    bool has_torchruns = engine && (engine->mode == ENGINE_SPAWN || engines_hides(engine, "PET_="));
    if (!status && engine)
        foreign_note_variables(environment, has_torchruns, &settings->notes);
    return status ? -1 : program;
}

void settings_clear(struct settings *settings) {
    yaml_clear(&settings->yaml);
    free(settings->text);
    settings->text = NULL;
}

void settings_say_notes(const struct settings *settings) {
    static const char *const weights[] = {[CONFIG_NOTICE] = "notice", [CONFIG_WARNING] = "warning", [CONFIG_REFUSED] = "refused"};
    const struct config_notes *notes = &settings->notes;
    for (uint32_t i = 0; i < notes->count; i++)
        if (notes->list[i].weight == CONFIG_REFUSED || settings->config.log_level >= CONFIG_LEVEL_WARN)
            dprintf(STDERR_FILENO, "accel-run: %s %s: %s\n", weights[notes->list[i].weight], notes->list[i].id, notes->list[i].text);
    if (notes->lost)
        dprintf(STDERR_FILENO, "accel-run: and %u more\n", notes->lost);
}

int settings_refuse(struct settings *settings, struct problem *problem) {
    struct config_notes *notes = &settings->notes;
    foreign_judge(&settings->foreign, &settings->config, notes);
    if (!notes->refused)
        return 0;
    if (!settings->config.allow_unsupported)
        return problem_set(problem, EXIT_LAUNCHER, "AR-UNSUPPORTED", "follow the lines above, or run without it all: --allow-unsupported",
                           "%u setting%s of another launcher cannot be carried out", notes->refused, notes->refused > 1 ? "s" : "");
    for (uint32_t i = 0; i < notes->count; i++)
        if (notes->list[i].weight == CONFIG_REFUSED)
            notes->list[i].weight = CONFIG_WARNING;
    return 0;
}
