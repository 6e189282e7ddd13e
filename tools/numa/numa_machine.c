/* SPDX-License-Identifier: Apache-2.0 */
/* The topology of this machine, or of one that was loaded from a file, for the same writers. */
#include "numa/numa.h"

const struct rung_topology_node *numa_node(const struct numa_machine *machine, size_t idx)
{
	if (machine->topology)
		return rung_topology_node(machine->topology, idx);
	return idx < machine->info.node_count ? &machine->nodes[idx] : NULL;
}

/* Devices of a loaded machine. */
static size_t device_count(const struct numa_machine *machine)
{
	return (size_t)machine->info.gpu_count + machine->info.nvme_count;
}

const struct rung_topology_device *numa_device(const struct numa_machine *machine, size_t idx)
{
	if (machine->topology)
		return rung_topology_device(machine->topology, idx);
	return idx < device_count(machine) ? &machine->devices[idx] : NULL;
}

uint32_t numa_distance(const struct numa_machine *machine, size_t from, size_t to)
{
	if (machine->topology)
		return rung_topology_distance(machine->topology, from, to);
	return machine->distances[from * machine->info.node_count + to];
}

/* A row of `links` has the devices and then the nodes. */
static enum rung_link loaded_link(const struct numa_machine *machine, size_t row, size_t column)
{
	return machine->links[row * (device_count(machine) + machine->info.node_count) + column];
}

enum rung_link numa_link(const struct numa_machine *machine, size_t a, size_t b)
{
	return machine->topology ? rung_topology_link(machine->topology, a, b)
	                         : loaded_link(machine, a, b);
}

enum rung_link numa_node_link(const struct numa_machine *machine, size_t device, size_t node)
{
	return machine->topology ? rung_topology_node_link(machine->topology, device, node)
	                         : loaded_link(machine, device, device_count(machine) + node);
}
