/* SPDX-License-Identifier: Apache-2.0 */
/** rung plan --model: a plan for a data set that is absent. Private to tools/plan. */
#ifndef RUNG_TOOL_PLAN_MODEL_H
#define RUNG_TOOL_PLAN_MODEL_H

#include "generate/curves.h"
#include "generate/generate.h"
#include "plan/plan_answer.h"
#include "plan/plan_machines.h"

/** Counts that replace those of the model; 0: not given. */
struct plan_counts {
	uint64_t vertices, edges; /**< edges: entries of the lists */
	uint32_t row_bytes;
	double train;      /**< share of the vertices */
	uint32_t drives;   /**< over which the rows are striped */
	const char *given; /**< the last option that was given, or NULL */
};

/** What the options say. */
struct plan_model_args {
	const struct gen_model *model;
	const struct plan_counts *counts;
	const struct plan_machines_args *machines;
	uint64_t scale; /**< N of 1/N; 0: not given, which is 1 */
	const struct tool_store_args *store;
	const struct tool_common *common;
	double compute;     /**< seconds of the model per batch; 0: not given */
	int sweep, explain; /**< sweep: compare several budgets */
	FILE *svg;          /**< NULL: no picture */
	char **argv;        /**< the command line, for the command that it suggests */
};

/** A division of the host budget. Reads are per batch, and infinite if the budget is too small. */
struct plan_model_division {
	uint64_t rows, rows_bytes, lists_bytes, cache_bytes, row_slots_bytes, list_slots_bytes;
	double row_hits, cache_hits, list_hits; /**< shares of the requests, 0 to 1 */
	double row_reads, list_reads;
};

/** The data set, its batches, and the plan. */
struct plan_model {
	const struct gen_model *model;
	const struct gen_curve *curve;
	uint64_t scale;
	uint64_t vertices, edges, entries; /**< entries: of the lists */
	int undirected;                    /**< the lists have each edge in both directions */
	uint64_t train;                    /**< vertices */
	uint32_t id_bytes;                 /**< of a vertex in lists and maps */
	uint32_t drives;                   /**< over which the rows are striped */
	enum rung_quant_format quantize;   /* rows as if they were quantized */
	uint64_t row_bytes, feature_bytes, lists_bytes;
	uint64_t offsets_bytes;   /**< of the lists, in memory */
	uint32_t batch;           /**< seeds */
	uint64_t batches;         /**< per epoch */
	double rows, blocks;      /**< per batch */
	double draws_max;         /**< per seed, which limits the rows; 0: they were measured */
	uint64_t whole_bytes;     /**< the budget that holds everything, or all that is allowed */
	uint64_t host_bytes;      /**< RUNG_BYTES_MAX: no limit */
	uint64_t structure_bytes; /**< as given; 0: to be divided */
	uint64_t cache_bytes;     /**< as given; 0: none */
	uint32_t depth, threads;  /**< of the prediction */
	struct plan_model_division division;          /**< the best one */
	double rows_saved, lists_saved, cache_saved;  /**< reads that one more MiB of each saves */
	double memory_seconds, nvme_seconds, seconds; /**< per batch */
	double list_nvme_seconds;                     /**< part of nvme_seconds */
	enum rung_bound bound;
};

/** Bytes of a block of lists, the unit in which they are read. */
#define PLAN_MODEL_BLOCK 512u

/** Counts and sizes of a model, and what the options give. */
void plan_model_init(struct plan_model *plan, const struct plan_model_args *args);

/** The smallest host budget that has room for the slots. */
uint64_t plan_model_host_min(const struct plan_model *plan);

/** Divide the budget so that a batch needs the fewest reads. */
void plan_model_divide(struct plan_model *plan);

/** Predict the times of a batch. */
void plan_model_time(struct plan_model *plan, const struct rung_profile *profile, uint32_t threads);

/** Print one budget as tables, or several in comparison; or as JSON, or as a picture.
 * @param plans  [count] ascending budgets. @return an exit code */
int plan_model_report(const char *name, const struct plan_model *plans, uint32_t count,
                      const struct plan_model_args *args);

/** Plan a model, and print it. @return an exit code */
int plan_model_run(const char *name, const struct plan_model_args *args);

#endif
