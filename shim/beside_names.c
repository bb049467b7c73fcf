/* What ranks call the same on threads beside the training: keys of what is done to a name (beside.h). */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "beside_key.h"
#include "checksum.h"
#include "link.h"
#include "moment.h"
#include "patience.h"
#include "shim.h"

static char start[PATH_MAX]; /* the folder that the program was started in: hosts may call it differently */

__attribute__((constructor)) static void beside_start(void) {
    if (!getcwd(start, sizeof start))
        start[0] = 0;
}

/* As the folder that all have been started in shows it. */
static const char *part_of_name(const char *path) {
    size_t folder = strlen(start);
    return folder > 1 && !strncmp(path, start, folder) && path[folder] == '/' ? path + folder + 1 : path;
}

/* As the hosts call themselves; of one host it is no difference. */
static size_t hosts_names(const char **names) {
    const struct board *board = link_board();
    size_t count = 0;
    for (uint32_t host = 0; board->hosts > 1 && host < board->hosts; host++)
        if (board->list[host].node[0])
            names[count++] = board->list[host].node;
    return count;
}

/* out: as long as the name. */
static void spell_for_all(const char *name, char *out) {
    int32_t processes[BOARD_RANKS_MAX];
    const char *hosts[BOARD_RANKS_MAX];
    shim_processes(processes);
    moment_spell(name, &(struct moment){moment_of_start(), time(NULL), processes, shim_world_size(), hosts, hosts_names(hosts)}, out);
}

/* May another rank spell it in another way? out: as long as the name. */
static bool may_differ(const char *name, char *out) {
    int32_t own = getpid();
    const char *hosts[BOARD_RANKS_MAX];
    moment_spell(name, &(struct moment){moment_of_start(), time(NULL), &own, 1, hosts, hosts_names(hosts)}, out);
    return strcmp(name, out);
}

bool beside_spells_alike(const char *own, const char *rank_0s) {
    char mine[PATH_MAX], theirs[PATH_MAX];
    const char *name = part_of_name(own), *its = part_of_name(rank_0s);
    if (strlen(name) >= sizeof mine || strlen(its) >= sizeof theirs)
        return false;
    spell_for_all(name, mine);
    spell_for_all(its, theirs);
    size_t length = strlen(mine), room = strlen(theirs);
    bool is_elsewhere = link_board()->host && name != own && room > length && theirs[room - length - 1] == '/';
    return !strcmp(mine, is_elsewhere ? theirs + room - length : theirs);
}

void beside_name(struct beside *beside, enum beside_kind kind, const char *path, const char *second) {
    char text[PATH_MAX];
    const char *names[] = {path, second};
    uint64_t spelling = kind, letters = kind;
    bool own = false;
    beside->path = path;
    beside->error = 0;
    beside->number = 0;
    beside->rank_0s[0] = 0;
    beside->file = (struct beside_file){0, 0};
    for (int i = 0; i < 2; i++) {
        const char *name = part_of_name(strlen(names[i]) < PATH_MAX ? names[i] : "");
        spell_for_all(name, text);
        spelling = checksum_bytes(spelling, text, strlen(text));
        letters = checksum_bytes(letters, name, strlen(name));
        own |= may_differ(name, text);
    }
    beside->key = beside_key(spelling, letters, own);
    beside->likeness = patience_likeness(shim_base_of(*path ? path : second));
}
