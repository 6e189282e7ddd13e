/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the nodes of memory: of rows, frames, and the slots of each file, from the topology and
 * the free memory of each node.
 *
 * The nodes of the readers share evenly, in blocks, so that no single memory controller or link
 * between sockets serves all reads; when one of them is full, the others continue to share. The
 * rest, the coldest rows, goes to the next nearest node, then to the next. Distances are those of
 * the firmware; without them all other nodes are equally far, and lower numbers come first.
 */
#include <string.h>

#include "placement/placement.h"

/* the part of a node that is left free when memory is placed: for page tables, buffers and the job
 * itself */
#define SPARE_SHARE 16u
#define SPARE_MAX   (1ull << 30)
/* blocks of a part: each is a mapping, and a process may have 65530 mappings */
#define BLOCKS_MAX 8192u
#define FARTHEST   256u /* above all distances, which are bytes in the firmware's table */

/* ---- budgets ---- */

uint64_t rung__spare_of(const struct rung_topology_node *node)
{
	return node->total_bytes == RUNG_UNKNOWN
	               ? 0
	               : RUNG__MIN(node->total_bytes / SPARE_SHARE, SPARE_MAX);
}

static bool usable(const struct rung_topology_node *node, const struct rung__nodes *only)
{
	if (!node->has_memory || node->memory_allowed == 0 || node->available_bytes == RUNG_UNKNOWN)
		return false;
	return only ? rung__nodes_have(only, node->node) : node->gpu == NULL;
}

void rung__node_budgets_find(const struct rung_topology *topology, const struct rung__nodes *only,
                             struct rung__node_budgets *budgets_out)
{
	const struct rung_topology_node *node;

	*budgets_out = (struct rung__node_budgets){ .topology = topology };
	for (size_t n = 0; (node = rung_topology_node(topology, n)) != NULL &&
	                   budgets_out->count < RUNG__PLACEMENT_NODES_MAX;
	     n++) {
		uint64_t spare = rung__spare_of(node);

		if (!usable(node, only))
			continue;
		budgets_out->list[budgets_out->count].node = node->node;
		budgets_out->list[budgets_out->count++].bytes =
			node->available_bytes - RUNG__MIN(node->available_bytes, spare);
	}
}

uint64_t rung__node_budgets_sum(const struct rung__node_budgets *budgets)
{
	uint64_t sum = 0;

	for (uint32_t r = 0; r < budgets->count; r++) {
		if (!rung__add(sum, budgets->list[r].bytes, &sum))
			return UINT64_MAX;
	}
	return sum;
}

size_t rung__node_position(const struct rung_topology *topology, uint32_t number)
{
	const struct rung_topology_node *node;
	size_t n = 0;

	while ((node = rung_topology_node(topology, n)) != NULL && node->node != number)
		n++;
	return n;
}

/* Distance of a node from the nearest node of the readers. */
static uint32_t distance(const struct rung_topology *topology, const struct rung__nodes *near,
                         uint32_t number)
{
	const struct rung_topology_node *from;
	size_t to = rung__node_position(topology, number);
	uint32_t least = FARTHEST;

	for (size_t n = 0; (from = rung_topology_node(topology, n)) != NULL; n++) {
		uint32_t far = rung__nodes_have(near, from->node)
		                       ? rung_topology_distance(topology, n, to)
		                       : 0;

		if (far > 0)
			least = RUNG__MIN(least, far);
	}
	return least;
}

/* ---- decisions ---- */

struct choice {
	uint32_t node;
	uint32_t far;        /* distance; 0: a node of readers */
	uint64_t available;  /* available bytes in whole huge pages */
	uint32_t budget_idx; /* position in budgets */
};

/* Nodes of readers come first, in descending order of available memory; the other nodes follow by
 * distance. */
static bool comes_before(const struct choice *a, const struct choice *b)
{
	if (a->far != b->far)
		return a->far < b->far;
	if (a->far == 0 && a->available != b->available)
		return a->available > b->available;
	return a->node < b->node;
}

/* Sort the nodes in the order in which they are used. @return the number of nodes of readers */
static uint32_t sort_choices(const struct rung__node_budgets *budgets,
                             const struct rung__nodes *near, struct choice *choices)
{
	uint32_t near_count = 0;

	for (uint32_t r = 0; r < budgets->count; r++) {
		bool own = rung__nodes_have(near, budgets->list[r].node);
		struct choice choice = { .node = budgets->list[r].node, .budget_idx = r };
		uint32_t at = r;

		choice.available = rung__align_down(budgets->list[r].bytes, RUNG__BORDER_BYTES);
		choice.far = own ? 0 : distance(budgets->topology, near, choice.node);
		near_count += own;
		for (; at > 0 && comes_before(&choice, &choices[at - 1]); at--)
			choices[at] = choices[at - 1];
		choices[at] = choice;
	}
	return near_count;
}

static void add_part(struct rung__placement *placement, uint32_t node_first, uint32_t node_count,
                     uint64_t bytes)
{
	/* blocks are as large as needed for at most BLOCKS_MAX of them */
	uint64_t block = RUNG__BORDER_BYTES * (bytes / (RUNG__BORDER_BYTES * BLOCKS_MAX) + 1);

	placement->parts[placement->part_count++] = (struct rung__placement_part){
		.bytes = bytes,
		.block_bytes = node_count == 1 ? bytes : block,
		.node_first = node_first,
		.node_count = node_count,
	};
}

uint64_t rung__part_share(const struct rung__placement_part *part, uint32_t i)
{
	uint64_t round = part->block_bytes * part->node_count, rest = part->bytes % round,
		 before = i * part->block_bytes;

	rest = rest > before ? RUNG__MIN(rest - before, part->block_bytes) : 0;
	return part->bytes / round * part->block_bytes + rest;
}

/* Subtract a placement from the budgets. */
static void alloc_from_budgets(struct rung__node_budgets *budgets, const struct choice *choices,
                               const struct rung__placement *placement)
{
	for (uint32_t p = 0; p < placement->part_count; p++) {
		const struct rung__placement_part *part = &placement->parts[p];

		for (uint32_t i = 0; i < part->node_count; i++) {
			uint64_t *available =
				&budgets->list[choices[part->node_first + i].budget_idx].bytes;

			*available -= RUNG__MIN(*available, rung__part_share(part, i));
		}
	}
}

void rung__placement_decide(struct rung__node_budgets *budgets, const struct rung__nodes *near,
                            uint64_t bytes, struct rung__placement *place_out)
{
	struct choice choices[RUNG__PLACEMENT_NODES_MAX];
	struct rung__placement placement = { 0 };
	uint32_t near_count, sharing;
	uint64_t left = bytes, filled = 0;

	*place_out = placement;
	if (budgets->count == 0 || bytes == 0)
		return;
	near_count = sort_choices(budgets, near, choices);
	for (uint32_t i = 0; i < budgets->count; i++)
		placement.nodes[i] = choices[i].node;
	/* Nodes of readers share evenly until the one with the least available memory is full; then
	 * the others continue without it. */
	for (sharing = near_count; sharing > 0 && left > 0; sharing--) {
		uint64_t more = (choices[sharing - 1].available - filled) * sharing;

		if (more > 0)
			add_part(&placement, 0, sharing, RUNG__MIN(left, more));
		left -= RUNG__MIN(left, more);
		filled = choices[sharing - 1].available;
	}
	for (uint32_t i = near_count; i < budgets->count && left > 0; i++) {
		uint64_t more = RUNG__MIN(left, choices[i].available);

		if (more > 0)
			add_part(&placement, i, 1, more);
		left -= more;
	}
	if (left > 0 && placement.part_count == 0) {
		add_part(&placement, 0, 1, left);
	} else if (left > 0) { /* does not fit: rung__placement_check() will report it */
		struct rung__placement_part whole = placement.parts[0];

		placement.part_count = 0;
		add_part(&placement, whole.node_first, whole.node_count, bytes);
	}
	alloc_from_budgets(budgets, choices, &placement);
	*place_out = placement;
}

void rung__placement_on(uint32_t node, uint64_t bytes, struct rung__placement *place_out)
{
	*place_out = (struct rung__placement){ .nodes = { node } };
	if (bytes > 0)
		add_part(place_out, 0, 1, bytes);
}

uint32_t rung__placement_at(const struct rung__placement *placement, uint64_t offset)
{
	const struct rung__placement_part *part = placement->parts;

	if (placement->part_count == 0)
		return 0;
	for (; part + 1 < placement->parts + placement->part_count && offset >= part->bytes; part++)
		offset -= part->bytes;
	return part->node_first +
	       (part->node_count == 1 ? 0
	                              : (uint32_t)(offset / part->block_bytes % part->node_count));
}

/* Check one part. The limit of block_bytes keeps rung__part_share() from overflowing. */
static bool part_ok(const struct rung__placement *placement,
                    const struct rung__placement_part *part)
{
	if (part->bytes == 0 || part->block_bytes == 0 ||
	    part->block_bytes % RUNG__PAGE_BYTES != 0 || part->bytes % RUNG__PAGE_BYTES != 0)
		return false;
	if (part->node_count == 0 || part->node_count > RUNG__PLACEMENT_NODES_MAX ||
	    part->node_first > RUNG__PLACEMENT_NODES_MAX - part->node_count)
		return false;
	for (uint32_t i = 0; i < part->node_count; i++) {
		if (placement->nodes[part->node_first + i] >= RUNG_NODES_MAX)
			return false;
	}
	return part->block_bytes <= UINT64_MAX / RUNG__PLACEMENT_NODES_MAX;
}

bool rung__placement_ok(const struct rung__placement *placement, uint64_t bytes)
{
	uint64_t sum = 0;

	if (placement->part_count > RUNG__PLACEMENT_NODES_MAX)
		return false;
	for (uint32_t p = 0; p < placement->part_count; p++) {
		if (!part_ok(placement, &placement->parts[p]) ||
		    !rung__add(sum, placement->parts[p].bytes, &sum))
			return false;
	}
	return placement->part_count == 0 || sum == bytes;
}

/* ---- the placements of a plan or a store ---- */

void rung__placement_set_decide_slots(struct rung__placement_set *placements,
                                      const struct rung__placement_sizes *sizes,
                                      struct rung__node_budgets *budgets)
{
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		struct rung__nodes near = { .bits = { 0 } };
		struct rung__placement placement;

		placements->slots[f] = placements->requested_node;
		if (placements->requested_node >= 0 || placements->drives[f] < 0)
			continue;
		rung__nodes_add(&near, (uint32_t)placements->drives[f]);
		rung__placement_decide(budgets, &near, sizes->slots_bytes, &placement);
		/* the slots of a file are not divided: if they do not fit on the nearest node, all
		 * go to the node that would get the last part */
		if (placement.part_count > 0)
			placements->slots[f] =
				(int32_t)placement.nodes[placement.parts[placement.part_count - 1]
			                                         .node_first];
	}
}
