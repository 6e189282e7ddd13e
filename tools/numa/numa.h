/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts of rung numa: cmd_numa.c runs the command, numa_json.c and numa_print.c write the
 * topology, numa_results_*.c the measured values, each in one format. The latter files all use the
 * tables of numa_results.h.
 */
#ifndef RUNG_TOOL_NUMA_H
#define RUNG_TOOL_NUMA_H

#include "output/json.h"
#include "tool.h"

/* Version of the JSON: it increases if a key is removed or changes its meaning, not if one is
 * added. */
#define NUMA_SCHEMA 1

/** Set the keys of the topology: cpus, memory, nodes, distances, gpus, nvme, links. */
void numa_topology_json(json_t *root, const struct rung_topology *topology);

/** Print the tables of the topology on stdout. @return 0, or -1 without memory */
int numa_topology_print(const struct rung_topology *topology);

/** "0-3,8", to be freed with free(); "-" for an empty list; NULL for an unknown one, or without
 * memory. */
char *numa_list_text(const struct rung_id_list *list);

/* ---- measured values ---- */

/** The results of a run, and the topology that their nodes and GPUs belong to. */
struct numa_measured {
	const struct rung_topology *topology;
	const struct rung_numa_report *report;
	struct rung_numa_report_info info;
	size_t node_count; /**< nodes of the topology */
};

/** Nonzero if any of these matrices (a sum of enum rung_numa_matrix) has a value. */
int numa_any_value(const struct rung_numa_report *report, uint32_t matrices);

/** Set the keys of the results in the object of the topology. */
void numa_results_json(json_t *root, const struct numa_measured *measured);

/** Print all samples on stdout. @return 0, or -1 if they could not be written */
int numa_results_csv(const struct numa_measured *measured);

/** Print tables on stdout. @return 0, or -1 without memory */
int numa_results_print(const struct numa_measured *measured);

/** Write heat maps. @return 0, or -1 without memory */
int numa_results_svg(const struct numa_measured *measured, FILE *out);

#endif
