/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From misses to reads.
 *
 * Misses are sorted by rank, which is the order of the file, so equal rows are next to each other
 * (read once), and rows near each other become one read. A device completes a fixed number of reads
 * per second up to its bandwidth, so bytes between two rows are worth reading if they take no
 * longer than another read (merge_gap_bytes).
 *
 * Each row is looked up in the cache once. It is cached, it is being read, or it must be read. A
 * miss of a row that this thread is already reading waits for that read, whichever request it
 * belongs to; a row that another process reads is looked up again later (rung__remote_poll()).
 */
#include "refill/state.h"

/* at most this many rows found in the cache are pinned at a time, until they are copied */
#define HITS_MAX  64u
#define POLLS_MAX 256u   /* rows looked up before the cache's lock is released to others */
#define REMOTE_NS 100000 /* interval of checks of rows that another process reads */
/* longest wait for such rows: after that the process that reads them counts as stopped, and they
 * are read here */
#define LATE_NS 80000000u

/* A row found in the cache: misses first .. end, and its frame, which is pinned. */
struct hit {
	uint64_t first, end;
	uint32_t frame;
};

/* State of one step: the read that is being prepared, and the cached rows that were found before it
 * was complete. */
struct plan {
	struct rung__refill *refill;
	struct rung__part *part;
	struct rung__read *read;
	uint32_t token;
	uint64_t row_end; /* end of the read's last row in the file */
	bool waited;      /* LATE_NS have passed for a row that another process reads */
	struct hit hits[HITS_MAX];
	uint32_t hit_count;
};

/* Whether the row can be part of the read. Rows that turn out to be cached do not break a read: the
 * next row is compared with the last one that joined. */
static bool joins(const struct plan *plan, uint64_t rank)
{
	const struct rung__refill *refill = plan->refill;

	return plan->read->rows == 0 ||
	       rung__row_joins(&refill->rule, plan->read->offset, plan->row_end,
	                       rung__row_offset(&refill->layout, rank));
}

uint64_t rung__read_add(struct rung__refill *refill, struct rung__read *read, uint64_t ref,
                        uint32_t frame)
{
	uint64_t offset = rung__row_offset(&refill->layout, rung__miss_ref_rank(refill, ref));

	if (read->rows++ == 0)
		read->offset = read->base = rung__align_down(offset, refill->geometry.align);
	*rung__miss_ref_frame(refill, ref) = frame;
	rung__chain_add(refill, &read->refs, ref);
	return offset + refill->layout.row_bytes;
}

/* Add a row to the read that is being prepared. */
static void add_row(struct plan *plan, uint64_t ref, uint32_t frame)
{
	plan->row_end = rung__read_add(plan->refill, plan->read, ref, frame);
}

/*
 * Wait for a read of this thread that is in flight. If it is split, the row may be one that is read
 * later.
 * @return false: the token is not such a read, or the read was abandoned. The token comes from the
 * index of the cache, which other processes can write to.
 */
static bool wait_for_read(const struct plan *plan, const struct rung__cache_slot *slot,
                          uint64_t ref)
{
	struct rung__refill *refill = plan->refill;
	struct rung__read *read;

	if (slot->reader >= refill->slot_count || slot->reader == plan->token ||
	    !refill->reads[slot->reader].busy || !refill->reads[slot->reader].part)
		return false;
	read = &refill->reads[slot->reader];
	*rung__miss_ref_frame(refill, ref) = slot->frame;
	rung__chain_add(refill, read->apart ? &read->rest : &read->refs, ref);
	return true;
}

/* Add a row to the part's list of rows that another process reads. */
static void wait_remote(struct rung__refill *refill, struct rung__part *part, uint64_t ref)
{
	if (part->remote == RUNG__MISS_REF_NONE) {
		part->remote_ns = refill->now_ns;
		rung__queue_push_first(&refill->remote, &part->remote_link);
	}
	/* the entry still has a frame of an earlier request, which a failure would release */
	*rung__miss_ref_frame(refill, ref) = RUNG__CACHE_NONE;
	*rung__miss_ref_link(refill, ref) = part->remote;
	part->remote = ref;
}

/* Look up the row of misses first .. end, and decide how it is served. The cache is locked, if
 * there is one. */
static void look_up_row(struct plan *plan, uint64_t first, uint64_t end)
{
	struct rung__refill *refill = plan->refill;
	struct rung__cache_slot slot = { RUNG__CACHE_NONE, 0 };
	enum rung__cache_lookup found = RUNG__CACHE_PASS;
	uint64_t ref = rung__miss_ref(plan->part, first), rank = rung__miss_ref_rank(refill, ref),
		 batch = plan->part->request->batch;

	if (refill->cache)
		found = rung__cache_look_up(refill->cache, batch, rank, plan->token, &slot);
	/* from now on the cache answers LATE for all rows of that process, until it completes a
	 * read: each process is waited for once */
	if (found == RUNG__CACHE_REMOTE && plan->waited) {
		rung__cache_late(refill->cache, slot.reader);
		found = rung__cache_look_up(refill->cache, batch, rank, plan->token, &slot);
	}
	switch (found) {
	case RUNG__CACHE_HIT:
		plan->hits[plan->hit_count++] = (struct hit){ first, end, slot.frame };
		break;
	case RUNG__CACHE_READING:
		/* if the read cannot be joined, read the row once more, without keeping it in the
		 * cache */
		if (!wait_for_read(plan, &slot, ref))
			add_row(plan, ref, RUNG__CACHE_NONE);
		break;
	case RUNG__CACHE_REMOTE:
		wait_remote(refill, plan->part, ref);
		break;
	case RUNG__CACHE_KEEP:
		add_row(plan, ref, slot.frame | RUNG__KEEPER);
		break;
	case RUNG__CACHE_LATE:
		rung__add_own(&refill->counters->late_rows, 1);
		add_row(plan, ref, RUNG__CACHE_NONE);
		break;
	case RUNG__CACHE_PASS:
		add_row(plan, ref, RUNG__CACHE_NONE);
		break;
	}
}

/* Copy the rows that were found, without the cache's lock: the pins keep their frames. */
static void put_hits(struct plan *plan)
{
	struct rung__refill *refill = plan->refill;

	for (uint32_t i = 0; i < plan->hit_count; i++) {
		const struct hit *hit = &plan->hits[i];

		rung__rows_place(refill, plan->part, hit->first, hit->end,
		                 rung__frame_at(refill, hit->frame));
		rung__add_own(&refill->counters->cache_hits, hit->end - hit->first);
		rung__part_touch(refill, plan->part, hit->end - hit->first);
	}
	/* on a device the frames stay pinned until it has copied them; the device thread unpins */
	if (plan->hit_count == 0 || refill->device)
		return;
	rung__cache_lock(refill->cache);
	for (uint32_t i = 0; i < plan->hit_count; i++)
		rung__cache_unpin(refill->cache, plan->hits[i].frame);
	rung__cache_unlock(refill->cache);
}

void rung__read_set_end(const struct rung__refill *refill, struct rung__read *read,
                        uint64_t row_end)
{
	read->bytes = (uint32_t)(rung__align_up(row_end, refill->geometry.align) - read->offset);
	read->needed = rung__bytes_needed(refill, read, row_end);
}

void rung__read_begin(struct rung__read *read, struct rung__part *part)
{
	*read = (struct rung__read){ .part = part };
	rung__chain_clear(&read->refs);
	rung__chain_clear(&read->rest);
}

bool rung__next_read(struct rung__refill *refill, uint32_t token, struct rung__part *part)
{
	struct plan plan = {
		.refill = refill, .part = part, .read = &refill->reads[token], .token = token
	};
	uint32_t polls = 0;

	/* the loop ends when the read is full, or when too many frames are pinned */
	rung__read_begin(plan.read, plan.part);
	if (refill->cache)
		rung__cache_lock(refill->cache);
	while (part->cursor < part->end && plan.hit_count < HITS_MAX &&
	       joins(&plan, part->request->misses.ranks[part->cursor])) {
		uint64_t first = part->cursor, end = rung__run_end(part, first);

		part->cursor = end;
		/* added first, because copying a row found in the cache subtracts its misses */
		part->pending += end - first;
		look_up_row(&plan, first, end);
		if (++polls % POLLS_MAX == 0 && refill->cache) {
			rung__cache_unlock(refill->cache);
			rung__cache_lock(refill->cache);
		}
	}
	if (refill->cache)
		rung__cache_unlock(refill->cache);
	put_hits(&plan);
	if (plan.read->rows == 0)
		return false;
	rung__read_set_end(refill, plan.read, plan.row_end);
	return true;
}

/* ---- rows that other processes are reading ---- */

/* Look up one row again. It is cached, still being read, or must be read here. @return true if the
 * read with the token is to be sent */
static bool inspect(struct rung__refill *refill, struct rung__part *part, uint64_t since_ns,
                    uint64_t ref, uint32_t token)
{
	struct plan plan = {
		.refill = refill, .part = part, .read = &refill->reads[token], .token = token
	};
	uint64_t first = (uint32_t)ref, end = rung__run_end(part, first);

	rung__read_begin(plan.read, plan.part);
	/* not longer than the timeout, which tests and callers can set below LATE_NS */
	plan.waited = refill->now_ns - since_ns > RUNG__MIN(LATE_NS, refill->timeout_ns);
	rung__cache_lock(refill->cache);
	look_up_row(&plan, first, end);
	rung__cache_unlock(refill->cache);
	put_hits(&plan);
	if (plan.read->rows == 0)
		return false;
	rung__read_set_end(refill, plan.read, plan.row_end);
	return true;
}

/* Look up all such rows of a part again. Rows that are still being read return to the list. */
static void inspect_part(struct rung__refill *refill, struct rung__part *part)
{
	uint64_t ref = part->remote, since_ns = part->remote_ns;

	part->remote = RUNG__MISS_REF_NONE;
	while (ref != RUNG__MISS_REF_NONE) {
		uint64_t next = *rung__miss_ref_link(refill, ref);
		bool can_send = refill->free_count > 0 && refill->in_flight < refill->depth &&
		                !refill->broken;

		if (part->request->status < 0) {
			struct rung__chain one = { ref, ref };

			*rung__miss_ref_link(refill, ref) = RUNG__MISS_REF_NONE;
			rung__rows_failed(refill, &one, part->request->status, "");
		} else if (!can_send) {
			/* this thread may have to read the row, so it is looked up only if there is
			 * a token */
			refill->starved = true;
			wait_remote(refill, part, ref);
		} else if (inspect(refill, part, since_ns, ref,
		                   refill->free_tokens[refill->free_count - 1])) {
			rung__read_send(refill, rung__token_acquire(refill));
		}
		ref = next;
	}
	part->remote_ns = since_ns; /* wait_remote() has set it to now */
}

void rung__remote_poll(struct rung__refill *refill)
{
	struct rung__queue remote = { NULL };
	struct rung__part *part;

	if (rung__queue_is_empty(&refill->remote) ||
	    refill->now_ns - refill->remote_polled_ns < REMOTE_NS)
		return;
	refill->remote_polled_ns = refill->now_ns;
	refill->starved = false;
	/* parts return to the list with the first of their rows that another client still reads */
	rung__queue_join(&remote, &refill->remote);
	while ((part = RUNG__ENTRY(rung__queue_pop(&remote), struct rung__part, remote_link)) !=
	       NULL)
		inspect_part(refill, part);
	rung__parts_complete(refill);
}
