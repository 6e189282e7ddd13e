/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One read of the refill thread: what it covers, and its life until its rows are in place.
 *
 * Misses come sorted by rank, which is the order of the file, so equal rows are next to each other (read once), and neighbours
 * that touch or share a sector become one read, as far as a slot reaches.
 *
 * Errors. A read that fails or stays short is tried again; a read of several rows is then taken apart and each row read alone, because
 * one bad sector fails everything the block layer merged with it. A row that still fails fails its request, with row, file,
 * offset and errno, and the others go on. A slot is used again only after its read has come back.
 */
#include <stdio.h>
#include <string.h>

#include "refill_internal.h"

#define TRIES_MAX 3u             /* of one read, the first included */
#define PARCELS_OF_ALL_SLOTS 8u  /* parcels that hold all slots */

/* ---- one read: where it lies, what it covers ---- */

static uint64_t row_offset(const struct rung__refill *refill, uint64_t rank)
{
	return refill->geometry.data_offset + rank * refill->geometry.row_stride;
}

/* The read of misses from `first` on, at most to `limit`: all of an equal row, and neighbours while they fit a slot. */
static void cover(const struct rung__refill *refill, struct rung__read *read, uint64_t first, uint64_t limit, bool merge)
{
	const struct rung__misses *misses = &read->request->misses;
	uint64_t align = refill->geometry.align;
	uint64_t row_bytes = refill->geometry.row_bytes;
	uint64_t start = rung__align_down(row_offset(refill, misses->ranks[first]), align);
	uint64_t row_end = row_offset(refill, misses->ranks[first]) + row_bytes;
	uint64_t i = first + 1;

	for (; i < limit; i++) {
		uint64_t offset = row_offset(refill, misses->ranks[i]);

		if (misses->ranks[i] == misses->ranks[i - 1])
			continue;
		if (!merge || rung__align_down(offset, align) > rung__align_up(row_end, align) ||
		    rung__align_up(offset + row_bytes, align) - start > refill->slot_bytes)
			break;
		row_end = offset + row_bytes;
	}
	read->first = first;
	read->end = i;
	read->offset = start;
	if (!read->alone_end)
		read->slot_offset = start;
	read->bytes = (uint32_t)(rung__align_up(row_end, align) - start);
	read->needed = (uint32_t)(row_end - start);
	read->done = 0;
	read->tries = 0;
}

static uint64_t distinct_rows(const struct rung__read *read)
{
	const uint64_t *ranks = read->request->misses.ranks;
	uint64_t distinct = 1;

	for (uint64_t i = read->first + 1; i < read->end; i++)
		distinct += ranks[i] != ranks[i - 1];
	return distinct;
}

/*
 * Rows of a read, which lie in its slot: copied to every output row that asked; for a device listed as (place, output row), or copied to
 * the request's stage in the order of its misses.
 */
static void scatter(const struct rung__refill *refill, const struct rung__read *read, uint32_t slot_idx)
{
	struct rung_request *request = read->request;
	struct rung__misses *misses = &request->misses;
	uint64_t slot_at = (uint64_t)slot_idx * refill->slot_bytes;
	size_t row_bytes = (size_t)refill->geometry.row_bytes;

	for (uint64_t i = read->first; i < read->end; i++) {
		uint64_t from = slot_at + (row_offset(refill, misses->ranks[i]) - read->slot_offset);

		if (request->stage) {
			memcpy(request->stage + i * row_bytes, refill->slots + from, row_bytes);
		} else if (refill->device) {
			misses->ranks_tmp[request->placed] = from;
			misses->rows_tmp[request->placed++] = misses->rows[i];
		} else {
			memcpy(request->out + misses->rows[i] * request->out_stride, refill->slots + from, row_bytes);
		}
	}
}

static void count_read(struct rung__refill *refill, const struct rung__read *read)
{
	struct rung__counters *counters = &refill->store->counters;
	uint64_t distinct = distinct_rows(read);

	rung__count(&counters->device_reads, 1);
	rung__count(&counters->device_read_bytes, read->bytes);
	if (distinct > 1)
		rung__count(&counters->merged_rows, distinct);
	if (read->end - read->first > distinct)
		rung__count(&counters->duplicate_rows, read->end - read->first - distinct);
}

/* ---- a read's life: sent, come back, tried again, over ---- */

void rung__read_over(struct rung__refill *refill, struct rung_request *request)
{
	if (request->reads_pending > 0 || request->cursor < request->misses.count)
		return;
	if (refill->device)
		rung__parcel_send(refill, request, true);
	else
		rung__request_finish(request, request->status);
}

/* Enough for a kernel to be worth its launch, and few enough that reads and copies overlap. */
static bool parcel_is_full(const struct rung__refill *refill, const struct rung_request *request)
{
	return request->held_count >= RUNG__MAX(refill->slot_count / PARCELS_OF_ALL_SLOTS, 1u);
}

/* A read is over. Its slot is free again, unless rows for a device lie in it. */
static void release(struct rung__refill *refill, uint32_t slot_idx)
{
	struct rung_request *request = refill->reads[slot_idx].request;

	refill->reads[slot_idx].request = NULL;
	if (refill->device && !request->stage) {
		refill->slot_next[slot_idx] = request->held_head;
		request->held_head = slot_idx;
		request->held_count++;
		if (parcel_is_full(refill, request))
			rung__parcel_send(refill, request, false);
	} else {
		refill->free_slots[refill->free_count++] = slot_idx;
	}
	request->reads_pending--;
	rung__read_over(refill, request);
}

void rung__parcel_send(struct rung__refill *refill, struct rung_request *request, bool last)
{
	struct rung__parcel *parcel = last ? &request->last_parcel : &refill->parcels[request->held_head];

	*parcel = (struct rung__parcel){
		.request = request,
		.first = request->parcel_first,
		.count = request->placed - request->parcel_first,
		.slot_head = request->held_head,
		.last = last,
	};
	request->parcel_first = request->placed;
	request->held_head = RUNG__SLOT_NONE;
	request->held_count = 0;
	rung__handoff_take(refill->store->handoff, parcel);
}

static void fail_row(struct rung__refill *refill, struct rung__read *read, int32_t result)
{
	const struct rung__geometry *geometry = &refill->geometry;
	uint64_t rank = read->request->misses.ranks[read->first];
	char text[RUNG__ERROR_BYTES];

	if (result < 0)
		snprintf(text, sizeof(text), "%s: row of rank %" PRIu64 " at offset %" PRIu64 ": read failed %u times: %s", geometry->path,
		         rank, row_offset(refill, rank), TRIES_MAX, strerror(-result));
	else if (read->offset + read->done + (uint32_t)result >= geometry->file_bytes || result == 0)
		snprintf(text, sizeof(text), "%s: row of rank %" PRIu64 " at offset %" PRIu64 ": the file ends at %" PRIu64
		         ": it was truncated: run rung verify", geometry->path, rank, row_offset(refill, rank),
		         read->offset + read->done + (uint32_t)result);
	else
		snprintf(text, sizeof(text), "%s: row of rank %" PRIu64 " at offset %" PRIu64 ": %u of %u bytes read after %u tries",
		         geometry->path, rank, row_offset(refill, rank), read->done + (uint32_t)result, read->needed, TRIES_MAX);
	rung__request_fail(read->request, RUNG_E_IO, text);
}

void rung__read_fail_gone(const struct rung__refill *refill, struct rung_request *request)
{
	char text[RUNG__ERROR_BYTES];

	snprintf(text, sizeof(text), "%s: engine %s takes no more reads: %s: close the store and open it again", refill->geometry.path,
	         refill->engine.name, strerror(refill->broken));
	rung__request_fail(request, RUNG_E_IO, text);
}

/* Behind a row read alone: the next one of the read that was taken apart, or the end. */
static void next_alone(struct rung__refill *refill, uint32_t slot_idx)
{
	struct rung__read *read = &refill->reads[slot_idx];

	if (read->end < read->alone_end && read->request->status == 0) {
		cover(refill, read, read->end, read->alone_end, false);
		rung__read_send(refill, slot_idx);
	} else {
		release(refill, slot_idx);
	}
}

static void retry(struct rung__refill *refill, uint32_t slot_idx, int32_t result)
{
	struct rung__read *read = &refill->reads[slot_idx];

	rung__count(&refill->store->counters.retries, 1);
	if (++read->tries < TRIES_MAX && !refill->broken) {
		if (!read->alone_end && distinct_rows(read) > 1) {
			read->alone_end = read->end;
			cover(refill, read, read->first, read->alone_end, false);
		}
		rung__read_send(refill, slot_idx);
		return;
	}
	fail_row(refill, read, result);
	next_alone(refill, slot_idx);
}

bool rung__read_is_whole(const struct rung__refill *refill, const struct rung__fetched *fetched)
{
	const struct rung__read *read = &refill->reads[fetched->token];

	return fetched->result > 0 && read->done + (uint32_t)fetched->result >= read->needed && !read->alone_end;
}

void rung__read_end(struct rung__refill *refill, uint32_t slot_idx, int32_t result)
{
	struct rung__read *read = &refill->reads[slot_idx];

	if (result > 0 && read->done + (uint32_t)result < read->needed) {
		uint32_t whole = (uint32_t)rung__align_down((uint64_t)result, refill->geometry.align);
		uint64_t at = read->offset + read->done + (uint32_t)result;

		if (whole > 0 && at < refill->geometry.file_bytes) {   /* fetch the rest */
			read->done += whole;
			rung__count(&refill->store->counters.retries, 1);
			rung__read_send(refill, slot_idx);
			return;
		}
	}
	if (result <= 0 || read->done + (uint32_t)result < read->needed) {
		retry(refill, slot_idx, result);
		return;
	}
	count_read(refill, read);
	scatter(refill, read, slot_idx);
	next_alone(refill, slot_idx);
}

void rung__read_send(struct rung__refill *refill, uint32_t slot_idx)
{
	const struct rung__read *read = &refill->reads[slot_idx];
	struct rung__fetch fetch = {
		.offset = read->offset + read->done,
		.bytes = read->bytes - read->done,
		.to = (uint64_t)slot_idx * refill->slot_bytes + (read->offset - read->slot_offset) + read->done,
		.token = slot_idx,
	};
	int rc = refill->broken ? -refill->broken : refill->ops->submit(refill->tier, &fetch);

	if (rc == 0) {
		refill->in_flight++;
		return;
	}
	/* The queue has room for every slot in use, so a refusal is the tier's end: the request is told, and nothing is read again. */
	refill->broken = -rc;
	rung__read_fail_gone(refill, read->request);
	release(refill, slot_idx);
}

void rung__read_begin(struct rung__refill *refill, uint32_t slot_idx, struct rung_request *request)
{
	struct rung__read *read = &refill->reads[slot_idx];

	read->request = request;
	read->alone_end = 0;
	cover(refill, read, request->cursor, request->misses.count, refill->merge);
	request->cursor = read->end;
	request->reads_pending++;
}

void rung__reads_give_up(struct rung__refill *refill)
{
	for (uint32_t i = 0; i < refill->slot_count; i++) {
		struct rung_request *request = refill->reads[i].request;

		if (!request)
			continue;
		rung__read_fail_gone(refill, request);
		refill->reads[i].request = NULL;
		request->reads_pending--;
		rung__read_over(refill, request);
	}
	refill->in_flight = 0;
}
