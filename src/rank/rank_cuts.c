/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the cuts between buckets from a random sample, which has one score from each of many
 * equally long parts. With 32 samples per bucket, few buckets have twice as many scores as others,
 * for any distribution. The exact counts are determined afterwards.
 */
#include "rank/rank_cuts.h"

#include "base/base.h"
#include "sort/radix.h"

#define COARSE_BINS    (1u << RUNG__COARSE_BITS)
#define COARSE_SHIFT   (32u - RUNG__COARSE_BITS)
#define BUCKET_SAMPLES 32u
#define BUCKET_FINE    4u /* approximate number of fine bins per bucket */

/* Sorted keys of the sample. */
struct sample {
	uint64_t *keys, *keys_tmp;
	uint32_t *payload, *payload_tmp;
	uint32_t count;
};

/* State while the samples are assigned to buckets in ascending order. */
struct walk {
	struct rung__cuts *cuts;
	uint32_t most;  /* maximum number of samples of a bucket */
	uint64_t first; /* first key of the current bucket */
	uint32_t held;  /* samples in the current bucket */
};

static void sample_fini(struct sample *sample)
{
	rung__free(sample->keys);
	rung__free(sample->payload);
}

/* Draw and sort the sample. The same scores give the same sample, so ranks can be reproduced.
 * @return false: out of memory; sample_fini() frees the rest */
static bool sample_init(struct sample *sample, const float *score, uint64_t score_count,
                        uint32_t count)
{
	const uint64_t part = score_count / count;

	*sample = (struct sample){ .count = count };
	sample->keys = rung__malloc_array(2 * (uint64_t)count, sizeof(*sample->keys));
	sample->payload = rung__zalloc_array(2 * (uint64_t)count, sizeof(*sample->payload));
	if (!sample->keys || !sample->payload)
		return false;
	sample->keys_tmp = sample->keys + count;
	sample->payload_tmp = sample->payload + count;
	for (uint32_t i = 0; i < count; i++)
		sample->keys[i] = rung__rank_key(score[i * part + rung__mix64(i) % part]);
	rung__radix_sort_pairs(sample->keys, sample->payload, sample->keys_tmp, sample->payload_tmp,
	                       count, 32);
	return true;
}

/* End the current bucket: the next one begins with this key. */
static void cut(struct walk *walk, uint64_t key)
{
	if (key > walk->first)
		walk->cuts->last[walk->cuts->count++] = (uint32_t)(key - 1);
	walk->first = key;
	walk->held = 0;
}

/* Add `count` samples from this key on; if they do not fit, they begin a bucket. */
static void add(struct walk *walk, uint64_t key, uint32_t count)
{
	if (walk->held + count > walk->most)
		cut(walk, key);
	walk->held += count;
}

/* Add a fine bin with more samples than a bucket may have: cut it between its samples. Samples of
 * equal keys are never separated. */
static void add_crowded(struct walk *walk, const uint64_t *keys, uint32_t count)
{
	for (uint32_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && keys[end] == keys[i]; end++)
			;
		add(walk, keys[i], end - i);
		if (end - i > walk->most)
			cut(walk, keys[i] + 1);
	}
}

/* Position of the first sample that is not below `key`. */
static uint32_t samples_below(const struct sample *sample, uint32_t from, uint64_t key)
{
	while (from < sample->count && sample->keys[from] < key)
		from++;
	return from;
}

/* Bits by which a coarse bin with `count` samples is divided into fine bins. */
static unsigned fine_bits(const struct walk *walk, uint32_t count)
{
	unsigned bits = 0;

	while (bits < COARSE_SHIFT && (uint64_t)count * BUCKET_FINE > (uint64_t)walk->most << bits)
		bits++;
	return bits;
}

/* Divide all coarse bins into fine ones, and cut the buckets at their borders where possible. */
static void make_cuts(struct walk *walk, const struct sample *sample)
{
	uint32_t fine = 0, at = 0;

	for (uint64_t bin = 0; bin < COARSE_BINS; bin++) {
		const uint32_t bin_end = samples_below(sample, at, (bin + 1) << COARSE_SHIFT);
		const unsigned bits = fine_bits(walk, bin_end - at), shift = COARSE_SHIFT - bits;

		walk->cuts->coarse[bin] = fine << 8 | shift;
		fine += 1u << bits;
		for (uint64_t key = bin << COARSE_SHIFT; key < (bin + 1) << COARSE_SHIFT;
		     key += UINT64_C(1) << shift) {
			const uint32_t end =
				samples_below(sample, at, key + (UINT64_C(1) << shift));

			if (end - at > walk->most)
				add_crowded(walk, sample->keys + at, end - at);
			else
				add(walk, key, end - at);
			at = end;
		}
	}
	cut(walk, UINT64_C(1) << 32);
}

/* Fill the table from fine bins to buckets, after all cuts are known. */
static void fill_fine(struct rung__cuts *cuts)
{
	uint32_t bucket = 0;

	for (uint64_t bin = 0; bin < COARSE_BINS; bin++) {
		const unsigned shift = cuts->coarse[bin] & 31;
		uint16_t *fine = cuts->fine + (cuts->coarse[bin] >> 8);

		for (uint64_t key = bin << COARSE_SHIFT; key < (bin + 1) << COARSE_SHIFT;
		     key += UINT64_C(1) << shift) {
			const uint64_t last = key + (UINT64_C(1) << shift) - 1;

			while (key > cuts->last[bucket])
				bucket++;
			*fine++ = (uint16_t)(bucket |
			                     (last > cuts->last[bucket] ? RUNG__CUT_INSIDE : 0));
		}
	}
}

bool rung__cuts_init(struct rung__cuts *cuts, const float *score, uint64_t score_count,
                     uint32_t bucket_count)
{
	const uint32_t sample_count =
		(uint32_t)RUNG__MIN(score_count, (uint64_t)bucket_count * BUCKET_SAMPLES);
	struct walk walk = { .cuts = cuts, .most = sample_count / bucket_count };
	struct sample sample = { 0 };
	bool done = false;

	*cuts = (struct rung__cuts){ 0 };
	/* a crowded bin can end a bucket early, so there can be more buckets than requested */
	cuts->last = rung__malloc_array(8 * (uint64_t)bucket_count, sizeof(*cuts->last));
	cuts->coarse = rung__malloc_array(COARSE_BINS, sizeof(*cuts->coarse));
	/* rounding up in fine_bits() and rounding down in walk.most can each double the number of
	 * fine bins */
	cuts->fine = rung__malloc_array(COARSE_BINS + 4 * BUCKET_FINE * (uint64_t)bucket_count,
	                                sizeof(*cuts->fine));
	if (cuts->last && cuts->coarse && cuts->fine &&
	    sample_init(&sample, score, score_count, sample_count)) {
		make_cuts(&walk, &sample);
		fill_fine(cuts);
		done = true;
	}
	sample_fini(&sample);
	if (!done)
		rung__cuts_fini(cuts);
	return done;
}

void rung__cuts_fini(struct rung__cuts *cuts)
{
	rung__free(cuts->last);
	rung__free(cuts->coarse);
	rung__free(cuts->fine);
	*cuts = (struct rung__cuts){ 0 };
}
