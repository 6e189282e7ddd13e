/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of rung numa. */
#ifndef RUNG_TOOL_NUMA_H
#define RUNG_TOOL_NUMA_H

#include "output/json.h"
#include "tool.h"

#define NUMA_SCHEMA 1   /* of the JSON: grows when a key changes its meaning or goes, not when one is added */

/** The topology's keys: cpus, memory, nodes, distances, gpus, nvme, links. */
void numa_topology_json(json_t *root, const struct rung_topology *topology);

/** Its tables on stdout. @return 0, or -1 when memory lacked */
int numa_topology_print(const struct rung_topology *topology);

/** "0-3,8", to be freed; "-" for an empty list, NULL for one that is not known or when memory lacked. */
char *numa_list_text(const struct rung_id_list *list);

/* ---- what was measured ---- */

struct numa_measured {
	const struct rung_topology *topology;
	const struct rung_numa_report *report;
	struct rung_numa_report_info info;
	size_t node_count;
};

/** Result for nodes at these positions that has matrix, kind, row_bytes, level and all_cores of `like`; NULL: none. */
const struct rung_numa_result *numa_find(const struct numa_measured *measured, const struct rung_numa_result *like, size_t cpu_idx,
					 size_t memory_idx);

/** Result of the same GPUs and node that has this kind and row_bytes; NULL: none. Of `like` nothing else is looked at but its matrix. */
const struct rung_numa_result *numa_find_gpu(const struct numa_measured *measured, const struct rung_numa_result *like, const char *kind,
					     uint64_t row_bytes);

/** "GPU0" as in the topology, its bus id where it is not there, "-" where neither is known. Into `text`, TOOL_TEXT_BYTES. */
const char *numa_gpu_text(char *text, int gpu, const char *bus_id);

/** "all", "one" or NULL. */
const char *numa_cores_text(const struct rung_numa_result *result);

/** Key of a result's per_s. */
const char *numa_per_s_name(enum rung_numa_matrix matrix);

void numa_results_json(json_t *root, const struct numa_measured *measured);

/** @return 0, or -1 when it could not be written */
int numa_results_csv(const struct numa_measured *measured);

/** Tables on stdout. @return 0, or -1 when memory lacked */
int numa_results_print(const struct numa_measured *measured);

/** Heat maps. @return 0, or -1 when memory lacked */
int numa_results_svg(const struct numa_measured *measured, FILE *out);

#endif
