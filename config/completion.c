/* What shells need to complete the options, from the tables: the runs', and those of the subcommands. make install puts it where they look. */
#include <string.h>

#include "config.h"

/* Words that an argument can be, between spaces; "" where it is free, NULL where it is a file. */
static const char *words_of(const struct config_option *option) {
    if (option->type == CONFIG_LEVEL)
        return "error warn info debug";
    if (option->type == CONFIG_BIND)
        return "none auto core cache numa socket";
    if (option->type == CONFIG_ENGINE)
        return "auto none";
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

static bool takes_value(const struct config_option *option) {
    return option->type != CONFIG_FLAG && option->type != CONFIG_TOPIC;
}

static bool is_verb(const struct config_suboption *option) {
    return option->name[0] != '-';
}

/* As words_of. */
static const char *subwords_of(const struct config_suboption *option) {
    static const char *const paths[] = {"FILE", "FOLDER", "PROGRAM"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strcmp(option->argument, paths[i]))
            return NULL;
    return option->choices;
}

static bool is_first_of_command(const struct config_subcommands *commands, int index) {
    return !index || strcmp(commands->options[index].command, commands->options[index - 1].command) != 0;
}

/* The options of a subcommand, or its verbs, between spaces. */
static void print_names(const struct config_subcommands *commands, const char *command, bool verbs, FILE *out) {
    for (int i = 0, n = 0; i < commands->count; i++)
        if (!strcmp(commands->options[i].command, command) && is_verb(&commands->options[i]) == verbs)
            fprintf(out, "%s%s", n++ ? " " : "", commands->options[i].name);
}

/* ---- bash */

static void print_bash_words(const char *words, bool is_folder, FILE *out) {
    if (words)
        fprintf(out, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")", words);
    else
        fprintf(out, "_accel_run_paths -%c", is_folder ? 'd' : 'f');
    fputs("; return ;;\n", out);
}

/* What may stand behind an option that takes a value. */
static void print_bash_values(const struct config_subcommands *commands, FILE *out) {
    fprintf(out, "    case $before in\n    -h|--help) mapfile -t COMPREPLY < <(compgen -W 'all flags %s' -- \"$word\"); return ;;\n",
            commands->names);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        if (!takes_value(option))
            continue;
        fputs("    ", out);
        if (option->letter)
            fprintf(out, "-%c|", option->letter);
        fprintf(out, "--%s) ", option->name);
        print_bash_words(words_of(option), !strcmp(option->argument, "DIR"), out);
    }
    for (int i = 0; i < commands->count; i++) {
        const struct config_suboption *option = &commands->options[i];
        if (!*option->argument || config_find(option->name + 2, strlen(option->name + 1) - 1) >= 0 || !strcmp(option->name, "-n"))
            continue;
        fprintf(out, "    %s) ", option->name);
        print_bash_words(subwords_of(option), !strcmp(option->argument, "FOLDER"), out);
    }
    fputs("    esac\n", out);
}

/* A pattern of all options whose value is a word of its own. */
static void print_bash_pattern(const struct config_subcommands *commands, FILE *out) {
    for (int i = 0, n = 0; i < CONFIG_OPTIONS; i++) {
        if (!takes_value(&config_options[i]))
            continue;
        if (config_options[i].letter)
            fprintf(out, "%s-%c", n++ ? "|" : "", config_options[i].letter);
        fprintf(out, "%s--%s", n++ ? "|" : "", config_options[i].name);
    }
    for (int i = 0; i < commands->count; i++)
        if (*commands->options[i].argument && commands->options[i].is_before_program)
            fprintf(out, "|%s", commands->options[i].name);
}

static void print_bash_commands(const struct config_subcommands *commands, FILE *out) {
    fputs("    if ((COMP_CWORD > 1)); then\n        case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < commands->count; i++) {
        const struct config_suboption *option = &commands->options[i];
        if (!is_first_of_command(commands, i))
            continue;
        fprintf(out, "        %s) options=\"", option->command);
        print_names(commands, option->command, false, out);
        fprintf(out, "%s\" verbs='", option->is_run ? " $options" : " --help");
        print_names(commands, option->command, true, out);
        fprintf(out, "' %s ;;\n", option->is_before_program ? "i=2" : "i=$COMP_CWORD ends=1");
    }
    fputs("        esac\n    fi\n", out);
}

static void print_bash(const struct config_subcommands *commands, FILE *out) {
    fputs("# bash completion of accel-run\n"
          "_accel_run_paths() { # a folder gets its slash and no blank, a blank in a name its backslash\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$word\")\n}\n"
          "_accel_run() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i=1 ends='' verbs='' options='",
          out);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        fprintf(out, "%s--%s", i ? " " : "", config_options[i].name);
    fputs("'\n    # '=' and ':' are words of their own\n"
          "    if [[ $word == = ]]; then word=''; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n",
          out);
    print_bash_commands(commands, out);
    fputs("    while ((i < COMP_CWORD)); do\n        case ${COMP_WORDS[i]} in\n        ", out);
    print_bash_pattern(commands, out);
    fputs(") [[ ${COMP_WORDS[i + 1]} != = ]] || ((i += 1)); ((i += 1)) ;;\n        --) ((i += 1)); break ;;\n        =|:) ((i += 1)) ;;\n  "
          "      -*) ;;\n        *) break ;;\n        esac\n        ((i += 1))\n"
          "    done\n"
          "    if ((i < COMP_CWORD)); then # the program is named: what follows is its own\n"
          "        if declare -F _command_offset >/dev/null; then _command_offset \"$i\"; else _accel_run_paths -f; fi\n"
          "        return\n    fi\n",
          out);
    print_bash_values(commands, out);
    fputs("    if [[ $word == -* || $ends ]]; then\n        mapfile -t COMPREPLY < <(compgen -W \"$options $verbs\" -- \"$word\")\n"
          "    elif ((COMP_CWORD > 1)); then\n        _accel_run_paths -c -f\n"
          "    else\n        _accel_run_paths ",
          out);
    fprintf(out, "-W '%s' -c -f\n        # a subcommand stays one beside a folder of its name\n", commands->names);
    fprintf(out, "        [[ ' %s ' != *\" $word\"* ]] || compopt +o filenames 2>/dev/null\n    fi\n}\n", commands->names);
    fputs("complete -o bashdefault -o default -F _accel_run accel-run\n", out);
}

/* ---- zsh */

static void print_zsh_option(const struct config_option *option, const char *commands, FILE *out) {
    const char *words = words_of(option);
    bool takes = takes_value(option);
    if (option->letter)
        fprintf(out, "    '(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter, takes ? "+" : "", option->name,
                takes ? "=" : "");
    else
        fprintf(out, "    '--%s%s[", option->name, takes ? "=" : "");
    print_quoted(option->help, out);
    fputc(']', out);
    if (option->type == CONFIG_TOPIC)
        fprintf(out, "::TOPIC:(%s %s)", words, commands);
    else if (takes && words)
        fprintf(out, ":%s:(%s)", option->argument, words);
    else if (takes)
        fprintf(out, ":%s:_files%s", option->argument, strcmp(option->argument, "DIR") ? "" : " -/");
    fputs("'\n", out);
}

static void print_zsh_suboption(const struct config_suboption *option, FILE *out) {
    const char *words = subwords_of(option);
    if (is_verb(option))
        return;
    fprintf(out, " '%s%s[", option->name, !*option->argument ? "" : option->name[1] == '-' ? "=" : "+");
    print_quoted(option->help, out);
    fputc(']', out);
    if (*option->argument && words)
        fprintf(out, ":%s:(%s)", option->argument, words);
    else if (*option->argument)
        fprintf(out, ":%s:_files%s", option->argument, strcmp(option->argument, "FOLDER") ? "" : " -/");
    fputc('\'', out);
}

static void print_zsh_command(const struct config_subcommands *commands, int index, FILE *out) {
    const struct config_suboption *first = &commands->options[index];
    fprintf(out, "    %s) shift words; ((CURRENT -= 1)); _arguments -s -S", first->command);
    for (int i = index; i < commands->count && !strcmp(commands->options[i].command, first->command); i++)
        print_zsh_suboption(&commands->options[i], out);
    fputs(first->is_run ? " $flags" : " '--help[show how it is used]'", out);
    if (first->is_before_program)
        fputs(" $program", out);
    else if (is_verb(first)) {
        fputs(" '1:verb:(", out);
        print_names(commands, first->command, true, out);
        fputs(")'", out);
    }
    fputs("; return ;;\n", out);
}

static void print_zsh(const struct config_subcommands *commands, FILE *out) {
    fputs("#compdef accel-run\n# zsh completion of accel-run, found as a file _accel-run in $fpath, or sourced behind compinit\n"
          "_accel-run() {\nlocal -a flags program\nflags=(\n",
          out);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        print_zsh_option(&config_options[i], commands->names, out);
    fputs(")\nprogram=('(-)1:program:{_command_names -e; _files}' '*::arguments:_normal')\n"
          "if ((CURRENT > 2)); then\n    case $words[2] in\n",
          out);
    for (int i = 0; i < commands->count; i++)
        if (is_first_of_command(commands, i))
            print_zsh_command(commands, i, out);
    fprintf(out, "    esac\nelse\n    program[1]='(-)1:program:{compadd %s; _command_names -e; _files}'\nfi\n", commands->names);
    fputs("_arguments -s -S $flags $program\n}\n"
          "if [[ $funcstack[1] == _accel-run ]]; then _accel-run \"$@\"; else compdef _accel-run accel-run; fi\n",
          out);
}

/* ---- fish */

static void print_fish_words(const char *words, bool takes, const char *help, FILE *out) {
    if (takes)
        fputs(words ? " -x" : " -r -F", out);
    if (takes && words && *words)
        fprintf(out, " -a '%s'", words);
    fputs(" -d '", out);
    for (const char *sign = help; *sign; sign++)
        fprintf(out, *sign == '\'' ? "\\'" : "%c", *sign);
    fputs("'\n", out);
}

static void print_fish_suboption(const struct config_suboption *option, FILE *out) {
    fprintf(out, "complete -c accel-run -n '__accel_run_at %s%s'", option->command,
            option->is_before_program ? "; and not __accel_run_rest >/dev/null" : "");
    if (is_verb(option))
        fprintf(out, " -f -a %s", option->name);
    else
        fprintf(out, option->name[1] == '-' ? " -l %s" : " -s %s", option->name + (option->name[1] == '-' ? 2 : 1));
    print_fish_words(subwords_of(option), *option->argument, option->help, out);
}

/* "__accel_run_at doctor config ...": a subcommand stands first, one of those that are no run, or behind which no program follows. */
static void print_fish_at(const struct config_subcommands *commands, bool takes_program, FILE *out) {
    fputs("__accel_run_at", out);
    for (int i = 0; i < commands->count; i++)
        if (is_first_of_command(commands, i) && !(takes_program ? commands->options[i].is_run : commands->options[i].is_before_program))
            fprintf(out, " %s", commands->options[i].command);
}

/* "__accel_run_rest" prints the program and what follows it, when it has been named; its status says so. */
static void print_fish_rest(const struct config_subcommands *commands, FILE *out) {
    fputs("function __accel_run_rest\n    set -l words (commandline -opc)\n    set -l i 2\n    contains -- \"$words[2]\"", out);
    for (int i = 0; i < commands->count; i++)
        if (is_first_of_command(commands, i) && commands->options[i].is_before_program)
            fprintf(out, " %s", commands->options[i].command);
    fputs("; and set i 3\n    while test $i -le (count $words)\n        switch $words[$i]\n            case", out);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (takes_value(&config_options[i])) {
            if (config_options[i].letter)
                fprintf(out, " -%c", config_options[i].letter);
            fprintf(out, " --%s", config_options[i].name);
        }
    for (int i = 0; i < commands->count; i++)
        if (*commands->options[i].argument && commands->options[i].is_before_program)
            fprintf(out, " %s", commands->options[i].name);
    fputs("\n                set i (math $i + 2)\n            case '-*'\n                set i (math $i + 1)\n            case '*'\n"
          "                string join ' ' -- (string escape -- $words[$i..-1]) (commandline -ct)\n                return 0\n        end\n"
          "    end\n    return 1\nend\n",
          out);
}

static void print_fish(const struct config_subcommands *commands, FILE *out) {
    fputs("# fish completion of accel-run\nfunction __accel_run_at\n    set -l words (commandline -opc)\n"
          "    test (count $words) -gt 1; and contains -- $words[2] $argv\nend\n",
          out);
    print_fish_rest(commands, out);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        fputs("complete -c accel-run -n 'not __accel_run_rest >/dev/null; and not ", out);
        print_fish_at(commands, true, out);
        fprintf(out, "' -l %s", option->name);
        if (option->letter)
            fprintf(out, " -s %c", option->letter);
        print_fish_words(words_of(option), takes_value(option), option->help, out);
    }
    for (int i = 0; i < commands->count; i++)
        print_fish_suboption(&commands->options[i], out);
    fputs("complete -c accel-run -f -n '", out);
    print_fish_at(commands, false, out);
    fprintf(out, "'\ncomplete -c accel-run -n '__fish_use_subcommand' -a '%s'\n", commands->names);
    fprintf(out, "complete -c accel-run -n '__fish_prev_arg_in -h --help' -a 'all flags %s'\n", commands->names);
    fputs("complete -c accel-run -n 'not __accel_run_rest >/dev/null; and not ", out);
    print_fish_at(commands, false, out);
    fputs("' -a '(__fish_complete_command)'\ncomplete -c accel-run -n '__accel_run_rest >/dev/null; and not ", out);
    print_fish_at(commands, false, out);
    fputs("' -a '(complete -C (__accel_run_rest))'\n", out);
}

int config_print_completion(const char *shell, const struct config_subcommands *commands, FILE *out) {
    if (!strcmp(shell, "bash"))
        print_bash(commands, out);
    else if (!strcmp(shell, "zsh"))
        print_zsh(commands, out);
    else if (!strcmp(shell, "fish"))
        print_fish(commands, out);
    else
        return -1;
    return 0;
}
