// sources: launcher/options.c launcher/problem.c config/*.c
#include "unit.h"

#include "../../launcher/options.h"

/* Every flag of accelerate launch (1.15) and torchrun (2.13), from their argument parsers; and those of older versions of accelerate. */
static const char *const switches[] = {
    /* accelerate launch */
    "--quiet",
    "-q",
    "--cpu",
    "--multi-gpu",
    "--tpu",
    "--enable-cpu-affinity",
    "--dynamo-use-fullgraph",
    "--dynamo-use-dynamic",
    "--dynamo-use-regional-compilation",
    "--use-deepspeed",
    "--use-fsdp",
    "--use-parallelism-config",
    "--use-megatron-lm",
    "--same-network",
    "-m",
    "--module",
    "--no-python",
    "--tpu-cluster",
    "--no-tpu-cluster",
    "--tpu-use-sudo",
    "--downcast-bf16",
    "--fp8-use-autocast-during-eval",
    "--debug",
    /* torchrun */
    "--standalone",
    "--run-path",
    "--virtual-local-rank",
    "--use_env",
    /* accelerate launch, once */
    "--fp16",
    "--use-mps-device",
    "--mps",
    "--use-xpu",
    "--ipex",
    "--use-tp",
};
static const char *const valued[] = {
    /* accelerate launch */
    "--config-file",
    "--mixed-precision",
    "--num-processes",
    "--num-machines",
    "--num-cpu-threads-per-process",
    "--dynamo-backend",
    "--dynamo-mode",
    "--gpu-ids",
    "--machine-rank",
    "--main-process-ip",
    "--main-process-port",
    "-t",
    "--tee",
    "--log-dir",
    "--role",
    "--rdzv-backend",
    "--rdzv-conf",
    "--max-restarts",
    "--monitor-interval",
    "--vm",
    "--env",
    "--main-training-function",
    "--deepspeed-config-file",
    "--zero-stage",
    "--offload-optimizer-device",
    "--offload-param-device",
    "--offload-optimizer-nvme-path",
    "--offload-param-nvme-path",
    "--gradient-accumulation-steps",
    "--gradient-clipping",
    "--zero3-init-flag",
    "--zero3-save-16bit-model",
    "--deepspeed-hostfile",
    "--deepspeed-exclusion-filter",
    "--deepspeed-inclusion-filter",
    "--deepspeed-multinode-launcher",
    "--deepspeed-moe-layer-cls-names",
    "--fsdp-version",
    "--fsdp-offload-params",
    "--fsdp-min-num-params",
    "--fsdp-sharding-strategy",
    "--fsdp-reshard-after-forward",
    "--fsdp-auto-wrap-policy",
    "--fsdp-transformer-layer-cls-to-wrap",
    "--fsdp-backward-prefetch",
    "--fsdp-state-dict-type",
    "--fsdp-forward-prefetch",
    "--fsdp-use-orig-params",
    "--fsdp-cpu-ram-efficient-loading",
    "--fsdp-sync-module-states",
    "--fsdp-activation-checkpointing",
    "--fsdp-activation-checkpointing-offload",
    "--megatron-lm-tp-degree",
    "--megatron-lm-use-custom-fsdp",
    "--megatron-lm-no-load-optim",
    "--megatron-lm-eod-mask-loss",
    "--megatron-lm-overlap-cpu-optimizer-d2h-h2d",
    "--megatron-lm-no-save-optim",
    "--megatron-lm-optimizer-cpu-offload",
    "--megatron-lm-use-precision-aware-optimizer",
    "--megatron-lm-decoder-last-pipeline-num-layers",
    "--megatron-lm-pp-degree",
    "--megatron-lm-num-micro-batches",
    "--megatron-lm-sequence-parallelism",
    "--megatron-lm-recompute-activations",
    "--megatron-lm-use-distributed-optimizer",
    "--megatron-lm-gradient-clipping",
    "--megatron-lm-recompute-granularity",
    "--megatron-lm-recompute-method",
    "--megatron-lm-recompute-num-layers",
    "--megatron-lm-attention-backend",
    "--megatron-lm-expert-model-parallel-size",
    "--megatron-lm-context-parallel-size",
    "--megatron-lm-attention-dropout",
    "--megatron-lm-hidden-dropout",
    "--megatron-lm-attention-softmax-in-fp32",
    "--megatron-lm-expert-tensor-parallel-size",
    "--megatron-lm-calculate-per-token-loss",
    "--megatron-lm-use-rotary-position-embeddings",
    "--fp8-backend",
    "--fp8-margin",
    "--fp8-interval",
    "--fp8-format",
    "--fp8-amax-history-len",
    "--fp8-amax-compute-algo",
    "--fp8-override-linear-precision",
    "--fp8-opt-level",
    "--fp8-enable-fsdp-float8-all-gather",
    "--fp8-pad-inner-dim",
    "--aws-access-key-id",
    "--aws-secret-access-key",
    "--mpirun-hostfile",
    "--parallelism-config-dp-replicate-size",
    "--parallelism-config-dp-shard-size",
    "--parallelism-config-tp-size",
    "--parallelism-config-cp-size",
    "--parallelism-config-cp-backend",
    "--parallelism-config-cp-comm-strategy",
    "--parallelism-config-sp-size",
    "--parallelism-config-sp-backend",
    "--parallelism-config-sp-seq-length",
    "--parallelism-config-sp-seq-length-is-variable",
    "--parallelism-config-sp-attn-implementation",
    /* torchrun */
    "--nnodes",
    "--nproc-per-node",
    "--rdzv-endpoint",
    "--rdzv-id",
    "--start-method",
    "--event-log-handler",
    "-r",
    "--redirects",
    "--local-ranks-filter",
    "--duplicate-stdout-filters",
    "--duplicate-stderr-filters",
    "--node-rank",
    "--master-addr",
    "--master-port",
    "--local-addr",
    "--logs-specs",
    "--numa-binding",
    "--signals-to-handle",
    "--shutdown-timeout",
    /* accelerate launch, once */
    "--fsdp-backward-prefetch-policy",
    "--min-num-params",
    "--offload-params",
    "--sharding-strategy",
    "--transformer-layer-cls-to-wrap",
    "--mpirun-ccl",
    "--tp-size",
};
#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static struct config config;
static struct foreign foreign;
static struct config_notes notes;
static struct problem problem;

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
#define READ(...) read_options((char *[]){"accel-run", __VA_ARGS__, NULL})

/* A value that the flag takes; the first of the words that it can have, where it has some. */
static const char *value_for(const char *flag) {
    static char word[40];
    int id = flag[1] == '-' ? foreign_find_flag(flag + 2, strlen(flag) - 2) : foreign_find_letter(flag[1]);
    const char *list = id < 0 ? "" : foreign_rows[id].values;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(list, "|"), list);
    const char *values[] = {"7", "true", "something", "node", word};
    for (size_t i = 0; i < COUNT(values); i++)
        if (READ((char *)flag, (char *)values[i], "program") == 3)
            return values[i];
    return NULL;
}

static const char *underscored(const char *flag) {
    static char text[80];
    snprintf(text, sizeof text, "%s", flag);
    for (char *sign = text + 2; *sign; sign++)
        *sign = *sign == '-' ? '_' : *sign;
    return text;
}

TEST("every flag of other launchers is known, with and without a value as there; what becomes of it is in foreign_rows_test.c") {
    for (size_t i = 0; i < COUNT(switches); i++) {
        printf(READ((char *)switches[i], "program") == 2 ? "" : "    %s\n", switches[i]);
        EXPECT(READ((char *)switches[i], "program") == 2);
        EXPECT(READ((char *)underscored(switches[i]), "program") == 2);
    }
    for (size_t i = 0; i < COUNT(valued); i++) {
        const char *value = value_for(valued[i]);
        printf(value ? "" : "    %s\n", valued[i]);
        EXPECT(value && READ((char *)underscored(valued[i]), (char *)value, "program") == 3);
    }
}

TEST("a flag with a value swallows it, in both ways of writing, and one without does not") {
    EXPECT(READ("--num_processes", "4", "p") == 3 && config.ranks == 4);
    EXPECT(READ("--nproc-per-node=3", "p") == 2 && config.ranks == 3);
    EXPECT(READ("-t", "3", "p") == 3);
    EXPECT(READ("-t3", "p") == 2);
    EXPECT(READ("--multi_gpu", "p") == 2);
    EXPECT(READ("--multi_gpu=1", "p") == -1);
    EXPECT_TEXT(problem.id, "AR-OPTION-VALUE");
    EXPECT(READ("--vm", "a", "--vm", "b", "p") == 5 && foreign.count == 2);
    EXPECT(READ("--zero_stage") == -1);
    EXPECT_TEXT(problem.id, "AR-OPTION-VALUE");
}

TEST("a part of a flag's name, which argparse would take, is told the whole of it") {
    EXPECT(READ("--nproc", "4", "p") == -1 && strstr(problem.what, "did you mean '--nproc_per_node'?"));
    EXPECT(READ("--num-cpu", "4", "p") == -1 && strstr(problem.what, "did you mean '--num_cpu_threads_per_process'?"));
    EXPECT(READ("--fsdp", "p") == -1 && !strstr(problem.what, "did you mean '--fsdp_")); /* many */
}

TEST("wrong values of other launchers' flags are named") {
    EXPECT(READ("--num_processes", "four", "p") == -1);
    EXPECT(strstr(problem.what, "--num_processes: 'four'") != NULL);
    EXPECT(READ("--nproc_per_node", "gpu", "p") == -1);
    EXPECT(strstr(problem.what, "write the number") != NULL);
    EXPECT(READ("--zero_stage", "two", "p") == -1);
    EXPECT(READ("--fsdp_offload_params", "perhaps", "p") == -1);
    EXPECT(READ("--gradient_clipping", "auto", "p") == 3);
    EXPECT(READ("--fsdp_min_num_params", "1e8", "p") == 3);
}

TEST("nonsense for an engine that is not there is named, too") {
    EXPECT(READ("--zero_stage", "9", "p") == -1);
    EXPECT(strstr(problem.what, "--zero_stage: '9' is not one of 0, 1, 2, 3") != NULL);
    EXPECT(READ("--zero_stage", "3", "p") == 3);
    EXPECT(READ("--offload_param_device", "toaster", "p") == -1);
    EXPECT(READ("--offload_param_device", "NVMe", "p") == 3);
    EXPECT(READ("--fsdp_sharding_strategy", "6", "p") == -1);
    EXPECT(READ("--fsdp_backward_prefetch", "none", "p") == 3);
    EXPECT(READ("--megatron_lm_tp_degree", "-1", "p") == -1);
    EXPECT(READ("--fp8_margin", "-1", "p") == 3);
}

TEST("what only several hosts need is said to have no effect on one, unless it names this machine or the default") {
    EXPECT(READ("--main_process_ip", "10.0.0.1", "p") == 3 && notes.count == 1);
    EXPECT(strstr(notes.list[0].text, "--main_process_ip 10.0.0.1: no effect: there is one host") != NULL);
    EXPECT(READ("--rdzv_id", "7", "--master-addr=h:1", "--main_process_port", "4000", "p") == 6 && notes.count == 3);
    EXPECT(READ("--rdzv-endpoint", "localhost:0", "--master-port", "29500", "--main_process_port=0", "p") == 6 && notes.count == 0);
    EXPECT(READ("--main_process_ip", "10.0.0.1", "--num_machines", "2", "--machine_rank", "0", "p") == 7 && notes.count == 0);
}

TEST("torchrun's auto and cpu ask for as many ranks as cores, which another file counts") {
    EXPECT(READ("--nproc_per_node", "auto", "p") == 3 && config.ranks_are_cores);
    EXPECT(READ("--nproc_per_node=cpu", "--nproc_per_node", "3", "p") == 4 && !config.ranks_are_cores && config.ranks == 3);
    EXPECT(READ("--nproc_per_node=cpu", "--rdzv_id", "3", "p") == 4 && config.ranks_are_cores);
    EXPECT(READ("--nproc_per_node=auto", "-n", "3", "p") == -1);
    EXPECT(strstr(problem.what, "to 'auto' and to '3'") != NULL);
}

TEST("what is so already needs no word") {
    EXPECT(READ("--num_machines", "1", "--machine_rank", "0", "--mixed_precision", "no", "--max_restarts=0", "--nnodes=1:1", "p") == 9);
    EXPECT(notes.count == 0);
}

TEST("several hosts in the words of accelerate launch and of torchrun") {
    char fault[CONFIG_FAULT_CHARS], host[64];
    uint32_t port;
    EXPECT(READ("--num_processes", "6", "--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "10.0.0.1",
                "--main_process_port", "4000", "p") == 11);
    EXPECT(notes.count == 0 && config.ranks == 6 && config.ranks_are_total);
    EXPECT(config_settle_hosts(&config, fault) == 0 && config.ranks == 3 && config.nnodes == 2 && config.node_rank == 1);
    EXPECT(config_master(&config, host, sizeof host, &port) == 0 && port == 4000);
    EXPECT_TEXT(host, "10.0.0.1");
    EXPECT(READ("--nproc-per-node", "6", "--nnodes", "2:2", "--node-rank=1", "--rdzv-backend=c10d", "--rdzv_endpoint=first:4001", "p") ==
           8);
    EXPECT(notes.count == 0 && config_settle_hosts(&config, fault) == 0 && config.ranks == 6);
    EXPECT(config_master(&config, host, sizeof host, &port) == 0 && port == 4001);
    EXPECT_TEXT(host, "first");
    EXPECT(READ("--rdzv_endpoint=[fe80::1]:7", "p") == 2 && config_master(&config, host, sizeof host, &port) == 0 && port == 7);
    EXPECT_TEXT(host, "fe80::1");
    EXPECT(READ("--master_addr=fe80::1", "p") == 2 && config_master(&config, host, sizeof host, &port) == 0 && port == 29500);
    EXPECT_TEXT(host, "fe80::1");
    EXPECT(READ("--nnodes=1:4", "p") == -1 && strstr(problem.what, "fixed"));
}

TEST("several hosts with something missing are refused in words") {
    char fault[CONFIG_FAULT_CHARS];
    EXPECT(READ("--nnodes", "2", "--master-addr", "a", "p") == 5 && config_settle_hosts(&config, fault) == -1 &&
           strstr(fault, "--node-rank"));
    EXPECT(READ("--nnodes", "2", "--node-rank", "2", "--master-addr", "a", "p") == 7 && config_settle_hosts(&config, fault) == -1);
    EXPECT(READ("--nnodes", "2", "--node-rank", "1", "p") == 5 && config_settle_hosts(&config, fault) == -1 &&
           strstr(fault, "--master-addr"));
    EXPECT(READ("--nnodes", "2", "--node-rank", "1", "--master-addr", "a:b", "p") == 7 && config_settle_hosts(&config, fault) == -1);
    static char *const no_address[] = {":29500",   "[]:29500", "[]",  ":",       "a:",          "a:+29500",
                                       "a: 29500", "a:29500 ", "a:0", "a:65536", "a:4294996796"};
    for (size_t i = 0; i < sizeof no_address / sizeof *no_address; i++)
        EXPECT(READ("--nnodes", "2", "--node-rank", "1", "--master-addr", no_address[i], "p") == 7 &&
               config_settle_hosts(&config, fault) == -1 && strstr(fault, "is not HOST or HOST:PORT"));
    EXPECT(READ("--num_processes", "5", "--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "p") == 9);
    EXPECT(config_settle_hosts(&config, fault) == -1 && strstr(fault, "evenly"));
    /* in a file that all hosts share, the number of each host's ranks is right all the same */
    EXPECT(READ("--num_processes", "6", "--nnodes", "2", "p") == 5 && config_settle_hosts(&config, fault) == -1 && config.ranks == 3);
    EXPECT(strstr(fault, "--node-rank") && !config.ranks_are_total && config_share_hosts(&config, fault) == 0 && config.ranks == 3);
    EXPECT(READ("--num_processes", "5", "--nnodes", "2", "p") == 5 && config_share_hosts(&config, fault) == -1 && strstr(fault, "evenly"));
    EXPECT(READ("-n", "3", "--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "p") == 9);
    EXPECT(config_settle_hosts(&config, fault) == 0 && config.ranks == 3);
}

TEST("the details of an engine are refused once, with the engine") {
    EXPECT(READ("--use_fsdp", "--fsdp_offload_params", "true", "p") == 4 && notes.count == 2 && notes.refused == 1);
    EXPECT(READ("--fsdp_offload_params", "true", "p") == 3 && notes.refused == 1);
    EXPECT(READ("--mixed_precision", "fp8", "--fp8_backend", "te", "p") == 5 && notes.count == 2 && notes.refused == 1);
}

TEST("--quiet, threads and the time to end are options of ours") {
    EXPECT(READ("-q", "p") == 2 && config.log_level == CONFIG_LEVEL_ERROR);
    EXPECT(READ("--num_cpu_threads_per_process", "3", "p") == 3 && config.threads == 3);
    EXPECT(READ("--shutdown-timeout", "7", "p") == 3 && config.grace_ms == 7000);
}
