/*
 * `accel-run config`: asks for settings and keeps them in a file; `config default` writes one without questions, `config update` writes today's form of
 * a file (of ours, or of Accelerate's, which stays), `config to-fsdp2` converts one of Accelerate's. A file is whole or not there at all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "../placement/topology.h"
#include "fsdp2.h"
#include "menu.h"
#include "questions.h"
#include "../settings.h"

struct call {
    const struct command_call *command;
    const char *verb;           /* "", default, update, to-fsdp2 */
    const char *input, *output; /* as given; NULL: not given */
    const char *precision;      /* likewise, of `config default` */
    bool overwrite;
    struct settings *settings;
    struct problem problem;
};

static bool is_verb(const char *word) {
    return !strcmp(word, "default") || !strcmp(word, "update") || !strcmp(word, "to-fsdp2");
}

static int read_arguments(struct call *call) {
    const struct command_call *command = call->command;
    call->verb = "";
    for (int i = 1; i < command->argc; i++) {
        const char *argument = command->arguments[i], *value = NULL;
        if (i == 1 && is_verb(argument))
            call->verb = argument;
        else if ((value = command_value(command, &i, "--config-file")))
            call->input = value;
        else if ((value = command_value(command, &i, "--output-file")))
            call->output = value;
        else if ((value = command_value(command, &i, "--mixed-precision")))
            call->precision = value;
        else if (!strcmp(argument, "--overwrite"))
            call->overwrite = true;
        else
            return command_refuse(command, argument);
        if (value && !*value)
            return command_refuse(command, argument);
    }
    return 0;
}

/* ---- writing */

static int fault_of_file(struct call *call, const char *path) {
    return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-FILE", "name another place with --output-file", "%s cannot be written: %s",
                       path, strerror(errno));
}

static void make_folders(const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(folder, 0777);
        *slash = '/';
    }
}

static int print_file(struct call *call, FILE *out) {
    if (!strcmp(call->verb, "to-fsdp2"))
        return fsdp2_convert(call->settings->text, &call->settings->yaml, call->settings->path, out, &call->problem);
    config_write(&call->settings->config, out);
    return 0;
}

/* The file is replaced by rename: behind a link it is the one that the link names, and a device or a pipe would be gone. */
static int resolve(struct call *call, const char *path, char *real) {
    struct stat status;
    if (!realpath(path, real)) {
        snprintf(real, PATH_MAX, "%s", path);
        if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
            return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-FILE",
                               "make the file that it names, or name another place with --output-file",
                               "%s cannot be written: it is a link to what is not there", path);
    }
    if (stat(real, &status) == 0 && !S_ISREG(status.st_mode))
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-FILE", "name another place with --output-file",
                           "%s cannot be written: it is not a regular file", path);
    return 0;
}

/* Whose it is and who may read it stays as it was. A group that we may not give it gets what all others get. */
static void take_rights(int descriptor, const struct stat *before) {
    mode_t mode = before->st_mode & 0777;
    if (fchown(descriptor, before->st_uid, before->st_gid) && fchown(descriptor, (uid_t)-1, before->st_gid))
        mode = (mode & 0707) | (mode & 0007) << 3;
    fchmod(descriptor, mode);
}

/* The new file beside the one at path, or NULL with errno. Nobody reads what is secret before it has the old one's rights. */
static FILE *open_part(const char *part, const char *path) {
    struct stat before;
    bool is_there = stat(path, &before) == 0;
    int descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_there ? 0600 : 0666);
    FILE *out = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (out && is_there)
        take_rights(descriptor, &before);
    if (descriptor >= 0 && !out)
        close(descriptor);
    return out;
}

static int write_file(struct call *call, const char *named, bool may_exist) {
    char part[PATH_MAX + 16], path[PATH_MAX];
    if (resolve(call, named, path))
        return -1;
    if (!may_exist && access(path, F_OK) == 0)
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-EXISTS", "add --overwrite, or name another place with --output-file",
                           "%s is there already", named);
    make_folders(path);
    snprintf(part, sizeof part, "%s.part-%d", path, (int)getpid());
    FILE *out = open_part(part, path);
    if (!out)
        return fault_of_file(call, path);
    int status = print_file(call, out);
    int failed = fflush(out) || ferror(out) || fsync(fileno(out));
    if (fclose(out) || failed || (status == 0 && rename(part, path)))
        status = status ? status : fault_of_file(call, path);
    if (status)
        unlink(part);
    else
        printf("written: %s\n", named);
    return status;
}

/* ---- the verbs */

static const char own_path[] = "accel-run.yaml";

/* The machine's ranks, where no file and no variable says otherwise. */
static void take_machine(struct config *config) {
    static struct topology topology; /* 80 KiB */
    char text[16], fault[CONFIG_FAULT_CHARS];
    topology_read(&topology, "");
    snprintf(text, sizeof text, "%u", questions_ranks(topology_cores(&topology)));
    if (config->origin[CONFIG_ID_ranks] == CONFIG_FROM_DEFAULT)
        config_set(config, CONFIG_ID_ranks, text, CONFIG_FROM_FILE, "ranks", fault);
}

/* The settings of a file: --config-file's, or the one a run would read. */
static int read_settings(struct call *call) {
    static const char name[] = "--config-file";
    char *with[] = {"accel-run", (char *)name, (char *)call->input, "--show-config", NULL},
         *without[] = {"accel-run", "--show-config", NULL};
    /* variables of the environment are not a file's business, but for those that say where it is */
    static const char *const places[] = {"HOME=", "HF_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "ACCEL_RUN_CONFIG_FILE="};
    char *kept[sizeof places / sizeof *places + 1] = {0};
    int n = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (char *const *variable = call->command->environment; *variable; variable++)
            if (!strncmp(*variable, places[i], strlen(places[i]))) {
                kept[n++] = *variable;
                break;
            }
    int status = settings_read(call->settings, call->input ? 4 : 2, call->input ? with : without, kept, NULL, &call->problem);
    return status < 0 ? -1 : 0;
}

/* Accelerate's flag: a file that keeps what nobody can do would stop every run. */
static int check_precision(struct call *call) {
    const char *value = call->precision ? call->precision : "no";
    if (strcmp(value, "no") && strcmp(value, "fp16") && strcmp(value, "bf16"))
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "leave it out, or: --mixed-precision no",
                           "--mixed-precision: '%.80s' is not one of no, fp16, bf16", value);
    return foreign_is_plain(FOREIGN_ID_mixed_precision, value)
               ? 0
               : problem_set(&call->problem, EXIT_LAUNCHER, "AR-UNSUPPORTED", "leave it out, or: --mixed-precision no",
                             "--mixed-precision %s: %s", value, foreign_rows[FOREIGN_ID_mixed_precision].words);
}

static int run_default(struct call *call) {
    char path[PATH_MAX];
    if (check_precision(call))
        return -1;
    config_defaults(&call->settings->config);
    take_machine(&call->settings->config);
    settings_user_path(call->command->environment, path);
    const char *output = call->output ? call->output : call->input ? call->input : *path ? path : own_path;
    return write_file(call, output, call->overwrite);
}

/* A file that has a key of ours is ours, whatever else it has: Accelerate refuses keys that it does not know. */
static bool is_accelerates(const struct settings *settings) {
    for (uint32_t i = 0; i < settings->yaml.count; i++)
        if (settings->yaml.entries[i].parent < 0 && config_find_key(settings->yaml.entries[i].key) >= 0)
            return false;
    return settings->foreign.count > 0;
}

static int run_update(struct call *call) {
    char fault[CONFIG_FAULT_CHARS];
    if (read_settings(call))
        return -1;
    if (!*call->settings->path)
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-FILE", "'accel-run config default' writes one",
                           "there is no file to update");
    int refused = settings_refuse(call->settings, &call->problem);
    settings_say_notes(call->settings);
    if (config_share_hosts(&call->settings->config, fault)) { /* what is missing only, each host's command may add */
        call->problem = call->settings->refused;
        return -1;
    }
    if (refused && !call->overwrite) /* what stops a run must not be lost in silence */
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-EXISTS",
                           "take out of the file what is refused above, or add --overwrite: then it is left out of the new file",
                           "%s asks for what is not available: a file without it would run, and do something else", call->settings->path);
    bool is_ours = !is_accelerates(call->settings);
    if (call->settings->config
            .node_rank_is_theirs) /* all hosts read this 0 of Accelerate's: as our own word, each of them would be the first */
        call->settings->config.origin[CONFIG_ID_node_rank] = CONFIG_FROM_DEFAULT;
    const char *output = call->output ? call->output : is_ours ? call->settings->path : own_path;
    return write_file(call, output, call->overwrite || (is_ours && !call->output));
}

static int run_fsdp2(struct call *call) {
    if (!call->input)
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "accel-run config to-fsdp2 --config-file FILE",
                           "no file was named");
    if (settings_load(call->settings, call->input, &call->problem))
        return -1;
    if (!call->output && !call->overwrite)
        return print_file(call, stdout);
    return write_file(call, call->output ? call->output : call->input, call->overwrite);
}

/* The settings that the file has now are the answers to begin with. */
static int begin_with(struct call *call, const char *output) {
    config_defaults(&call->settings->config);
    if (access(output, F_OK) == 0) {
        call->input = output;
        settings_clear(call->settings);
        if (read_settings(call))
            return -1;
        if (call->settings->foreign.count && !is_accelerates(call->settings))
            return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-EXISTS",
                               "'accel-run config update' writes it with accel-run's keys alone, and says what is lost",
                               "%s has keys of Accelerate's beside those of accel-run", output);
        if (call->settings->foreign.count)
            return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-EXISTS",
                               "'accel-run config update' makes one of accel-run's from it",
                               "%s is a file of Accelerate, which would no longer read it", output);
        settings_say_notes(call->settings); /* keys that nobody reads will not be in the new file */
    }
    take_machine(&call->settings->config);
    return 0;
}

static int run_questions(struct call *call) {
    static struct questions questions;
    char path[PATH_MAX];
    settings_user_path(call->command->environment, path);
    const char *const places[] = {own_path, *path ? path : NULL, NULL};
    const char *given = call->output ? call->output : call->input, *output = given;
    int status = QUESTIONS_BACK;
    questions.has_menu = menu_is_possible(config_variable(call->command->environment, "TERM"));
    if (questions.has_menu)
        setvbuf(stdin, NULL, _IONBF, 0); /* what is typed ahead belongs to the next list */
    while (status == QUESTIONS_BACK) {
        int place = given ? 0 : questions_place(&questions, places, stdin, stdout);
        output = given ? given : place >= 0 ? places[place] : NULL;
        if (output && begin_with(call, output))
            return -1;
        status = output ? questions_ask(&questions, &call->settings->config, stdin, stdout) : -1;
    }
    if (status)
        putchar('\n'); /* behind the question */
    if (status)
        return problem_set(&call->problem, EXIT_LAUNCHER, "AR-CONFIG-UNFINISHED", "'accel-run config default' asks nothing",
                           "the answers ended before the questions; nothing was written");
    return write_file(call, output, true);
}

int settings_command_run(const struct command_call *command) {
    static struct settings settings;
    struct call call = {.command = command, .settings = &settings};
    int status = read_arguments(&call);
    if (status)
        return status;
    if (call.precision && strcmp(call.verb, "default") != 0)
        status = problem_set(&call.problem, EXIT_LAUNCHER, "AR-OPTION-UNKNOWN", "leave it out",
                             "--mixed-precision is for 'accel-run config default'");
    else if (!strcmp(call.verb, "default"))
        status = run_default(&call);
    else if (!strcmp(call.verb, "update"))
        status = run_update(&call);
    else if (!strcmp(call.verb, "to-fsdp2"))
        status = run_fsdp2(&call);
    else
        status = run_questions(&call);
    fflush(stdout);
    if (status)
        fprintf(stderr, "accel-run: error %s: %s\n  what to do: %s\n", call.problem.id, call.problem.what, call.problem.cure);
    settings_clear(&settings);
    return status ? EXIT_LAUNCHER : command_flush();
}
