/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NUMA nodes: CPUs, memory, huge pages, firmware ratings, distances. Nodes are read by their
 * numbers in the kernel's list of online nodes, because the numbers can have gaps. Values that the
 * kernel does not report stay unknown.
 */
#include <stdio.h>
#include <string.h>

#include "topology/state.h"

#define NODES          "sys/devices/system/node"
#define PAGE_SIZES_MAX 16u  /* huge page sizes of one node; arm64 has four */
#define RATINGS_MAX    2u   /* access classes: 0 for the nearest initiator, 1 for the nearest CPU */
#define DISTANCE_MAX   255u /* a distance is one byte in the firmware's table */

static int no_memory(void)
{
	return rung__fail(RUNG_E_NOMEM, "topology: out of memory");
}

/* ---- memory ---- */

/* A field of the meminfo that was read last, in bytes. It must exist. @return 1 or a failure */
static int field_bytes(struct rung__sys *sys, const char *key, uint64_t *bytes_out)
{
	const char *value;
	uint64_t kib;
	int rc = rung__sys_field(sys, key, &value);

	if (rc < 0)
		return rc;
	if (rc == 0)
		return rung__sys_bad(sys, sys->text, "a meminfo: it lacks MemTotal or MemFree");
	if (!value || !rung__number_of_text(value, 10, UINT64_MAX / 1024, " kB", &kib))
		return rung__sys_bad(sys, value ? value : "", "an amount of memory in kB");
	*bytes_out = kib * 1024;
	return 1;
}

int rung__topology_read_memory(struct rung__sys *sys, const char *path, uint64_t *total_out,
                               uint64_t *free_out)
{
	int rc = rung__sys_read(sys, "%s", path);

	if (rc > 0)
		rc = field_bytes(sys, "MemTotal:", total_out);
	if (rc > 0)
		rc = field_bytes(sys, "MemFree:", free_out);
	return rc;
}

/*
 * Add up the available memory from the meminfo that was read last: unused memory, and the page
 * cache and kernel caches that can be reclaimed. The kernel reports MemAvailable only for the whole
 * machine, not for nodes.
 */
static int add_up_available(struct rung__sys *sys, struct rung_topology_node *node)
{
	static const char *const caches[] = { "Active(file):", "Inactive(file):", "SReclaimable:" };
	uint64_t sum = node->free_bytes;

	for (size_t i = 0; i < RUNG__ARRAY_LEN(caches); i++) {
		const char *value;
		uint64_t bytes;
		int rc = rung__sys_field(sys, caches[i], &value);

		if (rc > 0)
			rc = field_bytes(sys, caches[i], &bytes);
		if (rc < 0)
			return rc;
		if (rc > 0 && !rung__add(sum, bytes, &sum))
			return rung__sys_bad(sys, value, "less memory than 2^64 bytes in total");
	}
	node->available_bytes = sum;
	return 0;
}

static int read_node_memory(struct rung__sys *sys, const char *path,
                            struct rung_topology_node *node)
{
	int rc = rung__topology_read_memory(sys, path, &node->total_bytes, &node->free_bytes);

	return rc > 0 ? add_up_available(sys, node) : rc;
}

/* Read the pool of each huge page size.
 * @param folder  of a node or of the whole machine; it has one folder per page size */
static int read_huge_pages(struct rung__sys *sys, const char *folder,
                           struct rung_topology_node *node)
{
	struct rung_id_list kib = { NULL, 0 };
	struct rung_huge_pages *pages;
	int rc = rung__sys_numbered(sys, "hugepages-", "kB", UINT32_MAX, &kib, "%s", folder);

	if (rc < 0)
		return rc;
	if (kib.count > PAGE_SIZES_MAX)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: has %" PRIu32 " page sizes; at most %u are supported",
		                  sys->path, kib.count, PAGE_SIZES_MAX);
	pages = rung__arena_alloc(sys->arena, kib.count, sizeof(*pages));
	if (!pages)
		return no_memory();
	for (uint32_t i = 0; i < kib.count; i++) {
		pages[i] = (struct rung_huge_pages){ kib.ids[i] * UINT64_C(1024), RUNG_UNKNOWN,
			                             RUNG_UNKNOWN };
		rc = rung__sys_number(sys, 10, UINT64_MAX - 1, &pages[i].total,
		                      "%s/hugepages-%" PRIu32 "kB/nr_hugepages", folder,
		                      kib.ids[i]);
		if (rc >= 0)
			rc = rung__sys_number(sys, 10, UINT64_MAX - 1, &pages[i].free,
			                      "%s/hugepages-%" PRIu32 "kB/free_hugepages", folder,
			                      kib.ids[i]);
		if (rc < 0)
			return rc;
	}
	node->huge_pages = pages;
	node->huge_page_count = kib.count;
	return 0;
}

/* ---- ratings ---- */

/* Read one rating, in units of `unit`. The firmware reports 0 for unknown values. */
static int read_rate(struct rung__sys *sys, uint32_t node, uint32_t access, const char *name,
                     uint64_t unit, uint64_t *rate_out)
{
	uint64_t number = 0;
	int rc = rung__sys_number(sys, 10, (UINT64_MAX - 1) / unit, &number,
	                          NODES "/node%" PRIu32 "/access%" PRIu32 "/initiators/%s", node,
	                          access, name);

	*rate_out = rc > 0 && number > 0 ? number * unit : RUNG_UNKNOWN;
	return rc;
}

/* Whether any value of a rating is known. */
static bool has_text(const struct rung_memory_rating *rating)
{
	return rating->read_bytes_per_s != RUNG_UNKNOWN ||
	       rating->write_bytes_per_s != RUNG_UNKNOWN ||
	       rating->read_latency_ns != RUNG_UNKNOWN || rating->write_latency_ns != RUNG_UNKNOWN;
}

/* Read the ratings that the firmware (ACPI HMAT) has for a node's memory. A class without any value
 * is overwritten by the next one. */
static int read_ratings(struct rung__sys *sys, struct rung_topology_node *node)
{
	struct rung_memory_rating *ratings =
		rung__arena_alloc(sys->arena, RATINGS_MAX, sizeof(*ratings));

	if (!ratings)
		return no_memory();
	for (uint32_t access = 0; access < RATINGS_MAX; access++) {
		struct rung_memory_rating *rating = &ratings[node->rating_count];
		int rc;

		*rating = (struct rung_memory_rating){ .access = access };
		rc = rung__sys_numbered(sys, "node", "", RUNG_NODES_MAX, &rating->initiators,
		                        NODES "/node%" PRIu32 "/access%" PRIu32 "/initiators",
		                        node->node, access);
		if (rc >= 0) /* bandwidths are in MiB/s */
			rc = read_rate(sys, node->node, access, "read_bandwidth", 1 << 20,
			               &rating->read_bytes_per_s);
		if (rc >= 0)
			rc = read_rate(sys, node->node, access, "write_bandwidth", 1 << 20,
			               &rating->write_bytes_per_s);
		if (rc >= 0)
			rc = read_rate(sys, node->node, access, "read_latency", 1,
			               &rating->read_latency_ns);
		if (rc >= 0)
			rc = read_rate(sys, node->node, access, "write_latency", 1,
			               &rating->write_latency_ns);
		if (rc < 0)
			return rc;
		node->rating_count += has_text(rating);
	}
	node->ratings = ratings;
	return 0;
}

/* ---- distances ---- */

/* Read one row of the table of distances. The file has one number per online node, in the order of
 * the nodes; another count would assign distances to the wrong nodes, so it is an error. */
static int read_distances(struct rung__sys *sys, uint32_t node, uint32_t *row, size_t count)
{
	int rc = rung__sys_read(sys, NODES "/node%" PRIu32 "/distance", node);
	char *rest = sys->text, *word;
	uint64_t number;
	size_t got = 0;

	if (rc <= 0)
		return rc;
	while ((word = strsep(&rest, " ")) != NULL) {
		if (!*word)
			continue;
		if (!rung__number_of_text(word, 10, DISTANCE_MAX, "", &number))
			return rung__sys_bad(sys, word, "a distance up to 255");
		if (got < count)
			row[got] = (uint32_t)number;
		got++;
	}
	if (got != count)
		return rung__fail(RUNG_E_FORMAT, "%s: has %zu distances, but %zu nodes are online",
		                  sys->path, got, count);
	return 0;
}

/* ---- nodes ---- */

/* Assign offline CPUs to nodes. The folder of an offline CPU keeps the link to its node, while
 * cpulist has only online CPUs. */
static int read_offline_cpus(struct rung__sys *sys, const struct rung_topology *topology)
{
	const struct rung_id_list *offline = &topology->info.cpus_offline;
	uint32_t *nodes = rung__arena_alloc(sys->arena, offline->count, sizeof(*nodes));

	if (!nodes)
		return no_memory();
	for (uint32_t i = 0; i < offline->count; i++) {
		struct rung_id_list links = { NULL, 0 };
		int rc = rung__sys_numbered(sys, "node", "", RUNG_NODES_MAX, &links,
		                            "sys/devices/system/cpu/cpu%" PRIu32, offline->ids[i]);

		if (rc < 0)
			return rc;
		nodes[i] = links.count > 0 ? links.ids[0] : UINT32_MAX;
	}
	/* if the list of offline CPUs is unknown, so is that of each node */
	for (uint32_t n = 0; offline->ids && n < topology->info.node_count; n++) {
		struct rung_topology_node *node = &topology->nodes[n];
		uint32_t count = 0, *ids;

		for (uint32_t i = 0; i < offline->count; i++)
			count += nodes[i] == node->node;
		ids = rung__arena_alloc(sys->arena, count, sizeof(*ids));
		if (!ids)
			return no_memory();
		node->cpus_offline = (struct rung_id_list){ ids, count };
		for (uint32_t i = 0, at = 0; i < offline->count; i++) {
			if (nodes[i] == node->node)
				ids[at++] = offline->ids[i];
		}
	}
	return 0;
}

static int read_node(struct rung__sys *sys, struct rung_topology_node *node)
{
	char path[96];
	int rc = rung__sys_ids(sys, RUNG__CPUS_MAX, &node->cpus, NODES "/node%" PRIu32 "/cpulist",
	                       node->node);

	snprintf(path, sizeof(path), NODES "/node%" PRIu32 "/meminfo", node->node);
	if (rc >= 0)
		rc = read_node_memory(sys, path, node);
	snprintf(path, sizeof(path), NODES "/node%" PRIu32 "/hugepages", node->node);
	if (rc >= 0)
		rc = read_huge_pages(sys, path, node);
	if (rc >= 0)
		rc = read_ratings(sys, node);
	return rc;
}

/* Set has_cpu and has_memory from the kernel's lists, or from the files of the node if the kernel
 * has no such lists. */
static void classify(struct rung_topology_node *node, const struct rung_id_list *with_cpu,
                     const struct rung_id_list *with_memory)
{
	node->has_cpu = with_cpu->ids ? rung__ids_have(with_cpu, node->node) : node->cpus.count > 0;
	node->has_memory = with_memory->ids
	                           ? rung__ids_have(with_memory, node->node)
	                           : node->total_bytes != RUNG_UNKNOWN && node->total_bytes > 0;
}

/* Allocate `count` nodes whose values are unknown. */
static int alloc_nodes(struct rung__sys *sys, struct rung_topology *topology, uint32_t count)
{
	topology->nodes = rung__arena_alloc(sys->arena, count, sizeof(*topology->nodes));
	topology->distances = rung__arena_alloc(sys->arena, (uint64_t)count * count,
	                                        sizeof(*topology->distances));
	if (!topology->nodes || !topology->distances)
		return no_memory();
	topology->info.node_count = count;
	for (uint32_t n = 0; n < count; n++)
		topology->nodes[n] = (struct rung_topology_node){
			.total_bytes = RUNG_UNKNOWN,
			.free_bytes = RUNG_UNKNOWN,
			.available_bytes = RUNG_UNKNOWN,
		};
	return 0;
}

/* Read all nodes of a machine whose kernel supports NUMA. */
static int read_online_nodes(struct rung__sys *sys, struct rung_topology *topology,
                             const struct rung_id_list *online)
{
	struct rung_id_list with_cpu = { NULL, 0 }, with_memory = { NULL, 0 };
	int rc = rung__sys_ids(sys, RUNG_NODES_MAX, &with_cpu, NODES "/has_cpu");

	if (rc >= 0)
		rc = rung__sys_ids(sys, RUNG_NODES_MAX, &with_memory, NODES "/has_memory");
	if (rc >= 0)
		rc = alloc_nodes(sys, topology, online->count);
	for (uint32_t n = 0; rc >= 0 && n < online->count; n++) {
		struct rung_topology_node *node = &topology->nodes[n];

		node->node = online->ids[n];
		rc = read_node(sys, node);
		if (rc >= 0)
			rc = read_distances(sys, node->node,
			                    topology->distances + (size_t)n * online->count,
			                    online->count);
		classify(node, &with_cpu, &with_memory);
	}
	if (rc >= 0)
		rc = read_offline_cpus(sys, topology);
	topology->info.numa = 1;
	return rc;
}

/* Without NUMA support in the kernel, or in a container that hides it: one node with all CPUs and
 * all memory. */
static int read_whole_machine(struct rung__sys *sys, struct rung_topology *topology)
{
	struct rung_topology_node *node;
	int rc = alloc_nodes(sys, topology, 1);

	if (rc < 0)
		return rc;
	node = &topology->nodes[0];
	node->cpus = topology->info.cpus;
	node->cpus_offline = topology->info.cpus_offline;
	rc = read_node_memory(sys, "proc/meminfo", node);
	if (rc >= 0)
		rc = read_huge_pages(sys, "sys/kernel/mm/hugepages", node);
	node->has_cpu = 1;
	node->has_memory = 1;
	return rc;
}

/* Find the CPUs and the memory of each node that this process may use; -1 if the kernel does not
 * report the allowed nodes. */
static int read_allowed(struct rung__sys *sys, struct rung_topology *topology)
{
	const struct rung_topology_info *info = &topology->info;

	for (uint32_t n = 0; n < info->node_count; n++) {
		struct rung_topology_node *node = &topology->nodes[n];
		int rc = rung__ids_both(sys->arena, &node->cpus, &info->cpus_allowed,
		                        &node->cpus_allowed);

		if (rc < 0)
			return rc;
		node->memory_allowed = info->nodes_allowed.ids
		                               ? rung__ids_have(&info->nodes_allowed, node->node)
		                               : -1;
	}
	return 0;
}

/* Total memory as the sum over the nodes, if /proc/meminfo is absent; unknown if one node is
 * unknown. */
static void add_up(struct rung_topology *topology)
{
	uint64_t sum = 0;

	for (uint32_t n = 0; n < topology->info.node_count; n++) {
		if (topology->nodes[n].total_bytes == RUNG_UNKNOWN ||
		    !rung__add(sum, topology->nodes[n].total_bytes, &sum))
			return;
	}
	topology->info.total_bytes = sum;
}

int rung__topology_read_nodes(struct rung__sys *sys, struct rung_topology *topology)
{
	struct rung_id_list online = { NULL, 0 };
	int rc = rung__sys_ids(sys, RUNG_NODES_MAX, &online, NODES "/online");

	if (rc < 0)
		return rc;
	if (rc > 0 && online.count == 0)
		return rung__sys_bad(sys, sys->text, "a list of online nodes: it is empty");
	if (rc == 0 && !topology->info.cpus.ids)
		return rung__fail(RUNG_E_NOENT,
		                  "%s/sys/devices/system: has neither node/online nor cpu/online; "
		                  "is sysfs mounted?",
		                  sys->root);
	rc = rc > 0 ? read_online_nodes(sys, topology, &online) : read_whole_machine(sys, topology);
	if (rc >= 0)
		rc = read_allowed(sys, topology);
	if (topology->info.total_bytes == RUNG_UNKNOWN)
		add_up(topology);
	return rc;
}
