/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least-significant-digit radix sort of (key, payload) pairs: all histograms in one pass over the keys, then one
 * counting pass for each digit on which the keys differ. Short inputs are sorted by insertion.
 */
#include "radix.h"

#include <assert.h>
#include <string.h>

#define INSERTION_MAX 64u      /* below this, insertion costs less than clearing one histogram */
#define PASSES_PER_SWEEP 3u    /* histograms kept at once on the stack: 3 * 2048 * 4 bytes */

static void sort_by_insertion(uint64_t *keys, uint32_t *payload, uint64_t count, uint64_t mask)
{
	for (uint64_t i = 1; i < count; i++) {
		const uint64_t key = keys[i];
		const uint32_t value = payload[i];
		uint64_t j = i;

		for (; j > 0 && (keys[j - 1] & mask) > (key & mask); j--) {
			keys[j] = keys[j - 1];
			payload[j] = payload[j - 1];
		}
		keys[j] = key;
		payload[j] = value;
	}
}

struct pairs {
	uint64_t *keys;
	uint32_t *payload;
};

/* `starts` comes in as the histogram of the digit. */
static void move_by_digit(struct pairs from, struct pairs to, uint64_t count, unsigned shift, uint64_t digit_mask,
                          uint32_t *starts)
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
		to.payload[at] = from.payload[i];
	}
}

void rung__radix_sort_pairs(uint64_t *keys, uint32_t *payload, uint64_t *keys_tmp, uint32_t *payload_tmp, uint64_t count,
                            unsigned key_bits)
{
	const uint64_t key_mask = key_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << key_bits) - 1;
	struct pairs from = { keys, payload }, to = { keys_tmp, payload_tmp };
	uint64_t differing = 0;

	assert(key_bits >= 1 && count <= UINT32_MAX);
	if (count < INSERTION_MAX) {
		sort_by_insertion(keys, payload, count, key_mask);
		return;
	}
	for (uint64_t i = 1; i < count; i++)
		differing |= keys[i] ^ keys[0];
	differing &= key_mask;

	for (unsigned shift = 0; shift < 64 && differing >> shift; ) {
		uint32_t histogram[PASSES_PER_SWEEP][RUNG__RADIX_SIZE];
		unsigned shifts[PASSES_PER_SWEEP];
		unsigned passes = 0;

		/* digits of this sweep: each starts at the lowest bit that differs above the last one */
		while (passes < PASSES_PER_SWEEP && shift < 64 && differing >> shift) {
			shift += (unsigned)__builtin_ctzll(differing >> shift);
			shifts[passes++] = shift;
			shift += RUNG__RADIX_BITS;
		}
		memset(histogram, 0, passes * sizeof(histogram[0]));
		for (uint64_t i = 0; i < count; i++) {
			for (unsigned p = 0; p < passes; p++)
				histogram[p][((from.keys[i] & key_mask) >> shifts[p]) & (RUNG__RADIX_SIZE - 1)]++;
		}
		for (unsigned p = 0; p < passes; p++) {
			const struct pairs swap = from;
			/* bits past key_bits are left out of the top digit */
			const uint64_t digit_mask = (key_mask >> shifts[p]) & (RUNG__RADIX_SIZE - 1);

			move_by_digit(from, to, count, shifts[p], digit_mask, histogram[p]);
			from = to;
			to = swap;
		}
	}
	if (from.keys != keys) {
		memcpy(keys, from.keys, count * sizeof(*keys));
		memcpy(payload, from.payload, count * sizeof(*payload));
	}
}
