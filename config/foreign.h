/*
 * Other launchers' flags and keys (foreign.def): known by name, checked, and either carried out by an option of ours, or said in one line to have no
 * effect and why, or refused with what to use instead. None is ignored in silence.
 *
 * What is given is collected first and judged when all is known: whether a dictionary of a file counts depends on the kind of job, and a typed flag
 * is stronger than a file.
 */
#ifndef ACCEL_RUN_CONFIG_FOREIGN_H
#define ACCEL_RUN_CONFIG_FOREIGN_H

#include "config.h"
#include "notes.h"

enum foreign_home { FOREIGN_LAUNCH = 1, FOREIGN_TORCHRUN = 2, FOREIGN_KEY = 4 };
enum foreign_engine {
    FOREIGN_NONE,
    FOREIGN_DEEPSPEED,
    FOREIGN_FSDP,
    FOREIGN_MEGATRON,
    FOREIGN_FP8,
    FOREIGN_DYNAMO,
    FOREIGN_PARALLELISM,
    FOREIGN_MPIRUN,
    FOREIGN_IPEX,
    FOREIGN_TP,
    FOREIGN_TPU,
    FOREIGN_SAGEMAKER,
    FOREIGN_ENGINES
};
enum foreign_type { FOREIGN_SWITCH, FOREIGN_BOOL, FOREIGN_INTEGER, FOREIGN_NUMBER, FOREIGN_WORDS, FOREIGN_LIST };
enum foreign_verdict { FOREIGN_WORKS, FOREIGN_SAME, FOREIGN_NOTICE, FOREIGN_PART, FOREIGN_REFUSED };

enum foreign_id {
#define FOREIGN(name, ...) FOREIGN_ID_##name,
#include "foreign.def"
#undef FOREIGN
    FOREIGN_ROWS
};

struct foreign_row {
    const char *name;
    char letter; /* 0: none */
    int homes;   /* enum foreign_home */
    enum foreign_engine engine;
    enum foreign_type type;
    const char *plain;
    enum foreign_verdict verdict;
    int target; /* enum config_id, or CONFIG_OPTIONS: none */
    const char *values, *words;
};
extern const struct foreign_row foreign_rows[FOREIGN_ROWS];

/* One flag or key as it was given. All borrowed. */
struct foreign_given {
    enum foreign_id id;
    bool from_file;
    uint32_t line, column; /* in the file */
    const char *value;     /* NULL: null, an empty list or dictionary: asks for nothing */
};

#define FOREIGN_GIVEN_MAX 256
struct foreign {
    struct foreign_given given[FOREIGN_GIVEN_MAX];
    uint32_t count;
};

/* Rows by spelling, or -1. A flag has no leading "--"; n is its length. */
int foreign_find_flag(const char *name, size_t n);
int foreign_find_letter(char letter);
/* Keys of a file: those at the top (engine NONE), or in the dictionary of an engine, whose prefix may be left out. */
int foreign_find_key(enum foreign_engine engine, const char *key);
/* The engine whose dictionary has this key, or FOREIGN_NONE. */
enum foreign_engine foreign_find_dictionary(const char *key);
const char *foreign_dictionary(enum foreign_engine engine); /* "" none */
/* The flag, ours or another launcher's, nearest to a misspelt one; NULL: none is near. */
const char *foreign_nearest_flag(const char *name);
/* The known key nearest to a misspelt one; NULL: none is near. */
const char *foreign_nearest_key(enum foreign_engine engine, const char *key);

/* Does the flag take a value? */
static inline bool foreign_takes_value(enum foreign_id id) {
    return foreign_rows[id].type != FOREIGN_SWITCH;
}

/* Does the value ask for nothing that is not so already? */
bool foreign_is_plain(enum foreign_id id, const char *value);

/* Checks the value and notes it; what WORKS is set in config at once, with the origin of its source. Returns 0, or -1 with the fault in words.
   `shown` is how the user spelled it. */
int foreign_give(struct foreign *foreign, const struct foreign_given *given, struct config *config, const char *shown, char *fault);

/* Says of variables of Accelerate, and of torchrun (PET_*) where has_torchruns, that nobody here reads them. */
void foreign_note_variables(char *const *environment, bool has_torchruns, struct config_notes *notes);

/* Says what the given flags and keys come to. */
void foreign_judge(const struct foreign *foreign, const struct config *config, struct config_notes *notes);

#endif
