// sources: config/*.c
#include "unit.h"

#include <dirent.h>

#include "../../config/file.h"

static struct config config;
static struct foreign foreign;
static struct config_notes notes;
static struct yaml yaml;
static char fault[CONFIG_FAULT_CHARS];

static int read_text(const char *text, size_t bytes) {
    memset(&foreign, 0, sizeof foreign);
    memset(&notes, 0, sizeof notes);
    config_defaults(&config);
    *fault = 0;
    int status = yaml_read(&yaml, text, bytes, fault);
    if (status == 0)
        status = config_read_file(&config, &yaml, "f.yaml", &foreign, &notes, fault);
    if (status == 0)
        foreign_judge(&foreign, &config, &notes);
    yaml_clear(&yaml);
    return status;
}
#define READ(text) read_text(text, strlen(text))

static uint32_t count_of(const char *id) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < notes.count; i++)
        count += !strcmp(notes.list[i].id, id);
    return count;
}

/* What the text says of itself on its line "# expect: ranks N refused N keys N". */
static void expect_file(const char *path) {
    char text[8192];
    unsigned ranks = 0, refused = 0, keys = 0;
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = 0;
    const char *line = strstr(text, "# expect:");
    EXPECT(line && sscanf(line, "# expect: ranks %u refused %u keys %u", &ranks, &refused, &keys) == 3);
    int status = read_text(text, n);
    if (status || config.ranks != ranks || notes.refused != refused || count_of("AR-CONFIG-KEY") != keys) {
        printf("    %s: %s, ranks %u, refused %u, unknown keys %u\n", path, fault, config.ranks, notes.refused, count_of("AR-CONFIG-KEY"));
        for (uint32_t i = 0; i < notes.count; i++)
            printf("      %s\n", notes.list[i].text);
        unit_failures++;
    }
}

TEST("every file that Accelerate has ever written is read, and what it asks for is done or refused") {
    struct dirent *entry;
    DIR *folder = opendir("tests/config");
    int count = 0;
    char path[512];
    while (folder && (entry = readdir(folder)))
        if (strstr(entry->d_name, ".yaml")) {
            snprintf(path, sizeof path, "tests/config/%s", entry->d_name);
            expect_file(path);
            count++;
        }
    if (folder)
        closedir(folder);
    EXPECT(count >= 30);
}

TEST("a value is of its kind, or the fault says where") {
    EXPECT(READ("ranks: 3\ngrace: soon\n") == -1);
    EXPECT_TEXT(fault, "f.yaml:2:8: grace: 'soon' is not a number of seconds");
    EXPECT(READ("distributed_type: NO\nnum_processes: many\n") == -1);
    EXPECT_TEXT(fault, "f.yaml:2:16: num_processes: 'many' is not a whole number");
    EXPECT(READ("fsdp_config:\n  fsdp_offload_params: perhaps\n") == -1);
    EXPECT_TEXT(fault, "f.yaml:2:24: fsdp_offload_params: 'perhaps' is not yes or no");
    EXPECT(READ("fsdp_config: FULL_SHARD\n") == -1);
    EXPECT_TEXT(fault, "f.yaml:1:14: fsdp_config: a dictionary is expected");
    EXPECT(READ("ranks: [1, 2]\n") == -1);
    EXPECT(READ("mixed_precision: {a: 1}\n") == -1);
    EXPECT(READ("mixed_precision: fp64\n") == -1);
    EXPECT(READ("distributed_type: SEVERAL\n") == -1);
    EXPECT(READ("tpu_env: 3\n") == -1);
    EXPECT(READ("num_processes: 300\n") == -1);
}

TEST("contradictions are named where they stand") {
    EXPECT(READ("distributed_type: 'NO'\nnum_processes: 4\n") == -1);
    EXPECT(strstr(fault, "f.yaml:2:16: num_processes: several processes, but distributed_type is NO") == fault);
    EXPECT(READ("ranks: 2\nnum_processes: 3\n") == -1);
    EXPECT(READ("ranks: 2\nnum_processes: 2\n") == 0);
    EXPECT(READ("distributed_type: MULTI_GPU\nuse_cpu: true\n") == -1);
    EXPECT(READ("num_machines: 2\nmachine_rank: 2\n") == -1);
    EXPECT(READ("ranks: 2\nranks: 3\n") == -1);
    EXPECT_TEXT(fault, "2:1: 'ranks' was given another value in line 1");
    EXPECT(READ("distributed_type: FSDP\nfsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: false\n") == -1);
    EXPECT(strstr(fault, "f.yaml:4:28: ") == fault);
}

TEST("a key of ours and another launcher's for the same option must agree") {
    EXPECT(READ("ranks: 2\nnum_processes: 4\n") == -1 && strstr(fault, "f.yaml:2:16: num_processes: 'ranks' in line 1 says otherwise"));
    EXPECT(READ("enable_cpu_affinity: true\nbind: core\n") == -1 && strstr(fault, "enable_cpu_affinity: 'bind' in line 2"));
    EXPECT(READ("enable_cpu_affinity: true\nbind: numa\n") == 0 && config.bind == CONFIG_BIND_NUMA);
    EXPECT(READ("enable_cpu_affinity: false\nbind: core\nranks: 2\nnum_processes: 2\n") == 0 && config.bind == CONFIG_BIND_CORE);
    EXPECT(READ("main_process_ip: a\nmaster_addr: b\n") == -1);
}

TEST("an unknown key is named with its line and the nearest one") {
    EXPECT(READ("ranks: 2\nrank: 3\nfsdp_config:\n  fsdp_ofload_params: true\n") == 0 && config.ranks == 2);
    EXPECT(notes.count == 2);
    EXPECT_TEXT(notes.list[0].text, "f.yaml:2: nobody reads the key 'rank'; did you mean 'ranks'?");
    EXPECT_TEXT(notes.list[1].text,
                "f.yaml:4: nobody reads the key 'fsdp_ofload_params' in fsdp_config; did you mean 'fsdp_offload_params'?");
    EXPECT(READ("ranks: 2\nrun_path: yes\n") == 0 && notes.count == 1 && strstr(notes.list[0].text, "for the command line only"));
    EXPECT(READ("quickly: yes\n") == 0 && notes.count == 1 && !strstr(notes.list[0].text, "did you mean"));
    EXPECT(READ("\tranks: 2\n") == -1 && strstr(fault, "a tab?"));
}

TEST("the effect of what is not there is one line each") {
    EXPECT(READ("distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 2\n") == 0);
    EXPECT(notes.count == 2 && notes.refused == 1);
    EXPECT_TEXT(notes.list[0].text,
                "f.yaml:1: distributed_type: DEEPSPEED: DeepSpeed is not available yet; without it the run is plain data parallel");
    EXPECT_TEXT(notes.list[1].text, "f.yaml:4: zero_stage: 2: no effect, as DeepSpeed is not available yet");
    EXPECT(READ("distributed_type: NO\ndeepspeed_config:\n  zero_stage: 2\n  zero3_init_flag: true\n") == 0);
    EXPECT(notes.count == 1 && notes.refused == 0);
}

TEST("the kind of job counts in small letters, too, as Accelerate reads it") {
    EXPECT(READ("distributed_type: fsdp\nnum_processes: 2\n") == 0 && notes.refused == 1);
    EXPECT(READ("distributed_type: mps\n") == 0 && notes.refused == 1 && strstr(notes.list[0].text, "Apple's devices"));
    EXPECT(READ("compute_environment: amazon_sagemaker\nregion: here\n") == 0 && notes.refused == 1 && notes.count == 2);
    EXPECT(strstr(notes.list[1].text, "no effect, as SageMaker is not available") != NULL);
    EXPECT(READ("distributed_type: multi_gpu\nuse_cpu: true\n") == -1);
    EXPECT(READ("distributed_type: no\nnum_processes: 4\n") == -1);
}

TEST("a stronger source keeps its value, which is checked all the same") {
    static const char text[] = "ranks: 3\ngrace: 5\n";
    memset(&foreign, 0, sizeof foreign);
    memset(&notes, 0, sizeof notes);
    config_defaults(&config);
    EXPECT(config_set(&config, CONFIG_ID_ranks, "2", CONFIG_FROM_COMMAND_LINE, "-n", fault) == 0);
    EXPECT(yaml_read(&yaml, text, strlen(text), fault) == 0);
    EXPECT(config_read_file(&config, &yaml, "f.yaml", &foreign, &notes, fault) == 0);
    EXPECT(config.ranks == 2 && config.grace_ms == 5000);
    EXPECT(config.origin[CONFIG_ID_grace_ms] == CONFIG_FROM_FILE && config.line[CONFIG_ID_grace_ms] == 2);
    yaml_clear(&yaml);
}

/* The text of a file below a typed flag. */
static void read_under_flag(enum foreign_id id, const char *value, const char *text) {
    struct foreign_given given = {.id = id, .value = value};
    memset(&foreign, 0, sizeof foreign);
    memset(&notes, 0, sizeof notes);
    config_defaults(&config);
    EXPECT(foreign_give(&foreign, &given, &config, "flag", fault) == 0);
    EXPECT(yaml_read(&yaml, text, strlen(text), fault) == 0);
    EXPECT(config_read_file(&config, &yaml, "f.yaml", &foreign, &notes, fault) == 0);
    foreign_judge(&foreign, &config, &notes);
    yaml_clear(&yaml);
}

TEST("a typed flag of another launcher is stronger than the file") {
    read_under_flag(FOREIGN_ID_num_machines, "1", "num_machines: 4\n");
    EXPECT(config.nnodes == 1);
    EXPECT(notes.count == 0);
    read_under_flag(FOREIGN_ID_mixed_precision, "no", "mixed_precision: bf16\n");
    EXPECT(notes.count == 0);
    read_under_flag(FOREIGN_ID_num_processes, "2", "num_processes: 4\n");
    EXPECT(config.ranks == 2);
    /* as in Accelerate, a flag that says what kind of job it is takes the file's kind away, and with it its engine */
    read_under_flag(FOREIGN_ID_cpu, "yes", "distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\n");
    EXPECT(notes.refused == 0 && strstr(notes.list[notes.count - 1].text, "fsdp_config has no effect") != NULL);
}

TEST("a file that leaves the number of processes to the command line says so, as accelerate launch does") {
    EXPECT(READ("distributed_type: MULTI_CPU\nnum_processes: -1\n") == 0 && config.ranks == 1 && notes.count == 1);
    EXPECT(strstr(notes.list[0].text, "num_processes: -1: no number: there is one rank; -n says how many") != NULL);
    read_under_flag(FOREIGN_ID_num_processes, "2", "num_processes: -1\n");
    EXPECT(config.ranks == 2 && !notes.count);
}

TEST("what is shown can be read again and says the same") {
    char text[4096], again[4096];
    EXPECT(READ("ranks: 3\nlog_level: debug\ngrace: 0.25\nallow_unsupported: yes\n") == 0);
    config.log_dir = "a\"b\\c\td: #e \xe2\x80\xa8 f \xe2\x80\xa9 \xc2\x85 g"; /* ends of lines to YAML, too */
    FILE *out = fmemopen(text, sizeof text, "w");
    config_print(&config, out);
    fclose(out);
    EXPECT(strstr(text, "# f.yaml:1\n") != NULL && strstr(text, "# default\n") != NULL);
    EXPECT(yaml_read(&yaml, text, strlen(text), fault) == 0);
    config_defaults(&config);
    EXPECT(config_read_file(&config, &yaml, "f.yaml", &foreign, &notes, fault) == 0);
    EXPECT_TEXT(config.log_dir, "a\"b\\c\td: #e \xe2\x80\xa8 f \xe2\x80\xa9 \xc2\x85 g");
    EXPECT(config.ranks == 3 && config.grace_ms == 250 && config.allow_unsupported && config.log_level == CONFIG_LEVEL_DEBUG);
    out = fmemopen(again, sizeof again, "w");
    config_print(&config, out);
    fclose(out);
    EXPECT(strstr(again, "ranks: 3") != NULL);
    yaml_clear(&yaml);
}

/* The file of a folder's name, shown, and read again. */
static const char *shown_and_read(const char *name) {
    static char shown[8192];
    config_defaults(&config);
    config_set(&config, CONFIG_ID_log_dir, name, CONFIG_FROM_ENVIRONMENT, "v", fault);
    FILE *out = fmemopen(shown, sizeof shown, "w");
    config_print(&config, out);
    fclose(out);
    yaml_clear(&yaml);
    config_defaults(&config);
    EXPECT(yaml_read(&yaml, shown, strlen(shown), fault) == 0);
    EXPECT(config_read_file(&config, &yaml, "f.yaml", &foreign, &notes, fault) == 0);
    return config.log_dir;
}

TEST("what is shown can be read as a file, whatever signs are in it; what is not UTF-8 is left out of it") {
    EXPECT_TEXT(shown_and_read("a\x01\x1b\x7f \xc2\x80\xef\xbb\xbf\xef\xbf\xbf\xf0\x9f\x98\x80"),
                "a\x01\x1b\x7f \xc2\x80\xef\xbb\xbf\xef\xbf\xbf\xf0\x9f\x98\x80");
    EXPECT_TEXT(shown_and_read("caf\xe9"), "");
    yaml_clear(&yaml);
}

TEST("what is not YAML, or too much of it, is a fault with its place") {
    EXPECT(READ("ranks: 'open\n") == -1 && strchr(fault, ':') != NULL);
    EXPECT(READ("- 1\n- 2\n") == -1);
    EXPECT_TEXT(fault, "1:1: not a dictionary: lines 'key: value' are expected");
    EXPECT(READ("ranks: 2\nlog_dir: \"caf\xe9\"\n") == -1);
    EXPECT_TEXT(fault, "2:15: invalid trailing UTF-8 octet");
    EXPECT(READ("a: &b {ranks: 2}\n<<: *b\n") == -1);
    EXPECT(!strncmp(fault, "2:1: '<<' takes over", 20));
    EXPECT(READ("a: 1\n---\nb: 2\n") == -1);
    EXPECT(READ("[a, b]: 1\n") == -1);
    EXPECT(READ("a: \"\\0\"\n") == -1);
    EXPECT(READ("a: &x {b: *x}\n") == -1);
    EXPECT(READ("a: &a {k: 1, l: 1, m: 1, n: 1}\nb: &b {k: *a, l: *a, m: *a, n: *a}\nc: &c {k: *b, l: *b, m: *b, n: *b}\n"
                "d: &d {k: *c, l: *c, m: *c, n: *c}\ne: &e {k: *d, l: *d, m: *d, n: *d}\nf: {k: *e, l: *e}\n") == -1);
    char deep[200] = "a: ";
    memset(deep + 3, '[', 100); /* a file full of them would take minutes */
    EXPECT(READ(deep) == -1);
    EXPECT_TEXT(fault, "1:67: lists or dictionaries too deep in one another");
    EXPECT(read_text("ranks: 2\0", 9) == -1);
    EXPECT(READ("") == 0 && READ("# nothing\n") == 0 && READ("~") == 0 && READ("ranks:\n") == 0 && config.ranks == 1);
    EXPECT(READ("\xef\xbb\xbfranks: 2\r\n") == 0 && config.ranks == 2);
}
