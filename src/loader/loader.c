/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating and destroying a loader: its options, workers and memory.
 *
 * The calling thread runs everything here. No other thread uses the loader before
 * rung__feed_start(), the last step of creating it, nor after rung__feed_stop().
 */
#include <sched.h>

#include "loader/state.h"
#include "rung/structure.h"
#include "sample/lists.h"

#define BATCH_SIZE_DEFAULT 1024u
/* batches: enough for the cache to know the next uses (rung_prefetch()); a few tens of MiB */
#define GATHERS_DEFAULT     2u /* batches: one complete, one in flight */
#define THREADS_DEFAULT_MAX 8u
/* With a GPU sampler each batch has memory for the largest possible batch, so only a few are
 * sampled ahead. Two threads are enough: the GPU samples one batch while the host launches the
 * kernels of the other. */
#define AHEAD_GPU           2u
#define THREADS_DEFAULT_GPU 2u

/* ---- options ---- */

/* Number of CPUs in the affinity mask of the calling thread. */
static uint32_t cpus_allowed(void)
{
	cpu_set_t set;

	/* it fails if the kernel supports more than the 1024 CPUs that fit in the set */
	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set)
	                                                    : THREADS_DEFAULT_MAX;
}

/* One CPU is left to the caller, who trains. Threads that sample lists in a file wait for the
 * device most of the time, so their number does not depend on the CPUs: enough to keep it busy. */
static bool some_cold(const struct rung_structure *structure)
{
	return structure && structure->lists.resident_count < structure->lists.csc.edge_count;
}

static uint32_t threads_default(const struct rung_loader_opts *opts)
{
	bool cold = some_cold(opts->sampler.structure);

	for (uint32_t i = 0; i < opts->sampler.relation_count; i++)
		cold |= some_cold(opts->sampler.relations[i].structure);
	if (cold)
		return THREADS_DEFAULT_MAX;
	return RUNG__MIN(RUNG__MAX(cpus_allowed(), 2u) - 1, THREADS_DEFAULT_MAX);
}

/* Without a graph from the caller, the store's own is used. */
static void default_graph(const struct rung_store *store, const struct rung_csc *csc,
                          struct rung_loader_opts *opts)
{
	if (!csc && opts->sampler.hop_count > 0 && !opts->sampler.structure &&
	    opts->sampler.relation_count == 0)
		opts->sampler.structure = rung_store_structure(store);
}

/* Check the options and fill in defaults. @param store  the first one */
static int fill_opts(const struct rung_store *store, const struct rung_csc *csc,
                     struct rung_loader_opts *opts)
{
	/* Each gather occupies a request of the store, and one is left to the caller. A store with
	 * a single request still allows one gather: while the caller has that request, the feeder
	 * gathers synchronously, with a request that the store keeps for this case. */
	const uint32_t gathers_max = RUNG__MAX(store->opts.requests_max, 2u) - 1;

	/* A different size of this nested struct would move the members after it. So unlike the
	 * outer struct, it must have exactly this size. */
	if (opts->sampler.size != sizeof(opts->sampler))
		return rung__fail(
			RUNG_E_INVAL,
			"loader: size of the sampler's options is %zu, must be %zu; set it "
			"with the struct's initialiser",
			opts->sampler.size, sizeof(opts->sampler));
	if (opts->threads > RUNG_LOADER_THREADS_MAX)
		return rung__fail(RUNG_E_INVAL, "loader: %" PRIu32 " threads; use at most %d",
		                  opts->threads, RUNG_LOADER_THREADS_MAX);
	if (opts->look_ahead > RUNG_LOADER_LOOK_AHEAD_MAX)
		return rung__fail(RUNG_E_INVAL, "loader: %" PRIu32 " batches ahead; use at most %d",
		                  opts->look_ahead, RUNG_LOADER_LOOK_AHEAD_MAX);
	if (opts->gathers > gathers_max)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: %" PRIu32 " gathers: the store has %" PRIu32
		                  " requests, one of them reserved for the caller; "
		                  "use at most %" PRIu32 " or raise requests_max",
		                  opts->gathers, store->opts.requests_max, gathers_max);
	default_graph(store, csc, opts);
	opts->batch_size = opts->batch_size ? opts->batch_size : BATCH_SIZE_DEFAULT;
	if (opts->look_ahead == 0)
		opts->look_ahead = opts->gpu_sampler ? AHEAD_GPU : RUNG_LOOK_AHEAD;
	opts->gathers = opts->gathers ? opts->gathers : RUNG__MIN(GATHERS_DEFAULT, gathers_max);
	if (opts->threads == 0)
		opts->threads = opts->gpu_sampler ? THREADS_DEFAULT_GPU : threads_default(opts);
	return 0;
}

/* Check the graph: that of the GPU sampler, or csc if the options have hops. A graph with another
 * vertex count belongs to another data set, and its ranks would select wrong rows without any
 * error. */
static int check_graph(const struct rung_store *store, const struct rung_csc *csc,
                       const struct rung_loader_opts *opts)
{
	const struct rung_structure *structure = opts->sampler.structure;
	uint64_t vertex_count;

	if (opts->type_stores)
		return csc ? rung__fail(RUNG_E_INVAL,
		                        "loader: a graph and stores of types are both set; pass "
		                        "only one")
		           : rung__feed_check_tables(opts);
	if (opts->gpu_sampler && (csc || opts->sampler.hop_count > 0))
		return rung__fail(RUNG_E_INVAL,
		                  "loader: a GPU sampler, and a graph or hops for the "
		                  "CPU, are both set; pass only one");
	if (opts->gpu_sampler)
		return rung__gpu_sampler_check(opts->gpu_sampler, store, opts->batch_size);
	if (opts->sampler.hop_count == 0)
		return 0;
	if (!csc && !structure)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: %" PRIu32
		                  " hops but no graph; pass a graph, open the store with a plan "
		                  "that has structure_bytes, or set hop_count 0",
		                  opts->sampler.hop_count);
	vertex_count = csc ? csc->vertex_count : structure->lists.csc.vertex_count;
	if (vertex_count != store->shape.vertex_count)
		return rung__fail(RUNG_E_INVAL,
		                  "loader: the graph has %" PRIu64
		                  " vertices, but the store has %" PRIu64
		                  "; pass the relabelled graph of the store's dataset",
		                  vertex_count, store->shape.vertex_count);
	return 0;
}

/* ---- creating it ---- */

/* Copy the caller's options, and find the store whose memory and device are used: of a typed graph
 * the first one. `opts` has the defaults of the initialiser, which stay for members that an older
 * caller does not know. */
static int begin(struct rung_store **store, const struct rung_loader_opts *caller_opts,
                 struct rung_loader_opts *opts)
{
	int rc = rung__opts_copy_in(opts, sizeof(*opts), caller_opts, "rung_loader_opts");

	for (uint32_t i = 0; rc == 0 && opts->type_stores && i < opts->sampler.type_count; i++)
		*store = *store ? *store : opts->type_stores[i];
	if (rc == 0 && !*store)
		rc = rung__fail(RUNG_E_INVAL, "loader: no store; pass one, or one of a type");
	return rc;
}

/* Create a sampler or a stream for each worker. The threads are started later, by
 * rung__feed_start(). After an error close_workers() frees what was created. */
static int make_workers(struct rung_loader *loader, const struct rung_csc *csc)
{
	struct rung_sampler_opts opts = loader->opts.sampler;

	loader->workers = rung__zalloc_array(loader->opts.threads, sizeof(*loader->workers));
	if (!loader->workers)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory for %" PRIu32 " threads",
		                  loader->opts.threads);
	opts.threads = 1; /* batches are the parallel unit: one thread samples a whole batch */
	for (uint32_t i = 0; i < loader->opts.threads; i++) {
		struct rung__feed_worker *worker = &loader->workers[i];
		int rc = 0;

		worker->loader = loader;
		if (opts.hop_count > 0)
			rc = rung_sampler_create(csc, &opts, &worker->sampler);
		else if (loader->opts.gpu_sampler)
			rc = loader->store->device_ops->stream_open(loader->store->device,
			                                            &worker->stream);
		if (rc < 0)
			return rc;
	}
	/* these belong to the caller; each worker's sampler has a copy */
	loader->opts.sampler.fanouts = NULL;
	loader->opts.sampler.relations = NULL;
	loader->opts.sampler.type_counts = NULL;
	return 0;
}

/* Allocate as many batches as are in use when the caller holds two. A pass then allocates no GPU
 * memory for sampling; an allocation could make the device wait for all its work. */
static int make_gpu_batches(struct rung_loader *loader)
{
	const uint64_t count = loader->slot_count + RUNG__FEED_HELD;

	for (uint64_t i = 0; i < count; i++) {
		struct rung__feed_batch *batch;
		int rc = rung__feed_make_batch(loader, &batch);

		if (rc < 0)
			return rc;
		/* to the free list, which has no limit for GPU batches */
		rung__feed_release_batch(loader, batch);
	}
	return 0;
}

int rung_loader_create(struct rung_store *store, const struct rung_csc *csc,
                       const struct rung_loader_opts *caller_opts, struct rung_loader **loader_out)
{
	struct rung_loader_opts opts = RUNG_LOADER_OPTS_INIT;
	struct rung_loader *loader;
	int rc = begin(&store, caller_opts, &opts);

	if (rc == 0)
		rc = fill_opts(store, csc, &opts);
	if (rc == 0)
		rc = check_graph(store, csc, &opts);
	if (rc < 0)
		return rc;
	loader = rung__zalloc(sizeof(*loader));
	if (!loader)
		return rung__fail(RUNG_E_NOMEM, "loader: no memory");
	loader->store = store;
	loader->opts = opts;
	loader->typed = opts.type_stores != NULL;
	loader->hop_count = opts.gpu_sampler ? rung__gpu_sampler_hops(opts.gpu_sampler)
	                                     : opts.sampler.hop_count;
	pthread_mutex_init(&loader->lock, NULL);
	pthread_cond_init(&loader->room, NULL);
	pthread_cond_init(&loader->work, NULL);
	pthread_cond_init(&loader->moved, NULL);
	loader->slot_count = (uint64_t)opts.look_ahead + opts.gathers;
	loader->slots = rung__zalloc_array(loader->slot_count, sizeof(*loader->slots));
	rc = loader->slots ? rung__feed_open_tables(loader)
	                   : rung__fail(RUNG_E_NOMEM, "loader: no memory for %" PRIu64 " batches",
	                                loader->slot_count);
	if (rc == 0)
		rc = make_workers(loader, csc);
	if (rc == 0 && store->device)
		rc = store->device_ops->stream_open(store->device, &loader->stream);
	if (rc == 0 && opts.gpu_sampler)
		rc = make_gpu_batches(loader);
	if (rc == 0) /* last: from here on the threads use the loader */
		rc = rung__feed_start(loader);
	if (rc < 0) {
		/* all memory was zeroed, so each part that has not been created is skipped */
		rung_loader_destroy(loader);
		return rc;
	}
	*loader_out = loader;
	return 0;
}

/* Free the samplers and streams that make_workers() has created. The threads have been joined. */
static void close_workers(struct rung_loader *loader)
{
	for (uint32_t i = 0; loader->workers && i < loader->opts.threads; i++) {
		rung_sampler_destroy(loader->workers[i].sampler);
		if (loader->workers[i].stream)
			loader->store->device_ops->stream_close(loader->store->device,
			                                        loader->workers[i].stream);
	}
	rung__free(loader->workers);
}

void rung_loader_destroy(struct rung_loader *loader)
{
	struct rung__feed_batch *batch;

	if (!loader)
		return;
	rung_loader_end(loader); /* this empties the slots */
	rung__feed_stop(loader);
	/* batches that the caller has not put; reads in flight may still write to their rows */
	while ((batch = RUNG__ENTRY(rung__queue_pop(&loader->held), struct rung__feed_batch,
	                            held_link)) != NULL) {
		rung__feed_drain(loader, batch);
		rung__feed_free_batch(loader, batch);
	}
	rung__feed_free_all(loader);
	close_workers(loader);
	if (loader->stream)
		loader->store->device_ops->stream_close(loader->store->device, loader->stream);
	rung__free(loader->tables);
	rung__free(loader->slots);
	rung__free(loader->seeds);
	pthread_cond_destroy(&loader->moved);
	pthread_cond_destroy(&loader->work);
	pthread_cond_destroy(&loader->room);
	pthread_mutex_destroy(&loader->lock);
	rung__free(loader);
}
