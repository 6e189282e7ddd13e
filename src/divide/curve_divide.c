/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dividing bytes among curves. Each curve is replaced by its upper concave hull, and the steps of
 * all hulls are taken in the order of the time that a byte saves: expected accesses times the cost
 * of a miss. For concave curves that is the best division, up to a block.
 *
 * A step of a hull can be long where a curve is not concave: scores in the order of edges, or the
 * slots that a complete table does not need. If such a step no longer fits, the hull of its table
 * is built again from the points that still fit. So no table is left out because of a point that it
 * cannot reach, and the order of the steps stays that of the time that they save.
 */
#include "divide/curve.h"

struct front {
	const struct rung__curve *curve;
	uint32_t *hull; /* [hull_count] points of the curve, ascending; [0] is the present one */
	uint32_t hull_count, at;
};

/* Time saved per byte from point `from` to the later point `to`. */
static double slope(const struct rung__curve *curve, uint32_t from, uint32_t to)
{
	return curve->cost * (curve->hits[to] - curve->hits[from]) /
	       (double)(curve->bytes[to] - curve->bytes[from]);
}

/* Build the hull from the present point, of the points that need at most `left` bytes more. */
static void build_hull(struct front *front, uint64_t left)
{
	const struct rung__curve *curve = front->curve;
	uint32_t *hull = front->hull, count = 1, first = hull[front->at];

	hull[0] = first;
	for (uint32_t point = first + 1;
	     point < curve->count && curve->bytes[point] - curve->bytes[first] <= left; point++) {
		while (count > 1 && slope(curve, hull[count - 2], hull[count - 1]) <=
		                            slope(curve, hull[count - 1], point))
			count--;
		hull[count++] = point;
	}
	front->hull_count = count;
	front->at = 0;
}

/* The front whose next step saves most per byte; NULL: no front has another step. */
static struct front *steepest(struct front *fronts, size_t count)
{
	struct front *best = NULL;
	double most = 0;

	for (size_t i = 0; i < count; i++) {
		const struct front *front = &fronts[i];
		double now;

		if (front->at + 1 >= front->hull_count)
			continue;
		now = slope(front->curve, front->hull[front->at], front->hull[front->at + 1]);
		if (!best || now > most) {
			best = &fronts[i];
			most = now;
		}
	}
	return best;
}

static void divide(struct front *fronts, size_t count, uint64_t left)
{
	for (struct front *front; (front = steepest(fronts, count)) != NULL;) {
		const uint64_t *bytes = front->curve->bytes;
		const uint64_t step =
			bytes[front->hull[front->at + 1]] - bytes[front->hull[front->at]];

		if (step <= left) {
			left -= step;
			front->at++;
		} else {
			build_hull(front, left);
		}
	}
}

int rung__curves_divide(const struct rung__curve *const *curves, size_t count, uint64_t bytes,
                        uint64_t *bytes_out)
{
	struct front *fronts = rung__malloc_array(count, sizeof(*fronts));
	uint32_t *hulls = rung__malloc_array(count, RUNG__CURVE_POINTS * sizeof(*hulls));
	int rc = fronts && hulls ? 0 : rung__fail(RUNG_E_NOMEM, "plan: out of memory");

	for (size_t i = 0; i < count && rc == 0; i++) {
		fronts[i] = (struct front){ curves[i], hulls + i * RUNG__CURVE_POINTS, 1, 0 };
		fronts[i].hull[0] = 0;
		bytes -= curves[i]->bytes[0];
	}
	for (size_t i = 0; i < count && rc == 0; i++)
		build_hull(&fronts[i], bytes);
	if (rc == 0)
		divide(fronts, count, bytes);
	for (size_t i = 0; i < count && rc == 0; i++)
		bytes_out[i] = curves[i]->bytes[fronts[i].hull[fronts[i].at]];
	rung__free(hulls);
	rung__free(fronts);
	return rc;
}
