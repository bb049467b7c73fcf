#define _GNU_SOURCE /* basename */
#include "interpret.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Only where the system has it: a program of the user's may be called ./env. */
bool interpret_is_env(const char *path) {
    size_t n = strlen(path), suffix = strlen("/bin/env");
    return n >= suffix && !strcmp(path + n - suffix, "/bin/env");
}

bool interpret_is_python(const char *path) {
    return !strncmp(basename(path), "python", strlen("python"));
}

bool interpret_is_python_file(const char *name) {
    size_t length = strlen(name);
    return length > 3 && !strcmp(name + length - 3, ".py");
}

/* ---- first lines */

/* What follows -S, in any of the ways to write it; NULL: no such option. */
static const char *split_string(const char *argument) {
    static const char *const options[] = {"-S", "-vS", "--split-string="};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strncmp(argument, options[i], strlen(options[i])))
            return argument + strlen(options[i]);
    return NULL;
}

bool interpret_first_line(const char *interpreter, const char *argument, const char *script, struct interpret_line *line) {
    const char *split = interpret_is_env(interpreter) ? split_string(argument) : NULL;
    int count = 0;
    if (split && split[strcspn(split, "'\"\\$#")])
        return false;
    snprintf(line->text, sizeof line->text, "%s", split ? split : argument);
    for (char *at = line->text; *at && count < INTERPRET_WORDS_MAX;) {
        char *end = at;
        while (*end && !(split && isspace((unsigned char)*end)))
            end++;
        if (end > at)
            line->words[count++] = at;
        at = *end ? end + 1 : end;
        *end = 0;
    }
    line->words[count++] = script;
    line->words[count] = NULL;
    return count <= INTERPRET_WORDS_MAX;
}

/* ---- env */

/* How many words an option of env takes, itself included; 0: it is not known here. It may change where env looks. */
static int env_option(const char *const *words, const char **search) {
    const char *option = words[0], *unset = NULL;
    if (!strcmp(option, "-") || !strcmp(option, "-i") || !strcmp(option, "--ignore-environment")) {
        *search = NULL;
        return 1;
    }
    if (!strcmp(option, "-v") || !strcmp(option, "--debug") || !strcmp(option, "--"))
        return 1;
    if (!strcmp(option, "-u") || !strcmp(option, "--unset"))
        unset = words[1];
    else if (!strncmp(option, "-u", 2))
        unset = option + 2;
    else if (!strncmp(option, "--unset=", 8))
        unset = option + 8;
    if (unset && !strcmp(unset, "PATH"))
        *search = NULL;
    return !unset ? 0 : unset == words[1] ? 2 : 1;
}

const char *const *interpret_env(const char *const *words, const char **search) {
    bool has_options = true;
    while (*words) {
        int taken = has_options && **words == '-' ? env_option(words, search) : 0;
        bool ends_options = taken && !strcmp(*words, "--");
        if (!taken && has_options && **words == '-')
            return NULL;
        if (!taken && !strchr(*words, '='))
            return words;
        if (!taken && !strncmp(*words, "PATH=", 5))
            *search = *words + 5;
        has_options = taken && !ends_options;
        words += taken ? taken : 1;
    }
    return words;
}

/* ---- Python */

/* Several letters may stand in one word ("-um"): the first that takes a value, which may follow in the same word. NULL: none does. */
static const char *letter_with_value(const char *word) {
    const char *letter = word + strcspn(word, "cmWX");
    return word[1] == '-' || !*letter ? NULL : letter;
}

const char *interpret_python(const char *const *words) {
    for (; *words && **words == '-' && (*words)[1]; words++) {
        const char *letter = letter_with_value(*words);
        if (!letter)
            continue;
        if (*letter == 'c')
            return "-c";
        if (*letter == 'm')
            return letter[1] ? letter + 1 : words[1];
        if (!letter[1] && words[1])
            words++;
    }
    return *words;
}

const char *interpret_shown(char *const *words) {
    const char *search = NULL, *const *at = (const char *const *)words;
    if ((!strcmp(words[0], "env") || interpret_is_env(words[0])) && (at = interpret_env(at + 1, &search), !at || !*at))
        return words[0];
    const char *script = interpret_is_python(at[0]) ? interpret_python(at + 1) : NULL;
    return script && strcmp(script, "-c") != 0 ? script : at[0];
}
