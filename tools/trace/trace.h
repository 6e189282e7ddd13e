/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of rung trace: sampling the epochs, the curves, the report, the chart. */
#ifndef RUNG_TOOL_TRACE_H
#define RUNG_TOOL_TRACE_H

#include "output/out_file.h"
#include "tool.h"

#define TRACE_METHODS_MAX 8u  /* more than there are methods */
#define TRACE_TIERS_MAX   8u  /* more than a plan has */
#define TRACE_SHARES      18u /* points of a curve */
/* methods, staged, oracle, LRU, Belady */
#define TRACE_CURVES_MAX (TRACE_METHODS_MAX + 4)

struct trace_args {
	const char *dir;
	struct tool_fanouts fanouts; /* count 0: those of the manifest */
	uint32_t batch;              /* seeds per batch; 0: that of the manifest */
	uint32_t epochs;
	uint64_t seed; /* of the shuffles and of the sampler */
	enum rung_draws draws;
	enum rung_score_method methods[TRACE_METHODS_MAX]; /* [method_count], each once */
	uint32_t method_count;
	uint64_t kept_max; /* requests for LRU and Belady; 0: the library's default */
	const char *svg;   /* files to write; NULL: not */
	const char *out;
	struct tool_store_args store;
	struct tool_common common;
};

/** Input of sampling and scores: the relabelled graph, whose vertices are ranks, and its train
 * ranks. */
struct trace_input {
	const struct rung_dataset *ds;
	struct rung_plan *plan;   /* its hit shares are updated if they are predicted by sampling */
	struct tool_lists lists;  /* of the graph */
	struct rung_edges *edges; /* for scores, if the graph is not in memory */
	uint64_t *seeds;          /* [seed_count] distinct train ranks */
	uint64_t seed_count;
	struct tool_fanouts fanouts; /* as given, otherwise those of the manifest */
	uint32_t batch;
	struct tool_progress *progress;
};

struct trace_tier {
	const char *name;
	uint64_t rows;
	uint64_t hits;              /* requests for rows of the tier */
	double predicted_hit_share; /* 0 to 1 */
};

/** Static: the hottest rows by a score known in advance; oracle: by the counts of the trace itself;
 * dynamic: a cache, whose content changes. */
enum trace_kind { TRACE_STATIC, TRACE_ORACLE, TRACE_DYNAMIC };

struct trace_curve {
	const char *name;
	enum trace_kind kind;
	double hit_share[TRACE_SHARES]; /* 0 to 1, with trace_shares of the rows resident */
};

struct trace_result {
	uint64_t batches;
	uint64_t edges;    /* sampled */
	double seconds;    /* of sampling */
	int lists_in_file; /* nonzero: some lists are in the file; the reads while sampling: */
	uint64_t list_reads, list_read_bytes;
	uint64_t requests;    /* rows of all batches; a row counts once per batch */
	uint64_t unique_rows; /* rows requested at least once */
	struct trace_tier tiers[TRACE_TIERS_MAX];
	unsigned tier_count;
	const char *predicted_by;     /* "score" or "sampled batches" */
	uint64_t sizes[TRACE_SHARES]; /* trace_shares in rows */
	struct trace_curve curves[TRACE_CURVES_MAX];
	uint32_t curve_count;
	uint64_t kept;         /* requests for LRU and Belady, the first ones to warm up */
	uint64_t counted_from; /* warm-up requests: hits count from this one on */
};

/** Shares of the rows, 0 to 1, ascending. */
extern const double trace_shares[TRACE_SHARES];

/** Sample the epochs into a trace. @return a status, the failure printed */
int trace_sample(const char *name, const struct trace_args *args, const struct trace_input *input,
                 struct rung_trace *trace, struct trace_result *result);

/** Count the hits of each tier of the plan, and predict them. @return a status */
int trace_count_tiers(const struct trace_args *args, const struct trace_input *input,
                      const struct rung_trace *trace, struct trace_result *result);

/** Compute all curves. @return a status */
int trace_add_curves(const struct trace_args *args, const struct trace_input *input,
                     const struct rung_trace *trace, struct trace_result *result);

/** Write the number of requests of each vertex: u64 by original id. @return an exit code */
int trace_write_counts(const char *name, const struct rung_dataset *ds,
                       const struct rung_trace *trace, struct tool_out *out);

/** Draw the curves. A failed write is reported when the file is committed. */
void trace_write_svg(const struct trace_args *args, const struct trace_input *input,
                     const struct trace_result *result, FILE *out);

/** Print the result as tables or JSON. @return an exit code */
int trace_report(const char *name, const struct trace_args *args, const struct trace_input *input,
                 const struct trace_result *result);

#endif
