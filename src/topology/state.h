/* SPDX-License-Identifier: Apache-2.0 */
/** The internal form of the topology, and the steps of reading it: topology.c, then
 * topology_nodes.c, then topology_devices.c. */
#ifndef RUNG_TOPOLOGY_STATE_H
#define RUNG_TOPOLOGY_STATE_H

#include "topology/sysfs.h"

struct rung_topology {
	struct rung__arena arena; /* memory of all members below, which is freed as a whole */
	struct rung_topology_info info;
	struct rung_topology_node *nodes; /* [info.node_count] */
	uint32_t *distances;              /* [node_count][node_count] by position, 0: not known */
	struct rung_topology_device *devices; /* [gpu_count + nvme_count], GPUs first */
};

/** Read the nodes, after the lists of info: numa, node_count, nodes, distances, and
 * info.total_bytes if it is not known yet. */
int rung__topology_read_nodes(struct rung__sys *sys, struct rung_topology *topology);

/** "MemTotal:" and "MemFree:" of a meminfo file, in bytes.
 * @return 1, 0 when the file is absent, or a failure */
int rung__topology_read_memory(struct rung__sys *sys, const char *path, uint64_t *total_out,
                               uint64_t *free_out);

/** Read GPUs and NVMe drives, after the nodes, because a GPU's memory can be a node. */
int rung__topology_read_devices(struct rung__sys *sys, struct rung_topology *topology);

/** Whether `length` bytes are the name of an entry on the PCI bus, "0000:3b:00.0", or of a host
 * bridge, "pci0000:3a". */
bool rung__is_bus_id(const char *name, size_t length);
bool rung__is_host_bridge(const char *name, size_t length);

/**
 * Link between two PCI devices from their paths alone: PIX, PXB or PHB; UNKNOWN if they are below
 * different host bridges.
 */
enum rung_link rung__pci_link(const char *a, const char *b);

#endif
