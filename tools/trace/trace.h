/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of rung trace: sampling the epochs, the curves, the report, the chart. */
#ifndef RUNG_TOOL_TRACE_H
#define RUNG_TOOL_TRACE_H

#include "output/out_file.h"
#include "tool.h"

#define TRACE_METHODS_MAX 8u
#define TRACE_TIERS_MAX   8u
#define TRACE_SHARES      18u
/* staged, oracle, LRU, Belady */
#define TRACE_CURVES_MAX (TRACE_METHODS_MAX + 4)

struct trace_args {
	const char *dir;
	struct tool_fanouts fanouts;
	uint32_t batch; /* 0: that of the manifest */
	uint32_t epochs;
	uint64_t seed;
	enum rung_draws draws;
	enum rung_score_method methods[TRACE_METHODS_MAX];
	uint32_t method_count;
	uint64_t kept_max; /* requests for LRU and Belady; 0: the library's default */
	const char *svg;
	const char *out;
	struct tool_store_args store;
	struct tool_common common;
};

/** Input of sampling: the relabelled graph and its train ranks. */
struct trace_input {
	const struct rung_dataset *ds;
	struct rung_plan *plan;
	struct rung_graph *graph;
	uint64_t *seeds;
	uint64_t seed_count;
	struct tool_fanouts fanouts;
	uint32_t batch;
	struct tool_progress *progress;
};

struct trace_tier {
	const char *name;
	uint64_t rows;
	uint64_t hits;
	double predicted_hit_share;
};

enum trace_kind { TRACE_STATIC, TRACE_ORACLE, TRACE_DYNAMIC };

struct trace_curve {
	const char *name;
	enum trace_kind kind;
	double hit_share[TRACE_SHARES];
};

struct trace_result {
	uint64_t batches;
	uint64_t edges;
	double seconds; /* of sampling */
	uint64_t requests;
	uint64_t unique_rows;
	struct trace_tier tiers[TRACE_TIERS_MAX];
	unsigned tier_count;
	const char *predicted_by;     /* "score" or "sampled batches" */
	uint64_t sizes[TRACE_SHARES]; /* rows */
	struct trace_curve curves[TRACE_CURVES_MAX];
	uint32_t curve_count;
	uint64_t kept; /* requests that LRU and Belady saw, the first of them to warm up */
	uint64_t counted_from;
};

/** Shares of the rows, 0 to 1, ascending. */
extern const double trace_shares[TRACE_SHARES];

/** Sample the epochs into a trace. @return a status, its sentence printed unless it is the
 * library's */
int trace_sample(const char *name, const struct trace_args *args, const struct trace_input *input,
                 struct rung_trace *trace, struct trace_result *result);

/** Hits of each tier of the plan, and the predicted hits. @return a status */
int trace_count_tiers(const struct trace_args *args, const struct trace_input *input,
                      const struct rung_trace *trace, struct trace_result *result);

/** All curves. @return a status */
int trace_make_curves(const struct trace_args *args, const struct trace_input *input,
                      const struct rung_trace *trace, struct trace_result *result);

/** counts.npy: u64 by vertex id. @return an exit code */
int trace_write_counts(const char *name, const struct rung_dataset *ds,
                       const struct rung_trace *trace, struct tool_out *out);

void trace_write_svg(const struct trace_args *args, const struct trace_input *input,
                     const struct trace_result *result, FILE *out);

/** Print what came of it. @return an exit code */
int trace_report(const char *name, const struct trace_args *args, const struct trace_input *input,
                 const struct trace_result *result);

#endif
