/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Internal form of the plan, read by the store.
 *
 * plan_tiers.c assigns ranks to tiers, plan_device.c chooses the GPUs and their budget,
 * plan_placement.c and plan_interleave.c choose NUMA nodes. plan_predict.c samples batches and
 * counts the tiers of their rows. plan_forecast.c predicts seconds with a machine profile
 * (profile.c, profile_rates.c): it processes the batches as the store would, including the cache
 * and merged reads. plan_choose.c derives queue depth, gap and threads from the profile; a store
 * uses them for options that are not set. A rate that the profile lacks is assumed, and reported as
 * assumed.
 *
 * With sample_on_gpu the arrays of the graph are part of the budgets of GPUs and host. The GPUs get
 * the same share of the graph as of the rows.
 *
 * The lists of the graph are planned as rows of RUNG__LIST_BLOCK_BYTES in a second plan, which the
 * plan of the features owns. So everything here works for both.
 *
 * A plan points into itself (device.why, device.gpus, `only`), so only an empty one is copied: the
 * plan of the lists begins as a copy of the inspected machine. A plan owns placement_list and the
 * plan of the lists. Only rung_plan_predict() and rung_plan_forecast()
 * change a plan after its creation; the caller allows no other call at that time, so there is no
 * lock.
 */
#ifndef RUNG_PLAN_INTERNAL_H
#define RUNG_PLAN_INTERNAL_H

#include "rung/plan.h"
#include "device/device.h"
#include "placement/placement.h"
#include "tier/tier.h"

#define RUNG__SLOT_COUNT_MAX  8192u
#define RUNG__QUEUE_DEPTH_MAX (RUNG__SLOT_COUNT_MAX / 2) /* two slots per read in flight */
#define RUNG__FRAMES_MAX      (1u << 30) /* in the cache: frame numbers have 31 bits */

struct rung_plan {
	struct rung_plan_tier tiers[RUNG__TIER_COUNT];
	struct rung_plan_slots slots;
	struct rung_plan_cache cache;
	struct rung_plan_device device;
	struct rung__graph_location graph;
	uint64_t graph_lines[2];            /* lines of 128 bytes in indptr and indices */
	int gpus[RUNG_GPUS_MAX];            /* [device.gpu_count]; a GPU may occur several times */
	char device_why[RUNG__ERROR_BYTES]; /* text of device.why */
	struct rung_plan_bytes bytes;
	uint64_t vertex_count;
	uint64_t row_bytes;
	uint64_t row_stride;        /* bytes from row to row, in files and in memory */
	uint64_t data_offset;       /* of the first row in each file */
	uint32_t sector_bytes;      /* alignment of reads: the largest of the files */
	uint32_t file_count;        /* of the features */
	struct rung__layout layout; /* of the rows in these files */
	/* by file: the kernel's name of its disk; "" if the kernel reports none */
	char drive_names[RUNG__FILES_MAX][RUNG_DRIVE_NAME_BYTES];
	uint32_t queue_depth; /* reads in flight per file, for which the slots are sized */
	bool has_choice;      /* created with a profile; `tuning` is set */
	struct rung_tuning tuning;
	struct rung__placement_set placements;
	/* nodes whose CPUs may gather; empty: not known, or only one node */
	struct rung__nodes cpu_nodes;
	struct rung__nodes bound;       /* the only nodes for memory, if `only` is set */
	const struct rung__nodes *only; /* NULL, or `bound` */
	/* two placements of the host tier's rows: nearest first, and interleaved over all nodes */
	struct rung__placement interleavings[2];
	/* 2 if rung_plan_forecast() is to select the faster one; else 0 */
	uint32_t interleaving_count;
	bool interleave_requested; /* the caller requested interleaving, so there is no choice */
	struct rung_placement *placement_list; /* [placement_count] */
	size_t placement_count;
	bool is_lists;      /* the rows are blocks of the graph's lists */
	bool has_structure; /* the lists are planned too */
	/* the plan of the lists, whose bytes are part of the host budget; NULL: not planned, or the
	 * graph has no edges */
	struct rung_plan *structure;
};

/* line of the graph's arrays, the unit in which kernels read them */
#define RUNG__LINE_BYTES 128u

/* ---- plan_tiers.c ---- */

/**
 * Spend the budget of the GPUs. The map of ids can use half of it; then comes the graph, then rows
 * that are replicated on the gathering GPU, then rows that are interleaved over all GPUs.
 * @param gpu_bytes  of each GPU, may be RUNG_BYTES_MAX
 * @return the number of rows on GPUs
 */
uint64_t rung__plan_on_gpus(struct rung_plan *plan, const struct rung_plan_opts *opts,
                            uint64_t gpu_bytes);

/**
 * Divide the host budget, and with it the ranks from `first` on, which are not on GPUs.
 * @return 0 or RUNG_E_INVAL (the budget is too small)
 */
int rung__plan_on_host(struct rung_plan *plan, const struct rung_plan_opts *opts,
                       uint64_t host_bytes, uint64_t first);

/** A share of the whole. 1 or more is exactly the whole: computed as a double it could be rounded
 * to more. */
uint64_t rung__share_of(uint64_t whole, double share);

/** Bytes of the host budget that the lists of the graph and their slots use. */
uint64_t rung__plan_lists_bytes(const struct rung_plan *plan);

/* ---- plan_placement.c ---- */

/**
 * Check the options on NUMA nodes, and begin plan->placements: the reason if nothing is to be
 * placed, the policy of the process, and the nodes of its CPUs.
 * @param topology_out  owned by the caller; NULL if nothing is to be placed
 */
int rung__plan_inspect_machine(struct rung_plan *plan, const struct rung_plan_opts *opts,
                               struct rung_topology **topology_out);

/** Decide the placement of host memory, when all its sizes are known.
 * @param budgets  memory left on each node, from which this plan's is subtracted; NULL: nothing is
 *                 placed, only the list for users is built */
int rung__plan_place_host(struct rung_plan *plan, const struct rung_plan_opts *opts,
                          struct rung__node_budgets *budgets);

/** Derive settings from a complete profile. Needs the layout of the features and the device, but no
 * tiers. */
void rung__plan_choose(const struct rung_plan *plan, const struct rung_profile *profile,
                       struct rung_tuning *tuning_out);

/* ---- plan_list.c ---- */

/** The sizes of the host memory that is placed, from tiers, slots and cache. */
struct rung__placement_sizes rung__plan_placement_sizes(const struct rung_plan *plan);

/** Use plan->interleavings[idx] for the host rows, and rebuild the list for users.
 * @return 0 or RUNG_E_NOMEM, and then nothing has changed */
int rung__plan_interleave(struct rung_plan *plan, unsigned idx);

/* ---- plan_interleave.c ---- */

/** A placement of rows, and the number of requested rows on each of its nodes. */
struct rung__interleave {
	struct rung__placement placement;
	/* by position in placement.nodes; all in the first if the placement has no parts */
	uint64_t hits[RUNG__PLACEMENT_NODES_MAX];
};

/**
 * Nanoseconds that `threads` threads need for `rows`, on the nodes whose CPUs may gather.
 * @param cpu_ns  the time of one thread for all its other work
 */
double rung__interleave_ns(const struct rung_plan *plan, const struct rung_profile *profile,
                           const struct rung__interleave *rows, double cpu_ns, uint32_t threads);

/** Write to tuning->interleaved_why the reason for the present placement, as long as no times have
 * been predicted. */
void rung__interleave_explain(const struct rung_plan *plan, struct rung_tuning *tuning);

/**
 * Select the faster one of plan->interleavings, or the first if both are equal, and write the
 * reason.
 * @param ns  predicted nanoseconds of each
 * @return 0 or RUNG_E_NOMEM
 */
int rung__interleave_choose(struct rung_plan *plan, const double ns[2], struct rung_tuning *tuning);

/** Choose device and GPUs. @param gpu_bytes_out  the budget of each GPU, 0 on the CPU */
int rung__plan_choose_device(struct rung_plan *plan, const struct rung_plan_opts *opts,
                             uint64_t *gpu_bytes_out);

#endif
