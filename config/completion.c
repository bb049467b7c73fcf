/* What shells need to complete the options, from the table. make install puts it where they look. */
#include <string.h>

#include "config.h"

/* Words that an argument can be, between spaces; "" where it is free, NULL where it is a file. */
static const char *words_of(const struct config_option *option) {
    if (option->type == CONFIG_LEVEL)
        return "error warn info debug";
    if (option->type == CONFIG_BIND)
        return "none auto core cache numa socket";
    if (option->type == CONFIG_TOPIC)
        return "all flags";
    if (!strcmp(option->argument, "SHELL"))
        return "bash zsh fish";
    return option->type == CONFIG_TEXT ? NULL : "";
}

/* Inside of single quotes; in zsh's brackets, too. */
static void print_quoted(const char *text, FILE *out) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (*text == '[' || *text == ']')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void print_bash_case(const struct config_option *option, FILE *out) {
    const char *words = words_of(option);
    if (option->type == CONFIG_FLAG || option->type == CONFIG_TOPIC)
        return;
    fputs("    ", out);
    if (option->letter)
        fprintf(out, "-%c|", option->letter);
    fprintf(out, "--%s) ", option->name);
    if (words)
        fprintf(out, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")", words);
    else
        fprintf(out, "mapfile -t COMPREPLY < <(compgen -%c -- \"$word\")", strcmp(option->argument, "DIR") ? 'f' : 'd');
    fputs("; return ;;\n", out);
}

static void print_bash(const char *subcommands, FILE *out) {
    fputs("# bash completion of accel-run\n_accel_run() {\n    local word=${COMP_WORDS[COMP_CWORD]} i=1\n"
          "    while ((i < COMP_CWORD)); do\n        case ${COMP_WORDS[i]} in\n        ",
          out);
    const char *between = "";
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        if (option->type == CONFIG_FLAG || option->type == CONFIG_TOPIC)
            continue;
        if (option->letter)
            fprintf(out, "%s-%c", between, option->letter), between = "|";
        fprintf(out, "%s--%s", between, option->name);
        between = "|";
    }
    fputs(") ((i += 1)) ;;\n        --) ((i += 1)); break ;;\n        -*) ;;\n        *) break ;;\n        esac\n        ((i += 1))\n    "
          "done\n"
          "    if ((i < COMP_CWORD)); then # the program is named: what follows is its own\n"
          "        if declare -F _command_offset >/dev/null; then _command_offset \"$i\"; else mapfile -t COMPREPLY < <(compgen -f -- "
          "\"$word\"); fi\n"
          "        return\n    fi\n    case ${COMP_WORDS[COMP_CWORD - 1]} in\n",
          out);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        print_bash_case(&config_options[i], out);
    fputs("    esac\n    if [[ $word == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '", out);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        fprintf(out, "%s--%s", i ? " " : "", config_options[i].name);
    fprintf(out, "' -- \"$word\")\n    else\n        mapfile -t COMPREPLY < <(compgen -W '%s' -c -f -- \"$word\")\n    fi\n}\n",
            subcommands);
    fputs("complete -o bashdefault -o default -F _accel_run accel-run\n", out);
}

static void print_zsh(const char *subcommands, FILE *out) {
    fputs("#compdef accel-run\n# zsh completion of accel-run\n_arguments -s -S \\\n", out);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        const char *words = words_of(option);
        bool takes = option->type != CONFIG_FLAG && option->type != CONFIG_TOPIC;
        if (option->letter)
            fprintf(out, "    '(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter, takes ? "+" : "", option->name,
                    takes ? "=" : "");
        else
            fprintf(out, "    '--%s%s[", option->name, takes ? "=" : "");
        print_quoted(option->help, out);
        fputc(']', out);
        if (takes && words)
            fprintf(out, ":%s:(%s)", option->argument, words);
        else if (takes)
            fprintf(out, ":%s:_files%s", option->argument, strcmp(option->argument, "DIR") ? "" : " -/");
        fputs("' \\\n", out);
    }
    fprintf(out, "    '(-)1:program:{compadd %s; _command_names -e; _files}' \\\n    '*::arguments:_normal'\n", subcommands);
}

static void print_fish(const char *subcommands, FILE *out) {
    fputs("# fish completion of accel-run\n", out);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        const char *words = words_of(option);
        fprintf(out, "complete -c accel-run -l %s", option->name);
        if (option->letter)
            fprintf(out, " -s %c", option->letter);
        if (option->type != CONFIG_FLAG && option->type != CONFIG_TOPIC)
            fputs(words ? " -x" : " -r", out);
        if (words && *words && option->type != CONFIG_TOPIC)
            fprintf(out, " -a '%s'", words);
        fputs(" -d '", out);
        for (const char *sign = option->help; *sign; sign++)
            fprintf(out, *sign == '\'' ? "\\'" : "%c", *sign);
        fputs("'\n", out);
    }
    fprintf(out, "complete -c accel-run -n '__fish_use_subcommand' -a '%s'\n", subcommands);
    fputs("complete -c accel-run -n 'not __fish_seen_subcommand_from --' -a '(__fish_complete_subcommand)'\n", out);
}

int config_print_completion(const char *shell, const char *subcommands, FILE *out) {
    if (!strcmp(shell, "bash"))
        print_bash(subcommands, out);
    else if (!strcmp(shell, "zsh"))
        print_zsh(subcommands, out);
    else if (!strcmp(shell, "fish"))
        print_fish(subcommands, out);
    else
        return -1;
    return 0;
}
