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
 * Types: u receives from every relation whose lists hold it, each with its own fanouts and
 * in_degree. The sets that signatures describe have vertices of all types. v is present because of
 * u if u drew it through the opposite relation (expected_opposite.c).
 *
 * Memory: 4 bytes per vertex for each hop, 4 for its in_degree in each relation, 4 for its
 * signature, in addition to the score and the sums (8). While the signatures are computed, in the
 * pass of the first hop, arrays that are still unused hold their minima and counts.
 */
#include "graph/graph.h"
#include "propagation/minhash.h"
#include "score/expected.h"

static float pack(double score)
{
	const double p = -expm1(-score);

	return p < 0.5 ? (float)p : -(float)exp(-score);
}

/* P and its complement. */
static void unpack(float packed, double *p_out, double *M_out)
{
	const double stored = fabs((double)packed);

	*p_out = is_complement(packed) ? 1 - stored : stored;
	*M_out = is_complement(packed) ? stored : 1 - stored;
}

/* -log(1 - a), computed from the smaller of a and A. */
static double minus_log(double a, double A)
{
	return a < 0.5 ? -log1p(-a) : -log(A);
}

/* The value that v sends to a u to which it has no special relation: the same for each u.
 * @param whole  not for one u, but for any: a hop at which v draws at all is certain */
static float give(const struct expected_relation *rel, uint64_t v, float in_degree, bool whole)
{
	const bool only_new = rel->ex->scoring->opts->draws == RUNG_DRAWS_NEW;
	struct drawn_double d = { .A = 1, .Before = 1 };

	for (uint32_t t = 0; t <= rel->ex->hop; t++) {
		const double q = whole ? rel->fanouts[t] > 0
		                       : fmin(1, (double)rel->fanouts[t] / (double)in_degree);
		double p, M;

		unpack(rel->target->present[t][v], &p, &M);
		drawn_double_hop(&d, p, M, q, only_new);
	}
	return d.a > 0 ? (float)minus_log(d.a, d.A) : 0;
}

static void send(void *ctx, uint64_t first, uint64_t count, const uint64_t *indptr, float *messages)
{
	const struct expected_relation *rel = ctx;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t degree = indptr[i + 1] - indptr[i];
		const float in_degree = degree ? (float)degree : INFINITY;

		if (rel->ex->hop == 0)
			rel->in_degree[first + i] = in_degree;
		messages[i] = degree ? give(rel, first + i, in_degree, false) : 0;
	}
}

/* add() of the first hop: sums the values, and computes minima and sizes of the sets of vertices
 * that can draw u. */
static void add_and_sign(void *ctx, const struct rung__propagation_tile *tile, double *sums)
{
	const struct expected_relation *rel = ctx;
	const struct expected_type *type = rel->source;
	const uint64_t v_first = rel->target->base + tile->v_first;
	uint32_t *low = type->minima[0] + tile->u_first, *high = type->minima[1] + tile->u_first;
	float *drawers = type->drawers + tile->u_first;

	for (uint64_t i = 0; i < tile->count; i++) {
		const uint16_t u = tile->u[i];
		const uint64_t least = (uint64_t)high[u] << 32 | low[u];
		const uint64_t minima =
			rung__minhash_min(least, rung__minhash_of(v_first + tile->v[i]));

		low[u] = (uint32_t)minima;
		high[u] = (uint32_t)(minima >> 32);
		drawers[u] += 1;
		sums[u] += (double)tile->values[i];
	}
}

/* The sum over the edges becomes P of the next hop, or the score. After the first hop it also
 * computes the signatures, whose parts are then no longer needed. */
static void accept(const struct expected *ex, const struct expected_type *type, uint64_t first,
                   uint64_t count, const double *sums)
{
	const struct rung__scoring *scoring = ex->scoring;
	const bool last = ex->hop + 1 == scoring->opts->hop_count;

	for (uint64_t v = first; ex->hop == 0 && ex->signs && v < first + count; v++)
		type->signatures[v] = rung__minhash_signature(
			(uint64_t)type->minima[1][v] << 32 | type->minima[0][v], type->drawers[v]);
	for (uint64_t i = 0; i < count; i++) {
		const bool seed = type->of_seeds && rung__is_train(scoring, first + i);
		const double score = sums[i] + (seed ? ex->seed_score : 0);

		if (last)
			type->score[first + i] = (float)score;
		else
			type->present[ex->hop + 1][first + i] = pack(score);
	}
}

/* receive() of the last relation with this type of u. */
static double accept_sums(void *ctx, uint64_t first, uint64_t count, const double *sums)
{
	const struct expected_relation *rel = ctx;

	accept(rel->ex, rel->source, first, count, sums);
	return 0;
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
	for (uint32_t i = 0; i < scoring->graph->type_count; i++) {
		const struct expected_type *type = &ex->types[i];

#pragma omp parallel for num_threads(scoring->threads) schedule(static)
		for (uint64_t v = 0; v < type->count; v++)
			type->present[0][v] =
				type->of_seeds && rung__is_train(scoring, v) ? seed : 0;
	}
}

/* Place the minima and sizes in arrays that are not in use until the first hop is complete. */
static void start_signatures(struct expected_type *type, int threads)
{
	(void)threads; /* without OpenMP */
	type->minima[0] = type->signatures;
	type->minima[1] = (uint32_t *)(void *)type->present[1];
	type->drawers = type->score;
#pragma omp parallel for num_threads(threads) schedule(static)
	for (uint64_t v = 0; v < type->count; v++) {
		type->minima[0][v] = (uint32_t)RUNG__MINHASH_NONE;
		type->minima[1][v] = (uint32_t)(RUNG__MINHASH_NONE >> 32);
		type->drawers[v] = 0;
	}
}

/* Run the pass of a hop over one relation. */
static int run_pass(struct expected *ex, struct expected_relation *rel, bool first, bool last)
{
	const bool alone = ex->scoring->graph->relation_count == 1;
	const struct rung__propagation_rule rule = {
		.ctx = rel,
		.send = send,
		.send_records = rung__expected_send_records,
		.combine = rung__expected_combine,
		.width = ex->hop == 0 ? 0 : record_width(ex),
		.add = ex->hop == 0 && ex->signs ? add_and_sign : NULL,
		.receive = last ? accept_sums : NULL,
		.keeps_sums = !first,
	};
	int rc = alone ? 0 : rung__propagation_resume(rel->prop);

	/* the first hop needs no records, because nothing was drawn before it */
	if (rc == 0 && ex->hop == 1)
		rc = rung__propagation_find_records(
			rel->prop, rel->opposite ? rel->opposite->prop : NULL,
			rel->source->signatures, rel->target->signatures);
	if (rc == 0)
		rc = rung__propagation_pass(rel->prop, &rule, NULL);
	ex->edges_done += rel->edge_count;
	if (!alone)
		rung__propagation_rest(rel->prop);
	return rc;
}

/* Run a hop: the passes over all relations, and for the vertices that no list holds none. */
static int run_hop(struct expected *ex)
{
	const struct rung__typed_graph *graph = ex->scoring->graph;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < graph->type_count; i++) {
		struct expected_type *type = &ex->types[i];
		struct expected_relation *last = NULL;
		bool first = true;

		for (uint32_t r = 0; r < graph->relation_count; r++)
			last = ex->relations[r].prop && ex->relations[r].source == type
			               ? &ex->relations[r]
			               : last;
		for (uint32_t r = 0; rc == 0 && r < graph->relation_count; r++) {
			struct expected_relation *rel = &ex->relations[r];

			if (!rel->prop || rel->source != type)
				continue;
			rc = run_pass(ex, rel, first, rel == last);
			first = false;
		}
		if (!last) {
			memset(type->sums, 0, type->count * sizeof(*type->sums));
			accept(ex, type, 0, type->count, type->sums);
		}
	}
	return rc;
}

/* The scores of the lists and edges of a relation, from P before the last hop. */
static void fill_lists(const struct expected_relation *rel, float *lists, float *edges)
{
#pragma omp parallel for num_threads(rel->ex->scoring->threads) schedule(static)
	for (uint64_t v = 0; v < rel->target->count; v++) {
		const float in_degree = rel->prop ? rel->in_degree[v] : INFINITY;

		if (lists)
			lists[v] = isinf(in_degree) ? 0 : give(rel, v, in_degree, true);
		if (edges)
			edges[v] = isinf(in_degree) ? 0 : give(rel, v, in_degree, false);
	}
}

static int run_hops(struct expected *ex)
{
	const struct rung__scoring *scoring = ex->scoring;
	const struct rung__typed_scores *scores = scoring->scores;
	const uint32_t hops = scoring->opts->hop_count;
	int rc = hops > 1 ? rung__expected_find_opposites(ex) : 0;

	start(ex);
	for (uint32_t i = 0; ex->signs && i < scoring->graph->type_count; i++)
		start_signatures(&ex->types[i], scoring->threads);
	for (ex->hop = 0; rc == 0 && ex->hop < hops; ex->hop++)
		rc = run_hop(ex);
	ex->hop = hops - 1;
	for (uint32_t i = 0; rc == 0 && i < scoring->graph->relation_count; i++)
		fill_lists(&ex->relations[i], scores->lists ? scores->lists[i] : NULL,
		           scores->edges ? scores->edges[i] : NULL);
	return rc;
}

int rung__score_expected(const struct rung__scoring *scoring)
{
	const uint32_t hops = scoring->opts->hop_count;
	struct expected ex = {
		.scoring = scoring,
		.signs = hops > 1 && scoring->opts->method == RUNG_SCORE_EXPECTED,
	};
	uint64_t passes = 0;
	int rc = rung__expected_create(&ex);

	if (rc == 0)
		rc = rung__expected_open(&ex);
	if (rc == 0)
		rc = run_hops(&ex);
	for (uint32_t i = 0; rc == 0 && i < scoring->graph->relation_count; i++) {
		const struct rung__propagation *prop = ex.relations[i].prop;

		passes = RUNG__MAX(passes, prop ? rung__propagation_passes(prop) : 0);
	}
	scoring->report->edge_passes += passes;
	scoring->report->iterations = hops;
	rung__expected_close(&ex);
	return rc;
}
