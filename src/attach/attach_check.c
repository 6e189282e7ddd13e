/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the offer that an attaching process receives. It is untrusted (share.h): every number
 * that leads to memory, a file or a loop bound is checked here before it is used.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "plan/plan.h"
#include "attach/attach.h"

/* Check the head of the message, and that the message is complete. Magic and version come first:
 * only they are at the same place in every version. */
int rung__attach_check_answer(const char *path, const struct rung__answer *answer)
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
		wanted += rung__offer_count(offer, i);
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
	if (!rung__ranges_ok(layout, shape->vertex_count))
		return false;
	if (layout->is_lists) /* the last block can extend past the end of the file */
		return layout->is_lists == 1 && layout->file_count == 1 &&
		       layout->row_bytes == RUNG__LIST_BLOCK_BYTES &&
		       layout->row_stride == RUNG__LIST_BLOCK_BYTES &&
		       layout->data_offset < layout->file_bytes[0] &&
		       layout->file_bytes[0] <= INT64_MAX &&
		       shape->vertex_count <= (layout->file_bytes[0] - layout->data_offset - 1) /
		                                              RUNG__LIST_BLOCK_BYTES +
		                                      1;
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

/* Bytes of a stored row of `bytes` bytes as it was given; 0 if it cannot be quantized so. */
static uint64_t stored_bytes(const struct rung__shape *shape, uint64_t bytes)
{
	const enum rung_dtype dtype = shape->array.dtype;

	if (shape->quant.format == RUNG_QUANT_NONE)
		return bytes;
	return rung__quant_valid(&shape->quant) && rung__quant_accepts(dtype) &&
	                       shape->quant.columns == bytes / rung_dtype_bytes(dtype)
	               ? rung__quant_row_bytes(&shape->quant)
	               : 0;
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
	return stored_bytes(shape, bytes) == shape->layout.row_bytes && array->row_bytes == bytes &&
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

const char *rung__attach_bad_shape(const struct rung__shape *shape)
{
	/* the order matters: later checks use sizes that earlier ones have checked */
	return !layout_ok(shape)   ? "layout"
	       : !tiers_ok(shape)  ? "tiers"
	       : !cache_ok(shape)  ? "cold-row cache"
	       : !gpus_ok(shape)   ? "number of GPUs"
	       : !array_ok(shape)  ? "type"
	       : !maps_ok(shape)   ? "map"
	       : !places_ok(shape) ? "placement"
	                           : NULL;
}

int rung__attach_check_offer(const char *path, const struct rung__offer *offer)
{
	const char *what = rung__attach_bad_shape(&offer->shape);

	if (!what && offer->shape.layout.is_lists)
		what = "layout";
	if (what)
		return rung__fail(RUNG_E_FORMAT, "%s: the offered store is invalid (%s)", path,
		                  what);
	if (offer->path[0] != '/' || !memchr(offer->path, 0, sizeof(offer->path)))
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the offered folder of the dataset has no absolute path",
		                  path);
	return 0;
}

int rung__attach_check_file(const char *path, const struct rung__offered_file *file, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return rung__fail_errno(errno, "%s: cannot check the shared %s", path, file->name);
	if (!S_ISREG(st.st_mode) || st.st_dev != file->device || st.st_ino != file->inode)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: the received descriptor does not refer to %s of %s", path,
		                  file->name, file->folder);
	if ((uint64_t)st.st_size != file->bytes)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: %s of %s has %jd bytes, but %" PRIu64
		                  " are expected: it was changed while the store was shared; "
		                  "stage the dataset again and share it again",
		                  path, file->name, file->folder, (intmax_t)st.st_size,
		                  file->bytes);
	return 0;
}

int rung__attach_check_files(const char *path, const struct rung__answer *answer)
{
	const struct rung__offer *offer = &answer->offer;
	int rc = 0;

	for (uint64_t f = 0; f < offer->shape.layout.file_count && rc == 0; f++) {
		char name[40];
		const struct rung__offered_file file = {
			.name = name,
			.folder = offer->path,
			.device = offer->files[f].device,
			.inode = offer->files[f].inode,
			.bytes = offer->shape.layout.file_bytes[f]
		};

		snprintf(name, sizeof(name), "features file %" PRIu64, f);
		rc = rung__attach_check_file(path, &file, answer->fds[f]);
	}
	return rc;
}

/* Check every entry of a map. One check is enough, because the memory is sealed. */
int rung__attach_check_map(const char *path, const char *what, const void *map, unsigned bytes,
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

int *rung__attach_fd(struct rung__answer *answer, enum rung__offer_fd which)
{
	unsigned at = 0;

	for (unsigned kind = 0; kind < (unsigned)which; kind++)
		at += rung__offer_count(&answer->offer, kind);
	return rung__offer_count(&answer->offer, which) > 0 ? &answer->fds[at] : NULL;
}
