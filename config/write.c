/* An annotated configuration file: every setting with its help; those at their default as comments. */
#include <string.h>

#include "config.h"

void config_write(const struct config *config, FILE *out) {
    fputs("# Settings of accel-run; see accel-run.yaml(5). A line without its # is a setting; what is left out is at its default.\n", out);
    for (int group = 0; group < CONFIG_GROUP_COUNT; group++)
        for (int i = 0; i < CONFIG_OPTIONS; i++) {
            const struct config_option *option = &config_options[i];
            if (!*option->key || (int)option->group != group)
                continue;
            bool is_left_out = config->origin[i] == CONFIG_FROM_DEFAULT || !config_can_be_kept(config, (enum config_id)i);
            fprintf(out, "\n# %s\n%s%s: ", option->help, is_left_out ? "# " : "", option->key);
            config_print_value(config, (enum config_id)i, out);
            fputc('\n', out);
        }
}
