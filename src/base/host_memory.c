/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free host memory and threads: the kernel's own estimate, and the limits of the control groups of
 * this process. In a container the estimate is that of the whole machine, and the limit is much
 * lower. Both versions of control groups are read, because a machine may use either, or both. A
 * file that cannot be read counts as no limit.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

const char *rung__machine_root = "";

/* version 1 reports "no limit" as the largest number of whole pages in 63 bits */
#define NO_LIMIT (UINT64_C(1) << 62)

/* Read a number from a file. `root` is "" or, in tests, the folder of a recorded machine. */
static bool read_u64(const char *root, const char *path, uint64_t *value_out)
{
	char name[512];
	unsigned long long value;
	FILE *file;
	bool ok;

	snprintf(name, sizeof(name), "%s%s", root, path);
	file = fopen(name, "re");
	if (!file)
		return false;
	ok = fscanf(file, "%llu", &value) == 1; /* "max" is not a number: no limit */
	fclose(file);
	if (ok)
		*value_out = value;
	return ok;
}

/* MemAvailable in bytes: free memory, and caches that the kernel can reclaim. 0: unknown. */
static uint64_t mem_available(const char *root)
{
	unsigned long long kib;
	char name[512], line[256];
	uint64_t bytes = 0;
	FILE *file;

	snprintf(name, sizeof(name), "%s/proc/meminfo", root);
	file = fopen(name, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			bytes = (uint64_t)kib * 1024;
	}
	fclose(file);
	return bytes;
}

/* The path of this process's group in a hierarchy, from /proc/self/cgroup: "0::/a/b" (v2) or
 * "5:memory:/a/b" (v1). The path of the root group is "", so that a file name can be appended. */
static bool group_path(const char *root, bool v2, const char *controller, char *path,
                       size_t path_bytes)
{
	char name[512], line[512];
	bool found = false;
	FILE *file;

	snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
	file = fopen(name, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;

		line[strcspn(line, "\n")] = 0;
		if (!group)
			continue;
		*group++ = 0;
		controllers++;
		if (v2 ? controllers[0] == 0 : strcmp(controllers, controller) == 0) {
			snprintf(path, path_bytes, "%s", strcmp(group, "/") == 0 ? "" : group);
			found = true;
		}
	}
	fclose(file);
	return found;
}

/* Page cache of a group in bytes, from memory.stat. The group's usage includes the page cache,
 * which the kernel reclaims before the limit is reached. In v1 only the total_ fields include child
 * groups. */
static uint64_t group_caches(const char *root, const char *folder, bool v2)
{
	char name[512], line[128], key[64];
	unsigned long long value;
	uint64_t sum = 0;
	FILE *file;

	snprintf(name, sizeof(name), "%s%s/memory.stat", root, folder);
	file = fopen(name, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %llu", key, &value) != 2)
			continue;
		if (strcmp(key, v2 ? "active_file" : "total_active_file") == 0 ||
		    strcmp(key, v2 ? "inactive_file" : "total_inactive_file") == 0)
			sum += value;
	}
	fclose(file);
	return sum;
}

/* Files of a controller in the folder of a group; v1 has a hierarchy with its name. */
struct controller {
	const char *name, *limit_v1, *usage_v1, *limit_v2, *usage_v2;
	bool reclaims; /* page cache is part of the usage */
};

static const struct controller memory = {
	"memory",     "memory.limit_in_bytes", "memory.usage_in_bytes",
	"memory.max", "memory.current",        true
};
static const struct controller threads = { "pids",     "pids.max",     "pids.current",
	                                   "pids.max", "pids.current", false };

struct group_limits {
	uint64_t limit, free; /* UINT64_MAX: no limit */
};

/* The lowest limit of this group and its parents, and the least that is still free under any
 * of these limits. The two may belong to different groups, because the usage of a parent includes
 * that of siblings. */
static struct group_limits group_limits(const char *root, bool v2,
                                        const struct controller *controller)
{
	const char *limit_file = v2 ? controller->limit_v2 : controller->limit_v1;
	const char *usage_file = v2 ? controller->usage_v2 : controller->usage_v1;
	struct group_limits least = { UINT64_MAX, UINT64_MAX };
	char group[384];

	if (!group_path(root, v2, controller->name, group, sizeof(group)))
		return least;
	for (;;) { /* from the group up to the root */
		uint64_t limit, usage;
		char *slash;
		char folder[448], name[480];

		snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s%s%s", v2 ? "" : "/",
		         v2 ? "" : controller->name, group);
		snprintf(name, sizeof(name), "%s/%s", folder, limit_file);
		if (read_u64(root, name, &limit) && limit < NO_LIMIT) {
			least.limit = RUNG__MIN(least.limit, limit);
			snprintf(name, sizeof(name), "%s/%s", folder, usage_file);
			if (read_u64(root, name, &usage)) {
				if (controller->reclaims)
					usage -= RUNG__MIN(usage, group_caches(root, folder, v2));
				least.free =
					RUNG__MIN(least.free, limit > usage ? limit - usage : 0);
			}
		}
		slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

uint64_t rung__host_memory_free(const char *root)
{
	uint64_t available = mem_available(root);

	available = RUNG__MIN(available, group_limits(root, true, &memory).free);
	return RUNG__MIN(available, group_limits(root, false, &memory).free);
}

uint64_t rung__host_memory_limit(const char *root)
{
	return RUNG__MIN(group_limits(root, true, &memory).limit,
	                 group_limits(root, false, &memory).limit);
}

uint64_t rung__host_memory_budget(const char *root)
{
	const long pages = sysconf(_SC_PHYS_PAGES);
	const uint64_t free_bytes = rung__host_memory_free(root);
	/* 1 GiB if the size of RAM is unknown */
	const uint64_t quarter = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) / 4
	                                   : UINT64_C(1) << 30;

	return free_bytes ? RUNG__MIN(quarter, free_bytes / 4 * 3) : quarter;
}

uint64_t rung__threads_free(const char *root, uint64_t *limit_out)
{
	const struct group_limits v1 = group_limits(root, false, &threads),
				  v2 = group_limits(root, true, &threads);

	*limit_out = RUNG__MIN(v1.limit, v2.limit);
	return RUNG__MIN(v1.free, v2.free);
}
