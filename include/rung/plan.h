/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The plan: which ranks each tier holds within the memory budgets, and predictions of the hits and
 * of the time of batches.
 *
 * Creating. rung_plan_create() places the rows of a dataset in tiers, hottest first, within the
 * budgets. It reads free memory, the topology and, with CUDA, the GPUs; it allocates only the plan
 * itself. GPUs that cannot read each other's memory cannot share rows; only the first one is used
 * then.
 *
 * Forecasts. rung_plan_forecast() assumes two requests per thread in flight. Each batch is
 * processed as the store would do it: rows in memory, rows that the cold-row cache holds by then,
 * and merged reads. The cost of a row in memory depends on the node where the plan puts it. A GPU
 * reads its own memory, the memory of other GPUs and host memory at the same time, so the slowest
 * of the three counts. Rates that the profile does not have are assumed, and forecast_out->assumed
 * lists them.
 *
 * Dividing. rung_plan_divide() opens the structure of the dataset within the budget, samples
 * batches from it and closes it again. Then it creates plans with different structure_bytes and
 * cache_bytes and counts, by a forecast, the device reads that these batches need with each. The
 * batches are kept as ids of 8 bytes: about 2 M of them, or those of two batches if they have more.
 * Pass the result to rung_plan_create() in rung_plan_opts.host_bytes, structure_bytes and
 * cache_bytes, with cache_share 0.
 *
 * Sweeping. rung_plan_sweep() samples once and keeps all batches of a prediction, as ids of 8
 * bytes. For each budget it divides, creates the plan and predicts, several budgets at a time; the
 * results are those of the single calls.
 *
 * Tables. rung_plan_tables() ranks rows and lists of all tables by the time that they save per byte
 * in memory, expected accesses times the time of a read, and divides the budget at one place of
 * that ranking. The accesses come from scores of -log(1 - P), as `expected` and `blend` compute
 * (docs/SCORES.md); the time from the profile, or from a typical drive, on which reads of up to
 * 4096 bytes take the same time. An access to a list counts as one read, and is served with the
 * share of the list that is in memory. In a table that is not in the order of its scores, as edge
 * rows, the best prefix is found on the upper concave hull of the sums. The result is the best up
 * to a block: 1/4094 of the budget or of the table, at least a row.
 *
 * Placement. If the plan leaves the placement of host rows open (RUNG_NUMA_AUTO, CPUs of several
 * nodes gather, other nodes have memory too), a forecast selects the faster of two placements:
 * nearest to the readers first, or in blocks over all nodes. rung_plan_placement() and stores
 * opened later use the result. With rung_forecast_opts.keep_placement the placement does not
 * change.
 */
#ifndef RUNG_PLAN_H
#define RUNG_PLAN_H

#include "dataset.h"
#include "device.h"
#include "numa.h"
#include "profile.h"
#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/** For rung_store_opts.window: rows are not read before their batch begins. */
#define RUNG_WINDOW_NONE UINT32_MAX
/** Largest value of rung_store_opts.window: the most batches that can be announced. */
#define RUNG_WINDOW_MAX 4096u
/** Batches that a loader announces before they are gathered, by default. */
#define RUNG_LOOK_AHEAD 16u

/** A budget without a limit. */
#define RUNG_BYTES_MAX UINT64_MAX
/** A budget of zero bytes, because a 0 means the default. */
#define RUNG_BYTES_NONE (UINT64_MAX - 1)

struct rung_plan;

/** NUMA placement of host memory. On a machine with one node all values have the same effect. */
enum rung_numa {
	/** Rows: the hottest near the GPUs; without GPUs near the CPUs that the process may use, in
	 * blocks if these are on several nodes. Rows that do not fit there go to the next nearest
	 * nodes, or to all nodes with memory if rung_plan_forecast() finds that faster. Staging
	 * slots, cold-row cache and refill threads: near the drive they serve. Only the nodes that
	 * the process is bound to (numactl --membind) are used; if the process has any other memory
	 * policy, that policy stays in effect */
	RUNG_NUMA_AUTO = 0,
	/** all memory on rung_plan_opts.numa_node and nowhere else; refill threads as with AUTO */
	RUNG_NUMA_NODE,
	/** rows in blocks over all nodes with memory for the process; everything else as with
	 * AUTO */
	RUNG_NUMA_INTERLEAVE,
	RUNG_NUMA_NONE /**< placement left to the kernel, threads anywhere */
};

/** Options of rung_plan_create(): memory budgets and the device that gathers. */
struct rung_plan_opts {
	size_t size; /**< sizeof(struct rung_plan_opts), set by the initialiser */
	/** host memory for rows, staging slots, cold-row cache and graph together; 0: half of the
	 * free memory; RUNG_BYTES_MAX: all rows */
	uint64_t host_bytes;
	/** reads in flight for each features file; 0: chosen from the profile, else 64 */
	uint32_t queue_depth;
	/** device that will gather; the tiers "gpu" and "peer" need CUDA */
	enum rung_device device;
	/** [gpu_count] GPU numbers; the first one gathers; a GPU that is listed several times acts
	 * as several; NULL: the current GPU of the calling thread */
	const int *gpus;
	uint32_t gpu_count;
	/** budget of each GPU for rows, map and graph; 0: free memory minus 1 GiB; RUNG_BYTES_MAX:
	 * all rows */
	uint64_t gpu_bytes;
	/** with several GPUs, the part of gpu_bytes for the hottest rows, which are copied to the
	 * gathering GPU; RUNG_BYTES_MAX: all of gpu_bytes; 0: none. The other rows are interleaved
	 * over the GPUs. */
	uint64_t replicate_bytes;
	/** nonzero: also place the arrays of the graph, for rung_gpu_sampler_create(). The GPUs get
	 * the same share of the graph and of the features, because hot vertices come first in both;
	 * the rest of the graph stays in host memory */
	int sample_on_gpu;
	/** nonzero: keep rank_of_vertex on the GPU if it needs at most half of gpu_bytes */
	int vertex_ids;
	/** part of host_bytes for the cold-row cache; 0: one eighth of what the lists of the graph
	 * leave; RUNG_BYTES_MAX: all that lists and slots leave; RUNG_BYTES_NONE: no cache */
	uint64_t cache_bytes;
	enum rung_numa numa;
	uint32_t numa_node; /**< for RUNG_NUMA_NODE */
	/** profile of the machine, used to choose settings (rung_plan_tuning()); read only during
	 * the call; NULL: defaults */
	const struct rung_profile *profile;
	/** cold-row cache as a share of the whole host budget, 0 to 1, lists included. The budget
	 * is host_bytes or its default. 0: use cache_bytes. RUNG_E_INVAL if both are set */
	double cache_share;
	/** part of host_bytes for the neighbour lists of the graph, with the staging slots for
	 * those in the file; the rest is for rows. 0: the lists are not planned; RUNG_BYTES_MAX:
	 * all lists. rung_plan_divide() finds the best value */
	uint64_t structure_bytes;
	/** for rung_plan_divide(): the window of the store, as in rung_store_opts */
	uint32_t window;
	/** plan the rows as if they were staged quantized, with a scale per row: shows what that
	 * would save. No store can be opened with such a plan. RUNG_QUANT_NONE: as staged */
	enum rung_quant_format quantize;
};

/** Initialiser: all defaults. In C++: rung_plan_opts_init(). */
#define RUNG_PLAN_OPTS_INIT RUNG_INIT(struct rung_plan_opts)
RUNG_INIT_FUNCTION(rung_plan_opts, {})

/** The ranks of a tier. */
struct rung_plan_tier {
	const char *name; /**< "gpu", "peer" (interleaved over GPUs), "host", "nvme" */
	/** the tier holds the ranks rank_first to rank_first + row_count - 1 */
	uint64_t rank_first;
	uint64_t row_count;
	uint64_t bytes; /**< row_count * row_bytes */
	/** predicted share of requested rows, 0 to 1; NaN before rung_plan_predict() */
	double hit_share;
};

/** Staging slots: host buffers for rows read from the NVMe tier; part of the host budget. */
struct rung_plan_slots {
	uint64_t slot_count; /**< sum over all features files; 0 if every row is in memory */
	uint64_t slot_bytes;
};

/** The cold-row cache: rows read from the NVMe tier, kept for later batches; part of the host
 * budget. */
struct rung_plan_cache {
	uint64_t row_count;   /**< 0: no cache */
	uint64_t frame_bytes; /**< bytes of a cached row */
	uint64_t bytes;       /**< total, including the index and the replacement lists */
};

/** Bytes of host memory in a plan. */
struct rung_plan_bytes {
	/** rung_plan_opts.host_bytes, or the default that was used for 0; RUNG_BYTES_MAX: no limit.
	 * Rows, lists, slots, cache and map are within it */
	uint64_t host;
	/** offsets of the lists in a structure that is opened with the plan, about 2 per vertex;
	 * not part of the host budget. 0 if rung_plan_opts did not ask for the structure */
	uint64_t offsets;
	/** rank-to-vertex map of a dataset staged in place, whose rows are in the order of the
	 * vertices: the store needs it to find cold rows. Part of the host budget. 0 if the dataset
	 * was not staged in place, or if all rows are in memory */
	uint64_t map;
};

/** A block of host memory and the NUMA nodes planned for it. */
struct rung_placement {
	/** "host" (rows), "slots" (staging slots of one features file, in file order) or "cache"
	 * (frames of the cold-row cache) */
	const char *name;
	/** "host": the block holds ranks rank_first to rank_first + row_count - 1; otherwise 0 */
	uint64_t rank_first;
	uint64_t row_count;
	uint64_t bytes;
	struct rung_id_list nodes; /**< node numbers; empty: the kernel decides */
	/** with several nodes: size of the blocks that are dealt to the nodes in turn */
	uint64_t block_bytes;
};

/** The device that will gather. */
struct rung_plan_device {
	enum rung_device device; /**< RUNG_DEVICE_CPU or RUNG_DEVICE_CUDA */
	/** why CUDA is not used although RUNG_DEVICE_AUTO was given, or why not all GPUs are used;
	 * otherwise "" */
	const char *why;
	const int *gpus;    /**< [gpu_count]; the first one gathers */
	uint32_t gpu_count; /**< 0 on the CPU */
	int map_on_gpu;     /**< 1: memory for rank_of_vertex is reserved on the GPU */
};

/** Traffic predicted from sampled batches. */
struct rung_plan_traffic {
	uint64_t batches_sampled;
	uint64_t batches_per_epoch;
	double rows_per_batch; /**< mean number of distinct rows */
	double rows_per_epoch;
	double cold_rows_per_epoch;
	/** read from the NVMe tier, in whole sectors of sector_bytes, without merging */
	double read_bytes_per_epoch;
	uint32_t sector_bytes;
	/** predicted time of all gathers and of the reads of lists; NaN without a forecast */
	double seconds_per_epoch;
	struct rung_forecast forecast; /**< for the sampled batches; empty without a forecast */
	/** distinct blocks of the graph's lists that a hop draws from, summed over hops; 0 if the
	 * lists are not planned */
	double blocks_per_epoch;
	double cold_blocks_per_epoch; /**< of these, the ones in the file */
	/** reads of lists for the sampled batches; empty without a forecast or a structure */
	struct rung_forecast structure_forecast;
};

/**
 * Create a plan: place the rows of a dataset in tiers, hottest first, within the budgets. See
 * Creating at the top of this file.
 *
 * @param ds        may be closed afterwards
 * @param opts      NULL: defaults
 * @param plan_out  written on success; free with rung_plan_destroy()
 * @return 0, RUNG_E_INVAL (the host budget cannot hold slots or graph: the message names the least
 *         that works; no such NUMA node), RUNG_E_NOMEM; with RUNG_DEVICE_CUDA also the errors of
 *         rung_gpu_info()
 *
 * Threads: any. Several threads may read a plan; rung_plan_predict() and rung_plan_forecast()
 * change it.
 */
RUNG_API int rung_plan_create(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                              struct rung_plan **plan_out);
/**
 * Free a plan and everything that was obtained from it with the functions below. Stores that were
 * opened with the plan do not need it any longer and stay usable.
 *
 * @param plan  NULL is allowed
 *
 * Threads: any, but no other call on the plan may be running.
 */
RUNG_API void rung_plan_destroy(struct rung_plan *plan);

/**
 * Tier `idx` of the plan, from the fastest to the slowest: on the CPU "host" and "nvme", with CUDA
 * "gpu", "peer", "host" and "nvme". Tiers without rows are included. hit_share is NaN until
 * rung_plan_predict() has run.
 *
 * @return memory of the plan, valid until rung_plan_destroy(); NULL past the last tier
 *
 * Threads: any, while no call changes the plan.
 */
RUNG_API const struct rung_plan_tier *rung_plan_tier(const struct rung_plan *plan, unsigned idx);
/**
 * The host budget of the plan; slots and cache are part of it.
 *
 * @return memory of the plan, valid until rung_plan_destroy(); never NULL. Threads: any, while no
 *         call changes the plan.
 */
RUNG_API const struct rung_plan_bytes *rung_plan_bytes(const struct rung_plan *plan);
/** The staging slots of the plan, one set per features file; else as rung_plan_bytes(). */
RUNG_API const struct rung_plan_slots *rung_plan_slots(const struct rung_plan *plan);
/** The cold-row cache of the plan; else as rung_plan_bytes(). */
RUNG_API const struct rung_plan_cache *rung_plan_cache(const struct rung_plan *plan);
/** The device that will gather; else as rung_plan_bytes(). */
RUNG_API const struct rung_plan_device *rung_plan_device(const struct rung_plan *plan);

/**
 * The plan of the graph's neighbour lists: its rows are the blocks of 512 bytes of the lists in
 * rank order, its tiers "host" and "nvme", and its slots are for reading blocks from the file. The
 * host bytes of both are part of the host budget.
 *
 * @return memory of the plan, valid until rung_plan_destroy(); NULL if rung_plan_opts did not ask
 *         for the structure, or the graph has no edges
 *
 * Threads: any, while no call changes the plan.
 */
RUNG_API const struct rung_plan *rung_plan_structure(const struct rung_plan *plan);

/**
 * Planned placement of block `idx` of host memory: first the blocks of "host" from the hottest to
 * the coldest rows, then "slots" of each features file, then "cache". rung_plan_forecast() may
 * change the placement of "host".
 *
 * @return memory of the plan, valid until rung_plan_destroy() or the next forecast; NULL past the
 *         last block
 *
 * Threads: any, while no call changes the plan.
 */
RUNG_API const struct rung_placement *rung_plan_placement(const struct rung_plan *plan, size_t idx);

/**
 * Reason why the placement of all host memory is left to the kernel: the machine has one node, or
 * the topology is unknown.
 *
 * @return memory of the plan, valid until rung_plan_destroy(); "" if memory is placed, never NULL
 *
 * Threads: any, while no call changes the plan.
 */
RUNG_API const char *rung_plan_placement_why(const struct rung_plan *plan);

/**
 * Settings that the plan derived from rung_plan_opts.profile, with the reason for each. A store
 * that is opened with the plan uses them for options that are zero.
 *
 * @return memory of the plan, valid until rung_plan_destroy(); NULL if the plan was created without
 *         a profile
 *
 * Threads: any, while no call changes the plan.
 */
RUNG_API const struct rung_tuning *rung_plan_tuning(const struct rung_plan *plan);

/** The best division of a host budget, from rung_plan_divide(). Reads are those of the device, per
 * batch, after merging and the cold-row cache. */
struct rung_plan_division {
	size_t size;              /**< sizeof(struct rung_plan_division), set by the caller */
	uint64_t host_bytes;      /**< the budget that was divided */
	uint64_t structure_bytes; /**< for rung_plan_opts */
	uint64_t cache_bytes;     /**< for rung_plan_opts; the caller's, if it gave one */
	uint64_t batches;         /**< number of sampled batches */
	uint32_t tried;           /**< number of divisions that were compared */
	double row_reads;         /**< predicted reads of rows */
	double list_reads;        /**< predicted reads of neighbour lists */
	double rows_saved;        /**< reads that one more MiB for rows saves */
	double structure_saved;   /**< the same for lists; 0: all are in memory */
	double cache_saved;       /**< the same for the cold-row cache */
};

/**
 * Callback of rung_plan_forecast() that returns the next batch as a list of ranks. A rank that
 * occurs twice in a batch is read once. The forecast has finished with a batch before the next
 * call, so one batch in memory is enough.
 *
 * @param ctx        as passed to rung_plan_forecast()
 * @param ranks_out  [*count_out] memory of the callback, valid until the next call
 * @return 1 with a batch, 0 after the last batch, or a negative status, which ends the forecast
 *
 * Threads: called from the thread that called rung_plan_forecast().
 */
typedef int (*rung_forecast_next_fn)(void *ctx, const uint64_t **ranks_out, uint64_t *count_out);

/** Options of rung_plan_forecast(). */
struct rung_forecast_opts {
	size_t size; /**< sizeof(struct rung_forecast_opts), set by the initialiser */
	const struct rung_profile *profile; /**< profile of the machine, required */
	/** reads in flight for each features file; 0: as planned */
	uint32_t queue_depth;
	uint32_t merge_gap_bytes; /**< as in rung_store_opts; 0: chosen from the profile */
	/** gather threads, each with its own batch; 0: as chosen by the plan, else 1 */
	uint32_t threads;
	int no_merge; /**< as in rung_store_opts */
	/** number of batches at the start that only fill the cache; their time and reads are not
	 * counted */
	uint64_t warmup_batches;
	int keep_placement; /**< nonzero: do not change the placement of host rows */
	/** batches that are announced before they are gathered, as in rung_loader_opts; 0: none */
	uint32_t look_ahead;
	uint32_t window; /**< as in rung_store_opts */
};

/** Initialiser: all defaults. In C++: rung_forecast_opts_init(). */
#define RUNG_FORECAST_OPTS_INIT RUNG_INIT(struct rung_forecast_opts)
RUNG_INIT_FUNCTION(rung_forecast_opts, {})

/**
 * Divide a host budget between rows, lists of the graph and cold-row cache so that training needs
 * the fewest device reads. See Dividing at the top of this file.
 *
 * @param opts          NULL: defaults. A nonzero structure_bytes or cache option is kept
 * @param sampler       of the training; csc is not needed
 * @param seeds         [seed_count] distinct train ranks
 * @param batches_max   0: 48; fewer are sampled if they are large
 * @param division_out  with `size` set; written on success
 * @return 0, RUNG_E_INVAL (the budget is too small), RUNG_E_NOMEM, or an error of
 *         rung_structure_open() or of the sampler
 *
 * Threads: any; it uses OpenMP threads.
 */
RUNG_API int rung_plan_divide(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                              const struct rung_sampler_opts *sampler, const uint64_t *seeds,
                              uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                              struct rung_plan_division *division_out);

/** A table that gets a part of one budget, for rung_plan_tables(): the rows or the lists of a
 * dataset. Accesses are expected ones per batch. */
struct rung_plan_table {
	size_t size;                   /**< sizeof(struct rung_plan_table), set by the caller */
	const struct rung_dataset *ds; /**< set by the caller: not typed, but maybe a part */
	int lists; /**< set by the caller. 0: the rows; nonzero: the lists of the graph */
	/** for rung_plan_opts of the plan of this table alone. structure_bytes is 0 for rows */
	uint64_t host_bytes, structure_bytes;
	uint64_t bytes;          /**< of the budget, with slots, cache and map */
	uint64_t least_bytes;    /**< with less, no plan of the table works */
	uint64_t resident_bytes; /**< of rows or lists in memory, on GPUs too */
	uint64_t row_bytes;      /**< of a row, or of a block of lists; 0: no features */
	uint64_t row_count;      /**< rows, or blocks of lists */
	double accesses;         /**< of all rows or lists */
	double hits;             /**< of those in memory, without the cold-row cache */
	double read_ns;          /**< time of a read, by which accesses of tables are compared */
};

/**
 * Divide one host budget among several tables, such as those of a typed dataset: rows of its types,
 * edge rows, lists of its relations. See Tables at the top of this file.
 *
 * @param opts    NULL: defaults. host_bytes is the budget of all tables; the other options apply
 *                to each table, but structure_bytes is not used, and a cache needs cache_share
 * @param tables  [count] with `size`, `ds` and `lists` set; the rest is written on success
 * @return 0; RUNG_E_INVAL (the budget is too small, with the least that works; a typed dataset;
 *         lists of a dataset without a graph); RUNG_E_ABI, or an error of rung_plan_create()
 *
 * Threads: any, but the same table in one call only.
 */
RUNG_API int rung_plan_tables(const struct rung_plan_opts *opts, struct rung_plan_table *tables,
                              size_t count);

/** A host budget and its plan, for rung_plan_sweep(). */
struct rung_plan_budget {
	size_t size;         /**< sizeof(struct rung_plan_budget), set by the caller */
	uint64_t host_bytes; /**< the budget, as in rung_plan_opts; set by the caller */
	/** free it with rung_plan_destroy(); NULL: the budget is too small for slots and lists */
	struct rung_plan *plan;
	/** batches 0: everything is in memory, so nothing was compared */
	struct rung_plan_division division;
	struct rung_plan_traffic traffic; /**< as from rung_plan_predict(); zeros without a plan */
};

/**
 * Plan several host budgets, and predict the traffic of each, from batches that are sampled once.
 * See Sweeping at the top of this file. The lists of each plan are those that the budget holds with
 * the fewest device reads, unless opts->structure_bytes is set.
 *
 * @param opts         NULL: defaults. Lists are read for sampling within its host_bytes
 * @param sampler      of the training; csc is not needed
 * @param seeds        [seed_count] distinct train ranks
 * @param batches_max  0: 48
 * @param forecast     predicts times; NULL: only traffic
 * @param budgets      [budget_count], at least one; after a failure no plan is left in them
 * @return 0, RUNG_E_INVAL (every budget is too small: the message names the least that works for
 *         the last one), or an error of rung_plan_divide() or rung_plan_predict()
 *
 * Threads: any; it uses OpenMP threads.
 */
RUNG_API int rung_plan_sweep(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                             const struct rung_sampler_opts *sampler, const uint64_t *seeds,
                             uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                             const struct rung_forecast_opts *forecast,
                             struct rung_plan_budget *budgets, uint32_t budget_count);

/**
 * Predict the traffic of training: sample up to `batches_max` batches of a shuffled epoch, count
 * the rows of each tier and, with `forecast`, predict the time of the gathers. The hit_share of
 * every tier of the plan is set.
 *
 * @param csc          relabelled graph (rung_dataset_load_graph()); NULL with sampler->structure
 * @param seeds        [seed_count] distinct train ranks
 * @param batches_max  0: 48
 * @param forecast     predicts times; NULL: only traffic
 * @param traffic_out  may be NULL
 * @return 0, or an error of the sampler or of rung_plan_forecast()
 *
 * Threads: any; no other call on the plan at the same time.
 */
RUNG_API int rung_plan_predict(struct rung_plan *plan, const struct rung_csc *csc,
                               const struct rung_sampler_opts *sampler, const uint64_t *seeds,
                               uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                               const struct rung_forecast_opts *forecast,
                               struct rung_plan_traffic *traffic_out);

/**
 * Predict how long gathers of given batches take on the machine of a profile. See the top of
 * this file.
 *
 * @param opts          with a profile
 * @param next          returns the batches in order
 * @param ctx           passed to `next`
 * @param forecast_out  with `size` set; written on success
 * @return 0, RUNG_E_INVAL (a rank out of range; no complete profile; rows in files but no reads
 *         in the profile; no batch after the warm-up), RUNG_E_NOMEM, RUNG_E_ABI, or the error
 *         of `next`
 *
 * Threads: any; no other call on the plan at the same time.
 */
RUNG_API int rung_plan_forecast(struct rung_plan *plan, const struct rung_forecast_opts *opts,
                                rung_forecast_next_fn next, void *ctx,
                                struct rung_forecast *forecast_out);

#ifdef __cplusplus
}
#endif
#endif
