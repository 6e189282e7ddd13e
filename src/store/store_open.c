/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a store of features.
 *
 * rung_store_open() and rung_store_attach() (src/attach) both create a store with
 * rung__store_new(), set its shape and features, and open its tiers with rung__store_open_tiers().
 * After a failure at any point rung_store_close() releases what exists so far.
 */
#include <string.h>

#include "dataset/dataset.h"
#include "plan/plan.h"
#include "registry/registry.h"
#include "share/share.h"
#include "store/structure.h"

/* Move a map from heap memory into whole pages, which can be shared with other processes or pinned
 * by a device. */
static int move_map(const struct rung_store *store, const char *name, uint64_t bytes, void **map,
                    struct rung__segment *memory)
{
	void *loaded = *map;
	int rc = 0;

	if (store->is_shared) {
		rc = rung__segment_create(name, bytes, memory);
	} else {
		*memory = (struct rung__segment){ .base = rung__map_pages(bytes),
			                          .bytes = bytes,
			                          .fd = -1 };
		if (!memory->base)
			rc = rung__fail(RUNG_E_NOMEM,
			                "store: no memory for %" PRIu64 " bytes of %s", bytes,
			                name);
	}
	if (rc < 0)
		return rc;
	*map = memcpy(memory->base, loaded, bytes);
	rung__free(loaded);
	return store->is_shared ? rung__segment_seal(name, memory) : 0;
}

static int load_map(struct rung_store *store, const struct rung_dataset *ds)
{
	struct rung_array_info array;
	int rc;

	if (!store->opts.vertex_ids)
		return 0;
	/* this checks every entry, so that gathers need not check them */
	rc = rung_dataset_load_array(ds, "rank_of_vertex", &array, &store->rank_of_vertex);
	if (rc < 0)
		return rc;
	store->shape.map_bytes = array.row_bytes;
	if (!store->is_shared && !store->device_ops)
		return 0;
	return move_map(store, "rung-map", array.row_count * array.row_bytes,
	                &store->rank_of_vertex, &store->map_memory);
}

/* Load the map of rows that were staged in place: where the row of each rank is. */
static int load_vertices(struct rung_store *store, const struct rung_dataset *ds)
{
	struct rung_array_info array;
	void *vertices;
	int rc;

	if (store->shape.layout.vertex_bytes == 0)
		return 0;
	/* checks every entry */
	rc = rung_dataset_load_array(ds, "vertex_of_rank", &array, &vertices);
	if (rc < 0)
		return rc;
	if (store->is_shared)
		rc = move_map(store, "rung-vertices", array.row_count * array.row_bytes, &vertices,
		              &store->vertices_memory);
	rung__store_set_vertices(store, vertices);
	return rc;
}

/* Copy the scales per column of quantized rows. */
static int load_scales(struct rung_store *store, const struct rung_dataset *ds)
{
	const struct rung_quantization *quant = &rung_dataset_info(ds)->quantization;
	void *scales;

	if (!quant->column_scales)
		return 0;
	scales = rung__malloc_array(quant->columns, sizeof(float));
	if (!scales)
		return rung__fail(RUNG_E_NOMEM, "store: no memory for %" PRIu64 " scales",
		                  quant->columns);
	memcpy(scales, quant->column_scales, (size_t)quant->columns * sizeof(float));
	return move_map(store, "rung-scales", quant->columns * sizeof(float), &scales,
	                &store->scales_memory);
}

/* Offer a complete store to other processes. */
static int share_store(const struct rung_store *store)
{
	struct rung__share_lists lists;

	if (!store->structure)
		return rung__share_start(store->share, store, NULL);
	lists = rung__structure_offer(store->structure);
	return rung__share_start(store->share, store, &lists);
}

/* The endpoint is acquired first: loading takes long, and a second creator must fail before it. The
 * socket is opened last, when the store is complete.
 * @param lists_opts  of the structure: the caller's */
static int open_all(struct rung_store *store, const struct rung_dataset *ds,
                    const struct rung_plan *plan, const struct rung_store_opts *lists_opts,
                    const struct rung__reader_ops *reader_ops)
{
	int rc = 0;

	store->dataset_dir = rung__strdup(rung_dataset_dir(ds));
	if (!store->dataset_dir)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	if (store->opts.share_path)
		rc = rung__share_reserve(store->opts.share_path, &store->share);
	store->is_shared = store->share != NULL;
	if (rc == 0 && plan->has_structure)
		rc = rung__structure_open(ds, plan, lists_opts, reader_ops, store->is_shared,
		                          &store->structure);
	if (rc == 0)
		rc = rung__features_open(ds, &store->features);
	store->shape.layout = store->features.layout;
	store->graph = plan->graph;
	if (rc == 0 && plan->device.device == RUNG_DEVICE_CUDA)
		rc = rung__store_choose_device(store, plan->gpus, plan->device.gpu_count);
	if (rc == 0)
		rc = load_map(store, ds);
	if (rc == 0)
		rc = load_vertices(store, ds);
	if (rc == 0)
		rc = load_scales(store, ds);
	if (rc == 0)
		rc = rung__store_open_tiers(store, reader_ops, NULL, -1);
	if (rc == 0 && store->share)
		return share_store(store);
	rung__features_close(&store->features); /* tiers have their own descriptors */
	return rc;
}

int rung__store_open_over(const struct rung_dataset *ds, const struct rung_plan *plan,
                          const struct rung_store_opts *user_opts,
                          const struct rung__reader_ops *reader_ops, struct rung_store **store_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT, lists_opts;
	struct rung_store *store = NULL;
	int rc = rung__opts_copy_in(&opts, sizeof(opts), user_opts, "rung_store_opts");

	if (rc == 0)
		rc = rung__dataset_needs(ds, RUNG__NEEDS_ROWS);
	if (rc < 0)
		return rc;
	lists_opts = opts; /* the plan of the lists has its own depth and gap */
	opts.queue_depth = opts.queue_depth ? opts.queue_depth : plan->queue_depth;
	opts.merge_gap_bytes =
		opts.merge_gap_bytes ? opts.merge_gap_bytes : plan->tuning.merge_gap_bytes;
	opts.refill_threads =
		opts.refill_threads ? opts.refill_threads : plan->tuning.refill_threads;
	if (plan->vertex_count != info->vertex_count || plan->row_bytes != info->stored_row_bytes)
		return rung__fail(
			RUNG_E_INVAL,
			"%s: the plan is for another dataset; create one for this dataset",
			rung_dataset_dir(ds));
	if (opts.gpu)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: opts.gpu %d is only for rung_store_attach(); name "
		                  "the GPU in the options of the plan",
		                  rung_dataset_dir(ds), *opts.gpu);
	rc = rung__store_new(&opts, false, &store);
	if (rc < 0)
		return rc;
	store->shape = rung__store_shape(&info->features, &info->quantization, plan);
	rc = open_all(store, ds, plan, &lists_opts, reader_ops);
	if (rc < 0) {
		rung_store_close(store);
		return rc;
	}
	*store_out = store;
	return 0;
}

int rung_store_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                    const struct rung_store_opts *opts, struct rung_store **store_out)
{
	return rung__store_open_over(ds, plan, opts, rung__registry_reader(), store_out);
}

int rung_store_close(struct rung_store *store)
{
	int rc, closed;

	if (!store)
		return 0;
	/* from here on no process can attach, and attached processes start no gather on our
	 * memory */
	rung__share_stop(store->share);
	closed = rung__structure_close(store->structure);
	store->structure = NULL;
	rc = rung__store_release(store);
	return closed < 0 ? closed : rc;
}
