/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A refill thread: starting and stopping it. refill_loop.c is its loop.
 *
 * The thread that opens the store allocates all memory and opens the reader. The new thread then
 * starts the engine, because a ring belongs to the thread that created it, and reports the result;
 * until then the opening thread waits.
 */
#include <stdio.h>

#include "base/thread.h"
#include "refill/state.h"

#define TICK_NS_MAX 100000000ull /* longest wait before the stop flag is checked */
/* a device that has not answered for this many read timeouts is abandoned */
#define STOP_TIMEOUTS      2u
#define STOP_SPARE_NS      1000000000ull /* added to these timeouts */
#define TIMEOUT_DEFAULT_MS 30000u

/* Derive the rule for merged reads from what the engine can do. */
static void learn_geometry(struct rung__refill *refill)
{
	const struct rung__layout *layout = &refill->layout;
	const struct rung__geometry *geometry = &refill->geometry;

	/* only after the start, which may have changed the reader from direct to buffered reads */
	refill->ops->geometry(refill->reader, &refill->geometry);
	refill->ops->engine(refill->reader, &refill->engine);
	refill->rule = (struct rung__read_rule){
		.row_bytes = layout->row_bytes,
		.align = geometry->align,
		.merge_gap_bytes = geometry->merge_gap_bytes,
		.read_bytes_max = RUNG__MIN(refill->slot_bytes,
		                            RUNG__MAX(geometry->read_bytes_max, geometry->align)),
		.apart = refill->store->opts.no_merge,
	};
}

/* Run near the drive, including threads that the engine starts, which inherit the CPUs. If no CPU
 * of that node may be used, the thread runs anywhere. */
static void go_near_drive(struct rung__refill *refill)
{
	int32_t node = refill->store->shape.placements.drives[refill->file_idx];

	pthread_setname_np(pthread_self(), "rung-refill");
	if (refill->store->topology && node >= 0 &&
	    rung__placement_run_on(refill->store->topology, (uint32_t)node) == 0)
		refill->cpu_node = node;
}

static int begin(struct rung__refill *refill)
{
	int rc;

	go_near_drive(refill);
	/* on this thread: a ring belongs to the thread that created it */
	rc = refill->ops->start(refill->reader);
	if (rc < 0)
		return rc;
	learn_geometry(refill);
	refill->cache = refill->store->cache;
	return 0;
}

/* The thread: report how the start went, then run until the store stops. */
static void *refill_main(void *ctx)
{
	struct rung__refill *refill = ctx;
	int rc = begin(refill);

	pthread_mutex_lock(&refill->box.lock);
	refill->started = true;
	refill->start_status = rc;
	if (rc < 0)
		snprintf(refill->start_error, sizeof(refill->start_error), "%s", rung_last_error());
	pthread_cond_signal(&refill->box.wake);
	pthread_mutex_unlock(&refill->box.lock);
	if (rc == 0) {
		rung__refill_run(refill);
		refill->ops->stop(refill->reader);
	}
	rung__end_reach(&refill->end);
	return NULL;
}

static int create_thread(struct rung__refill *refill)
{
	int rc = rung__thread_start(&refill->thread, refill_main, refill);

	return rc == 0 ? 0 : rung__fail_thread(rc, "store: the refill thread");
}

/* Wait until the engine has been probed. After a failure the thread has ended and is joined. */
static int await_start(struct rung__refill *refill)
{
	pthread_mutex_lock(&refill->box.lock);
	while (!refill->started)
		pthread_cond_wait(&refill->box.wake, &refill->box.lock);
	pthread_mutex_unlock(&refill->box.lock);
	if (refill->start_status == 0)
		return 0;
	pthread_join(refill->thread, NULL);
	return rung__fail_text(refill->start_status, refill->start_error);
}

static void free_refill(struct rung__refill *refill)
{
	if (refill->reader)
		refill->ops->close(refill->reader);
	rung__end_fini(&refill->end);
	rung__refill_box_fini(&refill->box);
	rung__refill_ahead_fini(refill);
	rung__free(refill->reclaimed);
	rung__free(refill->slot_batches);
	rung__free(refill->slot_next);
	rung__free(refill->fetched);
	rung__free(refill->free_tokens);
	rung__free(refill->reads);
	rung__free(refill);
}

static int alloc_memory(struct rung__refill *refill)
{
	uint64_t count = refill->slot_count;

	refill->reads = rung__zalloc_array(count, sizeof(*refill->reads));
	refill->free_tokens = rung__malloc_array(count, sizeof(*refill->free_tokens));
	refill->fetched = rung__malloc_array(refill->depth, sizeof(*refill->fetched));
	refill->slot_next = rung__malloc_array(count, sizeof(*refill->slot_next));
	refill->slot_batches = rung__zalloc_array(count, sizeof(*refill->slot_batches));
	refill->reclaimed = rung__malloc_array(count, sizeof(*refill->reclaimed));
	refill->box.returned = rung__malloc_array(count, sizeof(*refill->box.returned));
	refill->box.returned_max = refill->slot_count;
	if (!refill->reads || !refill->free_tokens || !refill->fetched || !refill->slot_next ||
	    !refill->slot_batches || !refill->reclaimed || !refill->box.returned)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for %u staging slots",
		                  refill->slot_count);
	for (uint32_t i = 0; i < refill->slot_count; i++)
		refill->free_tokens[refill->free_count++] = refill->slot_count - 1 - i;
	return 0;
}

/* The threads of a file share its slots and its queue depth in equal parts; the first ones have one
 * more of what remains. The depth is at most the number of slots, and so it is for each thread. */
static void set_slots(struct rung__refill *refill, uint32_t queue_depth)
{
	const struct rung__shape *shape = &refill->store->shape;
	const uint32_t threads = refill->store->threads_per_file,
		       thread = refill->refill_idx % threads, slots = (uint32_t)shape->slot_count,
		       rest = slots % threads;
	const uint64_t before = (uint64_t)thread * (slots / threads) + RUNG__MIN(thread, rest);

	refill->slot_count = slots / threads + (thread < rest);
	refill->slot_bytes = (uint32_t)shape->slot_bytes;
	refill->slots_at = (refill->file_idx * shape->slot_count + before) * shape->slot_bytes;
	refill->depth = queue_depth / threads + (thread < queue_depth % threads);
}

static int check_ops(const struct rung__reader_ops *ops)
{
	if (!ops)
		return rung__fail(RUNG_E_NOSUP,
		                  "store: rows in files need io/, which this build leaves out; "
		                  "build without RUNG_CORE_ONLY");
	if (!rung__reader_ops_valid(ops))
		return rung__fail(RUNG_E_INVAL,
		                  "store: the reader's table of functions is not complete");
	return 0;
}

/* The timeout of reads from a file: that of its range, or of all. */
static uint32_t timeout_ms(const struct rung_store *store, uint64_t file_idx)
{
	const struct rung__layout *layout = &store->shape.layout;
	const ptrdiff_t range = rung__file_range(layout, file_idx) - layout->ranges;
	const struct rung_store_opts *opts = &store->opts;

	if (opts->range_timeouts_ms && opts->range_timeouts_ms[range])
		return opts->range_timeouts_ms[range];
	return opts->read_timeout_ms ? opts->read_timeout_ms : TIMEOUT_DEFAULT_MS;
}

int rung__refill_start(struct rung_store *store, uint32_t refill_idx,
                       const struct rung__reader_ops *ops, const struct rung__reader_args *args)
{
	struct rung__refill *refill = rung__zalloc(sizeof(*refill));
	struct rung__reader_args reader_args = *args;
	int rc;

	if (!refill)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	rc = check_ops(ops);
	if (rc < 0) {
		rung__free(refill);
		return rc;
	}
	refill->store = store;
	refill->refill_idx = refill_idx;
	refill->file_idx = refill_idx / store->threads_per_file;
	refill->counters = &store->watch->page->files[refill_idx].counters;
	refill->cpu_node = -1;
	refill->ops = ops;
	refill->layout = store->shape.layout;
	set_slots(refill, args->queue_depth);
	refill->device = store->device != NULL;
	refill->timeout_ns = timeout_ms(store, refill->file_idx) * 1000000ull;
	refill->tick_ns = RUNG__MIN(TICK_NS_MAX, refill->timeout_ns / 4);
	rung__refill_box_init(&refill->box);
	rung__end_init(&refill->end);
	rc = alloc_memory(refill);
	if (rc == 0)
		rc = rung__refill_ahead_init(refill);
	if (rc < 0)
		goto free_all;
	/* the reader is allowed to write to the whole pool, because frames are destinations too,
	 * but its probe may use only the slots of this thread: frames of a shared cache hold
	 * rows */
	reader_args.file_idx = refill->file_idx;
	reader_args.queue_depth = refill->depth;
	reader_args.pool = store->pool.base;
	reader_args.pool_bytes = store->pool.bytes;
	reader_args.probe_at = refill->slots_at;
	reader_args.probe_bytes = (uint64_t)refill->slot_count * refill->slot_bytes;
	reader_args.token_count = refill->slot_count;
	rc = ops->open(&reader_args, &refill->reader);
	if (rc < 0)
		goto free_all;
	rc = create_thread(refill);
	if (rc < 0)
		goto free_all;
	rc = await_start(refill);
	if (rc < 0)
		goto free_all;
	store->refills[refill_idx] = refill;
	store->refill_boxes[refill_idx] = &refill->box;
	return 0;
free_all:
	free_refill(refill);
	return rc;
}

int rung__refill_node(const struct rung__refill *refill)
{
	return refill->cpu_node;
}

/*
 * Report why the thread has not ended. A thread that waits for reads reaches the top of its loop
 * each tick. One that has not reached it for some ticks waits for something else.
 */
static int not_ended(const struct rung__refill *refill, uint64_t waited_ns)
{
	const uint64_t blocked_ns =
		rung__now_ns() - atomic_load_explicit(&refill->seen_ns, memory_order_relaxed);
	const uint32_t reads = atomic_load_explicit(&refill->seen_reads, memory_order_relaxed);
	char mount[RUNG__MOUNT_TEXT_BYTES];
	const char *where = rung__refill_where(refill, mount);

	if (reads > 0 && blocked_ns < TICKS_MISSED_MAX * TICK_NS_MAX)
		return rung__fail(RUNG_E_TIMEDOUT,
		                  "%s%s: %u reads in flight have not completed in "
		                  "%" PRIu64 " ms: the device is stuck; their memory is not freed",
		                  refill->geometry.path, where, reads, waited_ns / 1000000u);
	return rung__fail(RUNG_E_TIMEDOUT,
	                  "%s%s: the refill thread has been blocked for %" PRIu64
	                  " ms: a call to the drive does not return, or a process that shares the "
	                  "store is stopped; the store's memory is not freed",
	                  refill->geometry.path, where, blocked_ns / 1000000u);
}

int rung__refill_stop(struct rung__refill *refill)
{
	struct rung_store *store = refill->store;
	const uint64_t wait_ns = refill->timeout_ns * STOP_TIMEOUTS + STOP_SPARE_NS;

	pthread_mutex_lock(&refill->box.lock);
	refill->box.over = true;
	pthread_cond_signal(&refill->box.wake);
	pthread_mutex_unlock(&refill->box.lock);
	if (!rung__end_join(&refill->end, refill->thread, wait_ns))
		return not_ended(refill, wait_ns);
	if (refill->lost) /* the pool stays allocated, because the kernel may still write to it */
		store->reads_lost = true;
	free_refill(refill);
	return 0;
}
