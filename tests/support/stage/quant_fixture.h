/* SPDX-License-Identifier: Apache-2.0 */
/** Datasets with quantized rows, and stores on them. Included after "store_fixture.h". */
#ifndef SUPPORT_QUANT_FIXTURE_H
#define SUPPORT_QUANT_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "dataset.h"
#include "quant/quant.h"
#include "quant_rows.h"

#define QUANT_EDGES(vertices) ((vertices)*4)

struct quant_case {
	enum rung_quant_format format;
	enum rung_quant_scales scales;
	uint64_t vertices, columns;
	enum rung_stage_pad pad;
	uint32_t file_count; /* 0: 1 */
};

/** Write the sources in `dir`, and stage them into `dir`/ds. */
static inline void quant_stage(const char *dir, const struct quant_case *c)
{
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;
	char edges[320], features[320], out[320];
	const char *specs[] = { edges };

	cr_assert_eq(support_sources(dir, c->vertices, QUANT_EDGES(c->vertices), 1, 5), 0);
	quant_write_features(dir, c->vertices, c->columns);
	snprintf(edges, sizeof(edges), "%s/edges.npy", dir);
	snprintf(features, sizeof(features), "%s/features.npy", dir);
	snprintf(out, sizeof(out), "%s/ds", dir);
	opts.graph.specs = specs;
	opts.graph.spec_count = 1;
	opts.features = features;
	opts.out_dir = out;
	opts.score.method = RUNG_SCORE_DEGREE;
	opts.quantize = c->format;
	opts.quant_scales = c->scales;
	opts.pad = c->pad;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	if (c->file_count > 1)
		cr_assert_eq(support_deal(out, c->file_count, c->vertices / 100 + 1), 0);
}

/** Open a dataset of this kind and a store on it, whose files are below f->parent. Close it with
 * fixture_close(). @param host_bytes  budget as in fixture_open() */
static inline void quant_open(struct store_fixture *f, const struct quant_case *c,
                              uint64_t host_bytes, const struct rung_store_opts *opts)
{
	const char *tmp = getenv("TMPDIR");
	struct rung_plan_opts plan_opts;
	uint64_t count;
	int gpus[3];

	*f = (struct store_fixture){ .vertices = c->vertices };
	snprintf(f->parent, sizeof(f->parent), "%s/rung-store-XXXXXX", tmp ? tmp : "/var/tmp");
	cr_assert_not_null(mkdtemp(f->parent));
	snprintf(f->dir, sizeof(f->dir), "%s/ds", f->parent);
	quant_stage(f->parent, c);
	cr_assert_eq(rung_dataset_open(f->dir, &f->ds), 0, "%s", rung_last_error());
	f->row_bytes = rung_dataset_info(f->ds)->stored_row_bytes;
	cr_assert_eq(rung_dataset_load_ids(f->ds, "vertex_of_rank", &count, &f->vertex_of_rank), 0);
	plan_opts = fixture_plan_opts(c->vertices * f->row_bytes, host_bytes, gpus);
	cr_assert_eq(rung_plan_create(f->ds, &plan_opts, &f->plan), 0, "%s", rung_last_error());
	cr_assert_eq(rung__store_open_over(f->ds, f->plan, opts, &rung__file_reader, &f->store), 0,
	             "%s", rung_last_error());
}

/** Check gathered rows against their values, encoded and decoded without vector instructions. */
static inline void quant_check(const struct store_fixture *f, const uint64_t *ranks, uint64_t count,
                               const unsigned char *out, size_t stride)
{
	const struct rung_dataset_info *info = rung_dataset_info(f->ds);
	const struct rung_quantization *q = &info->quantization;
	const struct rung__quant quant = { q->format, q->scales, q->columns };
	struct rung_store_info store_info = { .size = sizeof(store_info) };
	struct rung__row_form form;
	unsigned char *got, *row = malloc(q->row_bytes), *decoded;
	float *values = malloc(q->columns * sizeof(float));
	uint64_t bytes;

	cr_assert_eq(rung_store_info(f->store, &store_info), 0);
	form = rung__row_form_decode_with(RUNG__QUANT_SCALAR, &quant, q->column_scales,
	                                  store_info.features.dtype);
	if (store_info.features.dtype == RUNG_U8)
		form = rung__row_form_copy(RUNG_U8, q->row_bytes);
	cr_assert_eq(store_info.features.row_bytes, form.out_bytes);
	bytes = count ? (count - 1) * stride + form.out_bytes : 0;
	got = malloc(bytes + 1);
	decoded = malloc(form.out_bytes);
	cr_assert_eq(rung_store_copy(f->store, got, out, bytes), 0);
	for (uint64_t i = 0; i < count; i++) {
		for (uint64_t c = 0; c < q->columns; c++)
			values[c] = quant_value(f->vertex_of_rank[ranks[i]], c);
		cr_assert(rung__quant_encode(&quant, q->column_scales, values, row));
		if (form.decode)
			form.decode(&form, decoded, row, false, row);
		else
			memcpy(decoded, row, form.out_bytes);
		cr_assert_eq(memcmp(decoded, got + i * stride, form.out_bytes), 0,
		             "row %llu, rank %llu", (unsigned long long)i,
		             (unsigned long long)ranks[i]);
	}
	free(values);
	free(row);
	free(decoded);
	free(got);
}

/** Gather random ranks twice, so that cached rows are served as well, and check them. */
static inline void quant_gather(struct store_fixture *f, uint64_t count, uint64_t seed,
                                size_t more_stride)
{
	struct rung_store_info info = { .size = sizeof(info) };
	uint64_t *ranks = malloc(count * sizeof(*ranks));

	cr_assert_eq(rung_store_info(f->store, &info), 0);
	for (unsigned turn = 0; turn < 2; turn++) {
		const size_t stride = info.features.row_bytes + more_stride;
		struct rung_ids ids;
		unsigned char *out;

		fixture_random_ids(f, ranks, count, seed);
		ids = fixture_ids(f, ranks, count, RUNG_U64, RUNG_RANKS);
		out = fixture_memory(f, count * stride);
		cr_assert_eq(rung_prefetch(f->store, &(struct rung_ids){ ranks, count, RUNG_U64,
		                                                         RUNG_RANKS }),
		             0, "%s", rung_last_error());
		cr_assert_eq(rung_gather(f->store, &ids, out, stride), 0, "%s", rung_last_error());
		quant_check(f, ranks, count, out, stride);
		fixture_free_memories(f);
	}
	free(ranks);
}

#endif
