/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hits that a trace has to give: to the static order, and to a cache that knows the whole trace.
 *
 * Belady, "A study of replacement algorithms for a virtual-storage computer", 1966: what is wanted again last goes first. A row that came
 * in need not be kept, so it competes with those that are there. Rows of a batch are taken in ascending order, each once.
 */
#include <stdlib.h>
#include <string.h>

#include "cold.h"

#define NEVER UINT64_MAX

struct use {
	uint64_t next;   /* place in the trace at which it is wanted again */
	uint64_t rank;
};

/* The latest next use on top; entries that are out of date are left in it until they get there. */
struct heap {
	struct use *uses;
	uint64_t count;
};

static void push(struct heap *heap, struct use use)
{
	uint64_t i = heap->count++;

	for (; i > 0 && heap->uses[(i - 1) / 2].next < use.next; i = (i - 1) / 2)
		heap->uses[i] = heap->uses[(i - 1) / 2];
	heap->uses[i] = use;
}

static void pop(struct heap *heap)
{
	struct use last = heap->uses[--heap->count];
	uint64_t i = 0, child;

	while ((child = 2 * i + 1) < heap->count) {
		child += child + 1 < heap->count && heap->uses[child + 1].next > heap->uses[child].next;
		if (heap->uses[child].next <= last.next)
			break;
		heap->uses[i] = heap->uses[child];
		i = child;
	}
	heap->uses[i] = last;
}

static int by_rank(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void *allocate(uint64_t count, size_t bytes)
{
	void *memory = calloc(count + 1, bytes);

	if (!memory)
		bench_die("out of memory");
	return memory;
}

struct sequence {
	uint64_t *ranks;
	uint64_t *next;
	uint64_t count;
	uint64_t from;     /* those before it are not counted */
	uint64_t rank_end; /* above every rank */
};

static void put_in_sequence(const struct cold_batch *batches, uint64_t batch_count, uint64_t from, struct sequence *seq)
{
	uint64_t total = 0;

	for (uint64_t b = 0; b < batch_count; b++)
		total += batches[b].count;
	*seq = (struct sequence){ .ranks = allocate(total, 8), .next = allocate(total, 8) };
	for (uint64_t b = 0; b < batch_count; b++) {
		uint64_t first = seq->count;

		if (b == from)
			seq->from = first;
		memcpy(seq->ranks + first, batches[b].ranks, batches[b].count * 8);
		qsort(seq->ranks + first, batches[b].count, 8, by_rank);
		for (uint64_t i = first; i < first + batches[b].count; i++) {
			if (seq->count == first || seq->ranks[i] != seq->ranks[seq->count - 1])
				seq->ranks[seq->count++] = seq->ranks[i];
		}
		if (seq->count > first && seq->ranks[seq->count - 1] >= seq->rank_end)
			seq->rank_end = seq->ranks[seq->count - 1] + 1;
	}
}

static uint64_t find_next_uses(struct sequence *seq)
{
	uint64_t *last = allocate(seq->rank_end, 8), distinct = 0;

	for (uint64_t i = seq->count; i-- > 0;) {
		uint64_t later = last[seq->ranks[i]];

		seq->next[i] = later ? later - 1 : NEVER;
		distinct += !later;
		last[seq->ranks[i]] = i + 1;
	}
	free(last);
	return distinct;
}

static uint64_t belady_hits(const struct sequence *seq, uint64_t capacity)
{
	uint64_t *kept = allocate(seq->rank_end, 8);   /* the next use of a row that is in the cache, else 0 */
	struct heap heap = { allocate(seq->count, sizeof(struct use)), 0 };
	uint64_t used = 0, hits = 0;

	for (uint64_t i = 0; i < seq->count; i++) {
		struct use use = { seq->next[i], seq->ranks[i] };

		if (kept[use.rank]) {
			hits += i >= seq->from;
			kept[use.rank] = 0;
			used--;
		}
		if (use.next == NEVER || capacity == 0)
			continue;
		while (used == capacity && kept[heap.uses[0].rank] != heap.uses[0].next)
			pop(&heap);
		if (used == capacity && heap.uses[0].next <= use.next)
			continue;
		if (used == capacity) {
			kept[heap.uses[0].rank] = 0;
			pop(&heap);
			used--;
		}
		kept[use.rank] = use.next;
		push(&heap, use);
		used++;
	}
	free(heap.uses);
	free(kept);
	return hits;
}

void cold_count(const struct cold_batch *batches, uint64_t batch_count, uint64_t from, uint64_t resident, uint64_t capacity,
                struct cold_counts *counts_out)
{
	struct sequence seq;

	put_in_sequence(batches, batch_count, from, &seq);
	*counts_out = (struct cold_counts){ .rows = seq.count - seq.from, .distinct_rows = find_next_uses(&seq) };
	for (uint64_t i = seq.from; i < seq.count; i++)
		counts_out->static_hits += seq.ranks[i] < resident + capacity;
	counts_out->belady_hits = belady_hits(&seq, capacity);
	free(seq.ranks);
	free(seq.next);
}
