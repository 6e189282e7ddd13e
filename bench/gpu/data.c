/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows. One file holds bytes that are derived from their position. Each width divides it into
 * rows differently, and the row of a rank can be computed without reading anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define CHUNK_WORDS (UINT64_C(1) << 21)
#define EDGES_MAX   100000u

uint64_t bench_draw(uint64_t seed, uint64_t idx)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + (idx + 1) * UINT64_C(0xd1342543de82ef95);

	x = (x ^ x >> 32) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ x >> 29) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 32;
}

static void fill_words(uint64_t first, uint64_t count, uint64_t *words)
{
#pragma omp parallel for schedule(static)
	for (uint64_t i = 0; i < count; i++)
		words[i] = bench_draw(0, first + i);
}

static void put(FILE *file, const char *path, const void *data, uint64_t bytes)
{
	if (fwrite(data, 1, bytes, file) != bytes)
		bench_die("%s: cannot be written", path);
}

void bench_source_make(struct bench *b)
{
	uint64_t *words = bench_alloc(CHUNK_WORDS * 8);
	uint64_t total = b->size / 8 + 1;
	char path[600];
	FILE *file;

	snprintf(path, sizeof(path), "%s/source.bin", b->folder);
	file = fopen(path, "wb");
	if (!file)
		bench_die("%s: cannot be created", path);
	for (uint64_t first = 0; first < total; first += CHUNK_WORDS) {
		uint64_t count = total - first < CHUNK_WORDS ? total - first : CHUNK_WORDS;

		fill_words(first, count, words);
		put(file, path, words, count * 8);
	}
	if (fclose(file) != 0)
		bench_die("%s: cannot be written", path);
	free(words);
}

/* The graph serves only to order the rows. @return edges */
static uint64_t write_edges(const struct bench *b, const char *path, uint64_t vertices)
{
	uint64_t edges = vertices < EDGES_MAX / 4 ? vertices * 4 : EDGES_MAX;
	uint32_t *ids = bench_alloc(edges * 8);
	FILE *file = fopen(path, "wb");

	if (!file)
		bench_die("%s: cannot be created", path);
	for (uint64_t i = 0; i < 2 * edges; i++)
		ids[i] = (uint32_t)(bench_draw(b->seed, i) % vertices);
	put(file, path, ids, edges * 8);
	if (fclose(file) != 0)
		bench_die("%s: cannot be written", path);
	free(ids);
	return edges;
}

static void stage(const struct bench *b, const struct bench_data *data)
{
	char edges[600], graph[700], features[700];
	const char *specs[] = { graph };
	struct rung_stage_opts opts = RUNG_STAGE_OPTS_INIT;

	snprintf(edges, sizeof(edges), "%s/edges.bin", b->folder);
	snprintf(graph, sizeof(graph), "raw:%s,u32,2x%llu", edges,
	         (unsigned long long)write_edges(b, edges, data->row_count));
	/* rows of any width, from the beginning of one file */
	snprintf(features, sizeof(features), "raw:%s/source.bin,u8,%llux%u,0,trailing=ignore",
	         b->folder, (unsigned long long)data->row_count, data->row_bytes);
	opts.graph.specs = specs;
	opts.graph.spec_count = 1;
	opts.features = features;
	opts.out_dir = data->path;
	opts.score.method = RUNG_SCORE_DEGREE;
	bench_need(rung_stage(&opts, NULL), "staging");
}

void bench_data_open(const struct bench *b, uint32_t row_bytes, uint64_t row_count,
                     struct bench_data *data)
{
	uint64_t count;

	*data = (struct bench_data){ .row_bytes = row_bytes,
		                     .row_count = row_count ? row_count : b->size / row_bytes };
	if (data->row_count > b->size / row_bytes)
		bench_die("%llu rows of %u bytes: use a larger --size",
		          (unsigned long long)data->row_count, row_bytes);
	snprintf(data->path, sizeof(data->path), "%s/rows-%u", b->folder, row_bytes);
	stage(b, data);
	bench_need(rung_dataset_open(data->path, &data->ds), "opening the dataset");
	bench_need(rung_dataset_load_ids(data->ds, "vertex_of_rank", &count, &data->vertex_of_rank),
	           "loading the map");
	data->row_stride = rung_dataset_info(data->ds)->row_stride;
}

void bench_data_close(struct bench_data *data)
{
	const struct rung_dataset_file *file;
	char path[1200];

	for (size_t i = 0; (file = rung_dataset_file(data->ds, i)) != NULL; i++) {
		snprintf(path, sizeof(path), "%s/%s", data->path, file->name);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/manifest.json", data->path);
	unlink(path);
	if (rmdir(data->path) != 0)
		bench_die("%s: cannot be removed", data->path);
	rung_dataset_close(data->ds);
	rung_free(data->vertex_of_rank);
}

/* ---- the expected rows ---- */

void bench_row(const struct bench_data *data, uint64_t rank, void *row_out)
{
	uint64_t at = data->vertex_of_rank[rank] * data->row_bytes, done = 0;

	while (done < data->row_bytes) {
		uint64_t word = bench_draw(0, at / 8), skip = at % 8, bytes = 8 - skip;

		if (bytes > data->row_bytes - done)
			bytes = data->row_bytes - done;
		memcpy((char *)row_out + done, (const char *)&word + skip, bytes);
		done += bytes;
		at += bytes;
	}
}

uint64_t bench_wrong_rows(const struct bench_data *data, const uint64_t *ranks, uint64_t count,
                          const void *out, uint64_t stride)
{
	uint64_t wrong = 0;

#pragma omp parallel reduction(+ : wrong)
	{
		unsigned char *row = bench_alloc(data->row_bytes);

#pragma omp for schedule(static)
		for (uint64_t i = 0; i < count; i++) {
			bench_row(data, ranks[i], row);
			wrong += memcmp(row, (const char *)out + i * stride, data->row_bytes) != 0;
		}
		free(row);
	}
	return wrong;
}

void bench_verify_output(const struct bench_data *data, const uint64_t *ranks, uint64_t count,
                         const void *out, uint64_t stride)
{
	uint64_t bytes = (count - 1) * stride + data->row_bytes, wrong;
	void *host = bench_alloc(bytes);

	bench_cuda(cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost),
	           "copying the rows to the host");
	wrong = bench_wrong_rows(data, ranks, count, host, stride);
	free(host);
	if (wrong)
		bench_die("%llu of %llu rows of %u bytes are wrong", (unsigned long long)wrong,
		          (unsigned long long)count, data->row_bytes);
}

/* ---- ids ---- */

void bench_ranks(uint64_t seed, uint64_t first, uint64_t range, uint64_t *ranks, uint64_t count)
{
	uint64_t *all;

	if (count > range)
		bench_die("%llu distinct rows of %llu: use a larger --size",
		          (unsigned long long)count, (unsigned long long)range);
	all = bench_alloc(range * 8);
	for (uint64_t i = 0; i < range; i++)
		all[i] = first + i;
	/* Fisher and Yates, stopped after `count` draws */
	for (uint64_t i = 0; i < count; i++) {
		uint64_t k = i + bench_draw(seed, i) % (range - i), taken = all[k];

		all[k] = all[i];
		ranks[i] = taken;
	}
	free(all);
}

void bench_lists_to_device(struct bench_lists *lists)
{
	for (unsigned l = 0; l < BENCH_LISTS; l++) {
		lists->device[l] = bench_device_alloc(lists->count * 8 + 8);
		bench_upload(lists->device[l], lists->ranks[l], lists->count * 8);
	}
}

void bench_lists_make(const struct bench *b, uint64_t first, uint64_t range, uint64_t count,
                      struct bench_lists *lists)
{
	lists->count = count;
	for (unsigned l = 0; l < BENCH_LISTS; l++) {
		lists->ranks[l] = bench_alloc(count * 8);
		bench_ranks(b->seed * BENCH_LISTS + l, first, range, lists->ranks[l], count);
	}
	bench_lists_to_device(lists);
}

void bench_lists_free(struct bench_lists *lists)
{
	for (unsigned l = 0; l < BENCH_LISTS; l++) {
		free(lists->ranks[l]);
		bench_cuda(cudaFree(lists->device[l]), "freeing ids");
	}
}
