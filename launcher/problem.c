#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

int problem_set(struct problem *problem, int exit_code, const char *id, const char *cure, const char *what, ...) {
    va_list list;
    problem->exit_code = exit_code;
    snprintf(problem->id, sizeof problem->id, "%s", id);
    snprintf(problem->cure, sizeof problem->cure, "%s", cure);
    va_start(list, what);
    vsnprintf(problem->what, sizeof problem->what, what, list);
    va_end(list);
    return -1;
}
