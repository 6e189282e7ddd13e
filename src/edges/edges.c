/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening graphs whose edges stay in files.
 *
 * Only a csc: source without `undirected` and `dedup` has its edges in the order of the lists and
 * can be read in place. Every other graph is sorted into two temporary files, which then serve as
 * its columns.
 */
#include <stdlib.h>

#include "edges/edges.h"
#include "edges/edges_sort.h"
#include "graph/graph.h"

#define MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)

/* Create the two files for the result of sorting. They disappear with their descriptors. */
static int open_results(const struct rung_edges_opts *opts, struct rung_edges *edges)
{
	int rc;

	edges->temp_name = rung__format("temporary file in %s", opts->temp_dir);
	if (!edges->temp_name)
		return rung__fail(RUNG_E_NOMEM, "%s", opts->temp_dir);
	edges->indptr = edges->indices =
		(struct rung__id_file){ .name = edges->temp_name, .file.fd = -1 };
	rc = rung__direct_temp(&edges->indptr.file, opts->temp_dir, edges->temp_name, 0);
	return rc < 0 ? rc
	              : rung__direct_temp(&edges->indices.file, opts->temp_dir, edges->temp_name,
	                                  0);
}

/* Sort the pairs of an input into the temporary files of `edges`, and set its sizes. */
static int sort(const struct rung_edges_opts *opts, struct rung__edge_input *input,
                struct rung_edges *edges)
{
	struct rung__sort_job job = {
		.memory_bytes = opts->memory_bytes,
		.temp_dir = opts->temp_dir,
		.dedup = opts->graph.dedup,
		.progress = opts->graph.progress,
		.progress_ctx = opts->graph.progress_ctx,
	};
	struct rung_edges_info *info = &edges->info;
	int rc = open_results(opts, edges);

	if (rc < 0)
		return rc;
	job.indptr.file = edges->indptr.file;
	job.indices.file = edges->indices.file;
	rc = rung__sort(input, &job);
	if (rc < 0)
		return rc;
	info->vertex_count = input->vertex_count;
	info->source_count = input->two_types ? input->source_count : 0;
	info->edge_count = job.edge_count;
	info->index_bytes = input->index_bytes;
	info->input_passes = input->passes;
	/* the buckets and the result */
	info->temp_bytes = job.temp_bytes + (info->vertex_count + 1) * sizeof(uint64_t) +
	                   info->edge_count * info->index_bytes;
	edges->indptr.dtype = RUNG_U64;
	edges->indptr.count = info->vertex_count + 1;
	edges->indices.dtype = info->index_bytes == 4 ? RUNG_U32 : RUNG_U64;
	edges->indices.count = info->edge_count;
	return 0;
}

/* The input's share of the memory is too small. The failure has the smallest share that works:
 * scale it to the smallest memory_bytes. */
static int fail_input(uint64_t memory_bytes)
{
	const uint64_t least =
		rung_last_error_min_bytes() *
		(memory_bytes / RUNG__MAX(rung__sort_input_bytes(memory_bytes), 1u) + 1);

	return rung__fail_min_bytes(least,
	                            "edges: memory_bytes is %" PRIu64
	                            "; sorting this graph, which is decompressed as it is read, "
	                            "needs at least %" PRIu64,
	                            memory_bytes, least);
}

/* Sort a graph of any spec. Sorting frees its buffers before those of the passes are allocated, so
 * both may use memory_bytes. */
static int open_sorted(const struct rung_edges_opts *opts, struct rung_edges *edges)
{
	struct rung__edge_input input;
	int rc = rung__sort_memory_check(opts->memory_bytes);

	if (rc < 0)
		return rc;
	rc = rung__edge_input_open(&input, &opts->graph,
	                           rung__sort_input_bytes(opts->memory_bytes));
	if (rc == 0)
		rc = sort(opts, &input, edges);
	else if (rung_last_error_min_bytes() > 0) /* the failure is a lack of memory_bytes */
		rc = fail_input(opts->memory_bytes);
	rung__edge_input_close(&input);
	return rc < 0 ? rc : rung__edges_plan_pass(edges, opts->memory_bytes, opts->chunk_bytes);
}

/* Copy the caller's options and fill in defaults. `graph` is a nested struct with its own size, so
 * it is copied like the outer one. */
static int copy_opts(struct rung_edges_opts *opts, const struct rung_edges_opts *caller_opts)
{
	struct rung_graph_opts graph = RUNG_GRAPH_OPTS_INIT;
	int rc = rung__opts_copy_in(opts, sizeof(*opts), caller_opts, "rung_edges_opts");

	if (rc == 0)
		rc = rung__opts_copy_in(&graph, sizeof(graph), &opts->graph, "rung_graph_opts");
	if (rc < 0)
		return rc;
	opts->graph = graph;
	if (opts->memory_bytes == 0)
		opts->memory_bytes = MEMORY_BYTES_DEFAULT;
	if (!opts->temp_dir)
		opts->temp_dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	return rung__graph_opts_check(&opts->graph);
}

/* Copy the folder, which rung__edges_turn() may need after the caller's string is gone. */
static int keep_temp_dir(const struct rung_edges_opts *opts, struct rung_edges **edges_out)
{
	(*edges_out)->temp_dir = rung__strdup(opts->temp_dir);
	if ((*edges_out)->temp_dir)
		return 0;
	rung_edges_close(*edges_out);
	return rung__fail(RUNG_E_NOMEM, "edges: no memory");
}

static bool is_columns(const char *spec)
{
	return rung__spec_is_csc(spec) || rung__spec_is_csr(spec);
}

int rung_edges_open(const struct rung_edges_opts *caller_opts, struct rung_edges **edges_out)
{
	struct rung_edges_opts opts = RUNG_EDGES_OPTS_INIT;
	const struct rung_graph_opts *graph = &opts.graph;
	struct rung_edges *edges;
	int rc = copy_opts(&opts, caller_opts);

	if (rc < 0)
		return rc;
	if (is_columns(rung__graph_first(graph)) && !rung__graph_by_row(graph) &&
	    !graph->undirected && !graph->dedup) {
		rc = rung__edges_open_columns(graph, opts.memory_bytes, opts.chunk_bytes, &edges);
	} else {
		edges = rung__edges_create();
		rc = !edges ? RUNG_E_NOMEM
		            : rung__edges_opened(edges, open_sorted(&opts, edges), &edges);
	}
	if (rc == 0)
		rc = keep_temp_dir(&opts, &edges);
	if (rc == 0)
		*edges_out = edges;
	return rc;
}

/* Sort the reversed edges of `edges`, which is read with its own buffers. */
static int open_turned(const struct rung_edges_opts *opts, struct rung_edges *edges,
                       struct rung_edges *turned)
{
	struct rung__edge_input input;
	int rc = rung__sort_memory_check(opts->memory_bytes);

	if (rc < 0)
		return rc;
	rc = rung__edge_input_open_turned(&input, edges);
	if (rc == 0)
		rc = sort(opts, &input, turned);
	rung__edge_input_close(&input);
	return rc < 0 ? rc : rung__edges_plan_pass(turned, opts->memory_bytes, 0);
}

int rung__edges_turn(struct rung_edges *edges, uint64_t memory_bytes,
                     struct rung_edges **turned_out)
{
	const struct rung_edges_opts opts = { .memory_bytes = memory_bytes,
		                              .temp_dir = edges->temp_dir };
	struct rung_edges *turned = rung__edges_create();

	return !turned ? RUNG_E_NOMEM
	               : rung__edges_opened(turned, open_turned(&opts, edges, turned), turned_out);
}
