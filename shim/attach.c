#include "attach.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

/* Its number is in the job's name. */
static bool is_started_by_launcher(void) {
    int launcher = 0;
    const char *job = shim_job_name();
    return job && sscanf(job, "accel-run-%d-", &launcher) == 1 && launcher == getppid();
}

bool attach_may(void) {
    int saved_errno = errno;
    bool may = !shim_has_hosts() && is_started_by_launcher() && shim_is_python();
    errno = saved_errno;
    return may;
}
