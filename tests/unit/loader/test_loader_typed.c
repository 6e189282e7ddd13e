/* SPDX-License-Identifier: Apache-2.0 */
/* The loader of a typed graph, from staging to batches: vertices and blocks are those of the
 * sampler, rows those of the sources, whatever is in memory and however many threads sample. */
#include "rung/structure.h"
#include "typed_fixture.h"

TestSuite(loader_typed, .init = setup_typed, .fini = teardown, .timeout = 300);

#define BATCH   7u
#define BATCHES ((PAPERS + BATCH - 1) / BATCH)

/* A typed dataset with its stores. */
static struct {
	struct rung_store *types[TYPES], *edge_rows[RELATIONS];
	struct rung_structure *structures[RELATIONS];
	struct rung_graph *graphs[RELATIONS];
	uint64_t *vertex_of_rank[TYPES], *edge_of_position;
	struct rung_sampler_relation relations[RELATIONS];
} t;

static struct rung_dataset *open_folder(const char *folder)
{
	struct rung_dataset *ds = NULL;
	char path[700];

	snprintf(path, sizeof(path), "%s/%s", out, folder);
	cr_assert_eq(rung_dataset_open(path, &ds), 0, "%s", rung_last_error());
	return ds;
}

/* A plan with the least budget, or with one that holds everything. */
static struct rung_plan *plan_of(const struct rung_dataset *ds, bool least,
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

static struct rung_store *open_rows(const char *folder, bool least)
{
	struct rung_dataset *ds = open_folder(folder);
	struct rung_plan *plan = plan_of(ds, least, 0);
	struct rung_store_opts store_opts = RUNG_STORE_OPTS_INIT;
	struct rung_store *store = NULL;

	cr_assert_eq(rung_store_open(ds, plan, &store_opts, &store), 0, "%s", rung_last_error());
	rung_plan_destroy(plan);
	rung_dataset_close(ds);
	return store;
}

static void open_lists(unsigned r, const struct rung_dataset_relation *relation, bool least)
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

static struct rung_dataset *open_all(bool least)
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

static void close_all(struct rung_dataset *ds)
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

static struct rung_loader_opts loader_opts(uint32_t threads)
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

/* ---- comparing ---- */

static void blocks_are(const struct rung_typed_batch *is, const struct rung_typed_batch *wanted)
{
	cr_assert_eq(is->hop_count, wanted->hop_count);
	for (unsigned i = 0; i < TYPES; i++) {
		cr_assert_eq(is->types[i].count, wanted->types[i].count);
		if (is->types[i].count > 0) /* NULL without vertices */
			cr_assert_eq(memcmp(is->types[i].vertices, wanted->types[i].vertices,
			                    8 * is->types[i].count),
			             0);
	}
	for (unsigned b = 0; b < 2 * RELATIONS; b++) {
		const struct rung_block *x = &is->blocks[b], *y = &wanted->blocks[b];

		cr_assert(x->edge_count == y->edge_count && x->dst_count == y->dst_count &&
		          x->src_count == y->src_count);
		cr_assert_eq(memcmp(x->indptr, y->indptr, 8 * (x->dst_count + 1)), 0);
		if (x->edge_count == 0) /* the arrays may be NULL */
			continue;
		cr_assert_eq(memcmp(x->indices, y->indices, 4 * x->edge_count), 0);
		cr_assert_eq(memcmp(x->edges, y->edges, 8 * x->edge_count), 0);
	}
}

/* Rows of types are those of their vertices, rows of edges those of the edge with these ends. */
static void rows_are(const struct rung_loader_batch *batch)
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

static void run_pass(uint32_t threads, uint32_t look_ahead)
{
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	struct rung_loader_opts loader_options = loader_opts(threads);
	struct rung_sampler_opts sampler_options = loader_options.sampler;
	struct rung_sampler_relation in_memory[RELATIONS];
	const struct rung_loader_batch *batch = NULL;
	struct rung_loader_stats stats = { .size = sizeof(stats) };
	struct rung_batch *wanted = NULL;
	struct rung_sampler *sampler = NULL;
	struct rung_loader *loader = NULL;
	uint64_t seeds[PAPERS], b = 0, rows = 0;
	int rc;

	for (unsigned r = 0; r < RELATIONS; r++) {
		in_memory[r] = t.relations[r];
		in_memory[r].structure = NULL;
		in_memory[r].csc = rung_graph_csc(t.graphs[r]);
	}
	sampler_options.relations = in_memory;
	sampler_options.edge_positions = 1;
	sampler_options.threads = 1;
	cr_assert_eq(rung_sampler_create(NULL, &sampler_options, &sampler), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_batch_create(&wanted), 0);
	for (uint64_t i = 0; i < PAPERS; i++)
		seeds[i] = (i * 37) % PAPERS;
	pass.seeds = seeds;
	pass.seed_count = PAPERS;
	pass.key_first = 100;
	loader_options.look_ahead = look_ahead;
	cr_assert_eq(rung_loader_create(NULL, NULL, &loader_options, &loader), 0, "%s",
	             rung_last_error());
	cr_assert_eq(rung_loader_begin(loader, &pass), 0);
	while ((rc = rung_loader_next(loader, &batch)) > 0) {
		const uint64_t count = RUNG__MIN(BATCH, PAPERS - b * BATCH);

		cr_assert_eq(
			rung_sampler_sample(sampler, seeds + b * BATCH, count, 100 + b, wanted), 0);
		cr_assert(batch->batch_idx == b && batch->seed_count == count);
		cr_assert_eq(memcmp(batch->seeds, seeds + b * BATCH, 8 * count), 0);
		blocks_are(batch->typed, rung_batch_typed(wanted));
		rows_are(batch);
		rows += batch->typed->types[PAPER].count + batch->typed->types[AUTHOR].count;
		for (unsigned hop = 0; hop < 2; hop++)
			rows += batch->typed->blocks[hop * RELATIONS + WRITES_PAPER].edge_count;
		rung_loader_put(loader, batch, NULL);
		b++;
	}
	cr_assert_eq(rc, 0, "%s", rung_last_error());
	cr_assert_eq(b, BATCHES);
	cr_assert_eq(rung_loader_stats(loader, &stats), 0);
	cr_assert_eq(stats.rows, rows);
	rung_loader_destroy(loader);
	rung_batch_destroy(wanted);
	rung_sampler_destroy(sampler);
}

Test(loader_typed, batches_are_those_of_the_sampler_with_the_rows_of_the_sources)
{
	for (unsigned least = 0; least < 2; least++) {
		struct rung_dataset *ds = open_all(least);

		run_pass(1, 1);
		run_pass(3, 16);
		close_all(ds);
	}
}

/* Batches that are taken late, in another order, or not at all. */
Test(loader_typed, a_pass_may_end_early_and_batches_may_be_kept)
{
	struct rung_dataset *ds = open_all(true);
	struct rung_loader_opts options = loader_opts(2);
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	const struct rung_loader_batch *held[4] = { NULL };
	struct rung_loader *loader = NULL;
	uint64_t seeds[PAPERS];

	for (uint64_t i = 0; i < PAPERS; i++)
		seeds[i] = i;
	pass.seeds = seeds;
	pass.seed_count = PAPERS;
	pass.shuffle = 1;
	cr_assert_eq(rung_loader_create(NULL, NULL, &options, &loader), 0, "%s", rung_last_error());
	cr_assert_eq(rung_loader_warm_up(loader, &pass), 0, "%s", rung_last_error());
	for (unsigned again = 0; again < 3; again++) {
		cr_assert_eq(rung_loader_begin(loader, &pass), 0);
		for (unsigned i = 0; i < 4; i++)
			cr_assert_eq(rung_loader_next(loader, &held[i]), 1, "%s",
			             rung_last_error());
		if (again == 1)
			cr_assert_eq(rung_loader_end(loader), 0);
		for (unsigned i = 4; i-- > 0;) {
			rows_are(held[i]);
			rung_loader_put(loader, held[i], NULL);
		}
	}
	pass.batch_first = BATCHES - 1;
	cr_assert_eq(rung_loader_begin(loader, &pass), 0);
	cr_assert_eq(rung_loader_next(loader, &held[0]), 1);
	rows_are(held[0]);
	rung_loader_destroy(loader); /* frees the batch that is held */
	close_all(ds);
}

/* A row that cannot be read fails the batches that need it, and names the table. */
Test(loader_typed, an_unreadable_row_is_that_of_a_type_or_relation)
{
	struct rung_dataset *ds = open_all(true);
	struct rung_loader_opts options = loader_opts(1);
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	const struct rung_loader_batch *batch = NULL;
	struct rung_loader *loader = NULL;
	uint64_t seeds[PAPERS];
	unsigned failed = 0;
	char path[700];
	int rc = 1;

	snprintf(path, sizeof(path), "%s/edge_rows/author.writes.paper/features.000.npy", out);
	cr_assert_eq(truncate(path, 4096), 0);
	for (uint64_t i = 0; i < PAPERS; i++)
		seeds[i] = i;
	pass.seeds = seeds;
	pass.seed_count = PAPERS;
	cr_assert_eq(rung_loader_create(NULL, NULL, &options, &loader), 0, "%s", rung_last_error());
	cr_assert_eq(rung_loader_begin(loader, &pass), 0);
	for (unsigned i = 0; i < BATCHES; i++) {
		rc = rung_loader_next(loader, &batch);
		cr_assert_neq(rc, 0);
		if (rc > 0) {
			rung_loader_put(loader, batch, NULL);
			continue;
		}
		failed++;
		cr_assert(strstr(rung_last_error(), "rows of relation 1"), "%s", rung_last_error());
		cr_assert(strstr(rung_last_error(), path), "%s", rung_last_error());
	}
	cr_assert_gt(failed, 0);
	cr_assert_eq(rung_loader_next(loader, &batch), 0);
	rung_loader_destroy(loader);
	close_all(ds);
}

static void refuse(struct rung_loader_opts options, const struct rung_csc *csc, const char *words)
{
	struct rung_loader *loader = NULL;

	assert_error(rung_loader_create(NULL, csc, &options, &loader), RUNG_E_INVAL, words);
	cr_assert_eq(loader, NULL);
}

Test(loader_typed, wrong_tables_are_refused)
{
	struct rung_dataset *ds = open_all(false);
	struct rung_store *stores[TYPES] = { t.types[AUTHOR], t.types[AUTHOR], NULL };
	struct rung_store *edge_stores[RELATIONS] = { t.edge_rows[WRITES_PAPER] };
	struct rung_store *none[TYPES] = { NULL };
	struct rung_loader_opts options = loader_opts(1);

	options.type_stores = stores;
	refuse(options, NULL, "store of type 0 has 70 rows, but 90 are needed");
	options = loader_opts(1);
	options.edge_stores = edge_stores;
	refuse(options, NULL, "store of relation 0 has 260 rows");
	options = loader_opts(1);
	options.type_stores = none;
	refuse(options, NULL, "no store");
	options = loader_opts(1);
	refuse(options, rung_graph_csc(t.graphs[0]), "pass only one");
	options.sampler.hop_count = 0;
	refuse(options, NULL, "types, relations and hops");
	options = loader_opts(1);
	options.sampler.seed_type = TYPES;
	refuse(options, NULL, "seed");
	close_all(ds);
}
