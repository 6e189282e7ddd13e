/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The loader: batches of an epoch in order, sampled and gathered ahead by its own threads.
 *
 * Worker threads sample. A feeder thread announces each sampled batch to the store
 * (rung_prefetch()) in order, so that the cold-row cache keeps the rows that are needed soonest. It
 * also submits the gathers of the next few batches, in order. The feeder copies rows that are in
 * memory while the trainer computes.
 *
 *     seeds -> workers: sample -> `look_ahead` batches, announced
 *           -> feeder: gather  -> `gathers` batches -> next -> caller -> put
 *
 *     pass = { .size = sizeof(pass), .seeds = train, .seed_count = n,
 *              .key_first = epoch * batches, .shuffle = 1, .shuffle_seed = epoch };
 *     rc = rung_loader_begin(loader, &pass);
 *     while ((rc = rung_loader_next(loader, &batch)) > 0) {
 *             ... compute on batch->rows and batch->blocks ...
 *             rung_loader_put(loader, batch, NULL);
 *     }
 *
 * The content of a batch depends only on the seeds, the sampler's seed, the key of the batch
 * (sampler.h) and shuffle_seed. It is the same for any number of threads, any `look_ahead`, any
 * tiers, and on a GPU or a CPU.
 *
 * On a GPU the host does not wait for batches: they are handed over and returned in the order of
 * CUDA streams:
 *
 *     while ((rc = rung_loader_next(loader, &batch)) > 0) {
 *             if (batch->request)   // later work on the stream finds the rows
 *                     rc = rung_request_wait_stream(batch->request, stream);
 *             ... put kernels on `stream` that read batch->rows ...
 *             rung_loader_put(loader, batch, stream);   // reused after these kernels
 *     }
 *
 * The loader has its own streams. They are not ordered with the caller's streams or with the legacy
 * default stream, except in one case: a gather into memory that was put waits, on the GPU, for the
 * work on the stream that was passed to rung_loader_put(). Memory whose work has finished is reused
 * first, and memory for gathers + 2 batches exists before any is reused.
 *
 * With opts.gpu_sampler the GPU samples the batches too. They are the same batches; their ranks and
 * edges are in GPU memory (on_gpu).
 *
 * Threads: rung_loader_put() and rung_loader_stats() may be called from any thread at any time. All
 * other functions: one thread at a time per loader. The loader's own threads block all signals. A
 * child that was forked without exec must not use the loader.
 *
 * Memory. A loader uses memory for each worker as documented under Memory in sampler.h, for batches
 * as documented in struct rung_loader_opts, plus the batches that the caller holds. Memory is
 * reused and kept until the loader is destroyed, except that of batches beyond two held by the
 * caller at the same time: it is freed when they are put. On a GPU, where freeing may wait for all
 * work, it is freed at the end of the pass. With gpu_sampler, rung_loader_create() allocates memory
 * for look_ahead + gathers + 2 batches, and if some rows are cold, pinned host memory for their
 * vertices as well.
 *
 * Creating. Other users and other loaders may use the store at the same time. The graph comes from
 * rung_dataset_load_graph() and has the vertex count of the store. It may be NULL if the store has
 * a structure (structure.h), which is then used, or if sampler.hop_count is 0, and is NULL with
 * gpu_sampler. RUNG_E_INVAL: threads, look_ahead or gathers out of range; no csc, or a different
 * vertex count; a gpu_sampler of another store, or together with a csc; options that
 * rung_sampler_create() rejects.
 *
 * Batches. On the CPU rung_loader_next() waits until all rows of the batch are complete, on a GPU
 * only until its gather is submitted. Each batch has its own memory until it is put, so a caller
 * may hold as many batches as memory allows. The error text of a failed batch has its number
 * (rung_last_error()). A failed batch is skipped: the next call returns the one after it.
 *
 * Putting. rung_loader_put() reuses the memory of a batch after all work that is on the given
 * stream at that time; the host does not wait for it. For work on further streams let that stream
 * wait for it first (cudaStreamWaitEvent()). The stream must not be capturing. The stream waits for
 * the rows of the batch unless the caller already waited. The host waits for rows only if some are
 * cold, as long as rung_request_wait_stream() would. On the CPU the stream is ignored, and the
 * caller's work on the batch must be finished.
 *
 * Warming up. After rung_loader_warm_up() no batch of the pass waits for memory that is touched for
 * the first time, and the cold-row cache holds the rows of the first batches, as many as are in
 * memory at the same time. The loader's counters do not include the warm-up, those of the store do.
 */
#ifndef RUNG_LOADER_H
#define RUNG_LOADER_H

#include "gpu_sampler.h"
#include "sampler.h"
#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Upper limit of rung_loader_opts.look_ahead. */
#define RUNG_LOADER_LOOK_AHEAD_MAX 4096
/** Upper limit of rung_loader_opts.threads. */
#define RUNG_LOADER_THREADS_MAX 1024

struct rung_loader;

/** Options of rung_loader_create(). */
struct rung_loader_opts {
	size_t size; /**< sizeof(struct rung_loader_opts), set by the initialiser */
	/** its `size` must be set too; `threads` is ignored, each worker samples on its own thread.
	 * hop_count 0: no edges, a batch is its seeds */
	struct rung_sampler_opts sampler;
	uint64_t batch_size; /**< seeds per batch; 0: 1024 */
	/** sampling threads; 0: one less than the allowed CPUs, at least 1, at most 8; 8 if some
	 * lists of the graph are in a file; with gpu_sampler 2, each with one batch in flight on
	 * the GPU */
	uint32_t threads;
	/** batches that are sampled and announced before they are gathered; 0: 16, with gpu_sampler
	 * 2; at most RUNG_LOADER_LOOK_AHEAD_MAX. Each uses the memory of a sampled batch: 8 bytes
	 * per vertex, 4 per edge, 8 per vertex that draws; with gpu_sampler, GPU memory for the
	 * largest possible batch */
	uint32_t look_ahead;
	/** batches whose gather is in flight or complete, not counting those the caller holds; 0:
	 * 2; at most the store's requests_max - 1, and at least 1. Each uses the memory of its
	 * rows */
	uint32_t gathers;
	/** NULL: the CPU samples. Otherwise a sampler of the same store with room for batch_size
	 * seeds: the GPU samples, csc is NULL and sampler.hop_count 0. Borrowed until the loader is
	 * destroyed */
	struct rung_gpu_sampler *gpu_sampler;
	/** typed graphs: [sampler.type_count] the store of each type's rows; NULL: the type has no
	 * rows. `store` and `csc` of rung_loader_create() are then NULL. Borrowed until the loader
	 * is destroyed */
	struct rung_store *const *type_stores;
	/** [sampler.relation_count] the store of each relation's edge rows, in the order of the
	 * positions of its edges; NULL, as a whole or in places: not gathered */
	struct rung_store *const *edge_stores;
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
 * Create a loader and start its threads; they sleep until a pass begins. See Memory and Creating at
 * the top of this file.
 *
 * @param store       borrowed until the loader is destroyed; it may have other users
 * @param csc         relabelled graph, borrowed until the loader is destroyed; NULL: the store's
 *                    structure, or with opts->gpu_sampler
 * @param opts        NULL: defaults, which means no edges
 * @param loader_out  free with rung_loader_destroy()
 * @return 0, RUNG_E_INVAL, RUNG_E_ABI, RUNG_E_NOMEM, RUNG_E_NOSUP (as rung_sampler_create()),
 *         RUNG_E_IO (a CUDA error)
 *
 * Threads: any. Stream: the loader creates its own.
 */
RUNG_API int rung_loader_create(struct rung_store *store, const struct rung_csc *csc,
                                const struct rung_loader_opts *opts,
                                struct rung_loader **loader_out);

/**
 * Cancel the current pass, stop the threads and free the loader with all its batches. Batches that
 * were not put must not be used any more. The call waits for the work on the streams that were
 * passed to rung_loader_put(). Destroy the loader before its store is closed.
 *
 * @param loader  NULL is allowed
 *
 * Threads: one at a time per loader. Stream: waits for those passed to rung_loader_put().
 */
RUNG_API void rung_loader_destroy(struct rung_loader *loader);

/** A pass over seeds: batch i has the next batch_size seeds and the key key_first + i; the last
 * batch has the remaining seeds. */
struct rung_loader_pass {
	size_t size;           /**< sizeof(struct rung_loader_pass), set by the initialiser */
	const uint64_t *seeds; /**< [seed_count] ranks, copied; repeats are allowed */
	uint64_t seed_count;   /**< 0: a pass without batches */
	/** use different keys for different passes: batches with different keys draw different
	 * neighbours */
	uint64_t key_first;
	/** nonzero: shuffle the seeds with shuffle_seed, every order equally likely; 0: in the
	 * given order */
	int shuffle;
	uint64_t shuffle_seed;
	/** first batch to produce, for resuming an interrupted pass; at most the number of
	 * batches */
	uint64_t batch_first;
	/** nonzero: drop the last batch if it has fewer than batch_size seeds */
	int drop_last;
};

/** Initialiser: all defaults. In C++: rung_loader_pass_init(). */
#define RUNG_LOADER_PASS_INIT RUNG_INIT(struct rung_loader_pass)
RUNG_INIT_FUNCTION(rung_loader_pass, {})

/**
 * Begin a pass. If a pass is running, it is ended first, as by rung_loader_end(). The seeds are
 * copied; they are checked when they are sampled, so a rank out of range is an error of its batch.
 *
 * @param pass  with `size` set; not kept
 * @return 0, RUNG_E_INVAL (no seeds, or batch_first is too large: the message has the number of
 *         batches), RUNG_E_ABI, RUNG_E_NOMEM; after an error the pass that was running, if any,
 *         continues
 *
 * Threads: one at a time per loader.
 */
RUNG_API int rung_loader_begin(struct rung_loader *loader, const struct rung_loader_pass *pass);

/**
 * When a batch passed the steps of the loader: nanoseconds of CLOCK_MONOTONIC, 0 for a step that
 * was left out. Steps of different batches overlap: that is what a timeline of them shows.
 */
struct rung_loader_times {
	uint64_t sample_begin_ns, sample_end_ns; /**< on a worker thread */
	/** on the feeder thread; 0 if the batch was not announced */
	uint64_t announce_begin_ns, announce_end_ns;
	/** on the feeder thread: submitting the gather, which on the CPU includes copying the rows
	 * that are in memory */
	uint64_t gather_begin_ns, gather_end_ns;
	/** on the CPU: when all rows were in place; before gather_end_ns if none had to be read.
	 * 0 on a GPU */
	uint64_t rows_ns;
};

/** A batch that was handed over. It belongs to the caller until it is put, and everything it points
 * to is valid until then. Positions are indices into its list of vertices. */
struct rung_loader_batch {
	uint64_t batch_idx;    /**< number in the pass, from 0 */
	const uint64_t *seeds; /**< [seed_count] ranks: the first of `ranks` */
	uint64_t seed_count;
	/** [rank_count] ranks of all vertices, seeds first, in the order of the rows; see on_gpu */
	const uint64_t *ranks;
	uint64_t rank_count;
	/** [block_count] blocks; hop 0, which starts at the seeds, is first; for their arrays see
	 * on_gpu */
	const struct rung_block *const *blocks;
	uint32_t block_count; /**< number of hops; 0 without edges */
	/** [rank_count * row_bytes] rows of `ranks`, contiguous, at least 256-byte aligned; in GPU
	 * memory if the store gathers on a GPU */
	void *rows;
	/** NULL: the rows are complete, as always on the CPU. Otherwise the request of the gather:
	 * wait for it, or let a stream wait with rung_request_wait_stream(). The loader releases
	 * it. Reports errors that occur after a gather on a GPU was started, such as a row that
	 * cannot be read */
	struct rung_request *request;
	/** 1: ranks, seeds and the arrays of the blocks are in GPU memory, complete when the batch
	 * is handed over; 0: in host memory */
	int on_gpu;
	struct rung_loader_times times;
	/** typed graphs: vertices and blocks; ranks, blocks and rows are then NULL. Else NULL */
	const struct rung_typed_batch *typed;
	/** [type_count] rows of the vertices of each type, in their order; NULL: none */
	void *const *type_rows;
	/** [relation_count] rows of the edges of each relation: those of hop 0 in the order of its
	 * block, then those of hop 1, and so on; NULL: none */
	void *const *edge_rows;
	/** [request_count] as `request`, of all tables that were gathered; wait for each */
	struct rung_request *const *requests;
	uint32_t request_count;
};

/**
 * Get the next batch of the pass, in order. The call waits until the batch is sampled and its
 * gather is submitted. See Batches at the top of this file.
 *
 * @param batch_out  the batch; return it with rung_loader_put()
 * @return 1 with a batch; 0 at the end of the pass; RUNG_E_INVAL if no pass was begun;
 *         RUNG_E_NOMEM; or the error of this batch from rung_sampler_sample(), rung_gather() or
 *         rung_request_wait()
 *
 * Threads: one at a time per loader. Stream: see rung_loader_batch.request.
 */
RUNG_API int rung_loader_next(struct rung_loader *loader,
                              const struct rung_loader_batch **batch_out);

/**
 * Return a batch, in any order; its memory is reused for other batches. The error of its request,
 * if any, is then only counted. See Putting at the top of this file.
 *
 * @param batch   NULL is allowed
 * @param stream  on a GPU: the stream with the caller's work on the batch; NULL: CUDA's legacy
 *                default stream. Ignored on the CPU
 *
 * Threads: any, at any time. Stream: `stream` waits for the rows.
 */
RUNG_API void rung_loader_put(struct rung_loader *loader, const struct rung_loader_batch *batch,
                              struct CUstream_st *stream);

/**
 * End a pass early. The call waits for work in flight: at most one batch per worker, and the
 * gathers that were submitted. Batches that were handed over still belong to the caller. If no pass
 * is running, nothing happens. On a GPU the call may also wait for all work of the device, because
 * memory that was too small for a batch of the pass is freed here; rung_loader_begin() does the
 * same when it ends a pass.
 *
 * @return 0
 *
 * Threads: one at a time per loader.
 */
RUNG_API int rung_loader_end(struct rung_loader *loader);

/**
 * Prepare for the first pass: produce its first batches and put them back, so that memory and cache
 * are ready. A running pass is ended. See Warming up at the top of this file.
 *
 * @param pass  the pass that will be begun, or another one with batches of the same size
 * @return 0, an error of rung_loader_begin(), or RUNG_E_NOMEM. Errors of single batches are left to
 *         the pass
 *
 * Threads: one at a time per loader.
 */
RUNG_API int rung_loader_warm_up(struct rung_loader *loader, const struct rung_loader_pass *pass);

/** Counters of the current pass, or of the last one if none is running. Each counter is exact, and
 * all are read at the same moment. */
struct rung_loader_stats {
	size_t size;      /**< sizeof(struct rung_loader_stats), set by the caller */
	uint64_t batches; /**< handed over; the members below refer to these batches */
	uint64_t rows;
	uint64_t edges;
	double seconds; /**< since rung_loader_begin(), until the end of the pass */
	double wait_s;  /**< wait time in rung_loader_next() */
	/** part of wait_s: the batch was not sampled yet; more threads help */
	double wait_sample_s;
	/** part of wait_s: the gather was not submitted, or rows were missing; more memory or more
	 * gathers help */
	double wait_rows_s;
	double sample_s; /**< sampling, sum over all workers */
	/** the feeder submitting gathers, which on the CPU includes copying rows that are in
	 * memory */
	double gather_s;
	double announce_s;  /**< the feeder announcing batches */
	uint64_t announced; /**< batches announced; 0 if the store has no cold rows or no cache */
	/** number of times the window of the store (rung_store_opts.window_rows_max) was full; the
	 * batch is announced again after the next gather */
	uint64_t announce_refused;
};

/**
 * Copy the counters of the current pass, or of the last one if none is running. They may be read
 * while the pass runs, for example to find out whether sampling or gathering limits it.
 *
 * @param loader     the loader
 * @param stats_out  with `size` set; overwritten on success
 * @return 0, RUNG_E_ABI, RUNG_E_INVAL (size)
 *
 * Threads: any, at any time.
 */
RUNG_API int rung_loader_stats(const struct rung_loader *loader,
                               struct rung_loader_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif
