// sources: launcher/options.c launcher/problem.c config/*.c
#include "unit.h"

#include "../../launcher/options.h"

static struct config config;
static struct foreign foreign;
static struct problem problem;

static int read_options(char **environment, char **argv) {
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(&foreign, 0, sizeof foreign);
    return options_read(argc, argv, environment, &config, &foreign, &problem);
}
#define READ(...) read_options((char *[]){NULL}, (char *[]){"accel-run", __VA_ARGS__, NULL})
#define READ_WITH(variable, ...) read_options((char *[]){"A=b", variable, NULL}, (char *[]){"accel-run", __VA_ARGS__, NULL})

TEST("defaults") {
    EXPECT(READ("p") == 1);
    EXPECT(config.ranks == 1 && config.collective_timeout_ms == 300000 && config.stall_timeout_ms == 30000 && config.grace_ms == 10000);
    EXPECT(config.log_level == CONFIG_LEVEL_WARN && !config.explain && !config.dry_run);
    EXPECT_TEXT(config.log_dir, "");
    EXPECT(config.origin[CONFIG_ID_ranks] == CONFIG_FROM_DEFAULT);
}

TEST("a value may follow its option in all usual ways") {
    EXPECT(READ("-n", "4", "p") == 3 && config.ranks == 4);
    EXPECT(READ("-n4", "p") == 2 && config.ranks == 4);
    EXPECT(READ("-n=4", "p") == 2 && config.ranks == 4);
    EXPECT(READ("-np", "4", "p") == 3 && config.ranks == 4); /* mpirun's */
    EXPECT(READ("-np", "x", "p") == -1 && strstr(problem.what, "-np: 'x' is not a whole number"));
    EXPECT(READ("--engine", "none", "p") == 3 && config.engine == CONFIG_ENGINE_NONE);
    EXPECT(READ("--engine", "x", "p") == -1 && strstr(problem.what, "'x' is not one of auto, none"));
    EXPECT(READ("--ranks=5", "p") == 2 && config.ranks == 5);
    EXPECT(READ("--ranks", "6", "p") == 3 && config.ranks == 6);
    EXPECT(READ("--log-dir=d", "p") == 2);
    EXPECT_TEXT(config.log_dir, "d");
    EXPECT(READ("--grace", "0.25", "p") == 3 && config.grace_ms == 250);
    EXPECT(config.origin[CONFIG_ID_grace_ms] == CONFIG_FROM_COMMAND_LINE);
}

TEST("switches of one letter may stand together, as argparse takes them; the last may take a value") {
    EXPECT(READ("-qm", "p") == 2 && config.log_level == CONFIG_LEVEL_ERROR && config.module);
    EXPECT(READ("-mn3", "p") == 2 && config.module && config.ranks == 3);
    EXPECT(READ("-mn", "3", "p") == 3 && config.ranks == 3);
    EXPECT(READ("-qx", "p") == -1 && strstr(problem.what, "unknown option '-qx'"));
    EXPECT(READ("-multi_gpu", "p") == -1);
}

TEST("an empty text was meant to be something, and is refused on a command line; a file and a variable may have it") {
    EXPECT(READ("--log-dir=", "p") == -1);
    EXPECT_TEXT(problem.id, "AR-OPTION-VALUE");
    EXPECT(READ("--config-file", "", "p") == -1);
    EXPECT(READ_WITH("ACCEL_RUN_LOG_DIR=", "p") == 1);
}

TEST("a folder that begins with ~, which no shell has replaced, is refused, instead of made") {
    EXPECT(READ("--log-dir=~/logs", "p") == -1 && strstr(problem.what, "--log-dir: '~/logs' is not a folder"));
    EXPECT(READ_WITH("ACCEL_RUN_LOG_DIR=~", "p") == -1);
    EXPECT(READ("--log-dir=./~", "p") == 2);
}

TEST("reading stops at the program and at --") {
    EXPECT(READ("p", "-n", "9") == 1 && config.ranks == 1);
    EXPECT(READ("-n", "2", "--", "-p") == 4 && config.ranks == 2);
    EXPECT(READ("-") == 1);
}

TEST("default, then environment, then command line") {
    EXPECT(READ_WITH("ACCEL_RUN_RANKS=3", "p") == 1 && config.ranks == 3);
    EXPECT(config.origin[CONFIG_ID_ranks] == CONFIG_FROM_ENVIRONMENT);
    EXPECT(READ_WITH("ACCEL_RUN_RANKS=3", "-n", "2", "p") == 3 && config.ranks == 2);
    EXPECT(READ_WITH("ACCEL_RUN_RANKS=three", "p") == -1);
    EXPECT(strstr(problem.what, "ACCEL_RUN_RANKS") != NULL);
    EXPECT(READ_WITH("ACCEL_RUN_EXPLAIN=1", "p") == 1 && config.explain);
}

TEST("an option under two names must have one value; under one name, the last counts") {
    EXPECT(READ("-n", "2", "--ranks", "3", "p") == 5 && config.ranks == 3);
    EXPECT(READ("-n", "2", "--num_processes", "2", "--nproc-per-node=2", "p") == 6 && config.ranks == 2);
    EXPECT(READ("--master-addr", "h", "--rdzv-endpoint", "h:29500", "p") == 5);
    for (int i = 0; i < FOREIGN_ROWS; i++) {
        const struct foreign_row *row = &foreign_rows[i];
        const char *values[] = {"3", "numa", "h"}, *others[] = {"4", "core", "g"}, *value = NULL, *other = NULL;
        char own[80], theirs[80], own_value[80];
        if (row->verdict != FOREIGN_WORKS || !(row->homes & (FOREIGN_LAUNCH | FOREIGN_TORCHRUN)))
            continue;
        snprintf(own, sizeof own, "--%s", config_options[row->target].name);
        snprintf(theirs, sizeof theirs, "--%s", row->name);
        for (int j = 0; j < 3 && !value; j++)
            if (READ(own, (char *)values[j], "p") == 3) {
                value = values[j];
                other = others[j];
            }
        if (row->type == FOREIGN_SWITCH) {
            snprintf(own_value, sizeof own_value, "%s", row->words);
            EXPECT(READ(theirs, own, own_value, "p") == 4);
            EXPECT(READ(theirs, own, row->target == CONFIG_ID_bind ? "core" : "debug", "p") == -1);
        } else {
            EXPECT(value && READ(theirs, (char *)value, own, (char *)value, "p") == 5);
            EXPECT(READ(theirs, (char *)value, own, (char *)other, "p") == -1);
            EXPECT(strstr(problem.what, theirs) && strstr(problem.what, own));
            EXPECT(READ(own, (char *)other, theirs, (char *)value, "p") == -1);
        }
        EXPECT_TEXT(problem.id, "AR-OPTION-CONTRADICTION");
    }
}

TEST("faults are 125 and name the option") {
    EXPECT(READ("--rnaks", "2", "p") == -1 && problem.exit_code == 125);
    EXPECT_TEXT(problem.id, "AR-OPTION-UNKNOWN");
    EXPECT(strstr(problem.what, "--ranks") != NULL);
    EXPECT(READ("--collectivetimeout=3", "p") == -1);
    EXPECT(strstr(problem.what, "--collective-timeout") != NULL);
    EXPECT(READ("--num_proceses", "2", "p") == -1 && strstr(problem.what, "did you mean '--num_processes'?"));
    EXPECT(READ("--quickly", "p") == -1 && !strstr(problem.what, "did you mean"));
    EXPECT(READ("-x", "p") == -1 && !strstr(problem.what, "did you mean"));
    EXPECT(READ("-n") == -1);
    EXPECT(READ("-n", "0", "p") == -1);
    EXPECT(READ("-n", "257", "p") == -1);
    EXPECT(READ("-n", "2x", "p") == -1);
    EXPECT(READ("--grace", "-1", "p") == -1);
    EXPECT(READ("--grace", "nan", "p") == -1);
    EXPECT(READ("--log-level", "loud", "p") == -1);
    EXPECT(READ("-n", "2") == -1);
    EXPECT_TEXT(problem.id, "AR-NO-PROGRAM");
}

TEST("'_' is as good as '-'") {
    EXPECT(READ("--log_dir", "d", "--collective_timeout=5", "p") == 4 && config.collective_timeout_ms == 5000);
    EXPECT_TEXT(config.log_dir, "d");
}

TEST("help, its topics and version need no program") {
    EXPECT(READ("--help") == 2 && config.help == CONFIG_TOPIC_BRIEF);
    EXPECT(READ("--help", "all") == 3 && config.help == CONFIG_TOPIC_ALL);
    EXPECT(READ("--help=flags") == 2 && config.help == CONFIG_TOPIC_FLAGS);
    EXPECT(READ("--help", "./p") == 2 && config.help == CONFIG_TOPIC_BRIEF);
    EXPECT(READ("--help", "p", "x") == 2 && config.help == CONFIG_TOPIC_BRIEF);
    EXPECT(READ("--help", "nonsense") == -1);
    EXPECT(READ("--help=x") == -1);
    EXPECT(READ("--version") == 2 && config.version);
    EXPECT(READ("-h", "--") == 3 && config.help);
    EXPECT(READ("--show-config") == 2 && config.show_config);
}

TEST("variables of ours that nobody reads are found") {
    char name[64];
    const char *nearest = NULL;
    char *known[] = {
        "ACCEL_RUN_RANKS=1", "ACCEL_RUN_SOCKET=x", "ACCEL_RUN_SHIM=y", "ACCEL_RUN_TEST_X=1", "ACCEL_RUN_DEBUG_Y=1", "OTHER=1", NULL};
    char *unknown[] = {"ACCEL_RUN_GRACES=1", NULL};
    EXPECT(!config_unknown_variable(known, name, &nearest));
    EXPECT_TEXT(config_unknown_variable(unknown, name, &nearest), "ACCEL_RUN_GRACES");
    EXPECT_TEXT(nearest, "ACCEL_RUN_GRACE");
}
