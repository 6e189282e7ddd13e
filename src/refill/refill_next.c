/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From misses to reads.
 *
 * Misses are sorted by rank, which is the order of the file, so equal rows are next to each other
 * (read once), and rows near each other become one read. A device completes a fixed number of reads
 * per second up to its bandwidth, so bytes between two rows are worth reading if they take no
 * longer than another read (merge_gap_bytes).
 *
 * Each row is looked up in the cache once. It is cached, it is being read, or it must be read: into
 * a frame if the cache keeps it and the read has only this row, else into a slot.
 */
#include "refill/state.h"

#define HITS_MAX  64u    /* rows found in the cache that are put in place in one go */
#define POLLS_MAX 256u   /* rows looked up while the cache is locked */
#define REMOTE_NS 100000 /* between two checks of rows that another process reads */
/* for which such rows are waited for: then their reader is taken for stopped, they are read here */
#define LATE_NS 80000000u

struct hit {
	uint64_t first, end;
	uint32_t frame;
};

struct plan {
	struct rung__refill *refill;
	struct rung__part *part;
	struct rung__read *read;
	uint32_t token;
	uint64_t row_end; /* in the file, of the read's last row */
	bool waited;      /* for rows that another process reads, as long as that is done */
	struct hit hits[HITS_MAX];
	uint32_t hit_count;
};

static bool joins(const struct plan *plan, uint64_t rank)
{
	const struct rung__refill *refill = plan->refill;

	return plan->read->rows == 0 ||
	       rung__row_joins(&refill->rule, plan->read->offset, plan->row_end,
	                       rung__row_offset(&refill->layout, rank));
}

static void add_row(struct plan *plan, uint64_t ref, uint32_t frame)
{
	struct rung__refill *refill = plan->refill;
	struct rung__read *read = plan->read;
	uint64_t offset = rung__row_offset(&refill->layout, rung__miss_ref_rank(refill, ref));

	if (read->rows++ == 0)
		read->offset = read->base = rung__align_down(offset, refill->geometry.align);
	plan->row_end = offset + refill->layout.row_bytes;
	*rung__miss_ref_frame(refill, ref) = frame;
	rung__chain_add(refill, &read->refs, ref);
}

/*
 * Wait for one of our reads in flight; if it is split, the row's turn may be still to come.
 * @return false: there is none, or it was abandoned
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

static void wait_remote(struct rung__refill *refill, struct rung__part *part, uint64_t ref)
{
	if (part->remote == RUNG__MISS_REF_NONE) {
		part->remote_ns = refill->now_ns;
		rung__queue_push_first(&refill->remote, &part->remote_link);
	}
	*rung__miss_ref_frame(refill, ref) = RUNG__CACHE_NONE;
	*rung__miss_ref_link(refill, ref) = part->remote;
	part->remote = ref;
}

/* The cache is locked, if there is one. */
static void look_up_row(struct plan *plan, uint64_t first, uint64_t end)
{
	struct rung__refill *refill = plan->refill;
	struct rung__cache_slot slot = { RUNG__CACHE_NONE, 0 };
	enum rung__cache_lookup found = RUNG__CACHE_PASS;
	uint64_t ref = rung__miss_ref(plan->part, first), rank = rung__miss_ref_rank(refill, ref),
		 batch = plan->part->request->batch;

	if (refill->cache)
		found = rung__cache_look_up(refill->cache, batch, rank, plan->token, &slot);
	if (found == RUNG__CACHE_REMOTE && plan->waited) {
		rung__cache_late(refill->cache, slot.reader);
		found = rung__cache_look_up(refill->cache, batch, rank, plan->token, &slot);
	}
	switch (found) {
	case RUNG__CACHE_HIT:
		plan->hits[plan->hit_count++] = (struct hit){ first, end, slot.frame };
		break;
	case RUNG__CACHE_READING:
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
		rung__add_own(&refill->counters.late_rows, 1);
		add_row(plan, ref, RUNG__CACHE_NONE);
		break;
	case RUNG__CACHE_PASS:
		add_row(plan, ref, RUNG__CACHE_NONE);
		break;
	}
}

static void put_hits(struct plan *plan)
{
	struct rung__refill *refill = plan->refill;

	for (uint32_t i = 0; i < plan->hit_count; i++) {
		const struct hit *hit = &plan->hits[i];

		rung__rows_place(refill, plan->part, hit->first, hit->end,
		                 rung__frame_at(refill, hit->frame));
		rung__add_own(&refill->counters.cache_hits, hit->end - hit->first);
		rung__part_touch(refill, plan->part, hit->end - hit->first);
	}
	if (plan->hit_count == 0 || refill->device) /* pinned until the device has copied them */
		return;
	rung__cache_lock(refill->cache);
	for (uint32_t i = 0; i < plan->hit_count; i++)
		rung__cache_unpin(refill->cache, plan->hits[i].frame);
	rung__cache_unlock(refill->cache);
}

/* Where it lands, and how long it is. */
static void finish_read(const struct plan *plan)
{
	const struct rung__refill *refill = plan->refill;
	struct rung__read *read = plan->read;
	uint32_t frame = *rung__miss_ref_frame(refill, read->refs.head);

	read->bytes =
		(uint32_t)(rung__align_up(plan->row_end, refill->geometry.align) - read->offset);
	read->needed = (uint32_t)(plan->row_end - read->offset);
	if (read->rows == 1 && refill->frames_exact && frame != RUNG__CACHE_NONE)
		read->frame = frame & ~RUNG__KEEPER;
}

static void begin_read(struct plan *plan)
{
	struct rung__read *read = plan->read;

	*read = (struct rung__read){ .part = plan->part, .frame = RUNG__CACHE_NONE };
	rung__chain_clear(&read->refs);
	rung__chain_clear(&read->rest);
}

bool rung__next_read(struct rung__refill *refill, uint32_t token, struct rung__part *part)
{
	struct plan plan = {
		.refill = refill, .part = part, .read = &refill->reads[token], .token = token
	};
	uint32_t looks = 0;

	begin_read(&plan);
	if (refill->cache)
		rung__cache_lock(refill->cache);
	while (part->cursor < part->end && plan.hit_count < HITS_MAX &&
	       joins(&plan, part->request->misses.ranks[part->cursor])) {
		uint64_t first = part->cursor, end = rung__run_end(part, first);

		part->cursor = end;
		part->pending += end - first;
		look_up_row(&plan, first, end);
		if (++looks % POLLS_MAX == 0 && refill->cache) {
			rung__cache_unlock(refill->cache);
			rung__cache_lock(refill->cache);
		}
	}
	if (refill->cache)
		rung__cache_unlock(refill->cache);
	put_hits(&plan);
	if (plan.read->rows == 0)
		return false;
	finish_read(&plan);
	return true;
}

/* ---- rows that other processes read ---- */

/* One row: it has come, or it is still to come, or it is ours to read. @return true when a read
 * with the token is to be sent */
static bool inspect(struct rung__refill *refill, struct rung__part *part, uint64_t since_ns,
                    uint64_t ref, uint32_t token)
{
	struct plan plan = {
		.refill = refill, .part = part, .read = &refill->reads[token], .token = token
	};
	uint64_t first = (uint32_t)ref, end = rung__run_end(part, first);

	begin_read(&plan);
	plan.waited = refill->now_ns - since_ns > RUNG__MIN(LATE_NS, refill->timeout_ns);
	rung__cache_lock(refill->cache);
	look_up_row(&plan, first, end);
	rung__cache_unlock(refill->cache);
	put_hits(&plan);
	if (plan.read->rows == 0)
		return false;
	finish_read(&plan);
	return true;
}

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
			rung__rows_failed(refill, &one, RUNG__CACHE_NONE, part->request->status,
			                  "");
		} else if (!can_send) {
			refill->starved = true;
			wait_remote(refill, part, ref);
		} else if (inspect(refill, part, since_ns, ref,
		                   refill->free_tokens[refill->free_count - 1])) {
			rung__read_send(refill, rung__token_acquire(refill));
		}
		ref = next;
	}
	part->remote_ns = since_ns;
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
