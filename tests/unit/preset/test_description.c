/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of data sets (dataset.json) as presets. tests/cli/test_dataset.py has the messages
 * for wrong keys and values, and stages what is described. */
#include "base/base.h"
#include "description_fixture.h"

/* A description with these members of the vertex type and of the relation. */
static void describe(const char *type, const char *relation)
{
	char text[2500];

	snprintf(text, sizeof(text),
	         "{\"format\": \"rung-source\", \"version\": 1, \"name\": \"five\", \"training\": "
	         "{\"fanouts\": [3, 4294967295], \"batch_size\": 7, \"draws\": \"new\"}, "
	         "\"vertex_types\": [{\"name\": \"paper\", \"count\": 60, %s}], "
	         "\"relations\": [{\"name\": \"cites\", \"source\": \"paper\", "
	         "\"target\": \"paper\", %s}]}",
	         type, relation);
	write_text(text);
}

#define TYPE                                                                                       \
	"\"features\": \"features.npy\", \"labels\": \"labels.npy\", "                             \
	"\"arrays\": {\"b\": \"labels.npy\", \"a\": \"range:0,60\"}, "                             \
	"\"splits\": {\"train\": \"train.npy\", \"valid\": \"valid.npy\"}"
#define RELATION "\"edges\": \"edges.npy\", \"count\": 300"

static void begin(void)
{
	begin_description();
	describe(TYPE, RELATION);
}

TestSuite(description, .init = begin, .fini = teardown, .timeout = 300);

/* The text must be a name in the folder of the description. */
static void in_folder(const char *spec, const char *before, const char *name)
{
	char wanted[400];

	snprintf(wanted, sizeof(wanted), "%s%s/%s", before, dir, name);
	cr_assert_str_eq(spec, wanted);
}

Test(description, every_member_is_filled_in)
{
	struct rung_preset *preset = opened(EVERYTHING);

	cr_assert_str_eq(preset->title, "five");
	cr_assert_str_eq(preset->vertex_type, "paper");
	cr_assert_str_eq(preset->relation, "cites");
	cr_assert_eq(preset->vertex_count, 60);
	cr_assert_eq(preset->graph_count, 1);
	in_folder(preset->graphs[0], "", "edges.npy");
	cr_assert_eq(preset->undirected, 0);
	cr_assert_eq(preset->dedup, 0);
	in_folder(preset->features, "", "features.npy");
	in_folder(preset->labels, "", "labels.npy");
	cr_assert_eq(preset->array_count, 2);
	cr_assert_str_eq(preset->arrays[0].name, "b", "the order is that of the file");
	in_folder(preset->arrays[0].spec, "", "labels.npy");
	cr_assert_str_eq(preset->arrays[1].spec, "range:0,60");
	cr_assert_eq(preset->split_count, 2);
	cr_assert_str_eq(preset->splits[1].name, "valid");
	in_folder(preset->splits[1].spec, "", "valid.npy");
	cr_assert_eq(preset->fanout_count, 2);
	cr_assert_eq(preset->fanouts[0], 3);
	cr_assert_eq(preset->fanouts[1], UINT32_MAX);
	cr_assert_eq(preset->batch_size, 7);
	cr_assert_eq(preset->draws, RUNG_DRAWS_NEW);
	rung_preset_close(preset);
}

Test(description, only_requested_parts_are_opened_and_filled_in)
{
	struct rung_preset *preset;

	cr_assert_eq(unlink(features), 0);
	cr_assert_eq(unlink(labels), 0);
	cr_assert_eq(unlink(train), 0);
	preset = opened(RUNG_PRESET_GRAPH);
	cr_assert_eq(preset->graph_count, 1);
	cr_assert_null(preset->features);
	cr_assert_null(preset->labels);
	cr_assert_eq(preset->split_count, 0);
	cr_assert_eq(preset->array_count, 0);
	cr_assert_str_eq(preset->vertex_type, "paper");
	rung_preset_close(preset);
	refused(RUNG_E_NOENT, "vertex_types[0].features: ");
	describe("\"features\": 5", RELATION);
	assert_error(rung_preset_open(RUNG_PRESET_DESCRIPTION, file, NULL, 0, &preset),
	             RUNG_E_FORMAT, "vertex_types[0].features: is a number; give a SRC");
}

Test(description, it_has_no_parts)
{
	struct rung_preset *preset;

	assert_error(rung_preset_open(RUNG_PRESET_DESCRIPTION, file, "x", EVERYTHING, &preset),
	             RUNG_E_INVAL, "a description has no part 'x'; give the file");
}

/* The spec of the edges, as the description has it and with the folder; both must be opened. */
static void edges_become(const char *given, const char *wanted_format)
{
	struct rung_preset *preset = NULL;
	char relation[800], wanted[800];

	snprintf(relation, sizeof(relation), "\"edges\": \"%s\"", given);
	snprintf(wanted, sizeof(wanted), wanted_format, dir, dir);
	describe(TYPE, relation);
	preset = opened(RUNG_PRESET_GRAPH);
	cr_assert_str_eq(preset->graphs[0], wanted);
	rung_preset_close(preset);
}

Test(description, both_sources_of_columns_are_in_the_folder)
{
	int64_t indptr[61] = { 0 };
	char path[400], absolute[700];

	for (int i = 0; i < 61; i++)
		indptr[i] = i;
	snprintf(path, sizeof(path), "%s/p,1.npy", dir);
	cr_assert_eq(support_write_npy(path, "<i8", "(61,)", indptr, sizeof(indptr)), 0);
	snprintf(path, sizeof(path), "%s/i.bin", dir);
	cr_assert_eq(support_write_file(path, indptr, 60 * 8), 0);
	edges_become("csc:p,1.npy,raw:i.bin,i64,60", "csc:%s/p,1.npy,raw:%s/i.bin,i64,60");
	edges_become("csr:p,1.npy,raw:i.bin,i64,60,0", "csr:%s/p,1.npy,raw:%s/i.bin,i64,60,0");
	edges_become("csc:p,1.npy,range:0,60", "csc:%s/p,1.npy,range:0,60");
	edges_become("raw:i.bin,i64,2x30", "raw:%s/i.bin,i64,2x30");
	edges_become("pad:2,raw:i.bin,i64,1x60", "pad:2,raw:%s/i.bin,i64,1x60");
	edges_become("every:1,0,1,raw:i.bin,i64,2x30", "every:1,0,1,raw:%s/i.bin,i64,2x30");
	snprintf(absolute, sizeof(absolute), "csc:%s/p,1.npy,i.npy", dir);
	snprintf(path, sizeof(path), "%s/i.npy", dir);
	cr_assert_eq(support_write_npy(path, "<i8", "(60,)", indptr, 60 * 8), 0);
	edges_become(absolute, "csc:%s/p,1.npy,%s/i.npy");
}

Test(description, every_allocation_that_fails_is_reported)
{
	const int descriptors = support_open_descriptors();
	struct rung_preset *preset = NULL;
	int rc = RUNG_E_NOMEM;

	for (int64_t limit = 0; rc != 0; limit++) {
		rung__alloc_limit(limit);
		rc = rung_preset_open(RUNG_PRESET_DESCRIPTION, file, NULL, EVERYTHING, &preset);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%" PRId64 ": %s", limit,
		          rung_last_error());
		cr_assert_lt(limit, 10000);
	}
	rung_preset_close(preset);
	cr_assert_eq(support_open_descriptors(), descriptors);
}

/* Fill the options of staging as a caller does. */
static void use(const struct rung_preset *preset)
{
	opts.graph.specs = preset->graphs;
	opts.features = preset->features;
	opts.vertex_type = preset->vertex_type;
	opts.relation = preset->relation;
}

Test(description, a_staged_dataset_has_its_names)
{
	struct rung_preset *preset = opened(EVERYTHING);
	struct rung_dataset *ds;

	use(preset);
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	rung_preset_close(preset);
	cr_assert_eq(rung_dataset_open(out, &ds), 0, "%s", rung_last_error());
	cr_assert_str_eq(rung_dataset_info(ds)->vertex_type, "paper");
	cr_assert_str_eq(rung_dataset_info(ds)->relation, "cites");
	rung_dataset_close(ds);
}

Test(description, names_for_staging_are_checked)
{
	char longest[65];

	memset(longest, 'n', sizeof(longest));
	longest[64] = '\0';
	opts.vertex_type = longest;
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL, "not a valid name; use 1 to 63");
	opts.vertex_type = longest + 1;
	opts.relation = "a b";
	assert_error(rung_stage(&opts, NULL), RUNG_E_INVAL,
	             "staging: relation 'a b': not a valid name");
	opts.relation = NULL;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
}

/* Two datasets that differ in one name only: the manifest of the one that is staged now must not
 * pass as the job of the other. */
Test(description, a_name_is_part_of_the_job)
{
	opts.resume = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.vertex_type = "vertex"; /* the default: the same job */
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.relation = "cites";
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "vertex type vertex, relation cites");
	opts.force = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.force = 0;
	opts.relation = NULL;
	assert_error(rung_stage(&opts, NULL), RUNG_E_EXIST, "relation cites");
}

Test(description, a_forged_manifest_with_other_names_is_refused)
{
	static const char *const changes[][2] = {
		{ "\"name\": \"paper\"", "\"name\": \"a/b\"" },
		{ "\"name\": \"cites\"", "\"name\": 5" },
		{ "\"source\": \"paper\"", "\"source\": \"papers\"" },
		{ "\"target\": \"paper\"", "\"target\": null" },
		{ "\"vertices\": 60\n  }", "\"vertices\": 61\n  }" },
		{ "\"edges\": 300\n  }", "\"edges\": 299\n  }" },
		{ "\"vertex_types\": [\n", "\"vertex_types\": [\n 5,\n" },
		{ "\"relations\": [\n", "\"relations\": [\n {},\n" },
	};
	struct rung_dataset *ds;
	char path[400], *text;
	size_t bytes;

	opts.vertex_type = "paper";
	opts.relation = "cites";
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	snprintf(path, sizeof(path), "%s/manifest.json", out);
	text = (char *)support_read_file(path, &bytes);
	text = realloc(text, bytes + 1);
	text[bytes] = '\0';
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		cr_assert_eq(support_forge(out, text, changes[i][0], changes[i][1]), 0, "%s",
		             changes[i][0]);
		assert_error(rung_dataset_open(out, &ds), RUNG_E_FORMAT,
		             i == 0 || i == 4 || i == 6 ? "\"vertex_types\"" : "\"relations\"");
	}
	/* each list is optional */
	cr_assert_eq(support_forge(out, text, "\"relations\"", "\"other\""), 0);
	cr_assert_eq(rung_dataset_open(out, &ds), 0, "%s", rung_last_error());
	cr_assert_str_eq(rung_dataset_info(ds)->vertex_type, "paper");
	cr_assert_str_eq(rung_dataset_info(ds)->relation, "edge");
	rung_dataset_close(ds);
	free(text);
}
