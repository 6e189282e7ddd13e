/* SPDX-License-Identifier: Apache-2.0 */
/** rung_plan_forecast() of batches in one array: batch i is ranks[starts[i] .. starts[i + 1]). */
#ifndef SUPPORT_FORECAST_LISTS_H
#define SUPPORT_FORECAST_LISTS_H

#include "rung/plan.h"

struct forecast_lists {
	const uint64_t *ranks, *starts;
	uint64_t batch_idx, batch_count;
};

static inline int forecast_lists_next(void *ctx, const uint64_t **ranks_out, uint64_t *count_out)
{
	struct forecast_lists *lists = ctx;
	const uint64_t *start = &lists->starts[lists->batch_idx];

	if (lists->batch_idx == lists->batch_count)
		return 0;
	*ranks_out = lists->ranks + start[0];
	*count_out = start[1] - start[0];
	lists->batch_idx++;
	return 1;
}

static inline int forecast_lists(struct rung_plan *plan, const struct rung_forecast_opts *opts,
                                 const uint64_t *ranks, const uint64_t *starts,
                                 uint64_t batch_count, struct rung_forecast *forecast_out)
{
	struct forecast_lists lists = { ranks, starts, 0, batch_count };

	return rung_plan_forecast(plan, opts, forecast_lists_next, &lists, forecast_out);
}

#endif
