/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of typed graphs: several vertex types and relations in a dataset.json. */
#include "base/base.h"
#include "description_fixture.h"

/* 60 papers with features, 7 authors without; 300 citations, 5 edges from authors to papers. */
#define PAPER                                                                                      \
	"\"name\": \"paper\", \"count\": 60, \"features\": \"features.npy\", "                     \
	"\"labels\": \"labels.npy\", \"arrays\": {\"id\": \"range:0,60\"}, "                       \
	"\"splits\": {\"train\": \"train.npy\", \"valid\": \"valid.npy\"}"
#define AUTHOR "\"name\": \"author\", \"count\": 7, \"splits\": {\"train\": \"range:1,3\"}"
#define CITES                                                                                      \
	"\"name\": \"cites\", \"source\": \"paper\", \"target\": \"paper\", \"edges\": "           \
	"\"edges.npy\""
#define WRITES                                                                                     \
	"\"name\": \"writes\", \"source\": \"author\", \"target\": \"paper\", \"edges\": "         \
	"\"w.npy\""
#define REVERSED                                                                                   \
	"\"name\": \"rev\", \"source\": \"paper\", \"target\": \"author\", \"edges\": \"w.npy\", " \
	"\"reversed\": true"
#define TRAINING "\"fanouts\": [3, 2], \"seed_type\": \"author\""

/* @param types, relations  the lists, without brackets */
static void describe(const char *types, const char *relations, const char *training)
{
	char text[4000];

	snprintf(text, sizeof(text),
	         "{\"format\": \"rung-source\", \"version\": 1, \"vertex_types\": [%s], "
	         "\"relations\": [%s], \"training\": {%s}}",
	         types, relations, training);
	write_text(text);
}

#define BOTH_TYPES    "{" PAPER "}, {" AUTHOR "}"
#define ALL_RELATIONS "{" CITES "}, {" WRITES "}, {" REVERSED "}"

static void begin(void)
{
	static const int64_t writes[10] = { 0, 6, 1, 1, 2, 59, 0, 3, 3, 4 };
	const float rows[10] = { 0 };
	char path[400];

	begin_description();
	snprintf(path, sizeof(path), "%s/w.npy", dir);
	cr_assert_eq(support_write_npy(path, "<i8", "(2, 5)", writes, sizeof(writes)), 0);
	snprintf(path, sizeof(path), "%s/rows.npy", dir);
	cr_assert_eq(support_write_npy(path, "<f4", "(5, 2)", rows, sizeof(rows)), 0);
	describe(BOTH_TYPES, ALL_RELATIONS, TRAINING);
}

TestSuite(description_typed, .init = begin, .fini = teardown, .timeout = 300);

/* Describe one more relation of the given members. */
static void add_relation(const char *relation)
{
	char relations[2000];

	snprintf(relations, sizeof(relations), ALL_RELATIONS ", {%s}", relation);
	describe(BOTH_TYPES, relations, TRAINING);
}

static void relation_refused(const char *relation, const char *words)
{
	add_relation(relation);
	refused(RUNG_E_FORMAT, words);
}

static void in_folder(const char *spec, const char *name)
{
	char wanted[400];

	snprintf(wanted, sizeof(wanted), "%s/%s", dir, name);
	cr_assert_str_eq(spec, wanted);
}

Test(description_typed, types_and_relations_are_filled_in)
{
	struct rung_preset *preset = opened(EVERYTHING);
	const struct rung_stage_type *paper = &preset->types[0], *author = &preset->types[1];
	const struct rung_stage_relation *writes = &preset->relations[1];

	cr_assert_eq(preset->type_count, 2);
	cr_assert_eq(preset->relation_count, 3);
	cr_assert_str_eq(preset->seed_type, "author");
	cr_assert_str_eq(paper->name, "paper");
	cr_assert_eq(paper->vertex_count, 60);
	in_folder(paper->features, "features.npy");
	in_folder(paper->labels, "labels.npy");
	cr_assert_eq(paper->array_count, 1);
	cr_assert_str_eq(paper->arrays[0].name, "id");
	cr_assert_str_eq(paper->arrays[0].spec, "range:0,60");
	cr_assert_eq(paper->split_count, 2);
	cr_assert_str_eq(paper->splits[1].name, "valid");
	in_folder(paper->splits[1].spec, "valid.npy");
	cr_assert_str_eq(author->name, "author");
	cr_assert_eq(author->vertex_count, 7);
	cr_assert_null(author->features);
	cr_assert_null(author->labels);
	cr_assert_eq(author->split_count, 1);
	cr_assert_str_eq(writes->source, "author");
	cr_assert_str_eq(writes->name, "writes");
	cr_assert_str_eq(writes->target, "paper");
	cr_assert_eq(writes->spec_count, 1);
	in_folder(writes->specs[0], "w.npy");
	cr_assert_eq(writes->reversed | writes->undirected | writes->dedup, 0);
	cr_assert_null(writes->rows);
	cr_assert_null(writes->fanouts);
	cr_assert_eq(preset->relations[2].reversed, 1);
	rung_preset_close(preset);
}

/* Nothing of a typed graph is also described as an untyped one. */
Test(description_typed, untyped_members_are_empty)
{
	struct rung_preset *preset = opened(EVERYTHING);

	cr_assert_eq(preset->graph_count + preset->split_count + preset->array_count, 0);
	cr_assert_eq(preset->vertex_count, 0);
	cr_assert_null(preset->features);
	cr_assert_null(preset->labels);
	cr_assert_null(preset->vertex_type);
	cr_assert_null(preset->relation);
	cr_assert_eq(preset->fanout_count, 2);
	rung_preset_close(preset);
}

Test(description_typed, a_key_of_typed_graphs_makes_one_type_typed)
{
	static const char *const relations[] = { CITES ", \"rows\": \"range:0,300\"",
		                                 CITES ", \"reversed\": true",
		                                 CITES ", \"fanouts\": [1, 0]" };
	struct rung_preset *preset;
	char relation[400];

	for (size_t i = 0; i < sizeof(relations) / sizeof(relations[0]); i++) {
		snprintf(relation, sizeof(relation), "{%s}", relations[i]);
		describe("{" PAPER "}", relation, "\"fanouts\": [3, 2]");
		preset = opened(EVERYTHING);
		cr_assert_eq(preset->type_count, 1, "%s", relation);
		cr_assert_eq(preset->relation_count, 1);
		rung_preset_close(preset);
	}
	describe("{" PAPER ", \"quantize\": \"int8\"}", "{" CITES "}", "");
	preset = opened(EVERYTHING);
	cr_assert_eq(preset->type_count, 1);
	rung_preset_close(preset);
	describe("{" PAPER "}", "{" CITES "}", "\"seed_type\": \"paper\"");
	preset = opened(EVERYTHING);
	cr_assert_str_eq(preset->seed_type, "paper");
	rung_preset_close(preset);
	describe("{" PAPER "}", "{" CITES "}", "");
	preset = opened(EVERYTHING);
	cr_assert_eq(preset->type_count, 0);
	cr_assert_eq(preset->relation_count, 0);
	cr_assert_null(preset->types);
	cr_assert_str_eq(preset->vertex_type, "paper");
	rung_preset_close(preset);
}

Test(description_typed, features_stay_required_without_types)
{
	describe("{" AUTHOR "}",
	         "{\"name\": \"knows\", \"source\": \"author\", \"target\": "
	         "\"author\", \"edges\": \"w.npy\"}",
	         "");
	refused(RUNG_E_FORMAT, "vertex_types[0].features: is missing");
}

Test(description_typed, edge_rows_and_fanouts)
{
	struct rung_preset *preset;

	describe(BOTH_TYPES,
	         "{" CITES ", \"undirected\": true}, {" WRITES
	         ", \"rows\": \"rows.npy\", \"count\": 5, \"fanouts\": [0, 4294967295]}",
	         TRAINING);
	preset = opened(EVERYTHING);
	cr_assert_eq(preset->relations[0].undirected, 1);
	in_folder(preset->relations[1].rows, "rows.npy");
	cr_assert_eq(preset->relations[1].fanouts[0], 0);
	cr_assert_eq(preset->relations[1].fanouts[1], UINT32_MAX);
	rung_preset_close(preset);
	relation_refused("\"name\": \"w\", \"source\": \"author\", \"target\": \"paper\", "
	                 "\"edges\": \"w.npy\", \"rows\": \"labels.npy\"",
	                 "labels.npy has 60 rows, but \"edges\" has 5; give one row for each edge");
	add_relation("\"name\": \"w\", \"source\": \"author\", \"target\": \"paper\", "
	             "\"edges\": \"w.npy\", \"rows\": \"no.npy\"");
	refused(RUNG_E_NOENT, "relations[3].rows: ");
}

/* csc: has the lists of the targets, csr: those of the sources, of the edges as they are stored. */
Test(description_typed, columns_belong_to_one_end)
{
	struct rung_preset *preset;
	char relation[600], braced[610];
	static const struct {
		const char *edges, *source, *target;
		bool reversed, ok;
	} cases[] = {
		{ "csc:range:0,61,range:0,60", "author", "paper", false, true },
		{ "csc:range:0,61,range:0,60", "paper", "author", true, true },
		{ "csr:range:0,61,range:0,60", "paper", "author", false, true },
		{ "csr:range:0,61,range:0,60", "author", "paper", true, true },
		{ "csc:range:0,61,range:0,60", "paper", "author", false, false },
		{ "csr:range:0,61,range:0,60", "author", "paper", false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(relation, sizeof(relation),
		         "\"name\": \"r\", \"source\": \"%s\", \"target\": \"%s\", \"edges\": "
		         "\"%s\", \"reversed\": %s",
		         cases[i].source, cases[i].target, cases[i].edges,
		         cases[i].reversed ? "true" : "false");
		if (!cases[i].ok) {
			relation_refused(relation, "relations[3].edges: ");
			continue;
		}
		snprintf(braced, sizeof(braced), "{%s}", relation);
		describe(BOTH_TYPES, braced, TRAINING);
		preset = opened(EVERYTHING);
		rung_preset_close(preset);
	}
}

Test(description_typed, quantize_is_as_the_option)
{
	static const struct {
		const char *text;
		enum rung_quant_format format;
		enum rung_quant_scales scales;
	} good[] = { { "int8", RUNG_QUANT_INT8, RUNG_SCALES_ROW },
		     { "int4:row", RUNG_QUANT_INT4, RUNG_SCALES_ROW },
		     { "fp8:column", RUNG_QUANT_FP8, RUNG_SCALES_COLUMN } };
	static const char *const bad[] = { "int", "int8:", "int8:columns", "none", "", "int8 " };
	struct rung_preset *preset;
	char types[1000];

	for (size_t i = 0; i < 3; i++) {
		snprintf(types, sizeof(types), "{" PAPER ", \"quantize\": \"%s\"}, {" AUTHOR "}",
		         good[i].text);
		describe(types, ALL_RELATIONS, TRAINING);
		preset = opened(EVERYTHING);
		cr_assert_eq(preset->types[0].quantize, good[i].format);
		cr_assert_eq(preset->types[0].quant_scales, good[i].scales);
		cr_assert_eq(preset->types[1].quantize, RUNG_QUANT_NONE);
		rung_preset_close(preset);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(types, sizeof(types), "{" PAPER ", \"quantize\": \"%s\"}", bad[i]);
		describe(types, "{" CITES "}", "");
		refused(RUNG_E_FORMAT,
		        "vertex_types[0].quantize: is an unknown word; use \"int8\"");
	}
	describe("{" PAPER "}, {" AUTHOR ", \"quantize\": \"int8\"}", ALL_RELATIONS, TRAINING);
	refused(RUNG_E_FORMAT,
	        "vertex_types[1].quantize: is given, but the type has no \"features\"");
}

Test(description_typed, wrong_names_and_ends_are_refused)
{
	relation_refused(CITES, "relations[3].name: 'cites' from 'paper' to 'paper' is an earlier");
	relation_refused("\"name\": \"w\", \"source\": \"venue\", \"target\": \"paper\", "
	                 "\"edges\": \"w.npy\"",
	                 "relations[3].source: 'venue' is not the name of a vertex type; use a");
	relation_refused("\"name\": \"w\", \"source\": \"paper\", \"target\": 5, "
	                 "\"edges\": \"w.npy\"",
	                 "relations[3].target: is a number");
	relation_refused(WRITES ", \"undirected\": true",
	                 "relations[3].undirected: is true, but \"source\" and \"target\" differ");
	relation_refused("\"name\": \"w\", \"source\": \"author\", \"target\": \"paper\", "
	                 "\"edges\": \"w.npy\", \"fanouts\": [1]",
	                 "relations[3].fanouts: has 1 entries, and \"training.fanouts\" has 2");
	describe(BOTH_TYPES ", {" AUTHOR "}", ALL_RELATIONS, TRAINING);
	refused(RUNG_E_FORMAT, "vertex_types[2].name: 'author' is the name of an earlier");
	describe(BOTH_TYPES, ALL_RELATIONS, "\"seed_type\": \"venue\"");
	refused(RUNG_E_FORMAT, "training.seed_type: 'venue' is not the name of a vertex type");
	describe(BOTH_TYPES, ALL_RELATIONS, "\"seed_type\": null");
	refused(RUNG_E_FORMAT, "training.seed_type: is null");
	/* the same name between other types is another relation */
	describe(BOTH_TYPES,
	         "{" WRITES "}, {\"name\": \"writes\", \"source\": \"paper\", "
	         "\"target\": \"author\", \"edges\": \"w.npy\", \"reversed\": true}",
	         TRAINING);
	rung_preset_close(opened(EVERYTHING));
}

Test(description_typed, only_requested_parts_are_opened)
{
	struct rung_preset *preset;

	cr_assert_eq(unlink(features), 0);
	cr_assert_eq(unlink(labels), 0);
	cr_assert_eq(unlink(train), 0);
	preset = opened(RUNG_PRESET_GRAPH);
	cr_assert_eq(preset->relation_count, 3);
	cr_assert_null(preset->types[0].features);
	cr_assert_eq(preset->types[0].split_count, 0);
	rung_preset_close(preset);
	refused(RUNG_E_NOENT, "vertex_types[0].features: ");
	cr_assert_eq(unlink(edges), 0);
	preset = opened(0);
	cr_assert_eq(preset->relations[0].spec_count, 0);
	cr_assert_str_eq(preset->relations[0].target, "paper");
	rung_preset_close(preset);
}

Test(description_typed, every_allocation_that_fails_is_reported)
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
