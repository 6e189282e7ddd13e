/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset.json. The input is its text, which is written to a folder with a few small files: a
 * graph of 64 vertices, rows, and a folder name with a comma. Inputs that can name files elsewhere
 * are not tried.
 */
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "base/base.h"
#include "dataset/manifest.h"
#include "rung/rung.h"

const size_t fuzz_bytes_max = 1 << 16;
const size_t fuzz_places_max = 150;

#define VERTICES 64u

static void make_files(void)
{
	static const char head[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<u4', 'fortran_order': "
				   "False, 'shape': (2, 32), }";
	unsigned char page[4096] = { 0 };

	fuzz_file(0, "f", page, sizeof(page)); /* for raw: */
	memset(page, ' ', 128);
	memcpy(page, head, sizeof(head) - 1);
	fuzz_file(1, "e.npy", page, 128 + 256);
	memcpy(page + 60, "(64,)   ", 8);
	fuzz_file(2, "x.npy", page, 128 + 256);
}

/* '/' and its escapes */
static bool leads_elsewhere(const uint8_t *data, size_t bytes)
{
	return memchr(data, '/', bytes) || memmem(data, bytes, "\\u002", 5);
}

static bool in_folder_or_computed(const char *spec)
{
	return strstr(spec, fuzz_folder()) || strstr(spec, "range:");
}

static void check_source(const char *spec, uint64_t rows)
{
	struct rung_source *src;

	FUZZ_CHECK(in_folder_or_computed(spec));
	FUZZ_CHECK(rung_source_open(spec, &src) == 0);
	FUZZ_CHECK(rows == 0 || rung_source_info(src)->row_count == rows);
	rung_source_close(src);
}

/* Everything that was accepted is as documented. */
static void check(const struct rung_preset *preset)
{
	FUZZ_CHECK(rung__split_name_ok(preset->vertex_type));
	FUZZ_CHECK(rung__split_name_ok(preset->relation));
	FUZZ_CHECK(preset->graph_count == 1 && in_folder_or_computed(preset->graphs[0]));
	FUZZ_CHECK(preset->vertex_count > 0 && preset->fanout_count <= RUNG_HOPS_MAX);
	for (uint32_t i = 0; i < preset->fanout_count; i++)
		FUZZ_CHECK(preset->fanouts[i] > 0);
	check_source(preset->features, preset->vertex_count);
	if (preset->labels)
		check_source(preset->labels, preset->vertex_count);
	FUZZ_CHECK(preset->array_count <= RUNG__ARRAYS_MAX);
	for (size_t i = 0; i < preset->array_count; i++) {
		FUZZ_CHECK(rung__split_name_ok(preset->arrays[i].name));
		check_source(preset->arrays[i].spec, preset->vertex_count);
	}
	FUZZ_CHECK(preset->split_count <= RUNG__SPLITS_MAX);
	for (size_t i = 0; i < preset->split_count; i++) {
		FUZZ_CHECK(rung__split_name_ok(preset->splits[i].name));
		check_source(preset->splits[i].spec, 0);
	}
}

int fuzz_one(const uint8_t *data, size_t bytes)
{
	struct rung_preset *preset = NULL;
	static bool made;
	const char *file;
	int rc;

	if (leads_elsewhere(data, bytes))
		return FUZZ_UNTRIED;
	if (!made)
		make_files();
	made = true;
	file = fuzz_file(3, "dataset.json", data, bytes);
	rc = rung_preset_open(RUNG_PRESET_DESCRIPTION, file, NULL, 0, &preset);
	rung_preset_close(preset);
	if (rc < 0)
		return rc;
	preset = NULL;
	rc = rung_preset_open(RUNG_PRESET_DESCRIPTION, file, NULL, RUNG_PRESET_EVERYTHING, &preset);
	if (rc < 0)
		return rc;
	check(preset);
	rung_preset_close(preset);
	return 0;
}
