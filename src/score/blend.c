/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prediction corrected by sampled batches: empirical Bayes shrinkage (Robbins 1956; James, Stein
 * 1961; with a varying prior mean: Morris, "Parametric Empirical Bayes Inference", 1983).
 *
 * For a vertex v two values are known: P(v), the predicted probability that a batch holds it, and
 * m(v), the share of n sampled batches that did. The truth p(v) varies around the prediction with
 * an unknown variance, and m(v) varies around the truth with noise. Vertices of about equal P form
 * a bin, in which both variances are measured; sums go over the vertices of a bin:
 *
 *     g     = sum of m / sum of P                     scale error of the prediction
 *     total = sum of (m - g P)^2                      = variance of the truth + noise
 *     w     = 1 - noise / total, at least 0           share of the truth in the total
 *     p     = g P + w (m - g P)                       linear estimate of least mean square error
 *
 * There is no parameter to set: if the counts carry no information, w is 0 and the order of the
 * prediction stays; the more batches there are, the closer w is to 1 and the result to the counts.
 * Because the p of a bin add up to its counts, their sum over the first ranks also predicts the
 * hits; the largest of noisy counts alone would be too optimistic.
 *
 * The noise. If batches were drawn independently, it would be B = sum of m (1 - m) / (n - 1). But
 * an epoch distributes the train vertices over its batches, so a vertex that is in exactly the
 * batches that have one of three given seeds has no noise at all over a whole epoch. The part r of
 * B that comes from the draws, and not from the choice of seeds, is measured: the first e of the n
 * batches are sampled again with the same seeds in new batches and new draws, and r = sum of (x -
 * y)^2 / (2 e n B), where x and y are the two counts. The other part matters if n is not a whole
 * number of epochs: each train vertex is a seed f = n / batches of an epoch times on average, which
 * means floor(f) or floor(f) + 1 times, with variance h (1 - h), h = f - floor(f), instead of the f
 * of independent batches. So noise = B (r + (1 - r) h (1 - h) / f). The difference of two runs with
 * different seeds, half an epoch each, would be up to seven times as large as the noise of their
 * sum, and their counts could not be used.
 *
 * Bins are ranges of the float's bits, 8 per factor of two, joined with adjacent bins until they
 * have 256 vertices: this needs no sorting, and the mean squares are accurate to a tenth. Three
 * additions keep bins with few counts from being overconfident: g counts and predicts one more
 * batch, four of the events for r are attributed to the draws, and the noise contains the square of
 * one more batch. Sums are taken over a fixed number of slices and then slice by slice, so the bits
 * are the same for any number of threads.
 *
 * Special cases: a vertex that is predicted for no batch (0) or for every batch (infinity) keeps
 * that score; a vertex that was in every batch is treated as missing from half a batch, so that
 * scores stay finite.
 */
#include <math.h>
#include <string.h>

#include "score/presample.h"

#define BIN_SHIFT        20u /* keeps 3 bits of the mantissa: 8 bins per factor of two */
#define BIN_COUNT        ((0x7f800000u >> BIN_SHIFT) + 1)
#define BIN_VERTICES_MIN 256.0
#define EVENTS_OF_DRAWS  4.0
/* 1/8 of the batches are repeated; with twice as many, hits change by less than 0.1 % of the
 * ceiling */
#define REPEATED_SHARE 8u
/* more slices than the number of cores that still speed up a pass over three arrays; fixed, so that
 * sums have the same bits on any machine */
#define SLICES 32u

/* Sums over the vertices of a bin. */
struct bin {
	double vertices;
	double predicted; /* P */
	double predicted_squares;
	double counted; /* m */
	double counted_squares;
	double products;      /* m P */
	double apart_squares; /* (x - y)^2 */
};

/* Results for a bin. */
struct shrink {
	double factor; /* g */
	double weight; /* w */
};

struct blending {
	const struct rung__blend_counts *counted;
	uint64_t vertex_count;
	double batches;
	double uneven; /* h (1 - h) / f */
	int threads;
	/* [SLICES][BIN_COUNT]; finally all rows are added up in the first */
	struct bin *bins;
	struct shrink *shrinks; /* [BIN_COUNT] */
	float *score;
};

/* The bits of positive floats are in the order of their values. */
static uint32_t bin_of(float score)
{
	uint32_t bits;

	memcpy(&bits, &score, sizeof(bits));
	return bits >> BIN_SHIFT;
}

static uint64_t slice_begin(const struct blending *bl, uint64_t slice)
{
	return bl->vertex_count / SLICES * slice + RUNG__MIN(slice, bl->vertex_count % SLICES);
}

/* Add the vertices of a slice to its row of bins. */
static void sum_slice(const struct blending *bl, uint64_t slice)
{
	struct bin *bins = bl->bins + slice * BIN_COUNT;

	for (uint64_t v = slice_begin(bl, slice); v < slice_begin(bl, slice + 1); v++) {
		const double p = -expm1(-(double)bl->score[v]),
			     m = bl->counted->counts[v] / bl->batches;
		/* a difference, which can be negative */
		const double apart = (int32_t)bl->counted->apart[v];
		struct bin *bin;

		if (!(bl->score[v] > 0))
			continue;
		bin = &bins[bin_of(bl->score[v])];
		bin->vertices++;
		bin->predicted += p;
		bin->predicted_squares += p * p;
		bin->counted += m;
		bin->counted_squares += m * m;
		bin->products += m * p;
		bin->apart_squares += apart * apart;
	}
}

static void add(struct bin *sum, const struct bin *bin)
{
	sum->vertices += bin->vertices;
	sum->predicted += bin->predicted;
	sum->predicted_squares += bin->predicted_squares;
	sum->counted += bin->counted;
	sum->counted_squares += bin->counted_squares;
	sum->products += bin->products;
	sum->apart_squares += bin->apart_squares;
}

/* Apply the formulas of the opening comment to one bin. */
static struct shrink shrink_of(const struct blending *bl, const struct bin *bin)
{
	const double once = 1 / bl->batches;
	const double independent =
		(bin->counted - bin->counted_squares) * bl->batches / (bl->batches - 1);
	const double events = 2 * (double)bl->counted->repeated * independent;
	const double of_draws =
		fmin(1, (bin->apart_squares + EVENTS_OF_DRAWS) / (events + EVENTS_OF_DRAWS));
	const double noise =
		independent / bl->batches * (of_draws + (1 - of_draws) * bl->uneven) + once * once;
	struct shrink shrink;
	double total;

	shrink.factor = (bin->counted + once) / (bin->predicted + once);
	total = bin->counted_squares - 2 * shrink.factor * bin->products +
	        shrink.factor * shrink.factor * bin->predicted_squares;
	shrink.weight = total > noise ? 1 - noise / total : 0;
	return shrink;
}

/* Treat bins [first, end) as one bin. */
static void join(const struct blending *bl, uint32_t first, uint32_t end)
{
	struct bin sum = { 0 };

	for (uint32_t bin = first; bin < end; bin++)
		add(&sum, &bl->bins[bin]);
	bl->shrinks[first] = shrink_of(bl, &sum);
	for (uint32_t bin = first + 1; bin < end; bin++)
		bl->shrinks[bin] = bl->shrinks[first];
}

/* Join bins from the hottest down, because hot vertices matter most. The rest at the cold end joins
 * the last bin, so that no bin is too small. */
static void join_bins(const struct blending *bl)
{
	uint32_t end = BIN_COUNT, first = BIN_COUNT;
	double vertices = 0, below = 0;

	for (uint32_t bin = 0; bin < BIN_COUNT; bin++)
		below += bl->bins[bin].vertices;
	while (first > 0) {
		vertices += bl->bins[--first].vertices;
		below -= bl->bins[first].vertices;
		if (first > 0 && (vertices < BIN_VERTICES_MIN || below < BIN_VERTICES_MIN))
			continue;
		join(bl, first, end);
		end = first;
		vertices = 0;
	}
}

/* The corrected score of a vertex, by the results of its bin. */
static float corrected(const struct blending *bl, uint64_t v)
{
	const double p = -expm1(-(double)bl->score[v]), m = bl->counted->counts[v] / bl->batches;
	const struct shrink *shrink;
	double mean;

	if (!(bl->score[v] > 0))
		return 0;
	if (isinf(bl->score[v]))
		return bl->score[v];
	shrink = &bl->shrinks[bin_of(bl->score[v])];
	mean = shrink->factor * p;
	mean += shrink->weight * (m - mean);
	return (float)-log1p(-fmin(mean, 1 - 0.5 / bl->batches));
}

static void correct(const struct blending *bl)
{
#pragma omp parallel for num_threads(bl->threads) schedule(dynamic, 1)
	for (uint64_t slice = 0; slice < SLICES; slice++)
		sum_slice(bl, slice);
	for (uint64_t slice = 1; slice < SLICES; slice++) {
		for (uint32_t bin = 0; bin < BIN_COUNT; bin++)
			add(&bl->bins[bin], &bl->bins[slice * BIN_COUNT + bin]);
	}
	join_bins(bl);
#pragma omp parallel for num_threads(bl->threads) schedule(static)
	for (uint64_t v = 0; v < bl->vertex_count; v++)
		bl->score[v] = corrected(bl, v);
}

int rung__blend_correct(const struct rung__blend_counts *counted, uint64_t vertex_count,
                        int threads, float *score)
{
	const double epochs = (double)counted->batches / (double)counted->epoch_batches,
		     part = epochs - floor(epochs);
	struct blending bl = {
		.counted = counted,
		.vertex_count = vertex_count,
		.batches = (double)counted->batches,
		.uneven = part * (1 - part) / epochs,
		.threads = threads,
		.score = score,
	};
	int rc = 0;

	bl.bins = rung__zalloc_array((uint64_t)SLICES * BIN_COUNT, sizeof(*bl.bins));
	bl.shrinks = rung__malloc_array(BIN_COUNT, sizeof(*bl.shrinks));
	if (bl.bins && bl.shrinks)
		correct(&bl);
	else
		rc = rung__fail(RUNG_E_NOMEM,
		                "score blend: no memory for the bins of %" PRIu64 " vertices",
		                vertex_count);
	rung__free(bl.bins);
	rung__free(bl.shrinks);
	return rc;
}

/* Sample batches [0, e) with `again` into `apart`, and without it into `counts`. Replace `apart` by
 * the difference of both, and add batches [e, n) to `counts`. */
static int sample_runs(rung__presample_fn presample, const void *graph,
                       const struct rung__run *caller_run, uint64_t batches, uint64_t repeated,
                       uint64_t vertex_count, uint32_t *counts, uint32_t *apart)
{
	struct rung__run run = *caller_run;
	int rc;

	run.progress_total = batches + repeated;
	run.progress_done = 0;
	run.batch_first = 0;
	run.batch_count = repeated;
	run.again = true;
	rc = presample(graph, &run, apart);
	if (rc < 0)
		return rc;
	run.progress_done = repeated;
	run.again = false;
	rc = presample(graph, &run, counts);
	if (rc < 0)
		return rc;
#pragma omp parallel for num_threads(run.threads) schedule(static)
	for (uint64_t v = 0; v < vertex_count; v++)
		apart[v] = counts[v] - apart[v];
	run.progress_done += repeated;
	run.batch_first = repeated;
	run.batch_count = batches - repeated;
	return presample(graph, &run, counts);
}

/* Correct the scores of every type by its part of the counts. */
static int correct_types(const struct rung__blend_counts *counted, const uint64_t *type_counts,
                         uint32_t type_count, int threads, float *const *scores)
{
	struct rung__blend_counts of_type = *counted;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < type_count; i++) {
		rc = rung__blend_correct(&of_type, type_counts[i], threads, scores[i]);
		of_type.counts += type_counts[i];
		of_type.apart += type_counts[i];
	}
	return rc;
}

int rung__blend(rung__presample_fn presample, const void *graph, const struct rung__run *run,
                const uint64_t *type_counts, uint32_t type_count, float *const *scores)
{
	const uint64_t vertex_count = rung__total(type_counts, type_count);
	uint32_t *counts = rung__zalloc_array(vertex_count, sizeof(*counts));
	uint32_t *apart = rung__zalloc_array(vertex_count, sizeof(*apart));
	const uint64_t batch_count = RUNG__MAX(2, run->batch_count),
		       repeated = RUNG__MAX(1, batch_count / REPEATED_SHARE);
	const struct rung__blend_counts counted = {
		.counts = counts,
		.batches = 2 * batch_count - repeated,
		.apart = apart,
		.repeated = repeated,
		.epoch_batches = rung__epoch_batches(run->train_count, run->batch_size),
	};
	int rc;

	if (!counts || !apart)
		rc = rung__fail(RUNG_E_NOMEM,
		                "score blend: no memory for the counts of %" PRIu64 " vertices",
		                vertex_count);
	else
		rc = sample_runs(presample, graph, run, counted.batches, repeated, vertex_count,
		                 counts, apart);
	if (rc == 0 && run->train_count)
		rc = correct_types(&counted, type_counts, type_count, run->threads, scores);
	rung__free(counts);
	rung__free(apart);
	return rc;
}
