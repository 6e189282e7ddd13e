/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The store: feature rows on a ladder of tiers behind one gather.
 *
 * A gather copies the rows of a list of ids into the caller's memory. Rows in memory tiers are
 * copied at once by the calling thread; the others are read from the file by the store's refill
 * thread. A request is the handle of one gather in flight: submit, then poll or wait, then put.
 * Several may be in flight, from several threads.
 *
 *     struct rung_ids ids = { .data = batch, .count = n, .dtype = RUNG_U64, .space = RUNG_RANKS };
 *     rc = rung_gather_submit(store, &ids, out, 0, RUNG_STREAM_OWN, &req);
 *     ... sample the next batch ...
 *     rc = rung_request_wait(req, -1);
 *     rung_request_put(req);
 *
 * On a GPU (a plan with RUNG_DEVICE_CUDA) the output is memory that the GPU reaches, ids may be in
 * plain host memory as well, and a gather is work on a CUDA stream: it starts after what is on the
 * stream already. Rows that a kernel can address (in GPU memory, a peer's, or host memory over the
 * link) are copied by it; only those from the file need the host. Work that uses the rows is put
 * after them without waiting:
 *
 *     rc = rung_gather_submit(store, &ids, out, 0, stream, &req);
 *     ... the same for the next batch, into other memory: the reads of one batch overlap with
 *     the work on the other ...
 *     rc = rung_request_wait_stream(req, compute_stream);
 *     ... kernels on compute_stream that read `out` ...
 *     rung_request_put(req);
 */
#ifndef RUNG_STORE_H
#define RUNG_STORE_H

#include "dataset.h"
#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_store;
struct rung_request;

/** How rows are read from files. */
enum rung_engine {
	RUNG_ENGINE_AUTO = 0, /**< io_uring where it works, else pread */
	RUNG_ENGINE_IO_URING,
	RUNG_ENGINE_PREAD, /**< a pool of threads */
	/** io_uring that looks at the device instead of waiting for its interrupt: keeps a core
	 * busy while reads are in flight. Wants a driver with poll queues (nvme.poll_queues=N at
	 * boot) */
	RUNG_ENGINE_IO_URING_POLL,
	/** commands of our own to the NVMe disk under the file (/dev/ngXnY, opened for reading):
	 * spares file system and block layer. Wants root or leave to open that, and a file on ext4
	 * or XFS on such a disk, which nobody changes as long as the store is open: where its bytes
	 * lie is asked for once */
	RUNG_ENGINE_NVME
};

/** For rung_store_opts.gap_bytes: reads skip nothing. */
#define RUNG_GAP_NONE UINT32_MAX

/** Options of rung_store_open() and rung_store_attach(). */
struct rung_store_opts {
	size_t size;           /**< sizeof(struct rung_store_opts), set by the initialiser */
	uint32_t requests_max; /**< requests in flight; 0: 8 */
	/** Ids of one request; 0: 1 Mi. In addition to the plan's budget each request reserves 36
	    bytes of address space for each. The largest gather so far has turned a part of that
	    into memory: 36 bytes for each of its ids, in whole pages. On CUDA 28 bytes for each of
	    batch_rows_max are pinned at open, 32 of 2^32 vertices and more */
	uint32_t batch_rows_max;
	/** reads in flight on each features file; 0: those that the plan was made for, 64 when
	 * attached; never more than it has slots */
	uint32_t queue_depth;
	enum rung_engine engine;
	int no_merge; /**< nonzero: read neighbouring rows one by one (for measuring) */
	int buffered; /**< nonzero: through the page cache instead of O_DIRECT */
	/** nonzero: ids of space RUNG_VERTICES will be used; keeps rank_of_vertex in memory */
	int vertex_ids;
	/** socket through which other processes attach, see rung_store_attach(); NULL: not
	 * shared */
	const char *share_path;
	/** bytes between two cold rows that are read along rather than read the rows apart; 0: what
	 * the plan has chosen by a profile, else what the device reads in the time of one more
	 * read, at most 64 KiB, measured when a process opens its first store there (some 50 ms);
	 * 16 KiB for files under 64 MiB and through the page cache, which are not measured;
	 * RUNG_GAP_NONE: none */
	uint32_t gap_bytes;
	/** a read that has not come back by then fails its requests, and its slot stays out of use
	 * until it has; 0: 30 s */
	uint32_t read_timeout_ms;
	/** Cold rows of batches announced by rung_prefetch() or in flight, not yet gathered; 0:
	    four times the rows that the cache holds, and a batch_rows_max for each request. In
	    addition to the plan's budget each takes 40 bytes of address space. Of these, as much
	    becomes memory as the rows known at the same time have needed at most */
	uint64_t window_rows_max;
	/** Nonzero, with share_path: the cold-row cache is not shared, those who attach have none.
	    In rung_store_attach(): the shared cache is not used. See there for whom this is */
	int private_cache;
	/** rung_store_attach() of a store on GPUs: the number of the GPU that gathers, read during
	    the call; NULL: the one that the calling thread has current. With several GPUs name it:
	    a thread that has chosen none has GPU 0 current. NULL in rung_store_open(): there the
	    plan names the GPUs */
	const int *gpu;
};

/** Initialiser: all defaults. In C++: rung_store_opts_init(). */
#define RUNG_STORE_OPTS_INIT RUNG_INIT(struct rung_store_opts)
RUNG_INIT_FUNCTION(rung_store_opts, {})

/** What ids number. */
enum rung_id_space {
	RUNG_RANKS = 0, /**< ids of the relabelled graph */
	RUNG_VERTICES   /**< ids of the user's own graph */
};

/** A list of ids, any order, repeats allowed. */
struct rung_ids {
	const void *data;
	uint64_t count;
	enum rung_dtype dtype; /**< RUNG_I32, RUNG_U32, RUNG_I64 or RUNG_U64 */
	enum rung_id_space space;
};

/**
 * Open a store: allocate the host tier and the staging slots, read the host tier's rows, start the
 * refill thread, and probe the engine with a real read. Everything that gathers need is allocated
 * here: with CUDA also the GPU tiers are loaded, host memory is registered (which pins it) and the
 * kernels are loaded. The GPU is the first of the plan's, whichever is current.
 *
 * @param ds         may be closed afterwards
 * @param plan       may be destroyed afterwards
 * @param opts       NULL: defaults
 * @param store_out  close with rung_store_close()
 * @return 0, RUNG_E_NOSUP (the engine asked for does not work here, with the reason), RUNG_E_NOMEM
 *         (also of a GPU, and of a NUMA node: says how much is free; memory is asked for before any
 *         of it is touched), RUNG_E_NODEV (no such GPU), RUNG_E_IO (also any other CUDA error),
 *         RUNG_E_INVAL
 *
 * Host memory counts as free where the kernel's MemAvailable and the control groups' limits say so.
 * On a machine whose memory grows with its use, that is what it has now: let it grow first, or give
 * a smaller host budget. The check stays, since what is not there ends the process when touched.
 *
 * With opts.share_path other processes can attach from when this returns until the store is closed,
 * which removes the socket. The socket's folder is made with mode 0700 when it is not there; one
 * that is must belong to us and let nobody else in, else RUNG_E_INVAL, as for a path above 107
 * bytes. RUNG_E_BUSY: another store is shared there. RUNG_E_EXIST: what is there is no socket. A
 * socket left by a process that died is replaced. The host tier is then a sealed memfd, which gets
 * huge pages only where /sys/kernel/mm/transparent_hugepage/shmem_enabled is not "never"; memory
 * that is not shared gets them by default. Descriptors close on exec. A child forked without exec
 * must not use the store, and keeps its place until it ends as well.
 */
RUNG_API int rung_store_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                             const struct rung_store_opts *opts, struct rung_store **store_out);

/**
 * Attach to a store that another process of the same user on this machine has opened with
 * opts.share_path.
 *
 * Its host tier and its rank_of_vertex are mapped, not loaded: they exist once, however many
 * processes use them, and are sealed: nobody can write to them, the creator included. Requests,
 * staging slots, refill thread and counters are this store's own. Cold rows are read from the file
 * that the creator opened, even if a dataset has been staged in its place since.
 *
 * The cold-row cache is shared too, and it is memory that every process attached, the creator
 * included, writes to. Damage to its index, say by a stray pointer, costs hits, and at worst the
 * cache, but crashes and hangs nobody. Damage to the rows in it is served to the other processes as
 * if it had been read. Where that must not be, set opts.private_cache: by the creator for all, or
 * by those who attach for themselves. At most 32 processes use one cache; those beyond read cold
 * rows for themselves. In both cases the statistics say so: cache_rows is 0, and cache_why tells
 * the reason.
 *
 * A process that is stopped (SIGSTOP, a debugger, a frozen container) delays each of the others
 * once, by 200 ms at most, whatever it held: they continue without the cache, or read the rows it
 * was reading themselves, until it moves. One that dies delays them by less.
 *
 * The memory lives as long as one process uses it: when the creator closes or dies, those who are
 * attached go on, and nobody new gets in until a store is shared there again.
 *
 * A store whose gathers run on a GPU is attached to the GPU opts.gpu. It reads the tier "peer" of
 * the creator where it is (by CUDA IPC, which needs another process), and has a tier "gpu" and a
 * map of its own. GPU memory goes with the process that took it: when the creator closes or dies,
 * gathers of stores attached to one with a tier "peer" fail with RUNG_E_NODEV. A creator that
 * closes waits 5 s for them to be closed, so gathers in flight end well; when it dies they may fail
 * with any CUDA error. Let attached processes end first.
 *
 * @param share_path  at most 107 bytes
 * @param opts        NULL: defaults; share_path must be NULL; vertex_ids only where the creator has
 *                    set it
 * @param store_out   close with rung_store_close()
 * @return 0, RUNG_E_NOENT (nobody shares a store there, or no longer), RUNG_E_INVAL (path, opts,
 *         another user's store), RUNG_E_ABI (shared by another version of rung), RUNG_E_TIMEDOUT
 *         (no answer for 5 s), RUNG_E_FORMAT, RUNG_E_RANGE (what came is no store), RUNG_E_IO,
 *         RUNG_E_NOMEM, RUNG_E_NODEV (its gathers run on a GPU, and we have none), and what opening
 *         the engine returns
 */
RUNG_API int rung_store_attach(const char *share_path, const struct rung_store_opts *opts,
                               struct rung_store **store_out);

/**
 * Close, before the process exits. If a store on a GPU is still open then, exit() waits up to 5 s
 * for calls that are inside CUDA. Later ones fail with RUNG_E_CANCELED, because CUDA is unloaded
 * next, and so do requests in flight; a close releases no GPU memory any more.
 *
 * Requests still queued fail with RUNG_E_CANCELED, reads in flight are waited for. Requests must
 * have been put, or must not be touched any more. NULL is allowed. Not while another thread is
 * inside a call on the store.
 *
 * @return 0, or RUNG_E_TIMEDOUT: reads have not come back for twice opts.read_timeout_ms, or a GPU
 *         has not answered for 60 s: memory that may still be written to is then left allocated.
 *         Also RUNG_E_TIMEDOUT, with all else released: attached processes have not closed a store
 *         with a tier "peer" for 5 s (they are stopped, or still use it); that tier stays allocated
 *         until this process ends
 */
RUNG_API int rung_store_close(struct rung_store *store);

/**
 * Start copying rows; returns before those from the file have arrived.
 *
 * @param ids         in plain host memory: read only during the call. CUDA: that, or memory that
 *                    the GPU reaches (its own, or registered host memory), which is read until the
 *                    request completes. Cold rows of ids in plain host memory are read from the
 *                    file at once; those of other ids, once the gather has run
 * @param out         row i of the list goes to out + i * out_stride; written until the request
 *                    completes. CUDA: memory that the GPU reaches; 16-byte aligned, with such
 *                    strides and rows, is fastest
 * @param out_stride  bytes, at least row_bytes; 0: row_bytes
 * @param stream      CUDA: the gather starts after the work on it; NULL: the default stream;
 *                    RUNG_STREAM_OWN: the store's own (device.h). CPU: either of the two
 * @param req_out     the request; give it back with rung_request_put()
 * @return 0, RUNG_E_RANGE (an id in plain host memory is outside: says which; of ids that the GPU
 *         reads it is reported when the request is waited for), RUNG_E_AGAIN (all requests are in
 *         flight: wait for one and put it), RUNG_E_INVAL (count above batch_rows_max, dtype,
 *         stride, vertex ids without opts.vertex_ids, memory that the GPU does not reach, a stream
 *         on the CPU), CUDA: RUNG_E_NOSUP (the stream is captured into a CUDA graph: device.h),
 *         RUNG_E_IO (a CUDA error)
 *
 * CUDA: memory that the GPU reaches is its own, pinned or registered memory of the host, and
 * managed memory. That of another GPU is refused, and so is a stream of another GPU.
 *
 * Threads: any number at the same time. Nothing is allocated, and on CUDA nothing waits, unless a
 * CUDA call fails: then for the work that was already put on the stream.
 */
RUNG_API int rung_gather_submit(struct rung_store *store, const struct rung_ids *ids, void *out,
                                size_t out_stride, struct CUstream_st *stream,
                                struct rung_request **req_out);

/**
 * The same on RUNG_STREAM_OWN, and wait: lists of any length (they are split), blocking while all
 * requests are in flight.
 * @return 0, or the request's error, whose text is then in rung_last_error()
 */
RUNG_API int rung_gather(struct rung_store *store, const struct rung_ids *ids, void *out,
                         size_t out_stride);

/**
 * Announce a batch that will be gathered later, so that the cold-row cache keeps what is wanted
 * soonest.
 *
 * Of the rows it keeps the store knows the next use then, and replaces the one whose next use is
 * farthest away (Belady's rule), beyond the announced batches the coldest by score. Announce
 * batches in the order of their gathers, as far ahead as they are known; it pays until the rows
 * announced are about four times those of the cache. Nothing is read by this call: submitting a
 * gather early does that. A gather that was not announced is served all the same, and an announced
 * one may never come. The rows of a gather, not its place in the list, tell which announced batch
 * it is.
 *
 * @param ids  as for the gather; read only during the call, host memory also on CUDA; lists of any
 *             length (split as rung_gather() does)
 * @return 0, also when nothing can be kept; RUNG_E_AGAIN: opts.window_rows_max rows, or 4096
 *         batches, are announced already: gather some, and announce this list again; RUNG_E_RANGE,
 *         RUNG_E_INVAL as in rung_gather_submit(). Of a list that is refused nothing is announced
 *
 * Threads: any; calls wait for each other. Costs some 100 ns a cold row.
 */
RUNG_API int rung_prefetch(struct rung_store *store, const struct rung_ids *ids);

/** 1 when the request has completed, else 0. Never blocks. */
RUNG_API int rung_request_poll(struct rung_request *req);

/**
 * Wait for a request.
 *
 * @param timeout_ns  negative: as long as it takes
 * @return 0 when all rows are there, RUNG_E_TIMEDOUT (it is still in flight), or the error it
 *         failed with: RUNG_E_IO and others. A failed request leaves the store usable; rows of it
 *         may or may not have been written.
 */
RUNG_API int rung_request_wait(struct rung_request *req, int64_t timeout_ns);

/**
 * Let work that is put on a CUDA stream after this call wait for the request's rows.
 *
 * The host does not wait when no row of the store is in the file. When some are, it waits until the
 * request's misses are known and read, that is until the last copy has been put on a stream, not
 * until it has run: nothing at all once that is so, as it is after a batch of other work.
 *
 * @param stream  as in rung_gather_submit()
 * @return 0, or the request's error as far as it is known: ids outside are told by
 *         rung_request_wait() alone. On the CPU as rung_request_wait() without a limit
 */
RUNG_API int rung_request_wait_stream(struct rung_request *req, struct CUstream_st *stream);

/** Why a completed request failed: row, file, offset and errno. "" when it did not. Valid until
 * put. */
RUNG_API const char *rung_request_error(const struct rung_request *req);

/**
 * Give a request back. On the CPU this waits for one that is still in flight; on CUDA it does not:
 * the request goes on, and what it failed with is then only counted. NULL is allowed.
 */
RUNG_API void rung_request_put(struct rung_request *req);

/* Memory that gathers can write to, for callers without a CUDA of their own: of the store's GPU, or
 * of the host on the CPU. */

/** @param memory_out  at least 256-byte aligned; free it with rung_store_free() before the store is
 *                    closed */
RUNG_API int rung_store_alloc(struct rung_store *store, uint64_t bytes, void **memory_out);
/** Give memory of rung_store_alloc() back, once nothing on its way writes there. NULL is
 * allowed. */
RUNG_API void rung_store_free(struct rung_store *store, void *memory);

/**
 * Copy between such memory and the host's, in any direction, and wait for it. On CUDA after the
 * work on the default stream.
 */
RUNG_API int rung_store_copy(struct rung_store *store, void *to, const void *from, uint64_t bytes);

/** What a store serves. */
struct rung_store_info {
	size_t size; /**< sizeof(struct rung_store_info), set by the caller */
	uint64_t vertex_count;
	struct rung_array_info features; /**< row_bytes: bytes of a row */
	/** as given at open; of an attached store absolute, as its creator found it. Until close */
	const char *dataset_dir;
	int attached;            /**< 1: by rung_store_attach() */
	enum rung_device device; /**< RUNG_DEVICE_CPU or RUNG_DEVICE_CUDA */
	int gpu;                 /**< that gathers; -1 on the CPU */
	uint32_t gpu_count;      /**< over which the tier "peer" is interleaved */
	int map_on_gpu;          /**< 1: rank_of_vertex is in GPU memory */
};

/** Say what a store serves. @return 0, or RUNG_E_ABI */
RUNG_API int rung_store_info(const struct rung_store *store, struct rung_store_info *info_out);

/** Tiers of a store at most. */
#define RUNG_TIERS_MAX 8
/** Buckets of a latency histogram. */
#define RUNG_LATENCY_BUCKETS 64

/** The way of a cold row, for latencies. */
enum rung_read_stage {
	RUNG_STAGE_QUEUE,  /**< from the submission of its request until its read is sent */
	RUNG_STAGE_DEVICE, /**< until the read has come back */
	/** until the rows of the read are in place; on CUDA, until they are given to the GPU */
	RUNG_STAGE_COPY,
	RUNG_STAGE_COUNT
};

/** Host memory of a store: where it was to lie, and what came of it, looked up when the store was
 * opened. */
struct rung_store_place {
	struct rung_place place;
	/** "slots": the refill thread of their file runs on the CPUs of this node; -1: anywhere, as
	 * for the others */
	int cpu_node;
	/** of its pages, or of some 16384 looked at, those on the nodes asked for; NaN: none was
	 * asked for, or not known */
	double node_share;
	/** of what has been touched of it, what lies in huge pages; NaN: nothing has been, or not
	 * known */
	double huge_share;
	const char *why; /**< why no node was asked for, or the kernel refused; "" otherwise */
};

/** Ways of reading, and parts of one, at most. */
#define RUNG_ENGINE_STEPS_MAX 8

/** A way of reading, or a part of one. */
struct rung_engine_step {
	const char *name;
	const char *why; /**< why it is not in use; "" when it is */
};

/** What a tier of a store holds and has served. */
struct rung_tier_stats {
	const char *name;
	uint64_t rows;  /**< held */
	uint64_t hits;  /**< requested rows served */
	uint64_t bytes; /**< of them */
};

/**
 * Counters since open; read while gathers run, each is exact, together they are of about the same
 * moment. Hits on a GPU are known, and counted, once their gather has run.
 */
struct rung_store_stats {
	size_t size; /**< sizeof(struct rung_store_stats), set by the caller */
	uint32_t tier_count;
	struct rung_tier_stats tiers[RUNG_TIERS_MAX];
	uint64_t requests;
	uint64_t request_errors;
	uint64_t device_reads;      /**< reads that completed */
	uint64_t device_read_bytes; /**< sectors read, as the device sees them */
	uint64_t merged_rows;       /**< distinct rows that shared a read with another */
	uint64_t duplicate_rows; /**< cold rows asked for again inside one request, and read once */
	uint64_t retries;
	uint32_t queue_depth;
	uint32_t sector_bytes; /**< alignment of reads */
	/** "nvme", "io_uring_poll", "io_uring", "pread", or "none" when nothing is cold */
	const char *engine;
	/** why not a better one; "" when it is the best that is tried unasked. Until the store is
	 * closed, as all texts here */
	const char *engine_why;
	int direct; /**< 1: O_DIRECT */
	/** requests that took [2^(b/2), 2^((b+1)/2)) microseconds, b their index */
	uint64_t latency[RUNG_LATENCY_BUCKETS];
	/** CUDA: calls in which the caller's thread waited for the GPU or for reads */
	uint64_t host_waits;
	uint64_t scatters; /**< CUDA: kernels that copied rows from staging slots */
	/* Of cold rows, the hits of tier "nvme": cache_hits + joined_rows + read_rows +
	 * duplicate_rows + failed_rows, once all requests are over. */
	uint64_t cache_hits; /**< rows that were in the cold-row cache */
	/** that waited for a read which another request, or another process, had begun */
	uint64_t joined_rows;
	uint64_t read_rows;   /**< distinct rows of a request that it read */
	uint64_t failed_rows; /**< of requests that failed, or were canceled */
	uint64_t cache_rows;  /**< the cache has room for */
	uint64_t cache_rows_filled;
	uint32_t gap_bytes;      /**< between rows that were read along; see rung_store_opts */
	uint32_t read_bytes_max; /**< of a merged read */
	/** reads by enum rung_read_stage that took [2^(b/2), 2^((b+1)/2)) nanoseconds */
	uint64_t stages[RUNG_STAGE_COUNT][RUNG_LATENCY_BUCKETS];
	/** ways of reading, best first, down to the one in use */
	struct rung_engine_step engine_steps[RUNG_ENGINE_STEPS_MAX];
	/** what that one can do with or without: registered memory, … */
	struct rung_engine_step engine_parts[RUNG_ENGINE_STEPS_MAX];
	uint32_t engine_step_count;
	uint32_t engine_part_count;
	/** [place_count], as rung_plan_place(); until the store is closed. Of an attached store
	 * "host" and "cache" are its creator's memory, as it appears here */
	const struct rung_store_place *places;
	uint32_t place_count;
	/* Of a cold-row cache that processes share: */
	/** Of read_rows: another process had begun to read them, and was stopped or slow */
	uint64_t late_rows;
	/** Times that another process was found to be stopped or slow: it had kept the cache locked
	    for 100 ms, or a row in reading for 80 ms. It is not waited for again until it moves */
	uint64_t cache_timeouts;
	/** For which threads of this store have waited for the cache's lock in all */
	uint64_t cache_wait_ns;
	/** Why an attached store does not use the cache that is shared; "" otherwise */
	const char *cache_why;
};

/** Read the counters. @return 0, or RUNG_E_ABI */
RUNG_API int rung_store_stats(const struct rung_store *store, struct rung_store_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif
