/* Files of the program, as all ranks go through them. The rules stand in files.c. */
#ifndef ACCEL_HOOKS_FILES_H
#define ACCEL_HOOKS_FILES_H

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "../../shim/shim.h"
#include "stack.h"

/* ---- who acts (files.c) */

enum files_place {
    FILES_PASS,   /* not a rank of several, or the shim's own doing */
    FILES_EARLY,  /* a process that may become a rank */
    FILES_MEET,   /* a rank on the thread that claimed, or a process that meets the others before it is one (shim/attach.h) */
    FILES_BESIDE, /* the same on another thread: they meet by name (shim/beside.h) */
};

extern _Atomic uint8_t files_watched; /* 0: FILES_PASS for sure */

/* Where a call that changes files comes from. May claim the rank. */
enum files_place files_place_slowly(void);
static inline enum files_place files_place(void) {
    if (__builtin_expect(!atomic_load_explicit(&files_watched, memory_order_relaxed), 1))
        return FILES_PASS;
    return files_place_slowly();
}

/* May this process become a rank, or meet the others, yet? */
bool files_may_begin(void);

/* The same for a change that leaves something under this name (NULL: not known): a device, or what is in a cache, does not claim the rank. A GPU's driver opens
   such while libtorch counts devices, which the self-check would do again within. */
enum files_place files_place_of(const char *path);

/* FILES_EARLY, about to change what stands under this name: where that is the job's concern it meets from now on, if it can. Never claims the rank. Keeps
   errno. */
enum files_place files_place_early(const char *path);

/* What the descriptor is open for, absolute: out[PATH_MAX]. Returns its characters; 0: not known. */
size_t files_path_of(int descriptor, char *out);
/* No empty name, and none below a descriptor that is not open: the system refuses these by itself, with an errno of their own. May change errno. */
bool files_has_place(int directory, const char *path);
/* The path as a whole: out[PATH_MAX] is filled when it belongs to a directory's descriptor. Borrowed. Of what is too long it is a name that nothing has. */
const char *files_whole_path(int directory, const char *path, char *out);
#define FILES_TOO_LONG "/(a path that is too long)/"
static inline bool files_is_too_long(const char *path) {
    return !strncmp(path, FILES_TOO_LONG, strlen(FILES_TOO_LONG));
}

/* The path from the root on; links and dots stay. out[PATH_MAX]. False: too long. */
bool files_absolute(int directory, const char *path, char *out);
/* The same without dots, by the letters alone. told: how many characters are what the system has told, not the program: it calls where the program stands, and
   what a descriptor is open for, as rank 0 does. */
bool files_clean_told(int directory, const char *path, char *out, size_t *told);
/* The same from the current directory. */
bool files_clean(const char *path, char *out);
/* A process that a rank has made by fork(): it is none, and knows what the rank has known. Any thread. */
bool files_is_in_child(void);
/* Before the claim: should a look claim the rank, because another host's answer may count? */
bool files_look_may_claim(void);

/* What stands behind the folder and a slash; NULL: it is not below it. */
const char *files_below(const char *path, const char *folder);
/* True for names that are every process's own business: devices, caches that programs share, this rank's scratch files. real: without links */
bool files_is_left_alone(const char *real);
/* In a cache of a library's, whose files every process makes under names of their own, and renames. real: without links */
bool files_is_in_cache(const char *real);
/* Devices and sockets: neither files nor pipes, which the ranks meet for. */
static inline bool files_is_special(mode_t mode) {
    return S_ISCHR(mode) || S_ISBLK(mode) || S_ISSOCK(mode);
}
/* The real path. Where there is none here, since another host has the folder: the absolute one, without dots. real[PATH_MAX]. */
void files_locate(const char *path, char *real);

/* Scratch files and directories: names that this rank alone has. */
void scratch_add(const char *path);
/* Is it where programs draw names without being told where? Elsewhere, in the program's own folders, the ranks meet for such names as for any. */
bool scratch_may_be_in(const char *real);
/* Is it Python's tempfile that calls? A name alone does not say so: the program, or SQLite, may have given it. */
bool scratch_is_by_tempfile(void);
/* Has it drawn a name that is not for this rank? It is told that the name is taken. */
bool scratch_is_anothers(const char *path);
/* A name that Python's tempfile may have drawn: eight small letters, digits, '_' at its end; a digit or a '_' among them, or behind a usual beginning, or a
   prefix that ends in '_', '-' or '.'. */
bool scratch_may_be_drawn(const char *path);
/* As Python's own names do. */
bool scratch_begins_usually(const char *path);
bool scratch_has(const char *real);
/* Does the text name one, by the last component of its path? */
bool scratch_is_named_in(const char *text);
void scratch_forget(const char *real);

/* ---- files on their way into a cache (apart.c). Rows of any process below the launcher call these; errno is that of the result. */

/* OPEN_PASS: it is none, or made otherwise. */
int apart_open(int directory, const char *path, int flags, unsigned mode);
/* A cheap question: false: no, for sure. */
bool apart_may_be(const char *path);
/* The name under which this rank has it: path, or buffer[PATH_MAX]. Keeps errno. */
FILES_DEEP const char *apart_name(int directory, const char *path, char *buffer);
#define APART_NAME(directory, path) (apart_may_be(path) ? apart_name(directory, path, FILES_ROOM) : (path))
/* False: this rank has none under that name, or it leaves the caches. */
bool apart_rename(int from_directory, const char *from, int to_directory, const char *to, unsigned flags, int *result);
bool apart_remove(int directory, const char *path, int *result);
/* It has left them: rank 0's is what there is. Inside SHIM_FILES_ASIDE, too. Keeps errno. */
void apart_drop(const char *path);
/* The rank ends. */
void apart_end(void);

/* ---- files that are open for writing (written.c) */

struct written {
    _Atomic uint8_t state;
    uint32_t place;             /* in the table */
    bool is_own;                /* this rank's private copy */
    bool is_whole;              /* of one that rank 0 may write elsewhere until it is complete */
    bool was_met;               /* kept: all ranks met to open it */
    _Atomic bool is_temporary;  /* not in its place yet */
    _Atomic uint8_t publishers; /* threads that are just putting it in its place, or writing its stream out */
    bool is_early;              /* open since before the ranks began (early.c) */
    bool is_diverted;           /* and on the disk then */
    bool is_mapped, is_kept;    /* to be written or seen through memory; closed by the program, and still there for that (mapped.c) */
    bool has_twins;             /* has had other descriptors, too */
    void *_Atomic stream;       /* libc's, or NULL */
    int stream_at;              /* its descriptor */
    int descriptor;
    dev_t device;
    ino_t inode;
    uint64_t number;           /* of the meeting that opened it; 0: none */
    uint32_t rank_0s;          /* its place in rank 0's table */
    int problem;               /* an errno: it could not be put in its place, which who closes it hears */
    struct beside_file beside; /* opened by all ranks on a thread that does not meet (shim/beside.h); number 0: it was not */
    off_t size_seen;           /* of such a file, when a backward was run last, and since when it has it */
    time_t seen_at;
    _Atomic off_t hollow; /* of a private copy that is added to: bytes at its begin that are rank 0's file's, and not copied yet */
    struct {
        bool is_known;
        bool is_held; /* that which keeps others from writing */
        off_t size;
        struct timespec time;
    } locked;            /* rank 0: what it was at the last lock */
    char path[PATH_MAX]; /* real; empty: it has none any more */
    struct replacement replacement;
};

/* Nothing to look for when 0: files that are not in their place, private copies, names of other spelling. */
extern _Atomic uint32_t written_views;

/* An entry for a descriptor, or NULL: the table is full. It is seen by others from written_show() on. Any thread, no locks. */
struct written *written_new(const char *real);
void written_show(struct written *file, int descriptor, uint64_t number);
void written_drop(struct written *file);
/* Another descriptor of the same. */
void written_add_twin(struct written *file, int descriptor);
/* This one is to be closed, or has been. True: the file has others, and stays. */
bool written_leaves(struct written *file, int descriptor);
/* NULL: not a file of ours. */
struct written *written_find(int descriptor);
/* Its descriptor has not been closed unseen. Keeps errno. */
bool written_is_open(const struct written *file);
/* It goes on under a descriptor of the shim's: the program is about to close its own. */
void written_keep(struct written *file, int descriptor);
struct written *written_find_path(const char *real);
/* Is what is open there, and looks so, without a name of its own, but the file that it stands for has one? A lock that has none is given up (filelock). */
bool written_has_name(int descriptor, const struct stat *now);
/* The private copy of what stands under this name, also where it was opened under another of its names on the disk. NULL: there is none. */
struct written *written_find_own(const char *real);
/* A cheap question before paths are made real: no open file stands under a name with another last component, unless that is a link. */
bool written_may_be(int directory, const char *path);
/* The place in the table; of NULL: BOARD_ENDS. */
uint32_t written_place(const struct written *file);
/* Of what is open there, also in a child; BOARD_ENDS: not a file of ours. */
uint32_t written_place_at(int descriptor);
/* How the ranks tell each other of it, where it was opened in a meeting. */
struct meeting_file written_in_meeting(const struct written *file);
/* How many are open that the ranks have met for: the same on all ranks where there is one thread. */
uint32_t written_count(void);
/* Have the ranks ever met for one? The same on all ranks: which of them are closed by now is not, where other threads close them, or the collector in them. */
bool written_were_met(void);
/* what: for the visitor. */
void written_each(void (*visit)(struct written *file, const void *what), const void *what);
/* A hash of their sizes. */
uint64_t written_sizes(void);
/* A folder or file has got another name, real ones both: what is open below it has another one, too. */
void written_move(const char *from, const char *to);
/* Puts what lies below the folder there: it moves, or is in the way of its removal, as in one process. */
void written_publish_below(const char *folder);
/* Puts a file that is not in its place yet there. Returns 0 or an errno, also where an earlier call has failed. Any thread. */
int written_publish(struct written *file);
/* The file itself is written from now on, not one that takes its name: it is to be locked (rank 0). Nothing where that cannot be. */
void written_put_in_place(struct written *file);
/* The same for all of them: they shall be seen now. Nothing in a child. */
void written_publish_all(void);
/* The same for those that are logs. */
void written_publish_logs(void);
/* The process ends: what libc has not written out yet of files that are not in their place goes into them. Waits for no other thread (stream.c). */
void stream_write_all_out(void);

/* ---- what children have as their own (given.c) */

/* The place is another file's from now on. */
void given_forget(uint32_t place);
/* A child has it as its own from now on; also called in that child, vfork()ed or not. */
void given_add(int descriptor);
bool given_has(const struct written *file);
/* A child is about to be forked, and may make what is open now its own after it has been closed here. */
void given_may_be(void);
bool given_is_perhaps(const struct written *file);

/* ---- readers and mapped memory */

/* Does this process have the file open, or mapped? (readers.c) */
bool readers_have(const char *path);
/* Only the first of these. */
bool readers_hold(const char *path);
/* Visits what it has mapped, as often as it is; true: the visitor has said so, and sees no more. what: for the visitor. */
bool readers_any_mapped(bool (*visit)(dev_t device, ino_t inode, const void *what), const void *what);

/* A private copy that is in memory is about to be closed: true when it stays. */
bool mapped_keep(struct written *file);
/* Has there been one? Likewise. */
bool mapped_may_be_kept(void);
/* All ranks have come here: what rank 0 wrote through memory is in its file, which others may write to. So copies go that are not mapped any more; only_met: of
   those that all ranks met to open. */
void mapped_settle(bool only_met);
/* Rank 0 has run a command for all, which may have written to what children were given before. */
void mapped_command_has_run(void);
/* Of a copy that was kept for a child: was it given none, or has rank 0's file all of it now? The copy is gone then. */
bool mapped_is_behind(struct written *file);
/* The name is to be another file's, or nobody's. */
void mapped_forget(const char *real);

/* ---- private copies (sink.c) */

/* A file of this rank's own, without a name, opened with the access of flags, which looks like `real` (likeness.c) or a new one. With its content unless flags
   truncate; what is only added to (sink_adds) has its length. -1: no room. */
int sink_open(const char *real, int flags, unsigned mode);
static inline bool sink_adds(int flags) {
    return flags & O_APPEND && !(flags & O_TRUNC) && (flags & O_ACCMODE) == O_WRONLY;
}
/* Opened so it is another file than what has stood there. */
static inline bool sink_is_new(int flags) {
    return flags & O_CREAT && flags & O_EXCL;
}
/* The one that another handle of this rank has, or a new one. What is to be empty is so at once: rank 0 has opened it. own: its entry, or NULL. -1: no room. */
int sink_take(struct written *own, const char *real, int flags, unsigned mode);
/* A private copy is about to be read by its name: what it was added to is there. Any thread. */
void sink_fill(struct written *file);
/* A private copy becomes what rank 0 has there; who has it mapped sees it, too. Any thread. */
void sink_renew(struct written *file);
/* The file has this length now: the private copy of it, too, if there is one. */
void sink_cut(const char *real, off_t length);
/* What is in `to` becomes what is in `from`; afterwards both stand anywhere. False: with errno. */
bool sink_copy_all(int to, int from);
/* Another handle of the file that is open here, with its own place. -1: with errno. */
int sink_reopen(int descriptor, int flags);
/* The file that rank 0 has, under a name of this rank's own. False: with errno. */
bool sink_copy(const char *real, const char *to);
/* An empty one, with the permissions of a new file. -1: no room. */
int sink_make(int flags, unsigned mode);
/* Says errno that this rank, or the system, has no descriptor left? Rank 0 may have none either. */
bool sink_has_none_left(void);
/* How long the file that is open there, with so many bytes, could become on its disk. What is written at once may be refused while there is room for less. */
uint64_t sink_most_bytes(int descriptor, uint64_t bytes);
/* There is no room for a copy of the file: stops the job (AR-FILE-COPY), with what errno says. */
__attribute__((noreturn)) void sink_refuse(const char *path);

/* ---- what private copies look like (likeness.c) */

/* Permissions, owner and extended attributes are the file's, as far as this process may. */
void likeness_take(int copy, const char *real, const struct stat *old);
/* As if it had been written when the file was. */
void likeness_take_times(int copy, const struct stat *old);
/* The permissions that open() gives to a new file. */
void likeness_make_new(int copy, unsigned mode);

/* ---- trackers that write from another process (trackers.c) */

/* A file that is opened for writing may be the first of a run. Any thread; the interpreter's lock need not be held. */
void trackers_look_at(const char *path);

/* ---- named pipes (pipes.c) */

/* Is it one, opened for reading by a rank, or by what is about to be one? Then the job is stopped (AR-PIPE). Any thread. Keeps errno. */
void pipes_refuse_to_read(int directory, const char *path);
/* For writing, by a rank: rank 0 does, the others write nowhere. Returns the descriptor, or -1 with errno, that of rank 0 on all ranks. */
int pipes_open(const char *path, int flags, unsigned mode);

/* ---- descriptors by their numbers (numbers.c) */

/* Of /dev/fd/3: the name of what it stands for, in buffer[PATH_MAX]; NULL: it has none, or the program was started with it ("3>log"), and it is rank 0's alone
   already (launcher/streams/inherited.h). Other paths as they are. Keeps errno. */
FILES_DEEP const char *numbers_name(const char *path, char *buffer);
bool numbers_is_one(const char *path); /* is it such a path? */
/* The name of a regular file that is open for reading: name[PATH_MAX]. False: it is another one, or has none. Keeps errno. */
bool numbers_find(int descriptor, char *name);

/* ---- processes that are no ranks (others.c) */

/* If this is one, it does so ("writes") with that name. Any thread. Keeps errno. */
void others_tell(int directory, const char *path, const char *does);
/* Might it? Cheap. */
bool others_may_tell(void);

/* ---- opening (open.c) */

enum { OPEN_PASS = -2 };
/* The descriptor, or -1 with errno, or OPEN_PASS: open it as usual. */
int open_written(int directory, const char *path, int flags, unsigned mode);
bool open_is_lock(const char *path); /* by its name */

/* A scratch file in a folder that this host has not: it is seen by its name as long as it is open. Stops the job when there is no room. */
int open_private(const char *real, int flags);

/* (close.c) The descriptor is being closed by other means: its file, if it is one of ours, ends. */
void open_end(int descriptor);

/* ---- looks from another host than the first (away.c) */

/* Inside SHIM_FILES_ASIDE: what this thread does with files is for the program again, so the first host is asked. */
static inline uint8_t files_leave_aside(void) {
    uint8_t before = shim_files_aside_now;
    shim_files_aside_now = 0;
    return before;
}
static inline void files_aside_again(const uint8_t *before) {
    shim_files_aside_now = *before;
}
#define FILES_NOT_ASIDE __attribute__((cleanup(files_aside_again), unused)) uint8_t not_aside_scope_ = files_leave_aside()

/* 0: what lies on this host's disk is what counts. */
extern _Atomic uint8_t away_asks;

/* Is the first host to be asked about the path? Then *absolute[PATH_MAX] is what to ask. May claim the rank. Keeps errno. */
bool away_applies_slowly(int directory, const char *path, char *absolute);
static inline bool files_asks_away(void) {
    return __builtin_expect(atomic_load_explicit(&away_asks, memory_order_relaxed), 0);
}
static inline bool away_applies(int directory, const char *path, char *absolute) {
    return files_asks_away() && path && away_applies_slowly(directory, path, absolute);
}
/* Software, which each host has for itself: not asked about. absolute path. Pure. */
bool away_is_software(const char *path);

/* Each: false: look as usual; true: *result is what the call returns, errno is set when it is -1. */
struct stat;
struct statx;
FILES_DEEP bool away_stat_slowly(int directory, const char *path, int flags, struct stat *status, int *result);
FILES_DEEP bool away_statx_slowly(int directory, const char *path, int flags, struct statx *status, int *result);
FILES_DEEP bool away_access_slowly(int directory, const char *path, int mode, int *result);
/* result: as readlink's. */
FILES_DEEP bool away_link_slowly(int directory, const char *path, char *text, size_t room, long *result);
#define AWAY(what, ...) (files_asks_away() && away_##what##_slowly(__VA_ARGS__))
/* As fstatat from here on, of what rank 0 would find on its disk, whatever is open here. Never through a private copy. */
int away_stat_disk(const char *path, int flags, struct stat *status);
/* Has the first host the folder that the path lies in? */
bool away_has_folder_of(const char *path);
#define AWAY_FOLDER_CURE "Start the job in a folder that all hosts share, or make the folder on every host before; files need not be there."
/* The program enters a folder, or makes a scratch folder in one. It stops the job when only the first host has it. */
FILES_DEEP void away_check_folder(const char *path);
void away_check_folder_of(const char *path);

/* Opening for reading (away_open.c): as open_written(). The file of this host where it is the same as the first host's, else a copy of that. */
FILES_DEEP int away_open_slowly(int directory, const char *path, int flags);
static inline int away_open(int directory, const char *path, int flags) {
    return files_asks_away() ? away_open_slowly(directory, path, flags) : OPEN_PASS;
}

/* The folder of the first host that a descriptor stands for (folder.c); NULL: it is what it is. Borrowed. Keeps errno. */
const char *folder_path(int descriptor);
/* A descriptor for a folder that this host has not. */
int folder_stand_in(const char *absolute, int flags);

/* ---- looks (view.c) */

/* The name under which the call finds what one process would find. buffer[PATH_MAX]. Keeps errno. */
FILES_DEEP const char *view_slowly(int directory, const char *path, char *buffer);
static inline const char *view(int directory, const char *path, char *buffer) {
    if (__builtin_expect(!atomic_load_explicit(&written_views, memory_order_relaxed), 1) || !path)
        return path;
    return view_slowly(directory, path, buffer);
}
/* A cheap question before. Keeps errno. */
bool view_may_differ_slowly(int directory, const char *path);
static inline bool view_may_differ(int directory, const char *path) {
    if (__builtin_expect(!atomic_load_explicit(&written_views, memory_order_relaxed), 1) || !path)
        return false;
    return view_may_differ_slowly(directory, path);
}
/* For opening it: the flags are for the name that is returned. */
FILES_DEEP const char *view_to_open(int directory, const char *path, int *flags, char *buffer);
/* For looking at it, with the flags of fstatat. */
FILES_DEEP const char *view_of_name(int directory, const char *path, int flags, char *buffer);
/* Each in a row's own frame; the name that is returned lives as long. */
#define VIEW(directory, path) (view_may_differ(directory, path) ? view_slowly(directory, path, FILES_ROOM) : (path))
#define VIEW_TO_OPEN(directory, path, flags) (view_may_differ(directory, path) ? view_to_open(directory, path, flags, FILES_ROOM) : (path))
#define VIEW_OF_NAME(directory, path, flags) (view_may_differ(directory, path) ? view_of_name(directory, path, flags, FILES_ROOM) : (path))
/* A private copy is reached through a link of /proc, which is not what the program asks about. */
#define VIEW_COPIES "/proc/self/fd/"
static inline bool view_is_copy(const char *path) {
    return path && !strncmp(path, VIEW_COPIES, strlen(VIEW_COPIES));
}
/* beside_name() by what rank 0 calls them, where this rank knows. */
void view_name_beside(struct beside *beside, enum beside_kind kind, const char *path, const char *second);
/* What is open there, or below it, by another name of this rank's goes by this one from now on. name: rank 0's. Inside SHIM_FILES_ASIDE. */
void view_respell(const char *real, const char *name);
/* A file has taken the place of another one. */
void view_replaced(const char *own, const char *rank_0s);

/* ---- names that differ between the ranks (spelling.c); any rank but 0 */

/* What this rank calls by the one name rank 0 calls by the other. Stops where both are files of the program. */
void spelling_met(const char *name, const char *rank_0s_name);

#endif
