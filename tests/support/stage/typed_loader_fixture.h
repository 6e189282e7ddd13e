/* SPDX-License-Identifier: Apache-2.0 */
/** The stores and lists of a typed dataset, for its loaders, and a check of the rows of a batch. */
#ifndef SUPPORT_TYPED_LOADER_FIXTURE_H
#define SUPPORT_TYPED_LOADER_FIXTURE_H

#include "fault_reader.h"
#include "rung/loader.h"
#include "rung/structure.h"
#include "store/store.h"
#include "typed_fixture.h"

#define BATCH    7u
#define BATCHES  ((PAPERS + BATCH - 1) / BATCH)
#define REQUESTS 4u

/* A typed dataset with its stores. */
static struct {
	struct rung_store *types[TYPES], *edge_rows[RELATIONS];
	struct rung_structure *structures[RELATIONS];
	struct rung_graph *graphs[RELATIONS];
	uint64_t *vertex_of_rank[TYPES], *edge_of_position;
	struct rung_sampler_relation relations[RELATIONS];
} t;

static inline struct rung_dataset *open_folder(const char *folder)
{
	struct rung_dataset *ds = NULL;
	char path[700];

	snprintf(path, sizeof(path), "%s/%s", out, folder);
	cr_assert_eq(rung_dataset_open(path, &ds), 0, "%s", rung_last_error());
	return ds;
}

/* Folders whose stores are special, or NULL: reads pass through the fault reader; a gather of more
 * than one id is synchronous, in pieces. */
static const char *faulty, *in_pieces;

/* A plan with the least budget, or with one that holds everything. */
static inline struct rung_plan *plan_of(const struct rung_dataset *ds, bool least,
                                        uint64_t structure_bytes)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_plan *plan = NULL;

	plan_opts.device = RUNG_DEVICE_CPU;
	plan_opts.structure_bytes = structure_bytes;
	plan_opts.host_bytes = 1;
	cr_assert_eq(rung_plan_create(ds, &plan_opts, &plan), RUNG_E_INVAL);
	plan_opts.host_bytes = least ? rung_last_error_min_bytes() : 1u << 24;
	cr_assert_eq(rung_plan_create(ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	return plan;
}

static inline struct rung_store *open_rows(const char *folder, bool least)
{
	struct rung_dataset *ds = open_folder(folder);
	struct rung_plan *plan = plan_of(ds, least, 0);
	struct rung_store_opts store_opts = RUNG_STORE_OPTS_INIT;
	struct rung_store *store = NULL;

	store_opts.requests_max = REQUESTS;
	if (in_pieces && strcmp(folder, in_pieces) == 0)
		store_opts.batch_rows_max = 1;
	cr_assert_eq(rung__store_open_over(ds, plan, &store_opts,
	                                   faulty && strcmp(folder, faulty) == 0
	                                           ? &support_fault_reader
	                                           : &rung__file_reader,
	                                   &store),
	             0, "%s", rung_last_error());
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
	return store;
}

static inline void open_lists(unsigned r, const struct rung_dataset_relation *relation, bool least)
{
	struct rung_dataset *ds = open_folder(relation->folder);
	struct rung_plan *plan = plan_of(ds, least, least ? 32768 : 1u << 20);

	cr_assert_eq(rung_dataset_load_graph(ds, &t.graphs[r]), 0, "%s", rung_last_error());
	cr_assert_eq(rung_structure_open(ds, plan, NULL, &t.structures[r]), 0, "%s",
	             rung_last_error());
	t.relations[r] = (struct rung_sampler_relation){ .source_type = relation->source_type,
		                                         .target_type = relation->target_type,
		                                         .structure = t.structures[r],
		                                         .fanouts = relation->fanouts };
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
}

static inline struct rung_dataset *open_all(bool least)
{
	const struct rung_dataset_info *info;
	struct rung_dataset *ds = NULL, *part;
	uint64_t count;

	if (!exists(out))
		cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_eq(rung_dataset_open(out, &ds), 0, "%s", rung_last_error());
	info = rung_dataset_info(ds);
	for (unsigned i = 0; i < TYPES; i++) {
		part = open_folder(info->types[i].folder);
		cr_assert_eq(
			rung_dataset_load_ids(part, "vertex_of_rank", &count, &t.vertex_of_rank[i]),
			0);
		rung_dataset_close(part);
		if (info->types[i].has_features)
			t.types[i] = open_rows(info->types[i].folder, least);
	}
	for (unsigned i = 0; i < RELATIONS; i++)
		open_lists(i, &info->relations[i], least);
	t.edge_rows[WRITES_PAPER] = open_rows(info->relations[WRITES_PAPER].rows_folder, least);
	part = open_folder(info->relations[WRITES_PAPER].rows_folder);
	cr_assert_eq(rung_dataset_load_ids(part, "vertex_of_rank", &count, &t.edge_of_position), 0);
	rung_dataset_close(part);
	return ds;
}

static inline void close_all(struct rung_dataset *ds)
{
	for (unsigned i = 0; i < TYPES; i++) {
		cr_assert_eq(rung_store_close(t.types[i]), 0);
		rung_free(t.vertex_of_rank[i]);
	}
	for (unsigned i = 0; i < RELATIONS; i++) {
		cr_assert_eq(rung_store_close(t.edge_rows[i]), 0);
		cr_assert_eq(rung_structure_close(t.structures[i]), 0);
		rung_graph_destroy(t.graphs[i]);
	}
	rung_free(t.edge_of_position);
	memset(&t, 0, sizeof(t));
	rung_dataset_close(ds);
}

static inline struct rung_loader_opts loader_opts(uint32_t threads)
{
	struct rung_loader_opts loader = RUNG_LOADER_OPTS_INIT;

	loader.sampler.hop_count = 2;
	loader.sampler.seed = 11;
	loader.sampler.draws = RUNG_DRAWS_NEW;
	loader.sampler.type_counts = type_counts;
	loader.sampler.type_count = TYPES;
	loader.sampler.relations = t.relations;
	loader.sampler.relation_count = RELATIONS;
	loader.sampler.seed_type = PAPER;
	loader.batch_size = BATCH;
	loader.threads = threads;
	loader.type_stores = t.types;
	loader.edge_stores = t.edge_rows;
	return loader;
}

/* Rows of types are those of their vertices, rows of edges those of the edge with these ends. */
static inline void rows_are(const struct rung_loader_batch *batch)
{
	static const unsigned source[] = { 0, 1 }, bytes[] = { PAPER_BYTES, AUTHOR_BYTES };
	const struct rung_typed_batch *typed = batch->typed;
	const unsigned char *edge_rows = batch->edge_rows[WRITES_PAPER];
	unsigned char row[ROW_BYTES_MAX];

	for (unsigned i = 0; i < 2; i++) {
		const unsigned char *rows = batch->type_rows[i];

		cr_assert_eq((uintptr_t)rows % 256, 0);
		for (uint64_t v = 0; v < typed->types[i].count; v++) {
			const uint64_t id = t.vertex_of_rank[i][typed->types[i].vertices[v]];

			support_row(id + 1000 * source[i], bytes[i], row);
			cr_assert_eq(memcmp(rows + v * bytes[i], row, bytes[i]), 0);
		}
	}
	cr_assert_eq(batch->type_rows[VENUE], NULL);
	for (unsigned hop = 0; hop < 2; hop++) {
		const struct rung_block *block = &typed->blocks[hop * RELATIONS + WRITES_PAPER];

		for (uint64_t d = 0; d < block->dst_count; d++) {
			const uint64_t paper =
				t.vertex_of_rank[PAPER][typed->types[PAPER].vertices[d]];

			for (uint64_t e = block->indptr[d]; e < block->indptr[d + 1]; e++) {
				const uint64_t edge = t.edge_of_position[block->edges[e]];
				const uint64_t author =
					t.vertex_of_rank[AUTHOR]
							[typed->types[AUTHOR]
				                                 .vertices[block->indices[e]]];

				cr_assert_eq((uint64_t)writes[0][edge], author);
				cr_assert_eq((uint64_t)writes[1][edge], paper);
				support_row(edge + 7000, EDGE_BYTES, row);
				cr_assert_eq(memcmp(edge_rows, row, EDGE_BYTES), 0);
				edge_rows += EDGE_BYTES;
			}
		}
	}
}

#endif
