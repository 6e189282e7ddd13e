/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The store: feature rows on a ladder of tiers, served by one gather.
 *
 * A gather copies the rows of a list of ids into the caller's memory. The calling thread copies
 * rows of memory tiers at once; the store's refill thread reads the other rows from the file. A
 * request is the handle of one gather in flight: submit, then poll or wait, then put. Several
 * requests may be in flight, from several threads.
 *
 *     struct rung_ids ids = { .data = batch, .count = n, .dtype = RUNG_U64, .space = RUNG_RANKS };
 *     rc = rung_gather_submit(store, &ids, out, 0, RUNG_STREAM_OWN, &req);
 *     ... sample the next batch ...
 *     rc = rung_request_wait(req, -1);
 *     rung_request_put(req);
 *
 * On a GPU (a plan with RUNG_DEVICE_CUDA) the output is memory that the GPU can access, ids may
 * also be in plain host memory, and a gather is work on a CUDA stream: it starts after the work
 * already on the stream. A kernel copies the rows it can address (in memory of the GPU, of a peer,
 * or of the host over the link); only rows from the file need the host. Work that uses the rows is
 * queued after them without waiting:
 *
 *     rc = rung_gather_submit(store, &ids, out, 0, stream, &req);
 *     ... the same for the next batch, into other memory: the reads of one batch overlap with
 *     the work on the other ...
 *     rc = rung_request_wait_stream(req, compute_stream);
 *     ... kernels on compute_stream that read `out` ...
 *     rung_request_put(req);
 *
 * Opening. rung_store_open() allocates all memory for gathers, and tests the engine with a read; if
 * the requested engine does not work here, the message of RUNG_E_NOSUP has the reason. With CUDA it
 * also loads the GPU tiers and the kernels, and registers (pins) host memory; the store uses the
 * first GPU of the plan, whichever GPU is current.
 *
 * Free host memory is the smaller of the kernel's MemAvailable and the limits of the control
 * groups. On a machine that adds memory on demand this is its present size: let it grow first, or
 * set a smaller host budget. On RUNG_E_NOMEM, of the host, a NUMA node or a GPU, the message has
 * the free memory, and nothing was touched. The check cannot be disabled, because a process that
 * touches memory that does not exist is killed.
 *
 * Sharing. With opts.share_path other processes can attach from the return of rung_store_open()
 * until the store is closed, which removes the socket. A missing folder of the socket is created
 * with mode 0700; an existing folder must belong to this user and be closed to others, otherwise
 * the call returns RUNG_E_INVAL, as it does for a path of more than 107 bytes. RUNG_E_BUSY: another
 * store is shared there. RUNG_E_EXIST: the path exists and is not a socket. The socket of a process
 * that died is replaced. The shared host tier is a sealed memfd; it gets huge pages only if
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled is not "never". Memory that is not shared gets
 * huge pages by default. Descriptors are closed on exec. A child that was forked without exec must
 * not use the store, and keeps the socket in use until it ends.
 *
 * Attaching. Both processes belong to the same user and run on the same machine. The host tier and
 * rank_of_vertex of the creator are mapped, not loaded: they exist once for all processes. They are
 * sealed: no process can write to them, not even the creator. Requests, staging slots, refill
 * thread and counters are private to each process. Cold rows are read from the file that the
 * creator opened, even if another dataset has replaced it since. The memory exists as long as a
 * process uses it. When the creator closes the store or dies, attached processes continue, but no
 * new process can attach until a store is shared at that path again.
 *
 * Shared cache. The cold-row cache is shared too, in memory that every attached process and the
 * creator can write to. Damage to its index, for example by a stray pointer, costs hits, and at
 * worst the whole cache, but it cannot crash or hang another process. Damaged rows in it are served
 * to the other processes. If this risk is not acceptable, set opts.private_cache: the creator for
 * all processes, or an attaching process for itself. At most 32 processes use one cache; further
 * processes read their cold rows themselves. In both cases the statistics show it: cache_rows is 0,
 * and cache_why has the reason.
 *
 * A stopped process (SIGSTOP, a debugger, a frozen container) delays each of the others once, by at
 * most 200 ms, whatever it held. They then continue without the cache, or read the rows it was
 * reading themselves, until it runs again. A process that dies delays them less.
 *
 * Attaching on a GPU. If the creator gathers on a GPU, the attached store gathers on the GPU
 * opts.gpu. It reads the creator's tier "peer" in place (by CUDA IPC, which works only between
 * processes), and has its own tier "gpu" and its own map. GPU memory ends with the process that
 * allocated it: when the creator closes or dies, gathers of stores attached to a tier "peer" fail
 * with RUNG_E_NODEV. A creator that closes waits 5 s for attached stores to be closed, so that
 * gathers in flight complete; if it dies, they may fail with any CUDA error. End attached processes
 * first.
 *
 * Errors of rung_store_attach(). RUNG_E_INVAL: path, opts, a store of another user. RUNG_E_ABI:
 * shared by another version of rung. RUNG_E_TIMEDOUT: no answer within 5 s. RUNG_E_FORMAT,
 * RUNG_E_RANGE: the answer is not a valid store. RUNG_E_NODEV: the creator gathers on a GPU and
 * this process has none.
 *
 * Closing. Close stores before the process exits: if a store on a GPU is still open, exit() waits
 * up to 5 s for running CUDA calls; calls and requests after that fail with RUNG_E_CANCELED,
 * because CUDA is being unloaded, and closing releases no GPU memory. rung_store_close() returns
 * RUNG_E_TIMEDOUT if reads did not complete within twice their timeout, or if a GPU did not
 * answer for 60 s; memory that may still be written to then stays allocated. It also returns
 * RUNG_E_TIMEDOUT, with everything else released, if attached processes did not close a store with
 * a tier "peer" within 5 s; that tier stays allocated until this process ends.
 *
 * Gathers. With CUDA a gather starts after the work on its stream: NULL is the default stream,
 * RUNG_STREAM_OWN the store's own (device.h). On the CPU `stream` must be one of these two. Ids in
 * plain host memory are read only during the call. With CUDA they may also be in memory that the
 * GPU can access, which is read until the request completes. Cold rows of ids in plain host memory
 * are read from the file at once, those of other ids after the kernel has run. With CUDA the output
 * is memory that the GPU can access; the gather is fastest if it is 16-byte aligned, and strides
 * and rows are multiples of 16 bytes. The GPU can access its own memory, pinned or registered host
 * memory, and managed memory; memory and streams of other GPUs are rejected. A gather allocates
 * nothing. With CUDA the host waits only if a CUDA call fails, for the work that was already
 * queued.
 *
 * Errors of a gather. RUNG_E_RANGE: an id in plain host memory is out of range, and the message
 * names it; ids that only the GPU reads are reported by rung_request_wait(). RUNG_E_INVAL: count
 * above batch_rows_max, dtype, stride, vertex ids without opts.vertex_ids, memory that the GPU
 * cannot access, a stream on the CPU. RUNG_E_AGAIN: all requests are in flight; wait for one and
 * put it. With CUDA, RUNG_E_NOSUP: the stream is being captured into a CUDA graph (device.h);
 * RUNG_E_IO: a CUDA error.
 *
 * Announcing. After rung_prefetch() the store knows the next use of the cached rows and evicts the
 * row with the farthest next use (Belady's rule); beyond the announced batches it evicts the
 * coldest row by score. Announce batches in the order of their gathers, as far ahead as they are
 * known; announcing more rows than four times the cache holds does not improve the hit rate. The
 * call itself does not read any rows. A gather that was not
 * announced works as usual, and an announced gather may never be submitted. The store recognises an
 * announced batch by its rows, not by its position. RUNG_E_AGAIN: opts.window_rows_max rows or 4096
 * batches are announced already; gather some, then announce this list again. RUNG_E_RANGE and
 * RUNG_E_INVAL are as for a gather.
 *
 * Reading ahead. Rows of announced batches are read before the batches begin. Refill sweeps the
 * files: for each batch that begins it passes one part, of one fewer than the window has batches,
 * and reads the rows there that any batch of the window needs, with as few reads as possible. The
 * cache holds a row until the last of these batches has used it, so a row needs memory for half a
 * sweep on average. Reads of the batch that has begun come first. The window is opts.window batches
 * long, or as long as the rows of the cache suffice for; where one batch has more rows than the
 * cache, nothing is read ahead. A window of one batch is read only while no gather waits for reads.
 * Rows of a batch that is never gathered leave the window when 64 later batches have begun. Rows
 * staged in place are read ahead, in the order of the vertices, if opts.vertex_ids is set.
 *
 * Waiting on a stream. If no row of the store is in a file, the host does not wait in
 * rung_request_wait_stream(). Otherwise it waits until the cold rows of the request are known and
 * read and their last copy is queued on a stream, not until that copy has run. If the caller has
 * worked on another batch in between, there is usually nothing left to wait for.
 */
#ifndef RUNG_STORE_H
#define RUNG_STORE_H

#include "dataset.h"
#include "plan.h"
#include "stats.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_store;
struct rung_request;

/** I/O engines that read rows from files. */
enum rung_engine {
	RUNG_ENGINE_AUTO = 0, /**< io_uring if it works, else pread */
	RUNG_ENGINE_IO_URING,
	RUNG_ENGINE_PREAD, /**< a pool of threads */
	/** io_uring that polls the device instead of waiting for interrupts; keeps one core busy
	 * while reads are in flight. Needs a driver with poll queues (boot parameter
	 * nvme.poll_queues=N) */
	RUNG_ENGINE_IO_URING_POLL,
	/** NVMe commands sent directly to the disk under the file (/dev/ngXnY, opened for reading),
	 * without file system and block layer. Needs root or permission to open that device, and a
	 * file on ext4 or XFS on such a disk. The positions of the file's blocks are queried once,
	 * so the file must not change while the store is open */
	RUNG_ENGINE_NVME,
	/** for measurements only: reads nothing, so the rows of cold ranks are undefined. Each read
	 * passes through an io_uring ring as a NOP. The engines that read nothing are never chosen
	 * by AUTO. A store that is shared or attached refuses them, and so do neighbour lists in
	 * the file */
	RUNG_ENGINE_NULL,
	RUNG_ENGINE_NULL_INSTANT /**< the same without a ring: reads complete at once */
};

/** For rung_store_opts.merge_gap_bytes: merged reads skip no bytes. */
#define RUNG_MERGE_GAP_NONE UINT32_MAX

/** Options of rung_store_open() and rung_store_attach(). */
struct rung_store_opts {
	size_t size;           /**< sizeof(struct rung_store_opts), set by the initialiser */
	uint32_t requests_max; /**< requests in flight at most; 0: 8 */
	/** ids per request at most; 0: 1 Mi. In addition to the plan's budget, each request
	 * reserves 36 bytes of address space per id. The part that the largest gather so far has
	 * used is resident: 36 bytes for each of its ids, in whole pages. With CUDA, open pins 28
	 * bytes per id of batch_rows_max, or 32 from 2^32 vertices on */
	uint32_t batch_rows_max;
	/** reads in flight for each features file; 0: as planned, 64 when attached; limited by the
	 * number of slots */
	uint32_t queue_depth;
	enum rung_engine engine;
	/** nonzero: read each row separately, without merging reads of rows that are close in the
	 * file (for measurements) */
	int no_merge;
	int buffered; /**< nonzero: read through the page cache instead of O_DIRECT */
	/** nonzero: ids of space RUNG_VERTICES will be used; rank_of_vertex stays in memory */
	int vertex_ids;
	/** path of the socket through which other processes attach, see Sharing at the top of this
	 * file; NULL: not shared */
	const char *share_path;
	/** largest gap between two cold rows that are fetched with one read; 0: chosen from the
	 * plan's profile, else the bytes that the device transfers in the time of one more read, at
	 * most 64 KiB, measured when a process opens its first store on that device (about 50 ms);
	 * 16 KiB without measuring for files under 64 MiB and for reads through the page cache;
	 * RUNG_MERGE_GAP_NONE: no gap */
	uint32_t merge_gap_bytes;
	/** after this time a read that is not complete fails its requests; its slot stays unused
	 * until the read completes; 0: 30 s */
	uint32_t read_timeout_ms;
	/** most cold rows that the window holds: rows of batches that were announced by
	 * rung_prefetch(), or that are in flight and not yet gathered; 0: four times the rows of
	 * the cache plus batch_rows_max for each request. In addition to the plan's budget, each
	 * row reserves 40 bytes of address space; the part that the largest number of rows in the
	 * window so far has used is resident */
	uint64_t window_rows_max;
	/** nonzero, with share_path: the cold-row cache is not shared, and attached processes have
	 * none. In rung_store_attach(): the shared cache is not used. For the reasons see
	 * Shared cache at the top of this file */
	int private_cache;
	/** rung_store_attach() to a store on GPUs: number of the GPU that gathers, read during the
	 * call; NULL: the current GPU of the calling thread. Set it on machines with several GPUs:
	 * the current GPU of a thread is GPU 0 until the thread selects another. NULL in
	 * rung_store_open(), where the plan names the GPUs */
	const int *gpu;
	/** number of announced batches whose cold rows are read together, before the batches begin;
	 * 0: as many as the rows of the cache suffice for; RUNG_WINDOW_NONE: none. See Reading
	 * ahead at the top of this file */
	uint32_t window;
	/** refill threads for each features file, which share its slots and queue depth; 0: chosen
	 * from the plan's profile, else 1. Fewer than 4 slots per thread, more threads than reads
	 * in flight, or more than 16 threads for all files lower the number */
	uint32_t refill_threads;
	/** quantized rows: type of gathered values, RUNG_F16, RUNG_BF16 or RUNG_F32; RUNG_U8: the
	 * stored bytes (rung/dtype.h); RUNG_DTYPE_NONE: the type that was staged, or RUNG_F32
	 * for RUNG_F64. Values beyond the range of the type become infinite. Other rows are not
	 * converted: RUNG_DTYPE_NONE or their type */
	enum rung_dtype out_dtype;
	/** [range_timeout_count] read_timeout_ms of the files of each range of the dataset
	 * (rung_dataset_info.feature_ranges), such as one for local drives and one for a mount; 0:
	 * read_timeout_ms. NULL: all have read_timeout_ms */
	const uint32_t *range_timeouts_ms;
	uint32_t range_timeout_count;
};

/** Initialiser: all defaults. In C++: rung_store_opts_init(). */
#define RUNG_STORE_OPTS_INIT RUNG_INIT(struct rung_store_opts)
RUNG_INIT_FUNCTION(rung_store_opts, {})

/** Numbering of ids. */
enum rung_id_space {
	RUNG_RANKS = 0, /**< ranks: ids of the relabelled graph */
	RUNG_VERTICES   /**< vertices: ids of the original graph */
};

/** A list of ids in any order; repeats are allowed. */
struct rung_ids {
	const void *data;
	uint64_t count;
	enum rung_dtype dtype; /**< RUNG_I32, RUNG_U32, RUNG_I64 or RUNG_U64 */
	enum rung_id_space space;
};

/**
 * Open a store: allocate the host tier and the staging slots, read the rows of the host tier, and
 * start the refill thread. See Opening and Sharing at the top of this file.
 *
 * @param ds         may be closed afterwards
 * @param plan       may be destroyed afterwards
 * @param opts       NULL: defaults
 * @param store_out  close with rung_store_close()
 * @return 0, RUNG_E_NOSUP (the engine), RUNG_E_NOMEM, RUNG_E_NODEV (no such GPU), RUNG_E_IO (also
 *         any other CUDA error), RUNG_E_INVAL; with share_path RUNG_E_BUSY, RUNG_E_EXIST
 *
 * Threads: any. Stream: the store creates its own.
 */
RUNG_API int rung_store_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                             const struct rung_store_opts *opts, struct rung_store **store_out);

/**
 * Attach to a store that another process of this user opened with opts.share_path. See Attaching
 * and the sections after it at the top of this file.
 *
 * @param share_path  at most 107 bytes
 * @param opts        NULL: defaults; share_path must be NULL; vertex_ids only if the creator set it
 * @param store_out   close with rung_store_close()
 * @return 0, RUNG_E_NOENT (no store there), RUNG_E_INVAL, RUNG_E_ABI, RUNG_E_TIMEDOUT,
 *         RUNG_E_FORMAT, RUNG_E_RANGE, RUNG_E_IO, RUNG_E_NOMEM, RUNG_E_NODEV, or an error of
 *         opening the engine
 *
 * Threads: any.
 */
RUNG_API int rung_store_attach(const char *share_path, const struct rung_store_opts *opts,
                               struct rung_store **store_out);

/**
 * Close a store. Queued requests fail with RUNG_E_CANCELED; the call waits for reads in flight. All
 * requests must have been put, or must not be used any more. See Closing at the top of this file.
 *
 * @param store  NULL is allowed
 * @return 0, or RUNG_E_TIMEDOUT: reads, a GPU or attached processes did not finish in time; the
 *         memory that they may still use stays allocated
 *
 * Threads: any, but no other thread may be in a call on the store.
 */
RUNG_API int rung_store_close(struct rung_store *store);

/**
 * Start copying rows; the call returns before rows from the file have arrived. See Gathers at
 * the top of this file.
 *
 * @param ids         in host memory; with CUDA also in GPU memory
 * @param out         row i goes to out + i * out_stride; written until the request completes
 * @param out_stride  bytes, at least row_bytes; 0: row_bytes
 * @param stream      a stream, NULL or RUNG_STREAM_OWN
 * @param req_out     release it with rung_request_put()
 * @return 0, RUNG_E_RANGE, RUNG_E_AGAIN, RUNG_E_INVAL; with CUDA also RUNG_E_NOSUP, RUNG_E_IO
 *
 * Threads: any number. Stream: see `stream`.
 */
RUNG_API int rung_gather_submit(struct rung_store *store, const struct rung_ids *ids, void *out,
                                size_t out_stride, struct CUstream_st *stream,
                                struct rung_request **req_out);

/**
 * Gather rows and wait for them: rung_gather_submit() on RUNG_STREAM_OWN and rung_request_wait().
 * Lists may have any length; they are split into requests of batch_rows_max ids. The call blocks
 * while all requests are in flight.
 *
 * @param ids, out, out_stride as in rung_gather_submit()
 * @return 0, or the error of a request, whose text is then in rung_last_error(); rows may or may
 *         not have been written
 *
 * Threads: any number at the same time. Stream: the store's own.
 */
RUNG_API int rung_gather(struct rung_store *store, const struct rung_ids *ids, void *out,
                         size_t out_stride);

/**
 * Announce a batch that will be gathered later, so that the cold-row cache keeps the rows that are
 * needed soonest. See Announcing at the top of this file.
 *
 * @param ids  as for the gather; read only during the call; in host memory also with CUDA; of any
 *             length (split as in rung_gather())
 * @return 0, also if nothing can be cached; RUNG_E_AGAIN (the window is full), RUNG_E_RANGE,
 *         RUNG_E_INVAL. After an error no part is announced
 *
 * Threads: any; calls wait for each other. Stream: none. A call takes about 100 ns per cold row.
 */
RUNG_API int rung_prefetch(struct rung_store *store, const struct rung_ids *ids);

/**
 * Check whether a request has completed, without blocking. With CUDA this also reports requests
 * whose last copy has run on the GPU. A completed request may have failed: rung_request_wait() then
 * returns its error.
 *
 * @param req  not NULL
 * @return 1 if the request has completed, with or without an error, else 0
 *
 * Threads: any, but not after rung_request_put(). Stream: none.
 */
RUNG_API int rung_request_poll(struct rung_request *req);

/**
 * Wait until a request has completed, or until a timeout. A failed request does not affect the
 * store, which stays usable; its rows may or may not have been written. Waiting again returns the
 * same result.
 *
 * @param timeout_ns  in nanoseconds; negative: no limit
 * @return 0 if all rows are complete, RUNG_E_TIMEDOUT (the request is still in flight), or the
 *         error of the request: RUNG_E_IO, RUNG_E_RANGE and others, with the text in
 *         rung_request_error()
 *
 * Threads: any, but not after rung_request_put(). Stream: the host waits for the gather.
 */
RUNG_API int rung_request_wait(struct rung_request *req, int64_t timeout_ns);

/**
 * Make work that is queued on a CUDA stream after this call wait for the rows of a request. The
 * host waits only for cold rows; see Waiting on a stream at the top of this file.
 *
 * @param stream  as in rung_gather_submit()
 * @return 0, or the error of the request as far as it is known; ids out of range in GPU memory are
 *         reported only by rung_request_wait(). On the CPU the same as rung_request_wait() without
 *         a timeout
 *
 * Threads: any, but not after rung_request_put(). Stream: `stream` waits for the rows.
 */
RUNG_API int rung_request_wait_stream(struct rung_request *req, struct CUstream_st *stream);

/**
 * Text of the error of a completed request: row, file, offset and errno. The thread that completes
 * a request may be another than the caller's, so the text is kept in the request and not in
 * rung_last_error().
 *
 * @return memory of the request, valid until rung_request_put(); "" if the request succeeded or is
 *         in flight
 *
 * Threads: any, but not after rung_request_put().
 */
RUNG_API const char *rung_request_error(const struct rung_request *req);

/**
 * Release a request, so that the store can reuse it. On the CPU the call waits for a request that
 * is still in flight. With CUDA it does not wait: the request continues, and its error, if any, is
 * then only counted in the statistics.
 *
 * @param req  NULL is allowed; not to be used afterwards
 *
 * Threads: any; once per request. Stream: none.
 */
RUNG_API void rung_request_put(struct rung_request *req);

/* Memory for the output of gathers, for callers that do not use CUDA themselves: on the store's
 * GPU, or on the host for a store on the CPU. */

/**
 * Allocate memory that gathers of the store can write to, on the store's GPU or on the host. It is
 * at least 256-byte aligned and not initialised. Free it with rung_store_free() before the store is
 * closed.
 *
 * @param bytes       size
 * @param memory_out  the memory, written on success
 * @return 0, RUNG_E_NOMEM, RUNG_E_IO (a CUDA error)
 *
 * Threads: any. Stream: none.
 */
RUNG_API int rung_store_alloc(struct rung_store *store, uint64_t bytes, void **memory_out);
/**
 * Free memory from rung_store_alloc() of the same store. No gather or other work may still use the
 * memory: wait for requests and for streams first. On a GPU the call may wait for all work of the
 * device.
 *
 * @param memory  NULL is allowed; not to be used afterwards
 *
 * Threads: any. Stream: none.
 */
RUNG_API void rung_store_free(struct rung_store *store, void *memory);

/**
 * Copy bytes between memory from rung_store_alloc() and host memory, in either direction or within
 * one of them, and wait for the copy. The ranges must not overlap.
 *
 * @param bytes  size of both ranges
 * @return 0, RUNG_E_IO (a CUDA error), RUNG_E_CANCELED (the process is exiting)
 *
 * Threads: any. Stream: with CUDA the copy runs after the work on the default stream.
 */
RUNG_API int rung_store_copy(struct rung_store *store, void *to, const void *from, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
