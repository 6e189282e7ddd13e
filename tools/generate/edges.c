/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edges of a model. Positions are divided into blocks. A first pass counts the edges of each
 * block; then every block has its place in the file, and threads write blocks in any order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "interrupt.h"

#define BLOCK_BITS   13 /* positions per block, 2^13: a block has about a megabyte of edges */
#define ATTEMPTS_MAX 8  /* at targets that a vertex already cites; then an adjacent one is used */
#define ROUNDS_MAX   40
#define SET_FREE     UINT64_MAX
/* The search of the mean of the law. A mean that gives too many edges is lowered by 0.05 % more
 * than their ratio: rounding in the law's table would otherwise repeat a sum that is slightly too
 * large. One that gives too few is raised by 0.01 % less, so that the next sum is rather below. Up
 * to one missing edge per 50 vertices is close enough, because spreading them then changes the
 * citations of few vertices. The mean is raised in the first rounds only: a graph in which the
 * oldest vertices cannot cite enough never comes closer. */
#define MEAN_DOWN       0.9995
#define MEAN_UP         0.9999
#define MISSING_SHARE   50
#define MEAN_ROUNDS_MAX 6

static uint64_t block_count(const struct gen_graph *graph)
{
	return ((graph->vertices - 1) >> BLOCK_BITS) + 1;
}

static uint64_t block_begin(uint64_t block)
{
	return block << BLOCK_BITS;
}

static uint64_t block_end(const struct gen_graph *graph, uint64_t block)
{
	const uint64_t end = (block + 1) << BLOCK_BITS;

	return end < graph->vertices ? end : graph->vertices;
}

/* Count the edges of each block. counts may be NULL. @return their sum */
static uint64_t count_edges(struct gen_job *job, uint64_t *counts)
{
	const struct gen_graph *graph = &job->graph;
	const uint64_t blocks = block_count(graph);
	uint64_t sum = 0;
	int canceled = 0;

#pragma omp parallel for schedule(dynamic, 4) reduction(+ : sum) num_threads(job->threads)
	for (uint64_t block = 0; block < blocks; block++) {
		uint64_t count = 0;
		int stop;
#pragma omp atomic read
		stop = canceled;
		if (stop)
			continue;
		for (uint64_t v = block_begin(block); v < block_end(graph, block); v++)
			count += gen_edge_count(graph, v);
		if (counts)
			counts[block] = count;
		sum += count;
		if (tool_progress_update(&job->progress, "counting edges", block, blocks)) {
#pragma omp atomic write
			canceled = 1;
		}
	}
	return sum;
}

/* The counts exclude each other. With a scale both follow from it. */
static int refuse_counts(const struct gen_job *job)
{
	const unsigned long long vertices = job->graph.vertices, edges = job->graph.edges;

	if (job->scale)
		return tool_error(job->command, TOOL_USAGE,
		                  "--scale: 1/%llu leaves %llu vertices, too few for %llu edges; "
		                  "give a smaller N",
		                  (unsigned long long)job->scale, vertices, edges);
	return tool_error(job->command, TOOL_USAGE,
	                  "--vertices: %llu are too few for %llu edges; give more, or fewer "
	                  "--edges",
	                  vertices, edges);
}

/*
 * The mean of the law is lowered until it gives slightly fewer edges than requested. The remaining
 * ones are spread evenly over the vertices. The first vertices cannot cite more than there are
 * older ones, so the number of added edges is corrected a few times.
 */
int gen_complete(struct gen_job *job)
{
	struct gen_graph *graph = &job->graph;
	const uint64_t missing_max = graph->vertices / MISSING_SHARE;
	double mean = (double)graph->edges / (double)graph->vertices / (1 + graph->params.mutual);
	uint64_t sum = 0, extra;

	for (int round = 0; round < ROUNDS_MAX && !tool_interrupted(); round++) {
		graph->extra_all = graph->extra_some = 0;
		gen_graph_set_mean(graph, mean);
		sum = count_edges(job, NULL);
		if (sum > graph->edges)
			mean *= MEAN_DOWN * (double)graph->edges / (double)sum;
		else if (graph->edges - sum > missing_max && round < MEAN_ROUNDS_MAX)
			mean *= MEAN_UP * (double)graph->edges / (double)(sum ? sum : 1);
		else
			break;
	}
	extra = graph->edges > sum ? graph->edges - sum : 0;
	for (int round = 0; round < ROUNDS_MAX && sum != graph->edges && !tool_interrupted();
	     round++) {
		graph->extra_all = extra / graph->vertices;
		graph->extra_some = extra % graph->vertices;
		sum = count_edges(job, NULL);
		extra += graph->edges - sum; /* also if negative: unsigned arithmetic wraps */
	}
	if (sum != graph->edges && !tool_interrupted())
		return refuse_counts(job);
	return TOOL_DONE;
}

/* ---- the edges of a vertex ---- */

/* Targets of a vertex as a set: open addressing in a table that is at most half full. */
struct target_set {
	uint64_t *slots;
	uint64_t mask;
};

/* @return false if the target is in the set already */
static bool set_add(struct target_set *set, uint64_t target)
{
	uint64_t at = rung__mix64(target) & set->mask;

	while (set->slots[at] != SET_FREE) {
		if (set->slots[at] == target)
			return false;
		at = (at + 1) & set->mask;
	}
	set->slots[at] = target;
	return true;
}

static void set_clear(struct target_set *set, uint32_t citations)
{
	uint64_t size = 8;

	while (size < (uint64_t)citations * 2)
		size *= 2;
	set->mask = size - 1;
	memset(set->slots, 0xff, size * sizeof(*set->slots));
}

static uint64_t distinct_target(const struct gen_graph *graph, struct target_set *set,
                                uint64_t position, uint32_t slot)
{
	uint64_t target = 0;

	for (uint32_t attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		target = gen_target(graph, position, slot, attempt);
		if (set_add(set, target))
			return target;
	}
	/* ends: a vertex has at most as many citations as there are older vertices */
	do
		target = (target + 1) % position;
	while (!set_add(set, target));
	return target;
}

/* A thread's buffers. */
struct buffers {
	uint32_t *ends[2]; /* rows 0 and 1 of the edge index */
	uint64_t count;
	struct target_set set;
};

static void add_edge(const struct gen_graph *graph, struct buffers *buffers, uint64_t citing,
                     uint64_t cited)
{
	const bool turned = graph->model->cited_first;

	buffers->ends[turned][buffers->count] = (uint32_t)citing;
	buffers->ends[!turned][buffers->count] = (uint32_t)cited;
	buffers->count++;
}

static void fill_block(const struct gen_graph *graph, uint64_t block, struct buffers *buffers)
{
	buffers->count = 0;
	for (uint64_t v = block_begin(block); v < block_end(graph, block); v++) {
		const uint32_t citations = gen_citations(graph, v);
		const uint32_t drawn = gen_is_mutual(graph, v) ? gen_degree(graph, v) : 0;
		const uint64_t id = gen_id(graph, v);

		set_clear(&buffers->set, citations);
		for (uint32_t slot = 0; slot < citations; slot++) {
			const uint64_t target =
				gen_id(graph, distinct_target(graph, &buffers->set, v, slot));

			add_edge(graph, buffers, id, target);
			if (slot < drawn)
				add_edge(graph, buffers, target, id);
		}
	}
}

static int write_block(const struct gen_graph *graph, const struct gen_file *file, uint64_t begin,
                       const struct buffers *buffers)
{
	int err = 0;

	for (unsigned row = 0; row < 2 && err == 0; row++)
		err = gen_file_write(file, (row * graph->edges + begin) * sizeof(uint32_t),
		                     buffers->ends[row], buffers->count * sizeof(uint32_t));
	return err;
}

/* A set for the largest number of citations of a vertex: it has at most the product of the largest
 * factors, and cites an older vertex at most once. */
static uint64_t set_bytes(const struct gen_graph *graph)
{
	const uint64_t law = graph->degree_law[GEN_LAW - 1] / 65536 + 1;
	const uint64_t factor = graph->uneven_max / 65536 + 1;
	uint64_t most = law * factor + graph->extra_all + 2, size = 8;

	if (most > graph->vertices)
		most = graph->vertices;
	while (size < 2 * most)
		size *= 2;
	return size * sizeof(uint64_t);
}

struct edge_pass {
	struct gen_job *job;
	const struct gen_file *file;
	const uint64_t *begins; /* [blocks + 1] of each block in the file */
	uint64_t blocks, block_max;
	int err; /* an errno value */
};

static void run_thread(struct edge_pass *pass)
{
	struct gen_job *job = pass->job;
	struct buffers buffers = { 0 };
	int err = 0;

	for (unsigned row = 0; row < 2; row++)
		buffers.ends[row] = malloc((pass->block_max + 1) * sizeof(uint32_t));
	buffers.set.slots = malloc(set_bytes(&job->graph));
	if (!buffers.ends[0] || !buffers.ends[1] || !buffers.set.slots)
		err = ENOMEM;
#pragma omp for schedule(dynamic, 1)
	for (uint64_t block = 0; block < pass->blocks; block++) {
		int stop;
#pragma omp atomic read
		stop = pass->err;
		if (!stop && !err) {
			fill_block(&job->graph, block, &buffers);
			err = write_block(&job->graph, pass->file, pass->begins[block], &buffers);
			if (!err && tool_progress_update(&job->progress, "edges",
			                                 pass->begins[block], job->graph.edges))
				err = ECANCELED;
		}
		if (err) {
#pragma omp atomic write
			pass->err = err;
		}
	}
	free(buffers.ends[0]);
	free(buffers.ends[1]);
	free(buffers.set.slots);
}

/* Turn counts into places, in the order of the blocks. @return the largest count */
static uint64_t places_of(uint64_t *counts, uint64_t blocks)
{
	uint64_t sum = 0, largest = 0;

	for (uint64_t block = 0; block < blocks; block++) {
		const uint64_t count = counts[block];

		counts[block] = sum;
		sum += count;
		largest = count > largest ? count : largest;
	}
	counts[blocks] = sum;
	return largest;
}

/* Use fewer threads if their buffers would exceed the budget. @return an exit code */
static int fit_memory(struct gen_job *job, uint64_t block_edges, uint64_t blocks)
{
	const uint64_t edges = 2 * (block_edges + 1) * sizeof(uint32_t) + set_bytes(&job->graph);
	const uint64_t rows = gen_rows_bytes(job), thread = edges > rows ? edges : rows;
	const uint64_t shared = GEN_SHARED_BYTES + (blocks + 1) * sizeof(uint64_t);

	if (job->memory_bytes < shared + thread)
		return tool_error(job->command, TOOL_USAGE,
		                  "--memory: %llu bytes are not enough; give at least %llu%s",
		                  (unsigned long long)job->memory_bytes,
		                  (unsigned long long)(shared + thread),
		                  tool_size_hint(job->memory_bytes));
	while (shared + job->threads * thread > job->memory_bytes)
		job->threads--;
	return TOOL_DONE;
}

int gen_write_edges(struct gen_job *job)
{
	struct edge_pass pass = { .job = job, .blocks = block_count(&job->graph) };
	uint64_t *places = malloc((pass.blocks + 1) * sizeof(*places));
	struct gen_file *file;
	int code;

	if (!places)
		return tool_error(job->command, TOOL_FAILED, "no memory for %llu blocks of edges",
		                  (unsigned long long)pass.blocks);
	count_edges(job, places);
	pass.block_max = tool_interrupted() ? 0 : places_of(places, pass.blocks);
	pass.begins = places;
	code = tool_interrupted() ? TOOL_FAILED : fit_memory(job, pass.block_max, pass.blocks);
	if (code == TOOL_DONE)
		code = gen_folder_array(&job->folder, "edges.npy", RUNG_I32, 2, job->graph.edges,
		                        &file);
	if (code == TOOL_DONE) {
		pass.file = file;
#pragma omp parallel num_threads(job->threads)
		run_thread(&pass);
		if (pass.err)
			code = gen_folder_refuse(&job->folder, file, pass.err);
	}
	free(places);
	return code;
}
