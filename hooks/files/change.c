/* What all ranks meet for, or come together for by its name: rank 0 does it, the others get its result. */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alias.h"
#include "change.h"
#include "early.h"

enum { WALK_DESCRIPTORS = 16 };

/* Files that one process would have under these names are in their place now (rank 0). */
static void settle(const char *path) {
    char buffer[PATH_MAX];
    if (shim_rank() == 0)
        view(AT_FDCWD, path, buffer);
}

/* The name itself, also of a link: only the directory is made real. What is cut is what the link leads to. */
static void locate_name(enum meeting_kind kind, const char *path, char *real) {
    struct stat now;
    if (kind == MEETING_TRUNCATE || lstat(path, &now) || !S_ISLNK(now.st_mode) || !replace_locate_name(path, real))
        files_locate(path, real);
}

/* Open files below it are known by the name that is changed, which may be another one of rank 0's name. */
static void respell_open(enum meeting_kind kind, const char *path, const char *real) {
    char spelled[PATH_MAX], name[PATH_MAX];
    if (!alias_is_known())
        return;
    locate_name(kind, alias_of(path, spelled), name);
    if (!strcmp(name, real))
        locate_name(kind, alias_of(real, spelled), name);
    view_respell(real, name);
}

static bool is_everybodys_own(const char *path, const char *real) {
    char rank_0s[PATH_MAX];
    struct stat now;
    if (files_is_left_alone(real))
        return true;
    bool is_there = !away_stat_disk(alias_of(path, rank_0s), AT_SYMLINK_NOFOLLOW, &now);
    return is_there && files_is_special(now.st_mode);
}

static int remove_part(const char *path, const struct stat *status, int type, struct FTW *place) {
    return remove(path);
}

/* A private file gets a name that all ranks know, or loses its own: rank 0's counts, the others' copies go. */
static void after_rename(struct change *change) {
    mapped_forget(change->real[1]);
    written_move(change->real[0], change->real[1]);
    if (scratch_has(change->real[0]) && shim_rank())
        nftw(change->paths[0], remove_part, WALK_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    scratch_forget(change->real[0]);
    apart_drop(change->real[0]);
}

/* What the program has made in the folder under names of its own. */
static void move_names(const struct change *change) {
    struct stat now;
    const char *rank_0s = change->meeting.paths[1];
    if (rank_0s && alias_is_known() && !away_stat_disk(rank_0s, AT_SYMLINK_NOFOLLOW, &now) && S_ISDIR(now.st_mode))
        alias_move(change->paths[0], change->paths[1], rank_0s);
}

static void after_remove(struct change *change) {
    mapped_forget(change->real[0]);
    for (struct written *file; (file = written_find_path(change->real[0]));)
        file->path[0] = 0;
}

/* Fills in the names; true: the ranks meet. */
static bool prepare(struct change *change, int directory, const char *path, int second_directory, const char *second) {
    change->paths[0] = alias_whole_path(directory, path, change->whole[0]);
    change->paths[1] = second ? alias_whole_path(second_directory, second, change->whole[1]) : NULL;
    for (int i = 0; i < 2 && change->paths[i]; i++)
        settle(change->paths[i]);
    SHIM_FILES_ASIDE;
    for (int i = 0; i < 2 && change->paths[i]; i++)
        locate_name(change->kind, change->paths[i], change->real[i]);
    for (int i = 0; i < 2 && change->paths[i] && shim_rank() == 0; i++)
        written_publish_below(change->real[i]);
    bool moves = change->kind == MEETING_REMOVE || change->kind == MEETING_RENAME || change->kind == MEETING_TRUNCATE;
    for (int i = 0; i < 2 && change->paths[i] && shim_rank() && moves; i++)
        respell_open(change->kind, change->paths[i], change->real[i]);
    int last = change->paths[1] ? 1 : 0; /* what is made, or the only one */
    if (!is_everybodys_own(change->paths[last], change->real[last]))
        return true;
    change->is_brought = last && change->kind == MEETING_RENAME && !is_everybodys_own(change->paths[0], change->real[0]);
    change->ends_scratch = !change->is_brought && (change->kind == MEETING_REMOVE || change->kind == MEETING_RENAME);
    return change->is_brought;
}

/* By the number of a descriptor, which is each rank's own: it leads to what the rank has there. */
static bool is_numbered(const char *path) {
    return !strncmp(path, "/proc/", 6) || !strncmp(path, "/dev/fd/", 8);
}

/* By name, on a thread. Rank 0 says how it calls the last of the names, the one that is made: the other's is not known (NULL). */
static void come_beside(struct change *change) {
    const char *names[2], **rank_0s = change->meeting.paths; /* a scratch file's name each rank has drawn for itself */
    int last = change->paths[1] ? 1 : 0;
    for (int i = 0; i < 2; i++)
        names[i] = change->paths[i] && !scratch_has(change->real[i]) && !is_numbered(change->paths[i]) ? change->paths[i] : "";
    view_name_beside(&change->beside, BESIDE_CHANGE + (enum beside_kind)change->kind, names[0], names[1]);
    change->beside.path = names[last];
    beside_come(&change->beside);
    change->meeting.error = !change->acts && beside_await(&change->beside) ? change->beside.error : 0;
    rank_0s[0] = rank_0s[1] = NULL;
    rank_0s[last] = change->beside.rank_0s[0] ? change->beside.rank_0s : NULL;
}

static void come(struct change *change) {
    if (change->is_beside) {
        come_beside(change);
        return;
    }
    meeting_come(&change->meeting, change->kind, change->paths[0], change->paths[1]);
    if (!change->acts)
        meeting_await(&change->meeting);
}

enum { NEWS_SHIFT = 16 }; /* above errno */

static void answer(struct change *change, int error) {
    error |= change->news << NEWS_SHIFT;
    if (change->said)
        *(change->is_beside ? &change->beside.path : &change->meeting.paths[1]) = change->said;
    if (change->is_beside)
        beside_answer(&change->beside, error);
    else
        meeting_answer(&change->meeting, error, 0);
}

static int answer_of(struct change *change) {
    change->said = change->is_beside ? change->meeting.paths[0] : change->meeting.paths[1];
    change->news = (uint16_t)(change->meeting.error >> NEWS_SHIFT);
    return change->meeting.error & ((1 << NEWS_SHIFT) - 1);
}

/* By a process that is no rank; NULL: of no concern. */
static const char *const others_do[MEETING_KINDS] = {
    [MEETING_RENAME] = "renames", [MEETING_REMOVE] = "removes", [MEETING_LINK] = "makes a link of", [MEETING_TRUNCATE] = "cuts"};

bool change_passes(struct change *change, enum meeting_kind kind, int directory, const char *path, const char *second) {
    change->kind = kind;
    change->is_met = change->is_brought = change->is_early = change->ends_scratch = false;
    change->acts = true;
    change->news = 0;
    change->asks = false;
    change->said = NULL;
    change->place = files_place_of(second ? second : path);
    if (change->place == FILES_PASS && others_do[kind])
        others_tell(directory, path, others_do[kind]);
    return change->place == FILES_PASS;
}

bool change_meet(struct change *change, struct change_names *names, int directory, const char *path, int second_directory,
                 const char *second) {
    enum files_place place = change->place;
    change->whole = names->whole;
    change->real = names->real;
    if (place == FILES_EARLY && path)
        place = files_place_early(files_whole_path(directory, path, change->whole[0]));
    change->paths[0] = path;
    change->is_early = path && place == FILES_EARLY;
    if (place < FILES_MEET || !files_has_place(directory, path) || (second && !files_has_place(second_directory, second)) ||
        !prepare(change, directory, path, second_directory, second))
        return true;
    change->is_beside = place == FILES_BESIDE;
    if (change->is_beside && change->is_brought) /* each rank moves it: there is no copy to be had when the others have come */
        return true;
    change->is_met = true;
    change->acts = shim_rank() == 0;
    come(change);
    return change->acts;
}

static struct change *brought; /* on the thread that meets */

/* One of a folder's, or a link. */
static int bring_part(const char *path, const struct stat *status, int type, struct FTW *place) {
    char to[PATH_MAX], text[PATH_MAX];
    if (snprintf(to, sizeof to, "%s%s", brought->paths[1], path + strlen(brought->meeting.paths[1])) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (S_ISDIR(status->st_mode)) /* an empty one may be there */
        return mkdir(to, (status->st_mode & 07777) | S_IRWXU) && errno != EEXIST ? -1 : 0;
    if (S_ISREG(status->st_mode))
        return sink_copy(path, to) ? 0 : -1;
    ssize_t length = S_ISLNK(status->st_mode) ? readlink(path, text, sizeof text - 1) : -1;
    text[length < 0 ? 0 : length] = 0;
    unlink(to);
    return length < 0 ? mknod(to, status->st_mode, status->st_rdev) : symlink(text, to);
}

static bool is_brought_home(struct change *change) {
    struct stat now;
    const char *from = change->meeting.paths[1];
    if (away_stat_disk(from, AT_SYMLINK_NOFOLLOW, &now) || S_ISREG(now.st_mode))
        return sink_copy(from, change->paths[1]);
    brought = change;
    return !nftw(from, bring_part, WALK_DESCRIPTORS, FTW_PHYS);
}

/* The others copy what rank 0 has moved home, before it goes on and perhaps removes it. Returns 0 or an errno. */
static int bring(struct change *change) {
    int error = change->acts || is_brought_home(change) ? 0 : errno;
    meeting_hold(change->kind, change->paths[0], change->paths[1]);
    return error;
}

void change_hold(struct change *change) {
    if (!change->is_beside) {
        meeting_hold(change->kind, change->paths[0], change->paths[1]);
        return;
    }
    view_name_beside(&change->beside, BESIDE_CHANGE + (enum beside_kind)change->kind, change->paths[0], "held");
    beside_come(&change->beside);
    if (change->acts)
        beside_answer(&change->beside, 0);
    else
        beside_await(&change->beside);
}

/* What rank 0 calls the names. is_own: the first one was this rank's alone. */
static void learn_names(struct change *change, bool is_own) {
    for (int i = 0; i < 2 && change->paths[i]; i++) {
        const char *rank_0s = change->meeting.paths[i];
        if (!rank_0s || is_numbered(change->paths[i]))
            continue;
        if (!change->is_beside && !(is_own && !i))
            spelling_met(change->paths[i], rank_0s);
        if (change->kind != MEETING_REMOVE) /* the names may lead to each other, and the one that is left be another */
            alias_add(change->paths[i], rank_0s);
    }
}

FILES_DEEP static int end_of_rank(struct change *change, int result) {
    if (change->is_early && !result)
        early_note_change(change->kind, change->paths[0]);
    bool is_own = change->is_met && scratch_has(change->real[0]); /* this rank's alone until now: each has drawn its name */
    if (change->ends_scratch && !result)
        scratch_forget(change->real[0]);
    if (!change->is_met)
        return result;
    SHIM_FILES_ASIDE;
    int error = result ? errno : 0;
    if (change->acts)
        answer(change, error);
    else
        error = answer_of(change);
    if (!error && change->kind == MEETING_RENAME)
        after_rename(change);
    if (!error && change->kind == MEETING_REMOVE)
        after_remove(change);
    if (!error && change->is_brought)
        error = bring(change);
    if (!change->acts && !error && !change->asks)
        learn_names(change, is_own);
    if (!change->acts && !error && change->kind == MEETING_RENAME)
        move_names(change); /* of several names the youngest counts */
    errno = error ? error : errno;
    return error ? -1 : 0;
}

int change_end(struct change *change, int result) {
    return change->place == FILES_PASS ? result : end_of_rank(change, result);
}
