/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Readers: they bring the rows of a features file from a device into memory.
 *
 * A reader accepts reads into a pool of memory and reports those that have completed. One thread
 * drives it from start to stop. Refill uses it for cold rows, tiers and staging for scattered rows
 * (row_reads.h), and `rung numa` to measure drives. Its users know only this table of functions,
 * not how the device is read. The reader of files is in io/ (io/engine/file_reader.c); tests put a
 * reader that injects faults in front of it, or use one that follows a script.
 */
#ifndef RUNG_READER_H
#define RUNG_READER_H

#include <sys/types.h>

#include "dataset/features.h"

#define RUNG__READER_ABI 1

struct rung__reader; /* a reader's own state */

/** Limits and preferences for reads of a file. They are final once the reader has started. */
struct rung__geometry {
	uint64_t file_bytes;
	uint32_t read_bytes_max; /* largest transfer of the device in one command */
	/* largest gap between two rows that one read should cover: a larger one takes longer to
	 * transfer than a second command costs */
	uint32_t merge_gap_bytes;
	/* alignment of offset, length and memory of a read: a power of two; 1 for reads through the
	 * page cache */
	uint32_t align;
	const char *path; /* for messages */
	dev_t device;     /* st_dev of the file, for messages; 0: unknown */
};

/** A read of the file into the pool. */
struct rung__fetch {
	uint64_t offset; /* offset in the file */
	uint64_t to;     /* destination: offset in the pool */
	uint32_t bytes;
	/* identifies the read in its result: less than token_count, and not the token of a read in
	 * flight */
	uint32_t token;
};

/** A completed read: the number of bytes read (short at the end of the file), or -errno. */
struct rung__fetched {
	uint32_t token;
	int32_t result;
};

struct rung__reader_args {
	const struct rung__features *features; /* may be closed once the reader is open */
	uint32_t file_idx;                     /* number of the features file */
	unsigned char *pool; /* destination of all reads, page aligned; outlives the reader */
	uint64_t pool_bytes; /* at least a page */
	/* these bytes of the pool, whole pages, are reserved for the reader until start has
	 * returned */
	uint64_t probe_at, probe_bytes;
	uint32_t token_count;
	uint32_t queue_depth; /* at most token_count */
	enum rung_engine engine;
	bool buffered;            /* true: read through the page cache instead of with O_DIRECT */
	uint32_t merge_gap_bytes; /* as in rung_store_opts */
};

/** Engine and features in use by a reader, for statistics. */
struct rung__engine_state {
	const char *name;
	const char *why; /* reason why no better engine is in use; "" if it is the best */
	bool direct;
	const struct rung_engine_step *steps, *parts; /* as in struct rung_store_stats */
	uint32_t step_count, part_count;
};

struct rung__reader_ops {
	uint32_t abi;  /* RUNG__READER_ABI */
	uint32_t size; /* sizeof(struct rung__reader_ops) */
	const char *name;

	/** Open the file, but start no engine yet. Any thread. */
	int (*open)(const struct rung__reader_args *args, struct rung__reader **reader_out);
	/** Called by any thread after stop or a failed start. */
	void (*close)(struct rung__reader *reader);

	/** The limits of the reader's reads. `start` may change them. */
	void (*geometry)(const struct rung__reader *reader, struct rung__geometry *geometry_out);
	/**
	 * Called by the thread that reads, before the first submit: create rings and threads, and
	 * probe with a real read, because only that shows whether an engine works on this file.
	 */
	int (*start)(struct rung__reader *reader);
	/** Called by the thread that reads, after the last reap, with no read in flight. */
	void (*stop)(struct rung__reader *reader);
	/** The engine in use; valid after start, until close. */
	void (*engine)(const struct rung__reader *reader, struct rung__engine_state *state_out);
	/**
	 * Queue a read; at most queue_depth are ever in flight. Never blocks: the next reap submits
	 * it to the kernel.
	 * @return 0 or -errno, in which case nothing was queued
	 */
	int (*submit)(struct rung__reader *reader, const struct rung__fetch *fetch);
	/**
	 * Submit the queued reads, wait until at least `want` reads have completed or `timeout_ns`
	 * has passed, and report up to `max` of them. With want, timeout_ns and max 0 it only
	 * submits, and fetched may be NULL.
	 * @return their number, or -errno if the reader cannot continue
	 */
	int (*reap)(struct rung__reader *reader, uint32_t want, uint64_t timeout_ns,
	            struct rung__fetched *fetched, uint32_t max);
};

/** True if the table is complete; checked once, when a store is opened. */
static inline bool rung__reader_ops_valid(const struct rung__reader_ops *ops)
{
	return ops->abi == RUNG__READER_ABI && ops->size >= sizeof(*ops) && ops->name &&
	       ops->open && ops->close && ops->geometry && ops->start && ops->stop && ops->engine &&
	       ops->submit && ops->reap;
}

#endif
