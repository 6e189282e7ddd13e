/* SPDX-License-Identifier: Apache-2.0 */
/** Sources of a typed graph in a temporary folder, and the options to stage them: papers and
 * authors with rows of different widths, venues without rows; edges with rows. */
#ifndef SUPPORT_TYPED_FIXTURE_H
#define SUPPORT_TYPED_FIXTURE_H

#include "base/random.h"
#include "stage_killed.h"

#define PAPERS  90u
#define AUTHORS 70u
#define VENUES  5u
#define WRITES  260u
#define CITES   200u
/* bytes of a row: with the least budget, most rows are in the file */
#define PAPER_BYTES   4000u
#define AUTHOR_BYTES  4100u
#define EDGE_BYTES    1200u
#define ROW_BYTES_MAX 4100u

enum { PAPER, AUTHOR, VENUE, TYPES };
enum { CITES_PAPER, WRITES_PAPER, WRITTEN_BY, APPEARS_IN, RELATIONS };

static const uint64_t type_counts[TYPES] = { PAPERS, AUTHORS, VENUES };
static char typed_sources[8][320];
static int64_t cites[2][CITES], writes[2][WRITES], venues[PAPERS][2];
static const char *typed_specs[RELATIONS][1];
static struct rung_stage_split typed_splits[1];
static struct rung_stage_array typed_arrays[1];
static struct rung_stage_type types[TYPES];
static struct rung_stage_relation relations[RELATIONS];
static const uint32_t typed_fanouts[] = { 4, 3 }, few[] = { 2, 0 };

static inline void write_source(unsigned idx, const char *descr, const char *shape,
                                const void *data, size_t bytes)
{
	snprintf(typed_sources[idx], sizeof(typed_sources[idx]), "%s/source%u.npy", dir, idx);
	cr_assert_eq(support_write_npy(typed_sources[idx], descr, shape, data, bytes), 0);
}

/* Row v of a source: bytes that depend on the vertex and the source. */
static inline void write_rows(unsigned idx, uint64_t count, uint64_t row_bytes)
{
	unsigned char *rows = malloc(count * row_bytes);
	char shape[48];

	for (uint64_t v = 0; v < count; v++)
		support_row(v + 1000 * idx, row_bytes, rows + v * row_bytes);
	snprintf(shape, sizeof(shape), "(%llu, %llu)", (unsigned long long)count,
	         (unsigned long long)row_bytes);
	write_source(idx, "|u1", shape, rows, count * row_bytes);
	free(rows);
}

static inline void draw_edges(void)
{
	struct rung__rng rng = { 3 };

	for (unsigned e = 0; e < CITES; e++) {
		cites[0][e] = (int64_t)rung__rng_below(&rng, PAPERS);
		cites[1][e] = (int64_t)rung__rng_below(&rng, PAPERS / 2);
	}
	for (unsigned e = 0; e < WRITES; e++) {
		writes[0][e] = (int64_t)rung__rng_below(&rng, AUTHORS);
		writes[1][e] = (int64_t)rung__rng_below(&rng, PAPERS);
	}
	for (unsigned p = 0; p < PAPERS; p++) {
		venues[p][0] = p;
		venues[p][1] = (int64_t)rung__rng_below(&rng, VENUES);
	}
}

static inline void set_types(void)
{
	typed_splits[0] = (struct rung_stage_split){ "train", typed_sources[3] };
	typed_arrays[0] = (struct rung_stage_array){ "year", typed_sources[2] };
	types[PAPER] = (struct rung_stage_type){ .name = "paper",
		                                 .features = typed_sources[0],
		                                 .labels = typed_sources[2],
		                                 .splits = typed_splits,
		                                 .split_count = 1,
		                                 .arrays = typed_arrays,
		                                 .array_count = 1 };
	types[AUTHOR] = (struct rung_stage_type){ .name = "author", .features = typed_sources[1] };
	types[VENUE] = (struct rung_stage_type){ .name = "venue", .vertex_count = VENUES };
}

static inline void set_relation(unsigned idx, const char *source, const char *name,
                                const char *target, unsigned spec)
{
	typed_specs[idx][0] = typed_sources[spec];
	relations[idx] = (struct rung_stage_relation){ .source = source,
		                                       .name = name,
		                                       .target = target,
		                                       .specs = typed_specs[idx],
		                                       .spec_count = 1 };
}

static inline void setup_typed(void)
{
	int64_t years[PAPERS], seeds[PAPERS / 3];

	setup();
	draw_edges();
	for (int64_t p = 0; p < PAPERS; p++)
		years[p] = 1990 + p % 30;
	for (int64_t i = 0; i < PAPERS / 3; i++)
		seeds[i] = 3 * i;
	write_rows(0, PAPERS, PAPER_BYTES);
	write_rows(1, AUTHORS, AUTHOR_BYTES);
	write_source(2, "<i8", "(90,)", years, sizeof(years));
	write_source(3, "<i8", "(30,)", seeds, sizeof(seeds));
	write_source(4, "<i8", "(2, 200)", cites, sizeof(cites));
	write_source(5, "<i8", "(2, 260)", writes, sizeof(writes));
	write_source(6, "<i8", "(90, 2)", venues, sizeof(venues));
	write_rows(7, WRITES, EDGE_BYTES);
	set_types();
	set_relation(CITES_PAPER, "paper", "cites", "paper", 4);
	set_relation(WRITES_PAPER, "author", "writes", "paper", 5);
	set_relation(WRITTEN_BY, "paper", "rev_writes", "author", 5);
	set_relation(APPEARS_IN, "paper", "appears_in", "venue", 6);
	relations[CITES_PAPER].undirected = 1;
	relations[WRITES_PAPER].rows = typed_sources[7];
	relations[WRITTEN_BY].reversed = 1;
	relations[APPEARS_IN].fanouts = few;
	opts = (struct rung_stage_opts)RUNG_STAGE_OPTS_INIT;
	opts.out_dir = out;
	opts.threads = 2;
	opts.score.method = RUNG_SCORE_EXPECTED;
	opts.fanouts = typed_fanouts;
	opts.fanout_count = 2;
	opts.types = types;
	opts.type_count = TYPES;
	opts.relations = relations;
	opts.relation_count = RELATIONS;
}

/** Path of part `idx` of a folder; valid until the next call. */
static inline const char *part_of(const char *folder, const struct rung_dataset_info *info,
                                  size_t idx)
{
	static char path[600];
	const char *part = NULL;

	if (idx < info->type_count)
		part = info->types[idx].folder;
	else if ((idx -= info->type_count) < info->relation_count)
		part = info->relations[idx].folder;
	else if (idx == info->relation_count)
		part = info->relations[WRITES_PAPER].rows_folder;
	snprintf(path, sizeof(path), "%s/%s", folder, part ? part : "");
	return part ? path : NULL;
}

/** All files of two typed datasets must have the same bytes; nothing else may be in `other`. */
static inline void same_parts(const char *one, const char *other)
{
	struct rung_dataset *ds = NULL;
	char path[600];

	cr_assert_eq(rung_dataset_open(one, &ds), 0, "%s", rung_last_error());
	for (size_t i = 0; part_of(one, rung_dataset_info(ds), i); i++) {
		snprintf(path, sizeof(path), "%s", part_of(one, rung_dataset_info(ds), i));
		same_files(path, part_of(other, rung_dataset_info(ds), i));
		no_leftovers(part_of(other, rung_dataset_info(ds), i));
	}
	rung_dataset_close(ds);
	same_files(one, other);
}

#endif
