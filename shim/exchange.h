/* The check of the exchange between ranks, for `accel-run doctor`. */
#ifndef ACCEL_SHIM_EXCHANGE_H
#define ACCEL_SHIM_EXCHANGE_H

#include "../config/protocol.h"

/* Sums known numbers over the ranks several times and compares each; logs what it took, or stops the job (AR-EXCHANGE). Comm is open. */
void exchange_run(const struct protocol_grant *grant);

#endif
