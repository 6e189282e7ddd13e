/* SPDX-License-Identifier: Apache-2.0 */
/** The parts of rung numa. */
#ifndef RUNG_TOOL_NUMA_H
#define RUNG_TOOL_NUMA_H

#include "output/json.h"
#include "tool.h"

/* of the JSON: grows when a key changes its meaning or goes, not when one is added */
#define NUMA_SCHEMA 1

/** The topology's keys: cpus, memory, nodes, distances, gpus, nvme, links. */
void numa_topology_json(json_t *root, const struct rung_topology *topology);

/** Its tables on stdout. @return 0, or -1 when memory lacked */
int numa_topology_print(const struct rung_topology *topology);

/** "0-3,8", to be freed; "-" for an empty list, NULL if it is not known or memory is lacking. */
char *numa_list_text(const struct rung_id_list *list);

/* ---- measured values ---- */

struct numa_measured {
	const struct rung_topology *topology;
	const struct rung_numa_report *report;
	struct rung_numa_report_info info;
	size_t node_count;
};

/** Whether anything was measured of these matrices. */
int numa_any_value(const struct rung_numa_report *report, uint32_t matrices);

void numa_results_json(json_t *root, const struct numa_measured *measured);

/** @return 0, or -1 when it could not be written */
int numa_results_csv(const struct numa_measured *measured);

/** Tables on stdout. @return 0, or -1 when memory lacked */
int numa_results_print(const struct numa_measured *measured);

/** Heat maps. @return 0, or -1 when memory lacked */
int numa_results_svg(const struct numa_measured *measured, FILE *out);

#endif
