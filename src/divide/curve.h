/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Expected accesses that memory serves, as a function of the bytes of a table, and the division of
 * a budget among several such curves. Private to this folder.
 *
 * A curve is a list of points, because a table pays for slots and a cache as well: curve.c asks the
 * plan how many rows each number of bytes holds. Accesses come from the scores, of which
 * curve_scores.c keeps only sums.
 */
#ifndef RUNG_DIVIDE_CURVE_H
#define RUNG_DIVIDE_CURVE_H

#include "plan/plan.h"

/* points of a curve: a block is this part of the budget or of the table, whichever is less */
#define RUNG__CURVE_POINTS 4096u

struct rung__curve {
	uint64_t *bytes;       /* [count] of the host budget, ascending */
	double *hits;          /* [count] accesses per batch that are served then, ascending */
	uint64_t *resident;    /* [count] bytes of the rows or lists in memory */
	uint32_t count;        /* at least one after rung__curve_begin() */
	double cost;           /* nanoseconds of an access that memory does not serve */
	double accesses;       /* per batch */
	uint64_t least, whole; /* bytes that the table needs at least, and for all of it */
};

/** A table: what a plan says about it, and its curve. */
struct rung__divided {
	const struct rung_dataset *ds;
	struct rung_plan *plan; /* with everything in memory; owned */
	/* part of `plan` for the rows or for the lists; NULL: the table has no bytes */
	struct rung_plan *part;
	struct rung_plan_opts opts; /* for `part` */
	struct rung__curve curve;
	bool is_lists;
};

/** Create the plan of a table, and find the bytes that it needs. `ds` and `is_lists` are set; free
 * it with rung__divided_fini(), also after a failure. */
int rung__divided_begin(struct rung__divided *table, const struct rung_plan_opts *opts);

/**
 * Plan `host_bytes` for the table.
 * @return 0 and the bytes of its rows or lists in memory, or RUNG_E_INVAL (less than curve.least)
 */
int rung__divided_try(struct rung__divided *table, uint64_t host_bytes, uint64_t *resident_out);

/** Compute the curve, up to `bytes_max` bytes but at least for curve.least. */
int rung__divided_curve(struct rung__divided *table, uint64_t bytes_max);

void rung__divided_fini(struct rung__divided *table);

/**
 * Read the scores of a table, and add up its expected accesses.
 * @param curve    gets `hits` for its `resident` bytes, and `accesses`
 * @param row_bytes  of a row; 0: lists
 */
int rung__curve_scores(const struct rung_dataset *ds, uint64_t row_bytes,
                       struct rung__curve *curve);

/**
 * Divide `bytes`, at least the sum of the least, so that the last byte of each table saves the same
 * time. See curve_divide.c.
 * @param curves     [count] each with at least one point
 * @param bytes_out  [count] bytes of a point of each
 * @return 0 or RUNG_E_NOMEM
 */
int rung__curves_divide(const struct rung__curve *const *curves, size_t count, uint64_t bytes,
                        uint64_t *bytes_out);

/** Accesses that `resident` bytes in memory serve, interpolated between the points. */
double rung__curve_hits(const struct rung__curve *curve, uint64_t resident);

#endif
