/*
 * `accel-run doctor [program]`: will it work here? Each check adds findings; nothing of the program is run.
 */
#ifndef ACCEL_RUN_DOCTOR_H
#define ACCEL_RUN_DOCTOR_H

#include "command.h"
#include "findings.h"
#include "../program/preflight.h"
#include "rows.h"
#include "torch_find.h"

struct doctor {
    char *const *environment; /* borrowed */
    char *const *program;     /* borrowed: name and arguments; NULL: none was named */
    struct findings findings;
    struct target target; /* of the program, or of accel-run itself */
    bool can_start;       /* preflight has found nothing against the program */
    struct torch_find torch;
    bool has_torch;
    struct rows rows;
};

/* doctor_program.c: the file, its loader, its libraries, its interpreter. */
void doctor_program(struct doctor *doctor);

/* doctor_torch.c: the libtorch that was found, and the hook table against it. */
void doctor_torch(struct doctor *doctor);

/* doctor_machine.c: cores, memory, limits, devices. */
void doctor_machine(struct doctor *doctor);

/* doctor_ranks.c: two processes exchange numbers through the real launcher. */
void doctor_ranks(struct doctor *doctor);

#endif
