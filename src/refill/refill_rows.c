/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that are in the pool: copied to the output rows that need them, and kept in the cache.
 *
 * A row that the cache keeps is copied from its slot into a frame. On the CPU a row is copied once
 * for each output row, from the slot. For a device it stays where it is until the device has copied
 * it: the part that submitted the read holds the slot, and the others pin the frame.
 */
#include <assert.h>
#include <string.h>

#include "gather/copy.h"
#include "refill/state.h"

#define SLOT_BATCHES_OF_ALL_SLOTS 8u /* a part's slot batch is sent when it has 1/8 of the slots */

/* ---- chains ---- */

void rung__chain_add(const struct rung__refill *refill, struct rung__chain *chain, uint64_t ref)
{
	*rung__miss_ref_link(refill, ref) = RUNG__MISS_REF_NONE;
	if (chain->tail == RUNG__MISS_REF_NONE)
		chain->head = ref;
	else
		*rung__miss_ref_link(refill, chain->tail) = ref;
	chain->tail = ref;
}

uint64_t rung__chain_pop(const struct rung__refill *refill, struct rung__chain *chain)
{
	uint64_t ref = chain->head;

	if (ref == RUNG__MISS_REF_NONE)
		return ref;
	chain->head = *rung__miss_ref_link(refill, ref);
	if (chain->head == RUNG__MISS_REF_NONE)
		chain->tail = RUNG__MISS_REF_NONE;
	return ref;
}

/* ---- placing ---- */

/* Decode one quantized row to each of its output rows. */
static void decode_out(const struct rung_request *request, uint64_t first, uint64_t end,
                       const struct rung__row_form *form, const unsigned char *row)
{
	const struct rung__misses *misses = &request->misses;
	const bool stream =
		rung__streams(request->out, request->out_stride, misses->count * form->out_bytes);

	for (uint64_t i = first; i < end; i++)
		form->decode(form, request->out + misses->rows[i] * request->out_stride, row,
		             stream, row);
}

#if RUNG__HAVE_STREAM
/* Like copy_out(), for an output that is larger than the caches: its stores bypass them. */
__attribute__((target("avx"))) static void stream_out(const struct rung_request *request,
                                                      uint64_t first, uint64_t end,
                                                      const unsigned char *row, size_t row_bytes)
{
	for (uint64_t i = first; i < end; i++)
		rung__copy_streamed(request->out + request->misses.rows[i] * request->out_stride,
		                    row, row_bytes);
}
#endif

/* Copy one row to each of its output rows: those of misses first .. end. */
static void copy_out(const struct rung_request *request, uint64_t first, uint64_t end,
                     const unsigned char *row, size_t row_bytes)
{
	const struct rung__misses *misses = &request->misses;

#if RUNG__HAVE_STREAM
	if (rung__streams(request->out, request->out_stride, misses->count * row_bytes)) {
		stream_out(request, first, end, row, row_bytes);
		return;
	}
#endif
	for (uint64_t i = first; i < end; i++)
		memcpy(request->out + misses->rows[i] * request->out_stride, row, row_bytes);
}

void rung__rows_place(const struct rung__refill *refill, struct rung__part *part, uint64_t first,
                      uint64_t end, uint64_t from)
{
	struct rung_request *request = part->request;
	struct rung__misses *misses = &request->misses;
	const unsigned char *row = refill->store->pool.base + from;
	const struct rung__row_form *form = &refill->store->form;

	if (part->is_ahead)
		return;
	if (!refill->device) {
		if (form->decode)
			decode_out(request, first, end, form, row);
		else
			copy_out(request, first, end, row, (size_t)form->row_bytes);
		return;
	}
	/* placed <= end of the part: a miss is placed once, so parts do not overlap in the lists */
	for (uint64_t i = first; i < end; i++) {
		misses->ranks_tmp[part->placed] = from;
		misses->rows_tmp[part->placed++] = misses->rows[i];
	}
}

/* Count the misses of a reference whose row has been read. */
static void count_ref(struct rung__refill *refill, uint32_t frame, uint64_t misses)
{
	struct rung__refill_counters *counters = refill->counters;

	/* the reference waited for the read of another reference */
	if (frame != RUNG__CACHE_NONE && !(frame & RUNG__KEEPER)) {
		rung__add_own(&counters->joined_rows, misses);
		return;
	}
	rung__add_own(&counters->read_rows, 1);
	if (misses > 1)
		rung__add_own(&counters->duplicate_rows, misses - 1);
}

/* @return the position in the pool from which the reference's row is to be copied */
static uint64_t source_of(const struct rung__refill *refill, const struct rung__read *read,
                          uint64_t ref, uint64_t slot_at)
{
	uint32_t frame = *rung__miss_ref_frame(refill, ref);

	/* only the part that submitted the read holds the slot for the device */
	if (refill->device && frame != RUNG__CACHE_NONE && !(frame & RUNG__KEEPER))
		return rung__frame_at(refill, frame);
	return slot_at +
	       (rung__row_offset(&refill->layout, rung__miss_ref_rank(refill, ref)) - read->base);
}

/* Choose the frames of the rows of a read that the cache keeps. @return true if there are any */
static bool choose_frames(const struct rung__refill *refill, const struct rung__read *read)
{
	bool locked = false, keeps = false;

	for (uint64_t ref = read->refs.head; ref != RUNG__MISS_REF_NONE;
	     ref = *rung__miss_ref_link(refill, ref)) {
		uint32_t *frame = rung__miss_ref_frame(refill, ref);

		if (*frame == RUNG__CACHE_NONE || !(*frame & RUNG__KEEPER))
			continue;
		if (!locked)
			rung__cache_lock(refill->cache);
		locked = true;
		*frame = rung__cache_arrived(refill->cache, *frame & ~RUNG__KEEPER);
		if (*frame == RUNG__CACHE_NONE)
			continue;
		*frame |= RUNG__KEEPER;
		keeps = true;
	}
	if (locked)
		rung__cache_unlock(refill->cache);
	return keeps;
}

/* Copy these rows from the slot to their frames. */
static void keep_rows(const struct rung__refill *refill, const struct rung__read *read,
                      uint64_t slot_at)
{
	unsigned char *pool = refill->store->pool.base;

	for (uint64_t ref = read->refs.head; ref != RUNG__MISS_REF_NONE;
	     ref = *rung__miss_ref_link(refill, ref)) {
		uint32_t frame = *rung__miss_ref_frame(refill, ref);
		uint64_t offset =
			rung__row_offset(&refill->layout, rung__miss_ref_rank(refill, ref));

		if (frame == RUNG__CACHE_NONE || !(frame & RUNG__KEEPER))
			continue;
		memcpy(pool + rung__frame_at(refill, frame & ~RUNG__KEEPER),
		       pool + slot_at + (offset - read->base), (size_t)refill->layout.row_bytes);
	}
}

/*
 * Report filled frames to the cache, and pin those from which the device will copy, once for each
 * waiting reference. A filled frame starts with a pin, which is removed in a second pass, when the
 * pins of the waiting references are there: without any pin another row could replace it at once.
 */
static void fill_frames(struct rung__refill *refill, const struct rung__read *read)
{
	uint64_t ref;

	rung__cache_lock(refill->cache);
	for (ref = read->refs.head; ref != RUNG__MISS_REF_NONE;
	     ref = *rung__miss_ref_link(refill, ref)) {
		uint32_t frame = *rung__miss_ref_frame(refill, ref);

		if (frame != RUNG__CACHE_NONE && (frame & RUNG__KEEPER))
			rung__cache_filled(refill->cache, frame & ~RUNG__KEEPER, refill->device);
		else if (frame != RUNG__CACHE_NONE && refill->device)
			rung__cache_pin(refill->cache, frame);
	}
	for (ref = read->refs.head; refill->device && ref != RUNG__MISS_REF_NONE;
	     ref = *rung__miss_ref_link(refill, ref)) {
		uint32_t frame = *rung__miss_ref_frame(refill, ref);

		if (frame != RUNG__CACHE_NONE && (frame & RUNG__KEEPER))
			rung__cache_unpin(refill->cache, frame & ~RUNG__KEEPER);
	}
	rung__cache_unlock(refill->cache);
}

void rung__rows_arrived(struct rung__refill *refill, struct rung__read *read, uint64_t slot_at)
{
	const bool keeps = choose_frames(refill, read);
	uint64_t ref;

	if (keeps)
		keep_rows(refill, read, slot_at);
	for (ref = read->refs.head; ref != RUNG__MISS_REF_NONE;
	     ref = *rung__miss_ref_link(refill, ref)) {
		struct rung__part *part = rung__miss_ref_part(refill, ref);
		uint64_t first = (uint32_t)ref, from = source_of(refill, read, ref, slot_at);

		rung__rows_place(refill, part, first, rung__run_end(part, first), from);
		if (refill->device && !part->is_ahead && from < refill->store->pool.frames_at)
			read->listed = true;
	}
	if (keeps)
		fill_frames(refill, read);
	/* this comes last: it may complete the part, and no code may use its chains after that */
	while ((ref = rung__chain_pop(refill, &read->refs)) != RUNG__MISS_REF_NONE) {
		struct rung__part *part = rung__miss_ref_part(refill, ref);
		uint64_t misses = rung__run_end(part, (uint32_t)ref) - (uint32_t)ref;

		if (part->is_ahead) {
			rung__add_own(&refill->counters->ahead_rows, 1);
			rung__refill_ahead_end(refill, ref);
			continue;
		}
		count_ref(refill, *rung__miss_ref_frame(refill, ref), misses);
		rung__part_touch(refill, part, misses);
	}
}

/* ---- failing ---- */

void rung__rows_failed(struct rung__refill *refill, struct rung__chain *refs, int status,
                       const char *text)
{
	uint64_t ref;

	while ((ref = rung__chain_pop(refill, refs)) != RUNG__MISS_REF_NONE) {
		struct rung__part *part = rung__miss_ref_part(refill, ref);
		uint64_t misses = rung__run_end(part, (uint32_t)ref) - (uint32_t)ref;
		uint32_t frame = *rung__miss_ref_frame(refill, ref);

		if (!part->is_ahead)
			rung__request_fail(part->request, status, text);
		/* the keeper owns the frame; a reference that waited does not */
		if (frame != RUNG__CACHE_NONE && (frame & RUNG__KEEPER)) {
			rung__cache_lock(refill->cache);
			rung__cache_failed(refill->cache, frame & ~RUNG__KEEPER);
			rung__cache_unlock(refill->cache);
		}
		if (part->is_ahead) {
			rung__refill_ahead_end(refill, ref);
			continue;
		}
		rung__add_own(&refill->counters->failed_rows, misses);
		rung__part_touch(refill, part, misses);
	}
}

/* ---- finished parts, and slot batches ---- */

void rung__slot_hold(struct rung__refill *refill, struct rung__part *part, uint32_t token)
{
	refill->reads[token].held = true;
	refill->slot_next[token] = part->held_head;
	part->held_head = token;
	if (part->held_count++ == 0)
		rung__queue_push_first(&refill->holding, &part->held_link);
	/* enough slots for a kernel to be worth its launch, and few enough that reads and copies
	 * overlap */
	if (part->held_count >= RUNG__MAX(refill->slot_count / SLOT_BATCHES_OF_ALL_SLOTS, 1u))
		rung__slot_batch_send(refill, part, false);
}

void rung__slot_batch_send(struct rung__refill *refill, struct rung__part *part, bool last)
{
	struct rung__slot_batch *slot_batch =
		last ? &part->last_slot_batch : &refill->slot_batches[part->held_head];

	/* a slot batch is stored at the first slot of its chain, or in the part: neither is used
	 * again before the device thread has released it */
	assert(!rung__is_linked(&slot_batch->link));
	*slot_batch = (struct rung__slot_batch){
		.part = part,
		.first = part->slot_batch_first,
		.count = part->placed - part->slot_batch_first,
		.slot_head = part->held_head,
		.last = last,
	};
	if (part->held_count > 0)
		rung__queue_remove(&refill->holding, &part->held_link);
	part->slot_batch_first = part->placed;
	part->held_head = RUNG__SLOT_NONE;
	part->held_count = 0;
	rung__device_thread_add(refill->store, slot_batch);
}

void rung__parts_complete(struct rung__refill *refill)
{
	struct rung__queue touched = { NULL };
	struct rung__part *part;

	/* the caller of a complete request may read the counters at once */
	rung__show_in_flight(refill);
	rung__queue_join(&touched, &refill->touched);
	/* streaming stores are not ordered by the release store that completes a request */
	if (!rung__queue_is_empty(&touched))
		rung__copy_fence();
	while ((part = RUNG__ENTRY(rung__queue_pop(&touched), struct rung__part, touched_link)) !=
	       NULL) {
		struct rung_request *request = part->request;
		bool last;

		if (part->pending > 0 || part->cursor < part->end)
			continue;
		/* the last of several refill threads completes the request; the request's batch
		 * ends before that, because request->batch is overwritten when the request is
		 * reused */
		last = atomic_fetch_sub(&request->parts_left, 1) == 1;
		if (last && refill->cache)
			rung__cache_end(refill->cache, request->batch);
		if (refill->device)
			rung__slot_batch_send(refill, part, true);
		else if (last)
			rung__request_finish(request, request->status);
	}
}
