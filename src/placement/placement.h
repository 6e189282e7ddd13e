/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Placement of host memory on NUMA nodes.
 *
 * Three steps, each tested separately. The placement is *decided* before anything is allocated,
 * from the topology and the free memory of each node: memory that is read most goes to the nodes of
 * its readers, and the rest to the next nearest ones (placement.c; it queries the machine through
 * placement_machine.c). The decision is *applied* before the first touch, and the pages are touched
 * at once, so that the free memory is used before others take it (placement_memory.c). Then the
 * location of the pages is queried and *reported* (placement_report.c), because nothing else shows
 * it.
 *
 * The kernel does not refuse a bound page that does not fit on its node: it kills the process.
 * Therefore rung__placement_check() runs before the first touch.
 *
 * Readers are the GPUs whose node is known, otherwise the CPUs that the process may run on. So
 * numactl --cpunodebind, which leaves only the CPUs of one node, moves the rows to that node. Slots
 * and frames are near their drives. With a profile and readers on several nodes, plan_interleave.c
 * compares two placements: rows as near as possible, and an equal share on each node. There is only
 * one copy of the rows, because the gather has one view of them.
 *
 * Memory is bound, not preferred. With a preferred node the kernel uses other nodes as soon as that
 * node has no free pages, instead of first dropping pages of the page cache. Bound memory cannot
 * overflow to another node, so the plan leaves a sixteenth of each node free, at most 1 GiB, of
 * which a quarter must still be free at open.
 *
 * Available memory is unused memory and file pages, on the nodes that cpuset and policy allow. In a
 * control group file pages count as free as well. GPU memory that appears as a NUMA node is used
 * only if the caller names that node.
 *
 * Blocks are 2 MiB, and larger if a part would have more than 8192 blocks: each block is a mapping,
 * and a process may have 65530 mappings. With one node, the only cost of all this is that
 * rung_plan_create() reads /sys.
 *
 * The policy of shared memory is stored with the memfd, so it holds for every process that maps it.
 * An attacher queries the pages and places its own slots. move_pages reports only pages that the
 * calling process has used, so they are read first. Huge pages are requested everywhere (madvise);
 * /proc/self/smaps shows what was granted, for anonymous and shared memory and without privileges.
 *
 * Not placed: lists of requests, maps, the index of the cache, and the part of a sampled graph that
 * is not on GPUs. tests/unit/placement wraps the calls on a synthetic machine;
 * tests/vm/test_place.py checks every page in machines with two and four nodes.
 */
#ifndef RUNG_PLACEMENT_H
#define RUNG_PLACEMENT_H

#include "base/base.h"
#include "rung/plan.h"

#define RUNG__PLACEMENT_NODES_MAX 64u
#define RUNG__PLACEMENT_WHY_BYTES 192u
#define RUNG__BORDER_BYTES        (2ull << 20) /* borders are between huge pages */

/** The memory between two borders, on one node or in blocks on several nodes in turn. */
struct rung__placement_part {
	uint64_t bytes; /* a multiple of RUNG__BORDER_BYTES, except in the last part */
	/* a multiple of RUNG__BORDER_BYTES too; with one node it equals bytes */
	uint64_t block_bytes;
	uint32_t node_first; /* position in placement.nodes */
	uint32_t node_count;
};

/** A placement in plain numbers, which other processes receive unchanged. */
struct rung__placement {
	uint32_t part_count;                       /* 0: the kernel decides */
	uint32_t nodes[RUNG__PLACEMENT_NODES_MAX]; /* node numbers; unused ones are 0 */
	struct rung__placement_part parts[RUNG__PLACEMENT_NODES_MAX];
};

/** The nodes for all memory of a plan, also in plain numbers. */
struct rung__placement_set {
	/* why everything is left to the kernel; "" if memory is placed */
	char why[RUNG__PLACEMENT_WHY_BYTES];
	uint32_t off;                  /* nonzero: placement was disabled by the caller */
	int32_t requested_node;        /* node for all memory, as requested; -1: not requested */
	struct rung__placement host;   /* the host tier's rows */
	struct rung__placement frames; /* the frames of the cold-row cache */
	/* by features file: the node of its staging slots; -1: the kernel decides */
	int32_t slots[RUNG_FEATURE_FILES_MAX];
	/* by features file: the node of its drive, on whose CPUs its refill thread runs; -1:
	 * unknown, or any CPUs */
	int32_t drives[RUNG_FEATURE_FILES_MAX];
};

/* ---- decide (placement.c) ---- */

/** A set of node numbers, one bit for each. */
struct rung__nodes {
	uint64_t bits[RUNG_NODES_MAX / 64];
};

static inline void rung__nodes_add(struct rung__nodes *nodes, uint32_t node)
{
	nodes->bits[node / 64] |= UINT64_C(1) << (node % 64);
}

static inline bool rung__nodes_have(const struct rung__nodes *nodes, uint32_t node)
{
	return node < RUNG_NODES_MAX && (nodes->bits[node / 64] >> (node % 64) & 1);
}

/** The position of the node with this number; past the last node if no node has it. */
size_t rung__node_position(const struct rung_topology *topology, uint32_t number);

/** Bytes of a node that the plan leaves free. */
uint64_t rung__spare_of(const struct rung_topology_node *node);

/** Bytes that are still available on each node. */
struct rung__node_budgets {
	const struct rung_topology *topology;
	uint32_t count;
	struct {
		uint32_t node; /* number */
		uint64_t bytes;
	} list[RUNG__PLACEMENT_NODES_MAX];
};

/**
 * Find the available memory of the nodes that this process may use, minus a reserve. Nodes that are
 * a GPU's memory are left out, unless `only` contains them.
 * @param only  NULL: all nodes
 */
void rung__node_budgets_find(const struct rung_topology *topology, const struct rung__nodes *only,
                             struct rung__node_budgets *budgets_out);

/** Sum of all budgets; UINT64_MAX if it is larger. */
uint64_t rung__node_budgets_sum(const struct rung__node_budgets *budgets);

/**
 * Place memory whose beginning is read most, and subtract it from budgets. It is distributed in
 * blocks over the nodes in `near`, as long as they have available memory. The rest goes to the
 * other nodes, one after the other, in the order of their distance from `near`. Memory that fits
 * nowhere is added to the first part, and rung__placement_check() will refuse it. Without any
 * available memory nothing is decided.
 */
void rung__placement_decide(struct rung__node_budgets *budgets, const struct rung__nodes *near,
                            uint64_t bytes, struct rung__placement *place_out);

/** Place all memory on one node. */
void rung__placement_on(uint32_t node, uint64_t bytes, struct rung__placement *place_out);

/** Bytes of a part on the i-th of its nodes. */
uint64_t rung__part_share(const struct rung__placement_part *part, uint32_t i);

/** Node of an offset in the memory, as a position in placement->nodes; 0 without parts. */
uint32_t rung__placement_at(const struct rung__placement *placement, uint64_t offset);

/** Check a placement received from another process, for memory of `bytes` bytes. */
bool rung__placement_ok(const struct rung__placement *placement, uint64_t bytes);

/* ---- the placements of a plan or a store ---- */

/** Sizes of the host memory that is placed. */
struct rung__placement_sizes {
	uint64_t rank_first, row_count, row_stride; /* the host tier */
	uint64_t slots_bytes;                       /* staging slots of each features file */
	uint64_t frames_bytes;
	uint32_t file_count; /* 0: no slots */
};

/** Decide the node of each file's staging slots, after the drives are known.
 * @param budgets  the slots are subtracted */
void rung__placement_set_decide_slots(struct rung__placement_set *placements,
                                      const struct rung__placement_sizes *sizes,
                                      struct rung__node_budgets *budgets);

/* ---- facts for decisions (placement_machine.c) ---- */

/** The nodes with CPUs on which this process may run. */
void rung__placement_near_cpus(const struct rung_topology *topology, struct rung__nodes *near_out);

/** Node of the drive of a file; for a striped volume, the node of its drives if they share one.
 * @return 0 or RUNG_E_NOMEM; *node_out is -1 if the node is unknown */
int rung__placement_drive(const struct rung_topology *topology, int fd, int32_t *node_out);

/** The memory policy that the calling thread has inherited (numactl, set_mempolicy). */
enum rung__policy {
	RUNG__POLICY_NONE,
	RUNG__POLICY_BOUND, /* bound to some nodes, on which memory can still be placed */
	RUNG__POLICY_OTHER
};

/** The policy of the calling thread. @param only_out  set if the result is RUNG__POLICY_BOUND */
enum rung__policy rung__placement_policy(struct rung__nodes *only_out);

/**
 * Load the topology if there is anything to place. Otherwise placements->why has the reason, and
 * *topology_out is NULL.
 * @param only  storage for the nodes that the process is bound to
 * @param only_out  points to it, or NULL without such a binding
 * @return 0 or RUNG_E_NOMEM
 */
int rung__placement_set_begin(struct rung__placement_set *placements, struct rung__nodes *only,
                              const struct rung__nodes **only_out,
                              struct rung_topology **topology_out);

/* ---- apply (placement_memory.c) ---- */

/** The amount of memory that will be bound, by node. */
struct rung__node_needs {
	struct {
		uint32_t node;
		uint64_t bytes;
	} list[RUNG__PLACEMENT_NODES_MAX];
	uint32_t count;
};

/* Add the memory of a placement. */
void rung__node_needs_add(struct rung__node_needs *needs, const struct rung__placement *placement);

/**
 * Check that the memory fits on the nodes.
 * @return 0 or RUNG_E_NOMEM; the message has the node, the required bytes, the free bytes and the
 *          remedy
 */
int rung__placement_check(const struct rung_topology *topology,
                          const struct rung__node_needs *needs);

/** The node with this number; NULL: it does not exist, or this process may not use its memory. */
const struct rung_topology_node *rung__placement_node(const struct rung_topology *topology,
                                                      uint32_t number);

/** Bind untouched memory of whole pages according to its placement.
 * @return 0 or errno of mbind() */
int rung__placement_bind(void *memory, const struct rung__placement *placement);

/**
 * Request a node for pages that are not touched yet. Preferred, not bound, because the free memory
 * was not checked.
 * @return 0 or an errno value, ENOSYS in a build without libnuma
 */
int rung__placement_prefer(void *memory, uint64_t bytes, uint32_t node);

/** Allocate all pages by touching them. */
void rung__placement_touch(void *memory, uint64_t bytes);

/** Bind the calling thread, and threads that it starts later, to the CPUs of a node.
 * @return 0 or an errno value, and then nothing has changed */
int rung__placement_run_on(const struct rung_topology *topology, uint32_t node);

/* ---- report (placement_report.c) ---- */

/**
 * The placements as a list for users.
 * @param list_out  free with rung__free(); its nodes point into `placements`
 * @return 0 or RUNG_E_NOMEM
 */
int rung__placement_set_list(const struct rung__placement_set *placements,
                             const struct rung__placement_sizes *sizes,
                             struct rung_placement **list_out, size_t *count_out);

/**
 * Query the nodes of the pages of a part: all pages, or a sample of a large part. The pages are
 * read first, because in memory of another process only pages that this process has used are known.
 * @param at  start of the part
 * @param count_out  number of queried pages whose node the kernel reports; a page that is being
 *                   moved has no node
 * @param there_out  number of these pages that are on the requested node
 * @return 0 or errno of move_pages(), or, if it reports the node of no page, its status for the
 * first page
 */
int rung__placement_query(const unsigned char *at, const struct rung__placement *placement,
                          uint32_t part_idx, uint64_t *count_out, uint64_t *there_out);

/**
 * Share of the pages, all or a sample, that are on the node.
 * @param err_out  0, or the errno value of a failed query; the share is then NaN
 */
double rung__placement_share(const void *memory, uint64_t bytes, uint32_t node, int *err_out);

/** Memory, and the part of it that the kernel has mapped. */
struct rung__mapped {
	const unsigned char *at;
	uint64_t bytes;
	uint64_t resident_bytes;
	uint64_t huge_bytes; /* the part of resident_bytes in huge pages */
	bool reported;       /* whether the kernel reports huge pages for this memory */
};

/**
 * Fill in the last three members from a text like /proc/self/smaps. For a mapping that extends
 * beyond the memory, the part inside it is counted in proportion.
 * @return 0 or an errno value
 */
int rung__mapped_query(const char *smaps_path, struct rung__mapped *list, size_t count);

#endif
