// sources: launcher/options.c launcher/problem.c config/*.c
/* Every row of foreign.def, in every way of writing it: what becomes of a flag or key is said, or done; and of a wrong value, what is expected. */
#include "unit.h"

#include "../../config/file.h"
#include "../../launcher/options.h"

static struct config config;
static struct foreign foreign;
static struct config_notes notes;
static struct problem problem;
static char fault[CONFIG_FAULT_CHARS];

static int read_options(char **argv) {
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(&foreign, 0, sizeof foreign);
    memset(&notes, 0, sizeof notes);
    memset(&problem, 0, sizeof problem);
    int program = options_read(argc, argv, (char *[]){NULL}, &config, &foreign, &problem);
    if (program >= 0)
        foreign_judge(&foreign, &config, &notes);
    return program;
}

static int read_text(const char *text) {
    static struct yaml yaml; /* lives as long as what is read from it */
    yaml_clear(&yaml);
    memset(&foreign, 0, sizeof foreign);
    memset(&notes, 0, sizeof notes);
    config_defaults(&config);
    int status = yaml_read(&yaml, text, strlen(text), fault);
    if (status == 0)
        status = config_read_file(&config, &yaml, "f.yaml", &foreign, &notes, fault);
    if (status == 0)
        foreign_judge(&foreign, &config, &notes);
    return status;
}

/* A value that the row can have and that asks for something; NULL: it has only values that ask for nothing. */
static const char *value_for(enum foreign_id id) {
    static char value[64];
    const struct foreign_row *row = &foreign_rows[id];
    if (row->type == FOREIGN_SWITCH)
        return "true";
    if (row->target < CONFIG_OPTIONS)
        return config_options[row->target].type == CONFIG_BIND   ? "node"
               : config_options[row->target].type == CONFIG_TEXT ? "something"
                                                                 : "7";
    for (const char *list = row->values; *list; list += strcspn(list, "|") + (strchr(list, '|') != NULL)) {
        snprintf(value, sizeof value, "%.*s", (int)strcspn(list, "|"), list);
        if (!foreign_is_plain(id, value))
            return value;
    }
    if (*row->values)
        return NULL;
    if (row->type == FOREIGN_BOOL)
        return foreign_is_plain(id, "true") ? "false" : "true";
    return row->type == FOREIGN_INTEGER || row->type == FOREIGN_NUMBER ? "7" : "something";
}

/* Is a value of this row ever wrong? */
static bool is_checked(const struct foreign_row *row) {
    bool is_free = row->type == FOREIGN_WORDS && !*row->values;
    return row->target < CONFIG_OPTIONS ? config_options[row->target].type != CONFIG_TEXT : !is_free;
}

static bool is_noted(const struct foreign_row *row, const char *value, bool is_refused) {
    for (uint32_t i = 0; i < notes.count; i++)
        if (strstr(notes.list[i].text, row->name) && (!value || strstr(notes.list[i].text, value)) &&
            (notes.list[i].weight == CONFIG_REFUSED) == is_refused && strlen(notes.list[i].text) > strlen(row->name) + 15)
            return true;
    return false;
}

/* What may be passed over in silence, since it is so already. */
static bool is_so(const char *name) {
    return !strcmp(name, "standalone") || !strcmp(name, "same_network") || !strcmp(name, "no_tpu_cluster") || !strcmp(name, "use_cpu") ||
           !strcmp(name, "cpu");
}

/* Done, or said in one line with the value. */
static bool has_effect(enum foreign_id id, const char *value, enum config_origin origin) {
    const struct foreign_row *row = &foreign_rows[id];
    char text[64], expected[64];
    if (row->verdict == FOREIGN_SAME)
        return !notes.count && is_so(row->name);
    if (row->verdict != FOREIGN_WORKS)
        return notes.count == 1 && is_noted(row, strncmp(row->name, "aws_", 4) ? value : NULL, row->verdict != FOREIGN_NOTICE);
    config_text(&config, (enum config_id)row->target, text, sizeof text);
    snprintf(expected, sizeof expected, "%s", row->type == FOREIGN_SWITCH ? row->words : !strcmp(value, "node") ? "numa" : value);
    return config.origin[row->target] == origin && !strcmp(text, expected);
}

static void expect_flag(enum foreign_id id, char **argv, const char *value) {
    int program = read_options(argv);
    if (program > 0 && !strcmp(argv[program], "program") &&
        has_effect(id, foreign_takes_value(id) ? value : NULL, CONFIG_FROM_COMMAND_LINE))
        return;
    printf("    %s: nothing is said, or not what it should be (%s %u notes %s)\n", argv[1], problem.what, notes.count, notes.list[0].text);
    unit_failures++;
}

static bool is_flag(const struct foreign_row *row) {
    return row->homes & (FOREIGN_LAUNCH | FOREIGN_TORCHRUN);
}

TEST("every flag of every row has an effect that is said or done, with '-' and '_', with '=' and without, and by its letter") {
    for (int id = 0; id < FOREIGN_ROWS; id++) {
        const struct foreign_row *row = &foreign_rows[id];
        const char *value = value_for((enum foreign_id)id);
        char name[80], both[160], letter[3] = {'-', row->letter, 0};
        if (!is_flag(row) || !value)
            continue;
        for (int dashes = 0; dashes < 2; dashes++) {
            snprintf(name, sizeof name, "--%s", row->name);
            for (char *sign = name + 2; dashes && *sign; sign++)
                *sign = *sign == '_' ? '-' : *sign;
            snprintf(both, sizeof both, "%s=%s", name, value);
            if (foreign_takes_value((enum foreign_id)id)) {
                expect_flag((enum foreign_id)id, (char *[]){"accel-run", name, (char *)value, "program", NULL}, value);
                expect_flag((enum foreign_id)id, (char *[]){"accel-run", both, "program", NULL}, value);
            } else {
                expect_flag((enum foreign_id)id, (char *[]){"accel-run", name, "program", NULL}, value);
            }
        }
        if (row->letter && foreign_takes_value((enum foreign_id)id))
            expect_flag((enum foreign_id)id, (char *[]){"accel-run", letter, (char *)value, "program", NULL}, value);
        else if (row->letter)
            expect_flag((enum foreign_id)id, (char *[]){"accel-run", letter, "program", NULL}, value);
    }
}

TEST("a value that no such flag can have is named, and so is what it can be") {
    for (int id = 0; id < FOREIGN_ROWS; id++) {
        const struct foreign_row *row = &foreign_rows[id];
        char name[80];
        snprintf(name, sizeof name, "--%s", row->name);
        if (!is_flag(row) || !foreign_takes_value((enum foreign_id)id) || !is_checked(row))
            continue;
        int program = read_options((char *[]){"accel-run", name, "non-sense", "program", NULL});
        if (program == -1 && strstr(problem.what, row->name) && strstr(problem.what, "'non-sense' is not "))
            continue;
        printf("    %s non-sense: %s\n", name, program < 0 ? problem.what : "is taken");
        unit_failures++;
    }
}

/* ---- keys of a file */

/* The row's key with a value, in its dictionary, in a job that has the engine, or in one that has not. Returns false where there is no such job. */
static bool write_file(const struct foreign_row *row, const char *value, bool has_engine, char *text, size_t size) {
    static const char *const kinds[FOREIGN_ENGINES] = {
        [FOREIGN_DEEPSPEED] = "distributed_type: DEEPSPEED\n",           [FOREIGN_FSDP] = "distributed_type: FSDP\n",
        [FOREIGN_MEGATRON] = "distributed_type: MEGATRON_LM\n",          [FOREIGN_FP8] = "mixed_precision: fp8\n",
        [FOREIGN_SAGEMAKER] = "compute_environment: AMAZON_SAGEMAKER\n", [FOREIGN_TPU] = "distributed_type: XLA\n"};
    const char *dictionary = foreign_dictionary(row->engine), *kind = kinds[row->engine];
    if (!strcmp(row->name, "machine_rank"))
        kind = "num_machines: 8\n";
    snprintf(text, size, "%s%s%s%s%s: %s\n", has_engine && kind ? kind : "", dictionary, *dictionary ? ":\n" : "", *dictionary ? "  " : "",
             row->name, value);
    return has_engine || (kind && row->engine != FOREIGN_NONE);
}

TEST("every key of every row has an effect that is said or done, in a job of its kind and in another") {
    for (int id = 0; id < FOREIGN_ROWS; id++) {
        const struct foreign_row *row = &foreign_rows[id];
        const char *value = row->type == FOREIGN_LIST ? "[a]" : value_for((enum foreign_id)id);
        char text[256];
        if (!(row->homes & FOREIGN_KEY) || !value || id == FOREIGN_ID_distributed_type)
            continue;
        for (int has_engine = 0; has_engine < 2; has_engine++) {
            if (!write_file(row, value, has_engine, text, sizeof text))
                continue;
            int status = read_text(text);
            bool is_unused = !has_engine && notes.count == 1 && strstr(notes.list[0].text, "no effect: ");
            bool is_said = is_noted(row, NULL, false) || is_noted(row, NULL, true) || is_so(row->name);
            if (status == 0 &&
                (is_unused || (row->verdict == FOREIGN_WORKS ? has_effect((enum foreign_id)id, value, CONFIG_FROM_FILE) : is_said)))
                continue;
            printf("    %s: %s, %u notes %s\n", text, status ? fault : "nothing is said", notes.count, notes.list[0].text);
            unit_failures++;
        }
    }
}

TEST("a value that no such key can have is a fault with its line and column") {
    for (int id = 0; id < FOREIGN_ROWS; id++) {
        const struct foreign_row *row = &foreign_rows[id];
        char text[256];
        bool is_list = row->type == FOREIGN_LIST;
        if (!(row->homes & FOREIGN_KEY) || !(is_checked(row) || is_list))
            continue;
        write_file(row, "non-sense", true, text, sizeof text);
        int status = read_text(text);
        if (status == -1 && !strncmp(fault, "f.yaml:", 7) && strstr(fault, row->name) && strstr(fault, is_list ? "a list" : "is not "))
            continue;
        printf("    %s: %s\n", text, status ? fault : "is taken");
        unit_failures++;
    }
}
