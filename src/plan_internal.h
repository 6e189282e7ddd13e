/* SPDX-License-Identifier: Apache-2.0 */
/** The plan's own form, read by the store. */
#ifndef RUNG_PLAN_INTERNAL_H
#define RUNG_PLAN_INTERNAL_H

#include "rung/plan.h"
#include "device.h"
#include "place.h"
#include "tier_list.h"

#define RUNG__SLOT_COUNT_MAX 8192u
#define RUNG__FRAMES_MAX (1u << 30)   /* of the cache: their numbers have 31 bits */

struct rung_plan {
	struct rung_plan_tier tiers[RUNG__TIER_COUNT];
	struct rung_plan_slots slots;
	struct rung_plan_cache cache;
	struct rung_plan_device device;
	struct rung_plan_graph graph;
	uint64_t graph_lines[2];     /* of indptr and indices */
	int gpus[RUNG_GPUS_MAX];
	char device_why[RUNG__ERROR_BYTES];
	uint64_t vertex_count;
	uint64_t row_bytes;
	uint64_t row_stride;
	uint64_t data_offset;
	uint32_t sector_bytes;       /* the largest of the files' */
	uint32_t file_count;         /* of the features */
	uint64_t block_rows;         /* dealt over them */
	uint64_t vertices_bytes;     /* of the store's vertex_of_rank; 0: it needs none */
	struct rung__places places;
	struct rung__nodes bound;        /* that memory may lie on alone, when `only` says so */
	const struct rung__nodes *only;  /* NULL, or `bound` */
	struct rung_place *place_list;   /* [place_count] */
	size_t place_count;
};

/* ---- plan_place.c ---- */

/** The nodes of the drives, and why nothing is to be placed, if so. @param topology_out  NULL then */
int rung__plan_look_at_machine(struct rung_plan *plan, const struct rung_plan_opts *opts, struct rung_topology **topology_out);

/** Decide where host memory is to lie, when all its sizes are known. @param topology  NULL: nowhere */
int rung__plan_place_memory(struct rung_plan *plan, const struct rung_plan_opts *opts, const struct rung_topology *topology);

/** Choose device and GPUs. @param gpu_bytes_out  the budget of each GPU, 0 on the CPU */
int rung__plan_choose_device(struct rung_plan *plan, const struct rung_plan_opts *opts, uint64_t *gpu_bytes_out);

/** Most bytes that the aligned read of one row takes: rows begin at multiples of gcd(stride, align) into a block. */
uint64_t rung__row_span(uint64_t row_bytes, uint64_t row_stride, uint64_t data_offset, uint32_t align);

/** Host memory that may be taken: MemAvailable, or less when a cgroup says so. `root` is "" or, in tests, a folder with proc/ and sys/. */
uint64_t rung__host_memory_free(const char *root);

/**
 * What long work may take unless told otherwise: a quarter of RAM, and no more than three quarters of what may be taken, since what is counted is
 * not all that is taken.
 */
uint64_t rung__host_memory_budget(const char *root);

/** The tightest memory limit of the control groups above this process; UINT64_MAX: none. */
uint64_t rung__host_memory_limit(const char *root);

#endif
