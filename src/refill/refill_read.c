/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a read: it is submitted, completed, retried, split and finished.
 *
 * Errors. A read that fails or stays short is retried; a read of several rows is then split and
 * each row is read alone, because one bad sector fails everything the block layer merged with it.
 * If a row still fails, the requests that need it fail, with row, file, offset and errno; the
 * others continue. A read that does not complete in time also fails its requests; its slot is
 * reused only when it has completed after all, because the kernel may write to it until then.
 *
 * A token names one read at a time. It is in use (`busy`) from the submission until its last row is
 * copied or has failed, also between the single reads of a split read. Its slot can be held longer,
 * for a device.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "refill/state.h"

#define TRIES_MAX 3u /* attempts per read, including the first */
/* bytes of a completed read to prefetch: the hardware prefetcher continues from there */
#define ASK_BYTES 512u
/* longest time that other work waits for a read */
#define SLOW_NS 100000000ull

const char rung__closed_text[] = "the store was closed while the request was in flight";

/* Offset of a reference's row in the file. */
static uint64_t row_offset(const struct rung__refill *refill, uint64_t ref)
{
	return rung__row_offset(&refill->layout, rung__miss_ref_rank(refill, ref));
}

/* Count a read whose rows have arrived. */
static void count_read(struct rung__refill *refill, const struct rung__read *read)
{
	struct rung__refill_counters *counters = refill->counters;

	rung__add_own(&counters->device_reads, 1);
	rung__add_own(&counters->device_read_bytes, read->bytes);
	rung__add_own(&counters->read_ns, read->seen_ns - read->sent_ns);
	if (read->rows > 1)
		rung__add_own(&counters->merged_rows, read->rows);
	rung__add_own(&counters->phases[RUNG_READ_PHASE_DEVICE]
	                               [rung__latency_bucket(read->seen_ns - read->sent_ns)],
	              1);
}

/* Count the time from the completion to the end of the copy. Also update now_ns. */
static void count_copy(struct rung__refill *refill, const struct rung__read *read)
{
	uint64_t now_ns = rung__now_ns();

	rung__add_own(&refill->counters->phases[RUNG_READ_PHASE_COPY]
	                                       [rung__latency_bucket(now_ns - read->seen_ns)],
	              1);
	refill->now_ns = now_ns;
}

/* Free the token, unless its slot has rows for a device. */
static void release(struct rung__refill *refill, uint32_t token)
{
	struct rung__read *read = &refill->reads[token];

	read->busy = false;
	if (read->listed && read->part)
		rung__slot_hold(refill, read->part, token);
	else if (!read->held)
		rung__token_free(refill, token);
}

/* ---- failures ---- */

const char *rung__refill_where(const struct rung__refill *refill, char text[RUNG__MOUNT_TEXT_BYTES])
{
	return rung__mount_text("", refill->geometry.device, refill->geometry.path, text);
}

const char *rung__refill_cure(const struct rung__refill *refill)
{
	return rung__mount_cure("", refill->geometry.device);
}

/* Write the message for a row that could not be read. `result`: from the reader, bytes or
 * -errno. */
static void report_row(const struct rung__refill *refill, const struct rung__read *read,
                       int32_t result, char text[RUNG__ERROR_BYTES])
{
	uint64_t ref = read->refs.head, rank = rung__miss_ref_rank(refill, ref),
		 offset = row_offset(refill, ref);
	const char *path = refill->geometry.path;
	char mount[RUNG__MOUNT_TEXT_BYTES];
	const char *where = rung__refill_where(refill, mount);
	uint64_t ended = read->offset + read->done + (result > 0 ? (uint32_t)result : 0);

	if (result < 0)
		snprintf(text, RUNG__ERROR_BYTES,
		         "%s%s: %s %" PRIu64 " at offset %" PRIu64 ": read failed %u times: %s%s",
		         path, where, rung__row_noun(&refill->layout), rank, offset, read->tries,
		         strerror(-result), rung__refill_cure(refill));
	else if (ended >= refill->geometry.file_bytes || result == 0)
		snprintf(text, RUNG__ERROR_BYTES,
		         "%s%s: %s %" PRIu64 " at offset %" PRIu64 ": the file ends at %" PRIu64
		         " or before: it was truncated; run rung verify",
		         path, where, rung__row_noun(&refill->layout), rank, offset, ended);
	else
		snprintf(text, RUNG__ERROR_BYTES,
		         "%s%s: %s %" PRIu64 " at offset %" PRIu64
		         ": %u of %u bytes read after %u tries",
		         path, where, rung__row_noun(&refill->layout), rank, offset,
		         read->done + (uint32_t)result, read->needed, read->tries);
}

static void report_gone(const struct rung__refill *refill, char text[RUNG__ERROR_BYTES])
{
	char where[RUNG__MOUNT_TEXT_BYTES];

	snprintf(text, RUNG__ERROR_BYTES,
	         "%s%s: engine %s accepts no more reads: %s; close the store and open it again",
	         refill->geometry.path, rung__refill_where(refill, where), refill->engine.name,
	         strerror(refill->broken));
}

void rung__read_fail_gone(const struct rung__refill *refill, struct rung_request *request)
{
	char text[RUNG__ERROR_BYTES];

	report_gone(refill, text);
	rung__request_fail(request, RUNG_E_IO, text);
}

/* Fail the requests of a read and of the rows that were to be read after it. */
static void lose(struct rung__refill *refill, struct rung__read *read, int status, const char *text)
{
	rung__rows_failed(refill, &read->refs, status, text);
	rung__rows_failed(refill, &read->rest, status, text);
}

/* ---- rows read alone ---- */

/* Move the references of one rank from a chain to another; both keep their order. */
static void move_equal(const struct rung__refill *refill, struct rung__chain *from,
                       struct rung__chain *to, uint64_t rank)
{
	struct rung__chain all = *from;
	uint64_t ref;

	rung__chain_clear(from);
	while ((ref = rung__chain_pop(refill, &all)) != RUNG__MISS_REF_NONE)
		rung__chain_add(refill, rung__miss_ref_rank(refill, ref) == rank ? to : from, ref);
}

/* False if every request that waits for the rows has failed: more reads would only delay others, or
 * a close. */
static bool is_wanted(const struct rung__refill *refill, const struct rung__chain *refs)
{
	for (uint64_t ref = refs->head; ref != RUNG__MISS_REF_NONE;
	     ref = *rung__miss_ref_link(refill, ref)) {
		if (rung__miss_ref_request(refill, ref)->status == 0)
			return true;
	}
	return false;
}

/* Prepare the read of the next row of a split read. Rows that no request waits for any more are
 * failed without a read. @return false: no row is left */
static bool next_alone(struct rung__refill *refill, uint32_t token)
{
	struct rung__read *read = &refill->reads[token];
	uint64_t align = refill->geometry.align, offset, row_end;

	while (read->refs.head == RUNG__MISS_REF_NONE) {
		if (read->rest.head == RUNG__MISS_REF_NONE)
			return false;
		move_equal(refill, &read->rest, &read->refs,
		           rung__miss_ref_rank(refill, read->rest.head));
		if (refill->stop || !is_wanted(refill, &read->refs))
			rung__rows_failed(refill, &read->refs, RUNG_E_CANCELED, rung__closed_text);
	}
	offset = row_offset(refill, read->refs.head);
	row_end = offset + refill->layout.row_bytes;
	read->offset = rung__align_down(offset, align);
	read->bytes = (uint32_t)(rung__align_up(row_end, align) - read->offset);
	read->needed = rung__bytes_needed(refill, read, row_end);
	read->rows = 1;
	read->done = 0;
	read->tries = 1; /* the read of all rows was the first attempt */
	return true;
}

/* After a read: send the next row of a split read, or finish. */
static void resume(struct rung__refill *refill, uint32_t token)
{
	if (next_alone(refill, token))
		rung__read_send(refill, token);
	else
		release(refill, token);
}

/* A read failed, or brought nothing new: split it, send it again, or fail its rows. */
static void retry(struct rung__refill *refill, uint32_t token, int32_t result)
{
	struct rung__read *read = &refill->reads[token];
	char text[RUNG__ERROR_BYTES];

	rung__add_own(&refill->counters->retries, 1);
	/* it is not retried as a whole, because a single row can be the cause of the error */
	if (read->rows > 1 && !refill->broken) {
		read->apart = true;
		read->rest = read->refs;
		rung__chain_clear(&read->refs);
		resume(refill, token);
		return;
	}
	if (read->apart) /* references to this row that were added to the chain since then */
		move_equal(refill, &read->rest, &read->refs,
		           rung__miss_ref_rank(refill, read->refs.head));
	if (++read->tries < TRIES_MAX && !refill->broken && !refill->stop &&
	    is_wanted(refill, &read->refs)) {
		rung__read_send(refill, token);
		return;
	}
	report_row(refill, read, result, text);
	rung__rows_failed(refill, &read->refs, RUNG_E_IO, text);
	resume(refill, token);
}

void rung__read_prefetch(const struct rung__refill *refill, uint32_t token)
{
	const struct rung__read *read = &refill->reads[token];
	const unsigned char *from = refill->store->pool.base + rung__slot_at(refill, token) +
	                            (read->offset - read->base);

	for (uint32_t at = 0; at < read->bytes && at < ASK_BYTES; at += 64)
		__builtin_prefetch(from + at, 0, 0);
}

bool rung__read_is_whole(const struct rung__refill *refill, const struct rung__fetched *fetched)
{
	const struct rung__read *read = &refill->reads[fetched->token];

	assert(fetched->token < refill->slot_count && read->sent);
	assert(fetched->result <=
	       /* the result never exceeds the requested bytes */
	       (int64_t)(read->bytes - read->done));
	return fetched->result > 0 && read->done + (uint32_t)fetched->result >= read->needed &&
	       !read->apart;
}

void rung__read_end(struct rung__refill *refill, const struct rung__fetched *fetched)
{
	struct rung__read *read = &refill->reads[fetched->token];
	int32_t result = fetched->result;

	read->sent = false;
	if (read->slow)
		refill->slow_count--;
	read->slow = false;
	read->seen_ns = refill->now_ns;
	if (!read->part) { /* abandoned, because its timeout had passed: its requests have failed */
		release(refill, fetched->token);
		return;
	}
	if (result > 0 && read->done + (uint32_t)result < read->needed) {
		/* O_DIRECT can continue only at a sector */
		uint32_t whole =
			(uint32_t)rung__align_down((uint64_t)result, refill->geometry.align);
		uint64_t at = read->offset + read->done + (uint32_t)result;

		if (whole > 0 && at < refill->geometry.file_bytes) { /* read the remaining bytes */
			read->done += whole;
			rung__add_own(&refill->counters->retries, 1);
			rung__read_send(refill, fetched->token);
			return;
		}
	}
	if (result <= 0 || read->done + (uint32_t)result < read->needed) {
		retry(refill, fetched->token, result);
		return;
	}
	count_read(refill, read);
	if (read->apart)
		move_equal(refill, &read->rest, &read->refs,
		           rung__miss_ref_rank(refill, read->refs.head));
	rung__rows_arrived(refill, read, rung__slot_at(refill, fetched->token));
	count_copy(refill, read);
	resume(refill, fetched->token);
}

/* ---- sending ---- */

void rung__read_send(struct rung__refill *refill, uint32_t token)
{
	struct rung__read *read = &refill->reads[token];
	struct rung__fetch fetch = {
		.offset = read->offset + read->done,
		.to = rung__slot_at(refill, token) + (read->offset - read->base) + read->done,
		.bytes = read->bytes - read->done,
		.token = token,
	};
	char text[RUNG__ERROR_BYTES];
	int rc;

	assert(!read->sent && fetch.to + fetch.bytes <= refill->store->pool.bytes);
	rc = refill->broken ? -refill->broken : refill->ops->submit(refill->reader, &fetch);
	read->busy = true;
	read->sent_ns = read->since_ns = refill->now_ns;
	/* counted once per token: a split read counts as early until its token is free */
	if (!read->early && read->part && rung__part_is_early(read->part)) {
		read->early = true;
		refill->early_count++;
	}
	if (rc == 0) {
		read->sent = true;
		refill->in_flight++;
		return;
	}
	/* The queue has space for every token, so a refusal means that the reader has failed: fail
	 * the waiting requests, and read nothing again. */
	refill->broken = -rc;
	report_gone(refill, text);
	lose(refill, read, RUNG_E_IO, text);
	release(refill, token);
}

/* ---- reads that do not complete ---- */

/* Fail the requests that wait for a read. The read itself stays in flight, without a part. */
static void abandon(struct rung__refill *refill, uint32_t token, const char *text)
{
	struct rung__read *read = &refill->reads[token];
	struct rung__part *part = read->part;

	read->part = NULL;
	lose(refill, read, RUNG_E_IO, text);
	/* split read: rows that have arrived already must still be copied from the slot */
	if (read->listed)
		rung__slot_hold(refill, part, token);
}

bool rung__reads_check_late(struct rung__refill *refill, uint64_t forgiven_ns)
{
	uint32_t late = 0;

	for (uint32_t token = 0; token < refill->slot_count; token++) {
		struct rung__read *read = &refill->reads[token];
		char text[RUNG__ERROR_BYTES], where[RUNG__MOUNT_TEXT_BYTES];
		uint64_t age_ns;

		if (!read->sent)
			continue;
		read->since_ns = RUNG__MIN(read->since_ns + forgiven_ns, refill->now_ns);
		age_ns = refill->now_ns - read->since_ns;
		if (!read->slow && age_ns > RUNG__MIN(SLOW_NS, refill->timeout_ns)) {
			read->slow = true;
			refill->slow_count++;
		}
		if (age_ns <= refill->timeout_ns)
			continue;
		late++;
		if (!read->part)
			continue;
		snprintf(text, sizeof(text),
		         "%s%s: %s %" PRIu64 " at offset %" PRIu64
		         ": the read has not completed in %" PRIu64 " ms: %s%s",
		         refill->geometry.path, rung__refill_where(refill, where),
		         rung__row_noun(&refill->layout),
		         rung__miss_ref_rank(refill, read->refs.head),
		         row_offset(refill, read->refs.head), refill->timeout_ns / 1000000u,
		         strerror(ETIMEDOUT), rung__refill_cure(refill));
		abandon(refill, token, text);
	}
	return late > 0 && late == refill->in_flight;
}

void rung__reads_abandon(struct rung__refill *refill)
{
	char text[RUNG__ERROR_BYTES];

	report_gone(refill, text);
	for (uint32_t token = 0; token < refill->slot_count; token++) {
		struct rung__read *read = &refill->reads[token];

		if (read->sent && read->part)
			abandon(refill, token, text);
		read->sent = read->slow = false;
	}
	/* the memory of the pool then outlives the store */
	refill->lost = refill->in_flight > 0;
	refill->in_flight = refill->slow_count = 0;
}
