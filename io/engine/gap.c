/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gap budget. A device does so many reads a second, whatever their size, up to where its bandwidth ends: reading g bytes more costs
 * g / bandwidth, another read 1 / rate. So rows closer than bandwidth / rate are cheaper in one read.
 *
 * Both are measured at the depth that the store will use, at random places of the file, for some 20 ms each. That is short: the result is
 * good to some 20 %, and the number of reads does not change by more than a few percent over such a range.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#include "engine/gap.h"

#define FILE_BYTES_MIN (64ull << 20)
#define GAP_BYTES_MAX 65536u
#define BURST_NS 20000000u
#define READS_MIN 32u                  /* fewer in that time say nothing: a slow disk gets longer */
#define BURST_NS_MAX 200000000u
#define WAIT_NS 30000000000ull
#define TOKENS_MAX 1024u
#define KEPT_MAX 16u

static struct kept {
	dev_t device;
	const struct rung__engine_ops *ops;
	uint32_t queue_depth, gap_bytes;
} kept[KEPT_MAX];
static unsigned kept_count;
/* Held while measuring, so that two files of one device do not disturb each other; taken with no other lock held. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

struct burst {
	const struct rung__reader *reader;
	uint64_t places;           /* in the file, of `bytes` each */
	uint64_t at;               /* in the pool */
	uint64_t drawn;
	uint32_t bytes, depth;
	uint32_t ended;
	bool failed;               /* a read brought an error, or less */
};

static int send(struct burst *burst, uint32_t token)
{
	struct rung__fetch fetch = {
		.offset = rung__mix64(burst->drawn++) % burst->places * burst->bytes,
		.to = burst->at + (uint64_t)token * burst->bytes,
		.bytes = burst->bytes,
		.token = token,
	};

	return burst->reader->ops->submit(burst->reader->engine, &fetch);
}

/* @return the number of reads that have ended, their tokens in fetched, or -errno */
static int reap(struct burst *burst, uint32_t want, struct rung__fetched *fetched)
{
	int count = burst->reader->ops->reap(burst->reader->engine, want, WAIT_NS, fetched,
					     burst->depth);

	for (int i = 0; i < count; i++)
		burst->failed |= fetched[i].result != (int32_t)burst->bytes;
	return count == 0 ? -ETIMEDOUT : count;
}

/* Keep the queue full until the time is up, then wait for what is in flight. @return 0 with reads a second (0: unknown), or -errno */
static int measure(struct burst *burst, double *rate_out)
{
	struct rung__fetched fetched[TOKENS_MAX];
	uint64_t begin_ns = rung__now_ns(), now_ns = begin_ns;
	uint32_t in_flight = 0, group = RUNG__MIN(RUNG__MAX(burst->depth / 8, 1u), 16u);
	bool over = false;
	int rc = 0;

	*rate_out = 0;
	while (in_flight < burst->depth && rc == 0) {
		rc = send(burst, in_flight);
		in_flight += rc == 0;
	}
	while (rc == 0 && in_flight > 0) {
		int count = reap(burst, RUNG__MIN(group, in_flight), fetched);

		if (count < 0)
			return count;
		now_ns = rung__now_ns();
		in_flight -= (uint32_t)count;
		if (!over) {
			burst->ended += (uint32_t)count;
			*rate_out = burst->ended * 1e9 / (double)RUNG__MAX(now_ns - begin_ns, 1u);
		}
		over |= burst->failed || now_ns - begin_ns > (burst->ended < READS_MIN ? BURST_NS_MAX : BURST_NS);
		for (int i = 0; i < count && !over && rc == 0; i++) {
			rc = send(burst, fetched[i].token);
			in_flight += rc == 0;
		}
	}
	if (burst->failed)
		*rate_out = 0;
	return rc;
}

static int rate(const struct rung__reader *reader, uint32_t bytes,
                double *rate_out)
{
	struct burst burst = {
		.reader = reader,
		.places = reader->geometry.file_bytes / bytes,
		.at = reader->args.probe_at,
		.bytes = bytes,
		.depth = (uint32_t)RUNG__MIN(
			RUNG__MIN(reader->args.queue_depth, reader->args.probe_bytes / bytes),
			TOKENS_MAX),
	};

	*rate_out = 0;
	return burst.depth > 0 ? measure(&burst, rate_out) : 0;
}

uint32_t rung__gap_of(double bytes_per_s, double reads_per_s, uint32_t align)
{
	double gap = reads_per_s > 0 && bytes_per_s > 0 ? bytes_per_s / reads_per_s : RUNG__GAP_DEFAULT;

	return (uint32_t)rung__align_down((uint64_t)RUNG__MIN(gap, GAP_BYTES_MAX), align);
}

static int measure_both(const struct rung__reader *reader,
                        uint32_t read_bytes, uint32_t *gap_out)
{
	double reads_per_s = 0, large_per_s = 0;
	int rc = rate(reader, read_bytes, &large_per_s);   /* first: it touches the pool's memory */

	if (rc == 0)
		rc = rate(reader, reader->geometry.align, &reads_per_s);
	*gap_out = rung__gap_of(large_per_s * read_bytes, reads_per_s, reader->geometry.align);
	return rc;
}

int rung__gap_measure(const struct rung__reader *reader,
                      uint32_t read_bytes, uint32_t *gap_out)
{
	struct stat st;
	int rc = 0;

	*gap_out = RUNG__GAP_DEFAULT;
	if (!reader->direct || reader->geometry.file_bytes < FILE_BYTES_MIN ||
	    fstat(reader->fd, &st) != 0)
		return 0;
	pthread_mutex_lock(&kept_lock);
	for (unsigned i = 0; i < kept_count; i++) {
		if (kept[i].device == st.st_dev && kept[i].ops == reader->ops &&
		    kept[i].queue_depth == reader->args.queue_depth) {
			*gap_out = kept[i].gap_bytes;
			goto unlock;
		}
	}
	rc = measure_both(reader, read_bytes, gap_out);
	if (rc == 0 && kept_count < KEPT_MAX)
		kept[kept_count++] =
			(struct kept){ st.st_dev, reader->ops, reader->args.queue_depth, *gap_out };
unlock:
	pthread_mutex_unlock(&kept_lock);
	return rc;
}
