// sources: launcher/commands/fsdp2.c launcher/problem.c config/*.c
/*
 * Configuration files. Input: the text of a file, which a zero byte may stand in. What is read is a valid configuration, and what accel-run writes of it
 * is read again with the same values; what is not read is said in words, with its place.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/board.h"
#include "../../config/file.h"
#include "../../launcher/commands/fsdp2.h"

static struct foreign foreign;
static struct config_notes notes;

static int read_text(struct config *config, struct yaml *yaml, const char *text, size_t bytes, char *fault) {
    config_defaults(config);
    memset(&foreign, 0, sizeof foreign);
    memset(&notes, 0, sizeof notes);
    return yaml_read(yaml, text, bytes, fault) || config_read_file(config, yaml, "f", &foreign, &notes, fault) ? -1 : 0;
}

static void expect_same(const struct config *config) {
    struct config again;
    struct yaml yaml;
    char *text = NULL, fault[CONFIG_FAULT_CHARS] = "", was[64], is[64];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    config_print(config, out);
    fclose(out);
    if (read_text(&again, &yaml, text, bytes, fault))
        abort();
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        config_text(config, (enum config_id)i, was, sizeof was);
        config_text(&again, (enum config_id)i, is, sizeof is);
        if (*config_options[i].key && strcmp(was, is) != 0)
            abort();
    }
    yaml_clear(&yaml);
    free(text);
}

static void convert(const char *data, const struct yaml *yaml) {
    struct problem problem = {0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (fsdp2_convert(data, yaml, "f", out, &problem) && !*problem.what)
        abort();
    fclose(out);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config config;
    struct yaml yaml;
    char *text = malloc(size + 1), fault[CONFIG_FAULT_CHARS] = "";
    memcpy(text, data, size);
    text[size] = 0;
    int status = read_text(&config, &yaml, text, size, fault);
    if (status ? !strchr(fault, ':') : config.ranks < 1 || config.ranks > BOARD_RANKS_MAX || config.log_level > CONFIG_LEVEL_DEBUG)
        abort();
    convert(text, &yaml);
    if (status == 0) {
        foreign_judge(&foreign, &config, &notes);
        expect_same(&config);
    }
    yaml_clear(&yaml);
    free(text);
    return 0;
}
