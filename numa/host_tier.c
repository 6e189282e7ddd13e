/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host tier: the hottest rows in memory, one after the other as in the file. The memory is anonymous unless one is given that
 * other processes see too.
 *
 * With several NUMA nodes the pages lie on the node that the device is at; for the CPU they are interleaved over the nodes we may
 * use, so that no node's memory controller serves all hits. The policy is set before the first touch, which is the load, and what
 * came of it is looked up afterwards: a full node makes the kernel take pages elsewhere without a word.
 */
#include "load.h"
#include "placement.h"
#include "rung_config.h"
#include "tier_list.h"
#if RUNG_HAVE_NUMA
#include <numa.h>
#endif

struct rung__tier {
	unsigned char *own;    /* memory taken here; NULL when it was given */
	uint64_t own_bytes;
	struct rung__view view;
	double node_share;
};

#if RUNG_HAVE_NUMA
static bool has_nodes(void)
{
	return numa_available() >= 0 && numa_num_task_nodes() > 1;
}

static bool may_use(int node)
{
	return node >= 0 && numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned)node);
}
#endif

static void choose_nodes(void *mem, uint64_t bytes, int node)
{
#if RUNG_HAVE_NUMA
	if (!has_nodes())
		return;
	if (may_use(node))
		rung__place_on_node(mem, bytes, (uint32_t)node);
	else
		numa_interleave_memory(mem, (size_t)bytes, numa_get_mems_allowed());
#else
	(void)mem;
	(void)bytes;
	(void)node;
#endif
}

/* 1 where there is no choice, or nobody tells. */
static double share_on_node(unsigned char *mem, uint64_t bytes, int node)
{
#if RUNG_HAVE_NUMA
	if (has_nodes() && may_use(node)) {
		int err;
		double share = rung__placed_share(mem, bytes, (uint32_t)node, &err);

		return err ? 1 : share;
	}
#endif
	(void)mem;
	(void)bytes;
	(void)node;
	return 1;
}

static int load_rows(const struct rung__features *features, uint64_t first, uint64_t rows, unsigned char *to)
{
	struct rung__loader loader;
	int rc = rung__loader_open(features, &loader);

	if (rc < 0)
		return rc;
	rc = rung__loader_rows(&loader, first, rows, to);
	rung__loader_close(&loader);
	return rc;
}

static void host_close(struct rung__tier *tier)
{
	rung__unmap_pages(tier->own, tier->own_bytes);
	rung__free(tier);
}

static int host_open(const struct rung__tier_args *args, struct rung__tier **tier_out)
{
	const struct rung__layout *layout = &args->features->layout;
	uint64_t bytes = args->row_count * layout->row_stride;   /* inside the file's size, which was checked */
	uint64_t map_bytes = rung__align_up(bytes, RUNG__PAGE_BYTES);
	struct rung__tier *tier = rung__zalloc(sizeof(*tier));
	unsigned char *rows = args->memory;
	int rc;

	if (!tier)
		return rung__fail(RUNG_E_NOMEM, "host tier: out of memory");
	if (!rows) {
		rows = tier->own = rung__map_pages(map_bytes);
		tier->own_bytes = map_bytes;
	}
	if (!rows) {
		rc = rung__fail(RUNG_E_NOMEM, "host tier: no memory for %" PRIu64 " rows (%" PRIu64 " bytes): give a smaller host budget",
		                args->row_count, bytes);
		goto close_tier;
	}
	if (!args->loaded) {
		choose_nodes(rows, map_bytes, args->node);
		rc = load_rows(args->features, args->rank_first, args->row_count, rows);
		if (rc < 0)
			goto close_tier;
	}
	tier->node_share = share_on_node(rows, map_bytes, args->node);
	tier->view = (struct rung__view){ rows, (size_t)layout->row_stride, args->rank_first, args->row_count };
	*tier_out = tier;
	return 0;
close_tier:
	host_close(tier);
	return rc;
}

static void host_view(const struct rung__tier *tier, struct rung__view *view_out)
{
	*view_out = tier->view;
}

static double host_node_share(const struct rung__tier *tier)
{
	return tier->node_share;
}

const struct rung__tier_ops rung__host_tier = {
	.abi = RUNG__TIER_ABI,
	.size = sizeof(struct rung__tier_ops),
	.name = "host",
	.kind = RUNG__ADDRESSABLE,
	.open = host_open,
	.close = host_close,
	.view = host_view,
	.node_share = host_node_share,
};
