/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of rows at random positions with the reader of files, each into its own slot.
 *
 * As in refill, but simpler: the list is known and ascending, every row is read, and the rows are
 * delivered before the slot is used again, so a slot is either free or in flight.
 */
#include <assert.h>

#include "file/file.h"
#include "registry/registry.h"
#include "tier/burst.h"
#include "tier/row_reads.h"

#define REAP_MAX 64u /* largest number of completions per call */
/* number of completions that a call waits for, which saves system calls */
#define REAP_TOGETHER 16u
#define REAP_NS       1000000000ull /* longest wait of one call; then it waits again */

enum rung_engine rung__row_reads_engine = RUNG_ENGINE_AUTO;

/* A read, by its token. */
struct read {
	uint64_t first, end; /* range of its rows in the list */
	uint64_t offset;     /* aligned offset in the file */
	uint32_t needed;     /* bytes up to the end of the last row */
};

struct rung__row_reads {
	struct rung__row_reads_args args;
	const struct rung__reader_ops *ops;
	struct rung__reader *reader;
	bool started;
	struct rung__geometry geometry;
	struct rung__read_rule rule;
	unsigned char *pool;   /* [depth][slot_bytes] */
	struct read *reads;    /* [depth] */
	uint32_t *free_tokens; /* [depth] stack */
	uint32_t free_count;
};

/* ---- opening ---- */

static uint64_t pool_bytes(const struct rung__row_reads *reads)
{
	return reads->args.depth * reads->args.slot_bytes;
}

static int alloc_memory(struct rung__row_reads *reads)
{
	const uint32_t depth = reads->args.depth;

	reads->pool = rung__map_pages(pool_bytes(reads));
	reads->reads = rung__malloc_array(depth, sizeof(*reads->reads));
	reads->free_tokens = rung__malloc_array(depth, sizeof(*reads->free_tokens));
	if (!reads->pool || !reads->reads || !reads->free_tokens)
		return rung__fail(RUNG_E_NOMEM,
		                  "%s: no memory for %" PRIu32 " reads of %" PRIu64 " bytes each",
		                  reads->args.features->files[0].path, depth,
		                  reads->args.slot_bytes);
	for (uint32_t token = 0; token < depth; token++)
		reads->free_tokens[reads->free_count++] = token;
	return 0;
}

/* Derive the rule for shared reads. Called after the start, which can fall back to buffered
 * reads. */
static void learn_geometry(struct rung__row_reads *reads)
{
	struct rung__geometry *geometry = &reads->geometry;

	reads->ops->geometry(reads->reader, geometry);
	reads->rule = (struct rung__read_rule){
		.row_bytes = reads->args.features->layout.row_bytes,
		.align = geometry->align,
		.merge_gap_bytes = geometry->merge_gap_bytes,
		.read_bytes_max = RUNG__MIN(reads->args.slot_bytes,
		                            RUNG__MAX(geometry->read_bytes_max, geometry->align)),
	};
}

/* Allocate, open the reader and start it, on this thread. The caller closes after a failure. */
static int start(struct rung__row_reads *reads)
{
	const struct rung__row_reads_args *args = &reads->args;
	struct rung__reader_args reader_args = {
		.features = args->features,
		.pool_bytes = pool_bytes(reads),
		.probe_bytes = pool_bytes(reads),
		.token_count = args->depth,
		.queue_depth = args->depth,
		.engine = rung__row_reads_engine,
		.merge_gap_bytes = args->merge_gap_bytes,
	};
	int rc;

	reads->ops = rung__registry_reader();
	if (!reads->ops)
		return rung__fail(RUNG_E_NOSUP,
		                  "%s: reading rows staged in place needs io/, which this "
		                  "build leaves out; build without RUNG_CORE_ONLY",
		                  args->features->files[0].path);
	rc = alloc_memory(reads);
	if (rc < 0)
		return rc;
	reader_args.pool = reads->pool;
	rc = reads->ops->open(&reader_args, &reads->reader);
	if (rc == 0)
		rc = reads->ops->start(reads->reader);
	if (rc < 0)
		return rc;
	reads->started = true;
	learn_geometry(reads);
	return 0;
}

int rung__row_reads_open(const struct rung__row_reads_args *args,
                         struct rung__row_reads **reads_out)
{
	struct rung__row_reads *reads = rung__zalloc(sizeof(*reads));
	const char *path = args->features->files[0].path;
	int rc;

	if (args->slot_bytes > UINT32_MAX)
		rc = rung__fail(
			RUNG_E_INVAL,
			"%s: rows of %" PRIu64
			" bytes are too large for one read (at most 4 GiB); split the features",
			path, args->features->layout.row_bytes);
	else if (!reads)
		rc = rung__fail(RUNG_E_NOMEM, "%s: no memory for the read buffers", path);
	else {
		reads->args = *args;
		rc = start(reads);
	}
	if (rc < 0) {
		rung__row_reads_close(reads);
		return rc;
	}
	*reads_out = reads;
	return 0;
}

void rung__row_reads_close(struct rung__row_reads *reads)
{
	if (!reads)
		return;
	if (reads->started)
		reads->ops->stop(reads->reader);
	if (reads->reader)
		reads->ops->close(reads->reader);
	rung__unmap_pages(reads->pool, pool_bytes(reads));
	rung__free(reads->reads);
	rung__free(reads->free_tokens);
	rung__free(reads);
}

/* ---- reading ---- */

/* Offset in the file of row i of the list. */
static uint64_t offset_of(const struct rung__row_reads *reads, const struct rung__row_list *list,
                          uint64_t i)
{
	const struct rung__layout *layout = &reads->args.features->layout;

	return layout->data_offset +
	       rung__id_get(list->vertices, list->id_bytes, i) * layout->row_stride;
}

/* Plan one read: row `first` of the list, and the following rows that join it. */
static void plan_read(const struct rung__row_reads *reads, const struct rung__row_list *list,
                      uint64_t first, struct read *read)
{
	const struct rung__read_rule *rule = &reads->rule;
	uint64_t offset = offset_of(reads, list, first), end = first, row_end;

	read->first = first;
	read->offset = rung__align_down(offset, rule->align);
	do {
		row_end = offset + rule->row_bytes;
		if (++end < list->count)
			offset = offset_of(reads, list, end);
	} while (end < list->count && rung__row_joins(rule, read->offset, row_end, offset));
	read->end = end;
	read->needed = (uint32_t)(row_end - read->offset);
}

static int send(struct rung__row_reads *reads, uint32_t token)
{
	const struct read *read = &reads->reads[token];
	const struct rung__fetch fetch = {
		.offset = read->offset,
		.to = token * reads->args.slot_bytes,
		.bytes = (uint32_t)rung__align_up(read->needed, reads->rule.align),
		.token = token,
	};
	int rc;

	assert(fetch.bytes <= reads->args.slot_bytes);
	rc = reads->ops->submit(reads->reader, &fetch);
	return rc == 0 ? 0
	               : rung__fail_errno(-rc, "%s: cannot read at offset %" PRIu64,
	                                  reads->geometry.path, fetch.offset);
}

/* Submit the next reads while slots are free. *next is the first row that is not part of a read
 * yet. */
static int send_all(struct rung__row_reads *reads, const struct rung__row_list *list,
                    uint64_t *next)
{
	int rc = 0;

	while (*next < list->count && reads->free_count > 0 && rc == 0) {
		const uint32_t token = reads->free_tokens[reads->free_count - 1];

		plan_read(reads, list, *next, &reads->reads[token]);
		*next = reads->reads[token].end;
		rc = send(reads, token);
		reads->free_count -= rc == 0;
	}
	return rc;
}

/* A read has completed: deliver its rows. One that failed or is short is repeated with pread(),
 * which also reports the cause. */
static int end_read(const struct rung__row_reads *reads, const struct rung__row_list *list,
                    const struct rung__fetched *fetched)
{
	const struct rung__features *features = reads->args.features;
	const struct read *read = &reads->reads[fetched->token];
	unsigned char *at = reads->pool + fetched->token * reads->args.slot_bytes;
	int rc = 0;

	if (fetched->result < 0 || (uint32_t)fetched->result < read->needed)
		rc = rung__pread_all(features->files[0].fd, features->files[0].path, at,
		                     read->needed, read->offset);
	at += offset_of(reads, list, read->first) - read->offset;
	return rc < 0 ? rc : list->put(list->ctx, read->first, read->end, at);
}

int rung__row_reads_run(struct rung__row_reads *reads, const struct rung__row_list *list)
{
	const uint32_t depth = reads->args.depth;
	struct rung__fetched fetched[REAP_MAX];
	uint64_t next = 0;
	int rc = 0;

	/* after a failure, wait for the reads in flight, because they write to the pool */
	while ((next < list->count && rc == 0) || reads->free_count < depth) {
		uint32_t in_flight;
		int count;

		if (rc == 0)
			rc = send_all(reads, list, &next);
		in_flight = depth - reads->free_count;
		if (in_flight == 0)
			break;
		count = reads->ops->reap(reads->reader, RUNG__MIN(in_flight, REAP_TOGETHER),
		                         REAP_NS, fetched, REAP_MAX);
		if (count < 0) /* closing the reader waits for them */
			return rung__fail_errno(-count, "%s: cannot wait for reads",
			                        reads->geometry.path);
		for (int i = 0; i < count; i++) {
			assert(fetched[i].token < depth && reads->free_count < depth);
			if (rc == 0)
				rc = end_read(reads, list, &fetched[i]);
			if (rc == 0)
				rc = rung__worked(reads->geometry.path,
				                  reads->reads[fetched[i].token].needed);
			reads->free_tokens[reads->free_count++] = fetched[i].token;
		}
	}
	return rc;
}

double rung__row_reads_rate(struct rung__row_reads *reads, uint32_t bytes, uint64_t ns)
{
	struct rung__burst burst = {
		.ops = reads->ops,
		.reader = reads->reader,
		.file_bytes = reads->geometry.file_bytes,
		.read_bytes = bytes,
		.depth = reads->args.depth,
		.ns = ns,
		.ns_max = ns,
	};

	if (rung__burst_run(&burst) < 0 || burst.err)
		return 0;
	return (double)burst.ended * 1e9 / (double)RUNG__MAX(burst.took_ns, 1u);
}
