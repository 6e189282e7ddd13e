/* SPDX-License-Identifier: Apache-2.0 */
/* The topology in a profile. */
#include <math.h>
#include <string.h>

#include "numa/numa_load.h"

#define DEVICES_MAX 1024u

static void load_huge_pages(struct numa_load *load, json_t *entry, struct rung_topology_node *node)
{
	json_t *list = numa_load_part(load, entry, "huge_pages", JSON_ARRAY, 0);
	const uint32_t count = numa_load_count(load, list, "huge_pages", 16);
	struct rung_huge_pages *pages = numa_load_block(load, count, sizeof(*pages));

	for (uint32_t i = 0; pages && i < count; i++) {
		json_t *of = json_array_get(list, i);

		pages[i].page_bytes = numa_load_u64(load, of, "page_bytes", 0, NUMA_U64_MAX);
		pages[i].total = numa_load_u64(load, of, "total", RUNG_UNKNOWN, NUMA_U64_MAX);
		pages[i].free = numa_load_u64(load, of, "free", RUNG_UNKNOWN, NUMA_U64_MAX);
	}
	node->huge_pages = pages;
	node->huge_page_count = pages ? count : 0;
}

static void load_ratings(struct numa_load *load, json_t *entry, struct rung_topology_node *node)
{
	json_t *list = numa_load_part(load, entry, "rated", JSON_ARRAY, 0);
	const uint32_t count = numa_load_count(load, list, "rated", 16);
	struct rung_memory_rating *ratings = numa_load_block(load, count, sizeof(*ratings));

	for (uint32_t i = 0; ratings && i < count; i++) {
		json_t *of = json_array_get(list, i);

		ratings[i] = (struct rung_memory_rating){
			numa_load_u32(load, of, "access"),
			numa_load_list(load, of, "from_nodes"),
			numa_load_u64(load, of, "read_bytes_per_s", RUNG_UNKNOWN, NUMA_U64_MAX),
			numa_load_u64(load, of, "write_bytes_per_s", RUNG_UNKNOWN, NUMA_U64_MAX),
			numa_load_u64(load, of, "read_latency_ns", RUNG_UNKNOWN, NUMA_U64_MAX),
			numa_load_u64(load, of, "write_latency_ns", RUNG_UNKNOWN, NUMA_U64_MAX),
		};
	}
	node->ratings = ratings;
	node->rating_count = ratings ? count : 0;
}

static void load_node(struct numa_load *load, json_t *entry, struct rung_topology_node *node)
{
	const int number = numa_load_small(load, entry, "node");

	if (number < 0)
		numa_load_wrong(load, "node", "missing");
	*node = (struct rung_topology_node){
		.node = (uint32_t)number,
		.has_cpu = numa_load_flag(load, entry, "has_cpu") > 0,
		.has_memory = numa_load_flag(load, entry, "has_memory") > 0,
		.cpus = numa_load_list(load, entry, "cpus"),
		.cpus_offline = numa_load_list(load, entry, "cpus_offline"),
		.cpus_allowed = numa_load_list(load, entry, "cpus_allowed"),
		.memory_allowed = numa_load_flag(load, entry, "memory_allowed"),
		.total_bytes =
			numa_load_u64(load, entry, "total_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.free_bytes = numa_load_u64(load, entry, "free_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.available_bytes =
			numa_load_u64(load, entry, "available_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.gpu = numa_load_text(load, entry, "gpu"),
	};
	load_huge_pages(load, entry, node);
	load_ratings(load, entry, node);
}

static void load_device(struct numa_load *load, json_t *entry, enum rung_topology_kind kind,
                        struct rung_topology_device *device)
{
	json_t *pcie = numa_load_part(load, entry, "pcie", JSON_OBJECT, 0);
	const double now = numa_load_real(load, pcie, "gt_per_s"),
		     most = numa_load_real(load, pcie, "gt_per_s_max");

	*device = (struct rung_topology_device){
		.kind = kind,
		.name = numa_load_text(load, entry, kind == RUNG_TOPOLOGY_GPU ? "bus_id" : "name"),
		.bus_id = numa_load_text(load, entry, "bus_id"),
		.vendor = numa_load_text(load, entry, "vendor"),
		.model = numa_load_text(load, entry, "model"),
		.driver = numa_load_text(load, entry, "driver"),
		.controller = numa_load_text(load, entry, "controller"),
		.transport = numa_load_text(load, entry, "transport"),
		.node = numa_load_small(load, entry, "node"),
		.memory_node = numa_load_small(load, entry, "memory_node"),
		.bytes = numa_load_u64(load, entry, "bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.sector_bytes =
			numa_load_u64(load, entry, "sector_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.link = { isnan(now) ? 0 : now, isnan(most) ? 0 : most,
		          numa_load_u32(load, pcie, "width"),
		          numa_load_u32(load, pcie, "width_max") },
	};
	if (!device->name)
		numa_load_wrong(load, kind == RUNG_TOPOLOGY_GPU ? "bus_id" : "name", "missing");
}

/* The position of a link's name in the enumeration. */
static enum rung_link link_of(struct numa_load *load, const char *key, json_t *cell)
{
	if (!cell || json_is_null(cell))
		return RUNG_LINK_UNKNOWN;
	for (int link = RUNG_LINK_SELF; json_is_string(cell) && link <= RUNG_LINK_SYS; link++) {
		if (strcmp(rung_link_name((enum rung_link)link), json_string_value(cell)) == 0)
			return (enum rung_link)link;
	}
	numa_load_wrong(load, key, "has an unknown link");
	return RUNG_LINK_UNKNOWN;
}

/* A matrix of links at (row, column) of all links. @param mirror  nonzero: also from the columns'
 * devices to those of the rows */
static void load_links(struct numa_load *load, json_t *links, const char *key, enum rung_link *into,
                       const size_t at[4], int mirror)
{
	const struct rung_topology_info *info = &load->profile->machine.info;
	const size_t width = (size_t)info->gpu_count + info->nvme_count + info->node_count;
	json_t *rows = numa_load_part(load, links, key, JSON_ARRAY, 0);

	for (size_t row = 0; rows && row < at[1]; row++) {
		for (size_t column = 0; column < at[3]; column++) {
			const enum rung_link link = link_of(
				load, key, json_array_get(json_array_get(rows, row), column));

			into[(at[0] + row) * width + at[2] + column] = link;
			if (mirror)
				into[(at[2] + column) * width + at[0] + row] = link;
		}
	}
}

static void load_matrices(struct numa_load *load, json_t *root)
{
	struct numa_machine *machine = &load->profile->machine;
	const size_t gpus = machine->info.gpu_count, drives = machine->info.nvme_count,
		     nodes = machine->info.node_count, devices = gpus + drives;
	json_t *links = numa_load_part(load, root, "links", JSON_OBJECT, 0),
	       *rows = numa_load_part(load, root, "distances", JSON_ARRAY, 0);
	uint32_t *distances = numa_load_block(load, nodes * nodes, sizeof(*distances));
	enum rung_link *all = numa_load_block(load, devices * (devices + nodes), sizeof(*all));

	if (!distances || !all)
		return;
	for (size_t i = 0; i < nodes * nodes; i++) {
		json_t *cell = json_array_get(json_array_get(rows, i / nodes), i % nodes);
		const json_int_t value = json_integer_value(cell); /* 0: unknown */

		if ((cell && !json_is_null(cell) && !json_is_integer(cell)) || value < 0 ||
		    value > UINT32_MAX)
			numa_load_wrong(load, "distances",
			                "has an entry that is not a valid distance");
		distances[i] = (uint32_t)value;
	}
	load_links(load, links, "gpu_gpu", all, (size_t[]){ 0, gpus, 0, gpus }, 0);
	load_links(load, links, "gpu_nvme", all, (size_t[]){ 0, gpus, gpus, drives }, 1);
	load_links(load, links, "nvme_nvme", all, (size_t[]){ gpus, drives, gpus, drives }, 0);
	load_links(load, links, "gpu_node", all, (size_t[]){ 0, gpus, devices, nodes }, 0);
	load_links(load, links, "nvme_node", all, (size_t[]){ gpus, drives, devices, nodes }, 0);
	machine->distances = distances;
	machine->links = all;
}

void numa_load_topology(struct numa_load *load, json_t *root)
{
	struct numa_machine *machine = &load->profile->machine;
	struct rung_topology_info *info = &machine->info;
	json_t *nodes = numa_load_part(load, root, "nodes", JSON_ARRAY, 1),
	       *gpus = numa_load_part(load, root, "gpus", JSON_ARRAY, 0),
	       *drives = numa_load_part(load, root, "nvme", JSON_ARRAY, 0),
	       *cpus = numa_load_part(load, root, "cpus", JSON_OBJECT, 0),
	       *memory = numa_load_part(load, root, "memory", JSON_OBJECT, 0);
	const uint32_t node_count = numa_load_count(load, nodes, "nodes", RUNG_NODES_MAX),
		       gpu_count = numa_load_count(load, gpus, "gpus", DEVICES_MAX),
		       drive_count = numa_load_count(load, drives, "nvme", DEVICES_MAX);
	struct rung_topology_node *all = numa_load_block(load, node_count, sizeof(*all));
	struct rung_topology_device *devices =
		numa_load_block(load, (size_t)gpu_count + drive_count, sizeof(*devices));

	if (nodes && !node_count)
		numa_load_wrong(load, "nodes", "empty");
	*info = (struct rung_topology_info){
		.numa = numa_load_flag(load, root, "numa") != 0,
		.node_count = node_count,
		.gpu_count = gpu_count,
		.nvme_count = drive_count,
		.cpus = numa_load_list(load, cpus, "online"),
		.cpus_offline = numa_load_list(load, cpus, "offline"),
		.cpus_allowed = numa_load_list(load, cpus, "allowed"),
		.nodes_allowed = numa_load_list(load, memory, "nodes_allowed"),
		.total_bytes =
			numa_load_u64(load, memory, "total_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.available_bytes =
			numa_load_u64(load, memory, "available_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
		.limit_bytes =
			numa_load_u64(load, memory, "limit_bytes", RUNG_UNKNOWN, NUMA_U64_MAX),
	};
	for (uint32_t i = 0; all && i < node_count; i++) {
		numa_load_at(load, "nodes", i);
		load_node(load, json_array_get(nodes, i), &all[i]);
		if (i > 0 && all[i].node <= all[i - 1].node)
			numa_load_wrong(load, "node", "not in ascending order");
	}
	for (uint32_t i = 0; devices && i < gpu_count + drive_count; i++) {
		const int is_gpu = i < gpu_count;

		numa_load_at(load, is_gpu ? "gpus" : "nvme", is_gpu ? i : i - gpu_count);
		load_device(load,
		            json_array_get(is_gpu ? gpus : drives, is_gpu ? i : i - gpu_count),
		            is_gpu ? RUNG_TOPOLOGY_GPU : RUNG_TOPOLOGY_NVME, &devices[i]);
	}
	*load->where = 0;
	machine->nodes = all;
	machine->devices = devices;
	load_matrices(load, root);
}
