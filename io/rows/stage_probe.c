/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the rates of the devices in the way that staging uses them: large reads of the source
 * and large writes to an unnamed file in the folder of the output, a few at a time, and random
 * reads of single rows. Each takes 0.12 s or a little longer. A rate that cannot be measured is 0,
 * and orders that depend on it have no prediction.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/jobs.h"
#include "file/direct.h"
#include "rows/stage_probe.h"
#include "rows/stage_scan.h"
#include "source/source.h"

/* smaller sources are staged in seconds in any order */
#define SOURCE_BYTES_MIN (UINT64_C(256) << 20)
/* the next two values are the same as in stage_schedule.c */
#define LARGE_BYTES (UINT64_C(4) << 20)
#define LARGE_JOBS  4u
#define ROUND_JOBS  4u /* jobs per thread between two checks of the clock */
#define PROBE_NS    120000000u

/* A measurement of large reads or writes. */
struct probe {
	const struct rung__direct *file;
	uint64_t bytes; /* size of one read or write */
	/* the number of positions, and the offset of the first; positions are `bytes` apart and are
	 * used in turn */
	uint64_t positions, first;
	uint64_t done; /* number of jobs in earlier rounds */
	bool writes;
	unsigned char *buffers; /* [threads][bytes] */
};

/* One read or write. Runs in a job. */
static int move(void *ctx, uint64_t job, uint32_t worker)
{
	const struct probe *probe = ctx;
	const uint64_t offset =
		probe->first + (probe->done + job) % probe->positions * probe->bytes;
	unsigned char *buffer = probe->buffers + worker * probe->bytes;

	if (probe->writes)
		return rung__direct_write(probe->file, buffer, probe->bytes, offset);
	return rung__direct_read(probe->file, buffer, probe->bytes, offset);
}

/* Run rounds of jobs for PROBE_NS. @return jobs per second; 0 if a job failed */
static double rate(struct probe *probe, uint32_t threads)
{
	const uint64_t begin_ns = rung__now_ns();
	uint64_t ns = 0;

	probe->buffers = rung__malloc_aligned(RUNG__PAGE_BYTES, threads * probe->bytes);
	for (uint64_t i = 0; probe->buffers && probe->writes && i < threads * probe->bytes; i += 8)
		/* random data, which a device cannot compress */
		*(uint64_t *)(void *)(probe->buffers + i) = rung__mix64(i);
	while (probe->buffers && ns < PROBE_NS) {
		struct rung__jobs *jobs;

		if (rung__jobs_start(threads, threads * ROUND_JOBS, move, probe, &jobs) < 0 ||
		    rung__jobs_end(jobs) < 0) {
			probe->done = 0;
			break;
		}
		probe->done += threads * ROUND_JOBS;
		ns = rung__now_ns() - begin_ns;
	}
	/* the sync is part of the time: data in the cache of a device are not written yet */
	if (probe->writes && probe->done && fdatasync(probe->file->fd) < 0)
		probe->done = 0;
	ns = rung__now_ns() - begin_ns;
	rung__free(probe->buffers);
	return (double)probe->done * 1e9 / (double)RUNG__MAX(ns, 1u);
}

/* Reads of single rows per second, with the reader and the queue depth of "gather"; 0: the
 * measurement failed. */
static double row_rate(const struct rung_source *src, uint64_t read_bytes)
{
	const struct rung__features features = rung__source_features(src);
	const struct rung__row_reads_args args = {
		.features = &features,
		.depth = RUNG__ROW_READS,
		.slot_bytes = read_bytes,
		.merge_gap_bytes = RUNG__ROW_READ_GAP,
	};
	struct rung__row_reads *reads;
	double reads_per_s;

	if (rung__row_reads_open(&args, &reads) < 0)
		return 0;
	reads_per_s = rung__row_reads_rate(reads, (uint32_t)read_bytes, PROBE_NS);
	rung__row_reads_close(reads);
	return reads_per_s;
}

/* Measure large reads and reads of single rows of a source in a file. */
static void measure_source(const struct rung__direct *file, const struct rung_source *src,
                           struct rung__figures *figures)
{
	const struct rung_array_info *info = rung_source_info(src);
	struct probe large = {
		.file = file,
		.bytes = LARGE_BYTES,
		.first = rung__align_up(rung__source_location(src).offset, RUNG__PAGE_BYTES),
		.positions = info->row_count * info->row_bytes / LARGE_BYTES - 1,
	};

	figures->read_bytes_per_s = LARGE_BYTES * rate(&large, LARGE_JOBS);
	figures->row_reads_per_s = row_rate(src, rung__align_up(info->row_bytes, RUNG__PAGE_BYTES));
}

/* Measure a streamed source: read from the first row on, in order, until the time is over. */
static void measure_inflating(const struct rung_source *src, uint64_t row_bytes,
                              struct rung__figures *figures)
{
	const uint64_t rows = RUNG__MAX(LARGE_BYTES / row_bytes, 1u), begin_ns = rung__now_ns();
	unsigned char *buffer = rung__malloc_array(rows, (size_t)row_bytes);
	uint64_t done = 0, ns = 0;

	while (buffer && ns < PROBE_NS && done + rows <= rung_source_info(src)->row_count &&
	       rung_source_read(src, done, rows, buffer) == 0) {
		done += rows;
		ns = rung__now_ns() - begin_ns;
	}
	figures->read_bytes_per_s = (double)(done * row_bytes) * 1e9 / (double)RUNG__MAX(ns, 1u);
	rung__free(buffer);
}

/* Measure large writes in the parent folder of the output, because OUT.partial does not exist yet.
 * The file has no name, so nothing remains if the process is killed. */
static void measure_output(const struct rung__stage *stage, struct rung__figures *figures)
{
	struct probe probe = { .bytes = LARGE_BYTES,
		               .positions = UINT64_MAX / LARGE_BYTES / 2,
		               .writes = true };
	char *parent =
		rung__format("%.*s.", (int)(stage->dir.name - stage->dir.path), stage->dir.path);
	struct rung__direct file;

	if (parent && rung__direct_temp(&file, parent, "file for a measurement", 0) == 0) {
		probe.file = &file;
		figures->write_bytes_per_s = LARGE_BYTES * rate(&probe, LARGE_JOBS);
		rung__direct_close(&file);
	}
	rung__free(parent);
}

/* Whether source and output are on one file system: then their reads and writes compete. */
static bool same_device(const struct rung__stage *stage, int source_fd)
{
	struct stat source, output;

	return fstat(source_fd, &source) == 0 && fstat(stage->dir.parent_fd, &output) == 0 &&
	       source.st_dev == output.st_dev;
}

void rung__stage_probe(const struct rung__stage *stage, const struct rung_source *src,
                       struct rung__figures *figures_out)
{
	const struct rung__source_location place = rung__source_location(src);
	const struct rung_array_info *info = rung_source_info(src);
	const uint64_t bytes = info->row_count * info->row_bytes;
	struct rung__direct file;

	*figures_out = (struct rung__figures){ .one_device = true };
	if (bytes < SOURCE_BYTES_MIN || info->row_bytes > bytes / 8 || place.data)
		return;
	/* inflating is limited by a CPU, and overlaps with the writes of any device */
	if (place.streamed) {
		figures_out->one_device = false;
		measure_inflating(src, info->row_bytes, figures_out);
		measure_output(stage, figures_out);
		return;
	}
	if (rung__direct_open(&file, place.fd, place.path) < 0)
		return;
	figures_out->one_device = same_device(stage, place.fd);
	measure_source(&file, src, figures_out);
	rung__direct_close(&file);
	measure_output(stage, figures_out);
}
