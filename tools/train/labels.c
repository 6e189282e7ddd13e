/* SPDX-License-Identifier: Apache-2.0 */
/* Position of a member among the values: the members before its group of words, plus the bits
 * before it in the group. */
#include "labels.h"

#include <stdlib.h>
#include <string.h>

#include <rung/rung.h>

#define WORD_BITS   64u
#define GROUP_WORDS 8u /* a cache line of bits for each 8 bytes of `before` */

static uint64_t word_count(uint64_t vertex_count)
{
	const uint64_t group_bits = (uint64_t)WORD_BITS * GROUP_WORDS;

	return (vertex_count / group_bits + 1) * GROUP_WORDS;
}

int train_labels_init(struct train_labels *labels, uint64_t vertex_count)
{
	*labels = (struct train_labels){ .vertex_count = vertex_count };
	labels->members = calloc(word_count(vertex_count), sizeof(*labels->members));
	return labels->members ? 0 : RUNG_E_NOMEM;
}

void train_labels_fini(struct train_labels *labels)
{
	free(labels->members);
	free(labels->before);
	free(labels->values);
	*labels = (struct train_labels){ 0 };
}

int train_labels_add(struct train_labels *labels, uint64_t rank)
{
	uint64_t *word = &labels->members[rank / WORD_BITS];
	const uint64_t bit = UINT64_C(1) << (rank % WORD_BITS);

	if (*word & bit)
		return 0;
	*word |= bit;
	labels->member_count++;
	return 1;
}

int train_labels_alloc(struct train_labels *labels)
{
	const uint64_t words = word_count(labels->vertex_count);
	uint64_t before = 0;

	labels->before = malloc(words / GROUP_WORDS * sizeof(*labels->before));
	labels->values = malloc((labels->member_count + 1) * sizeof(*labels->values));
	if (!labels->before || !labels->values)
		return RUNG_E_NOMEM;
	for (uint64_t w = 0; w < words; w++) {
		if (w % GROUP_WORDS == 0)
			labels->before[w / GROUP_WORDS] = before;
		before += (uint64_t)__builtin_popcountll(labels->members[w]);
	}
	memset(labels->values, 0xff, labels->member_count * sizeof(*labels->values)); /* all -1 */
	return 0;
}

int32_t *train_labels_at(const struct train_labels *labels, uint64_t rank)
{
	const uint64_t word = rank / WORD_BITS, bit = UINT64_C(1) << (rank % WORD_BITS);
	uint64_t position = labels->before[word / GROUP_WORDS];

	if (!(labels->members[word] & bit))
		return NULL;
	for (uint64_t w = word - word % GROUP_WORDS; w < word; w++)
		position += (uint64_t)__builtin_popcountll(labels->members[w]);
	position += (uint64_t)__builtin_popcountll(labels->members[word] & (bit - 1));
	return labels->values + position;
}
