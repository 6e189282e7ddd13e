/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tiers: the places rows live in.
 *
 * An *addressable* tier gives the gather a view, and the gather copies from it. A *fetchable* tier takes reads into staging slots
 * and reports them done; only the refill thread drives it. The gather knows views, refill knows submit and reap; which tiers
 * there are stands in tier.h alone.
 */
#ifndef RUNG_TIER_H
#define RUNG_TIER_H

#include "dataset/features.h"

#define RUNG__TIER_ABI 1

struct rung__tier;   /* a tier's own state */

enum rung__tier_kind { RUNG__ADDRESSABLE, RUNG__FETCHABLE };

/** What reads of a file have to be like. */
struct rung__geometry {
	uint64_t file_bytes;
	uint32_t read_bytes_max;   /* what the device takes in one command */
	uint32_t gap_bytes;        /* between two rows that are worth reading along: what it reads in the time of another command */
	uint32_t align;       /* of offset, length and memory of a read: a power of two; 1 through the page cache */
	const char *path;     /* for messages */
};

/** A read of the file into the pool. */
struct rung__fetch {
	uint64_t offset;       /* in the file */
	uint64_t to;           /* in the pool */
	uint32_t bytes;
	uint32_t token;        /* comes back with the result; less than token_count, and no two in flight are alike */
};

/** A read that ended: bytes read (short at the end of the file), or -errno. */
struct rung__fetched {
	uint32_t token;
	int32_t result;
};

struct rung__tier_args {
	const struct rung__features *features;   /* may be closed once the tier is open */
	uint64_t rank_first;
	uint64_t row_count;
	/* addressable tiers only */
	unsigned char *memory;      /* whole pages that outlive the tier */
	bool loaded;                /* the rows are in `memory` already */
	/* fetchable tiers only */
	unsigned char *pool;        /* memory that reads go to, page aligned; outlives the tier */
	uint64_t pool_bytes;        /* at least a page */
	uint64_t probe_at;          /* of these bytes of the pool, whole pages, nobody but the tier makes use before and in start */
	uint64_t probe_bytes;
	uint32_t token_count;
	uint32_t file_idx;          /* of the features */
	uint32_t queue_depth;       /* at most token_count */
	enum rung_engine engine;
	bool buffered;
	uint32_t gap_bytes;         /* as in rung_store_opts */
};

/** What serves a fetchable tier, for statistics. */
struct rung__engine_state {
	const char *name;
	const char *why;   /* why not a better one; "" when it is the best */
	bool direct;
	const struct rung_engine_step *steps, *parts;   /* as in struct rung_store_stats */
	uint32_t step_count, part_count;
};

struct rung__tier_ops {
	uint32_t abi;     /* RUNG__TIER_ABI */
	uint32_t size;    /* sizeof(struct rung__tier_ops) */
	const char *name;
	enum rung__tier_kind kind;

	/** Take memory and files, load the rows of an addressable tier unless they are loaded. */
	int (*open)(const struct rung__tier_args *args, struct rung__tier **tier_out);
	void (*close)(struct rung__tier *tier);

	/* Addressable: this one. Fetchable: all of the rest. */
	void (*view)(const struct rung__tier *tier, struct rung__view *view_out);

	void (*geometry)(const struct rung__tier *tier, struct rung__geometry *geometry_out);
	/** Called by the refill thread before the first submit: make rings and threads, and probe with a real read. */
	int (*start)(struct rung__tier *tier);
	/** Called by the refill thread after the last reap, with no read in flight. */
	void (*stop)(struct rung__tier *tier);
	/** Valid after start. */
	void (*engine)(const struct rung__tier *tier, struct rung__engine_state *state_out);
	/** Queue a read; at most queue_depth are ever in flight. @return 0 or -errno, in which case nothing was queued */
	int (*submit)(struct rung__tier *tier, const struct rung__fetch *fetch);
	/**
	 * Send what is queued, wait until at least `want` reads have ended or `timeout_ns` has passed, and report up to `max` of them.
	 * With want, timeout_ns and max 0 it only sends, and fetched may be NULL.
	 * @return their count, or -errno when the tier cannot go on
	 */
	int (*reap)(struct rung__tier *tier, uint32_t want, uint64_t timeout_ns, struct rung__fetched *fetched, uint32_t max);
};

/** True when a table is complete; asserted once at open, so that callers need not look. */
static inline bool rung__tier_ops_valid(const struct rung__tier_ops *ops)
{
	if (ops->abi != RUNG__TIER_ABI || ops->size < sizeof(*ops) || !ops->name || !ops->open || !ops->close)
		return false;
	if (ops->kind == RUNG__ADDRESSABLE)
		return ops->view != NULL;
	return ops->geometry && ops->start && ops->stop && ops->engine && ops->submit && ops->reap;
}

#endif
