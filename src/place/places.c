/* SPDX-License-Identifier: Apache-2.0 */
/* The places of a plan's or a store's host memory: whether there is anything to decide, the staging slots, and the list that users see. */
#include <stdio.h>

#include "place/place.h"

static void say_why(struct rung__places *places, const char *why)
{
	snprintf(places->why, sizeof(places->why), "%s", why);
}

/* A process that may use one node of several is placed there as well: what finds no room there has none. */
static bool has_nodes(const struct rung_topology *topology, const struct rung__nodes *only)
{
	const struct rung_topology_node *node;
	struct rung__rooms rooms;
	uint32_t count = 0;

	for (size_t n = 0; (node = rung_topology_node(topology, n)) != NULL; n++)
		count += node->has_memory && !node->gpu;
	rung__rooms_find(topology, only, &rooms);
	return rooms.count > 1 || (rooms.count == 1 && count > 1);
}

int rung__places_begin(struct rung__places *places, struct rung__nodes *only, const struct rung__nodes **only_out,
                       struct rung_topology **topology_out)
{
	enum rung__policy policy = places->asked_node < 0 ? rung__placement_policy(only) : RUNG__POLICY_NONE;
	int rc;

	*topology_out = NULL;
	*only_out = policy == RUNG__POLICY_BOUND ? only : NULL;
	places->why[0] = 0;
	if (places->off) {
		say_why(places, "the plan leaves it to the kernel");
		return 0;
	}
	rc = rung_topology_load(rung__machine_root, topology_out);
	if (rc == RUNG_E_NOMEM)
		return rc;
	if (rc < 0)
		say_why(places, rung_last_error());
	else if (policy == RUNG__POLICY_OTHER)
		say_why(places, "the process has a memory policy of its own (numactl): it is left alone");
	else if (places->asked_node < 0 && !has_nodes(*topology_out, *only_out))
		say_why(places, "there is one NUMA node");
	else
		return 0;
	rung_topology_destroy(*topology_out);
	*topology_out = NULL;
	return 0;
}

void rung__places_decide_slots(struct rung__places *places, const struct rung__placed *sizes, struct rung__rooms *rooms)
{
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		struct rung__nodes near = { .bits = { 0 } };
		struct rung__placement place;

		places->slots[f] = places->asked_node;
		if (places->asked_node >= 0 || places->drives[f] < 0)
			continue;
		rung__nodes_add(&near, (uint32_t)places->drives[f]);
		rung__placement_decide(rooms, &near, sizes->slots_bytes, &place);
		if (place.part_count > 0)   /* they stay together: where the last of them find room */
			places->slots[f] = (int32_t)place.nodes[place.parts[place.part_count - 1].node_first];
	}
}

/* ---- the list ---- */

static void list_slots(const struct rung__places *places, const struct rung__placed *sizes, struct rung_place *list)
{
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		list[f] = (struct rung_place){ .name = "slots", .bytes = sizes->slots_bytes, .block_bytes = sizes->slots_bytes };
		if (places->slots[f] >= 0)
			list[f].nodes = (struct rung_id_list){ (const uint32_t *)&places->slots[f], 1 };
	}
}

/* A row over a border belongs to where it begins. */
static uint64_t first_row(const struct rung__placed *sizes, uint64_t at)
{
	return RUNG__MIN((at + sizes->row_stride - 1) / sizes->row_stride, sizes->row_count);
}

/* @param rows  nonzero: they are the host tier's */
static size_t list_parts(const char *name, const struct rung__placement *place, const struct rung__placed *sizes, uint64_t bytes, bool rows,
                         struct rung_place *list)
{
	uint64_t at = 0;

	if (place->part_count == 0)
		list[0] = (struct rung_place){ .name = name, .bytes = bytes, .block_bytes = bytes, .row_count = rows ? sizes->row_count : 0,
		                               .rank_first = rows ? sizes->rank_first : 0 };
	for (uint32_t p = 0; p < place->part_count; p++) {
		const struct rung__placement_part *part = &place->parts[p];
		uint64_t end = at + part->bytes;

		list[p] = (struct rung_place){
			.name = name,
			.bytes = part->bytes,
			.nodes = { place->nodes + part->node_first, part->node_count },
			.block_bytes = part->block_bytes,
		};
		if (rows) {
			list[p].rank_first = sizes->rank_first + first_row(sizes, at);
			list[p].row_count = first_row(sizes, end) - first_row(sizes, at);
		}
		at = end;
	}
	return RUNG__MAX(place->part_count, 1u);
}

int rung__places_list(const struct rung__places *places, const struct rung__placed *sizes, struct rung_place **list_out, size_t *count_out)
{
	struct rung_place *list = rung__zalloc_array(2 * RUNG__PLACE_NODES_MAX + RUNG_FEATURE_FILES_MAX, sizeof(*list));
	uint64_t host_bytes = rung__align_up(sizes->row_count * sizes->row_stride, RUNG__PAGE_BYTES);
	size_t count = 0;

	if (!list)
		return rung__fail(RUNG_E_NOMEM, "places: out of memory");
	if (sizes->row_count > 0)
		count += list_parts("host", &places->host, sizes, host_bytes, true, list);
	list_slots(places, sizes, list + count);
	count += sizes->file_count;
	if (sizes->frames_bytes > 0)
		count += list_parts("cache", &places->frames, sizes, sizes->frames_bytes, false, list + count);
	*list_out = list;
	*count_out = count;
	return 0;
}
