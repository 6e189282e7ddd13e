/* SPDX-License-Identifier: Apache-2.0 */
/** Internals of a trace. Private to trace*.c. */
#ifndef RUNG_TRACE_STATE_H
#define RUNG_TRACE_STATE_H

#include "base/base.h"
#include "rung/trace.h"

struct rung_trace {
	struct rung_trace_opts opts; /* with the defaults filled in */
	uint64_t *counts;            /* [vertex_count] requests of each row, kept or not */
	uint64_t requests;           /* total */
	/* bytes of a kept row or a time: 4 if all of them fit, else 8 */
	unsigned id_bytes;
	void *kept;          /* [kept_count] rows in the order of the requests */
	uint64_t kept_count; /* number of kept rows, at most opts.kept_max */
	uint64_t kept_capacity;
};

/** Check that sizes ascend and none is above the number of rows. @return 0 or RUNG_E_INVAL */
int rung__trace_check_sizes(const struct rung_trace *trace, const uint64_t *sizes,
                            uint32_t size_count);

#endif
