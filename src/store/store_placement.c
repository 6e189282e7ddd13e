/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's memory and its NUMA nodes, as the plan decided them (placement.h): the free memory is
 * checked before the first page is touched, each block is bound when it is allocated, and finally
 * the placement of all of it is queried. A refusal of the kernel is not an error: the store
 * continues and reports it.
 *
 * The check comes first because memory is bound to nodes, without fallback: if a node is full, the
 * kernel kills a process that touches a new page bound to it. For the same reason slots and frames
 * are touched right after they are bound: later the node might be full.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

/* Compute the sizes of the memory that is placed, from the store's shape. */
static struct rung__placement_sizes sizes_of(const struct rung_store *store)
{
	const struct rung__shape *shape = &store->shape;
	bool cold = shape->tiers[RUNG__TIER_NVME].row_count > 0;

	return (struct rung__placement_sizes){
		.rank_first = shape->tiers[RUNG__TIER_HOST].rank_first,
		.row_count = shape->tiers[RUNG__TIER_HOST].row_count,
		.row_stride = shape->layout.row_stride,
		.slots_bytes = shape->slot_count * shape->slot_bytes,
		.frames_bytes = cold ? rung__align_up(shape->frame_count * shape->frame_bytes,
		                                      RUNG__PAGE_BYTES)
		                     : 0,
		.file_count = cold ? (uint32_t)shape->layout.file_count : 0,
	};
}

static uint64_t host_bytes(const struct rung__placement_sizes *sizes)
{
	return rung__align_up(sizes->row_count * sizes->row_stride, RUNG__PAGE_BYTES);
}

/* Decide where an attached store places its slots; its rows and frames were placed by the creator.
 * only: the nodes to which the process is bound; NULL: no binding. */
static int decide_slots(struct rung_store *store, const struct rung__placement_sizes *sizes,
                        const struct rung__nodes *only)
{
	struct rung__placement_set *placements = &store->shape.placements;
	struct rung__node_budgets budgets; /* memory that each node still has available */

	for (uint32_t f = 0; f < sizes->file_count; f++) {
		int rc = rung__placement_drive(store->topology, store->features.files[f].fd,
		                               &placements->drives[f]);

		if (rc < 0)
			return rc;
	}
	rung__node_budgets_find(store->topology, only, &budgets);
	rung__placement_set_decide_slots(placements, sizes, &budgets);
	return 0;
}

/* Load the topology if any memory has a place; otherwise store->topology stays NULL. An attached
 * store also decides where its slots go, as a plan does for the creator. */
static int load_topology(struct rung_store *store, const struct rung__placement_sizes *sizes)
{
	struct rung__placement_set *placements = &store->shape.placements;
	const struct rung__nodes *only;
	struct rung__nodes bound;
	int rc = 0;

	if (!store->attached) {
		if (!placements->why[0])
			rc = rung_topology_load(rung__machine_root, &store->topology);
		/* the plan has read it before, so it has disappeared since: the store continues
		 * without binding */
		if (rc < 0)
			snprintf(store->bind_why, sizeof(store->bind_why), "%.*s",
			         (int)sizeof(store->bind_why) - 1, rung_last_error());
		return rc == RUNG_E_NOMEM ? rc : 0;
	}
	for (uint32_t f = 0; f < RUNG__FILES_MAX; f++)
		placements->slots[f] = placements->drives[f] = -1;
	rc = rung__placement_set_begin(placements, &bound, &only, &store->topology);
	return rc == 0 && store->topology ? decide_slots(store, sizes, only) : rc;
}

/* Add the memory that this process will bind, by node. */
static void add_demand(const struct rung_store *store, const struct rung__placement_sizes *sizes,
                       struct rung__node_needs *needs)
{
	const struct rung__placement_set *placements = &store->shape.placements;

	for (uint32_t f = 0; f < sizes->file_count; f++) {
		struct rung__placement placement = { .part_count = 0 };

		if (placements->slots[f] >= 0)
			rung__placement_on((uint32_t)placements->slots[f], sizes->slots_bytes,
			                   &placement);
		rung__node_needs_add(needs, &placement);
	}
	if (store->attached) /* an attached store's frames and rows exist already */
		return;
	rung__node_needs_add(needs, &placements->frames);
	rung__node_needs_add(needs, &placements->host);
}

/* Check the free memory of the whole machine: without placement this is the only check, and a
 * process that touches memory that does not exist is killed. */
static int check_all(const struct rung_store *store, const struct rung__placement_sizes *sizes)
{
	uint64_t available = rung__host_memory_free(rung__machine_root);
	uint64_t wanted = sizes->slots_bytes * sizes->file_count;

	if (!store->attached)
		wanted += host_bytes(sizes) + sizes->frames_bytes;
	if (available > 0 && wanted > available) /* 0: unknown */
		return rung__fail(RUNG_E_NOMEM,
		                  "store: %" PRIu64
		                  " bytes of host memory are needed, but the machine "
		                  "and the process's control groups have only %" PRIu64
		                  " available; give a smaller host budget",
		                  wanted, available);
	return 0;
}

int rung__store_apply_placement(struct rung_store *store)
{
	struct rung__placement_sizes sizes = sizes_of(store);
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	struct rung__node_needs needs = { .count = 0 };
	int rc = check_all(store, &sizes);

	if (rc == 0)
		rc = load_topology(store, &sizes);
	if (rc < 0 || !store->topology)
		return rc;
	add_demand(store, &sizes, &needs);
	if (needs.count == 0)
		return 0;
	/* only a trial shows whether a container or a kernel refuses mbind() */
	rc = rung_numa_probe_policy(needs.list[0].node, &policy);
	if (rc < 0)
		return rc;
	store->binds = policy.can_bind;
	snprintf(store->bind_why, sizeof(store->bind_why), "%s", policy.bind_why);
	return store->binds ? rung__placement_check(store->topology, &needs) : 0;
}

void rung__store_bind(struct rung_store *store, void *memory,
                      const struct rung__placement *placement)
{
	int err = store->binds ? rung__placement_bind(memory, placement) : 0;

	if (!err)
		return;
	store->binds = false;
	snprintf(store->bind_why, sizeof(store->bind_why), "mbind: %s", strerror(err));
}

void rung__store_bind_pool(struct rung_store *store)
{
	const struct rung__placement_set *placements = &store->shape.placements;
	struct rung__placement_sizes sizes = sizes_of(store);
	struct rung__pool *pool = &store->pool;

	for (uint32_t f = 0; f < sizes.file_count; f++) {
		unsigned char *slots = pool->base + f * sizes.slots_bytes;
		struct rung__placement placement;

		if (placements->slots[f] < 0) /* the kernel decides */
			continue;
		rung__placement_on((uint32_t)placements->slots[f], sizes.slots_bytes, &placement);
		rung__store_bind(store, slots, &placement);
		if (store->binds)
			rung__placement_touch(slots, sizes.slots_bytes);
	}
	if (store->attached || placements->frames.part_count == 0)
		return;
	rung__store_bind(store, pool->base + pool->frames_at, &placements->frames);
	if (store->binds)
		rung__placement_touch(pool->base + pool->frames_at, sizes.frames_bytes);
}

/* ---- the result ---- */

/* NaN means that the share is unknown, which is not the same as 0. */
static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : (double)NAN;
}

/* Set the reason why memory has no node. */
static const char *why_unplaced(const struct rung_store *store)
{
	return store->shape.placements.why[0] ? store->shape.placements.why
	                                      : "the kernel does not report the drive's node";
}

/*
 * Query on which nodes the pages of one part of a block are, and store in *out which share of them
 * is on the intended node. touched: false if the pages were not touched yet; they are on no node
 * then, and are not queried.
 */
static void query_part(struct rung_store *store, const unsigned char *at,
                       const struct rung__placement *placement, uint32_t part_idx, bool touched,
                       struct rung_store_placement *out)
{
	uint64_t count = 0, there = 0;
	int err;

	out->why = out->placement.nodes.count == 0 ? why_unplaced(store) : store->bind_why;
	if (out->placement.nodes.count == 0 || !touched)
		return;
	err = rung__placement_query(at, placement, part_idx, &count, &there);
	if (err && !store->bind_why[0])
		snprintf(store->bind_why, sizeof(store->bind_why), "move_pages: %s", strerror(err));
	else if (!err)
		out->node_share = share(there, count);
}

/* Inspect a block of several parts: the host tier or the frames. Memory without a decision is one
 * part. list and mapped have an entry for each part. */
static void inspect_rows(struct rung_store *store, const unsigned char *base,
                         const struct rung__placement *placement, bool touched,
                         struct rung_store_placement *list, struct rung__mapped *mapped)
{
	for (uint32_t p = 0; p < RUNG__MAX(placement->part_count, 1u); p++) {
		mapped[p] = (struct rung__mapped){ .at = base, .bytes = list[p].placement.bytes };
		query_part(store, base, placement, p, touched, &list[p]);
		base += list[p].placement.bytes;
	}
}

/* Inspect the slots of each file, and report the node on which its refill thread runs. */
static void inspect_slots(struct rung_store *store, const struct rung__placement_sizes *sizes,
                          struct rung_store_placement *list, struct rung__mapped *mapped)
{
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		const unsigned char *slots = store->pool.base + f * sizes->slots_bytes;
		struct rung__placement placement;

		rung__placement_on((uint32_t)RUNG__MAX(store->shape.placements.slots[f], 0),
		                   sizes->slots_bytes, &placement);
		mapped[f] = (struct rung__mapped){ .at = slots, .bytes = sizes->slots_bytes };
		query_part(store, slots, &placement, 0, store->binds, &list[f]);
		list[f].cpu_node = rung__refill_node(store->refills[f * store->threads_per_file]);
	}
}

int rung__store_inspect_memory(struct rung_store *store)
{
	struct rung__placement_sizes sizes = sizes_of(store);
	const struct rung__placement_set *placements = &store->shape.placements;
	struct rung__mapped *mapped;
	size_t count, at = 0;
	int rc = rung__placement_set_list(placements, &sizes, &store->placement_list, &count);

	if (rc < 0)
		return rc;
	store->placements = rung__zalloc_array(count, sizeof(*store->placements));
	mapped = rung__zalloc_array(count, sizeof(*mapped));
	if (!store->placements || !mapped) {
		rung__free(mapped);
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	}
	store->placement_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		store->placements[i] = (struct rung_store_placement){
			.placement = store->placement_list[i], .cpu_node = -1, .node_share = NAN
		};
	if (sizes.row_count > 0) {
		inspect_rows(store, store->host_memory.base, &placements->host, true,
		             store->placements, mapped);
		at += RUNG__MAX(placements->host.part_count, 1u);
	}
	inspect_slots(store, &sizes, store->placements + at, mapped + at);
	at += sizes.file_count;
	if (sizes.frames_bytes > 0)
		inspect_rows(store, store->pool.base + store->pool.frames_at, &placements->frames,
		             store->binds, store->placements + at, mapped + at);
	/* one pass over the file for all blocks; after a failure nothing is known to be resident,
	 * and the shares are NaN */
	rung__mapped_query("/proc/self/smaps", mapped, count);
	for (size_t i = 0; i < count; i++)
		store->placements[i].huge_share =
			share(mapped[i].huge_bytes, mapped[i].resident_bytes);
	rung__free(mapped);
	return 0;
}
