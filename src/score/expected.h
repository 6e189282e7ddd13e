/* SPDX-License-Identifier: Apache-2.0 */
/** The state of `expected`, by type and relation. Private to score_expected.c and
 * expected_*.c. */
#ifndef RUNG_EXPECTED_H
#define RUNG_EXPECTED_H

#include <math.h>
#include <string.h>

#include "score/state.h"

struct expected;

/** The vertices of a type. */
struct expected_type {
	uint64_t count;
	uint64_t base; /* number of its first vertex in hashes, which count over all types */
	bool of_seeds;
	float *present[RUNG_HOPS_MAX]; /* [count] P_t, packed; valid up to the current hop */
	/* [count] signatures of the sets of vertices that have the vertex in their lists; NULL: not
	 * used */
	uint32_t *signatures;
	/* [count] lower and upper half of the minima of these sets, until the signatures are
	 * computed */
	uint32_t *minima[2];
	/* [count] sizes of these sets (exact up to 2^24), until the signatures are computed */
	float *drawers;
	float *score; /* [count] the caller's */
	double *sums; /* [count] what the vertices receive, over all relations */
};

/** A relation: vertices v of its target type draw vertices u of its source type. */
struct expected_relation {
	struct expected *ex;
	const struct rung__typed_relation *relation;
	struct expected_type *source, *target;
	struct expected_relation *opposite; /* the one in which u draws v; NULL: none */
	struct rung__propagation *prop;     /* NULL: the relation draws nothing */
	/* [vertices of the target type] number of in-edges; INFINITY instead of 0, so that q
	 * is 0 */
	float *in_degree;
	float fanouts[RUNG_HOPS_MAX]; /* FLT_MAX: all neighbours */
	uint64_t edge_count;
};

struct expected {
	const struct rung__scoring *scoring;
	uint32_t hop;                        /* the hop of the current pass */
	bool signs;                          /* signatures are used */
	struct expected_type *types;         /* [type_count] */
	struct expected_relation *relations; /* [relation_count] */
	uint64_t edge_count;                 /* of all relations that draw */
	uint64_t edges_done;                 /* in completed passes, for progress */
	double seed_score;                   /* -log(1 - P_0) of a train vertex */
};

/** P is stored as a number in [0, 0.5), or 1 - P with a negative sign, including -0: the smaller
 * one has the full precision of a float. */
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

/** Floats of a record, as rung__expected_send_records() writes it. */
static inline uint32_t record_width(const struct expected *ex)
{
	return ex->hop + 2 + (ex->signs ? 1 : 0);
}

/** send_records() and combine() of struct rung__propagation_rule; ctx is the relation.
 * expected_edges.c */
void rung__expected_send_records(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr,
                                 float *records);
void rung__expected_combine(void *ctx, const struct rung__propagation_tile *tile, double *sums);

/** Choose the opposite of every relation. expected_opposite.c */
int rung__expected_find_opposites(struct expected *ex);

/** Allocate the types and relations with their arrays, and open the edge passes.
 * rung__expected_close() frees them, also after a failure. expected_create.c */
int rung__expected_create(struct expected *ex);
int rung__expected_open(struct expected *ex);
void rung__expected_close(struct expected *ex);

#endif
