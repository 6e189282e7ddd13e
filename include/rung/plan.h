/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The plan: which ranks live in which tier, within the budgets, and what a batch will find where.
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

/** A budget without limit. */
#define RUNG_BYTES_MAX UINT64_MAX
/** An empty budget: zero stands for a default. */
#define RUNG_BYTES_NONE (UINT64_MAX - 1)

struct rung_plan;

/** On which NUMA nodes host memory is to lie. On a machine of one node all of them come to the
 * same. */
enum rung_numa {
	/** rows: the hottest at the GPUs, without GPUs at the CPUs that the process may run on,
	 * dealt in blocks where these are at several nodes; what finds no room there on the next
	 * nearest nodes; but over all nodes with memory where rung_plan_forecast() finds that
	 * faster. Staging slots, the cold-row cache and the refill threads: at the drive that they
	 * are read from. Nodes that the process is bound to (numactl --membind) are the only ones;
	 * any other memory policy that it came with is left alone */
	RUNG_NUMA_AUTO = 0,
	/** all on rung_plan_opts.numa_node, and nowhere else; refill threads as with AUTO */
	RUNG_NUMA_NODE,
	/** rows dealt in blocks to all nodes that have memory for the process; the rest as with
	 * AUTO */
	RUNG_NUMA_INTERLEAVE,
	RUNG_NUMA_NONE /**< where the kernel puts it, and threads anywhere */
};

/** Options of rung_plan_create(): budgets, and what gathers. */
struct rung_plan_opts {
	size_t size; /**< sizeof(struct rung_plan_opts), set by the initialiser */
	/** host memory for rows, staging slots, cold-row cache and graph together; 0: half of what
	 * is free; RUNG_BYTES_MAX: all rows */
	uint64_t host_bytes;
	/** reads in flight wanted on each features file; 0: what is chosen by the profile, else
	 * 64 */
	uint32_t queue_depth;
	/** what will gather; only with CUDA are there rows in the tiers "gpu" and "peer" */
	enum rung_device device;
	/** [gpu_count] GPUs, the first gathers; one may come several times and then poses as
	 * several; NULL: the one the calling thread has current */
	const int *gpus;
	uint32_t gpu_count;
	/** of each GPU, for rows, map and graph; 0: what is free less 1 GiB; RUNG_BYTES_MAX: all
	 * rows */
	uint64_t gpu_bytes;
	/** of gpu_bytes when there are several GPUs: the hottest rows, kept on the GPU that
	 * gathers; RUNG_BYTES_MAX: all of it; 0: none. The others are interleaved over the GPUs. */
	uint64_t replicate_bytes;
	/** nonzero: place the graph's arrays too, for rung_gpu_sampler_create(): of them and of the
	 * features the same share goes to the GPUs, as hot vertices stand first in both; the rest
	 * of the graph is host memory */
	int sample_on_gpu;
	/** nonzero: keep rank_of_vertex on the GPU if it takes at most half of gpu_bytes */
	int vertex_ids;
	/** of host_bytes for the cold-row cache; 0: an eighth of it; RUNG_BYTES_MAX: all that the
	 * slots leave; RUNG_BYTES_NONE: no cache */
	uint64_t cache_bytes;
	enum rung_numa numa;
	uint32_t numa_node; /**< of RUNG_NUMA_NODE */
	/** of the machine, to choose by (rung_plan_choice()); read only during the call; NULL:
	 * nothing is */
	const struct rung_profile *profile;
	/** The cold-row cache as a share of the host budget, 0 to 1. The budget is host_bytes or
	    its default. 0: cache_bytes. RUNG_E_INVAL with both */
	double cache_share;
};

/** Initialiser: all defaults. In C++: rung_plan_opts_init(). */
#define RUNG_PLAN_OPTS_INIT RUNG_INIT(struct rung_plan_opts)
RUNG_INIT_FUNCTION(rung_plan_opts, {})

/** The ranks that live in a tier. */
struct rung_plan_tier {
	const char *name;    /**< "gpu", "peer" (interleaved over GPUs), "host", "nvme" */
	uint64_t rank_first; /**< ranks rank_first .. rank_first + row_count live here */
	uint64_t row_count;
	uint64_t bytes; /**< row_count * row_bytes */
	/** predicted share of requested rows, 0 to 1; NaN before rung_plan_predict() */
	double hit_share;
};

/** Staging slots: buffers in host memory that rows are read into from the NVMe tier; inside the
 * host budget. */
struct rung_plan_slots {
	uint64_t slot_count; /**< of all features files together; 0 when every row is in memory */
	uint64_t slot_bytes;
};

/** The cold-row cache: rows of the NVMe tier that were read and will be wanted again; inside the
 * host budget. */
struct rung_plan_cache {
	uint64_t row_count;   /**< 0: none */
	uint64_t frame_bytes; /**< of a row in it */
	uint64_t bytes;       /**< with what it takes to find and replace them */
};

/** Host memory and the NUMA nodes it is to lie on. */
struct rung_place {
	/** "host" (its rows), "slots" (of one features file, in their order), "cache" (its
	 * frames) */
	const char *name;
	/** "host": ranks rank_first .. rank_first + row_count begin here; else 0 */
	uint64_t rank_first;
	uint64_t row_count;
	uint64_t bytes;
	struct rung_id_list nodes; /**< numbers; none: where the kernel puts it */
	/** with several nodes: dealt to them in turn, in blocks of so many bytes */
	uint64_t block_bytes;
};

/** What will gather. */
struct rung_plan_device {
	enum rung_device device; /**< RUNG_DEVICE_CPU or RUNG_DEVICE_CUDA */
	/** why not CUDA when it was asked for with RUNG_DEVICE_AUTO, or why not all GPUs; else
	 * "" */
	const char *why;
	const int *gpus;    /**< [gpu_count], the first gathers */
	uint32_t gpu_count; /**< 0 on the CPU */
	int map_on_gpu;     /**< 1: room for rank_of_vertex was kept on the GPU */
};

/** What sampled batches say of the traffic to come. */
struct rung_plan_traffic {
	uint64_t batches_sampled;
	uint64_t batches_per_epoch;
	double rows_per_batch; /**< mean, deduplicated */
	double rows_per_epoch;
	double cold_rows_per_epoch;
	/** from the NVMe tier, in whole sectors of sector_bytes, rows not merged */
	double read_bytes_per_epoch;
	uint32_t sector_bytes;
	double seconds_per_epoch;      /**< of gathers, by the profile; NaN: none are predicted */
	struct rung_forecast forecast; /**< of the sampled batches, likewise */
};

/**
 * Place the rows of a dataset.
 *
 * @param opts      NULL: defaults
 * @param plan_out  free with rung_plan_destroy(); does not need the dataset any more
 * @return 0, RUNG_E_INVAL when the host budget cannot hold the staging slots, or the graph (says
 *         the least that works), or for a NUMA node that there is not, RUNG_E_NOMEM; with
 *         RUNG_DEVICE_CUDA what rung_gpu_info() returns
 *
 * GPUs that cannot read each other's memory share no rows: the first one is used alone then.
 */
RUNG_API int rung_plan_create(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                              struct rung_plan **plan_out);
/** Free a plan; stores opened with it go on. NULL is allowed. */
RUNG_API void rung_plan_destroy(struct rung_plan *plan);

/** Tier `idx` of those the device has (the CPU: "host", "nvme"), fastest first; NULL past the end.
 * Tiers without rows are listed too. */
RUNG_API const struct rung_plan_tier *rung_plan_tier(const struct rung_plan *plan, unsigned idx);
/** Its staging slots; the plan's, as what the functions below return. */
RUNG_API const struct rung_plan_slots *rung_plan_slots(const struct rung_plan *plan);
/** Its cold-row cache. */
RUNG_API const struct rung_plan_cache *rung_plan_cache(const struct rung_plan *plan);

/** Bytes of the host budget that tell where rows lie which were staged in place; 0: they were not,
 * or all are in memory. */
RUNG_API uint64_t rung_plan_vertices_bytes(const struct rung_plan *plan);

/** What gathers, and why it is not what was asked for. */
RUNG_API const struct rung_plan_device *rung_plan_device(const struct rung_plan *plan);

/** Place `idx` of host memory: "host", its parts from the hottest rows to the coldest, then
 * "slots", then "cache"; NULL past the end. */
RUNG_API const struct rung_place *rung_plan_place(const struct rung_plan *plan, size_t idx);

/** Why all of it is left to the kernel: one node, or what the kernel says or does not; "" when it
 * is not. */
RUNG_API const char *rung_plan_place_why(const struct rung_plan *plan);

/** What the plan has chosen by rung_plan_opts.profile, and stores that are opened with it take
 * where their options say nothing; NULL without one. */
RUNG_API const struct rung_choice *rung_plan_choice(const struct rung_plan *plan);

/**
 * The next batch of a forecast, of ranks; one that comes twice in a batch is read once.
 *
 * @param ranks_out  [*count_out] valid until the next call
 * @return 1 with a batch, 0 after the last one, or a negative status, which ends the forecast
 */
typedef int (*rung_forecast_next_fn)(void *ctx, const uint64_t **ranks_out, uint64_t *count_out);

/** What seconds are predicted for. */
struct rung_forecast_opts {
	size_t size; /**< sizeof(struct rung_forecast_opts), set by the initialiser */
	const struct rung_profile *profile; /**< of the machine */
	/** reads in flight on each features file; 0: those that the plan was made for */
	uint32_t queue_depth;
	uint32_t gap_bytes; /**< as in rung_store_opts; 0: as the profile says */
	/** that gather, each a batch; 0: as many as the plan has chosen, else 1 */
	uint32_t threads;
	int no_merge; /**< as in rung_store_opts */
	/** the first of the batches: they fill the cache, and neither their time nor their reads
	 * count */
	uint64_t warmup_batches;
	int keep_places; /**< nonzero: host rows stay where the plan has them */
};

/** Initialiser: all defaults. In C++: rung_forecast_opts_init(). */
#define RUNG_FORECAST_OPTS_INIT RUNG_INIT(struct rung_forecast_opts)
RUNG_INIT_FUNCTION(rung_forecast_opts, {})

/**
 * Predict the traffic of training: sample up to `batches_max` batches of a shuffled epoch and count
 * rows per tier.
 *
 * @param csc         the relabelled graph (rung_dataset_load_graph)
 * @param seeds       train ranks, distinct
 * @param batches_max 0: 32
 * @param forecast    for seconds; NULL: none are predicted
 * @param traffic_out may be NULL
 * @return 0 and hit_share of every tier set, or what the sampler returns, or rung_plan_forecast()
 */
RUNG_API int rung_plan_predict(struct rung_plan *plan, const struct rung_csc *csc,
                               const struct rung_sampler_opts *sampler, const uint64_t *seeds,
                               uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                               const struct rung_forecast_opts *forecast,
                               struct rung_plan_traffic *traffic_out);

/**
 * Work out how long gathers of these batches take on the machine of the profile, with two requests
 * of each thread in flight. Each batch is gone through as the store would: which rows are in
 * memory, which of the others the cold-row cache has by then, which share a read. Rows in memory
 * cost what the nodes do that the plan has put them on.
 *
 * On a GPU rows of its own memory, of other GPUs' and those that come over its link are read side
 * by side, so that the slowest counts; where the profile has no figures of one of these, assumed
 * ones are taken, and forecast_out->assumed says so.
 *
 * Where the plan leaves it open (RUNG_NUMA_AUTO, CPUs of several nodes gather, others have memory
 * too) host rows are spread from then on in the way that takes less: nearest to the readers first,
 * or in blocks over all nodes. rung_plan_place() and stores that are opened later show it. With
 * opts->keep_places they stay as the plan has them, and the prediction is for that.
 *
 * @param opts  with a profile
 * @param next  returns the batches in order, one per call. The forecast has finished with a batch
 *              before the next call, so one batch in memory is enough
 * @param ctx   passed to `next`
 * @return 0, RUNG_E_INVAL (a rank out of range; no profile, or an incomplete one; the plan has rows
 *         in files and the profile no reads; no batch behind those for warm-up), RUNG_E_NOMEM,
 *         RUNG_E_ABI, or what `next` returned
 */
RUNG_API int rung_plan_forecast(struct rung_plan *plan, const struct rung_forecast_opts *opts,
                                rung_forecast_next_fn next, void *ctx,
                                struct rung_forecast *forecast_out);

#ifdef __cplusplus
}
#endif
#endif
