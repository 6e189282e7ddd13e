/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts of rung numa: cmd_numa.c runs the command, numa_json.c and numa_print.c write the
 * topology, numa_results_*.c the measured values, each in one format. The latter files all use the
 * tables of numa_results.h. numa_load*.c read a file of --json, numa_compare.c compares two.
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

/** A machine whose topology is printed: this one, or one that was loaded from a file. */
struct numa_machine {
	const struct rung_topology *topology; /**< NULL: the members after `info` have it */
	struct rung_topology_info info;
	const struct rung_topology_node *nodes;     /**< [info.node_count] */
	const struct rung_topology_device *devices; /**< [gpu_count + nvme_count] */
	const uint32_t *distances;                  /**< [node_count x node_count] */
	/** [devices x (devices + nodes)] */
	const enum rung_link *links;
	const struct rung_numa_policy *policy; /**< NULL: placing memory was not tried */
};

/* As the functions of the library with similar names; positions are valid except in the first
 * two, which return NULL past the end. */
const struct rung_topology_node *numa_node(const struct numa_machine *machine, size_t idx);
const struct rung_topology_device *numa_device(const struct numa_machine *machine, size_t idx);
uint32_t numa_distance(const struct numa_machine *machine, size_t from, size_t to);
enum rung_link numa_link(const struct numa_machine *machine, size_t a, size_t b);
enum rung_link numa_node_link(const struct numa_machine *machine, size_t device, size_t node);

/** Print the tables of the topology on stdout. @return 0, or -1 without memory */
int numa_topology_print(const struct numa_machine *machine);

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
	/** [info.result_count] of a file; NULL: those of `report` */
	const struct rung_numa_result *loaded;
	const struct numa_machine *machine;
};

/** The result at position `idx`; NULL past the last one. */
const struct rung_numa_result *numa_result(const struct numa_measured *measured, size_t idx);

/** A profile from a file; its texts belong to `root`. */
struct numa_profile {
	json_t *root;
	void **blocks; /**< [block_count] allocations that the members below use */
	size_t block_count;
	struct rung_numa_policy policy;
	struct numa_machine machine;
	struct numa_measured measured; /**< info.result_count 0: the file has only a topology */
	int is_profile;                /**< zero: the output of --topology */
};

/** Load a file of --json, which is checked completely. @param name  "rung numa", for messages
 * @return an exit code, the failure printed; free the profile in every case */
int numa_profile_load(const char *name, const char *path, struct numa_profile *profile);
void numa_profile_free(struct numa_profile *profile);

/**
 * Print the values that differ from an older profile by more than `threshold` (a share) and whose
 * ranges do not overlap. Values of different numbers of threads are not compared.
 * @return TOOL_DONE, TOOL_WORSE, or TOOL_FAILED with the failure printed
 */
int numa_compare(const char *name, const struct numa_measured *measured,
                 const struct numa_profile *old, const char *path, double threshold);

/** Nonzero if any of these matrices (a sum of enum rung_numa_matrix) has a value. */
int numa_any_value(const struct numa_measured *measured, uint32_t matrices);

/** Set the keys of the results in the object of the topology. */
void numa_results_json(json_t *root, const struct numa_measured *measured);

/** Print all samples on stdout. @return 0, or -1 if they could not be written */
int numa_results_csv(const struct numa_measured *measured);

/** Print matrices and a verdict on stdout. @param explain  nonzero: also every table with details
 * @return 0, or -1 without memory */
int numa_results_print(const struct numa_measured *measured, int explain);

/** Print one to three sentences about the results, and a command to try next. */
void numa_verdict_print(const struct numa_measured *measured);

/** Write a picture: the machine, then its matrices. @return 0, or -1 without memory */
int numa_results_svg(const struct numa_measured *measured, FILE *out);

#endif
