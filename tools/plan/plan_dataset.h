/* SPDX-License-Identifier: Apache-2.0 */
/** rung plan DIR: plans of a staged dataset. Private to tools/plan. */
#ifndef RUNG_TOOL_PLAN_DATASET_H
#define RUNG_TOOL_PLAN_DATASET_H

#include "generate/generate.h"
#include "plan/plan_answer.h"
#include "plan/plan_machines.h"
#include "plan/plan_model.h"

struct plan_args {
	const char *dir;
	struct tool_fanouts fanouts; /**< count 0: those of the manifest */
	uint32_t batch;              /**< seeds per batch; 0: that of the manifest */
	uint64_t seed;
	const char *sampled; /**< the last option given that describes sampled batches, or NULL */
	const struct gen_model *model; /**< NULL: DIR is planned */
	uint64_t scale;                /**< N of 1/N; 0: not given */
	struct plan_counts counts;     /**< that replace those of the model */
	struct plan_machines_args machines;
	double compute; /**< seconds per batch; 0: not given */
	int sweep, explain;
	const char *svg; /**< file; NULL: not given */
	char **argv;     /**< the command line, for the command that it suggests */
	struct tool_store_args store;
	struct tool_common common;
};

/** The result, with the settings that were used once the defaults were filled in. */
struct prediction {
	struct tool_fanouts fanouts;
	uint32_t batch;
	uint64_t seed_count; /**< distinct train ranks */
	struct rung_plan_traffic traffic;
	double hits[PLAN_PREFIXES]; /**< with --machines: as in struct plan_work */
};

/** What is sampled for a prediction, and its rates. */
struct plan_sampling {
	struct rung_sampler_opts sampler; /**< its fanouts are those of the prediction */
	struct rung_forecast_opts forecast;
	struct rung_profile assumed; /**< used without --profile */
	uint64_t *seeds;             /**< free it */
};

/** Fill in what is sampled, and the settings of `out`. @return a status */
int plan_sampling_init(const struct plan_args *args, const struct tool_data *data,
                       struct plan_sampling *sampling, struct prediction *out);

/** The answer of a plan that was predicted. */
struct plan_answer plan_answer_of(const struct rung_dataset *ds, const struct rung_plan *plan,
                                  const struct rung_plan_traffic *traffic);

/** Predict the hits of the prefixes of plan_prefixes. @return a status */
int plan_prefix_hits(const struct plan_args *args, const struct tool_data *data,
                     const struct plan_sampling *sampling, struct prediction *prediction);

/** The work of a batch, for several machines. */
struct plan_work plan_work_of(const struct tool_data *data, const struct plan_args *args,
                              const struct prediction *prediction);

/** The JSON of one budget. The tiers have a hit share only after the prediction. */
json_t *plan_json(const struct tool_data *data, const struct plan_args *args,
                  const struct prediction *prediction);

/** Print one budget. */
void plan_print(const struct tool_data *data, const struct plan_args *args,
                const struct prediction *prediction);

/** Print counts of the data set and of its batches. */
void plan_print_counts(const struct rung_dataset *ds, const struct plan_args *args,
                       const struct prediction *prediction);

/** Print where the rates of the prediction are from. */
void plan_print_rates(const char *profile, uint32_t assumed);

/** Whether DIR is a dataset of several types. */
int plan_is_typed(const char *dir);

/** Divide one or several budgets among the tables of a typed dataset. @return an exit code */
int plan_typed_run(const char *name, const struct plan_args *args);

/** Plan several budgets. @param svg  NULL: no picture. @return an exit code */
int plan_sweep_run(const char *name, const struct plan_args *args, FILE *svg);

#endif
