/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races of edges in files: complete passes, passes ended by the callback or by an invalid id, and
 * sorting next to the writer thread. A plain program (exit 0 or 1), so that it runs under
 * ThreadSanitizer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "edges/edges.h"

#define VERTICES 5000u
#define EDGES    60000u
#define ROUNDS   40

static char path[] = "/tmp/rung-edges-race-XXXXXX";

struct sum {
	uint64_t edges, ids, end_at;
};

static int add(void *ctx, const struct rung__edge_chunk *chunk)
{
	struct sum *sum = ctx;

	for (uint64_t e = 0; e < chunk->edge_count; e++)
		sum->ids += ((const uint32_t *)chunk->indices)[e];
	sum->edges += chunk->edge_count;
	return sum->edges > sum->end_at;
}

static uint32_t *make_edges(void)
{
	uint32_t *ids = malloc(2 * EDGES * sizeof(*ids));
	uint64_t state = 1;

	for (uint32_t i = 0; ids && i < 2 * EDGES; i++)
		ids[i] = (uint32_t)(rung__mix64(state++) % VERTICES);
	return ids;
}

static int open_list(struct rung_edges **edges_out)
{
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	const char *specs[1];
	char spec[100];

	snprintf(spec, sizeof(spec), "raw:%s,u32,2x%u", path, EDGES);
	specs[0] = spec;
	opts.graph.specs = specs;
	opts.graph.spec_count = 1;
	opts.graph.vertex_count = VERTICES;
	opts.memory_bytes = 1 << 20;
	opts.chunk_bytes = 8192;
	opts.temp_dir = "/tmp";
	return rung_edges_open(&opts, edges_out);
}

static int check(const uint32_t *ids)
{
	uint64_t ids_sum = 0;

	for (uint32_t e = 0; e < EDGES; e++)
		ids_sum += ids[e];
	for (int round = 0; round < ROUNDS; round++) {
		struct sum all = { .end_at = EDGES }, some = { .end_at = (uint64_t)round * 1000 };
		struct rung_edges *edges;

		if (open_list(&edges) < 0)
			return -1;
		if (rung__edges_pass(edges, add, &some) != 1 ||
		    rung__edges_pass(edges, add, &all) != 0 || all.ids != ids_sum)
			return -1;
		/* now some ids are out of range, and indptr ends wrongly */
		edges->info.vertex_count = VERTICES - 1;
		if (rung__edges_pass(edges, add, &all) >= 0)
			return -1;
		rung_edges_close(edges);
	}
	return 0;
}

int main(void)
{
	uint32_t *ids = make_edges();
	const int fd = mkstemp(path);
	int rc = -1;

	if (ids && fd >= 0 && write(fd, ids, 2 * EDGES * sizeof(*ids)) == 2 * EDGES * sizeof(*ids))
		rc = check(ids);
	if (rc < 0)
		fprintf(stderr, "edges: %s\n", rung_last_error());
	unlink(path);
	close(fd);
	free(ids);
	return rc < 0;
}
