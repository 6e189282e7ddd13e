/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the merge gap: the largest gap at which reading two rows together is faster than two
 * reads. A device completes a fixed number of reads per second, whatever their size, up to its
 * bandwidth. So reading g more bytes costs g / bandwidth seconds, and one more read costs 1 / rate
 * seconds. Reading two rows together is faster if the gap is below bandwidth / rate.
 *
 * Both are measured at the queue depth that the store will use, at random positions of the file,
 * for about 20 ms each. That is short: the result is accurate to about 20 %. Within that range the
 * number of reads changes by only a few percent.
 */
#include <pthread.h>
#include <sys/stat.h>

#include "engine/file_reader.h"
#include "tier/burst.h"

#define FILE_BYTES_MIN (64ull << 20) /* for a smaller file, measuring takes too long */
#define GAP_BYTES_MAX  65536u        /* upper limit of the result */
#define BURST_NS       20000000u
/* with fewer reads in that time the rate is unreliable: a slow disk gets more time */
#define READS_MIN    32u
#define BURST_NS_MAX 200000000u
/* number of cached results; further devices are measured again for each store */
#define KEPT_MAX 16u

/* The results of this process, so that further stores on the same device skip the measurement. */
static struct kept {
	dev_t device;
	const struct rung__engine_ops *ops;
	uint32_t queue_depth, read_bytes, merge_gap_bytes;
} kept[KEPT_MAX];
static unsigned kept_count;
/* Protects the results. Also held while measuring, so that measurements of two files on one device
 * do not disturb each other. No other lock is held when it is acquired. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* Measure reads of `bytes` bytes. @param rate_out  reads per second; 0: unknown. @return 0 or
 * -errno */
static int rate(const struct rung__reader_ops *ops, struct rung__reader *reader, uint32_t bytes,
                double *rate_out)
{
	struct rung__burst burst = {
		.ops = ops,
		.reader = reader,
		.file_bytes = reader->geometry.file_bytes,
		.to = reader->args.probe_at,
		.read_bytes = bytes,
		.depth = (uint32_t)RUNG__MIN(
			RUNG__MIN(reader->args.queue_depth, reader->args.probe_bytes / bytes),
			RUNG__BURST_DEPTH_MAX),
		.ns = BURST_NS,
		.ns_max = BURST_NS_MAX,
		.reads_min = READS_MIN,
	};
	/* depth 0: the pool is smaller than one read */
	int rc = burst.depth > 0 ? rung__burst_run(&burst) : 0;

	*rate_out = 0;
	if (!burst.err)
		*rate_out = (double)burst.ended * 1e9 / (double)RUNG__MAX(burst.took_ns, 1u);
	return rc;
}

uint32_t rung__merge_gap_of(double bytes_per_s, double reads_per_s, uint32_t align)
{
	double gap = reads_per_s > 0 && bytes_per_s > 0 ? bytes_per_s / reads_per_s
	                                                : RUNG__MERGE_GAP_DEFAULT;

	return (uint32_t)rung__align_down((uint64_t)RUNG__MIN(gap, GAP_BYTES_MAX), align);
}

/* Measure the bandwidth, with large reads, and the rate of the smallest reads. */
static int measure_both(const struct rung__reader_ops *ops, struct rung__reader *reader,
                        uint32_t read_bytes, uint32_t *gap_out)
{
	double reads_per_s = 0, large_per_s = 0;
	/* large reads come first: they touch the pool's memory, so the small ones cause no page
	 * faults */
	int rc = rate(ops, reader, read_bytes, &large_per_s);

	if (rc == 0)
		rc = rate(ops, reader, reader->geometry.align, &reads_per_s);
	*gap_out =
		rung__merge_gap_of(large_per_s * read_bytes, reads_per_s, reader->geometry.align);
	return rc;
}

int rung__merge_gap_measure(const struct rung__reader_ops *ops, struct rung__reader *reader,
                            uint32_t read_bytes, uint32_t *gap_out)
{
	struct stat st;
	int rc = 0;

	*gap_out = RUNG__MERGE_GAP_DEFAULT;
	if (!reader->direct || reader->ops->reads_nothing ||
	    reader->geometry.file_bytes < FILE_BYTES_MIN || fstat(reader->fd, &st) != 0)
		return 0;
	pthread_mutex_lock(&kept_lock);
	for (unsigned i = 0; i < kept_count; i++) {
		if (kept[i].device == st.st_dev && kept[i].ops == reader->ops &&
		    kept[i].queue_depth == reader->args.queue_depth &&
		    kept[i].read_bytes == read_bytes) {
			*gap_out = kept[i].merge_gap_bytes;
			goto unlock;
		}
	}
	rc = measure_both(ops, reader, read_bytes, gap_out);
	if (rc == 0 && kept_count < KEPT_MAX)
		kept[kept_count++] =
			(struct kept){ st.st_dev, reader->ops, reader->args.queue_depth, read_bytes,
			               *gap_out };
unlock:
	pthread_mutex_unlock(&kept_lock);
	return rc;
}
