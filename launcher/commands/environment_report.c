/*
 * `accel-run env`: what a report of a defect needs, in one block to be pasted. Nothing is tried, nothing leaves the machine.
 */
#define _GNU_SOURCE
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/config.h"
#include "../../config/protocol.h"
#include "capture.h"
#include "command.h"
#include "../engines/engines.h"
#include "json.h"
#include "machine.h"
#include "../program/preflight.h"
#include "../settings.h"
#include "torch_find.h"

enum { FACTS_MAX = 160, VALUE_CHARS = 512, HELPER_MS = 3000 };

struct fact {
    char name[64], value[VALUE_CHARS];
};

struct facts {
    struct fact list[FACTS_MAX];
    int count;
};

static void add(struct facts *facts, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(struct facts *facts, const char *name, const char *format, ...) {
    va_list arguments;
    if (facts->count == FACTS_MAX)
        return;
    struct fact *fact = &facts->list[facts->count++];
    snprintf(fact->name, sizeof fact->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(fact->value, sizeof fact->value, format, arguments);
    va_end(arguments);
}

/* ---- us and the machine */

/* GCC's __VERSION__ is a number alone, Clang's begins with its name. */
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "GCC " __VERSION__
#endif

static void add_ours(struct facts *facts, char *const *environment) {
    static struct target target; /* 8 KiB */
    struct problem problem;
    add(facts, "accel-run", "%s", ACCEL_RUN_VERSION);
    add(facts, "built with", "%s, glibc %d.%d, protocol %d", COMPILER, __GLIBC__, __GLIBC_MINOR__, PROTOCOL_VERSION);
    char *self[] = {(char *)(uintptr_t) "/proc/self/exe", NULL};
    bool is_missing = preflight_run(self, NULL, config_variable(environment, CONFIG_ENV_SHIM), &target, &problem) && !*target.shim;
    add(facts, "library", "%s", is_missing ? problem.what : target.shim);
}

static void add_machine(struct facts *facts) {
    struct machine machine;
    machine_read(&machine, "");
    add(facts, "system", "%s", machine.system);
    add(facts, "kernel", "%s", machine.kernel);
    add(facts, "glibc", "%s", gnu_get_libc_version());
    add(facts, "processor", "%s", machine.processor);
    add(facts, "cores", "%u, with %u of %u processors%s, quota %s, NUMA nodes %u, sockets %u", machine.cores_allowed,
        machine.processors_allowed, machine.processors_online, machine.is_narrowed ? " (bound)" : "", machine.quota, machine.numa_nodes,
        machine.sockets);
    add(facts, "memory", "%llu MiB, %llu MiB available", (unsigned long long)(machine.memory_bytes >> 20),
        (unsigned long long)(machine.memory_available_bytes >> 20));
    add(facts, "/dev/shm", "%llu MiB, %llu MiB available", (unsigned long long)(machine.shm_bytes >> 20),
        (unsigned long long)(machine.shm_available_bytes >> 20));
    add(facts, "open files", "%llu, %llu at most", (unsigned long long)machine.open_files, (unsigned long long)machine.open_files_hard);
    add(facts, "gpu driver", "%s", *machine.driver ? machine.driver : "none");
    for (uint32_t i = 0; i < machine.gpu_count; i++)
        add(facts, "gpu", "%s", machine.gpus[i]);
}

/* ---- compilers and libtorch */

/* The first line that a program prints, or "". */
static void first_line(const char *name, const char *option, char *const *environment, char *line) {
    static struct capture capture; /* 512 KiB */
    char path[PATH_MAX];
    struct problem problem;
    *line = 0;
    if (preflight_find(name, config_variable(environment, "PATH"), path, &problem))
        return;
    char *arguments[] = {path, (char *)(uintptr_t)option, NULL};
    struct capture_request request = {path, arguments, environment, NULL, HELPER_MS, NULL};
    if (capture_run(&request, &capture) == 0)
        snprintf(line, VALUE_CHARS, "%.*s", (int)strcspn(capture.out, "\n"), capture.out);
}

static void add_compilers(struct facts *facts, char *const *environment) {
    static const char *const names[] = {"c++", "clang++"};
    char line[VALUE_CHARS];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        first_line(names[i], "--version", environment, line);
        if (*line)
            add(facts, names[i], "%s", line);
    }
}

static void add_python(struct facts *facts, char *const *environment) {
    static const char *const names[] = {"python3", "python"};
    static struct torch_find find; /* 270 KiB */
    char path[PATH_MAX], last[PATH_MAX] = "";
    struct problem problem;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (preflight_find(names[i], config_variable(environment, "PATH"), path, &problem) ||
            torch_find_of_python(&find, path, environment) || !strcmp(find.python, last))
            continue;
        snprintf(last, sizeof last, "%s", find.python);
        add(facts, names[i], "%s, %s", find.python_version, find.python);
        add(facts, "  its torch", "%s%s%.300s", *find.folder ? find.version : "none", *find.folder ? ", " : "", find.folder);
        if (find.cpu)
            add(facts, "  its libtorch", "%s", find.cpu->path);
    }
}

/* Those that the dynamic loader finds by name: lines "libtorch_cpu.so (libc6,x86-64) => /usr/lib/..." of its cache. */
static void add_cached(struct facts *facts, char *const *environment) {
    static struct capture capture;
    static const char *const places[] = {"/sbin/ldconfig", "/usr/sbin/ldconfig"};
    char *arguments[] = {(char *)(uintptr_t) "ldconfig", (char *)(uintptr_t) "-p", NULL};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct capture_request request = {places[i], arguments, environment, NULL, HELPER_MS, NULL};
        if (capture_run(&request, &capture) == 0)
            break;
    }
    char *found = strstr(capture.out, "\tlibtorch_cpu.so"), *path = found ? strstr(found, "=> ") : NULL;
    if (path)
        add(facts, "libtorch of the system", "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
}

/* ---- the environment */

static bool matters(const char *variable) {
    static const char *const prefixes[] = {"ACCEL_RUN_", "OMP_", "MKL_",  "OPENBLAS_", "TORCH_",          "PYTORCH_",    "CUDA_", "NCCL_",
                                           "GOMP_",      "KMP_", "ATEN_", "LD_",       "PYTHONHASHSEED=", "PYTHONPATH=", "GLIBC_"};
    if (!strncmp(variable, PROTOCOL_ENV_COOKIE, strlen(PROTOCOL_ENV_COOKIE)))
        return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    return engines_hides(NULL, variable);
}

static void add_variables(struct facts *facts, char *const *environment) {
    char name[64];
    for (; *environment; environment++) {
        size_t length = strcspn(*environment, "=");
        if (!matters(*environment) || !(*environment)[length] || length > 50)
            continue;
        snprintf(name, sizeof name, "variable %.*s", (int)length, *environment);
        add(facts, name, "%s", *environment + length + 1);
    }
}

/* ---- settings: what is not the default, as --show-config prints it */

static void add_settings(struct facts *facts, char *const *environment, const char *file) {
    static struct settings settings;
    char *arguments[] = {(char *)(uintptr_t) "accel-run", (char *)(uintptr_t) "--show-config", (char *)(uintptr_t) "--config-file",
                         (char *)(uintptr_t)file, NULL},
         *text = NULL;
    struct problem problem;
    size_t bytes;
    FILE *shown = open_memstream(&text, &bytes);
    if (!shown)
        return;
    if (settings_read(&settings, file ? 4 : 2, arguments, environment, NULL, &problem) < 0)
        add(facts, "settings", "%s: %.400s", problem.id, problem.what);
    else
        config_print(&settings.config, shown);
    fclose(shown);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (*line && *line != '#' && !strstr(line, " # default"))
            add(facts, "setting", "%.500s", line);
    if (*settings.path)
        add(facts, "settings file", "%.500s", settings.path);
    settings_clear(&settings);
    free(text);
}

/* ---- printing */

static void print_text(const struct facts *facts) {
    for (int i = 0; i < facts->count; i++)
        printf("%-24s %s\n", facts->list[i].name, facts->list[i].value);
}

static const char *without_spaces(const char *name) {
    return name + strspn(name, " ");
}

/* A list of pairs: names may come twice (gpu). */
static void print_json(const struct facts *facts) {
    fputc('[', stdout);
    for (int i = 0; i < facts->count; i++) {
        int members = 0;
        fputs(i ? ", {" : "{", stdout);
        json_text(stdout, &members, "name", without_spaces(facts->list[i].name));
        json_text(stdout, &members, "value", facts->list[i].value);
        fputc('}', stdout);
    }
    fputs("]\n", stdout);
}

/* Returns the argument that is not understood, or NULL. *file: of --config-file, as `accelerate env` has it; else NULL. */
static const char *read_options(const struct command_call *call, bool *json, const char **file) {
    for (int i = 1; i < call->argc; i++) {
        const char *argument = call->arguments[i];
        const char *value = command_value(call, &i, "--config-file");
        if (!strcmp(argument, "--json"))
            *json = true;
        else if (value && *value)
            *file = value;
        else
            return argument;
    }
    return NULL;
}

int environment_report_run(const struct command_call *call) {
    static struct facts facts; /* 90 KiB */
    const char *file = NULL;
    bool json = false;
    const char *unknown = read_options(call, &json, &file);
    if (unknown)
        return command_refuse(call, unknown);
    add_ours(&facts, call->environment);
    add_machine(&facts);
    add_compilers(&facts, call->environment);
    add_python(&facts, call->environment);
    add_cached(&facts, call->environment);
    add_settings(&facts, call->environment, file);
    add_variables(&facts, call->environment);
    json ? print_json(&facts) : print_text(&facts);
    return command_flush();
}
