/*
 * Saving: rank 0 writes the file, and everybody goes on when it is there.
 *
 * Rules of hooks/save/
 *  - Every rank makes the program's call; the ranks but 0 write to /dev/null. So what libtorch does on the way (state functions of modules,
 *    draws, errors about the content) happens on all ranks alike.
 *  - Rank 0 writes a temporary file beside the target and renames it: a reader, or a crash at any moment, finds the old file or the new
 *    one, whole. The file gets the name, permissions and bytes that a plain run would give it.
 *  - A save ends with an exchange: a load right after it finds the file on every rank. When rank 0 fails (disk full), the others throw what
 *    libtorch throws. A save that fails on another rank only has parted the ranks: the job stops.
 *  - A name that each rank has drawn (tempfile) is each rank's own file. One that is spelled differently for another reason is rank 0's.
 *  - Memory is everybody's own: saves to streams and to functions of the program happen on all ranks. Where the stream is a file, it is one
 *    of the program's files (hooks/files).
 *  - What is saved is the whole value: a shard or a partial sum is put together first.
 *  - On the thread that claimed the rank, collectives tell the ranks of each other: all save at the same point of the training. On any other thread, of
 *    checkpoints beside the training perhaps, they come together by the file's name (shim/beside.h).
 */
#define _GNU_SOURCE
#include "save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

_Thread_local struct save *save_current;

enum { OUTCOME_WRITTEN, OUTCOME_FAILED };

void save_set_string(struct save_string *string, const char *text) {
    size_t length = strnlen(text, sizeof string->shared.text - 1);
    memcpy(string->shared.text, text, length);
    string->shared.text[length] = 0;
    string->shared.references = -1;
    string->length = string->shared.length = length;
    string->capacity = string->shared.capacity = sizeof string->shared.text - 1;
    string->text = string->shared.text;
}

/* True: all ranks save to names that they have drawn. */
static bool all_save_their_own(const char *path) {
    uint64_t all[BOARD_RANKS_MAX];
    comm_all_gather_words("saves to a file of its own", files_client.is_own(path), all);
    uint32_t other = comm_first_other(all);
    if (other < shim_world_size())
        shim_problem("AR-SAVE-PARTED", "All ranks must save to a temporary file of their own, or all to one file.",
                     "rank %u saves to a temporary file of its own, rank %u does not: %s on rank %u", all[0] ? 0 : other,
                     all[0] ? other : 0, path, shim_rank());
    return all[0];
}

/* A name with the time or a process number in it is spelled differently on each rank: rank 0's is made. */
static void agree_on_name(const char *path) {
    char rank_0s[PATH_MAX] = "";
    snprintf(rank_0s, sizeof rank_0s, "%s", path);
    comm_broadcast("path of the file that is saved", rank_0s, sizeof rank_0s, 0);
    if (shim_rank())
        files_client.is_spelled(path, rank_0s);
}

static void begin_here(struct save *save, const char *path) {
    if (shim_rank())
        return;
    /* What the program goes on writing to, or reading from, is the file itself. Not what it has mapped (torch.load): its memory would end here (SIGBUS). */
    save->way = files_client.is_open(path) ? SAVE_DIRECT : (enum save_way)replace_begin(&save->file, path);
    if (save->way == SAVE_REPLACE)
        save_set_string(&save->opened, save->file.name);
}

/* Rank 0 may have met a limit of its own: its files are real, the others' are copies. Not by way of a link: of a file without a name (/dev/fd/6) nobody knows
   the place, and each rank opens its own. */
static bool could_open(const char *path) {
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    struct stat there;
    if (!lstat(path, &there))
        return S_ISREG(there.st_mode) && !access(path, W_OK);
    if (errno != ENOENT)
        return false;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return !access(folder, W_OK) && !stat(folder, &there) && there.st_nlink; /* without a name: "." of a folder that was removed */
}

/* way: rank 0's. Where opening the path fails there, it fails here, as it does by itself nearly always. */
static void follow(struct save *save, uint64_t way, const char *path) {
    if (shim_rank() == 0)
        return;
    save->way = way == SAVE_FAIL ? SAVE_FAIL : SAVE_NOWHERE;
    if (save->way == SAVE_NOWHERE)
        save_set_string(&save->opened, "/dev/null");
    else if (could_open(path))
        save_set_string(&save->opened, "/dev/null/nowhere");
}

static void begin_beside(struct save *save, const char *path) {
    struct beside beside;
    if (files_client.is_own(path))
        return;
    char buffer[PATH_MAX];
    const char *spelled = files_client.spelled(path, buffer); /* all ranks come by one name */
    beside_name(&beside, BESIDE_SAVE, spelled, "");
    beside.path = path;
    beside_come(&beside);
    begin_here(save, path);
    bool is_answered = true;
    if (shim_rank() == 0)
        beside_answer(&beside, (int)save->way);
    else
        is_answered = beside_await(&beside);
    save->beside = is_answered ? beside_end_of(&beside) : 0;
    if (beside.rank_0s[0])
        files_client.is_spelled(path, beside.rank_0s);
    follow(save, (uint64_t)beside.error, path);
}

static void begin_together(struct save *save, const char *path) {
    SHIM_COMM_SCOPE;
    if (all_save_their_own(path))
        return;
    agree_on_name(path);
    begin_here(save, path);
    uint64_t way = save->way;
    comm_broadcast("saving begins", &way, sizeof way, 0);
    follow(save, way, path);
}

void save_begin(struct save *save, const char *path) {
    save->is_beside = !meeting_is_here();
    if (!save->is_beside)
        shim_phase(BOARD_SAVE, path);
    if (shim_records()) { /* the user's file must not be overwritten by a model of some steps */
        explain_note("save", "libtorch", path);
        explain_end("the program saves here, which is not carried out");
    }
    save->file.file = -1;
    save->is_written = save->has_failed = save->is_over = false;
    snprintf(save->path, sizeof save->path, "%s", path);
    save_set_string(&save->opened, path);
    save->way = SAVE_OWN;
    save->beside = 0;
    if (save->is_beside)
        begin_beside(save, path);
    else
        begin_together(save, path);
}

/* What rank 0 says counts. */
static uint64_t exchange_beside(const struct save *save, uint64_t mine) {
    struct beside beside = {.key = save->beside, .path = save->path};
    if (!beside.key)
        return mine;
    if (shim_rank() == 0)
        beside_answer(&beside, (int)mine);
    else if (!beside_await_end(&beside))
        return mine;
    return (uint64_t)beside.error;
}

/* The exchange. Returns rank 0's outcome. */
static uint64_t save_exchange(struct save *save, uint64_t mine) {
    uint64_t all[BOARD_RANKS_MAX];
    save->is_over = true;
    if (save->is_beside)
        return exchange_beside(save, mine);
    SHIM_COMM_SCOPE;
    comm_all_gather_words("saving ends", mine, all);
    for (uint32_t rank = 1; rank < shim_world_size(); rank++)
        if (all[rank] != all[0] && (all[0] == OUTCOME_WRITTEN || save->way == SAVE_FAIL))
            shim_problem("AR-SAVE-PARTED", "See the program's own message above, if there is one.",
                         "saving %s went well on rank %u and failed on rank %u: they would go on differently", save->path,
                         all[0] == OUTCOME_WRITTEN ? 0 : rank, all[0] == OUTCOME_WRITTEN ? rank : 0);
    shim_phase(BOARD_STEP, "after saving");
    return all[0];
}

void save_finish(struct save *save) {
    char text[PATH_MAX + 128];
    int problem = 0;
    save->is_written = true;
    if (save->way == SAVE_REPLACE && !save->has_failed)
        problem = replace_commit(&save->file);
    uint64_t outcome = save_exchange(save, save->has_failed || problem ? OUTCOME_FAILED : OUTCOME_WRITTEN);
    if (outcome == OUTCOME_WRITTEN || save->has_failed) /* it has thrown on this rank already */
        return;
    snprintf(text, sizeof text, "%s could not be written%s%s", save->path, problem ? ": " : "", problem ? strerrordesc_np(problem) : "");
    shim_throw("save", text);
}

void save_abandon(struct save *save) {
    if (!save->is_over)
        save_exchange(save, OUTCOME_FAILED);
    replace_discard(&save->file);
}
