/* SPDX-License-Identifier: Apache-2.0 */
/* rung plan without --host: budgets from a part to all of the data set, from one sampling pass. */
#include <stdlib.h>

#include "output/json.h"
#include "plan/plan_budget.h"
#include "plan/plan_dataset.h"

/* The budget with which everything is in memory, or all that --structure allows. */
static int whole_bytes(const struct tool_data *data, const struct rung_plan_opts *opts,
                       uint64_t *whole_out)
{
	struct rung_plan_opts all = *opts;
	struct rung_plan *plan;
	int rc;

	all.host_bytes = RUNG_BYTES_MAX;
	if (all.structure_bytes == 0)
		all.structure_bytes = RUNG_BYTES_MAX;
	rc = tool_plan_create(data->ds, &all, &plan);
	if (rc < 0)
		return rc;
	*whole_out = plan_used_bytes(plan);
	rung_plan_destroy(plan);
	return 0;
}

struct sweep {
	struct tool_data data; /* without a plan */
	struct prediction prediction;
	struct rung_plan_budget budgets[PLAN_BUDGETS_MAX];
	uint32_t budget_count;
	struct plan_answers answers;
};

/* The JSON of each budget is that of --host with the same bytes. */
static json_t *budgets_json(const struct plan_args *args, const struct sweep *sweep)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < sweep->budget_count; i++) {
		struct tool_data data = sweep->data;
		struct prediction prediction = sweep->prediction;

		data.plan = sweep->budgets[i].plan;
		data.division = sweep->budgets[i].division;
		prediction.traffic = sweep->budgets[i].traffic;
		tool_json_append(array, plan_json(&data, args, &prediction));
	}
	return array;
}

static int report(const char *name, const struct plan_args *args, const struct sweep *sweep)
{
	struct prediction prediction = sweep->prediction;

	if (args->common.json)
		return tool_json_print(name, plan_answers_json(&sweep->answers,
		                                               budgets_json(args, sweep))) < 0
		               ? TOOL_FAILED
		               : TOOL_DONE;
	prediction.traffic = sweep->budgets[0].traffic;
	plan_print_counts(sweep->data.ds, args, &prediction);
	plan_answers_print(&sweep->answers, args->argv);
	plan_print_rates(args->store.profile, prediction.traffic.forecast.assumed);
	return TOOL_DONE;
}

/* Open the data set, and plan and predict all budgets. @return a status */
static int plan_all(const char *name, const struct plan_args *args, struct sweep *sweep)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct plan_sampling sampling = { .seeds = NULL };
	struct tool_data *data = &sweep->data;
	uint64_t bytes[PLAN_BUDGETS_MAX], feature_bytes;
	uint32_t count;
	int rc = rung_dataset_open(args->dir, &data->ds);

	if (rc == 0 && args->store.profile)
		rc = tool_profile_load(args->store.profile, &data->profile);
	if (rc < 0)
		return rc;
	feature_bytes = rung_dataset_info(data->ds)->feature_bytes;
	tool_plan_opts(&args->store, feature_bytes, &opts);
	opts.profile = data->profile;
	opts.structure_bytes = tool_structure_bytes(&args->store, data->ds);
	sweep->answers.compute = args->compute;
	sweep->answers.given_bytes = opts.host_bytes;
	opts.host_bytes = 0; /* the lists are sampled within the default */
	rc = whole_bytes(data, &opts, &sweep->answers.whole_bytes);
	if (rc == 0)
		rc = plan_sampling_init(args, data, &sampling, &sweep->prediction);
	if (rc < 0)
		return rc;
	count = plan_budgets(&sweep->answers, bytes);
	for (uint32_t i = 0; i < count; i++)
		sweep->budgets[i] = (struct rung_plan_budget){ .size = sizeof(sweep->budgets[i]),
			                                       .host_bytes = bytes[i] };
	rc = rung_plan_sweep(data->ds, &opts, &sampling.sampler, sampling.seeds,
	                     sweep->prediction.seed_count, sweep->prediction.batch, 0,
	                     &sampling.forecast, sweep->budgets, count);
	free(sampling.seeds);
	/* budgets that are too small have no plan */
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (sweep->budgets[i].plan)
			sweep->budgets[sweep->budget_count++] = sweep->budgets[i];
	}
	if (rc == 0)
		tool_report_device(name, rung_plan_device(sweep->budgets[0].plan));
	return rc;
}

int plan_sweep_run(const char *name, const struct plan_args *args, FILE *svg)
{
	struct sweep *sweep = calloc(1, sizeof(*sweep));
	int rc = sweep ? plan_all(name, args, sweep) : RUNG_E_NOMEM, code;

	if (rc < 0) {
		code = tool_fail(name, rc);
		goto close_data;
	}
	for (uint32_t i = 0; i < sweep->budget_count; i++)
		sweep->answers.answer[i] = plan_answer_of(sweep->data.ds, sweep->budgets[i].plan,
		                                          &sweep->budgets[i].traffic);
	sweep->answers.count = sweep->budget_count;
	if (svg)
		plan_answers_svg(&sweep->answers, args->dir, svg);
	code = report(name, args, sweep);
	for (uint32_t i = 0; i < sweep->budget_count; i++)
		rung_plan_destroy(sweep->budgets[i].plan);
close_data:
	if (sweep)
		tool_close(&sweep->data);
	free(sweep);
	return code;
}
