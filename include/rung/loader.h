/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file The loader: batches of an epoch, sampled and gathered ahead by threads of its own, handed
 * over in order.
 *
 * Worker threads sample; a *feeder* thread announces each batch to the store (rung_prefetch()) as
 * soon as it is sampled, in order, so that the cold-row cache keeps what is wanted soonest, and
 * submits the gathers, in order, of the next few. Rows in memory are copied by the feeder, beside
 * the trainer's work.
 *
 *     seeds -> workers: sample ──> `ahead` batches, announced ──> feeder: gather ──> `gathers` batches ──> next ──> yours ──> put
 *
 *     pass = { .size = sizeof(pass), .seeds = train, .seed_count = n,
 *              .key_first = epoch * batches, .shuffle = 1, .shuffle_seed = epoch };
 *     rc = rung_loader_begin(loader, &pass);
 *     while ((rc = rung_loader_next(loader, &batch)) > 0) {
 *             ... compute on batch->rows and batch->blocks ...
 *             rung_loader_put(loader, batch, NULL);
 *     }
 *
 * What a batch holds follows from the seeds, the sampler's seed and the batch's key (sampler.h),
 * and from shuffle_seed: it is the same for any number of threads, any `ahead`, any tiers, on a GPU
 * or not.
 *
 * On a GPU batches are lent and returned in the order of CUDA streams, and the host does not wait:
 *
 *     while ((rc = rung_loader_next(loader, &batch)) > 0) {
 *             if (batch->request)   // later work on the stream finds the rows
 *                     rc = rung_request_wait_stream(batch->request, stream);
 *             ... put kernels on `stream` that read batch->rows ...
 *             rung_loader_put(loader, batch, stream);   // the memory is used again after these
 *     }
 *
 * The loader has streams of its own, which are in no order with the caller's, nor with the legacy
 * default stream. They wait for the caller's work in one case: a gather into memory that was put
 * waits on the GPU for the work that was on the putting stream. Memory whose work has run is used
 * first, and there is memory for gathers + 2 batches before any is used again.
 *
 * With opts.gpu_sampler batches are sampled on the GPU too, and are the same; their ranks and edges
 * are in GPU memory (on_gpu).
 *
 * Threads: rung_loader_put() and rung_loader_stats() from any at any time, all other calls on a
 * loader one at a time. The loader's own threads block all signals. A child forked without exec
 * must not use the loader.
 */
#ifndef RUNG_LOADER_H
#define RUNG_LOADER_H

#include "gpu_sampler.h"
#include "sampler.h"
#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Of rung_loader_opts.ahead. */
#define RUNG_LOADER_AHEAD_MAX 4096
/** Of rung_loader_opts.threads. */
#define RUNG_LOADER_THREADS_MAX 1024

struct rung_loader;

/** Options of rung_loader_create(). */
struct rung_loader_opts {
	size_t size; /**< sizeof(struct rung_loader_opts), set by the initialiser */
	/** its own size set too; threads is taken for 1: each worker samples by itself. hop_count
	 * 0: no edges, a batch is its seeds */
	struct rung_sampler_opts sampler;
	uint64_t batch_size; /**< seeds of a batch; 0: 1024 */
	/** that sample; 0: 1 less than the CPUs allowed, at least 1, at most 8; with gpu_sampler 2,
	 * each with a batch in flight on the GPU */
	uint32_t threads;
	/** batches sampled, and announced, before they are gathered; 0: 16, with gpu_sampler 2; at
	 * most RUNG_LOADER_AHEAD_MAX. Each takes the memory of a sampled batch: 8 bytes a vertex, 4
	 * an edge, 8 a vertex that draws; with gpu_sampler GPU memory for the largest batch there
	 * can be */
	uint32_t ahead;
	/** batches whose rows are on the way or there, beside those the caller holds; 0: 2; at most
	 * 1 less than the store's requests_max, but 1 in any case. Each takes the memory of its
	 * rows */
	uint32_t gathers;
	/** NULL: the CPU samples. Else of the same store, with room for batch_size seeds: batches
	 * are sampled on its GPU, csc is NULL and sampler.hop_count 0. Borrowed until the loader is
	 * destroyed */
	struct rung_gpu_sampler *gpu_sampler;
};

/** Initialiser: all defaults. In C++: rung_loader_opts_init(). */
#define RUNG_LOADER_OPTS_INIT                                                                      \
	{                                                                                          \
		.size = sizeof(struct rung_loader_opts), .sampler = {                              \
			.size = sizeof(struct rung_sampler_opts)                                   \
		}                                                                                  \
	}
RUNG_INIT_FUNCTION(rung_loader_opts, { opts.sampler.size = sizeof(opts.sampler); })

/**
 * Make a loader and start its threads; they sleep until a pass begins.
 *
 * @param store       borrowed until the loader is destroyed; others may use it at the same time,
 *                    and several loaders one store
 * @param csc         the relabelled graph, as rung_dataset_load_graph() gives it, with the store's
 *                    vertex count; borrowed likewise. May be NULL when opts->sampler.hop_count is
 *                    0, and is NULL with opts->gpu_sampler
 * @param opts        NULL: defaults, that is no edges
 * @param loader_out  free with rung_loader_destroy()
 * @return 0, RUNG_E_INVAL (threads, ahead, gathers; no csc, or one of other vertices; a gpu_sampler
 *         of another store, or next to a csc; what rung_sampler_create() refuses), RUNG_E_ABI,
 *         RUNG_E_NOMEM, RUNG_E_NOSUP (as rung_sampler_create()), RUNG_E_IO (a CUDA error)
 *
 * Memory: of each worker what rung_sampler_create() says, of batches what opts says and that of
 * batches the caller holds. Memory that was taken is used again, and kept until the loader is
 * destroyed; of batches put beyond two that the caller held at a time it is given back. On a GPU,
 * where that may wait for all work, at the end of the pass; with gpu_sampler memory for ahead +
 * gathers + 2 batches is allocated here, and where rows are cold as much pinned host memory as
 * their vertices take.
 */
RUNG_API int rung_loader_create(struct rung_store *store, const struct rung_csc *csc,
                                const struct rung_loader_opts *opts,
                                struct rung_loader **loader_out);

/**
 * End the pass on its way, stop the threads and free everything, that of batches not put as well:
 * they must not be touched any more. Waits for the work on the streams that batches were put with.
 * Before the store is closed. NULL is allowed.
 */
RUNG_API void rung_loader_destroy(struct rung_loader *loader);

/** One sweep over seeds: batch i has the next batch_size of them, the last one what is left, and
 * the key key_first + i. */
struct rung_loader_pass {
	size_t size;           /**< sizeof(struct rung_loader_pass), set by the initialiser */
	const uint64_t *seeds; /**< [seed_count] ranks, copied; each at most once in a batch */
	uint64_t seed_count;   /**< 0: a pass without batches */
	/** batches of other passes should have other keys: they draw other neighbours then */
	uint64_t key_first;
	/** nonzero: in an order drawn from shuffle_seed, every order equally likely; else as they
	 * are given */
	int shuffle;
	uint64_t shuffle_seed;
	/** begin with this batch of the pass: to go on after an interruption. At most the number of
	 * batches */
	uint64_t batch_first;
	/** nonzero: without the last batch when it has fewer than batch_size seeds */
	int drop_last;
};

/** Initialiser: all defaults. In C++: rung_loader_pass_init(). */
#define RUNG_LOADER_PASS_INIT RUNG_INIT(struct rung_loader_pass)
RUNG_INIT_FUNCTION(rung_loader_pass, {})

/**
 * Begin a pass; the pass on its way, if there is one, is ended as by rung_loader_end(). Seeds are
 * checked when they are sampled.
 *
 * @return 0, RUNG_E_INVAL (no seeds, batch_first: says how many batches there are), RUNG_E_ABI,
 *         RUNG_E_NOMEM; then no pass begins, and the one on its way goes on
 */
RUNG_API int rung_loader_begin(struct rung_loader *loader, const struct rung_loader_pass *pass);

/** A batch that was handed over: the caller's, and everything it points to valid, until it is put.
 * Positions count its vertices. */
struct rung_loader_batch {
	uint64_t batch_idx;    /**< in its pass, from 0 */
	const uint64_t *seeds; /**< [seed_count] ranks: the first of `ranks` */
	uint64_t seed_count;
	/** [rank_count] of all vertices, seeds first, in the order of the rows; see on_gpu */
	const uint64_t *ranks;
	uint64_t rank_count;
	/** [block_count], hop 0, from the seeds, first; of their arrays see on_gpu */
	const struct rung_block *const *blocks;
	uint32_t block_count; /**< hops; 0 without edges */
	/** [rank_count * row_bytes] the row of each of `ranks`, one behind the other, at least
	 * 256-byte aligned; of a store whose gathers run on a GPU, GPU memory */
	void *rows;
	/** NULL: the rows are there, as always on the CPU. Else of the gather: put work behind it
	 * with rung_request_wait_stream(), or wait for it; the loader gives it back. It tells what
	 * fails once the gather is on its way on a GPU: a row that cannot be read */
	struct rung_request *request;
	/** 1: ranks, seeds and the blocks' arrays are in GPU memory, complete when the batch is
	 * handed over; 0: in host memory */
	int on_gpu;
};

/**
 * The next batch, in order; waits until it is sampled and its gather submitted, and on the CPU
 * until all its rows are there.
 *
 * Each batch not put yet has its own memory, and the loader takes more for those to come: a caller
 * may hold as many as there is memory for.
 *
 * @param batch_out  give it back with rung_loader_put()
 * @return 1; 0 at the end of the pass; RUNG_E_INVAL when no pass was begun; or the failure of this
 *         batch, with its number in rung_last_error(): what rung_sampler_sample(), rung_gather()
 *         and rung_request_wait() return, or RUNG_E_NOMEM. The batch that failed is left out: the
 *         next call gives the one behind it
 */
RUNG_API int rung_loader_next(struct rung_loader *loader,
                              const struct rung_loader_batch **batch_out);

/**
 * Give a batch back, in any order; its memory is used for others.
 *
 * @param stream  on a GPU: the stream that the caller's work on the batch is on. The memory is used
 *                again once all work that is on it now has run; the host does not wait for that.
 *                NULL: CUDA's legacy default stream. Work on further streams: let `stream` wait for
 *                it first (cudaStreamWaitEvent). Not a stream that is being captured. On the CPU
 *                the stream is not looked at, and the caller's work on the batch has ended
 *
 * `stream` waits for the batch's rows, if nothing has made it do so. The host waits for rows only
 * where some are cold, and as long as rung_request_wait_stream() would. NULL as the batch is
 * allowed. What the request failed with is then only counted.
 */
RUNG_API void rung_loader_put(struct rung_loader *loader, const struct rung_loader_batch *batch,
                              struct CUstream_st *stream);

/**
 * Leave a pass early: waits for what is on its way, at most a batch a worker and the gathers that
 * were submitted. Batches that were handed over stay the caller's. Nothing to do when no pass is on
 * its way.
 *
 * On a GPU it may also wait for all work of the device: memory that was too small for a batch of
 * the pass is freed here. So may rung_loader_begin(), which ends the pass before.
 * @return 0
 */
RUNG_API int rung_loader_end(struct rung_loader *loader);

/**
 * Before the first pass: make its first batches and put them back, as many as are in memory at a
 * time, so that none of the pass waits for memory that is touched first, and what of their cold
 * rows is kept is there. The pass on its way, if there is one, is ended; the counters count nothing
 * of it, those of the store do.
 *
 * @param pass  as it will be begun, or another one with batches of the same size
 * @return 0, what rung_loader_begin() returns, RUNG_E_NOMEM. What is wrong with a batch is for the
 *         pass to tell
 */
RUNG_API int rung_loader_warm_up(struct rung_loader *loader, const struct rung_loader_pass *pass);

/** Counters of the pass on its way, or of the last one; each is exact, together they are of one
 * moment. */
struct rung_loader_stats {
	size_t size;      /**< sizeof(struct rung_loader_stats), set by the caller */
	uint64_t batches; /**< handed over; so those below */
	uint64_t rows;
	uint64_t edges;
	double seconds;       /**< since rung_loader_begin(), until the pass had ended */
	double wait_s;        /**< in rung_loader_next() */
	double wait_sample_s; /**< of it: the batch was not sampled yet; more threads help */
	/** of it: its rows were not there, or its gather not submitted; more memory, or more
	 * gathers */
	double wait_rows_s;
	double sample_s; /**< sampling, all workers together */
	/** the feeder, submitting gathers: that is where rows in memory are copied on the CPU */
	double gather_s;
	double announce_s;  /**< the feeder, announcing */
	uint64_t announced; /**< batches; 0 where no row of the store is cold, or it has no cache */
	/** times the store's window was full (rung_store_opts.window_rows_max): tried again behind
	 * the next gather */
	uint64_t announce_refused;
};

/** Read the counters. @return 0, RUNG_E_ABI, RUNG_E_INVAL (size) */
RUNG_API int rung_loader_stats(const struct rung_loader *loader,
                               struct rung_loader_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif
