/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of several host budgets from one sample. Sampling reads the lists and costs as much as a
 * prediction; the budgets are independent of each other, so each one is planned by one thread.
 */
#include "divide/divide.h"
#include "plan/plan.h"

struct sweep {
	const struct rung_dataset *ds;
	struct rung_plan_opts opts;
	const struct rung_forecast_opts *forecast;
	const struct rung__recorded *sample;
};

static bool is_whole(const struct rung_plan *plan)
{
	return plan->slots.slot_count == 0 &&
	       (!plan->structure || plan->structure->slots.slot_count == 0);
}

/* Whether all rows and all lists fit in the budget. @return 1, 0 or a status */
static int fits(const struct sweep *sweep, const struct rung_plan_opts *opts)
{
	struct rung_plan_opts all = *opts;
	struct rung_plan *plan;
	int rc;

	all.structure_bytes = RUNG_BYTES_MAX;
	rc = rung_plan_create(sweep->ds, &all, &plan);
	if (rc < 0)
		return rc == RUNG_E_INVAL ? 0 : rc;
	rc = is_whole(plan);
	rung_plan_destroy(plan);
	return rc;
}

/* The cache of a plan whose lists were given, which is compared with a little more of each. */
static int keep_cache(const struct sweep *sweep, struct rung_plan_opts *opts)
{
	struct rung_plan *plan;
	int rc;

	if (opts->cache_share > 0 || opts->cache_bytes > 0)
		return 0;
	rc = rung_plan_create(sweep->ds, opts, &plan);
	if (rc < 0)
		return rc;
	opts->cache_bytes = plan->cache.bytes ? plan->cache.bytes : RUNG_BYTES_NONE;
	rung_plan_destroy(plan);
	return 0;
}

/* Divide the budget, and set the result in the options of the plan. */
static int divide(const struct sweep *sweep, struct rung_plan_opts *opts,
                  struct rung_plan_division *division)
{
	const bool given = opts->structure_bytes != 0;
	struct rung_plan_opts compared = *opts;
	int rc = fits(sweep, opts);

	if (rc != 0) {
		if (rc > 0 && !given)
			opts->structure_bytes = RUNG_BYTES_MAX;
		return rc < 0 ? rc : 0;
	}
	if (given)
		rc = keep_cache(sweep, &compared);
	if (rc == 0)
		rc = rung__divide_sample(sweep->ds, &compared, sweep->sample, division);
	if (rc < 0 || given)
		return rc;
	opts->host_bytes = division->host_bytes;
	opts->structure_bytes = division->structure_bytes;
	if (opts->cache_share == 0 && opts->cache_bytes == 0)
		opts->cache_bytes = division->cache_bytes;
	return 0;
}

/* Plan and predict a budget. One that is too small has no plan, which is not a failure.
 * @return 1 if it has a plan, 0 or a status */
static int plan_budget(const struct sweep *sweep, struct rung_plan_budget *budget)
{
	struct rung_plan_opts opts = sweep->opts;
	struct rung_plan *plan = NULL;
	int rc;

	opts.host_bytes = budget->host_bytes;
	budget->plan = NULL;
	budget->traffic = (struct rung_plan_traffic){ 0 };
	budget->division = (struct rung_plan_division){ .size = sizeof(budget->division) };
	rc = divide(sweep, &opts, &budget->division);
	if (rc == 0)
		rc = rung_plan_create(sweep->ds, &opts, &plan);
	if (rc == RUNG_E_INVAL && rung_last_error_min_bytes() > 0)
		return 0;
	if (rc == 0)
		rc = rung__predict_sample(plan, sweep->sample, sweep->forecast, &budget->traffic);
	if (rc < 0)
		rung_plan_destroy(plan);
	else
		budget->plan = plan;
	return rc < 0 ? rc : 1;
}

/* Whether the CPU gathers. A GPU that is not named is the current one of the calling thread, so
 * that other threads could choose a different one. */
static bool is_on_cpu(const struct rung_plan_opts *opts)
{
	struct rung_plan plan = { .device_why = "" };
	uint64_t gpu_bytes;

	return opts->device == RUNG_DEVICE_CPU ||
	       (rung__plan_choose_device(&plan, opts, &gpu_bytes) == 0 &&
	        plan.device.device == RUNG_DEVICE_CPU);
}

/* Plan each budget on a thread. A failure is repeated on the calling thread, which keeps the
 * message; so is the last budget if none has a plan. */
static int plan_budgets(const struct sweep *sweep, struct rung_plan_budget *budgets, uint32_t count)
{
	const bool parallel = is_on_cpu(&sweep->opts);
	int *found = rung__malloc_array(count, sizeof(*found)); /* results of plan_budget() */
	bool has_plan = false;
	int rc = 0;

	(void)parallel; /* without OpenMP */
	if (!found)
		return rung__fail(RUNG_E_NOMEM, "sweep: no memory for %" PRIu32 " budgets", count);
#pragma omp parallel for num_threads(rung__threads(0)) schedule(dynamic, 1) if (parallel)
	for (uint32_t i = 0; i < count; i++)
		found[i] = plan_budget(sweep, &budgets[i]); /* sets the plan to NULL if it fails */
	for (uint32_t i = 0; i < count && rc >= 0; i++) {
		rc = found[i] < 0 ? plan_budget(sweep, &budgets[i]) : found[i];
		has_plan |= rc > 0;
	}
	if (rc >= 0 && !has_plan && plan_budget(sweep, &budgets[count - 1]) <= 0)
		rc = RUNG_E_INVAL;
	for (uint32_t i = 0; i < count && rc < 0; i++) {
		rung_plan_destroy(budgets[i].plan);
		budgets[i].plan = NULL;
	}
	rung__free(found);
	return RUNG__MIN(rc, 0);
}

static int check(const struct rung_plan_budget *budgets, uint32_t count, uint64_t *most_out)
{
	uint64_t most;

	*most_out = 0;
	if (count == 0)
		return rung__fail(RUNG_E_INVAL, "sweep: no budget; give at least one");
	for (uint32_t i = 0; i < count; i++) {
		if (budgets[i].size != sizeof(budgets[i]))
			return rung__fail(RUNG_E_ABI,
			                  "rung_plan_budget: size %zu; set it to %zu for this "
			                  "version of the library",
			                  budgets[i].size, sizeof(budgets[i]));
		/* 0 is the default budget, which the options of the structure limit anyway */
		most = budgets[i].host_bytes;
		most = most == 0 ? RUNG_BYTES_MAX : most == RUNG_BYTES_NONE ? 0 : most;
		*most_out = RUNG__MAX(*most_out, most);
	}
	return 0;
}

int rung_plan_sweep(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                    const struct rung_sampler_opts *sampler, const uint64_t *seeds,
                    uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                    const struct rung_forecast_opts *forecast, struct rung_plan_budget *budgets,
                    uint32_t budget_count)
{
	struct rung__recorded sample = { .per_epoch = 0 };
	struct sweep sweep = {
		.ds = ds, .opts = RUNG_PLAN_OPTS_INIT, .forecast = forecast, .sample = &sample
	};
	uint64_t most;
	int rc = check(budgets, budget_count, &most);

	if (rc == 0)
		rc = rung__opts_copy_in(&sweep.opts, sizeof(sweep.opts), opts, "rung_plan_opts");
	if (rc == 0)
		rc = rung__sample_batches(ds, &sweep.opts, most, sampler, seeds, seed_count,
		                          batch_size, batches_max, UINT64_MAX, &sample);
	if (rc == 0)
		rc = plan_budgets(&sweep, budgets, budget_count);
	rung__sample_fini(&sample);
	return rc;
}
