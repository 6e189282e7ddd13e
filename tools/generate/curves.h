/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Hit curves of the models, measured on scale models: which share of the requests the first rows
 * and the first neighbour lists serve. They depend on the density of a batch in the graph, so the
 * batch is that of the original times the scale. bench/generator/model_curves.py measures them.
 */
#ifndef RUNG_TOOL_GENERATE_CURVES_H
#define RUNG_TOOL_GENERATE_CURVES_H

#include <stdint.h>

#define GEN_CURVE_POINTS 11u

/** The first `share` of the rows, or of the bytes of the lists, is in memory. */
struct gen_curve_point {
	double share;      /**< 0 to 1, ascending over the points */
	double rows;       /**< share of the requests for rows that they serve */
	double row_reads;  /**< reads per row of the others, after merging */
	double lists;      /**< share of the requests for blocks of lists */
	double list_reads; /**< reads per block of the others */
};

struct gen_curve {
	const char *model;
	uint32_t scale;         /**< N of 1/N */
	uint32_t batch;         /**< seeds */
	double rows_per_seed;   /**< distinct rows of a batch, per seed */
	double blocks_per_seed; /**< blocks of lists from which a batch draws, per seed */
	struct gen_curve_point points[GEN_CURVE_POINTS];
};

/** The curve of a model; NULL: unknown. */
const struct gen_curve *gen_curve_find(const char *model);

/** Values at any share, interpolated in the logarithm of the share. A share of 0 serves nothing,
 * and a share of 1 everything. */
struct gen_curve_point gen_curve_at(const struct gen_curve *curve, double share);

#endif
