/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts for placement decisions: the nodes of CPUs and drives, and the memory policy of the
 * process.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "placement/placement.h"
#include "rung_config.h"
#include "topology/sysfs.h"
#if RUNG_HAVE_NUMA
#include <numaif.h>
#endif

#define POLICY_MODES     0xfff /* flags are in higher bits */
#define VOLUME_DEPTH_MAX 4u    /* levels, such as volumes of volumes of partitions of drives */

/* ---- CPUs ---- */

void rung__placement_near_cpus(const struct rung_topology *topology, struct rung__nodes *near_out)
{
	const struct rung_topology_node *node;

	*near_out = (struct rung__nodes){ .bits = { 0 } };
	for (size_t n = 0; (node = rung_topology_node(topology, n)) != NULL; n++) {
		if (node->cpus_allowed.ids ? node->cpus_allowed.count > 0 : node->has_cpu)
			rung__nodes_add(near_out, node->node);
	}
}

/* ---- policy of the process ---- */

enum rung__policy rung__placement_policy(struct rung__nodes *only_out)
{
#if RUNG_HAVE_NUMA
	unsigned long mask[RUNG_NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };
	int mode = MPOL_DEFAULT;

	/* if the kernel refuses this call (seccomp), it refuses mbind() too */
	if (get_mempolicy(&mode, mask, RUNG_NODES_MAX + 1, NULL, 0) < 0)
		return RUNG__POLICY_NONE;
	mode &= POLICY_MODES;
	if (mode == MPOL_BIND) {
		memcpy(only_out->bits, mask, sizeof(mask));
		return RUNG__POLICY_BOUND;
	}
	return mode == MPOL_DEFAULT || mode == MPOL_LOCAL ? RUNG__POLICY_NONE : RUNG__POLICY_OTHER;
#else
	(void)only_out;
	return RUNG__POLICY_NONE;
#endif
}

/* ---- drives ---- */

/* Find the node of the PCI device above a block device; *node_out is unchanged if none of the
 * folders above reports it. */
static int find_above(struct rung__sys *sys, char *folder, int32_t *node_out)
{
	for (char *cut; (cut = strrchr(folder, '/')) != NULL && strchr(folder, '/') != cut;
	     *cut = 0) {
		uint64_t number;
		int rc = rung__sys_read(sys, "%s/numa_node", folder);

		if (rc == RUNG_E_NOMEM)
			return rc;
		if (rc > 0 &&
		    rung__number_of_text(sys->text, 10, RUNG_NODES_MAX - 1, "", &number)) {
			*node_out = (int32_t)number;
			return 0;
		}
	}
	return 0;
}

static bool any_name(const char *name)
{
	return name[0] != '.';
}

static int find_device(struct rung__sys *sys, const struct rung_topology *topology,
                       const char *placement, unsigned depth, int32_t *node_out);

/* The node of a volume that spans several devices, if all of them have the same node. */
static int find_volume(struct rung__sys *sys, const struct rung_topology *topology,
                       const char *const *names, size_t count, unsigned depth, int32_t *node_out)
{
	int32_t first = -1;

	for (size_t i = 0; i < count; i++) {
		int32_t node = -1;
		const char *placement;
		int rc = rung__sys_location(sys, &placement, "sys/class/block/%s", names[i]);

		if (rc > 0 && depth < VOLUME_DEPTH_MAX)
			rc = find_device(sys, topology, placement, depth + 1, &node);
		if (rc == RUNG_E_NOMEM)
			return rc;
		if (node < 0 || (i > 0 && node != first))
			return 0;
		first = node;
	}
	*node_out = first;
	return 0;
}

/* Look up an NVMe namespace in the topology. A namespace with several controllers is in the folder
 * of none of them; the topology has found one of them. */
static bool find_nvme(const struct rung_topology *topology, const char *name, int32_t *node_out)
{
	const struct rung_topology_device *device;

	for (size_t i = 0; (device = rung_topology_device(topology, i)) != NULL; i++) {
		if (device->kind == RUNG_TOPOLOGY_NVME && strcmp(device->name, name) == 0) {
			*node_out = device->node;
			return true;
		}
	}
	return false;
}

static int find_device(struct rung__sys *sys, const struct rung_topology *topology,
                       const char *placement, unsigned depth, int32_t *node_out)
{
	char folder[PATH_MAX];
	const char *const *names;
	size_t count;
	int rc;

	strcpy(folder, placement); /* fits: realpath() returned at most PATH_MAX bytes */
	rc = rung__sys_read(sys, "%s/partition", folder);
	if (rc == RUNG_E_NOMEM)
		return rc;
	if (rc > 0)
		*strrchr(folder, '/') = 0;
	if (find_nvme(topology, strrchr(folder, '/') + 1, node_out))
		return 0;
	rc = rung__sys_names(sys, any_name, &names, &count, "%s/slaves", folder);
	if (rc == RUNG_E_NOMEM)
		return rc;
	return rc == 0 && count > 0 ? find_volume(sys, topology, names, count, depth, node_out)
	                            : find_above(sys, folder, node_out);
}

/* A device without any information has an unknown node, whatever the reason: the store works
 * without it. */
int rung__placement_drive(const struct rung_topology *topology, int fd, int32_t *node_out)
{
	struct rung__sys *sys = rung__zalloc(sizeof(*sys));
	struct rung__arena arena = { NULL };
	const char *placement;
	struct stat st;
	int rc;

	*node_out = -1;
	if (!sys)
		return rung__fail(RUNG_E_NOMEM, "no memory to find the NUMA node of a drive");
	rc = rung__sys_begin(sys, rung__machine_root, &arena);
	if (rc == 0 && fstat(fd, &st) == 0)
		rc = rung__sys_location(sys, &placement, "sys/dev/block/%u:%u", major(st.st_dev),
		                        minor(st.st_dev));
	if (rc > 0)
		rc = find_device(sys, topology, placement, 0, node_out);
	rung__arena_free(&arena);
	rung__free(sys);
	return rc == RUNG_E_NOMEM ? rc : 0;
}

/* ---- whether there is anything to place ---- */

static void set_why(struct rung__placement_set *placements, const char *why)
{
	snprintf(placements->why, sizeof(placements->why), "%s", why);
}

/* Whether memory can be placed. That includes a process that may use only one of several nodes: its
 * memory is bound to it, so that the check reports memory that does not fit. */
static bool has_nodes(const struct rung_topology *topology, const struct rung__nodes *only)
{
	const struct rung_topology_node *node;
	struct rung__node_budgets budgets;
	uint32_t count = 0;

	for (size_t n = 0; (node = rung_topology_node(topology, n)) != NULL; n++)
		count += node->has_memory && !node->gpu;
	rung__node_budgets_find(topology, only, &budgets);
	return budgets.count > 1 || (budgets.count == 1 && count > 1);
}

int rung__placement_set_begin(struct rung__placement_set *placements, struct rung__nodes *only,
                              const struct rung__nodes **only_out,
                              struct rung_topology **topology_out)
{
	enum rung__policy policy =
		placements->requested_node < 0 ? rung__placement_policy(only) : RUNG__POLICY_NONE;
	int rc;

	*topology_out = NULL;
	*only_out = policy == RUNG__POLICY_BOUND ? only : NULL;
	placements->why[0] = 0;
	if (placements->off) {
		set_why(placements, "the plan leaves it to the kernel");
		return 0;
	}
	rc = rung_topology_load(rung__machine_root, topology_out);
	if (rc == RUNG_E_NOMEM)
		return rc;
	if (rc < 0)
		set_why(placements, rung_last_error());
	else if (policy == RUNG__POLICY_OTHER)
		set_why(placements,
		        "the process has a memory policy (numactl), which stays in effect");
	else if (placements->requested_node < 0 && !has_nodes(*topology_out, *only_out))
		set_why(placements, "there is one NUMA node");
	else
		return 0;
	rung_topology_destroy(*topology_out);
	*topology_out = NULL;
	return 0;
}
