/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topology of a machine: properties of the whole machine, and queries. topology_nodes.c and
 * topology_devices.c read the rest. A topology does not change after rung_topology_load(), so any
 * number of threads may query it.
 *
 * All files are read below a root, only through sysfs.c, so recorded and synthetic machines
 * (tests/fixtures/) test combinations that no single machine has. libnuma is not used: it describes
 * only the running machine.
 *
 * A file may be absent, but a malformed one is an error (sysfs.h). All input is bounded: lists must
 * ascend and stay below a limit, files have at most 64 KiB, folders at most 65536 entries, and
 * links must lead into the root's sys/.
 *
 * Numbers are not positions in arrays. Node numbers have gaps, and some devices have no node;
 * functions that accept positions document it.
 *
 * Links between devices follow from the PCI path of a device's folder with all links resolved. The
 * last part that two paths share is a bridge (PIX, PXB) or a host bridge (PHB). If they share none,
 * their nodes decide (NODE, SYS).
 */
#include <string.h>

#include "base/base.h"
#include "topology/state.h"

/* Read the CPUs of the machine, and the CPUs and nodes that this process may use: the kernel
 * combines its affinity and all cpusets above it in one file. */
static int read_machine(struct rung__sys *sys, struct rung_topology_info *info)
{
	struct rung_id_list present = { NULL, 0 };
	int rc = rung__sys_ids(sys, RUNG__CPUS_MAX, &info->cpus, "sys/devices/system/cpu/online");

	if (rc >= 0)
		rc = rung__sys_ids(sys, RUNG__CPUS_MAX, &present, "sys/devices/system/cpu/present");
	if (rc >= 0)
		rc = rung__ids_without(sys->arena, &present, &info->cpus, &info->cpus_offline);
	if (rc >= 0)
		rc = rung__sys_read(sys, "proc/self/status");
	if (rc > 0)
		rc = rung__sys_field_ids(sys, "Cpus_allowed_list:", RUNG__CPUS_MAX,
		                         &info->cpus_allowed);
	if (rc > 0)
		rc = rung__sys_field_ids(sys, "Mems_allowed_list:", RUNG_NODES_MAX,
		                         &info->nodes_allowed);
	if (rc >= 0 && info->cpus.ids) /* the allowed CPUs include offline ones */
		rc = rung__ids_both(sys->arena, &info->cpus_allowed, &info->cpus,
		                    &info->cpus_allowed);
	return rc < 0 ? rc : 0;
}

/* Read total and available memory of the machine, and the limit of the control group. */
static int read_memory(struct rung__sys *sys, struct rung_topology_info *info)
{
	uint64_t unused;
	int rc = rung__topology_read_memory(sys, "proc/meminfo", &info->total_bytes, &unused);

	if (rc > 0)
		info->available_bytes = rung__host_memory_free(sys->root);
	info->limit_bytes = rung__host_memory_limit(sys->root);
	return rc < 0 ? rc : 0;
}

/* The order matters: nodes need the CPUs and the allowed lists of the machine, devices need the
 * nodes. */
static int load(const char *root, struct rung__sys *sys, struct rung_topology *topology)
{
	struct rung_topology_info *info = &topology->info;
	int rc = rung__sys_begin(sys, root, &topology->arena);

	if (rc >= 0)
		rc = read_machine(sys, info);
	if (rc >= 0)
		rc = read_memory(sys, info);
	if (rc >= 0)
		rc = rung__topology_read_nodes(sys, topology);
	if (rc >= 0)
		rc = rung__topology_read_devices(sys, topology);
	return rc < 0 ? rc : 0;
}

int rung_topology_load(const char *root, struct rung_topology **topology_out)
{
	struct rung_topology *topology = rung__zalloc(sizeof(*topology));
	/* not on the stack, because it has 72 KiB, more than a thread with a small stack can
	 * spare */
	struct rung__sys *sys = rung__zalloc(sizeof(*sys));
	int rc;

	if (!topology || !sys) {
		rc = rung__fail(RUNG_E_NOMEM, "topology: out of memory");
		goto destroy;
	}
	topology->info = (struct rung_topology_info){ .size = sizeof(topology->info),
		                                      .total_bytes = RUNG_UNKNOWN,
		                                      .available_bytes = RUNG_UNKNOWN };
	rc = load(root ? root : "", sys, topology);
	if (rc < 0)
		goto destroy;
	rung__free(sys);
	*topology_out = topology;
	return 0;
destroy:
	rung__free(sys);
	rung_topology_destroy(topology);
	return rc;
}

void rung_topology_destroy(struct rung_topology *topology)
{
	if (!topology)
		return;
	rung__arena_free(&topology->arena);
	rung__free(topology);
}

int rung_topology_info(const struct rung_topology *topology, struct rung_topology_info *info_out)
{
	return rung__opts_copy_out(info_out, &topology->info, sizeof(topology->info),
	                           "rung_topology_info");
}

/* GPUs and drives together, in the order of topology->devices. */
static size_t device_count(const struct rung_topology *topology)
{
	return (size_t)topology->info.gpu_count + topology->info.nvme_count;
}

const struct rung_topology_node *rung_topology_node(const struct rung_topology *topology,
                                                    size_t idx)
{
	return idx < topology->info.node_count ? &topology->nodes[idx] : NULL;
}

const struct rung_topology_device *rung_topology_device(const struct rung_topology *topology,
                                                        size_t idx)
{
	return idx < device_count(topology) ? &topology->devices[idx] : NULL;
}

uint32_t rung_topology_distance(const struct rung_topology *topology, size_t from_idx,
                                size_t to_idx)
{
	size_t count = topology->info.node_count;

	return from_idx < count && to_idx < count ? topology->distances[from_idx * count + to_idx]
	                                          : 0;
}

/* ---- links ---- */

const char *rung_link_name(enum rung_link link)
{
	static const char *const names[] = {
		[RUNG_LINK_UNKNOWN] = "?", [RUNG_LINK_SELF] = "X",  [RUNG_LINK_PIX] = "PIX",
		[RUNG_LINK_PXB] = "PXB",   [RUNG_LINK_PHB] = "PHB", [RUNG_LINK_NODE] = "NODE",
		[RUNG_LINK_SYS] = "SYS",
	};

	return (unsigned)link < RUNG__ARRAY_LEN(names) ? names[link] : "?";
}

/* Paths are compared part by part, without copying the parts. */
static size_t part_length(const char *path)
{
	return strcspn(path, "/");
}

static const char *next_part(const char *path)
{
	path += part_length(path);
	return *path ? path + 1 : path;
}

static unsigned part_count(const char *path)
{
	unsigned count = 0;

	for (; *path; path = next_part(path))
		count++;
	return count;
}

/*
 * A path consists of a host bridge, bridges and a device. A switch is two bridges deep: its
 * upstream port, and one downstream port per device. After the last bridge that both paths share, a
 * device of the same switch has one more bridge, and a device of a nested switch has three.
 */
enum rung_link rung__pci_link(const char *a, const char *b)
{
	const char *shared = NULL;

	while (*a && part_length(a) == part_length(b) && strncmp(a, b, part_length(a)) == 0) {
		shared = a;
		a = next_part(a);
		b = next_part(b);
	}
	if (!shared)
		return RUNG_LINK_UNKNOWN;
	if (rung__is_host_bridge(shared, part_length(shared)))
		return RUNG_LINK_PHB;
	return part_count(a) <= 2 && part_count(b) <= 2 ? RUNG_LINK_PIX : RUNG_LINK_PXB;
}

/* Node of a device, or -1. On a machine with one node every device is at that node, although the
 * kernel does not report it. */
static int node_of(const struct rung_topology *topology, const struct rung_topology_device *device)
{
	return device->node < 0 && topology->info.node_count == 1 ? (int)topology->nodes[0].node
	                                                          : device->node;
}

enum rung_link rung_topology_link(const struct rung_topology *topology, size_t a_idx, size_t b_idx)
{
	const struct rung_topology_device *a = rung_topology_device(topology, a_idx);
	const struct rung_topology_device *b = rung_topology_device(topology, b_idx);
	enum rung_link link;

	if (!a || !b)
		return RUNG_LINK_UNKNOWN;
	if (a == b)
		return RUNG_LINK_SELF;
	if (!a->pci_path || !b->pci_path)
		return RUNG_LINK_UNKNOWN;
	link = rung__pci_link(a->pci_path, b->pci_path);
	/* a shared bridge is nearer than any relation of nodes */
	if (link != RUNG_LINK_UNKNOWN)
		return link;
	if (node_of(topology, a) < 0 || node_of(topology, b) < 0)
		return RUNG_LINK_UNKNOWN;
	return node_of(topology, a) == node_of(topology, b) ? RUNG_LINK_NODE : RUNG_LINK_SYS;
}

enum rung_link rung_topology_node_link(const struct rung_topology *topology, size_t device_idx,
                                       size_t node_idx)
{
	const struct rung_topology_device *device = rung_topology_device(topology, device_idx);
	const struct rung_topology_node *node = rung_topology_node(topology, node_idx);

	if (!device || !node || !device->pci_path)
		return RUNG_LINK_UNKNOWN;
	/* the node is the GPU's own memory */
	if (device->memory_node == (int)node->node)
		return RUNG_LINK_SELF;
	if (node_of(topology, device) < 0)
		return RUNG_LINK_UNKNOWN;
	return node_of(topology, device) == (int)node->node ? RUNG_LINK_NODE : RUNG_LINK_SYS;
}
