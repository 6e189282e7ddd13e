/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads properties of the machine that the topology does not contain: cores, caches, and settings
 * that affect the results.
 *
 * Cores and caches are read from sysfs below m->root, which may be that of a recorded machine. They
 * determine the number of threads of a team and the sizes of arrays. The settings are only
 * reported. If the kernel does not have a file, its value is unknown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "measure.h"

#define CPU "sys/devices/system/cpu/cpu%" PRIu32

/*
 * Add a CPU to its node if it is the first allowed CPU of its core: hardware threads of one core
 * share its bandwidth. Its last-level cache is counted with the first allowed CPU that shares it,
 * so that each cache is counted once.
 */
static int read_core(struct rung__sys *sys, uint32_t cores_max, struct rung__measure_node *node,
                     const struct rung_id_list *allowed, uint32_t cpu)
{
	struct rung_id_list siblings = { 0 };
	struct rung__sys_cache second, last;
	int rc = rung__sys_ids(sys, RUNG__CPUS_MAX, &siblings, CPU "/topology/thread_siblings_list",
	                       cpu);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < siblings.count && siblings.ids[i] < cpu; i++) {
		if (rung__ids_have(allowed, siblings.ids[i]))
			return 0;
	}
	if (node->core_count < cores_max)
		node->cores[node->core_count++] = cpu;
	rc = rung__sys_caches(sys, cpu, &second, &last);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < last.cpus.count && last.cpus.ids[i] < cpu; i++) {
		if (rung__ids_have(allowed, last.cpus.ids[i]))
			return 0;
	}
	node->cache_bytes += last.bytes;
	return 0;
}

/* Read the cores and caches of each node. The arrays have space for as many cores as there are
 * allowed CPUs. */
static int read_nodes(struct rung__measuring *m, struct rung__sys *sys)
{
	for (size_t i = 0; i < m->node_count; i++) {
		struct rung__measure_node *node = &m->nodes[i];
		const struct rung_id_list *allowed;
		int rc = 0;

		node->node = rung_topology_node(m->topology, i);
		allowed = &node->node->cpus_allowed;
		node->cores =
			rung__arena_alloc(&m->report->arena, allowed->count, sizeof(*node->cores));
		if (!node->cores)
			return rung__measure_out_of_memory();
		for (uint32_t c = 0; c < allowed->count && rc >= 0; c++)
			rc = read_core(sys, m->opts.threads_max ? m->opts.threads_max : UINT32_MAX,
			               node, allowed, allowed->ids[c]);
		if (rc < 0)
			return rc;
		m->report->info.last_level_cache_bytes += node->cache_bytes;
	}
	return 0;
}

/* The word in brackets, as in "always [madvise] never"; NULL: none, or no text. */
static const char *chosen(struct rung__measuring *m, const char *text)
{
	const char *begin = text ? strchr(text, '[') : NULL;
	const char *end = begin ? strchr(begin, ']') : NULL;

	return end ? rung__measure_text(m, "%.*s", (int)(end - begin - 1), begin + 1) : NULL;
}

/* Read model and hypervisor flag of the first CPU, line by line: on large machines the file is
 * longer than rung__sys_read() accepts. */
static void read_cpuinfo(struct rung__measuring *m)
{
	struct rung_numa_report_info *info = &m->report->info;
	FILE *file = fopen("/proc/cpuinfo", "re");
	char *line = NULL, *value;
	size_t room = 0;

	/* an empty line follows the first CPU */
	while (file && getline(&line, &room, file) > 1) {
		line[strcspn(line, "\n")] = 0;
		value = strchr(line, ':');
		if (value && strncmp(line, "model name", 10) == 0)
			info->cpu_model =
				rung__measure_text(m, "%s", value + 1 + strspn(value + 1, " "));
		else if (value && strncmp(line, "flags", 5) == 0)
			info->hypervisor = strstr(value, " hypervisor") != NULL;
	}
	free(line);
	if (file)
		fclose(file);
}

/* Read the settings for the report; -1 and NULL are unknown values. */
static int read_texts(struct rung__measuring *m, struct rung__sys *sys)
{
	struct rung_numa_report_info *info = &m->report->info;
	struct utsname name;
	const char *thp = NULL;
	uint64_t smt = 0;
	int rc = rung__sys_text(sys, &info->governor,
	                        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");

	if (rc >= 0)
		rc = rung__sys_text(sys, &thp, "sys/kernel/mm/transparent_hugepage/enabled");
	info->thp = chosen(m, thp);
	if (rc >= 0)
		rc = rung__sys_number(sys, 10, 1, &smt, "sys/devices/system/cpu/smt/active");
	info->smt = rc > 0 ? (int)smt : -1;
	info->hypervisor = -1; /* unknown until read_cpuinfo() finds the flags */
	if (uname(&name) == 0)
		info->kernel = rung__measure_text(m, "%s", name.release);
	info->stores = rung__stream_stores();
	read_cpuinfo(m);
	return rc < 0 ? rc : 0;
}

int rung__measure_machine(struct rung__measuring *m)
{
	struct rung__sys *sys = rung__zalloc(sizeof(*sys));
	int rc;

	if (!sys)
		return rung__measure_out_of_memory();
	rc = rung__sys_begin(sys, m->root, &m->report->arena);
	if (rc == 0)
		rc = read_nodes(m, sys);
	if (rc == 0)
		rc = read_texts(m, sys);
	rung__free(sys);
	return rc;
}
