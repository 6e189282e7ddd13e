/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edges of a model's relations. Positions are divided into blocks. A first pass counts the
 * edges of each block; then every block has its place in the file, and threads write blocks in any
 * order.
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

enum relation { CITES, WRITES, AFFILIATIONS };

/* Vertices whose edges are computed one after the other: citing papers, papers, authors. */
static uint64_t position_count(const struct gen_job *job, enum relation relation)
{
	return relation == AFFILIATIONS ? job->typed->authors : job->graph.vertices;
}

static const struct gen_links *links_of(const struct gen_job *job, enum relation relation)
{
	return relation == WRITES ? &job->typed->writes : &job->typed->affiliations;
}

static uint64_t block_count(const struct gen_job *job, enum relation relation)
{
	return ((position_count(job, relation) - 1) >> BLOCK_BITS) + 1;
}

static uint64_t block_begin(uint64_t block)
{
	return block << BLOCK_BITS;
}

static uint64_t block_end(const struct gen_job *job, enum relation relation, uint64_t block)
{
	const uint64_t end = (block + 1) << BLOCK_BITS, count = position_count(job, relation);

	return end < count ? end : count;
}

static uint64_t edge_count(const struct gen_job *job, enum relation relation, uint64_t position)
{
	return relation == CITES ? gen_edge_count(&job->graph, position)
	                         : gen_link_count(links_of(job, relation), position);
}

/* Count the edges of each block. counts may be NULL. @return their sum */
static uint64_t count_edges(struct gen_job *job, enum relation relation, uint64_t *counts)
{
	const uint64_t blocks = block_count(job, relation);
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
		for (uint64_t v = block_begin(block); v < block_end(job, relation, block); v++)
			count += edge_count(job, relation, v);
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
		sum = count_edges(job, CITES, NULL);
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
		sum = count_edges(job, CITES, NULL);
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

static uint64_t target_of(const struct gen_job *job, enum relation relation, uint64_t position,
                          uint32_t slot, uint32_t attempt)
{
	if (relation == CITES)
		return gen_target(&job->graph, position, slot, attempt);
	return relation == WRITES
	               ? gen_author(job->typed, &job->graph, position, slot, attempt)
	               : gen_institution(job->typed, &job->graph, position, slot, attempt);
}

static uint64_t distinct_target(const struct gen_job *job, enum relation relation,
                                struct target_set *set, uint64_t position, uint32_t slot)
{
	const uint64_t count = relation == CITES ? position : links_of(job, relation)->targets;
	uint64_t target = 0;

	for (uint32_t attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		target = target_of(job, relation, position, slot, attempt);
		if (set_add(set, target))
			return target;
	}
	/* ends: a vertex has at most as many targets as there are */
	do
		target = (target + 1) % count;
	while (!set_add(set, target));
	return target;
}

/* A thread's buffers. */
struct buffers {
	uint32_t *ends[2]; /* rows 0 and 1 of the edge index */
	uint64_t count;
	struct target_set set;
};

/* `turned`: the other end of the edge is in row 0. */
static void add_edge(struct buffers *buffers, bool turned, uint64_t id, uint64_t target)
{
	buffers->ends[turned][buffers->count] = (uint32_t)id;
	buffers->ends[!turned][buffers->count] = (uint32_t)target;
	buffers->count++;
}

static void add_citations(const struct gen_job *job, uint64_t v, struct buffers *buffers)
{
	const struct gen_graph *graph = &job->graph;
	const uint32_t citations = gen_citations(graph, v);
	const uint32_t drawn = gen_is_mutual(graph, v) ? gen_degree(graph, v) : 0;
	const uint64_t id = gen_id(graph, v);
	const bool turned = graph->model->cited_first;

	set_clear(&buffers->set, citations);
	for (uint32_t slot = 0; slot < citations; slot++) {
		const uint64_t target =
			gen_id(graph, distinct_target(job, CITES, &buffers->set, v, slot));

		add_edge(buffers, turned, id, target);
		if (slot < drawn)
			add_edge(buffers, turned, target, id);
	}
}

/* Authors are in row 0. */
static void add_links(const struct gen_job *job, enum relation relation, uint64_t v,
                      struct buffers *buffers)
{
	const struct gen_typed *typed = job->typed;
	const bool turned = relation == WRITES;
	const struct gen_permutation *order =
		turned ? &typed->author_order : &typed->institution_order;
	const uint32_t count = gen_link_count(links_of(job, relation), v);
	const uint64_t id = turned ? gen_id(&job->graph, v) : gen_permute(&typed->author_order, v);

	set_clear(&buffers->set, count);
	for (uint32_t slot = 0; slot < count; slot++) {
		const uint64_t target = distinct_target(job, relation, &buffers->set, v, slot);

		add_edge(buffers, turned, id, gen_permute(order, target));
	}
}

static void fill_block(const struct gen_job *job, enum relation relation, uint64_t block,
                       struct buffers *buffers)
{
	buffers->count = 0;
	for (uint64_t v = block_begin(block); v < block_end(job, relation, block); v++) {
		if (relation == CITES)
			add_citations(job, v, buffers);
		else
			add_links(job, relation, v, buffers);
	}
}

static int write_block(const struct gen_file *file, uint64_t edges, uint64_t begin,
                       const struct buffers *buffers)
{
	int err = 0;

	for (unsigned row = 0; row < 2 && err == 0; row++)
		err = gen_file_write(file, (row * edges + begin) * sizeof(uint32_t),
		                     buffers->ends[row], buffers->count * sizeof(uint32_t));
	return err;
}

/* A set for the largest number of citations of a vertex: it has at most the product of the largest
 * factors, and cites an older vertex at most once.*/
static uint64_t set_bytes(const struct gen_job *job, enum relation relation)
{
	const struct gen_graph *graph = &job->graph;
	const uint64_t law = graph->degree_law[GEN_LAW - 1] / 65536 + 1;
	const uint64_t factor = graph->uneven_max / 65536 + 1;
	uint64_t most = law * factor + graph->extra_all + 2, size = 8;

	if (most > graph->vertices)
		most = graph->vertices;
	if (relation != CITES)
		most = gen_link_most(links_of(job, relation));
	while (size < 2 * most)
		size *= 2;
	return size * sizeof(uint64_t);
}

struct edge_pass {
	struct gen_job *job;
	enum relation relation;
	const struct gen_file *file;
	const uint64_t *begins; /* [blocks + 1] of each block in the file */
	uint64_t blocks, block_max, edges;
	int err; /* an errno value */
};

static void run_thread(struct edge_pass *pass)
{
	struct gen_job *job = pass->job;
	struct buffers buffers = { 0 };
	int err = 0;

	for (unsigned row = 0; row < 2; row++)
		buffers.ends[row] = malloc((pass->block_max + 1) * sizeof(uint32_t));
	buffers.set.slots = malloc(set_bytes(job, pass->relation));
	if (!buffers.ends[0] || !buffers.ends[1] || !buffers.set.slots)
		err = ENOMEM;
#pragma omp for schedule(dynamic, 1)
	for (uint64_t block = 0; block < pass->blocks; block++) {
		int stop;
#pragma omp atomic read
		stop = pass->err;
		if (!stop && !err) {
			fill_block(job, pass->relation, block, &buffers);
			err = write_block(pass->file, pass->edges, pass->begins[block], &buffers);
			if (!err && tool_progress_update(&job->progress, "edges",
			                                 pass->begins[block], pass->edges))
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
static int fit_memory(struct gen_job *job, enum relation relation, uint64_t block_edges)
{
	const uint64_t edges = 2 * (block_edges + 1) * sizeof(uint32_t) + set_bytes(job, relation);
	/* of the relation with the most blocks, so that the first one requests enough for all */
	const uint64_t blocks = block_count(
		job,
		job->typed && job->typed->authors > job->graph.vertices ? AFFILIATIONS : CITES);
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

static int write_relation(struct gen_job *job, enum relation relation, const char *name)
{
	struct edge_pass pass = {
		.job = job,
		.relation = relation,
		.blocks = block_count(job, relation),
		.edges = relation == CITES ? job->graph.edges : links_of(job, relation)->edges,
	};
	uint64_t *places = malloc((pass.blocks + 1) * sizeof(*places));
	struct gen_file *file;
	int code;

	if (!places)
		return tool_error(job->command, TOOL_FAILED, "no memory for %llu blocks of edges",
		                  (unsigned long long)pass.blocks);
	count_edges(job, relation, places);
	pass.block_max = tool_interrupted() ? 0 : places_of(places, pass.blocks);
	pass.begins = places;
	code = tool_interrupted() ? TOOL_FAILED : fit_memory(job, relation, pass.block_max);
	if (code == TOOL_DONE)
		code = gen_folder_array(&job->folder, name, RUNG_I32, 2, pass.edges, &file);
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

int gen_write_edges(struct gen_job *job)
{
	int code = write_relation(job, CITES, "edges.npy");

	if (job->typed && code == TOOL_DONE)
		code = write_relation(job, WRITES, "writes.npy");
	if (job->typed && code == TOOL_DONE)
		code = write_relation(job, AFFILIATIONS, "affiliated_with.npy");
	return code;
}
