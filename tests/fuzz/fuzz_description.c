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

static void check_splits(const struct rung_stage_split *splits, size_t count)
{
	FUZZ_CHECK(count <= RUNG__SPLITS_MAX);
	for (size_t i = 0; i < count; i++) {
		FUZZ_CHECK(rung__split_name_ok(splits[i].name));
		check_source(splits[i].spec, 0);
	}
}

static void check_arrays(const struct rung_stage_array *arrays, size_t count, uint64_t rows)
{
	FUZZ_CHECK(count <= RUNG__ARRAYS_MAX);
	for (size_t i = 0; i < count; i++) {
		FUZZ_CHECK(rung__split_name_ok(arrays[i].name));
		check_source(arrays[i].spec, rows);
	}
}

static void check_type(const struct rung_stage_type *type)
{
	FUZZ_CHECK(rung__split_name_ok(type->name) && type->vertex_count > 0);
	if (type->features)
		check_source(type->features, type->vertex_count);
	FUZZ_CHECK(type->features || !type->quantize);
	if (type->labels)
		check_source(type->labels, type->vertex_count);
	check_arrays(type->arrays, type->array_count, type->vertex_count);
	check_splits(type->splits, type->split_count);
}

/* Whether a name is that of a type of the preset. */
static bool is_type(const struct rung_preset *preset, const char *name)
{
	size_t i;

	for (i = 0; i < preset->type_count && strcmp(preset->types[i].name, name) != 0; i++)
		;
	return i < preset->type_count;
}

static void check_typed(const struct rung_preset *preset)
{
	FUZZ_CHECK(preset->type_count <= RUNG__TYPES_MAX && preset->relation_count > 0 &&
	           preset->relation_count <= RUNG__RELATIONS_MAX);
	for (size_t i = 0; i < preset->type_count; i++)
		check_type(&preset->types[i]);
	for (size_t i = 0; i < preset->relation_count; i++) {
		const struct rung_stage_relation *relation = &preset->relations[i];

		FUZZ_CHECK(rung__split_name_ok(relation->name));
		FUZZ_CHECK(is_type(preset, relation->source) && is_type(preset, relation->target));
		FUZZ_CHECK(relation->spec_count == 1 && in_folder_or_computed(relation->specs[0]));
		FUZZ_CHECK(!relation->undirected ||
		           strcmp(relation->source, relation->target) == 0);
		if (relation->rows)
			check_source(relation->rows, 0);
	}
	FUZZ_CHECK(!preset->seed_type || is_type(preset, preset->seed_type));
}

/* Everything that was accepted is as documented. */
static void check(const struct rung_preset *preset)
{
	FUZZ_CHECK(preset->fanout_count <= RUNG_HOPS_MAX);
	for (uint32_t i = 0; i < preset->fanout_count; i++)
		FUZZ_CHECK(preset->fanouts[i] > 0);
	if (preset->type_count) {
		FUZZ_CHECK(preset->graph_count == 0 && !preset->features);
		check_typed(preset);
		return;
	}
	FUZZ_CHECK(rung__split_name_ok(preset->vertex_type));
	FUZZ_CHECK(rung__split_name_ok(preset->relation));
	FUZZ_CHECK(preset->graph_count == 1 && in_folder_or_computed(preset->graphs[0]));
	FUZZ_CHECK(preset->vertex_count > 0);
	check_source(preset->features, preset->vertex_count);
	if (preset->labels)
		check_source(preset->labels, preset->vertex_count);
	check_arrays(preset->arrays, preset->array_count, preset->vertex_count);
	check_splits(preset->splits, preset->split_count);
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
