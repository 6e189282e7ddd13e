/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to the structure of a shared store: the offsets and the lists in memory are mapped, and
 * the other lists are read by this process from the creator's file.
 */
#include "dataset/manifest.h"
#include "registry/registry.h"
#include "attach/attach.h"

static int invalid(const char *path, const char *what)
{
	return rung__fail(RUNG_E_FORMAT, "%s: the offered structure is invalid (%s)", path, what);
}

/* Check the numbers that lead to memory and files. The number of vertices was checked before. */
static int check(const char *path, const struct rung__offer *offer)
{
	const struct rung__shape *shape = &offer->lists.shape;
	const uint64_t index_bytes = offer->lists.index_bytes;
	const char *what;
	uint64_t bytes;

	if (offer->lists.present != 1 || (index_bytes != 4 && index_bytes != 8) ||
	    !rung__mul(offer->lists.edge_count, index_bytes, &bytes) ||
	    rung__offsets_bytes(offer->shape.vertex_count, offer->lists.edge_count) == 0)
		return invalid(path, "sizes");
	if (bytes == 0)
		return 0;
	what = rung__attach_bad_shape(shape);
	if (!what && (!shape->layout.is_lists || shape->gpu_count || shape->frame_count ||
	              shape->map_bytes || shape->layout.vertex_bytes))
		what = "layout";
	/* every entry of a list is in the file, and the last block has one */
	if (!what && (bytes > shape->layout.file_bytes[0] - shape->layout.data_offset ||
	              shape->vertex_count != (bytes - 1) / RUNG__LIST_BLOCK_BYTES + 1))
		what = "sizes";
	return what ? invalid(path, what) : 0;
}

/* Map the offsets. They are sealed, so one check is enough. */
static int accept_offsets(const char *path, struct rung__answer *answer,
                          struct rung__structure *structure)
{
	struct rung__lists *lists = &structure->base.lists;
	const uint64_t bytes = rung__offsets_bytes(lists->csc.vertex_count, lists->csc.edge_count);
	int rc = rung__segment_attach(path, *rung__attach_fd(answer, RUNG__OFFER_OFFSETS),
	                              rung__align_up(bytes, RUNG__PAGE_BYTES), false,
	                              &structure->offsets);

	if (rc < 0)
		return rc;
	lists->offsets = rung__offsets_of(structure->offsets.base, lists->csc.vertex_count);
	return rung__offsets_ok(&lists->offsets, lists->csc.vertex_count, lists->csc.edge_count,
	                        &lists->degree_max)
	               ? 0
	               : invalid(path, "offsets");
}

/* Move the descriptor of the file with the lists to the store. */
static int accept_file(const char *path, struct rung__answer *answer, struct rung_store *store)
{
	const struct rung__offer *offer = &answer->offer;
	int *fd = rung__attach_fd(answer, RUNG__OFFER_LISTS);
	const struct rung__offered_file file = {
		.name = RUNG__INDICES,
		.folder = offer->path,
		.device = offer->lists.device,
		.inode = offer->lists.inode,
		.bytes = offer->lists.shape.layout.file_bytes[0],
	};
	int rc = rung__attach_check_file(path, &file, *fd);

	if (rc < 0)
		return rc;
	store->features.layout = store->shape.layout;
	store->features.files[0].path = rung__format("%s/%s", offer->path, RUNG__INDICES);
	if (store->features.files[0].path) { /* a file without a path is not closed */
		store->features.files[0].fd = *fd;
		*fd = -1; /* owned by the store from here on */
	}
	store->dataset_dir = rung__strdup(offer->path);
	return store->features.files[0].path && store->dataset_dir
	               ? 0
	               : rung__fail(RUNG_E_NOMEM, "structure: out of memory");
}

static int open_blocks(const char *path, const struct rung_store_opts *caller,
                       struct rung__answer *answer, struct rung__structure *structure)
{
	const struct rung_store_opts opts = rung__structure_opts(caller);
	const int *host_fd = rung__attach_fd(answer, RUNG__OFFER_LISTS_HOST);
	struct rung_store *store;
	int rc = rung__store_new(&opts, true, &store);

	if (rc < 0)
		return rc;
	structure->store = store;
	store->attached = true;
	store->owner_pid = answer->pid;
	store->shape = answer->offer.lists.shape;
	rung__store_set_vertices(store, NULL); /* a pointer of the creator's process */
	rc = accept_file(path, answer, store);
	if (rc == 0 && host_fd)
		rc = rung__segment_attach(path, *host_fd,
		                          store->shape.tiers[RUNG__TIER_HOST].row_count *
		                                  RUNG__LIST_BLOCK_BYTES,
		                          false, &store->host_memory);
	if (rc == 0) {
		structure->path = rung__strdup(store->features.files[0].path);
		if (!structure->path)
			rc = rung__fail(RUNG_E_NOMEM, "structure: out of memory");
	}
	if (rc == 0)
		rc = rung__store_open_tiers(store, rung__registry_reader(), NULL, -1);
	if (rc == 0)
		rc = rung__structure_finish(structure);
	rung__features_close(&store->features); /* tiers have their own descriptors */
	return rc;
}

int rung__attach_structure(const char *path, const struct rung_store_opts *opts,
                           struct rung__answer *answer, struct rung__structure **structure_out)
{
	const struct rung__offer *offer = &answer->offer;
	struct rung__structure *structure;
	int rc;

	if (offer->lists.present == 0)
		return 0;
	rc = check(path, offer);
	if (rc < 0)
		return rc;
	structure = rung__zalloc(sizeof(*structure));
	if (!structure)
		return rung__fail(RUNG_E_NOMEM, "structure: out of memory");
	structure->base.lists.csc =
		(struct rung_csc){ .vertex_count = offer->shape.vertex_count,
		                   .edge_count = offer->lists.edge_count,
		                   .index_bytes = (unsigned)offer->lists.index_bytes };
	rc = accept_offsets(path, answer, structure);
	if (rc == 0 && offer->lists.edge_count > 0)
		rc = open_blocks(path, opts, answer, structure);
	if (rc < 0) {
		rung__structure_close(structure);
		return rc;
	}
	*structure_out = structure;
	return 0;
}
