/* SPDX-License-Identifier: Apache-2.0 */
/* The loader of a typed graph, from staging to batches: vertices and blocks are those of the
 * sampler, rows those of the sources, whatever is in memory and however many threads sample. */
#include "typed_loader_fixture.h"

TestSuite(loader_typed, .init = setup_typed, .fini = teardown, .timeout = 300);

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
