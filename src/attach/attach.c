/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attacher's side of a shared store: open a store on an offer whose contents were checked
 * (attach_check.c). Sealed memory is checked once, here. Then the tiers are opened as in the
 * creator, except that the host tier and the maps are mapped, not loaded.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "registry/registry.h"
#include "attach/attach.h"

/* Map rank_of_vertex, if the caller uses vertex ids. */
static int accept_map(const char *path, struct rung_store *store, struct rung__answer *answer)
{
	const struct rung__shape *shape = &answer->offer.shape;
	const int *fd = rung__attach_fd(answer, RUNG__OFFER_MAP);
	int rc;

	if (!store->opts.vertex_ids) {
		store->shape.map_bytes = 0;
		return 0;
	}
	if (!fd)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: the store was shared without vertex_ids; set it in the "
		                  "process that opens and shares the store",
		                  path);
	rc = rung__segment_attach(path, *fd, shape->vertex_count * shape->map_bytes, false,
	                          &store->map_memory);
	if (rc < 0)
		return rc;
	store->rank_of_vertex = store->map_memory.base;
	return rung__attach_check_map(path, "map", store->rank_of_vertex,
	                              (unsigned)shape->map_bytes, shape->vertex_count);
}

/* Map vertex_of_rank of a dataset that was staged in place. */
static int accept_vertices(const char *path, struct rung_store *store, struct rung__answer *answer)
{
	const struct rung__shape *shape = &answer->offer.shape;
	const int *fd = rung__attach_fd(answer, RUNG__OFFER_VERTICES);
	int rc;

	if (!fd)
		return 0;
	rc = rung__segment_attach(path, *fd, shape->vertex_count * shape->layout.vertex_bytes,
	                          false, &store->vertices_memory);
	if (rc < 0)
		return rc;
	rung__store_set_vertices(store, store->vertices_memory.base);
	return rung__attach_check_map(path, "vertex_of_rank", store->vertex_of_rank,
	                              (unsigned)shape->layout.vertex_bytes, shape->vertex_count);
}

/* Map the scales per column of quantized rows. Decoders use them without checks. */
static int accept_scales(const char *path, struct rung_store *store, struct rung__answer *answer)
{
	const struct rung__quant *quant = &answer->offer.shape.quant;
	const int *fd = rung__attach_fd(answer, RUNG__OFFER_SCALES);
	const float *scales;
	int rc;

	if (!fd)
		return 0;
	rc = rung__segment_attach(path, *fd, quant->columns * sizeof(float), false,
	                          &store->scales_memory);
	scales = store->scales_memory.base;
	for (uint64_t c = 0; c < quant->columns && rc == 0; c++) {
		if (!(scales[c] >= rung__quant_scale_min(quant)) || !isfinite(scales[c]))
			rc = rung__fail(RUNG_E_RANGE,
			                "%s: the shared scale of column %" PRIu64
			                " is not a positive number",
			                path, c);
	}
	return rc;
}

/* The name of a features file, for messages. Rows that were staged in place are in a file of any
 * name and folder, so its name is read from the descriptor. The caller frees the result; NULL: out
 * of memory. */
static char *name_of(const struct rung__offer *offer, uint64_t file_idx, int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	if (offer->shape.layout.vertex_bytes == 0)
		return rung__format("%s/" RUNG__FEATURES_NAME, offer->path, (unsigned)file_idx);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path));
	return length < 0 ? rung__format("the features of %s", offer->path)
	                  : rung__format("%.*s", (int)length, path);
}

/* Move the descriptors of the features files to the store. */
static int accept_features(struct rung_store *store, struct rung__answer *answer)
{
	store->features.layout = store->shape.layout;
	store->dataset_dir = rung__strdup(answer->offer.path);
	if (!store->dataset_dir)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	for (uint64_t f = 0; f < store->shape.layout.file_count; f++) {
		char *file = name_of(&answer->offer, f, answer->fds[f]);

		if (!file)
			return rung__fail(RUNG_E_NOMEM, "store: out of memory");
		store->features.files[f].path = file;
		store->features.files[f].fd = answer->fds[f];
		answer->fds[f] = -1; /* owned by the store from here on */
	}
	return 0;
}

/* Choose the GPU that gathers: the caller's, not the creator's. `alive_fd`: the attachers' end of
 * the creator's socket pair; NULL without a tier "peer". */
static int accept_device(const char *path, struct rung_store *store, int *alive_fd)
{
	const struct rung__device_ops *ops;
	int gpus[RUNG_GPUS_MAX], gpu;

	if (store->shape.gpu_count == 0) {
		if (!store->opts.gpu)
			return 0;
		return rung__fail(RUNG_E_INVAL,
		                  "%s: opts.gpu is %d, but the shared store gathers on the CPU; "
		                  "leave opts.gpu NULL",
		                  path, *store->opts.gpu);
	}
	ops = rung__device_find(RUNG_DEVICE_CUDA);
	if (!ops)
		return RUNG_E_NOSUP;
	if (store->opts.gpu && *store->opts.gpu < 0)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: gpu %d is not valid; give a GPU's number, 0 or above", path,
		                  *store->opts.gpu);
	gpu = store->opts.gpu ? *store->opts.gpu : ops->current();
	if (gpu < 0)
		return gpu;
	/* this process uses one GPU, which stands for all GPUs of the creator */
	for (uint32_t g = 0; g < RUNG_GPUS_MAX; g++)
		gpus[g] = gpu;
	if (alive_fd) {
		store->alive_fd = *alive_fd;
		*alive_fd = -1; /* owned by the store from here on */
	}
	return rung__store_choose_device(store, gpus, (uint32_t)store->shape.gpu_count);
}

/* Open the store on a checked offer. The caller closes it after a failure. */
static int fill(const char *path, struct rung_store *store, struct rung__answer *answer)
{
	const struct rung__shape *shape = &answer->offer.shape;
	const int *host_fd = rung__attach_fd(answer, RUNG__OFFER_HOST),
		  *cache_fd = rung__attach_fd(answer, RUNG__OFFER_CACHE);
	int *alive_fd = rung__attach_fd(answer, RUNG__OFFER_ALIVE);
	int rc;

	store->attached = true;
	store->owner_pid = answer->pid;
	store->shape = *shape;
	if (cache_fd && store->opts.private_cache) {
		store->shape.frame_count = 0;
		cache_fd = NULL;
		snprintf(store->cache_why, sizeof(store->cache_why),
		         "private_cache is set: the shared cold-row cache is not used");
	}
	rung__store_set_vertices(store, NULL); /* a pointer of the creator's process */
	rc = rung__attach_structure(path, &store->opts, answer, &store->structure);
	if (rc == 0)
		rc = accept_device(path, store, alive_fd);
	/* it points to memory of the caller that is valid only during the call */
	store->opts.gpu = NULL;
	if (rc == 0)
		rc = accept_map(path, store, answer);
	if (rc == 0 && host_fd)
		rc = rung__segment_attach(path, *host_fd,
		                          shape->tiers[RUNG__TIER_HOST].row_count *
		                                  shape->layout.row_stride,
		                          false, &store->host_memory);
	if (rc == 0)
		rc = accept_features(store, answer);
	if (rc == 0)
		rc = accept_vertices(path, store, answer);
	if (rc == 0)
		rc = accept_scales(path, store, answer);
	if (rc == 0)
		rc = rung__store_open_tiers(store, rung__registry_reader(),
		                            alive_fd ? answer->offer.peer_handles : NULL,
		                            cache_fd ? *cache_fd : -1);
	/* closed now, because the tiers have their own descriptors */
	rung__features_close(&store->features);
	return rc;
}

static int open_answer(const char *path, const struct rung_store_opts *opts,
                       struct rung__answer *answer, struct rung_store **store_out)
{
	struct rung_store *store = NULL;
	int rc = rung__attach_check_answer(path, answer);

	if (rc == 0)
		rc = rung__attach_check_offer(path, &answer->offer);
	if (rc == 0)
		rc = rung__attach_check_files(path, answer);
	if (rc == 0)
		rc = rung__store_new(opts, false, &store);
	if (rc < 0)
		return rc;
	if (store->opts.share_path)
		rc = rung__fail(
			RUNG_E_INVAL,
			"%s: an attached store cannot be shared; attach the other processes to %s",
			store->opts.share_path, path);
	else
		rc = fill(path, store, answer);
	if (rc < 0) {
		rung_store_close(store);
		return rc;
	}
	*store_out = store;
	return 0;
}

int rung_store_attach(const char *share_path, const struct rung_store_opts *opts,
                      struct rung_store **store_out)
{
	struct rung__answer answer;
	int rc;

	if (!share_path || !store_out)
		return rung__fail(RUNG_E_INVAL,
		                  "rung_store_attach: share_path and store_out must not be NULL");
	rc = rung__share_request(share_path, &answer);
	if (rc == 0)
		rc = open_answer(share_path, opts, &answer, store_out);
	rung__answer_close(&answer);
	return rc;
}
