/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of a trace. Private to trace*.c. */
#ifndef RUNG_TRACE_STATE_H
#define RUNG_TRACE_STATE_H

#include "base/base.h"
#include "rung/trace.h"

struct rung_trace {
	struct rung_trace_opts opts; /* with the defaults filled in */
	uint64_t *counts;            /* [vertex_count] */
	uint64_t requests;
	unsigned id_bytes; /* of kept rows, and of times: 4 while all of both fit */
	void *kept;        /* [kept_count] rows in order */
	uint64_t kept_count;
	uint64_t kept_capacity;
};

/** Sizes ascend and none is above the number of rows. @return 0 or RUNG_E_INVAL */
int rung__trace_check_sizes(const struct rung_trace *trace, const uint64_t *sizes,
                            uint32_t size_count);

#endif
