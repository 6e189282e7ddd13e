/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topology as JSON. Lists of CPUs and nodes are texts in the format of taskset and numactl;
 * matrices are in the order of the lists. Unknown values are null: every key is always set.
 */
#include <stdlib.h>
#include <string.h>

#include "numa/numa.h"

static json_t *known(uint64_t value)
{
	return value == RUNG_UNKNOWN ? json_null() : tool_json_u64(value);
}

/* null for -1: the kernel does not report a node */
static json_t *node_number(int node)
{
	return node < 0 ? json_null() : json_integer(node);
}

/* As the kernel writes lists: "" for an empty one, instead of the "-" of the tables. */
static json_t *list_json(const struct rung_id_list *list)
{
	char *text = numa_list_text(list);
	json_t *json;

	if (!list->ids)
		return json_null();
	/* NULL without memory: setting it fails, and so does printing the object */
	json = text ? json_string(strcmp(text, "-") == 0 ? "" : text) : NULL;
	free(text);
	return json;
}

/* The machine and the part that this process may use: affinity, cpusets, control groups. */
static void set_machine(json_t *root, const struct rung_topology_info *info)
{
	json_t *cpus = json_object(), *memory = json_object();

	tool_json_set(root, "numa", json_boolean(info->numa));
	tool_json_set(cpus, "online", list_json(&info->cpus));
	tool_json_set(cpus, "offline", list_json(&info->cpus_offline));
	tool_json_set(cpus, "allowed", list_json(&info->cpus_allowed));
	tool_json_set(root, "cpus", cpus);
	tool_json_set(memory, "total_bytes", known(info->total_bytes));
	tool_json_set(memory, "available_bytes", known(info->available_bytes));
	tool_json_set(memory, "limit_bytes", known(info->limit_bytes));
	tool_json_set(memory, "nodes_allowed", list_json(&info->nodes_allowed));
	tool_json_set(root, "memory", memory);
}

static json_t *huge_pages_json(const struct rung_topology_node *node)
{
	json_t *array = json_array();

	for (size_t i = 0; i < node->huge_page_count; i++) {
		json_t *pages = json_object();

		tool_json_set(pages, "page_bytes", tool_json_u64(node->huge_pages[i].page_bytes));
		tool_json_set(pages, "total", known(node->huge_pages[i].total));
		tool_json_set(pages, "free", known(node->huge_pages[i].free));
		tool_json_append(array, pages);
	}
	return array;
}

/* The firmware's ratings, which are not measured; an empty list if it has none. */
static json_t *ratings_json(const struct rung_topology_node *node)
{
	json_t *array = json_array();

	for (size_t i = 0; i < node->rating_count; i++) {
		const struct rung_memory_rating *rating = &node->ratings[i];
		json_t *entry = json_object();

		tool_json_set(entry, "access", tool_json_u64(rating->access));
		tool_json_set(entry, "from_nodes", list_json(&rating->initiators));
		tool_json_set(entry, "read_bytes_per_s", known(rating->read_bytes_per_s));
		tool_json_set(entry, "write_bytes_per_s", known(rating->write_bytes_per_s));
		tool_json_set(entry, "read_latency_ns", known(rating->read_latency_ns));
		tool_json_set(entry, "write_latency_ns", known(rating->write_latency_ns));
		tool_json_append(array, entry);
	}
	return array;
}

/* cpu_count is null and not 0 if the list of CPUs is unknown. */
static json_t *node_json(const struct rung_topology_node *node)
{
	json_t *entry = json_object();

	tool_json_set(entry, "node", tool_json_u64(node->node));
	tool_json_set(entry, "has_cpu", json_boolean(node->has_cpu));
	tool_json_set(entry, "has_memory", json_boolean(node->has_memory));
	tool_json_set(entry, "cpu_count",
	              node->cpus.ids ? tool_json_u64(node->cpus.count) : json_null());
	tool_json_set(entry, "cpus", list_json(&node->cpus));
	tool_json_set(entry, "cpus_offline", list_json(&node->cpus_offline));
	tool_json_set(entry, "cpus_allowed", list_json(&node->cpus_allowed));
	tool_json_set(entry, "memory_allowed",
	              node->memory_allowed < 0 ? json_null() : json_boolean(node->memory_allowed));
	tool_json_set(entry, "total_bytes", known(node->total_bytes));
	tool_json_set(entry, "free_bytes", known(node->free_bytes));
	tool_json_set(entry, "available_bytes", known(node->available_bytes));
	tool_json_set(entry, "huge_pages", huge_pages_json(node));
	tool_json_set(entry, "rated", ratings_json(node));
	tool_json_set(entry, "gpu", tool_json_text(node->gpu));
	return entry;
}

/* [from][to] by positions of the nodes, because their numbers may have gaps. */
static json_t *distances_json(const struct rung_topology *topology, size_t count)
{
	json_t *rows = json_array();

	for (size_t from = 0; from < count; from++) {
		json_t *row = json_array();

		for (size_t to = 0; to < count; to++) {
			uint32_t distance = rung_topology_distance(topology, from, to);

			tool_json_append(row, distance ? tool_json_u64(distance) : json_null());
		}
		tool_json_append(rows, row);
	}
	return rows;
}

/* Current and highest speed per lane, and number of lanes; the library has 0 for unknown. */
static json_t *link_json(const struct rung_pcie_link *link)
{
	json_t *entry = json_object();

	tool_json_set(entry, "gt_per_s",
	              link->gt_per_s > 0 ? tool_json_real(link->gt_per_s) : json_null());
	tool_json_set(entry, "width", link->width ? tool_json_u64(link->width) : json_null());
	tool_json_set(entry, "gt_per_s_max",
	              link->gt_per_s_max > 0 ? tool_json_real(link->gt_per_s_max) : json_null());
	tool_json_set(entry, "width_max",
	              link->width_max ? tool_json_u64(link->width_max) : json_null());
	return entry;
}

/* GPUs and drives share the keys from bus_id on. A GPU has no "name": its bus id is its name. */
static json_t *device_json(const struct rung_topology_device *device)
{
	json_t *entry = json_object();

	if (device->kind == RUNG_TOPOLOGY_GPU) {
		tool_json_set(entry, "vendor", tool_json_text(device->vendor));
		tool_json_set(entry, "memory_node", node_number(device->memory_node));
	} else {
		tool_json_set(entry, "name", tool_json_text(device->name));
		tool_json_set(entry, "controller", tool_json_text(device->controller));
		tool_json_set(entry, "transport", tool_json_text(device->transport));
		tool_json_set(entry, "bytes", known(device->bytes));
		tool_json_set(entry, "sector_bytes", known(device->sector_bytes));
	}
	tool_json_set(entry, "bus_id", tool_json_text(device->bus_id));
	tool_json_set(entry, "pci_path", tool_json_text(device->pci_path));
	tool_json_set(entry, "model", tool_json_text(device->model));
	tool_json_set(entry, "driver", tool_json_text(device->driver));
	tool_json_set(entry, "node", node_number(device->node));
	tool_json_set(entry, "pcie", link_json(&device->link));
	return entry;
}

/* rung_topology_link() between devices, or rung_topology_node_link() from a device to a node */
typedef enum rung_link (*link_between)(const struct rung_topology *topology, size_t a_idx,
                                       size_t b_idx);

/* Rows are the positions from `row` on, columns those from `column` on. In the topology's list of
 * devices the GPUs come first, then the drives. */
static json_t *links_json(const struct rung_topology *topology, link_between between, size_t row,
                          size_t row_count, size_t column, size_t column_count)
{
	json_t *rows = json_array();

	for (size_t a = row; a < row + row_count; a++) {
		json_t *cells = json_array();

		for (size_t b = column; b < column + column_count; b++) {
			enum rung_link link = between(topology, a, b);

			tool_json_append(cells, link == RUNG_LINK_UNKNOWN
			                                ? json_null()
			                                : json_string(rung_link_name(link)));
		}
		tool_json_append(rows, cells);
	}
	return rows;
}

void numa_topology_json(json_t *root, const struct rung_topology *topology)
{
	struct rung_topology_info info = { .size = sizeof(info) };
	json_t *nodes = json_array(), *gpus = json_array(), *nvme = json_array(),
	       *links = json_object();
	const struct rung_topology_device *device;
	const struct rung_topology_node *node;

	rung_topology_info(topology, &info);
	set_machine(root, &info);
	for (size_t i = 0; (node = rung_topology_node(topology, i)) != NULL; i++)
		tool_json_append(nodes, node_json(node));
	for (size_t i = 0; (device = rung_topology_device(topology, i)) != NULL; i++)
		tool_json_append(device->kind == RUNG_TOPOLOGY_GPU ? gpus : nvme,
		                 device_json(device));
	tool_json_set(root, "nodes", nodes);
	tool_json_set(root, "distances", distances_json(topology, info.node_count));
	tool_json_set(root, "gpus", gpus);
	tool_json_set(root, "nvme", nvme);
	tool_json_set(
		links, "gpu_gpu",
		links_json(topology, rung_topology_link, 0, info.gpu_count, 0, info.gpu_count));
	tool_json_set(links, "gpu_nvme",
	              links_json(topology, rung_topology_link, 0, info.gpu_count, info.gpu_count,
	                         info.nvme_count));
	tool_json_set(links, "nvme_nvme",
	              links_json(topology, rung_topology_link, info.gpu_count, info.nvme_count,
	                         info.gpu_count, info.nvme_count));
	tool_json_set(links, "gpu_node",
	              links_json(topology, rung_topology_node_link, 0, info.gpu_count, 0,
	                         info.node_count));
	tool_json_set(links, "nvme_node",
	              links_json(topology, rung_topology_node_link, info.gpu_count, info.nvme_count,
	                         0, info.node_count));
	tool_json_set(root, "links", links);
}
