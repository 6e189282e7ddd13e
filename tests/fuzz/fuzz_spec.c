/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Specs of sources and graphs. The input is text: a digit whose bits are undirected and dedup, then
 * up to four lines. Each line is opened as a source, and all lines together as a graph of 64
 * vertices. "@" is replaced by a folder with files of 4 KiB, and "/" by "_", so that no other files
 * are opened.
 */
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 1024;
const size_t fuzz_places_max = 150;

#define LINES_MAX  4u
#define TEXT_BYTES (1u << 17) /* of all lines with every "@" expanded */

static void make_files(void)
{
	static const char head[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<u4', 'fortran_order': "
				   "False, 'shape': (2, 32), }";
	unsigned char page[4096] = { 0 };

	for (unsigned i = 0; i < 1024; i++)
		page[4 * i] = (unsigned char)(i * 7 % 64);
	fuzz_file(0, "f", page, sizeof(page)); /* 1024 ids below 64 */
	memset(page, ' ', 128);
	memcpy(page, head, sizeof(head) - 1);
	fuzz_file(1, "e.npy", page, 128 + 256);
	memset(page, 0, sizeof(page));
	for (unsigned i = 0; i < 65; i++)
		page[8 * i] = (unsigned char)i;
	fuzz_file(2, "p", page, sizeof(page)); /* 65 offsets of 8 bytes: 64 lists of one id */
	fuzz_file(3, "n.npz", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
}

/* Expand the folder in the lines. @return the number of lines */
static size_t write_out(const uint8_t *data, size_t bytes, char *text, const char *lines[LINES_MAX])
{
	size_t count = 1, used = 0;

	lines[0] = text;
	for (size_t i = 0; i < bytes && data[i]; i++) {
		if (data[i] == '@') {
			used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s/",
			                         fuzz_folder());
			continue;
		}
		if (data[i] == '\n' && count == LINES_MAX)
			break;
		text[used++] = data[i] == '\n' ? '\0' : data[i] == '/' ? '_' : (char)data[i];
		if (data[i] == '\n')
			lines[count++] = text + used;
	}
	text[used] = '\0';
	return count;
}

/* Whether the spec could create many bytes: they would be written to a file. */
static bool makes_much(const char *spec)
{
	if (!strstr(spec, "range:") && !strstr(spec, "pad:"))
		return false;
	for (; *spec; spec++) {
		const size_t digits = strspn(spec, "0123456789");

		if (digits > 6 && digits < 19)
			return true;
		spec += digits ? digits - 1 : 0;
	}
	return false;
}

/* A source that opens must be readable from end to end. @return the status of opening */
static int try_source(const char *spec)
{
	unsigned char row[4096];
	struct rung_source *src;
	int rc = rung_source_open(spec, &src);
	const struct rung_array_info *info;

	if (rc < 0)
		return rc;
	info = rung_source_info(src);
	FUZZ_CHECK(info->row_count == 0 || info->row_bytes <= sizeof(row));
	if (info->row_count > 0)
		FUZZ_CHECK(rung_source_read(src, info->row_count - 1, 1, row) == 0);
	rung_source_close(src);
	return 0;
}

static int try_graph(const char *const lines[], size_t count, unsigned flags)
{
	struct rung_graph_opts opts = RUNG_GRAPH_OPTS_INIT;
	struct rung_graph *graph;
	int rc;

	opts.specs = lines;
	opts.spec_count = count;
	opts.vertex_count = 64;
	opts.undirected = flags & 1;
	opts.dedup = flags >> 1 & 1;
	rc = rung_graph_load(&opts, &graph);
	if (rc < 0)
		return rc;
	FUZZ_CHECK(rung_csc_check(rung_graph_csc(graph)) == 0 &&
	           rung_graph_csc(graph)->vertex_count == 64);
	rung_graph_destroy(graph);
	return 0;
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	static char text[TEXT_BYTES];
	static bool made;
	const char *lines[LINES_MAX];
	size_t count;
	int rc = 0;

	if (bytes == 0)
		return FUZZ_UNTRIED;
	/* users write specs themselves, so messages may repeat them unchanged */
	for (size_t i = 0; i < bytes; i++) {
		if (data[i] != '\n' && (data[i] < ' ' || data[i] == 0x7f))
			return FUZZ_UNTRIED;
	}
	if (!made)
		make_files();
	made = true;
	count = write_out(data + 1, bytes - 1, text, lines);
	for (size_t i = 0; i < count; i++) {
		if (makes_much(lines[i]))
			return FUZZ_UNTRIED;
	}
	for (size_t i = 0; i < count; i++)
		rc = try_source(lines[i]);
	if (rc == 0 && count == 1)
		try_graph(lines, count, data[0]);
	else
		rc = try_graph(lines, count, data[0]);
	return rc;
}
