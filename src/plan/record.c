/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded batches. */
#include "plan/record.h"

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
