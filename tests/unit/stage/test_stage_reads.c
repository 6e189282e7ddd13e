/* SPDX-License-Identifier: Apache-2.0 */
/* Many reads in flight, by io_uring and by threads: all of them come, with their bytes, or the first failure is told when none is left. */
#include <fcntl.h>

#include "file/file.h"
#include "base/base.h"
#include "stage_fixture.h"
#include "rows/stage_reads.h"

TestSuite(stage_reads, .init = setup, .fini = teardown, .timeout = 120);

#define PAGES 600u
#define DEPTH 40u
#define SLOT  (3 * RUNG__PAGE_BYTES)

static char path[300];
static unsigned char *expected, *buffers;
static struct rung__direct file;
static struct rung__row_reads reads;

/* Its last page is not a whole one. */
static void make_file(void)
{
	int fd;

	snprintf(path, sizeof(path), "%s/file", dir);
	expected = malloc(PAGES * RUNG__PAGE_BYTES);
	support_row(1, PAGES * RUNG__PAGE_BYTES, expected);
	cr_assert_eq(support_write_file(path, expected, PAGES * RUNG__PAGE_BYTES - 1000), 0);
	fd = open(path, O_RDONLY);
	cr_assert_geq(fd, 0);
	cr_assert_eq(rung__direct_open(&file, fd, path), 0);
	close(fd);
	buffers = rung__malloc_aligned(RUNG__PAGE_BYTES, DEPTH * SLOT);
	cr_assert_eq(rung__row_reads_open(&reads, &file, buffers, SLOT, DEPTH), 0, "%s", rung_last_error());
}

static void end_file(void)
{
	rung__row_reads_close(&reads);
	rung__direct_close(&file);
	rung__free(buffers);
	free(expected);
}

/* Each page once, in an order of its own, with as much of the next as fits. */
struct reading {
	uint64_t sent, ended, stop_at, offsets[DEPTH], bytes[DEPTH];
};

static bool next_page(void *ctx, uint32_t slot, uint64_t *offset_out, uint64_t *bytes_out)
{
	struct reading *r = ctx;
	const uint64_t end = PAGES * RUNG__PAGE_BYTES - 1000;

	if (r->sent == PAGES)
		return false;
	*offset_out = r->offsets[slot] = r->sent++ * 7 % PAGES * RUNG__PAGE_BYTES;
	*bytes_out = r->bytes[slot] = RUNG__MIN(1 + r->sent * 331 % SLOT, end - *offset_out);
	return true;
}

static int look(void *ctx, uint32_t slot, const unsigned char *at)
{
	struct reading *r = ctx;

	cr_assert_eq(memcmp(at, expected + r->offsets[slot], r->bytes[slot]), 0, "offset %" PRIu64, r->offsets[slot]);
	return ++r->ended == r->stop_at ? rung__fail(RUNG_E_CANCELED, "enough") : 0;
}

Test(stage_reads, every_read_comes_by_either_engine)
{
	for (int threads = 0; threads < 2; threads++) {
		struct reading r = { .sent = 0 };
		const struct rung__row_reads_job job = { next_page, look, &r };

		rung__row_reads_by_threads = threads;
		make_file();
		cr_assert(!threads || reads.ops == &rung__engine_pread);
		cr_assert_eq(rung__row_reads_run(&reads, &job), 0, "%s", rung_last_error());
		cr_assert_eq(r.ended, PAGES);
		r.sent = 0;   /* and once more through the same */
		cr_assert_eq(rung__row_reads_run(&reads, &job), 0, "%s", rung_last_error());
		cr_assert_eq(r.ended, 2 * PAGES);
		end_file();
	}
}

Test(stage_reads, a_failure_is_told_when_no_read_is_in_flight)
{
	for (int threads = 0; threads < 2; threads++) {
		struct reading r = { .stop_at = 100 };
		const struct rung__row_reads_job job = { next_page, look, &r };

		rung__row_reads_by_threads = threads;
		make_file();
		cr_assert_eq(rung__row_reads_run(&reads, &job), RUNG_E_CANCELED);
		cr_assert_str_eq(rung_last_error(), "enough");
		cr_assert_eq(r.ended, 100);
		cr_assert_eq(reads.unused_count, DEPTH);
		r = (struct reading){ .sent = 0 };
		cr_assert_eq(truncate(path, 50 * RUNG__PAGE_BYTES), 0);
		cr_assert_eq(rung__row_reads_run(&reads, &job), RUNG_E_IO);
		cr_assert(strstr(rung_last_error(), path), "%s", rung_last_error());
		cr_assert_eq(reads.unused_count, DEPTH);
		end_file();
	}
}

/* The same files by threads as by io_uring. */
Test(stage_reads, gathered_rows_are_the_same_by_either_engine)
{
	char reference[310];

	snprintf(reference, sizeof(reference), "%s/reference", dir);
	cr_assert_eq(support_sources(dir, 4000, 9000, 1536, 4), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.plan = RUNG_STAGE_PLAN_GATHER;
	opts.out_dir = reference;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.out_dir = out;
	rung__row_reads_by_threads = true;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_files(reference, out);
}
