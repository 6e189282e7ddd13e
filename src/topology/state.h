/* SPDX-License-Identifier: Apache-2.0 */
/** The topology's own form, and the steps of reading it: topology.c, then nodes, then devices. */
#ifndef RUNG_TOPOLOGY_STATE_H
#define RUNG_TOPOLOGY_STATE_H

#include "topology/sysfs.h"

struct rung_topology {
	struct rung__arena arena; /* memory of all members below */
	struct rung_topology_info info;
	struct rung_topology_node *nodes;     /* [info.node_count] */
	uint32_t *distances;                  /* [node_count][node_count], 0: not known */
	struct rung_topology_device *devices; /* [gpu_count + nvme_count] */
};

/** Nodes, after the lists of info were read: numa, node_count, nodes, distances, and
 * info.total_bytes where it is not known yet. */
int rung__topology_read_nodes(struct rung__sys *sys, struct rung_topology *topology);

/** "MemTotal:" and "MemFree:" of a meminfo. @return 1, 0 when it is absent, or a failure */
int rung__topology_read_memory(struct rung__sys *sys, const char *path, uint64_t *total_out,
                               uint64_t *free_out);

/** GPUs and NVMe drives, after the nodes. */
int rung__topology_read_devices(struct rung__sys *sys, struct rung_topology *topology);

/** Name of an entry on the PCI bus, "0000:3b:00.0"; of a host bridge, "pci0000:3a". `length` bytes
 * of it count. */
bool rung__is_bus_id(const char *name, size_t length);
bool rung__is_host_bridge(const char *name, size_t length);

/**
 * Link between two PCI devices from their paths alone: PIX, PXB or PHB; UNKNOWN if they are below
 * different host bridges.
 */
enum rung_link rung__pci_link(const char *a, const char *b);

#endif
