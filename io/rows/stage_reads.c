/* SPDX-License-Identifier: Apache-2.0 */
/* Many reads of a file in flight, for those who have them all at hand: io_uring where there is one, else threads that wait for a read each. */
#include "rows/stage_reads.h"

#include "base/base.h"

#define TAKEN_MAX 64u               /* at a time */
#define SENT_TOGETHER 16u           /* reads that have ended are waited for until there are so many: fewer calls of the kernel */
#define WAIT_NS UINT64_C(1000000000)
#define READ_BYTES_MAX (UINT64_C(1) << 30)   /* the kernel takes no more; the read comes short, and is done in the plain way */

bool rung__row_reads_by_threads;

static const struct rung__engine_ops *const engines[] = {
#if RUNG_HAVE_IO_URING
	&rung__engine_io_uring,
#endif
	&rung__engine_pread,
};

int rung__row_reads_open(struct rung__row_reads *reads, const struct rung__direct *file, unsigned char *buffers, uint64_t slot_bytes,
		     uint32_t depth)
{
	const struct rung__engine_args args = { .fd = file->fd, .pool = buffers, .pool_bytes = depth * slot_bytes, .queue_depth = depth };
	int rc = -1;

	*reads = (struct rung__row_reads){ .file = file, .buffers = buffers, .slot_bytes = slot_bytes, .depth = depth };
	reads->slots = rung__zalloc_array(depth, sizeof(*reads->slots));
	reads->unused = rung__malloc_array(depth, sizeof(*reads->unused));
	if (!reads->slots || !reads->unused) {
		rung__row_reads_close(reads);
		return rung__fail(RUNG_E_NOMEM, "%s: no memory for %" PRIu32 " reads", file->name, depth);
	}
	for (uint32_t i = 0; i < depth; i++)
		reads->unused[reads->unused_count++] = i;
	for (size_t i = rung__row_reads_by_threads ? RUNG__ARRAY_LEN(engines) - 1 : 0; i < RUNG__ARRAY_LEN(engines) && rc < 0; i++) {
		struct rung__engine_report report = { .part_count = 0 };

		reads->ops = engines[i];
		rc = reads->ops->open(&args, &reads->engine, &report);
		if (rc < 0 && i + 1 == RUNG__ARRAY_LEN(engines))
			rc = rung__fail_errno(-rc, "%s: %s", file->name, report.why);
	}
	if (rc < 0)
		rung__row_reads_close(reads);
	return rc;
}

void rung__row_reads_close(struct rung__row_reads *reads)
{
	if (reads->engine)
		reads->ops->close(reads->engine);
	rung__free(reads->slots);
	rung__free(reads->unused);
	*reads = (struct rung__row_reads){ .depth = 0 };
}

/* Send as many as there are slots for. */
static int send(struct rung__row_reads *reads, const struct rung__row_reads_job *job, bool *more)
{
	int rc = 0;

	while (*more && reads->unused_count > 0 && rc == 0) {
		const uint32_t slot = reads->unused[reads->unused_count - 1];
		struct rung__read_slot *read = &reads->slots[slot];
		struct rung__fetch fetch = { .to = slot * reads->slot_bytes, .token = slot };

		*more = job->next(job->ctx, slot, &read->offset, &read->bytes);
		if (!*more)
			break;
		fetch.offset = read->offset;
		fetch.bytes = (uint32_t)RUNG__MIN(rung__align_up(read->bytes, RUNG__PAGE_BYTES), READ_BYTES_MAX);
		rc = reads->ops->submit(reads->engine, &fetch);
		if (rc < 0)
			return rung__fail_errno(-rc, "%s: reading at offset %" PRIu64, reads->file->name, read->offset);
		reads->unused_count--;
	}
	return rc;
}

/* What came short, or not at all, is read again in the plain way, which also says what is wrong. */
static int end_read(struct rung__row_reads *reads, const struct rung__row_reads_job *job, const struct rung__fetched *fetched, bool wanted)
{
	const struct rung__read_slot *read = &reads->slots[fetched->token];
	unsigned char *at = reads->buffers + fetched->token * reads->slot_bytes;
	int rc = 0;

	reads->unused[reads->unused_count++] = fetched->token;
	if (!wanted)
		return 0;
	if (fetched->result < 0 || (uint64_t)fetched->result < read->bytes)
		rc = rung__direct_read(reads->file, at, read->bytes, read->offset);
	return rc < 0 ? rc : job->done(job->ctx, fetched->token, at);
}

int rung__row_reads_run(struct rung__row_reads *reads, const struct rung__row_reads_job *job)
{
	struct rung__fetched fetched[TAKEN_MAX];
	bool more = true;
	int rc = 0;

	while ((more && rc == 0) || reads->unused_count < reads->depth) {   /* after a failure what is in flight is waited for */
		const int sent = rc == 0 ? send(reads, job, &more) : 0;
		const uint32_t in_flight = reads->depth - reads->unused_count;
		int count = in_flight ? reads->ops->reap(reads->engine, RUNG__MIN(in_flight, SENT_TOGETHER), WAIT_NS, fetched, TAKEN_MAX) : 0;

		if (count < 0) {   /* what is in flight may still be written to the buffers */
			reads->lost = true;
			return rung__fail_errno(-count, "%s: waiting for reads", reads->file->name);
		}
		if (rc == 0)
			rc = sent;
		for (int i = 0; i < count; i++) {
			const int ended = end_read(reads, job, &fetched[i], rc == 0);

			if (rc == 0 && ended < 0)
				rc = ended;
		}
	}
	return rc;
}
