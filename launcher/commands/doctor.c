#define _GNU_SOURCE
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

#include "../../config/config.h"
#include "json.h"
#include "../program/script.h"

struct doctor_options {
    bool json, rows, help, module;
    int program; /* index of its name among the arguments; argc: none */
};

/* Nothing of the program is run, so that behind its name, too, these are the doctor's; "--" leaves all to the program. */
static void read_late_options(const struct command_call *call, struct doctor_options *options) {
    for (int i = options->program + 1; i < call->argc; i++) {
        options->json |= !strcmp(call->arguments[i], "--json");
        options->rows |= !strcmp(call->arguments[i], "--rows");
    }
}

/* Returns NULL, or the argument that is not known. */
static const char *read_options(const struct command_call *call, struct doctor_options *options) {
    *options = (struct doctor_options){.program = 1};
    for (; options->program < call->argc && call->arguments[options->program][0] == '-'; options->program++) {
        const char *argument = call->arguments[options->program];
        if (!strcmp(argument, "--")) {
            options->program++;
            return NULL;
        }
        if (!strcmp(argument, "--json"))
            options->json = true;
        else if (!strcmp(argument, "--rows"))
            options->rows = true;
        else if (!strcmp(argument, "-m") || !strcmp(argument, "--module"))
            options->module = true;
        else if (!strcmp(argument, "--help") || !strcmp(argument, "-h"))
            options->help = true;
        else
            return argument;
    }
    read_late_options(call, options);
    return NULL;
}

static const char *need_word(enum row_need need) {
    return need == ROW_REQUIRED ? "required" : need == ROW_VARIANT ? "variant" : "optional";
}

static void print_rows(const struct rows *rows, FILE *out) {
    fprintf(out, "\n%-36s %-16s %-9s %s\n", "hook", "library", "need", "in this libtorch");
    for (int i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        if (!row->is_call)
            fprintf(out, "%-36s %-16s %-9s %s\n", row->name, row->library, need_word(row->need), rows_binding(row));
    }
}

static void print_rows_json(const struct rows *rows, FILE *out) {
    fputc('[', out);
    for (int i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        int members = 0;
        fputs(i ? ", {" : "{", out);
        json_text(out, &members, "kind", row->is_call ? "called" : "hooked");
        json_text(out, &members, "name", row->name);
        json_text(out, &members, "library", row->library);
        json_text(out, &members, "symbol", row->symbol);
        json_text(out, &members, "need", need_word(row->need));
        json_text(out, &members, "bound", row->is_call && row->is_present ? "present" : rows_binding(row));
        fputc('}', out);
    }
    fputc(']', out);
}

static void print_json(const struct doctor *doctor, FILE *out) {
    int members = 0;
    fputc('{', out);
    json_text(out, &members, "accel_run", ACCEL_RUN_VERSION);
    json_member(out, &members, "ok");
    fputs(findings_count(&doctor->findings, FINDING_FAIL) ? "false" : "true", out);
    json_member(out, &members, "findings");
    findings_print_json(&doctor->findings, out);
    if (doctor->has_torch) {
        json_text(out, &members, "libtorch", doctor->torch.cpu->path);
        json_text(out, &members, "libtorch_version", doctor->torch.version);
        json_member(out, &members, "functions");
        print_rows_json(&doctor->rows, out);
    }
    fputs("\n}\n", out);
}

static void print_text(const struct doctor *doctor, bool with_rows, FILE *out) {
    const struct findings *findings = &doctor->findings;
    findings_print(findings, out);
    if (with_rows && doctor->has_torch)
        print_rows(&doctor->rows, out);
    fprintf(out, "\n%d passed, %d warning%s, %d failed\n", findings_count(findings, FINDING_PASS), findings_count(findings, FINDING_WARN),
            findings_count(findings, FINDING_WARN) == 1 ? "" : "s", findings_count(findings, FINDING_FAIL));
}

/* The program as a run would start it: `doctor train.py` is about python3 and train.py. */
static void take_program(struct doctor *doctor, char *const *program, bool is_module) {
    static struct config config;
    static struct config_notes notes;
    struct problem problem;
    config.module = is_module;
    script_take(&program, &config, config_variable(doctor->environment, "PATH"), &notes, &problem);
    doctor->program = program;
}

int doctor_run(const struct command_call *call) {
    struct doctor_options options;
    const char *unknown = read_options(call, &options);
    if (unknown)
        return command_refuse(call, unknown);
    if (options.help)
        return command_print_usage(call->arguments[0], stdout);
    struct doctor *doctor = calloc(1, sizeof *doctor);
    if (!doctor)
        return EXIT_LAUNCHER;
    doctor->environment = call->environment;
    if (options.program < call->argc)
        take_program(doctor, call->arguments + options.program, options.module);
    doctor_program(doctor);
    doctor_torch(doctor);
    doctor_machine(doctor);
    doctor_ranks(doctor);
    if (options.json)
        print_json(doctor, stdout);
    else
        print_text(doctor, options.rows, stdout);
    int status = findings_count(&doctor->findings, FINDING_FAIL) ? 1 : 0;
    findings_clear(&doctor->findings);
    rows_clear(&doctor->rows);
    free(doctor);
    return command_flush() ? EXIT_LAUNCHER : status;
}
