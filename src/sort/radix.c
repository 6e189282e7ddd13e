/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least-significant-digit radix sort of keys, alone or with a payload: all histograms in one pass
 * over the keys, then one counting pass for each digit on which the keys differ. Short inputs are
 * sorted by insertion.
 */
#include "sort/radix.h"

#include <assert.h>
#include <string.h>

#define INSERTION_MAX 64u /* below this, insertion costs less than clearing one histogram */
/* number of histograms on the stack at the same time: 3 * 2048 * 4 bytes */
#define PASSES_PER_SWEEP 3u

struct pairs {
	uint64_t *keys;
	uint32_t *payload; /* NULL: keys alone */
};

static void sort_by_insertion(struct pairs pairs, uint64_t count, uint64_t mask)
{
	for (uint64_t i = 1; i < count; i++) {
		const uint64_t key = pairs.keys[i];
		const uint32_t value = pairs.payload ? pairs.payload[i] : 0;
		uint64_t j = i;

		for (; j > 0 && (pairs.keys[j - 1] & mask) > (key & mask); j--) {
			pairs.keys[j] = pairs.keys[j - 1];
			if (pairs.payload)
				pairs.payload[j] = pairs.payload[j - 1];
		}
		pairs.keys[j] = key;
		if (pairs.payload)
			pairs.payload[j] = value;
	}
}

/* Move the pairs to their positions by one digit.
 * @param starts  the histogram of the digit, replaced by positions */
static void move_by_digit(struct pairs from, struct pairs to, uint64_t count, unsigned shift,
                          uint64_t digit_mask, uint32_t *starts)
{
	uint32_t sum = 0;

	for (uint64_t d = 0; d <= digit_mask; d++) {
		const uint32_t here = starts[d];

		starts[d] = sum;
		sum += here;
	}
	for (uint64_t i = 0; i < count; i++) {
		const uint32_t at = starts[(from.keys[i] >> shift) & digit_mask]++;

		to.keys[at] = from.keys[i];
		if (from.payload)
			to.payload[at] = from.payload[i];
	}
}

/* Sort by all differing digits. @return the sorted pairs, in the memory of `from` or of `to` */
static struct pairs sort_by_digits(struct pairs from, struct pairs to, uint64_t count,
                                   uint64_t key_mask)
{
	uint64_t differing = 0;

	assert(count <= UINT32_MAX);
	for (uint64_t i = 1; i < count; i++)
		differing |= from.keys[i] ^ from.keys[0];
	differing &= key_mask;

	for (unsigned shift = 0; shift < 64 && differing >> shift;) {
		uint32_t histogram[PASSES_PER_SWEEP][RUNG__RADIX_SIZE];
		unsigned shifts[PASSES_PER_SWEEP];
		unsigned passes = 0;

		/* the digits of this sweep: each starts at the lowest differing bit above the
		 * previous digit */
		while (passes < PASSES_PER_SWEEP && shift < 64 && differing >> shift) {
			shift += (unsigned)__builtin_ctzll(differing >> shift);
			shifts[passes++] = shift;
			shift += RUNG__RADIX_BITS;
		}
		memset(histogram, 0, passes * sizeof(histogram[0]));
		for (uint64_t i = 0; i < count; i++) {
			for (unsigned p = 0; p < passes; p++)
				histogram[p][((from.keys[i] & key_mask) >> shifts[p]) &
				             (RUNG__RADIX_SIZE - 1)]++;
		}
		for (unsigned p = 0; p < passes; p++) {
			const struct pairs swap = from;
			/* bits past key_bits are left out of the top digit */
			const uint64_t digit_mask =
				(key_mask >> shifts[p]) & (RUNG__RADIX_SIZE - 1);

			move_by_digit(from, to, count, shifts[p], digit_mask, histogram[p]);
			from = to;
			to = swap;
		}
	}
	return from;
}

static uint64_t mask_of(unsigned key_bits)
{
	assert(key_bits >= 1);
	return key_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << key_bits) - 1;
}

static int is_sorted(const uint64_t *keys, uint64_t count, uint64_t mask)
{
	for (uint64_t i = 1; i < count; i++) {
		if ((keys[i - 1] & mask) > (keys[i] & mask))
			return 0;
	}
	return 1;
}

void rung__radix_sort_pairs(uint64_t *keys, uint32_t *payload, uint64_t *keys_tmp,
                            uint32_t *payload_tmp, uint64_t count, unsigned key_bits)
{
	const struct pairs pairs = { keys, payload };
	struct pairs sorted;

	if (count < INSERTION_MAX) {
		sort_by_insertion(pairs, count, mask_of(key_bits));
		return;
	}
	sorted = sort_by_digits(pairs, (struct pairs){ keys_tmp, payload_tmp }, count,
	                        mask_of(key_bits));
	if (sorted.keys != keys) {
		memcpy(keys, sorted.keys, count * sizeof(*keys));
		memcpy(payload, sorted.payload, count * sizeof(*payload));
	}
}

void rung__radix_sort_keys(uint64_t **keys, uint64_t **keys_tmp, uint64_t count, unsigned key_bits)
{
	const struct pairs alone = { *keys, NULL };

	/* recorded batches are sorted, and are sorted again by every forecast */
	if (is_sorted(*keys, count, mask_of(key_bits)))
		return;
	if (count < INSERTION_MAX) {
		sort_by_insertion(alone, count, mask_of(key_bits));
	} else if (sort_by_digits(alone, (struct pairs){ *keys_tmp, NULL }, count,
	                          mask_of(key_bits))
	                   .keys != *keys) {
		*keys = *keys_tmp;
		*keys_tmp = alone.keys;
	}
}
