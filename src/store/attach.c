/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attacher's side of a shared store: check all of the offer, and open a store on it.
 *
 * The offer is untrusted (share.h): every number that leads to memory, a file or a loop bound is
 * checked before it is used. Sealed memory is checked once. Then the tiers are opened as in the
 * creator, except that the host tier and the maps are mapped, not loaded.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry/registry.h"
#include "plan/plan.h"
#include "share/share.h"
#include "store/store.h"

/* ---- checking ---- */

/* Check the head of the message, and that the message is complete. Magic and version come first:
 * only they are at the same place in every version. */
static int check_answer(const char *path, const struct rung__answer *answer)
{
	const struct rung__offer *offer = &answer->offer;
	unsigned wanted = 0; /* number of descriptors that belong to an offer of this shape */

	if (answer->bytes == 0)
		return rung__fail(RUNG_E_IO,
		                  "%s: the process that shares the store hung up: it is closing, "
		                  "or has no free descriptor; attach again",
		                  path);
	if (answer->bytes < offsetof(struct rung__offer, shape) ||
	    memcmp(offer->magic, RUNG__SHARE_MAGIC, sizeof(offer->magic)) != 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the process that answers there does not share a store",
		                  path);
	if (offer->version != RUNG__SHARE_VERSION)
		return rung__fail(
			RUNG_E_ABI,
			"%s: shared with protocol version %u, but this version of rung uses "
			"%u; use the same version on both sides",
			path, offer->version, RUNG__SHARE_VERSION);
	if (offer->bytes != sizeof(*offer) || answer->bytes != sizeof(*offer) ||
	    (answer->flags & MSG_TRUNC))
		return rung__fail(
			RUNG_E_ABI,
			"%s: the offered store is described in %u bytes (%zu received), but this "
			"build of rung expects %zu; use the same build on both sides",
			path, offer->bytes, answer->bytes, sizeof(*offer));
	/* the shape has not been checked yet, so `wanted` is used only for this comparison */
	for (unsigned i = 0; i < RUNG__OFFER_KINDS; i++)
		wanted += rung__offer_count(&offer->shape, i);
	if ((answer->flags & MSG_CTRUNC) || answer->fd_count != wanted)
		return rung__fail(RUNG_E_IO,
		                  "%s: %u descriptors arrived with the shared store, but %u are "
		                  "needed; raise the limit of open files (ulimit -n) if this "
		                  "process is near it",
		                  path, answer->fd_count, wanted);
	return 0;
}

/* Check the sizes of a row, that all rows together have fewer than 2^64 bytes, and that every row
 * is inside its file. */
static bool layout_ok(const struct rung__shape *shape)
{
	const struct rung__layout *layout = &shape->layout;
	uint64_t rows, end; /* rows of a file, and the offset at which the last one ends */

	if (shape->vertex_count == 0 || layout->row_bytes == 0 ||
	    layout->row_stride < layout->row_bytes || layout->file_count == 0 ||
	    layout->file_count > RUNG__FILES_MAX ||
	    !rung__mul(shape->vertex_count, layout->row_stride, &end))
		return false;
	/* the last term: rung__file_rows() multiplies block_rows by file_count */
	if (layout->file_count > 1 &&
	    (layout->block_rows == 0 || layout->block_rows >= shape->vertex_count ||
	     layout->block_rows > INT64_MAX / RUNG__FILES_MAX))
		return false;
	for (uint64_t f = 0; f < layout->file_count; f++) {
		rows = rung__file_rows(layout, shape->vertex_count, f);
		if (rows == 0 || layout->file_bytes[f] > INT64_MAX ||
		    !rung__mul(rows - 1, layout->row_stride, &end) ||
		    !rung__add(end, layout->row_bytes, &end) ||
		    !rung__add(end, layout->data_offset, &end) || end > layout->file_bytes[f])
			return false;
	}
	return true;
}

/* Check that there are tiers of GPUs only if the creator gathers on GPUs. */
static bool gpus_ok(const struct rung__shape *shape)
{
	if (shape->gpu_count == 0)
		return shape->tiers[RUNG__TIER_GPU].row_count == 0 &&
		       shape->tiers[RUNG__TIER_PEER].row_count == 0 && !shape->map_on_gpu;
	return shape->gpu_count <= RUNG_GPUS_MAX && shape->map_on_gpu <= 1;
}

/* Check that each row is in exactly one tier and, if some rows are cold, that there are slots and a
 * row fits into a slot. */
static bool tiers_ok(const struct rung__shape *shape)
{
	const struct rung__layout *layout = &shape->layout;
	uint64_t next = 0;

	for (unsigned t = 0; t < RUNG__TIER_COUNT; t++) {
		if (shape->tiers[t].rank_first != next ||
		    shape->tiers[t].row_count > shape->vertex_count - next)
			return false;
		next += shape->tiers[t].row_count;
	}
	if (next != shape->vertex_count)
		return false;
	if (shape->tiers[RUNG__TIER_NVME].row_count == 0)
		return true;
	/* enough for reads that are aligned to a page, which every device accepts */
	return shape->slot_count > 0 && shape->slot_count <= RUNG__SLOT_COUNT_MAX &&
	       shape->slot_bytes <= UINT32_MAX && layout->row_bytes <= UINT32_MAX &&
	       shape->slot_bytes % RUNG__PAGE_BYTES == 0 &&
	       shape->slot_bytes >= rung__row_span(layout->row_bytes, layout->row_stride,
	                                           layout->data_offset, RUNG__PAGE_BYTES);
}

/* Check that the cold rows can fill the frames, that a row fits into a frame, and that the size of
 * the segment does not overflow. */
static bool cache_ok(const struct rung__shape *shape)
{
	uint64_t first = shape->tiers[RUNG__TIER_NVME].rank_first,
		 rows = shape->tiers[RUNG__TIER_NVME].row_count;

	if (shape->frame_count == 0)
		return true;
	return shape->frame_count <= rows && shape->frame_count <= RUNG__FRAMES_MAX &&
	       shape->frame_bytes >= shape->layout.row_bytes && shape->frame_bytes <= UINT32_MAX &&
	       rung__pool_shared_bytes(first, rows, shape->frame_count, shape->frame_bytes) > 0;
}

/* Check that the features' type, which callers read from the store's properties, agrees with the
 * layout. */
static bool array_ok(const struct rung__shape *shape)
{
	const struct rung_array_info *array = &shape->array;
	uint64_t bytes = rung_dtype_bytes(array->dtype);

	if (bytes == 0 || array->dim_count < 1 || array->dim_count > RUNG_DIMS_MAX ||
	    array->dims[0] != shape->vertex_count)
		return false;
	for (unsigned d = 1; d < array->dim_count; d++) {
		if (!rung__mul(bytes, array->dims[d], &bytes))
			return false;
	}
	return bytes == shape->layout.row_bytes && array->row_bytes == bytes &&
	       array->row_count == shape->vertex_count;
}

/* Check that a map of this width can name all vertices. entry_bytes 0: no map. */
static bool map_ok(const struct rung__shape *shape, uint64_t entry_bytes)
{
	return entry_bytes == 0 || (entry_bytes == 8 && shape->vertex_count <= INT64_MAX / 8) ||
	       (entry_bytes == 4 && shape->vertex_count <= (uint64_t)UINT32_MAX + 1);
}

/* Check the offered placement of the creator's memory. */
static bool places_ok(const struct rung__shape *shape)
{
	const struct rung__placement_set *placements = &shape->placements;
	uint64_t host = shape->tiers[RUNG__TIER_HOST].row_count * shape->layout.row_stride,
		 frames = shape->frame_count * shape->frame_bytes;

	return memchr(placements->why, 0, sizeof(placements->why)) &&
	       placements->requested_node >= -1 && placements->requested_node < RUNG_NODES_MAX &&
	       rung__placement_ok(&placements->host, rung__align_up(host, RUNG__PAGE_BYTES)) &&
	       rung__placement_ok(&placements->frames, rung__align_up(frames, RUNG__PAGE_BYTES));
}

/* Check that rows stored by vertex are in a single file. */
static bool maps_ok(const struct rung__shape *shape)
{
	return map_ok(shape, shape->map_bytes) && map_ok(shape, shape->layout.vertex_bytes) &&
	       (shape->layout.vertex_bytes == 0 || shape->layout.file_count == 1);
}

static int check_shape(const char *path, const struct rung__offer *offer)
{
	const struct rung__shape *shape = &offer->shape;
	/* the order matters: later checks use sizes that earlier ones have checked */
	const char *what = !layout_ok(shape)   ? "layout"
	                   : !tiers_ok(shape)  ? "tiers"
	                   : !cache_ok(shape)  ? "cold-row cache"
	                   : !gpus_ok(shape)   ? "number of GPUs"
	                   : !array_ok(shape)  ? "type"
	                   : !maps_ok(shape)   ? "map"
	                   : !places_ok(shape) ? "placement"
	                                       : NULL;

	if (what)
		return rung__fail(RUNG_E_FORMAT, "%s: the offered store is invalid (%s)", path,
		                  what);
	if (offer->path[0] != '/' || !memchr(offer->path, 0, sizeof(offer->path)))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the offered folder of the dataset has no absolute path",
		                  path);
	return 0;
}

/* Check that a descriptor is the features file that the creator opened, and has its size. The path
 * is not used: another dataset may have replaced it since. */
static int check_file(const char *path, const struct rung__offer *offer, uint64_t file_idx, int fd)
{
	uint64_t bytes = offer->shape.layout.file_bytes[file_idx];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s: cannot check the shared features file", path);
	if (!S_ISREG(st.st_mode) || st.st_dev != offer->files[file_idx].device ||
	    st.st_ino != offer->files[file_idx].inode)
		return rung__fail(
			RUNG_E_FORMAT,
			"%s: the received descriptor does not refer to features file %" PRIu64
			" of %s",
			path, file_idx, offer->path);
	if ((uint64_t)st.st_size != bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: features file %" PRIu64 " of %s has %jd bytes, but %" PRIu64
		                  " are expected: it was changed while the store was shared; "
		                  "stage the dataset again and share it again",
		                  path, file_idx, offer->path, (intmax_t)st.st_size, bytes);
	return 0;
}

static int check_files(const char *path, const struct rung__answer *answer)
{
	int rc = 0;

	for (uint64_t f = 0; f < answer->offer.shape.layout.file_count && rc == 0; f++)
		rc = check_file(path, &answer->offer, f, answer->fds[f]);
	return rc;
}

/* Check every entry of a map. One check is enough, because the memory is sealed. */
static int check_map(const char *path, const char *what, const void *map, unsigned bytes,
                     uint64_t vertex_count)
{
	for (uint64_t i = 0; i < vertex_count; i++) {
		uint64_t id = rung__id_get(map, bytes, i);

		if (id >= vertex_count)
			return rung__fail(RUNG_E_RANGE,
			                  "%s: entry %" PRIu64 " of the shared %s is %" PRIu64
			                  ", but the store has only %" PRIu64 " vertices",
			                  path, i, what, id, vertex_count);
	}
	return 0;
}

/* ---- opening ---- */

/* The descriptor of a kind, or the first one of the features files; NULL if the offer has none. */
static int *descriptor(struct rung__answer *answer, enum rung__offer_fd which)
{
	unsigned at = 0;

	for (unsigned kind = 0; kind < (unsigned)which; kind++)
		at += rung__offer_count(&answer->offer.shape, kind);
	return rung__offer_count(&answer->offer.shape, which) > 0 ? &answer->fds[at] : NULL;
}

/* Map rank_of_vertex, if the caller uses vertex ids. */
static int accept_map(const char *path, struct rung_store *store, struct rung__answer *answer)
{
	const struct rung__shape *shape = &answer->offer.shape;
	const int *fd = descriptor(answer, RUNG__OFFER_MAP);
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
	return check_map(path, "map", store->rank_of_vertex, (unsigned)shape->map_bytes,
	                 shape->vertex_count);
}

/* Map vertex_of_rank of a dataset that was staged in place. */
static int accept_vertices(const char *path, struct rung_store *store, struct rung__answer *answer)
{
	const struct rung__shape *shape = &answer->offer.shape;
	const int *fd = descriptor(answer, RUNG__OFFER_VERTICES);
	int rc;

	if (!fd)
		return 0;
	rc = rung__segment_attach(path, *fd, shape->vertex_count * shape->layout.vertex_bytes,
	                          false, &store->vertices_memory);
	if (rc < 0)
		return rc;
	rung__store_set_vertices(store, store->vertices_memory.base);
	return check_map(path, "vertex_of_rank", store->vertex_of_rank,
	                 (unsigned)shape->layout.vertex_bytes, shape->vertex_count);
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
	const int *host_fd = descriptor(answer, RUNG__OFFER_HOST),
		  *cache_fd = descriptor(answer, RUNG__OFFER_CACHE);
	int *alive_fd = descriptor(answer, RUNG__OFFER_ALIVE);
	int rc;

	store->attached = true;
	store->shape = *shape;
	if (cache_fd && store->opts.private_cache) {
		store->shape.frame_count = 0;
		cache_fd = NULL;
		snprintf(store->cache_why, sizeof(store->cache_why),
		         "private_cache is set: the shared cold-row cache is not used");
	}
	rung__store_set_vertices(store, NULL); /* a pointer of the creator's process */
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
	int rc = check_answer(path, answer);

	if (rc == 0)
		rc = check_shape(path, &answer->offer);
	if (rc == 0)
		rc = check_files(path, answer);
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
