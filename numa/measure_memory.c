/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates memory on a node. Threads of the node touch it, and its location is queried, because
 * the kernel silently allocates on another node if this one is full.
 *
 * rung__measure_each() is the loop of the CPU x memory matrices. Memory is allocated once per
 * memory node and used by the CPUs of all nodes.
 */
#include <math.h>
#include <sys/mman.h>

#include "measure.h"
#include "placement/placement.h"

/* least share of pages on the node: with fewer the values are not those of the node */
#define SHARE_MIN 0.95

const char *rung__measure_no_cpu(struct rung__measuring *m, size_t idx)
{
	const struct rung__measure_node *node = &m->nodes[idx];

	if (node->core_count)
		return NULL;
	if (!node->node->has_cpu)
		return rung__measure_text(m, "node %" PRIu32 " has no CPUs", node->node->node);
	return rung__measure_text(m, "this process is not allowed to use any CPU of node %" PRIu32,
	                          node->node->node);
}

const char *rung__measure_no_memory(struct rung__measuring *m, size_t idx, uint64_t bytes)
{
	const struct rung__measure_node *node = &m->nodes[idx];
	const uint64_t available = rung__measure_available(m, idx);
	size_t with_memory = 0;

	if (!node->node->has_memory)
		return rung__measure_text(m, "node %" PRIu32 " has no memory", node->node->node);
	if (node->node->memory_allowed == 0)
		return rung__measure_text(
			m, "this process is not allowed to allocate memory on node %" PRIu32,
			node->node->node);
	for (size_t i = 0; i < m->node_count; i++)
		with_memory += m->nodes[i].node->has_memory != 0;
	/* If the node has cores, binding is not needed: the kernel places a page on the node of the
	 * thread that touches it first. */
	if (with_memory > 1 && node->core_count == 0 && !m->policy.can_bind)
		return rung__measure_text(m, "memory cannot be placed on node %" PRIu32 ": %s",
		                          node->node->node, m->policy.bind_why);
	if (bytes > available)
		return rung__measure_text(m,
		                          "%" PRIu64 " MiB do not fit into the %" PRIu64
		                          " MiB that can be allocated on node %" PRIu32,
		                          bytes >> 20, available >> 20, node->node->node);
	return NULL;
}

uint64_t rung__measure_available(const struct rung__measuring *m, size_t idx)
{
	struct rung_topology_info info = { .size = sizeof(info) };
	uint64_t free_bytes = m->nodes[idx].node->free_bytes;

	rung_topology_info(m->topology, &info);
	/* RUNG_UNKNOWN is the largest value, so the minimum ignores it. info.available_bytes
	 * respects the limits of control groups. */
	free_bytes = RUNG__MIN(free_bytes, info.available_bytes);
	if (free_bytes == RUNG_UNKNOWN)
		return m->opts.memory_bytes_max ? m->opts.memory_bytes_max : UINT64_C(1) << 30;
	free_bytes /= 2; /* the other half is left for the rest of the machine */
	return m->opts.memory_bytes_max ? RUNG__MIN(m->opts.memory_bytes_max, free_bytes)
	                                : free_bytes;
}

int rung__measure_team(struct rung__measuring *m, size_t idx, bool all_cores,
                       struct rung__team **team_out)
{
	const struct rung__measure_node *node = &m->nodes[idx];

	for (size_t i = 0; i < m->node_count && node->core_count == 0; i++)
		node = &m->nodes[i];
	if (node->core_count == 0)
		return rung__fail(
			RUNG_E_NOSUP,
			"this process is not allowed to run on the CPUs of any NUMA node");
	return rung__team_start(node->cores, all_cores ? node->core_count : 1, team_out);
}

int rung__measure_map(struct rung__measuring *m, size_t idx, uint64_t bytes, uint64_t page_bytes,
                      struct rung__measure_memory *memory_out)
{
	struct rung__measure_memory memory = { .bytes = bytes,
		                               .placement_share = (double)NAN,
		                               .huge_share = (double)NAN };

	memory.base = rung__map_pages(bytes);
	if (!memory.base)
		return rung__fail(RUNG_E_NOMEM, "measuring: no memory for %" PRIu64 " bytes",
		                  bytes);
	/* rung__map_pages() requests huge pages, which this call undoes. It fails only on kernels
	 * without huge pages, where it is not needed. */
	if (page_bytes < RUNG__MEASURE_HUGE_BYTES)
		madvise(memory.base, (size_t)bytes, MADV_NOHUGEPAGE);
	if (m->policy.can_bind) /* before the first touch; rung__measure_check() checks it */
		rung__placement_prefer(memory.base, bytes, m->nodes[idx].node->node);
	*memory_out = memory;
	return 0;
}

void rung__measure_release(struct rung__measure_memory *memory)
{
	rung__unmap_pages(memory->base, memory->bytes);
	memory->base = NULL;
}

/* Touch in pieces of 2 MiB, so that one thread touches a whole huge page. */
void rung__measure_touch_work(void *ctx, uint32_t rank, uint32_t count, uint64_t passes)
{
	const struct rung__measure_memory *memory = ctx;
	const uint64_t pieces =
		(memory->bytes + RUNG__MEASURE_HUGE_BYTES - 1) / RUNG__MEASURE_HUGE_BYTES;
	const uint64_t begin = pieces * rank / count * RUNG__MEASURE_HUGE_BYTES;
	const uint64_t end =
		RUNG__MIN(pieces * (rank + 1) / count * RUNG__MEASURE_HUGE_BYTES, memory->bytes);

	(void)passes; /* memory is fresh only once */
	for (uint64_t at = begin; at < end; at += RUNG__PAGE_BYTES)
		*(volatile unsigned char *)(memory->base + at) = 1;
}

const char *rung__measure_check(struct rung__measuring *m, size_t idx,
                                struct rung__measure_memory *memory)
{
	const uint32_t node = m->nodes[idx].node->node;
	struct rung__mapped mapped = { .at = memory->base, .bytes = memory->bytes };
	int err;

	memory->placement_share = rung__placement_share(memory->base, memory->bytes, node, &err);
	rung__mapped_query("/proc/self/smaps", &mapped, 1);
	if (mapped.reported)
		memory->huge_share = (double)mapped.huge_bytes / (double)mapped.bytes;
	/* the share is NaN if the location cannot be queried; NaN compares as false, so the node
	 * is assumed */
	if (memory->placement_share < SHARE_MIN)
		return rung__measure_text(
			m, "%.0f %% of %" PRIu64 " MiB are on node %" PRIu32 ", the rest elsewhere",
			100 * memory->placement_share, memory->bytes >> 20, node);
	return NULL;
}

/* Touch memory by all cores of the node, which places it there even if it cannot be bound. */
static int touch(struct rung__measuring *m, size_t idx, struct rung__measure_memory *memory)
{
	struct rung__team *team;
	int rc = rung__measure_team(m, idx, true, &team);

	if (rc < 0)
		return rc;
	rung__team_run(team, rung__measure_touch_work, memory, 1);
	rung__team_stop(team);
	return 0;
}

int rung__measure_alloc(struct rung__measuring *m, size_t idx, uint64_t bytes, uint64_t page_bytes,
                        struct rung__measure_memory *memory_out, const char **why_out)
{
	int rc;

	*memory_out = (struct rung__measure_memory){ .base = NULL };
	*why_out = rung__measure_no_memory(m, idx, bytes);
	if (*why_out)
		return 0;
	rc = rung__measure_map(m, idx, bytes, page_bytes, memory_out);
	if (rc < 0)
		return rc;
	rc = touch(m, idx, memory_out);
	if (rc == 0)
		*why_out = rung__measure_check(m, idx, memory_out);
	if (rc == RUNG_E_NOSUP) /* threads cannot be pinned: a reason, not a failure */
		rc = rung__measure_why(m, rc, why_out);
	if (rc < 0 || *why_out)
		rung__measure_release(memory_out);
	return rc;
}

/* Measure a pair. If threads cannot be pinned to a CPU of its node (RUNG_E_NOSUP), call `measure`
 * again with the reason, to add its results as absent. */
static int measure_pair(struct rung__measuring *m, struct rung__measure_pair pair,
                        int (*measure)(struct rung__measuring *m,
                                       const struct rung__measure_pair *pair))
{
	int rc;

	if (!pair.why)
		pair.why = rung__measure_no_cpu(m, pair.cpu_idx);
	rc = measure(m, &pair);
	if (rc != RUNG_E_NOSUP)
		return rc;
	rc = rung__measure_why(m, rc, &pair.why);
	return rc < 0 ? rc : measure(m, &pair);
}

int rung__measure_each(struct rung__measuring *m,
                       uint64_t (*bytes)(const struct rung__measuring *m, size_t memory_idx),
                       int (*measure)(struct rung__measuring *m,
                                      const struct rung__measure_pair *pair))
{
	int rc = 0;

	for (size_t idx = 0; idx < m->node_count && rc == 0; idx++) {
		struct rung__measure_memory memory;
		const char *why;

		rc = rung__measure_alloc(m, idx, bytes(m, idx), RUNG__MEASURE_HUGE_BYTES, &memory,
		                         &why);
		for (size_t cpu = 0; cpu < m->node_count && rc == 0; cpu++) {
			const struct rung__measure_pair pair = { cpu, idx, &memory, why };

			rc = measure_pair(m, pair, measure);
		}
		rung__measure_release(&memory);
	}
	return rc;
}

uint64_t rung__measure_one_array(const struct rung__measuring *m, size_t memory_idx)
{
	return m->nodes[memory_idx].array_bytes;
}

uint64_t rung__measure_three_arrays(const struct rung__measuring *m, size_t memory_idx)
{
	return 3 * m->nodes[memory_idx].array_bytes;
}

void rung__measure_note(struct rung_numa_result *result, const struct rung__measure_memory *memory)
{
	result->placement_share = memory->placement_share;
	result->huge_share = memory->huge_share;
}

struct rung_numa_result rung__measure_of_pair(const struct rung__measuring *m,
                                              enum rung_numa_matrix matrix,
                                              const struct rung__measure_pair *pair)
{
	struct rung_numa_result result = rung__measure_blank(matrix);

	result.cpu_node = (int)m->nodes[pair->cpu_idx].node->node;
	result.memory_node = (int)m->nodes[pair->memory_idx].node->node;
	result.buffer_bytes = m->nodes[pair->memory_idx].array_bytes;
	result.advised_bytes = m->array_bytes_advised;
	if (!pair->why)
		rung__measure_note(&result, pair->memory);
	return result;
}
