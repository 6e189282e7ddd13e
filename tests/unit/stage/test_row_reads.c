/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of rows at random offsets, by io_uring and by threads: every row arrives with its bytes, or
 * the first failure is reported once no read is in flight. */
#include <fcntl.h>

#include "base/base.h"
#include "stage_fixture.h"
#include "tier/row_reads.h"

TestSuite(row_reads, .init = setup, .fini = teardown, .timeout = 120);

#define ROWS   4000u
#define BYTES  700u
#define OFFSET 128u
#define DEPTH  40u
#define SLOT   (3 * RUNG__PAGE_BYTES)

static const enum rung_engine engines[] = { RUNG_ENGINE_AUTO, RUNG_ENGINE_PREAD };
static char path[300];
static unsigned char *expected;
static uint32_t vertices[ROWS];
static struct rung__features of_file;
static struct rung__row_reads *reads;

/* Receives the rows of a list. */
struct putting {
	uint64_t put, calls, stop_at;
	unsigned char seen[ROWS];
};

static void open_reads(enum rung_engine engine)
{
	const uint64_t bytes = OFFSET + (uint64_t)ROWS * BYTES;
	const struct rung__row_reads_args args = { &of_file, DEPTH, SLOT, 1024 };

	snprintf(path, sizeof(path), "%s/file", dir);
	expected = malloc(bytes);
	support_row(1, bytes, expected);
	cr_assert_eq(support_write_file(path, expected, bytes), 0);
	of_file = (struct rung__features){ .layout = { .data_offset = OFFSET,
		                                       .row_stride = BYTES,
		                                       .row_bytes = BYTES,
		                                       .file_count = 1,
		                                       .file_bytes = { bytes } } };
	of_file.files[0].path = path;
	of_file.files[0].fd = open(path, O_RDONLY);
	cr_assert_geq(of_file.files[0].fd, 0);
	rung__row_reads_engine = engine;
	cr_assert_eq(rung__row_reads_open(&args, &reads), 0, "%s", rung_last_error());
}

static void close_reads(void)
{
	rung__row_reads_close(reads);
	close(of_file.files[0].fd);
	free(expected);
}

/* Some rows adjacent, some far apart, one twice. */
static uint64_t list_vertices(void)
{
	uint64_t count = 0;

	for (uint32_t v = 0; v < ROWS; v += v % 100 < 30 ? 1 : v % 100 < 60 ? 3 : 17)
		vertices[count++] = v;
	vertices[count] = vertices[count - 1];
	return count + 1;
}

static int look(void *ctx, uint64_t first, uint64_t end, const unsigned char *row)
{
	struct putting *p = ctx;

	p->calls++;
	for (uint64_t i = first; i < end; i++, p->put++) {
		const uint64_t v = vertices[i];

		p->seen[i]++;
		cr_assert_eq(memcmp(row + (v - vertices[first]) * BYTES,
		                    expected + OFFSET + v * BYTES, BYTES),
		             0, "vertex %" PRIu64, v);
	}
	return p->calls == p->stop_at ? rung__fail(RUNG_E_CANCELED, "enough") : 0;
}

static int run(struct putting *p)
{
	const struct rung__row_list list = { vertices, sizeof(vertices[0]), list_vertices(), look,
		                             p };

	return rung__row_reads_run(reads, &list);
}

Test(row_reads, every_row_arrives_once_with_either_engine)
{
	const uint64_t count = list_vertices();

	for (size_t e = 0; e < RUNG__ARRAY_LEN(engines); e++) {
		open_reads(engines[e]);
		for (int again = 0; again < 2; again++) {
			struct putting p = { .put = 0 };

			cr_assert_eq(run(&p), 0, "%s", rung_last_error());
			cr_assert_eq(p.put, count);
			for (uint64_t i = 0; i < count; i++)
				cr_assert_eq(p.seen[i], 1, "row %" PRIu64 " of the list", i);
			cr_assert_lt(p.calls, count, "nearby rows must share reads");
			cr_assert_gt(p.calls, 2 * DEPTH, "slots must be reused");
		}
		close_reads();
	}
}

Test(row_reads, a_failure_is_reported_when_no_read_is_in_flight)
{
	for (size_t e = 0; e < RUNG__ARRAY_LEN(engines); e++) {
		struct putting p = { .stop_at = 50 };

		open_reads(engines[e]);
		cr_assert_eq(run(&p), RUNG_E_CANCELED);
		cr_assert_str_eq(rung_last_error(), "enough");
		cr_assert_eq(p.calls, 50);
		p = (struct putting){ .put = 0 };
		cr_assert_eq(run(&p), 0, "reads must work again after a failure");
		cr_assert_eq(truncate(path, ROWS / 2 * BYTES), 0);
		cr_assert_eq(run(&p), RUNG_E_IO);
		cr_assert(strstr(rung_last_error(), path), "%s", rung_last_error());
		cr_assert(strstr(rung_last_error(), "was truncated"), "%s", rung_last_error());
		close_reads();
	}
}

/* Threads and io_uring must write the same files. */
Test(row_reads, gathered_rows_are_the_same_with_either_engine)
{
	char reference[310];

	snprintf(reference, sizeof(reference), "%s/reference", dir);
	cr_assert_eq(support_sources(dir, 4000, 9000, 1536, 4), 0);
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.row_order = RUNG_ROW_ORDER_GATHER;
	opts.out_dir = reference;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.out_dir = out;
	rung__row_reads_engine = RUNG_ENGINE_PREAD;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_files(reference, out);
}
