/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `expected` along the edges whose ends must both be known: mutual ones, and those between vertices
 * that the same vertices draw. v sends its state as a record, and both directions are computed
 * together, several edges at a time. score_expected.c has the formulas.
 */
#include <float.h>

#include "propagation/minhash.h"
#include "score/expected.h"

#define LANES 32u /* edges at a time: several vectors of any instruction set */

/* A record has P_0 .. P_hop packed, in_degree, and the signature if signatures are used. */
void rung__expected_send_records(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
                                 float *records)
{
	const struct expected_relation *rel = ctx;
	const struct expected *ex = rel->ex;
	const struct expected_type *type = rel->target;
	const uint32_t width = record_width(ex);

	(void)indptr;
	for (uint64_t i = 0; i < count; i++, records += width) {
		for (uint32_t t = 0; t <= ex->hop; t++)
			records[t] = type->present[t][first + i];
		records[ex->hop + 1] = rel->in_degree[first + i];
		if (ex->signs)
			memcpy(&records[ex->hop + 2], &type->signatures[first + i],
			       sizeof(*records));
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
                                                            float fanout_v, float fanout_u,
                                                            bool only_new)
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
		const float q_v = v_degree[i] <= fanout_v ? 1 : fanout_v / v_degree[i],
			    q_u = u_degree[i] <= fanout_u ? 1 : fanout_u / u_degree[i];
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
static void turn_records(const struct expected_relation *rel,
                         const struct rung__propagation_tile *tile, uint64_t first, unsigned count,
                         struct edges *edges)
{
	const struct expected *ex = rel->ex;
	const uint32_t width = record_width(ex);
	/* without an opposite relation no edge is mutual, so that it is not used */
	const float *in_degree = rel->opposite ? rel->opposite->in_degree + tile->u_first : NULL,
		    *records = tile->values + first * width;
	const uint16_t *u = tile->u + first;

	for (uint32_t t = 0; t <= ex->hop; t++) {
		const float *present = rel->source->present[t] + tile->u_first;

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
		if (ex->signs) {
			memcpy(&edges->v_signature[i], &record[1], sizeof(*record));
			edges->u_signature[i] = rel->source->signatures[tile->u_first + vertex];
		}
	}
	if (!ex->signs)
		return; /* share remains 0 */
#pragma omp simd
	for (unsigned i = 0; i < LANES; i++)
		edges->share[i] = rung__minhash_share(edges->u_signature[i], edges->v_signature[i]);
}

void rung__expected_combine(void *ctx, const struct rung__propagation_tile *tile, double *sums)
{
	const struct expected_relation *rel = ctx, *back = rel->opposite ? rel->opposite : rel;
	const struct expected *ex = rel->ex;
	const bool only_new = ex->scoring->opts->draws == RUNG_DRAWS_NEW;
	const uint32_t hops = ex->hop + 1;
	struct edges edges;
	float given[LANES];

	memset(&edges, 0, sizeof(edges));

	for (uint64_t first = 0; first < tile->count; first += LANES) {
		const unsigned here = (unsigned)RUNG__MIN(tile->count - first, (uint64_t)LANES);
		struct lanes vu, uv;

		turn_records(rel, tile, first, here, &edges);
		for (unsigned i = 0; i < LANES; i++) {
			vu.a[i] = uv.a[i] = vu.before[i] = uv.before[i] = 0;
			vu.A[i] = uv.A[i] = vu.Before[i] = uv.Before[i] = 1;
		}
		for (uint32_t t = 0; t < hops; t++) {
			if (only_new)
				hop_lanes(&vu, &uv, &edges, t, rel->fanouts[t], back->fanouts[t],
				          true);
			else
				hop_lanes(&vu, &uv, &edges, t, rel->fanouts[t], back->fanouts[t],
				          false);
		}
#pragma omp simd
		for (unsigned i = 0; i < LANES; i++)
			given[i] = minus_log_float(vu.a[i], vu.A[i]);
		for (unsigned i = 0; i < here; i++)
			sums[tile->u[first + i] & ~RUNG__PROPAGATION_MUTUAL] += (double)given[i];
	}
}
