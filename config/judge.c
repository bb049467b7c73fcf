/* What the given flags and keys of other launchers come to. */
#include <string.h>
#include <strings.h>

#include "foreign.h"

struct judge {
    const struct foreign *foreign;
    const struct config *config;
    struct config_notes *notes;
    const char *kind;             /* distributed_type of the file; NULL: not said, or a flag has decided */
    bool active[FOREIGN_ENGINES]; /* the job would use it */
    bool said[FOREIGN_ENGINES];   /* that its dictionary has no effect */
};

static const struct {
    enum foreign_engine engine;
    const char *kind;           /* distributed_type */
    enum foreign_id flag;       /* switches it on; 0 is num_processes, which switches nothing on */
    enum foreign_verdict kinds; /* of the distributed_type */
    const char *absence;        /* "... is not available yet" */
} kinds[] = {
    {FOREIGN_DEEPSPEED, "DEEPSPEED", FOREIGN_ID_use_deepspeed, FOREIGN_REFUSED, "DeepSpeed is not available yet"},
    {FOREIGN_FSDP, "FSDP", FOREIGN_ID_use_fsdp, FOREIGN_REFUSED, "FSDP is not available yet"},
    {FOREIGN_MEGATRON, "MEGATRON_LM", FOREIGN_ID_use_megatron_lm, FOREIGN_REFUSED, "Megatron-LM is not available"},
    {FOREIGN_TPU, "XLA", FOREIGN_ID_tpu, FOREIGN_REFUSED, "TPUs are not available"},
    {FOREIGN_TPU, "TPU", FOREIGN_ID_tpu, FOREIGN_REFUSED, "TPUs are not available"},
    {FOREIGN_TP, "TP", FOREIGN_ID_use_tp, FOREIGN_REFUSED, "tensor parallel is not available"},
    {FOREIGN_SAGEMAKER, "MODEL_PARALLEL", FOREIGN_ID_num_processes, FOREIGN_REFUSED, "SageMaker is not available"},
    {FOREIGN_FP8, "", FOREIGN_ID_num_processes, FOREIGN_REFUSED, "fp8 is not available yet"},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const char *absence_of(enum foreign_engine engine) {
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].engine == engine)
            return kinds[i].absence;
    return "";
}

static const struct foreign_given *find(const struct judge *judge, enum foreign_id id, bool from_file) {
    for (uint32_t i = judge->foreign->count; i-- > 0;)
        if (judge->foreign->given[i].id == id && judge->foreign->given[i].from_file == from_file)
            return &judge->foreign->given[i];
    return NULL;
}

/* A typed flag is stronger than the file. */
static const char *value_of(const struct judge *judge, enum foreign_id id) {
    const struct foreign_given *given = find(judge, id, false);
    if (!given)
        given = find(judge, id, true);
    return given && given->value ? given->value : "";
}

/* As in Accelerate: the file decides what kind of job it is, unless one of these flags does. */
static bool kind_is_typed(const struct judge *judge) {
    static const enum foreign_id flags[] = {FOREIGN_ID_cpu,           FOREIGN_ID_multi_gpu, FOREIGN_ID_tpu,
                                            FOREIGN_ID_use_deepspeed, FOREIGN_ID_use_fsdp,  FOREIGN_ID_use_megatron_lm};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (find(judge, flags[i], false))
            return true;
    return false;
}

static void find_active(struct judge *judge) {
    const struct foreign_given *kind = find(judge, FOREIGN_ID_distributed_type, true);
    judge->kind = kind && !kind_is_typed(judge) ? kind->value : NULL;
    for (size_t i = 0; i < KINDS; i++)
        judge->active[kinds[i].engine] |= (judge->kind && !strcasecmp(judge->kind, kinds[i].kind)) ||
                                          (kinds[i].flag != FOREIGN_ID_num_processes && find(judge, kinds[i].flag, false));
    judge->active[FOREIGN_FP8] = !strcasecmp(value_of(judge, FOREIGN_ID_mixed_precision), "fp8");
    judge->active[FOREIGN_SAGEMAKER] |= !strcasecmp(value_of(judge, FOREIGN_ID_compute_environment), "AMAZON_SAGEMAKER");
    static const enum foreign_engine always[] = {FOREIGN_NONE,   FOREIGN_DYNAMO, FOREIGN_PARALLELISM,
                                                 FOREIGN_MPIRUN, FOREIGN_IPEX,   FOREIGN_TP};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        judge->active[always[i]] = true;
}

static void say(struct judge *judge, const struct foreign_given *given, enum config_weight weight, const char *words) {
    const char *name = foreign_rows[given->id].name;
    const char *id = weight == CONFIG_REFUSED ? "AR-UNSUPPORTED" : "AR-NO-EFFECT";
    bool is_secret = !strncmp(name, "aws_", 4);
    bool shows_value = given->value && foreign_rows[given->id].type != FOREIGN_SWITCH && !is_secret;
    if (given->from_file)
        config_note(judge->notes, weight, id, "%.120s:%u: %s: %.40s: %s", judge->config->file, given->line, name,
                    given->value ? given->value : "", words);
    else
        config_note(judge->notes, weight, id, "--%s%s%.40s: %s", name, shows_value ? " " : "", shows_value ? given->value : "", words);
}

static void judge_kind(struct judge *judge, const struct foreign_given *given) {
    char words[160];
    if (!judge->kind)
        return;
    for (size_t i = 0; i < KINDS; i++)
        if (!strcasecmp(judge->kind, kinds[i].kind)) {
            snprintf(words, sizeof words, "%s; without it the run is plain data parallel", kinds[i].absence);
            say(judge, given, CONFIG_REFUSED, words);
            return;
        }
    if (!strcasecmp(judge->kind, "MPS"))
        say(judge, given, CONFIG_REFUSED, foreign_rows[FOREIGN_ID_use_mps_device].words);
    if (!strncasecmp(judge->kind, "MULTI_", 6) && strcasecmp(judge->kind, "MULTI_CPU") != 0)
        say(judge, given, CONFIG_NOTICE, foreign_rows[FOREIGN_ID_multi_gpu].words);
}

/* A dictionary of an engine that the job does not use, as Accelerate leaves behind: one line for all of it. */
static void judge_unused(struct judge *judge, const struct foreign_given *given) {
    enum foreign_engine engine = foreign_rows[given->id].engine;
    const char *dictionary = foreign_dictionary(engine);
    if (judge->said[engine])
        return;
    judge->said[engine] = true;
    const char *cause = engine == FOREIGN_FP8         ? "mixed_precision is not fp8"
                        : engine == FOREIGN_SAGEMAKER ? "compute_environment is not AMAZON_SAGEMAKER"
                                                      : "the job is of another kind (distributed_type, or a flag)";
    config_note(judge->notes, CONFIG_NOTICE, "AR-NO-EFFECT", "%.120s:%u: %s%s no effect: %s", judge->config->file, given->line,
                *dictionary ? dictionary : foreign_rows[given->id].name, *dictionary ? " has" : " and its like have", cause);
}

static void judge_part(struct judge *judge, const struct foreign_given *given) {
    enum foreign_engine engine = foreign_rows[given->id].engine;
    char words[160];
    /* A flag that was typed without its engine's switch asks for the engine all the same. */
    snprintf(words, sizeof words, judge->active[engine] ? "no effect, as %s" : "%s; leave it out for plain data parallel",
             absence_of(engine));
    say(judge, given, judge->active[engine] ? CONFIG_NOTICE : CONFIG_REFUSED, words);
}

/* As `accelerate config` writes it where nobody has said a number: accelerate launch refuses to run then. */
static void judge_count(struct judge *judge, const struct foreign_given *given) {
    if (given->value && judge->config->origin[CONFIG_ID_ranks] == CONFIG_FROM_DEFAULT)
        say(judge, given, CONFIG_NOTICE, "no number: there is one rank; -n says how many");
}

static void judge_one(struct judge *judge, const struct foreign_given *given) {
    const struct foreign_row *row = &foreign_rows[given->id];
    if (given->from_file && find(judge, given->id, false))
        return;
    if (given->id == FOREIGN_ID_distributed_type)
        judge_kind(judge, given);
    else if (given->id == FOREIGN_ID_num_processes && foreign_is_plain(given->id, given->value))
        judge_count(judge, given);
    else if (foreign_is_plain(given->id, given->value))
        return;
    else if (given->from_file && !judge->active[row->engine])
        judge_unused(judge, given);
    else if (row->verdict == FOREIGN_PART)
        judge_part(judge, given);
    else if (row->verdict == FOREIGN_NOTICE)
        say(judge, given, CONFIG_NOTICE, row->words);
    else if (row->verdict == FOREIGN_REFUSED)
        say(judge, given, CONFIG_REFUSED, row->words);
}

/* What only several hosts need, and this job has one. An address of this machine, and a default, ask for nothing. */
static void judge_host(struct judge *judge, enum config_id id) {
    static const char *const here[] = {"localhost", "127.", "[::1]", "::1"};
    static const char words[] = "no effect: there is one host (--nnodes is 1)";
    const struct config *config = judge->config;
    const struct foreign_given *given = NULL;
    char value[80];
    bool is_typed = config->origin[id] == CONFIG_FROM_COMMAND_LINE;
    config_text(config, id, value, sizeof value);
    for (size_t i = 0; id == CONFIG_ID_master_addr && i < sizeof here / sizeof *here; i++)
        if (!strncmp(value, here[i], strlen(here[i])))
            return;
    if ((!is_typed && config->origin[id] != CONFIG_FROM_FILE) || !strcmp(value, config_options[id].initial))
        return;
    for (uint32_t i = 0; i < judge->foreign->count; i++)
        if (foreign_rows[judge->foreign->given[i].id].target == (int)id && judge->foreign->given[i].from_file == !is_typed)
            given = &judge->foreign->given[i];
    if (given)
        say(judge, given, CONFIG_NOTICE, words);
    else if (is_typed)
        config_note(judge->notes, CONFIG_NOTICE, "AR-NO-EFFECT", "--%s %.40s: %s", config_options[id].name, value, words);
    else
        config_note(judge->notes, CONFIG_NOTICE, "AR-NO-EFFECT", "%.120s:%u: %s: %.40s: %s", config->file, config->line[id],
                    config_options[id].key, value, words);
}

void foreign_judge(const struct foreign *foreign, const struct config *config, struct config_notes *notes) {
    struct judge judge = {.foreign = foreign, .config = config, .notes = notes};
    find_active(&judge);
    for (uint32_t i = 0; i < foreign->count; i++)
        judge_one(&judge, &foreign->given[i]);
    static const enum config_id of_hosts[] = {CONFIG_ID_master_addr, CONFIG_ID_master_port, CONFIG_ID_job_id};
    for (size_t i = 0; config->nnodes == 1 && i < sizeof of_hosts / sizeof *of_hosts; i++)
        judge_host(&judge, of_hosts[i]);
}
