/* SPDX-License-Identifier: Apache-2.0 */
/* Sources: .npy, .npz and raw files, and faults in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "source_values.h"
#include "source/source.h"
#include "source/state.h"

TestSuite(source, .init = setup, .fini = teardown);

Test(source, rows_of_a_npy_are_read)
{
	free(npy_of_values(&(size_t){ 0 }));
	holds_0_to_99(path);
}

Test(source, rows_of_a_raw_file_are_read_from_an_offset)
{
	struct {
		char head[13];
		char rows[400];
	} file = { .head = "no header of" };
	int32_t values[100];

	fill(values);
	memcpy(file.rows, values, sizeof(values));
	cr_assert_eq(support_write_file(file_at("a,f32,b.bin"), &file, sizeof(file)), 0);
	snprintf(spec, sizeof(spec), "raw:%s,i32,25x4,13", path);
	holds_0_to_99(spec);
	snprintf(spec, sizeof(spec), "raw:%s,u8,413,0", path);
	{
		struct rung_source *src;
		char head[3];

		cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
		cr_assert_eq(rung_source_info(src)->dim_count, 1);
		cr_assert_eq(rung_source_read(src, 3, 3, head), 0);
		cr_assert_eq(memcmp(head, "hea", 3), 0);
		rung_source_close(src);
	}
}

Test(source, members_of_a_npz_are_read_stored_and_deflated)
{
	size_t bytes;
	unsigned char *npy = npy_of_values(&bytes);
	struct rung_source *src;

	write_npz("a.npz", "other.npy", ZIP_CM_STORE, "no npy", 6);
	write_npz("a.npz", "stored.npy", ZIP_CM_STORE, npy, bytes);
	write_npz("a.npz", "deflated.npy", ZIP_CM_DEFLATE, npy, bytes);
	free(npy);
	for (int i = 0; i < 4; i++) {
		snprintf(spec, sizeof(spec), "%s:%s%s", file_at("a.npz"),
		         i & 1 ? "stored" : "deflated", i & 2 ? ".npy" : "");
		holds_0_to_99(spec);
		cr_assert_eq(rung_source_open(spec, &src), 0);
		cr_assert_eq(src->data == NULL, i & 1,
		             "stored members must be read in place, others not");
		rung_source_close(src);
	}
	/* an archive after other bytes: its offsets are not file offsets, so libzip must read it */
	{
		size_t zip_bytes;
		unsigned char *zip = support_read_file(file_at("a.npz"), &zip_bytes),
			      *moved = calloc(1, zip_bytes + 100);

		memcpy(moved + 100, zip, zip_bytes);
		cr_assert_eq(support_write_file(file_at("moved.npz"), moved, zip_bytes + 100), 0);
		snprintf(spec, sizeof(spec), "%s:stored", path);
		if (rung_source_open(spec, &src) == 0) {
			rung_source_close(src);
			holds_0_to_99(spec);
		}
		free(zip);
		free(moved);
	}
}

/* If a spec can be split in several ways, the longest part that is a file wins. */
Test(source, an_existing_file_whose_name_looks_like_a_member_is_used)
{
	size_t bytes;
	unsigned char *npy = npy_of_values(&bytes);
	struct stat found, wanted;

	cr_assert_eq(mkdir(file_at("dir.npz:a"), 0777), 0);
	cr_assert_eq(support_write_file(file_at("dir.npz:a/x.npy"), npy, bytes), 0);
	holds_0_to_99(path);
	cr_assert_eq(rung__source_stat(path, &found), 0);
	cr_assert_eq(stat(path, &wanted), 0);
	cr_assert_eq(found.st_ino, wanted.st_ino);
	write_npz("dir.npz:a/b.npz", "c.npz:d.npy", ZIP_CM_STORE, npy, bytes);
	snprintf(spec, sizeof(spec), "%s:c.npz:d", path);
	holds_0_to_99(spec);
	cr_assert_eq(rung__source_stat(spec, &found), 0);
	cr_assert_eq(stat(path, &wanted), 0);
	cr_assert_eq(found.st_ino, wanted.st_ino);
	write_npz("e.npz", "m.pt:k.npy", ZIP_CM_STORE, npy, bytes);
	snprintf(spec, sizeof(spec), "%s:m.pt:k", path);
	holds_0_to_99(spec);
	fails(file_at("dir.npz:a/none.npz:x"), RUNG_E_NOENT,
	      "dir.npz:a/none.npz: cannot be opened");
	free(npy);
}

Test(source, a_missing_member_is_reported_with_the_existing_ones)
{
	size_t bytes;
	unsigned char *npy = npy_of_values(&bytes);

	write_npz("a.npz", "edge_index.npy", ZIP_CM_STORE, npy, bytes);
	write_npz("a.npz", "node_feat.npy", ZIP_CM_DEFLATE, npy, bytes);
	free(npy);
	snprintf(spec, sizeof(spec), "%s:features", file_at("a.npz"));
	fails(spec, RUNG_E_NOENT, "has no member 'features'; it has: edge_index, node_feat");
	snprintf(spec, sizeof(spec), "%s", file_at("a.npz"));
	fails(spec, RUNG_E_INVAL, "its members: edge_index, node_feat");
	snprintf(spec, sizeof(spec), "%s:", file_at("a.npz"));
	fails(spec, RUNG_E_INVAL, "names no member");
}

/* Replaces each `from` in a file by `to`, which has the same length. @return the number of
 * replacements */
static int replace_in(const char *name, const char *from, const char *to)
{
	const size_t len = strlen(from);
	size_t bytes;
	unsigned char *data = support_read_file(file_at(name), &bytes);
	int count = 0;

	for (size_t at = 0; at + len <= bytes; at++) {
		if (memcmp(data + at, from, len) != 0)
			continue;
		memcpy(data + at, to, len);
		count++;
	}
	cr_assert_eq(support_write_file(path, data, bytes), 0);
	free(data);
	return count;
}

/* numpy uses the last of two members with one name, other readers the first: the file is
 * ambiguous. */
Test(source, two_members_with_one_name_are_rejected)
{
	static const char *const files[] = { "a.npz", "b.pt" };

	for (int i = 0; i < 2; i++) {
		write_npz(files[i], i ? "one/data.pkl" : "x.npy", ZIP_CM_STORE, "one", 3);
		write_npz(files[i], i ? "two/data.pkl" : "y.npy", ZIP_CM_STORE, "two", 3);
	}
	cr_assert_eq(replace_in("a.npz", "y.npy", "x.npy"), 2);
	snprintf(spec, sizeof(spec), "%s:x", path);
	fails(spec, RUNG_E_FORMAT, "a.npz: has two members 'x.npy'");
	snprintf(spec, sizeof(spec), "%s:x.npy", path);
	fails(spec, RUNG_E_FORMAT, "a.npz: has two members 'x.npy'");
	snprintf(spec, sizeof(spec), "%s:train", file_at("b.pt"));
	fails(spec, RUNG_E_FORMAT, "b.pt: has two members '/data.pkl'");
}

Test(source, a_damaged_npz_is_rejected)
{
	size_t bytes, zip_bytes;
	unsigned char *npy = npy_of_values(&bytes), *zip;
	int refused = 0;

	for (int i = 0; i < 100; i++)
		/* incompressible data, so that damage hits data */
		npy[bytes - 400 + (size_t)i * 4] = (unsigned char)(i * 37);
	write_npz("a.npz", "x.npy", ZIP_CM_DEFLATE, npy, bytes);
	free(npy);
	zip = support_read_file(file_at("a.npz"), &zip_bytes);
	for (size_t at = 0; at < zip_bytes; at++) {
		struct rung_source *src = NULL;
		int rc;

		zip[at] ^= 0x41;
		cr_assert_eq(support_write_file(file_at("b.npz"), zip, zip_bytes), 0);
		zip[at] ^= 0x41;
		snprintf(spec, sizeof(spec), "%s:x", path);
		rc = rung_source_open(spec, &src);
		refused += rc < 0;
		if (rc == 0)
			rung_source_close(src);
		else
			cr_assert(rc == RUNG_E_FORMAT || rc == RUNG_E_NOENT || rc == RUNG_E_IO,
			          "byte %zu: %d %s", at, rc, rung_last_error());
		/* inside the deflated data, after the local header of 30 bytes and the name */
		if (at >= 30 + 5 && at < zip_bytes / 2)
			cr_assert_lt(rc, 0, "the change of byte %zu of the data was not detected",
			             at);
	}
	cr_assert_gt(refused, (int)zip_bytes / 2);
	for (size_t cut = 0; cut < zip_bytes; cut += 7) {
		cr_assert_eq(support_write_file(file_at("b.npz"), zip, cut), 0);
		snprintf(spec, sizeof(spec), "%s:x", path);
		cr_assert_lt(rung_source_open(spec, &(struct rung_source *){ NULL }), 0);
	}
	free(zip);
}

Test(source, no_damage_to_a_stored_npz_breaks_the_reader)
{
	size_t bytes, zip_bytes;
	unsigned char *npy = npy_of_values(&bytes), *zip;

	write_npz("a.npz", "x.npy", ZIP_CM_STORE, npy, bytes);
	free(npy);
	zip = support_read_file(file_at("a.npz"), &zip_bytes);
	for (size_t at = 0; at < zip_bytes; at++) {
		for (int value = 0; value < 256; value += 51) {
			struct rung_source *src = NULL;
			unsigned char old = zip[at], row[16];

			zip[at] = (unsigned char)value;
			cr_assert_eq(support_write_file(file_at("b.npz"), zip, zip_bytes), 0);
			zip[at] = old;
			snprintf(spec, sizeof(spec), "%s:x", path);
			if (rung_source_open(spec, &src) == 0 &&
			    rung_source_info(src)->row_bytes <= sizeof(row))
				cr_assert_eq(rung_source_read(src,
				                              rung_source_info(src)->row_count - 1,
				                              1, row),
				             0, "%s", rung_last_error());
			rung_source_close(src);
		}
	}
	free(zip);
}

Test(source, other_files_are_rejected)
{
	fails("", RUNG_E_INVAL, "empty");
	snprintf(spec, sizeof(spec), "%s/none.npy", dir);
	fails(spec, RUNG_E_NOENT, "none.npy");
	snprintf(spec, sizeof(spec), "%s/none.npz:x", dir);
	fails(spec, RUNG_E_NOENT, "none.npz: ");
	fails(dir, RUNG_E_INVAL, "not a regular file");
	cr_assert_eq(mkfifo(file_at("fifo.npy"), 0600), 0);
	fails(path, RUNG_E_INVAL, "not a regular file");
	cr_assert_eq(support_write_file(file_at("text.npy"), "hello, I am no array", 20), 0);
	fails(path, RUNG_E_FORMAT, "wrong magic at byte 0");
	cr_assert_eq(support_write_file(file_at("empty.npy"), "", 0), 0);
	fails(path, RUNG_E_FORMAT, "wrong magic");
	cr_assert_eq(support_write_file(file_at("short.npy"), "\x93NUMPY\x01\x00", 8), 0);
	fails(path, RUNG_E_FORMAT, "truncated: ends at byte 8");
	cr_assert_eq(support_write_file(file_at("text.npz"), "hello, I am no archive at all", 29),
	             0);
	snprintf(spec, sizeof(spec), "%s:x", path);
	fails(spec, RUNG_E_FORMAT, "cannot be read as a .npz");
}

Test(source, a_truncated_npy_names_the_missing_bytes)
{
	size_t bytes;
	unsigned char *npy = npy_of_values(&bytes);

	for (size_t cut = 0; cut < bytes; cut++) {
		cr_assert_eq(support_write_file(file_at("cut.npy"), npy, cut), 0);
		fails(path, RUNG_E_FORMAT, "cut.npy");
	}
	snprintf(spec, sizeof(spec), "1 bytes are missing at offset %zu", bytes - 1);
	fails(path, RUNG_E_FORMAT, spec);
	free(npy);
}

Test(source, a_file_cut_after_opening_is_an_error_not_a_crash)
{
	struct rung_source *src;
	size_t bytes;
	char row[16];

	free(npy_of_values(&bytes));
	cr_assert_eq(rung_source_open(path, &src), 0);
	cr_assert_eq(truncate(path, (off_t)bytes - 1), 0);
	cr_assert_eq(rung_source_read(src, 24, 1, row), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "values.npy: ends at offset"), "%s", rung_last_error());
	cr_assert_eq(rung_source_read(src, 23, 1, row), 0);
	rung_source_close(src);
}

Test(source, the_fields_of_a_raw_spec_are_checked)
{
	static const char *const bad[] = { "raw:",
		                           "raw:f",
		                           "raw:f,f32",
		                           "raw:f,f99,3",
		                           "raw:f,f32,",
		                           "raw:f,f32,x",
		                           "raw:f,f32,3x",
		                           "raw:f,f32,3,",
		                           "raw:f,f32,3,x",
		                           "raw:f,f32,-3",
		                           "raw:f,f32,3,-1",
		                           "raw:,f32,3",
		                           "raw:f,f32,1x1x1x1x1x1x1x1x1",
		                           "raw:f,f32,99999999999999999999",
		                           "raw:f,f32,3 ",
		                           "raw:f,f32,3,trailing=ignore",
		                           "raw:f,f32,3,0,trailing=yes",
		                           "raw:f,f32,0x" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		fails(bad[i], RUNG_E_INVAL, "raw:FILE,DTYPE,DIM[xDIM][,OFFSET[,trailing=ignore]]");
	fails("raw:f,f46,3x4", RUNG_E_INVAL, "no known dtype");
	fails("raw:f,f46,3x4,64", RUNG_E_INVAL,
	      "bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64");
	fails("raw:f,f64,4294967296x4294967296", RUNG_E_INVAL, "more than 63 bits");
	fails("raw:f,u8,9223372036854775807,9223372036854775807", RUNG_E_INVAL,
	      "more than 63 bits");
}

Test(source, a_raw_file_that_is_too_short_is_reported_with_all_sizes)
{
	cr_assert_eq(support_write_file(file_at("r"), "0123456789", 10), 0);
	snprintf(spec, sizeof(spec), "raw:%s,f32,2,3", path);
	fails(spec, RUNG_E_FORMAT, "has 10 bytes");
	fails(spec, RUNG_E_FORMAT,
	      "needs 11 (8 of data from offset 3 on): 1 bytes are missing at offset 10");
}

Test(source, a_raw_file_with_bytes_left_over_needs_a_word)
{
	struct rung_source *src;
	char two[2];

	cr_assert_eq(support_write_file(file_at("r"), "0123456789", 10), 0);
	snprintf(spec, sizeof(spec), "raw:%s,f32,2", path);
	fails(spec, RUNG_E_FORMAT,
	      "2 bytes are left over at offset 8; check dtype and dimensions, or add "
	      ",OFFSET,trailing=ignore");
	snprintf(spec, sizeof(spec), "raw:%s,u8,3x2,3", path);
	fails(spec, RUNG_E_FORMAT, "1 bytes are left over at offset 9");
	strcat(spec, ",trailing=ignore");
	cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
	cr_assert_eq(rung_source_read(src, 2, 1, two), 0);
	cr_assert_eq(memcmp(two, "78", 2), 0);
	rung_source_close(src);
	snprintf(spec, sizeof(spec), "raw:%s,u8,11,0,trailing=ignore", path);
	fails(spec, RUNG_E_FORMAT, "1 bytes are missing at offset 10");
}

Test(source, a_raw_file_of_a_known_format_needs_an_offset)
{
	static const struct {
		const char *magic, *format;
	} known[] = { { "\x93NUMPY\x01", ".npy" },     { "PK\3\4....", "zip" },
		      { "\x1f\x8b\x08.....", "gzip" }, { "\x28\xb5\x2f\xfd....", "zstd" },
		      { "\x89HDF\r\n\x1a\n", "HDF5" }, { "PAR1....", "Parquet" },
		      { "ARROW1..", "Arrow" } };
	struct rung_source *src;
	char words[64];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		cr_assert_eq(support_write_file(file_at("r"), known[i].magic, 8), 0);
		snprintf(words, sizeof(words), "begins as a %s file does", known[i].format);
		snprintf(spec, sizeof(spec), "raw:%s,u8,8", path);
		fails(spec, RUNG_E_FORMAT, words);
		/* also if the size is wrong, too */
		snprintf(spec, sizeof(spec), "raw:%s,f32,1", path);
		fails(spec, RUNG_E_FORMAT, words);
		snprintf(spec, sizeof(spec), "raw:%s,u8,8,0", path);
		cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
		rung_source_close(src);
	}
}

/* The arithmetic can be tested without data: a sparse file has the size. */
Test(source, row_counts_around_32_bits_are_not_truncated)
{
	static const uint64_t counts[] = { 4294967295u, 4294967296u, 4294967297u };

	for (size_t i = 0; i < 3; i++) {
		uint64_t bytes = counts[i] * 2;
		struct rung_source *src;
		char words[64], byte[2];

		cr_assert_eq(support_write_file(file_at("big"), "", 0), 0);
		if (truncate(path, (off_t)bytes - 1) != 0)
			cr_skip_test("the file system does not support sparse files of 8 GiB");
		snprintf(spec, sizeof(spec), "raw:%s,f16,%" PRIu64 "x1", path, counts[i]);
		snprintf(words, sizeof(words), "needs %" PRIu64, bytes);
		fails(spec, RUNG_E_FORMAT, words);
		cr_assert_eq(truncate(path, (off_t)bytes), 0);
		cr_assert_eq(rung_source_open(spec, &src), 0, "%s", rung_last_error());
		cr_assert_eq(rung_source_info(src)->row_count, counts[i]);
		cr_assert_eq(rung_source_read(src, counts[i] - 1, 1, byte), 0);
		cr_assert_eq(rung_source_read(src, counts[i], 1, byte), RUNG_E_INVAL);
		rung_source_close(src);
		cr_assert_eq(rung_index_bytes(counts[i]), counts[i] <= 4294967296u ? 4 : 8);
	}
}

Test(source, nothing_leaks_whichever_allocation_fails)
{
	size_t bytes;
	unsigned char *npy = npy_of_values(&bytes);
	char specs[4][600];

	write_npz("a.npz", "s.npy", ZIP_CM_STORE, npy, bytes);
	write_npz("a.npz", "d.npy", ZIP_CM_DEFLATE, npy, bytes);
	free(npy);
	snprintf(specs[0], sizeof(specs[0]), "%s/values.npy", dir);
	snprintf(specs[1], sizeof(specs[1]), "%s/a.npz:s", dir);
	snprintf(specs[2], sizeof(specs[2]), "%s/a.npz:d", dir);
	snprintf(specs[3], sizeof(specs[3]), "raw:%s/values.npy,u8,100,0,trailing=ignore", dir);
	for (int i = 0; i < 4; i++) {
		const int fds = support_open_descriptors();
		struct rung_source *src = NULL;
		int64_t allowed = 0;
		int rc;

		do {
			rung__alloc_limit(allowed++);
			rc = rung_source_open(specs[i], &src);
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
