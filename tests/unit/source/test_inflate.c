/* SPDX-License-Identifier: Apache-2.0 */
/* Large deflated members, inflated as they are read: any part in any order, and damage. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/jobs.h"
#include "npz.h"
#include "rung/rung.h"
#include "expect_error.h"
#include "source/source.h"
#include "source/state.h"

#define ROWS      110000u
#define ROW_BYTES 100u
#define BYTES     ((uint64_t)ROWS * ROW_BYTES) /* 10.5 MiB */

static char dir[256], npz[300], spec[320];
static unsigned char *expected;

/* Half of the bits are random: the data can be deflated but never repeats. */
static void setup(void)
{
	char npy[300];

	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(npy, sizeof(npy), "%s/x.npy", dir);
	snprintf(npz, sizeof(npz), "%s/a.npz", dir);
	snprintf(spec, sizeof(spec), "%s:x", npz);
	expected = malloc(BYTES);
	for (uint64_t i = 0; i < BYTES; i += 8) {
		const uint64_t word = rung__mix64(i) & UINT64_C(0x0f0f0f0f0f0f0f0f);

		memcpy(expected + i, &word, 8);
	}
	cr_assert_eq(support_write_npy(npy, "|u1", "(110000, 100)", expected, BYTES), 0);
	deflate_into(npz, "x.npy", npy);
	cr_assert_eq(unlink(npy), 0);
}

static void teardown(void)
{
	free(expected);
	support_remove(dir);
}

TestSuite(inflate, .init = setup, .fini = teardown, .timeout = 120);

static struct rung_source *open_source(void)
{
	struct rung_source *src = NULL;

	cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
	cr_assert(rung__source_location(src).streamed && !src->data);
	cr_assert_eq(rung_source_info(src)->row_count, ROWS);
	return src;
}

/* @return 0 if the bytes are right, 1 if they are wrong, or the error status */
static int read_some(const struct rung_source *src, uint64_t first, uint64_t count)
{
	unsigned char *bytes = malloc(count);
	int rc = rung__source_read_bytes(src, first, count, bytes);

	if (rc == 0)
		rc = memcmp(bytes, expected + first, count) != 0;
	free(bytes);
	return rc;
}

Test(inflate, any_part_is_read_in_any_order)
{
	struct rung_source *src = open_source();
	uint64_t draw = 1;

	cr_assert_eq(read_some(src, BYTES - 5, 5), 0);
	cr_assert_eq(read_some(src, 0, 1), 0);
	for (int i = 0; i < 30; i++) {
		const uint64_t first = rung__mix64(draw++) % BYTES,
			       count = 1 + rung__mix64(draw++) % (i % 3 ? 3000 : 3000000);

		cr_assert_eq(read_some(src, first, RUNG__MIN(count, BYTES - first)), 0, "%d", i);
	}
	for (uint64_t at = 0; at < BYTES; at += 1 << 20)
		cr_assert_eq(read_some(src, at, RUNG__MIN(BYTES - at, 1u << 20)), 0);
	cr_assert_eq(rung__source_read_bytes(src, BYTES, 1, &draw), RUNG_E_INVAL);
	cr_assert_lt(rung__source_location(src).memory_bytes, 1 << 20);
	rung_source_close(src);
}

/* Reads two places in turn from several threads, like the halves of an edge list [2,E]. */
static int read_job(void *ctx, uint64_t job, uint32_t worker)
{
	const uint64_t half = BYTES / 2, at = (worker % 2) * half + job / 2 * 40000;
	int rc = read_some(ctx, RUNG__MIN(at, BYTES - 40000), 40000);

	return rc == 1 ? rung__fail(RUNG_E_CORRUPT, "wrong bytes") : rc;
}

Test(inflate, threads_read_different_parts_at_the_same_time)
{
	struct rung_source *src = open_source();
	struct rung__jobs *jobs;

	cr_assert_eq(rung__jobs_start(4, 200, read_job, src, &jobs), 0);
	cr_assert_eq(rung__jobs_end(jobs), 0, "%s", rung_last_error());
	rung_source_close(src);
}

/* Changes a byte of the .npz, then checks that reading all of it fails with these words. */
static void is_damaged(uint64_t at, unsigned char change, const char *words)
{
	struct rung_source *src;
	size_t bytes;
	unsigned char *data = support_read_file(npz, &bytes);
	int rc = 0;

	data[at] ^= change;
	cr_assert_eq(support_write_file(npz, data, bytes), 0);
	src = open_source();
	for (uint64_t first = 0; first < BYTES && rc >= 0; first += 1 << 20)
		rc = read_some(src, first, RUNG__MIN(BYTES - first, 1u << 20));
	assert_error(rc, RUNG_E_FORMAT, words);
	cr_assert_eq(rung__source_read_bytes(src, BYTES - 5, 5, &rc),
	             RUNG_E_FORMAT); /* the failure is permanent */
	rung_source_close(src);
	data[at] ^= change;
	cr_assert_eq(support_write_file(npz, data, bytes), 0);
	free(data);
}

static uint64_t find(const char *magic)
{
	size_t bytes;
	unsigned char *data = support_read_file(npz, &bytes);
	uint64_t at = bytes - 4;

	while (memcmp(data + at, magic, 4) != 0)
		at--;
	free(data);
	return at;
}

Test(inflate, damage_is_reported)
{
	const uint64_t entry = find("PK\1\2");

	is_damaged(entry + 16, 1, "CRC"); /* the zip entry of the member */
	is_damaged(entry - 3000, 0x55, "cannot be inflated");
}

/* Writes the member with `more` bytes added to or removed from the array, but with the array's
 * length in its entry. */
static void has_length(int more, unsigned char change, const char *words)
{
	char npy[300];

	snprintf(npy, sizeof(npy), "%s/x.npy", dir);
	cr_assert_eq(support_write_npy(npy, "|u1", "(110000, 100)", expected, BYTES), 0);
	cr_assert_eq(truncate(npy, (off_t)BYTES + 128 + more), 0);
	cr_assert_eq(unlink(npz), 0);
	deflate_into(npz, "x.npy", npy);
	is_damaged(find("PK\1\2") + 24, change, words);
}

Test(inflate, a_length_that_differs_from_the_zip_entry_is_reported)
{
	/* the last bytes of the lengths: 11000192 ends in 0x80, 11000128 in 0x40, 11000064 in 0 */
	has_length(64, 0x80 ^ 0x40, "to more");
	has_length(-64, 0x40, "to less");
}

Test(inflate, a_file_cut_after_opening_is_an_error)
{
	struct rung_source *src = open_source();

	cr_assert_eq(truncate(npz, 3 << 20), 0);
	cr_assert_eq(read_some(src, 0, 1 << 20), 0);
	cr_assert_eq(read_some(src, BYTES - 5, 5), RUNG_E_IO);
	cr_assert_eq(read_some(src, 0, 1 << 20), 0); /* the remaining bytes can still be read */
	rung_source_close(src);
}

Test(inflate, nothing_leaks_whichever_allocation_fails)
{
	int64_t allowed = 0;
	int rc;

	do {
		struct rung_source *src = NULL;

		rung__alloc_limit(allowed++);
		rc = rung_source_open(spec, &src);
		for (uint64_t at = 1; at <= 2 && rc == 0; at++)
			rc = read_some(src, BYTES / (2 * at), 1000);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d: %s", rc, rung_last_error());
		if (rc < 0 && src)
			cr_assert_eq(read_some(src, 0, BYTES), 0,
			             "a read that lacked memory must not affect later reads");
		rung_source_close(src);
	} while (rc == RUNG_E_NOMEM);
	cr_assert_gt(allowed, 5);
}
