/*
 * What accel-run says of its own accord at the beginning and at the end of a run.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cores.h"
#include "job.h"
#include "verdict.h"

void report_before(struct job *job) {
    const struct plan *plan = job->plan;
    char name[64], list[1024] = "";
    const char *nearest = "";
    if (job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    if (config_unknown_variable(job->environment, name, &nearest))
        notices_say(&job->notices, "warning AR-ENV-UNKNOWN: nobody reads the variable %s; did you mean %s?", name, nearest);
    for (uint32_t i = 0; i < plan->removed_count && strlen(list) < sizeof list - 100; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", i ? ", " : "", strtok(strdupa(plan->removed[i]), "="));
    if (plan->removed_count)
        notices_say(&job->notices, "warning AR-ENV-REMOVED: another launcher's variables are kept from the ranks: %s", list);
    if (plan->ranks > plan->cores)
        notices_say(&job->notices, "warning AR-CORES: %u ranks share %u core%s: they will wait for each other", plan->ranks, plan->cores,
                    plan->cores > 1 ? "s" : "");
}

int report_end(struct job *job) {
    struct verdict verdict;
    char tail[STREAMS_TAIL_BYTES];
    struct verdict_facts facts = {job->ranks,
                                  job->world_size,
                                  job->plan->arguments[0],
                                  job->first_failed,
                                  &job->problem,
                                  job->user_signal,
                                  cores_oom_kills("") > job->oom_kills,
                                  job->failed_where};
    verdict_find(&facts, &verdict);
    if (verdict.is_silent || (!verdict.exit_code && job->config->log_level < CONFIG_LEVEL_WARN))
        return verdict.exit_code;
    if (verdict.show_tail) {
        streams_tail(&job->streams, (uint32_t)job->first_failed, "    ", 10, tail, sizeof tail);
        if (*tail)
            notices_say(&job->notices, "last lines of rank %d:\n%s", job->first_failed, tail);
    }
    notices_problem(&job->notices, verdict.exit_code ? "error" : "warning", &verdict.report);
    return verdict.exit_code;
}
