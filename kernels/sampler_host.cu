/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host side of the sampler except launches: the size and layout of a batch's memory, the checks
 * of a sampler, and the messages for reports.
 *
 * All sizes come from the caller or from an untrusted graph, so sums and products are checked for
 * overflow.
 */
#include "sampler_step.h"

/* limit of vertices in a batch: positions have 4 bytes, and one value means none
 * (src/sample/sampler.c) */
#define POSITIONS_MAX UINT64_C(0xffffffff)

static int check_fanouts(const uint32_t *fanouts, uint32_t hop_count)
{
	if (hop_count < 1 || hop_count > RUNG_HOPS_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: %u hops are out of range; use 1 to %d",
		                  (unsigned)hop_count, RUNG_HOPS_MAX);
	for (uint32_t hop = 0; hop < hop_count; hop++)
		if (fanouts[hop] == 0)
			return rung__fail(
				RUNG_E_INVAL,
				"sampler kernels: the fanout of hop %u is 0; use at least 1",
				(unsigned)hop);
	return 0;
}

extern "C" int rung__cuda_sample_capacity_max(uint64_t vertex_count, uint64_t edge_count,
                                              const uint32_t *fanouts, uint32_t hop_count,
                                              uint64_t seed_count_max,
                                              struct rung__cuda_sample_capacity *capacity_out)
{
	const uint64_t vertices_max = RUNG__MIN(vertex_count, POSITIONS_MAX);
	struct rung__cuda_sample_capacity capacity = {};
	int rc = check_fanouts(fanouts, hop_count);

	if (rc < 0)
		return rc;
	if (seed_count_max < 1 || seed_count_max > vertices_max)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: batches of %" PRIu64
		                  " seeds are out of range; use 1 to %" PRIu64,
		                  seed_count_max, vertices_max);
	/* the worst case of a hop is that every draw finds a new vertex */
	capacity.vertex_counts[0] = seed_count_max;
	for (uint32_t hop = 0; hop < hop_count; hop++) {
		const uint64_t count = capacity.vertex_counts[hop];
		uint64_t edges, edges_max, vertices;

		/* UINT32_MAX: all neighbours */
		if (fanouts[hop] == UINT32_MAX || !rung__mul(count, fanouts[hop], &edges))
			edges = edge_count;
		/* each edge of the graph is in one list, and each vertex occurs once in a hop,
		 * except repeated seeds; no overflow of the product */
		if (!rung__add(edge_count, (seed_count_max - 1) * fanouts[hop], &edges_max))
			edges_max = UINT64_MAX;
		capacity.edge_counts[hop] = RUNG__MIN(edges, edges_max);
		if (!rung__add(count, capacity.edge_counts[hop], &vertices))
			vertices = POSITIONS_MAX;
		capacity.vertex_counts[hop + 1] = RUNG__MIN(
			RUNG__MIN(vertices, vertices_max + seed_count_max - 1), POSITIONS_MAX);
	}
	*capacity_out = capacity;
	return 0;
}

/* ---- checks ---- */

/* Check that every line is in a view, because kernels do not check it (array_item()). */
static int check_array(const char *who, const struct rung__cuda_array *array, uint64_t item_count)
{
	const uint64_t lines = rung__cuda_lines(item_count, array->item_bytes);
	uint64_t lines_end = 0; /* the end of the views so far */
	int rc = check_views(who, array->views, array->view_count, lines, 128);

	if (rc < 0)
		return rc;
	for (uint32_t v = 0; v < array->view_count; v++) {
		const struct rung__cuda_view *view = &array->views[v];
		const uint64_t rows = view->rank_end - lines_end;

		/* items are read with aligned loads of item_bytes */
		if (rows > 0 && view_ored(view, rows) % array->item_bytes != 0)
			return rung__fail(RUNG_E_INVAL,
			                  "%s: view %u has a base or stride that is not a multiple "
			                  "of %u bytes",
			                  who, (unsigned)v, (unsigned)array->item_bytes);
		lines_end = view->rank_end;
	}
	if (lines_end != lines)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: lines from %" PRIu64 " to %" PRIu64
		                  " are not covered by a view",
		                  who, lines_end, lines);
	return 0;
}

static int check_graph(const struct rung__cuda_graph *graph)
{
	int rc;

	/* bounded so that sizes in bytes do not overflow */
	if (graph->vertex_count < 1 || graph->vertex_count > UINT64_MAX / 16 ||
	    graph->edge_count > UINT64_MAX / 16)
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: a graph of %" PRIu64 " vertices and %" PRIu64
		                  " edges is out of range; use at least 1 vertex, and fewer than "
		                  "2^60 of each",
		                  graph->vertex_count, graph->edge_count);
	if (graph->indptr.item_bytes != 8 ||
	    (graph->indices.item_bytes != 4 && graph->indices.item_bytes != 8))
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: items of %u bytes in indptr and %u in indices; "
		                  "use 8 in indptr, and 4 or 8 in indices",
		                  (unsigned)graph->indptr.item_bytes,
		                  (unsigned)graph->indices.item_bytes);
	rc = check_array("sampler kernels: indptr", &graph->indptr, graph->vertex_count + 1);
	if (rc == 0)
		rc = check_array("sampler kernels: indices", &graph->indices, graph->edge_count);
	return rc;
}

/* Vertices never become fewer from hop to hop, because the block of a hop keeps those before it. */
static int check_capacity(const struct rung__cuda_sampler *s)
{
	const struct rung__cuda_sample_capacity *capacity = &s->capacity;

	for (uint32_t hop = 0; hop <= s->hop_count; hop++) {
		const uint64_t least = hop ? capacity->vertex_counts[hop - 1] : 1;

		if (capacity->vertex_counts[hop] < least ||
		    capacity->vertex_counts[hop] > POSITIONS_MAX)
			return rung__fail(RUNG_E_INVAL,
			                  "sampler kernels: a capacity of %" PRIu64
			                  " vertices before hop %u is out of range; use %" PRIu64
			                  " to %" PRIu64,
			                  capacity->vertex_counts[hop], (unsigned)hop, least,
			                  POSITIONS_MAX);
		if (hop < s->hop_count && capacity->edge_counts[hop] > UINT64_MAX / 64)
			return rung__fail(RUNG_E_INVAL,
			                  "sampler kernels: a capacity of %" PRIu64
			                  " edges for hop %u is out of range; use fewer than 2^58",
			                  capacity->edge_counts[hop], (unsigned)hop);
	}
	return 0;
}

extern "C" int rung__cuda_sampler_check(const struct rung__cuda_sampler *sampler)
{
	int rc = check_fanouts(sampler->fanouts, sampler->hop_count);

	if (rc == 0)
		rc = check_graph(&sampler->graph);
	if (rc == 0)
		rc = check_capacity(sampler);
	return rc;
}

/* ---- workspace ---- */

/* The number of slots of the table, a power of two. At least half of the slots are free when the
 * table holds all possible ids, so that a search always ends. @return false on overflow */
static bool table_slots(const struct rung__cuda_sampler *s, uint64_t *slots_out)
{
	uint64_t ids = s->capacity.vertex_counts[0], slots = 64;

	for (uint32_t hop = 0; hop < s->hop_count; hop++) {
		/* a hop with more edges than the capacity ends the batch before any edge is looked
		 * up, whereas too many vertices are detected only after they are in the table */
		const uint64_t held = s->capacity.vertex_counts[hop] + s->capacity.edge_counts[hop];

		ids = RUNG__MAX(ids, RUNG__MIN(held, s->graph.vertex_count));
	}
	while (slots / 2 < ids)
		if (!rung__mul(slots, 2, &slots))
			return false;
	*slots_out = slots;
	return true;
}

/* Appends a part to the workspace, aligned to SAMPLE_ALIGN. If workspace is NULL, only `used`
 * changes.
 * @return false on overflow */
template <class Part>
static bool add_part(void *workspace, uint64_t *used, uint64_t count, uint64_t item_bytes,
                     Part **part_out)
{
	uint64_t bytes;

	*part_out = (Part *)((uintptr_t)workspace + *used);
	if (!rung__mul(count, item_bytes, &bytes) || !rung__add(bytes, SAMPLE_ALIGN - 1, &bytes))
		return false;
	return rung__add(*used, bytes / SAMPLE_ALIGN * SAMPLE_ALIGN, used);
}

extern "C" int rung__cuda_sample_layout(const struct rung__cuda_sampler *s, void *at,
                                        struct sample_step *step, uint64_t *bytes)
{
	const uint64_t dst_max = s->capacity.vertex_counts[s->hop_count - 1];
	/* one workspace serves all hops, so each part has the size of the largest one */
	uint64_t edges_max = 0, set_edges_max = 0, sums_max, slots = 0;

	for (uint32_t hop = 0; hop < s->hop_count; hop++) {
		edges_max = RUNG__MAX(edges_max, s->capacity.edge_counts[hop]);
		if (sample_needs_sets(s->fanouts[hop]))
			set_edges_max = RUNG__MAX(set_edges_max, s->capacity.edge_counts[hop]);
	}
	/* tiles of vertices and tiles of edges use `sums` in turn */
	sums_max = RUNG__MAX(edges_max, dst_max) / SCAN_TILE + 1;
	*bytes = 0;
	if (!table_slots(s, &slots) ||
	    !add_part(at, bytes, 1, sizeof(*step->state), &step->state) ||
	    !add_part(at, bytes, dst_max, 8, &step->begins) ||
	    !add_part(at, bytes, dst_max, 8, &step->degrees) ||
	    !add_part(at, bytes, edges_max, 8, &step->where) ||
	    !add_part(at, bytes, sums_max, 8, &step->sums) ||
	    !add_part(at, bytes, edges_max / 32 + 1, 4, &step->flags) ||
	    !add_part(at, bytes, set_edges_max, 16, &step->sets) ||
	    !add_part(at, bytes, slots, 16, &step->table.slots))
		return rung__fail(RUNG_E_INVAL,
		                  "sampler kernels: a capacity of %" PRIu64
		                  " edges per hop is too large for 64-bit sizes; use a smaller one",
		                  edges_max);
	step->table.mask = slots - 1; /* slots is a power of two */
	return 0;
}

extern "C" int rung__cuda_sampler_workspace(const struct rung__cuda_sampler *sampler,
                                            uint64_t *bytes_out)
{
	struct sample_step step;
	uint64_t bytes;
	int rc = rung__cuda_sampler_check(sampler);

	if (rc == 0)
		rc = rung__cuda_sample_layout(sampler, NULL, &step, &bytes);
	if (rc == 0)
		*bytes_out = bytes;
	return rc;
}

/* ---- report ---- */

/* Report a batch that exceeds its capacity. */
static int many(const char *what, uint64_t needed, uint64_t capacity, uint64_t hop)
{
	return rung__fail(RUNG_E_NOMEM,
	                  "sampling: hop %" PRIu64 " has %s%" PRIu64
	                  " %s, but the memory has a capacity of %" PRIu64
	                  "; use fewer seeds, smaller fanouts or a larger capacity",
	                  hop, needed == UINT64_MAX ? "at least " : "", needed, what, capacity);
}

extern "C" int rung__cuda_sample_status(const struct rung__cuda_sampler *sampler,
                                        const struct rung__cuda_sample_report *report)
{
	/* written by the GPU, so check that it does not index beyond the arrays */
	const uint64_t hop = RUNG__MIN(report->hop, (uint64_t)RUNG_HOPS_MAX - 1),
		       index = report->index, value = report->value;

	switch (report->outcome) {
	case RUNG__CUDA_SAMPLE_DONE:
		return 0;
	case RUNG__CUDA_SAMPLE_BAD_SEED:
		return rung__fail(RUNG_E_RANGE,
		                  "sampling: seed %" PRIu64 " is %" PRIu64
		                  ", not below the vertex count %" PRIu64 "; correct the seeds",
		                  index, value, sampler->graph.vertex_count);
	case RUNG__CUDA_SAMPLE_MANY_EDGES:
		return many("edges", report->edge_counts[hop], sampler->capacity.edge_counts[hop],
		            hop);
	case RUNG__CUDA_SAMPLE_MANY_VERTICES:
		return many("vertices", report->vertex_counts[hop + 1],
		            sampler->capacity.vertex_counts[hop + 1], hop);
	case RUNG__CUDA_SAMPLE_BAD_LIST:
		return rung__fail(RUNG_E_FORMAT,
		                  "sampling: indptr[%" PRIu64 "] is %" PRIu64
		                  " and the next entry %" PRIu64
		                  ", which do not ascend within %" PRIu64
		                  " edges: the graph in memory is damaged",
		                  index, value, report->other, sampler->graph.edge_count);
	case RUNG__CUDA_SAMPLE_BAD_VERTEX:
		return rung__fail(RUNG_E_RANGE,
		                  "sampling: indices[%" PRIu64 "] is %" PRIu64
		                  ", not below the vertex count %" PRIu64
		                  ": the graph in memory is damaged",
		                  index, value, sampler->graph.vertex_count);
	default:
		return rung__fail(RUNG_E_IO,
		                  "sampling: the GPU has not written a report of the batch");
	}
}
