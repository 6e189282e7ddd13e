/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expected access: the probability that a batch requests a row, from the graph, the fanouts and the
 * train vertices alone. One pass over the edges per hop; nothing is sampled. docs/SCORES.md has the
 * derivation.
 *
 *   P_t(v)    v is in the batch after t hops. P_0 = 1 / batches of an epoch for train vertices,
 *             else 0.
 *   q_t(v)    v draws a given one of its in-neighbours at hop t: min(1, fanout[t] / in_degree(v))
 *   a(v,u)    v has drawn u by hop l. Hop by hop, a = 0 at first:
 *             P'   = P_t(v); for a mutual edge (P_t(v) - a(u,v)) / (1 - a(u,v)), which excludes
 *                    the cases in which v is present because of u; of the part above P_0(v)
 *                    only 1 - o(v,u) q_t(v)^(1/4), which excludes v brought by vertices that
 *                    draw u as well
 *             all draw again:       a += max(0, P' - a) * q_t(v)
 *             only new ones draw:   a += max(0, P' - P' of the hop before) * q_t(v)
 *   S_l+1(u)  = -log(1 - P_0(u)) - sum over v with u in in(v) of log(1 - a(v,u))
 *   P_l+1     = 1 - exp(-S_l+1);   score = S of the last hop
 *   o(v,u)    share of the vertices with v in their lists that have u as well, estimated from
 *             signatures (minhash.h)
 *
 * Probabilities near 0 and near 1 both matter: the first because most rows have them, the second
 * because sums of -log(1 - a) order the hottest rows. Therefore a and P are computed together with
 * their complements A and M, each separately, and the smaller of the two is stored, as a float.
 *
 * Special cases: a self loop draws no new vertex, but counts in in_degree; so does each of several
 * parallel edges. A row that is certainly in every batch has score +inf.
 *
 * Memory: 4 bytes per vertex for each hop, 4 for its in_degree, 4 for its signature, in addition to
 * the score and the sums (8). While the signatures are computed, in the pass of the first hop,
 * arrays that are still unused hold their minima and counts.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "propagation/minhash.h"
#include "score/state.h"

#define LANES 32u /* edges at a time: several vectors of any instruction set */

struct expected {
	const struct rung__scoring *scoring;
	uint32_t hop;                  /* the hop of the current pass */
	float fanouts[RUNG_HOPS_MAX];  /* FLT_MAX: all neighbours */
	float *present[RUNG_HOPS_MAX]; /* [vertex_count] P_t, packed; valid up to the current hop */
	/* [vertex_count] number of in-edges; INFINITY instead of 0, so that q is 0 */
	float *in_degree;
	/* [vertex_count] signatures of the sets of vertices that have the vertex in their lists;
	 * NULL: not used */
	uint32_t *signatures;
	/* [vertex_count] lower and upper half of the minima of these sets, until the signatures are
	 * computed */
	uint32_t *minima[2];
	/* [vertex_count] sizes of these sets (exact up to 2^24), until the signatures are
	 * computed */
	float *drawers;
	double seed_score; /* -log(1 - P_0) of a train vertex */
};

/* Store P as a number in [0, 0.5), or 1 - P with a negative sign, including -0: the smaller one has
 * the full precision of a float. */
static float pack(double score)
{
	const double p = -expm1(-score);

	return p < 0.5 ? (float)p : -(float)exp(-score);
}

static inline bool is_complement(float packed)
{
	uint32_t bits;

	memcpy(&bits, &packed, sizeof(bits));
	return bits >> 31;
}

/* The probability that v has drawn u, and its complement. Defined twice: in double for vertices, in
 * float for edges. */
#define DEFINE_DRAWN(name, real)                                                                   \
	struct name {                                                                              \
		real a, A;                                                                         \
		real before, Before; /* P' of the hop before and its complement */                 \
	};                                                                                         \
	static inline void name##_hop(struct name *d, real p, real M, real q, bool only_new)       \
	{                                                                                          \
		if (only_new) {                                                                    \
			const real more = p > d->before ? p : d->before,                           \
				   Less = M < d->Before ? M : d->Before;                           \
                                                                                                   \
			d->a += (more - d->before) * q;                                            \
			d->A = (d->A - q * d->Before) +                                            \
			       q * Less; /* exact if q is 1 and A equals Before */                 \
			d->before = more;                                                          \
			d->Before = Less;                                                          \
		} else {                                                                           \
			d->a = p > d->a ? d->a * (1 - q) + p * q : d->a;                           \
			d->A = M < d->A ? d->A * (1 - q) + M * q : d->A;                           \
		}                                                                                  \
	}

DEFINE_DRAWN(drawn_double, double)
DEFINE_DRAWN(drawn_float, float)

/* -log(1 - a), computed from the smaller of a and A. */
static double minus_log(double a, double A)
{
	return a < 0.5 ? -log1p(-a) : -log(A);
}

/* The value that v sends to a u to which it has no special relation: the same for each u. */
static float give(const struct expected *ex, uint64_t v, float in_degree)
{
	const bool only_new = ex->scoring->opts->draws == RUNG_DRAWS_NEW;
	struct drawn_double d = { .A = 1, .Before = 1 };

	for (uint32_t t = 0; t <= ex->hop; t++) {
		const float packed = ex->present[t][v];
		const double stored = fabs((double)packed);
		const double p = is_complement(packed) ? 1 - stored : stored,
			     M = is_complement(packed) ? stored : 1 - stored;

		drawn_double_hop(&d, p, M, fmin(1, (double)ex->fanouts[t] / (double)in_degree),
		                 only_new);
	}
	return d.a > 0 ? (float)minus_log(d.a, d.A) : 0;
}

static void send(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr, float *messages)
{
	const struct expected *ex = ctx;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t degree = indptr[i + 1] - indptr[i];
		const float in_degree = degree ? (float)degree : INFINITY;

		if (ex->hop == 0)
			ex->in_degree[first + i] = in_degree;
		messages[i] = degree ? give(ex, first + i, in_degree) : 0;
	}
}

/* add() of the first hop: sums the values, and computes minima and sizes of the sets of vertices
 * that can draw u. */
static void add_and_sign(void *ctx, const struct rung__propagation_tile *tile, double *sums)
{
	const struct expected *ex = ctx;
	uint32_t *low = ex->minima[0] + tile->u_first, *high = ex->minima[1] + tile->u_first;
	float *drawers = ex->drawers + tile->u_first;

	for (uint64_t i = 0; i < tile->count; i++) {
		const uint16_t u = tile->u[i];
		const uint64_t least = (uint64_t)high[u] << 32 | low[u];
		const uint64_t minima =
			rung__minhash_min(least, rung__minhash_of(tile->v_first + tile->v[i]));

		low[u] = (uint32_t)minima;
		high[u] = (uint32_t)(minima >> 32);
		drawers[u] += 1;
		sums[u] += (double)tile->values[i];
	}
}

/* Floats of a record, as send_records() writes it. */
static uint32_t record_width(const struct expected *ex)
{
	return ex->hop + 2 + (ex->signatures ? 1 : 0);
}

/* A record has P_0 .. P_hop packed, in_degree, and the signature if signatures are used. */
static void send_records(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
                         float *records)
{
	const struct expected *ex = ctx;
	const uint32_t width = record_width(ex);

	(void)indptr;
	for (uint64_t i = 0; i < count; i++, records += width) {
		for (uint32_t t = 0; t <= ex->hop; t++)
			records[t] = ex->present[t][first + i];
		records[ex->hop + 1] = ex->in_degree[first + i];
		if (ex->signatures)
			memcpy(&records[ex->hop + 2], &ex->signatures[first + i], sizeof(*records));
	}
}

/* Natural logarithm of a positive float to 1e-7, branch-free: m * 2^e with m around 1, and the
 * series of atanh((m - 1) / (m + 1)). */
static inline float log_of(float x)
{
	int32_t bits, exponent;
	float m, s, s2;

	memcpy(&bits, &x, sizeof(bits));
	exponent = (bits - 0x3f3504f3) >> 23; /* m in [sqrt(1/2), sqrt(2)) */
	bits -= exponent * (1 << 23);
	memcpy(&m, &bits, sizeof(m));
	s = (m - 1) / (m + 1);
	s2 = s * s;
	return (float)exponent * 0.693147180559945f +
	       2 * s *
	               (1 + s2 * (0.333333333f +
	                          s2 * (0.2f + s2 * (0.142857143f + s2 * 0.111111111f))));
}

/* -log(1 - a). For small a the rounding error of 1 - a is corrected (Kahan). */
static inline float minus_log_float(float a, float A)
{
	const float rest = a < 0.5f ? 1 - a : A;
	const float lost = 1 - rest; /* exact in the range in which it is used */
	const float value = -log_of(rest < FLT_MIN ? FLT_MIN : rest);
	const float small = lost > 0 ? value * (a / lost) : a;

	return a < 0.5f ? small : rest > 0 ? value : INFINITY;
}

struct lanes {
	float a[LANES], A[LANES], before[LANES], Before[LANES];
};

/* The data of some edges: P_t packed, in_degree and signature of both ends. */
struct edges {
	float v_packed[RUNG_HOPS_MAX][LANES], u_packed[RUNG_HOPS_MAX][LANES];
	float v_degree[LANES], u_degree[LANES];
	uint32_t v_signature[LANES], u_signature[LANES];
	float share[LANES]; /* share of the vertices drawing v that also draw u */
};

/* Remove the part of P that comes from vertices that draw u as well. `cut` is its share; `p_seed`
 * and `M_seed` are the part of v that depends on no such vertex. */
static inline void cut_common(float *p, float *M, float p_seed, float M_seed, float cut)
{
	*p -= *p > p_seed ? (*p - p_seed) * cut : 0;
	*M += *M < M_seed ? (M_seed - *M) * cut : 0;
}

/* Compute hop t of v -> u, and of u -> v, which the next hop needs. */
static inline __attribute__((always_inline)) void hop_lanes(struct lanes *vu, struct lanes *uv,
                                                            const struct edges *edges, uint32_t t,
                                                            float fanout, bool only_new)
{
	const float *v_packed = edges->v_packed[t], *u_packed = edges->u_packed[t],
		    *v_degree = edges->v_degree, *u_degree = edges->u_degree;
	const float *v_seed = edges->v_packed[0], *share = edges->share;

#pragma omp simd
	for (unsigned i = 0; i < LANES; i++) {
		struct drawn_float d = { vu->a[i], vu->A[i], vu->before[i], vu->Before[i] };
		struct drawn_float b = { uv->a[i], uv->A[i], uv->before[i], uv->Before[i] };
		const float v_stored = fabsf(v_packed[i]), u_stored = fabsf(u_packed[i]);
		const float p = is_complement(v_packed[i]) ? 1 - v_stored : v_stored,
			    M = is_complement(v_packed[i]) ? v_stored : 1 - v_stored;
		const float r = is_complement(u_packed[i]) ? 1 - u_stored : u_stored,
			    R = is_complement(u_packed[i]) ? u_stored : 1 - u_stored;
		const float q_v = v_degree[i] <= fanout ? 1 : fanout / v_degree[i],
			    q_u = u_degree[i] <= fanout ? 1 : fanout / u_degree[i];
		const float over_A = d.A > 0 ? 1 / d.A : 0, over_B = b.A > 0 ? 1 / b.A : 0;
		const float r_own = r > d.a ? (r - d.a) * over_A : 0,
			    R_own = R < d.A ? R * over_A : 1;
		const float seed = fabsf(v_seed[i]),
			    p_seed = is_complement(v_seed[i]) ? 1 - seed : seed;
		float p_own = p > b.a ? (p - b.a) * over_B : 0, M_own = M < b.A ? M * over_B : 1;

		cut_common(&p_own, &M_own, p_seed, is_complement(v_seed[i]) ? seed : 1 - seed,
		           share[i] * sqrtf(sqrtf(q_v)));
		drawn_float_hop(&d, p_own, M_own, q_v, only_new);
		drawn_float_hop(&b, r_own, R_own, q_u, only_new);
		vu->a[i] = d.a, vu->A[i] = d.A, vu->before[i] = d.before, vu->Before[i] = d.Before;
		uv->a[i] = b.a, uv->A[i] = b.A, uv->before[i] = b.before, uv->Before[i] = b.Before;
	}
}

/* Load up to LANES edges from `first` on, and transpose them into one array per field. Unused lanes
 * keep old edges, whose results are not used. */
static void turn_records(const struct expected *ex, const struct rung__propagation_tile *tile,
                         uint64_t first, unsigned count, struct edges *edges)
{
	const uint32_t width = record_width(ex);
	const float *in_degree = ex->in_degree + tile->u_first,
		    *records = tile->values + first * width;
	const uint16_t *u = tile->u + first;

	for (uint32_t t = 0; t <= ex->hop; t++) {
		const float *present = ex->present[t] + tile->u_first;

		for (unsigned i = 0; i < count; i++) {
			edges->v_packed[t][i] = records[(uint64_t)i * width + t];
			edges->u_packed[t][i] = present[u[i] & ~RUNG__PROPAGATION_MUTUAL];
		}
	}
	for (unsigned i = 0; i < count; i++) {
		const float *record = records + (uint64_t)i * width + ex->hop + 1;
		const unsigned vertex = u[i] & ~RUNG__PROPAGATION_MUTUAL;

		edges->v_degree[i] = record[0];
		/* the edge is not mutual, so u does not draw v */
		edges->u_degree[i] = vertex != u[i] ? in_degree[vertex] : INFINITY;
		if (ex->signatures) {
			memcpy(&edges->v_signature[i], &record[1], sizeof(*record));
			edges->u_signature[i] = ex->signatures[tile->u_first + vertex];
		}
	}
	if (!ex->signatures)
		return; /* share remains 0 */
#pragma omp simd
	for (unsigned i = 0; i < LANES; i++)
		edges->share[i] = rung__minhash_share(edges->u_signature[i], edges->v_signature[i]);
}

static void combine(void *ctx, const struct rung__propagation_tile *tile, double *sums)
{
	const struct expected *ex = ctx;
	const bool only_new = ex->scoring->opts->draws == RUNG_DRAWS_NEW;
	const uint32_t hops = ex->hop + 1;
	struct edges edges;
	float given[LANES];

	memset(&edges, 0, sizeof(edges));

	for (uint64_t first = 0; first < tile->count; first += LANES) {
		const unsigned here = (unsigned)RUNG__MIN(tile->count - first, (uint64_t)LANES);
		struct lanes vu, uv;

		turn_records(ex, tile, first, here, &edges);
		for (unsigned i = 0; i < LANES; i++) {
			vu.a[i] = uv.a[i] = vu.before[i] = uv.before[i] = 0;
			vu.A[i] = uv.A[i] = vu.Before[i] = uv.Before[i] = 1;
		}
		for (uint32_t t = 0; t < hops; t++) {
			if (only_new)
				hop_lanes(&vu, &uv, &edges, t, ex->fanouts[t], true);
			else
				hop_lanes(&vu, &uv, &edges, t, ex->fanouts[t], false);
		}
#pragma omp simd
		for (unsigned i = 0; i < LANES; i++)
			given[i] = minus_log_float(vu.a[i], vu.A[i]);
		for (unsigned i = 0; i < here; i++)
			sums[tile->u[first + i] & ~RUNG__PROPAGATION_MUTUAL] += (double)given[i];
	}
}

/* receive(): the sum over the edges becomes P of the next hop, or the score. After the first hop it
 * also computes the signatures, whose parts are then no longer needed. */
static double accept_sums(void *ctx, uint64_t first, uint64_t count, const double *sums)
{
	const struct expected *ex = ctx;
	const struct rung__scoring *scoring = ex->scoring;
	const bool last = ex->hop + 1 == scoring->opts->hop_count;

	for (uint64_t v = first; ex->hop == 0 && ex->signatures && v < first + count; v++)
		ex->signatures[v] = rung__minhash_signature(
			(uint64_t)ex->minima[1][v] << 32 | ex->minima[0][v], ex->drawers[v]);
	for (uint64_t i = 0; i < count; i++) {
		const double score =
			sums[i] + (rung__is_train(scoring, first + i) ? ex->seed_score : 0);

		if (last)
			scoring->score[first + i] = (float)score;
		else
			ex->present[ex->hop + 1][first + i] = pack(score);
	}
	return 0;
}

/* Allocate the arrays. After a failure the caller frees those that exist. */
static int alloc_arrays(struct expected *ex, bool overlaps)
{
	const uint64_t vertex_count = ex->scoring->vertex_count;

	const uint32_t hops = ex->scoring->opts->hop_count;
	/* no overflow: indptr has more bytes */
	const uint64_t bytes = vertex_count * sizeof(float);
	bool complete;

	ex->in_degree = rung__map_pages(bytes);
	ex->signatures = overlaps ? rung__map_pages(bytes) : NULL;
	complete = ex->in_degree && (!overlaps || ex->signatures);
	for (uint32_t t = 0; t < hops; t++) {
		ex->present[t] = rung__map_pages(bytes);
		complete = complete && ex->present[t];
	}
	if (complete)
		return 0;
	return rung__fail(RUNG_E_NOMEM,
	                  "score expected: no memory for %" PRIu64 " vertices and %" PRIu32 " hops",
	                  vertex_count, hops);
}

static void start(struct expected *ex)
{
	const struct rung__scoring *scoring = ex->scoring;
	const uint64_t batch_size = scoring->opts->batch_size;
	const uint64_t batches =
		scoring->train_count / batch_size + (scoring->train_count % batch_size != 0);
	float seed;

	ex->seed_score = -log1p(-1 / (double)batches); /* +inf: one batch has all train vertices */
	seed = pack(ex->seed_score);
	for (uint32_t t = 0; t < scoring->opts->hop_count; t++)
		ex->fanouts[t] = scoring->opts->fanouts[t] == UINT32_MAX
		                         ? FLT_MAX
		                         : (float)scoring->opts->fanouts[t];
#pragma omp parallel for num_threads(scoring->threads) schedule(static)
	for (uint64_t v = 0; v < scoring->vertex_count; v++)
		ex->present[0][v] = rung__is_train(scoring, v) ? seed : 0;
}

/* Place the minima and sizes in arrays that are not in use until the first hop is complete. */
static void start_signatures(struct expected *ex)
{
	const struct rung__scoring *scoring = ex->scoring;

	ex->minima[0] = ex->signatures;
	ex->minima[1] = (uint32_t *)(void *)ex->present[1];
	ex->drawers = scoring->score;
#pragma omp parallel for num_threads(scoring->threads) schedule(static)
	for (uint64_t v = 0; v < scoring->vertex_count; v++) {
		ex->minima[0][v] = (uint32_t)RUNG__MINHASH_NONE;
		ex->minima[1][v] = (uint32_t)(RUNG__MINHASH_NONE >> 32);
		ex->drawers[v] = 0;
	}
}

static int run_hops(struct expected *ex, struct rung__propagation *prop)
{
	struct rung__propagation_rule rule = { .ctx = ex,
		                               .send = send,
		                               .send_records = send_records,
		                               .combine = combine,
		                               .receive = accept_sums };
	int rc = 0;

	if (ex->signatures)
		start_signatures(ex);
	for (ex->hop = 0; rc == 0 && ex->hop < ex->scoring->opts->hop_count; ex->hop++) {
		/* the first hop needs no records, because nothing was drawn before it */
		if (ex->hop == 1)
			rc = rung__propagation_find_records(prop, ex->signatures);
		rule.width = ex->hop == 0 ? 0 : record_width(ex);
		rule.add = ex->hop == 0 && ex->signatures ? add_and_sign : NULL;
		if (rc == 0)
			rc = rung__propagation_pass(prop, &rule, NULL);
	}
	return rc;
}

int rung__score_expected(const struct rung__scoring *scoring)
{
	const uint32_t hops = scoring->opts->hop_count;
	const bool overlaps = hops > 1 && scoring->opts->method == RUNG_SCORE_EXPECTED;
	const uint64_t bytes = scoring->vertex_count * sizeof(float);
	struct rung__propagation_opts opts = { .drop_loops = true,
		                               .width_max = hops > 1 ? hops + 1 + overlaps : 0,
		                               .pass_total = hops,
		                               .other_bytes =
		                                       (hops + UINT64_C(1) + overlaps) * bytes };
	struct expected ex = { .scoring = scoring };
	struct rung__propagation *prop;
	int rc = alloc_arrays(&ex, overlaps);

	if (rc < 0)
		goto free_arrays;
	rc = rung__scoring_propagation(scoring, &opts, &prop);
	if (rc < 0)
		goto free_arrays;
	start(&ex);
	rc = run_hops(&ex, prop);
	scoring->report->edge_passes = rung__propagation_passes(prop);
	scoring->report->iterations = hops;
	rung__propagation_close(prop);
free_arrays:
	for (uint32_t t = 0; t < hops; t++)
		rung__unmap_pages(ex.present[t], bytes);
	rung__unmap_pages(ex.in_degree, bytes);
	rung__unmap_pages(ex.signatures, bytes);
	return rc;
}
