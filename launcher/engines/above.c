#define _GNU_SOURCE
#include "above.h"

#include <string.h>

const char *above_next_word(const char **list, size_t *length) {
    const char *word = *list + strspn(*list, " ");
    *length = strcspn(word, " ");
    *list = word + *length;
    return *length ? word : NULL;
}

bool above_list_has(const char *list, const char *wanted, size_t wanted_length) {
    const char *word;
    size_t length;
    while ((word = above_next_word(&list, &length)))
        if (length == wanted_length && !strncmp(word, wanted, length))
            return true;
    return false;
}

/* Is the word one of the names? What follows a dot or colon does not count: mpirun.openmpi, "slurmstepd: [12.0]". */
static bool word_is_one_of(const char *word, const char *names) {
    const char *base = basename(word);
    return above_list_has(names, base, strcspn(base, ":")) || above_list_has(names, base, strcspn(base, ".:"));
}

bool above_is_one_of(const struct engine_process *process, const char *names) {
    const char *word = process->words, *end = word + process->words_bytes;
    bool is_interpreter = process->words_bytes && !strncmp(basename(word), "python", 6);
    for (int i = 0; word < end && i < (is_interpreter ? 5 : 1); i++, word += strlen(word) + 1)
        if (word_is_one_of(word, names))
            return true;
    return false;
}

bool above_is_shell(const struct engine_process *process) {
    static const char shells[] = "sh bash dash ash zsh ksh mksh fish tcsh csh busybox tmux screen sshd login su sudo -bash -sh -zsh";
    return process->words_bytes && word_is_one_of(process->words, shells);
}

bool above_is_typed_into(const struct engine_process *process) {
    const char *word = process->words, *end = word + process->words_bytes;
    if (!above_is_shell(process))
        return false;
    for (word += strlen(word) + 1; word < end; word += strlen(word) + 1)
        if (*word != '-' || !strcmp(word, "-c") || !strcmp(word, "-lc"))
            return false;
    return true;
}

bool above_has(const struct engine_process *process, const char *name, size_t length) {
    const char *entry = process->environment, *end = entry + process->environment_bytes;
    for (; entry < end; entry += strlen(entry) + 1)
        if (!strncmp(entry, name, length) && entry[length] == '=')
            return true;
    return false;
}
