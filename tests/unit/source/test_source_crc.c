/* SPDX-License-Identifier: Apache-2.0 */
/* Stored members of a .npz: their CRC is compared when the whole member has been read. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "npz.h"
#include "source_values.h"

TestSuite(source_crc, .init = setup, .fini = teardown);

/* The .npy of 0 to 99 plus 5 bytes, as a stored member. */
static void store_values(const char *name)
{
	size_t bytes;
	unsigned char *npy = npy_of_values(&bytes), *more = calloc(1, bytes + 5);

	memcpy(more, npy, bytes);
	write_npz(name, "x.npy", ZIP_CM_STORE, more, bytes + 5);
	snprintf(spec, sizeof(spec), "%s:x", path);
	free(npy);
	free(more);
}

/* Reads pieces of 1 to 7 rows from the end, some of them twice. Rows are delivered in any case.
 * @return whether damage was detected */
static int read_in_pieces(const char *what)
{
	struct rung_source *src;
	int rc, failed = 0;
	char rows[25 * 16];

	cr_assert_eq(rung_source_open(what, &src), 0, "%s", rung_last_error());
	for (uint64_t end = 25; end > 0;) {
		const uint64_t count = RUNG__MIN(end, 1 + end % 7), beside = end < 24 ? 2 : 0;

		end -= count;
		rc = rung_source_read(src, end, count + beside, rows);
		cr_assert(rc == 0 || rc == RUNG_E_FORMAT, "%s", rung_last_error());
		cr_assert(rc == 0 || end == 0, "reported before the whole member was read");
		failed += rc < 0;
	}
	cr_assert_eq(rung_source_read(src, 3, 4, rows) < 0, failed, "the result must be permanent");
	rung_source_close(src);
	return failed;
}

Test(source_crc, the_crc_of_a_stored_member_is_compared_after_the_last_read)
{
	size_t zip_bytes;
	unsigned char *zip;
	int found = 0, tried = 0;

	store_values("a.npz");
	cr_assert_eq(read_in_pieces(spec), 0);
	zip = support_read_file(file_at("a.npz"), &zip_bytes);
	for (size_t at = 30 + 5; at < 30 + 5 + 128 + 400 + 5;
	     at += 3) { /* after the local header and the name */
		const unsigned char old = zip[at];
		struct rung_source *src;

		/* in the header: another white-space character, or another letter, which may be
		 * rejected */
		zip[at] = old == ' ' ? '\t' : old ^ 1;
		cr_assert_eq(support_write_file(file_at("b.npz"), zip, zip_bytes), 0);
		zip[at] = old;
		snprintf(spec, sizeof(spec), "%s:x", path);
		if (rung_source_open(spec, &src) < 0 || rung_source_info(src)->row_count != 25)
			continue;
		rung_source_close(src);
		tried++;
		found += read_in_pieces(spec);
	}
	cr_assert_gt(tried, 150);
	cr_assert_eq(found, tried);
	free(zip);
}

/* The bytes after the array cannot be read, so every read that completes the array must fail. */
Test(source_crc, a_failed_comparison_is_repeated)
{
	struct rung_source *src;
	size_t zip_bytes;
	unsigned char *zip;
	char rows[25 * 16];

	store_values("a.npz");
	zip = support_read_file(file_at("a.npz"), &zip_bytes);
	snprintf(spec, sizeof(spec), "%s:x", path);
	cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
	cr_assert_eq(truncate(path, 30 + 5 + 128 + 400 + 2), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_lt(rung_source_read(src, 0, 25, rows), 0, "read %d", i);
	cr_assert_eq(support_write_file(path, zip, zip_bytes), 0);
	cr_assert_eq(rung_source_read(src, 0, 25, rows), 0, "%s", rung_last_error());
	rung_source_close(src);
	free(zip);
}

#define WIDE_ROWS 40000u

struct reader {
	const struct rung_source *src;
	uint64_t first;
	int failed;
};

/* Reads an eighth of the rows, 50 at a time. */
static void *read_eighth(void *ctx)
{
	struct reader *reader = ctx;
	char rows[50 * 16];

	for (uint64_t row = reader->first; row < reader->first + WIDE_ROWS / 8; row += 50)
		reader->failed += rung_source_read(reader->src, row, 50, rows) < 0;
	return NULL;
}

/* Opens w.npz:x, intact or with one bit changed. */
static struct rung_source *open_wide(int damaged)
{
	struct rung_source *src;

	add_to_npz(file_at("w.npz"), "x.npy", strcat(strcpy(spec, dir), "/wide.npy"), ZIP_CM_STORE);
	if (damaged)
		damage_stored(path, 16 * 777);
	snprintf(spec, sizeof(spec), "%s:x", path);
	cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
	return src;
}

static void write_wide(void)
{
	unsigned char *rows = calloc(WIDE_ROWS, 16);

	for (size_t i = 0; i < WIDE_ROWS * 16; i++)
		rows[i] = (unsigned char)(i * i >> 7);
	cr_assert_eq(
		support_write_npy(file_at("wide.npy"), "|u1", "(40000, 16)", rows, WIDE_ROWS * 16),
		0);
	free(rows);
}

Test(source_crc, the_last_of_several_reading_threads_detects_damage)
{
	write_wide();
	for (int damaged = 0; damaged < 2; damaged++) {
		struct rung_source *src = open_wide(damaged);
		struct reader readers[8];
		pthread_t threads[8];
		int failed = 0;

		for (unsigned t = 0; t < 8; t++) {
			readers[t] = (struct reader){ .src = src, .first = t * (WIDE_ROWS / 8) };
			cr_assert_eq(pthread_create(&threads[t], NULL, read_eighth, &readers[t]),
			             0);
		}
		for (unsigned t = 0; t < 8; t++) {
			pthread_join(threads[t], NULL);
			failed += readers[t].failed;
		}
		cr_assert_eq(failed, damaged);
		rung_source_close(src);
	}
}

/* More separate pieces than are recorded: nothing is compared, and an intact member is not reported
 * as damaged. */
Test(source_crc, random_reads_of_a_stored_member_are_not_compared)
{
	char row[16];

	write_wide();
	for (int damaged = 0; damaged < 2; damaged++) {
		struct rung_source *src = open_wide(damaged);

		for (uint64_t i = 0; i < WIDE_ROWS; i++)
			cr_assert_eq(rung_source_read(src, i * 7919 % WIDE_ROWS, 1, row), 0, "%s",
			             rung_last_error());
		rung_source_close(src);
	}
}
