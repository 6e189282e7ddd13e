/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded batches. */
#include <string.h>

#include "plan/record.h"
#include "sort/radix.h"

/* Ensure space for one more item; the capacity doubles. */
static int reserve(uint64_t **items, uint64_t *capacity, uint64_t count)
{
	const uint64_t wanted = RUNG__MAX(2 * *capacity, 1024u);
	uint64_t *grown;

	if (count < *capacity)
		return 0;
	grown = rung__realloc_array(*items, wanted, sizeof(*grown));
	if (!grown)
		return rung__fail(RUNG_E_NOMEM,
		                  "forecast: no memory for %" PRIu64 " ids of sampled batches",
		                  wanted);
	*items = grown;
	*capacity = wanted;
	return 0;
}

int rung__record_add(void *ctx, uint64_t id)
{
	struct rung__record *record = ctx;
	const int rc = reserve(&record->ids, &record->capacity, record->count);

	if (rc == 0)
		record->ids[record->count++] = id;
	return rc;
}

int rung__record_end(struct rung__record *record)
{
	const int rc = reserve(&record->ends, &record->batches_capacity, record->batches);

	if (rc == 0)
		record->ends[record->batches++] = record->count;
	return rc;
}

int rung__record_sorted(struct rung__record *record, const uint64_t *ids, uint64_t count)
{
	uint64_t *sorted, *scratch = rung__malloc_array(count ? count : 1, sizeof(*scratch));
	uint64_t *const allocated = scratch, *added;
	int rc = scratch ? 0
	                 : rung__fail(RUNG_E_NOMEM,
	                              "forecast: no memory for a batch of %" PRIu64 " rows", count);

	for (uint64_t i = 0; i < count && rc == 0; i++)
		rc = rung__record_add(record, ids[i]);
	if (rc == 0 && count > 0) {
		added = sorted = record->ids + record->count - count;
		rung__radix_sort_keys(&sorted, &scratch, count, 64);
		if (sorted != added)
			memcpy(added, sorted, count * sizeof(*added));
	}
	rung__free(allocated);
	return rc < 0 ? rc : rung__record_end(record);
}

int rung__record_distinct(struct rung__record *record, const uint64_t *ids, uint64_t count)
{
	const uint64_t first = record->count;
	const int rc = rung__record_sorted(record, ids, count);
	uint64_t kept = first;

	if (rc < 0)
		return rc;
	for (uint64_t i = first; i < record->count; i++) {
		if (kept == first || record->ids[kept - 1] != record->ids[i])
			record->ids[kept++] = record->ids[i];
	}
	record->count = record->ends[record->batches - 1] = kept;
	return 0;
}

struct rung__record rung__record_first(const struct rung__record *record, uint64_t batches)
{
	struct rung__record first = *record;

	first.batches = RUNG__MIN(batches, record->batches);
	first.count = first.batches ? record->ends[first.batches - 1] : 0;
	first.next = 0;
	return first;
}

int rung__record_next(void *ctx, const uint64_t **ids_out, uint64_t *count_out)
{
	struct rung__record *record = ctx;
	const uint64_t first = record->next ? record->ends[record->next - 1] : 0;

	if (record->next == record->batches) {
		record->next = 0;
		return 0;
	}
	*ids_out = record->ids + first;
	*count_out = record->ends[record->next++] - first;
	return 1;
}

void rung__record_fini(struct rung__record *record)
{
	rung__free(record->ids);
	rung__free(record->ends);
}
