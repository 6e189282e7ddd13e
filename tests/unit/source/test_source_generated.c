/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that are not read in place: ranges, padding, selected rows, text, and members inflated
 * into memory or temporary files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

#include "base/base.h"
#include "source_fixture.h"
#include "source/source_generated.h"
#include "source/source.h"

static char spec[900];

TestSuite(source_generated, .init = setup, .fini = teardown);

static const char *spec_of(const char *before, const char *name, const char *behind)
{
	snprintf(spec, sizeof(spec), "%s%s/%s%s", before, dir, name, behind);
	return spec;
}

static struct rung_source *opened(const char *what, uint64_t rows)
{
	struct rung_source *src;

	cr_assert_eq(rung_source_open(what, &src), 0, "%s", rung_last_error());
	cr_assert_eq(rung_source_info(src)->row_count, rows);
	return src;
}

/* Writes 0 to count - 1 as a deflated member of a.npz. */
static void write_npz(uint32_t count)
{
	uint32_t *values = malloc(count * sizeof(*values));
	char shape[32];
	unsigned char *npy;
	size_t bytes;
	zip_t *zip;

	for (uint32_t i = 0; i < count; i++)
		values[i] = i;
	snprintf(shape, sizeof(shape), "(%u,)", count);
	cr_assert_eq(support_write_npy(file_at("values.npy"), "<u4", shape, values,
	                               count * sizeof(*values)),
	             0);
	npy = support_read_file(file_at("values.npy"), &bytes);
	zip = zip_open(file_at("a.npz"), ZIP_CREATE, NULL);
	cr_assert(zip_file_add(zip, "d.npy", zip_source_buffer(zip, npy, bytes, 0), 0) == 0);
	cr_assert_eq(zip_close(zip), 0);
	free(npy);
	free(values);
}

static void holds_ascending(const char *what, uint32_t count, uint32_t first)
{
	struct rung_source *src = opened(what, count);
	const uint64_t item = rung_source_info(src)->row_bytes;
	unsigned char *rows = malloc(count * item);
	uint32_t wrong = 0;

	cr_assert_eq(rung_source_read(src, 0, count, rows), 0, "%s", rung_last_error());
	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = 0;

		memcpy(&value, rows + i * item, item);
		wrong += value != first + i;
	}
	cr_assert_eq(wrong, 0);
	cr_assert_eq(rung_source_read(src, count - 2, 1, rows), 0);
	cr_assert_eq(rows[0], (unsigned char)(first + count - 2));
	rung_source_close(src);
	free(rows);
}

Test(source_generated, a_member_too_large_for_memory_is_inflated_into_a_file)
{
	const int fds = support_open_descriptors();
	const uint32_t count = 1050001; /* more than a buffer, and not a whole number of pages */

	write_npz(count);
	for (int in_file = 0; in_file < 2; in_file++) {
		rung__generated_memory_max = in_file ? 1000 : UINT64_MAX;
		holds_ascending(spec_of("", "a.npz", ":d"), count, 0);
		cr_assert_eq(support_open_descriptors(), fds);
	}
}

Test(source_generated, a_missing_folder_for_temporary_files_is_reported)
{
	write_npz(1000);
	rung__generated_memory_max = 100;
	setenv("TMPDIR", "/nonexistent/folder", 1);
	fails(spec_of("", "a.npz", ":d"), RUNG_E_NOENT, "TMPDIR");
}

Test(source_generated, numbers_of_a_range_are_computed_on_reading)
{
	const uint64_t most = INT64_MAX / 8;
	unsigned char bytes[11], wanted[24];
	struct rung_source *src;
	int64_t ids[3];

	rung__generated_memory_max = 0;
	setenv("TMPDIR", "/nonexistent/folder", 1);
	holds_ascending("range:7,3007", 3000, 7);
	snprintf(spec, sizeof(spec), "range:0,%" PRIu64, most);
	src = opened(spec, most);
	cr_assert_eq(rung_source_read(src, most - 3, 3, ids), 0);
	cr_assert(ids[0] == (int64_t)most - 3 && ids[2] == (int64_t)most - 1);
	memcpy(wanted, ids, sizeof(wanted));
	cr_assert_eq(rung__source_read_bytes(src, 8 * (most - 3) + 6, 11, bytes), 0);
	cr_assert_eq(memcmp(bytes, wanted + 6, 11), 0);
	rung_source_close(src);
}

Test(source_generated, ranges_are_checked)
{
	struct rung_source *src = opened("range:5,5", 0);

	rung_source_close(src);
	fails("range:5,4", RUNG_E_INVAL, "range:FIRST,END");
	fails("range:5", RUNG_E_INVAL, "range:FIRST,END");
	fails("range:,5", RUNG_E_INVAL, "range:FIRST,END");
	fails("range:-1,5", RUNG_E_INVAL, "range:FIRST,END");
	fails("range:1,5,", RUNG_E_INVAL, "range:FIRST,END");
	fails("range:0,18446744073709551615", RUNG_E_INVAL, "range:FIRST,END");
}

Test(source_generated, padding_after_the_rows_is_minus_one_or_nan)
{
	const float values[] = { 1, 2, 3, 4 };
	const int16_t ids[] = { 5, 6 };
	float rows[10];
	int16_t all[3];
	struct rung_source *src;

	cr_assert_eq(support_write_npy(file_at("f.npy"), "<f4", "(2, 2)", values, sizeof(values)),
	             0);
	cr_assert_eq(support_write_npy(file_at("i.npy"), "<i2", "(2,)", ids, sizeof(ids)), 0);
	src = opened(spec_of("pad:5,", "f.npy", ""), 5);
	cr_assert_eq(rung_source_read(src, 0, 5, rows), 0);
	cr_assert_eq(memcmp(rows, values, sizeof(values)), 0);
	for (int i = 4; i < 10; i++)
		cr_assert(isnan(rows[i]));
	cr_assert_eq(rung_source_read(src, 1, 2, rows), 0);
	cr_assert(rows[0] == 3 && rows[1] == 4 && isnan(rows[2]) && isnan(rows[3]));
	rung_source_close(src);
	src = opened(spec_of("pad:3,", "i.npy", ""), 3);
	cr_assert_eq(rung_source_read(src, 0, 3, all), 0);
	cr_assert(all[0] == 5 && all[1] == 6 && all[2] == -1);
	rung_source_close(src);
}

/* Compared with a loop over all rows, for all periods, ranges and lengths, read as a whole and from
 * any row on. */
Test(source_generated, every_selects_the_given_rows_of_each_period)
{
	int16_t values[2 * 23], wanted[2 * 23], rows[2 * 23];
	char shape[32], before[64];

	for (int i = 0; i < 46; i++)
		values[i] = (int16_t)(i * 31);
	for (unsigned count = 0; count <= 23; count += count < 11 ? 1 : 6) {
		snprintf(shape, sizeof(shape), "(%u, 2)", count);
		cr_assert_eq(support_write_npy(file_at("m.npy"), "<i2", shape, values, 4 * count),
		             0);
		for (unsigned c = 0; c < 6 * 7 * 7; c++) {
			const unsigned period = 1 + c % 6, first = c / 6 % 7, end = c / 42;
			struct rung_source *src;
			uint64_t found = 0;

			if (first >= end || end > period)
				continue;
			for (unsigned row = 0; row < count; row++) {
				if (row % period >= first && row % period < end)
					memcpy(wanted + 2 * found++, values + 2 * row, 4);
			}
			snprintf(before, sizeof(before), "every:%u,%u,%u,", period, first, end);
			src = opened(spec_of(before, "m.npy", ""), found);
			for (uint64_t at = 0; at <= found; at++) {
				cr_assert_eq(rung_source_read(src, at, found - at, rows), 0);
				cr_assert_eq(memcmp(rows, wanted + 2 * at, (found - at) * 4), 0,
				             "%s from %" PRIu64 " on", spec, at);
			}
			rung_source_close(src);
		}
	}
	/* periods beyond the last row, up to those whose bytes need more than 64 bits */
	rung_source_close(opened(
		spec_of("every:9223372036854775807,23,9223372036854775807,", "m.npy", ""), 0));
	for (int shift = 5; shift < 63; shift++) {
		struct rung_source *src;

		snprintf(before, sizeof(before), "every:%llu,2,%llu,", 1ull << shift,
		         1ull << shift);
		src = opened(spec_of(before, "m.npy", ""), 21);
		cr_assert_eq(rung_source_read(src, 0, 21, rows), 0);
		cr_assert_eq(memcmp(rows, values + 4, 21 * 4), 0, "%s", spec);
		rung_source_close(src);
	}
	fails(spec_of("every:5,3,3,", "m.npy", ""), RUNG_E_INVAL, "every:PERIOD,FIRST,END,SRC");
	fails(spec_of("every:5,3,6,", "m.npy", ""), RUNG_E_INVAL, "every:PERIOD,FIRST,END,SRC");
	fails(spec_of("every:0,0,0,", "m.npy", ""), RUNG_E_INVAL, "every:PERIOD,FIRST,END,SRC");
	fails(spec_of("every:5,0,", "m.npy", ""), RUNG_E_INVAL, "every:PERIOD,FIRST,END,SRC");
	fails(spec_of("every:5,0,3,every:5,0,3,", "m.npy", ""), RUNG_E_INVAL,
	      "every:PERIOD,FIRST,END,SRC");
	fails(spec_of("pad:9,every:5,0,3,", "m.npy", ""), RUNG_E_INVAL, "pad:ROWS,SRC");
	fails(spec_of("every:5,0,3,", "none.npy", ""), RUNG_E_NOENT, "none.npy");
}

Test(source_generated, padding_is_checked)
{
	const unsigned char bytes[] = { 1, 0 };

	cr_assert_eq(support_write_npy(file_at("u.npy"), "|u1", "(2,)", bytes, 2), 0);
	cr_assert_eq(support_write_npy(file_at("b.npy"), "|b1", "(2,)", bytes, 2), 0);
	cr_assert_eq(support_write_npy(file_at("i.npy"), "|i1", "(2,)", bytes, 2), 0);
	fails(spec_of("pad:5,", "u.npy", ""), RUNG_E_FORMAT, "dtype u8 cannot represent");
	fails(spec_of("pad:5,", "b.npy", ""), RUNG_E_FORMAT, "dtype bool cannot represent");
	fails(spec_of("pad:1,", "i.npy", ""), RUNG_E_FORMAT, "has 2 rows, more than the 1");
	fails(spec_of("pad:18446744073709551615,", "i.npy", ""), RUNG_E_INVAL, "63 bits");
	fails(spec_of("pad:5", "i.npy", ""), RUNG_E_INVAL, "pad:ROWS,SRC");
	fails(spec_of("pad:5,pad:4,", "i.npy", ""), RUNG_E_INVAL, "pad:ROWS,SRC");
	fails("pad:5,", RUNG_E_INVAL, "pad:ROWS,SRC");
	fails(spec_of("pad:5,", "none.npy", ""), RUNG_E_NOENT, "none.npy");
}

Test(source_generated, the_file_of_a_spec_is_found_without_opening_it)
{
	struct stat wanted, found;

	cr_assert_eq(support_write_file(file_at("f"), "12345", 5), 0);
	cr_assert_eq(stat(file_at("f"), &wanted), 0);
	cr_assert_eq(rung__source_stat(spec_of("raw:", "f", ",u8,5"), &found), 0);
	cr_assert_eq(found.st_ino, wanted.st_ino);
	cr_assert_eq(rung__source_stat(spec_of("pad:9,raw:", "f", ",u8,5"), &found), 0);
	cr_assert_eq(found.st_ino, wanted.st_ino);
	cr_assert_eq(rung__source_stat(spec_of("every:9,1,2,raw:", "f", ",u8,5"), &found), 0);
	cr_assert_eq(found.st_ino, wanted.st_ino);
	cr_assert_eq(rename(file_at("f"), spec_of("", "f.pt", "")), 0);
	cr_assert_eq(rung__source_stat(spec_of("", "f.pt", ":train"), &found), 0);
	cr_assert_eq(found.st_ino, wanted.st_ino);
	cr_assert_eq(rung__source_stat(spec_of("", "f.pt", ".csv.gz"), &found), -1);
	/* a range has no file, so nothing of it can change */
	cr_assert_eq(rung__source_stat("range:0,9", &found), 0);
	cr_assert_eq(found.st_ino, 0);
}

static void write_gz(const char *name, const char *text)
{
	gzFile file = gzopen(file_at(name), "wb");

	cr_assert_eq(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
	cr_assert_eq(gzclose(file), Z_OK);
}

static void text_holds(const char *name, uint64_t count, const int64_t *wanted)
{
	struct rung_source *src = opened(spec_of("", name, ""), count);
	int64_t ids[4];

	cr_assert_eq(rung_source_info(src)->dtype, RUNG_I64);
	cr_assert_eq(rung_source_read(src, 0, count, ids), 0);
	cr_assert_eq(memcmp(ids, wanted, count * sizeof(*ids)), 0);
	rung_source_close(src);
}

Test(source_generated, ids_are_read_from_lines_of_text)
{
	static const char *const texts[] = { "7\n0\n9223372036854775807\n",
		                             "7\r\n0\r\n9223372036854775807",
		                             "007\n00\n9223372036854775807\r" };
	const int64_t ids[] = { 7, 0, INT64_MAX };

	for (size_t i = 0; i < RUNG__ARRAY_LEN(texts); i++) {
		write_gz("a.csv.gz", texts[i]);
		text_holds("a.csv.gz", 3, ids);
		cr_assert_eq(support_write_file(file_at("a.txt"), texts[i], strlen(texts[i])), 0);
		text_holds("a.txt", 3, ids);
	}
	write_gz("a.csv.gz", "");
	text_holds("a.csv.gz", 0, ids);
}

Test(source_generated, text_with_anything_else_is_rejected_with_its_line)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{ "id\n1\n", "line 1 has characters" }, { "1\n2,3\n", "line 2 has characters" },
		{ "1\n-2\n", "line 2 has characters" }, { "1\n\n2\n", "line 2 has no id" },
		{ "1\n2 \n", "line 2 has characters" }, { "1\r2\n", "line 1 has a carriage" },
		{ "\r\n", "line 1 has a carriage" },    { "1\r\r\n", "line 1 has a carriage" },
		{ "9223372036854775808\n", "63 bits" }, { "99999999999999999999999\n", "63 bits" },
	};

	for (size_t i = 0; i < RUNG__ARRAY_LEN(bad); i++) {
		cr_assert_eq(support_write_file(file_at("a.csv"), bad[i].text, strlen(bad[i].text)),
		             0);
		fails(spec_of("", "a.csv", ""), RUNG_E_FORMAT, bad[i].words);
	}
	cr_assert_eq(support_write_file(file_at("a.csv.gz"), "1\n", 2), 0);
	fails(spec_of("", "a.csv.gz", ""), RUNG_E_FORMAT, "indicates that it is compressed");
	write_gz("a.csv", "1\n");
	fails(spec_of("", "a.csv", ""), RUNG_E_FORMAT, "indicates that it is not compressed");
}

static void write_lines(const char *name, uint64_t first, uint64_t count)
{
	char line[24];
	gzFile file = gzopen(file_at(name), "wb1");

	for (uint64_t i = 0; i < count; i++) {
		const int bytes = snprintf(line, sizeof(line), "%" PRIu64 "\n", first + i);

		cr_assert_eq(gzwrite(file, line, (unsigned)bytes), bytes);
	}
	cr_assert_eq(gzclose(file), Z_OK);
}

/* A few KiB of gzip can contain any number of ids. They are counted, and rejected before memory is
 * allocated for them. */
Test(source_generated, no_memory_is_allocated_for_the_ids_of_a_text)
{
	const uint64_t count = 400000;
	struct rung_source *src;
	uint64_t *ids = NULL, found;

	write_lines("a.csv.gz", 0, count);
	src = opened(spec_of("", "a.csv.gz", ""), count);
	cr_assert_lt(rung__source_location(src).memory_bytes, 400000);
	assert_error(rung_source_read_vertices(src, 100, 0, &found, &ids), RUNG_E_FORMAT,
	             "a.csv.gz: has 400000 ids, but there are only 100 vertices");
	cr_assert_null(ids);
	cr_assert_eq(rung_source_read_vertices(src, count, 1, &found, &ids), 0, "%s",
	             rung_last_error());
	cr_assert_eq(found, count);
	for (uint64_t i = 0; i < count; i++)
		cr_assert_eq(ids[i], i);
	rung_free(ids);
	rung_source_close(src);
}

Test(source_generated, text_is_read_from_any_byte_on_in_any_order)
{
	unsigned char wanted[8 * 300], bytes[8 * 300];
	struct rung_source *src;

	for (uint64_t i = 0; i < 300; i++)
		memcpy(wanted + 8 * i, &(uint64_t){ 99000 + i }, 8);
	write_lines("a.csv.gz", 99000, 300);
	src = opened(spec_of("", "a.csv.gz", ""), 300);
	for (uint64_t i = 0, at = 0; i < 500; i++, at = (at * 7 + 131) % 2400) {
		const uint64_t count = RUNG__MIN(1 + i % 37, 2400 - at);

		cr_assert_eq(rung__source_read_bytes(src, at, count, bytes), 0, "%s",
		             rung_last_error());
		cr_assert_eq(memcmp(bytes, wanted + at, count), 0,
		             "%" PRIu64 " bytes from %" PRIu64 " on", count, at);
	}
	rung_source_close(src);
}

Test(source_generated, text_truncated_while_it_is_open_is_an_error)
{
	struct rung_source *src;
	int64_t ids[3];

	cr_assert_eq(support_write_file(file_at("a.txt"), "1\n2\n3\n", 6), 0);
	src = opened(spec_of("", "a.txt", ""), 3);
	cr_assert_eq(rung_source_read(src, 0, 3, ids), 0);
	cr_assert_eq(support_write_file(file_at("a.txt"), "1\n2\n", 4), 0);
	assert_error(rung_source_read(src, 0, 3, ids), RUNG_E_IO, "a.txt: has 2 lines, but had 3");
	cr_assert_eq(rung_source_read(src, 0, 2, ids), 0);
	cr_assert(ids[0] == 1 && ids[1] == 2);
	rung_source_close(src);
}

Test(source_generated, no_damage_to_compressed_text_breaks_the_reader)
{
	struct rung_source *src;
	unsigned char *bytes;
	size_t count;

	write_gz("a.csv.gz", "123\n4567\n89\n");
	bytes = support_read_file(file_at("a.csv.gz"), &count);
	for (size_t i = 0; i < count; i++) {
		bytes[i] ^= 0x55;
		cr_assert_eq(support_write_file(file_at("b.csv.gz"), bytes, count), 0);
		/* time stamp and system in the header are ignored */
		if (rung_source_open(spec_of("", "b.csv.gz", ""), &src) == 0)
			rung_source_close(src);
		bytes[i] ^= 0x55;
		cr_assert_eq(support_write_file(file_at("b.csv.gz"), bytes, i), 0);
		if (i > 0)
			fails(spec_of("", "b.csv.gz", ""), RUNG_E_FORMAT, "b.csv.gz");
	}
	free(bytes);
}

Test(source_generated, nothing_leaks_whichever_allocation_fails)
{
	const int8_t values[] = { 1, 2 };
	const int fds = support_open_descriptors();
	char specs[5][600];

	write_npz(1000);
	write_gz("a.csv.gz", "1\n2\n");
	cr_assert_eq(support_write_npy(file_at("i.npy"), "|i1", "(2,)", values, sizeof(values)), 0);
	snprintf(specs[0], sizeof(specs[0]), "%s/a.npz:d", dir);
	snprintf(specs[1], sizeof(specs[1]), "%s/a.csv.gz", dir);
	snprintf(specs[2], sizeof(specs[2]), "pad:9,%s/i.npy", dir);
	snprintf(specs[3], sizeof(specs[3]), "range:0,9");
	snprintf(specs[4], sizeof(specs[4]), "every:2,0,1,%s/i.npy", dir);
	for (int i = 0; i < 10; i++) {
		struct rung_source *src = NULL;
		int64_t allowed = 0;
		int rc;

		rung__generated_memory_max = i % 2 ? 1 : UINT64_MAX;
		do {
			rung__alloc_limit(allowed++);
			rc = rung_source_open(specs[i / 2], &src);
			rung__alloc_limit(-1);
			if (rc == 0)
				rung_source_close(src);
			else
				cr_assert_eq(rc, RUNG_E_NOMEM, "%s", rung_last_error());
			cr_assert_eq(support_open_descriptors(), fds);
		} while (rc < 0);
		cr_assert_gt(allowed, 2);
	}
}
