/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's memory and its NUMA nodes: the free memory is checked before the first page is
 * touched, each block is bound when it is allocated, and finally the placement of all of it is
 * queried. A refusal of the kernel is not an error: the store continues and reports it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

static struct rung__placed sizes_of(const struct rung_store *store)
{
	const struct rung__shape *shape = &store->shape;
	bool cold = shape->tiers[RUNG__TIER_NVME].row_count > 0;

	return (struct rung__placed){
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

static uint64_t host_bytes(const struct rung__placed *sizes)
{
	return rung__align_up(sizes->row_count * sizes->row_stride, RUNG__PAGE_BYTES);
}

/* An attached store decides the placement of its own slots; rows and frames are where the creator
 * placed them. */
static int decide_slots(struct rung_store *store, const struct rung__placed *sizes,
                        const struct rung__nodes *only)
{
	struct rung__places *places = &store->shape.places;
	struct rung__rooms rooms;

	for (uint32_t f = 0; f < sizes->file_count; f++) {
		int rc = rung__placement_drive(store->topology, store->features.files[f].fd,
		                               &places->drives[f]);

		if (rc < 0)
			return rc;
	}
	rung__rooms_find(store->topology, only, &rooms);
	rung__places_decide_slots(places, sizes, &rooms);
	return 0;
}

static int load_topology(struct rung_store *store, const struct rung__placed *sizes)
{
	struct rung__places *places = &store->shape.places;
	const struct rung__nodes *only;
	struct rung__nodes bound;
	int rc = 0;

	if (!store->attached) {
		if (!places->why[0])
			rc = rung_topology_load(rung__machine_root, &store->topology);
		if (rc < 0) /* the plan has read it: it has disappeared since */
			snprintf(store->bind_why, sizeof(store->bind_why), "%.*s",
			         (int)sizeof(store->bind_why) - 1, rung_last_error());
		return rc == RUNG_E_NOMEM ? rc : 0;
	}
	for (uint32_t f = 0; f < RUNG__FILES_MAX; f++)
		places->slots[f] = places->drives[f] = -1;
	rc = rung__places_begin(places, &bound, &only, &store->topology);
	return rc == 0 && store->topology ? decide_slots(store, sizes, only) : rc;
}

static void add_demand(const struct rung_store *store, const struct rung__placed *sizes,
                       struct rung__demand *demand)
{
	const struct rung__places *places = &store->shape.places;

	for (uint32_t f = 0; f < sizes->file_count; f++) {
		struct rung__placement place = { .part_count = 0 };

		if (places->slots[f] >= 0)
			rung__placement_on((uint32_t)places->slots[f], sizes->slots_bytes, &place);
		rung__demand_add(demand, &place);
	}
	if (store->attached)
		return;
	rung__demand_add(demand, &places->frames);
	rung__demand_add(demand, &places->host);
}

static int check_all(const struct rung_store *store, const struct rung__placed *sizes)
{
	uint64_t available = rung__host_memory_free(rung__machine_root);
	uint64_t wanted = sizes->slots_bytes * sizes->file_count;

	if (!store->attached)
		wanted += host_bytes(sizes) + sizes->frames_bytes;
	if (available > 0 && wanted > available) /* 0: not known */
		return rung__fail(
			RUNG_E_NOMEM,
			"store: %" PRIu64 " bytes of host memory are to be taken, %" PRIu64
			" can still be had of this machine "
			"and within the limits of its control groups: give a smaller host budget",
			wanted, available);
	return 0;
}

int rung__store_place(struct rung_store *store)
{
	struct rung__placed sizes = sizes_of(store);
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	struct rung__demand demand = { .count = 0 };
	int rc = check_all(store, &sizes);

	if (rc == 0)
		rc = load_topology(store, &sizes);
	if (rc < 0 || !store->topology)
		return rc;
	add_demand(store, &sizes, &demand);
	if (demand.count == 0)
		return 0;
	rc = rung_numa_try(demand.list[0].node, &policy);
	if (rc < 0)
		return rc;
	store->binds = policy.can_bind;
	snprintf(store->bind_why, sizeof(store->bind_why), "%s", policy.bind_why);
	return store->binds ? rung__placement_check(store->topology, &demand) : 0;
}

void rung__store_bind(struct rung_store *store, void *memory, const struct rung__placement *place)
{
	int err = store->binds ? rung__placement_bind(memory, place) : 0;

	if (!err)
		return;
	store->binds = false;
	snprintf(store->bind_why, sizeof(store->bind_why), "mbind: %s", strerror(err));
}

void rung__store_bind_pool(struct rung_store *store)
{
	const struct rung__places *places = &store->shape.places;
	struct rung__placed sizes = sizes_of(store);
	struct rung__pool *pool = &store->pool;

	for (uint32_t f = 0; f < sizes.file_count; f++) {
		unsigned char *slots = pool->base + f * sizes.slots_bytes;
		struct rung__placement place;

		if (places->slots[f] < 0)
			continue;
		rung__placement_on((uint32_t)places->slots[f], sizes.slots_bytes, &place);
		rung__store_bind(store, slots, &place);
		if (store->binds)
			rung__placement_touch(slots, sizes.slots_bytes);
	}
	if (store->attached || places->frames.part_count == 0)
		return;
	rung__store_bind(store, pool->base + pool->frames_at, &places->frames);
	if (store->binds)
		rung__placement_touch(pool->base + pool->frames_at, sizes.frames_bytes);
}

/* ---- what came of it ---- */

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : (double)NAN;
}

static const char *why_unplaced(const struct rung_store *store)
{
	return store->shape.places.why[0] ? store->shape.places.why
	                                  : "the kernel does not report the drive's node";
}

/* Pages that were never touched have no location. */
static void look(struct rung_store *store, const unsigned char *at,
                 const struct rung__placement *place, uint32_t part_idx, bool touched,
                 struct rung_store_place *out)
{
	uint64_t count = 0, there = 0;
	int err;

	out->why = out->place.nodes.count == 0 ? why_unplaced(store) : store->bind_why;
	if (out->place.nodes.count == 0 || !touched)
		return;
	err = rung__placement_look(at, place, part_idx, &count, &there);
	if (err && !store->bind_why[0])
		snprintf(store->bind_why, sizeof(store->bind_why), "move_pages: %s", strerror(err));
	else if (!err)
		out->node_share = share(there, count);
}

static void look_at_rows(struct rung_store *store, const unsigned char *base,
                         const struct rung__placement *place, bool touched,
                         struct rung_store_place *list, struct rung__mapped *mapped)
{
	for (uint32_t p = 0; p < RUNG__MAX(place->part_count, 1u); p++) {
		mapped[p] = (struct rung__mapped){ .at = base, .bytes = list[p].place.bytes };
		look(store, base, place, p, touched, &list[p]);
		base += list[p].place.bytes;
	}
}

static void look_at_slots(struct rung_store *store, const struct rung__placed *sizes,
                          struct rung_store_place *list, struct rung__mapped *mapped)
{
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		const unsigned char *slots = store->pool.base + f * sizes->slots_bytes;
		struct rung__placement place;

		rung__placement_on((uint32_t)RUNG__MAX(store->shape.places.slots[f], 0),
		                   sizes->slots_bytes, &place);
		mapped[f] = (struct rung__mapped){ .at = slots, .bytes = sizes->slots_bytes };
		look(store, slots, &place, 0, store->binds, &list[f]);
		list[f].cpu_node = rung__refill_node(store->refills[f]);
	}
}

int rung__store_look(struct rung_store *store)
{
	struct rung__placed sizes = sizes_of(store);
	const struct rung__places *places = &store->shape.places;
	struct rung__mapped *mapped;
	size_t count, at = 0;
	int rc = rung__places_list(places, &sizes, &store->place_list, &count);

	if (rc < 0)
		return rc;
	store->places = rung__zalloc_array(count, sizeof(*store->places));
	mapped = rung__zalloc_array(count, sizeof(*mapped));
	if (!store->places || !mapped) {
		rung__free(mapped);
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	}
	store->place_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		store->places[i] = (struct rung_store_place){ .place = store->place_list[i],
			                                      .cpu_node = -1,
			                                      .node_share = NAN };
	if (sizes.row_count > 0) {
		look_at_rows(store, store->host_memory.base, &places->host, true, store->places,
		             mapped);
		at += RUNG__MAX(places->host.part_count, 1u);
	}
	look_at_slots(store, &sizes, store->places + at, mapped + at);
	at += sizes.file_count;
	if (sizes.frames_bytes > 0)
		look_at_rows(store, store->pool.base + store->pool.frames_at, &places->frames,
		             store->binds, store->places + at, mapped + at);
	/* on failure: nothing is known to be resident */
	rung__mapped_look("/proc/self/smaps", mapped, count);
	for (size_t i = 0; i < count; i++)
		store->places[i].huge_share = share(mapped[i].huge_bytes, mapped[i].resident_bytes);
	rung__free(mapped);
	return 0;
}
