/* SPDX-License-Identifier: Apache-2.0 */
/** A staged dataset with all its sources, for the tests of comparing and repairing. */
#ifndef SUPPORT_VERIFY_FIXTURE_H
#define SUPPORT_VERIFY_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset.h"
#include "base/base.h"
#include "rung/rung.h"

#define VERTICES    600u
#define EDGES       5000u
#define ROW_BYTES   3001u /* 1.7 blocks of features; rows are unaligned and cross the boundary */
#define BLOCK_BYTES 1048576u

static char dir[256], ds_dir[300], path[4096], source[300], edges[300], labels[300], score[300],
	train[300], valid[300];
static const char *specs[] = { edges };
static struct rung_graph_opts graph = { .size = sizeof(graph), .specs = specs, .spec_count = 1 };
static const char *split_names[] = { "train", "valid" }, *split_specs[] = { train, valid };

static inline const char *file_at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", ds_dir, name);
	return path;
}

/* Write the score by original id, as rung score does. */
static inline void write_score(void)
{
	struct rung_dataset *ds;
	uint64_t count, *vertices;
	float by_vertex[VERTICES];
	void *by_rank;

	cr_assert_eq(rung_dataset_open(ds_dir, &ds), 0);
	cr_assert_eq(rung_dataset_load_array(ds, "score", NULL, &by_rank), 0);
	cr_assert_eq(rung_dataset_load_ids(ds, "vertex_of_rank", &count, &vertices), 0);
	for (uint64_t r = 0; r < count; r++)
		by_vertex[vertices[r]] = ((float *)by_rank)[r];
	cr_assert_eq(support_write_npy(score, "<f4", "(600,)", by_vertex, sizeof(by_vertex)), 0);
	rung_free(by_rank);
	rung_free(vertices);
	rung_dataset_close(ds);
}

static inline void setup(void)
{
	support_prefer_memory();
	cr_assert_eq(support_tempdir(dir, sizeof(dir)), 0);
	snprintf(ds_dir, sizeof(ds_dir), "%s/ds", dir);
	snprintf(source, sizeof(source), "%s/features.npy", dir);
	snprintf(edges, sizeof(edges), "%s/edges.npy", dir);
	snprintf(labels, sizeof(labels), "%s/labels.npy", dir);
	snprintf(score, sizeof(score), "%s/score.npy", dir);
	snprintf(train, sizeof(train), "%s/train.npy", dir);
	snprintf(valid, sizeof(valid), "%s/valid.npy", dir);
	cr_assert_eq(support_dataset(dir, VERTICES, EDGES, ROW_BYTES, 9), 0, "%s",
	             rung_last_error());
	write_score();
}

static inline void teardown(void)
{
	support_remove(dir);
}

/* Options with every source. */
static inline struct rung_verify_opts all_sources(void)
{
	struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;

	opts.source = source;
	opts.graph = &graph;
	opts.labels = labels;
	opts.score = score;
	opts.split_names = split_names;
	opts.split_specs = split_specs;
	opts.split_count = 2;
	opts.threads = 2;
	return opts;
}

static inline struct rung_verify_report verified(const struct rung_verify_opts *opts, int status)
{
	struct rung_verify_report report = { 0 };

	cr_assert_eq(rung_dataset_verify(ds_dir, opts, &report), status, "expected %d: %s", status,
	             rung_last_error());
	return report;
}

static inline void flip(const char *file_path, uint64_t at)
{
	cr_assert_eq(support_flip(file_path, at), 0, "%s: byte %d", file_path, (int)at);
}

#endif
