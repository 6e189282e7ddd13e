/* SPDX-License-Identifier: Apache-2.0 */
/** What a host budget gives, and a comparison of several budgets. Private to tools/plan. */
#ifndef RUNG_TOOL_PLAN_ANSWER_H
#define RUNG_TOOL_PLAN_ANSWER_H

#include <jansson.h>

#include "tool.h"

#define PLAN_TIERS_MAX   4
#define PLAN_BUDGETS_MAX 8    /* rows of the table */
#define PLAN_IDLE_MAX    0.05 /* of a trainer that a budget is enough for */
#define PLAN_KNEE_MIN    0.10 /* least distance of a knee below the line, of the whole range */
#define PLAN_NONE        UINT32_MAX

/** The prediction for one budget. Seconds are per batch. */
struct plan_answer {
	uint64_t host_bytes; /**< the budget; RUNG_BYTES_MAX: no limit */
	uint64_t rows;       /**< of the data set */
	struct plan_answer_tier {
		const char *name; /**< "gpu", "peer", "host", "nvme" */
		uint64_t rows, bytes;
		double share;    /**< of the requests, 0 to 1 */
	} tiers[PLAN_TIERS_MAX]; /**< fastest first; the last one is in files */
	uint32_t tier_count;
	double cache_share; /**< of the requests, served by the cold-row cache */
	double read_bytes;  /**< that the drive reads per epoch */
	uint64_t batches;   /**< per epoch */
	double seconds, memory_seconds;
	double nvme_seconds;      /**< of rows and lists */
	double list_nvme_seconds; /**< of lists */
	double gpu_seconds;       /**< of the slowest memory that a GPU reads; 0 on the CPU */
	uint32_t drives;          /**< that hold the rows */
	enum rung_bound bound;
};

/** Budgets in ascending order. */
struct plan_answers {
	struct plan_answer answer[PLAN_BUDGETS_MAX];
	uint32_t count;
	uint64_t whole_bytes; /**< the budget that holds everything */
	uint64_t given_bytes; /**< of --host; 0: not given */
	double compute;       /**< seconds of the model per batch; 0: not given */
};

/** Share of the requests that memory serves, the cache included. */
double plan_served(const struct plan_answer *answer);

/** Share of the time in which a trainer waits for rows, 0 to 1. @param compute  above 0 */
double plan_idle(const struct plan_answer *answer, double compute);

/** Seconds per batch with one more drive of the same rates, over which the rows are striped. The
 * lists stay on one drive. */
double plan_more_drives(const struct plan_answer *answer);

/**
 * The knee: the budget whose time is farthest below the straight line from the smallest budget to
 * the largest, both axes scaled to 0 .. 1 (Satopaa et al., "Finding a Kneedle in a Haystack",
 * 2011). PLAN_NONE if that distance is below PLAN_KNEE_MIN.
 */
uint32_t plan_knee(const struct plan_answers *answers);

/** The recommended budget: with --compute the smallest with little idle time (PLAN_NONE: none),
 * otherwise the knee, or without a knee the largest. */
uint32_t plan_enough(const struct plan_answers *answers);

/** Seconds per epoch that one more byte saves between a budget and the next; 0 for the last. */
double plan_saved_per_byte(const struct plan_answers *answers, uint32_t i);

/** Shares of `whole_bytes` as budgets with three digits, and `given_bytes`; ascending.
 * @return their number */
uint32_t plan_budgets(const struct plan_answers *answers, uint64_t budgets[PLAN_BUDGETS_MAX]);

/** Print the table of the budgets, and the advice. @param argv  the command line */
void plan_answers_print(const struct plan_answers *answers, char *const *argv);

/** Print the tiers, one line of prediction, and the idle share of --compute. */
void plan_answer_print(const struct plan_answer *answer, double compute);

/** Set the keys that a budget has in addition to those of its plan. */
void plan_answer_json(const struct plan_answer *answer, double compute, json_t *root);

/** {"whole_bytes", "knee_host_bytes", "advice", "budgets"}
 * @param budgets  an array; it belongs to the result */
json_t *plan_answers_json(const struct plan_answers *answers, json_t *budgets);

/** Draw the tiers, and the times of a batch. */
void plan_answer_svg(const struct plan_answer *answer, double compute, const char *name, FILE *out);

/** Draw the time of an epoch over the budget. */
void plan_answers_svg(const struct plan_answers *answers, const char *name, FILE *out);

#endif
