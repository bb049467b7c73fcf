// sources: launcher/options.c launcher/problem.c config/*.c
/*
 * The command line and the environment. Input: texts that end with a zero byte; those that begin with '=' are variables ("=NAME=value"), the others
 * arguments. What is accepted is a valid configuration, what is not is said in words.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/board.h"
#include "../../launcher/options.h"

enum { TEXTS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *argv[TEXTS_MAX + 2] = {(char *)(uintptr_t) "accel-run"}, *environment[TEXTS_MAX + 1] = {NULL};
    int argc = 1, variables = 0;
    char *text = malloc(size + 1), name[64];
    const char *nearest = NULL;
    memcpy(text, data, size);
    text[size] = 0;
    for (char *at = text; at < text + size; at += strlen(at) + 1) {
        if (*at == '=' && variables < TEXTS_MAX)
            environment[variables++] = at + 1;
        else if (argc <= TEXTS_MAX)
            argv[argc++] = at;
    }
    struct config config;
    static struct foreign foreign;
    struct problem problem = {0};
    foreign.count = 0;
    int program = options_read(argc, argv, environment, &config, &foreign, &problem);
    if (program < 0 ? !*problem.id || !*problem.what || !*problem.cure || !problem.exit_code
                    : program > argc || config.ranks < 1 || config.ranks > BOARD_RANKS_MAX || config.log_level > CONFIG_LEVEL_DEBUG)
        abort();
    static struct config_notes notes;
    notes = (struct config_notes){0};
    if (program >= 0)
        foreign_judge(&foreign, &config, &notes);
    config_unknown_variable(environment, name, &nearest);
    free(text);
    return 0;
}
