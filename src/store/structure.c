/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structure of a dataset: the lists of its graph in a second store, whose rows are blocks of
 * the file, and their offsets.
 *
 * The tier "host" of that store is the hot prefix, which samplers read directly. They request the
 * other blocks with a gather, so everything that holds for cold rows also holds for lists: one
 * refill thread on the CPUs of the drive's node, merged reads, retries, timeouts and counters.
 */
#include <string.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "file/direct.h"
#include "file/file.h"
#include "plan/plan.h"
#include "registry/registry.h"
#include "share/share.h"
#include "store/structure.h"

#define READ_BYTES (4u << 20) /* of the offsets at a time */

/* ---- offsets ---- */

/* Convert the entries of indptr from entry 1 on; entry 0 must be 0. */
static int add_offsets(struct rung__offsets_writer *writer, const struct rung__direct *file,
                       uint64_t data_offset, unsigned char *buffer)
{
	const uint64_t bytes = (writer->vertex_count + 1) * sizeof(uint64_t);
	int rc = 0;

	for (uint64_t at = 0; at < bytes && rc == 0; at += READ_BYTES) {
		const uint64_t part = RUNG__MIN(bytes - at, READ_BYTES);
		const unsigned char *found;

		rc = rung__direct_read_span(file, data_offset + at, part, buffer, &found);
		if (rc == 0 && at == 0 && *(const uint64_t *)found != 0)
			rc = rung__fail(
				RUNG_E_FORMAT,
				"%s: entry 0 is %" PRIu64
				"; it must be 0; run rung verify, and stage the dataset again",
				file->name, *(const uint64_t *)found);
		if (rc == 0)
			rc = rung__offsets_add(writer, file->name,
			                       (const uint64_t *)found + (at == 0),
			                       part / sizeof(uint64_t) - (at == 0));
	}
	if (rc == 0 && writer->end != writer->edge_count)
		rc = rung__fail(RUNG_E_FORMAT,
		                "%s: the last entry is %" PRIu64 ", but the graph has %" PRIu64
		                " edges; run rung verify, and stage the dataset again",
		                file->name, writer->end, writer->edge_count);
	return rc;
}

/* Read indptr past the page cache and compress it. */
static int load_offsets(const struct rung_dataset *ds, struct rung__structure *structure,
                        void *block)
{
	struct rung__lists *lists = &structure->base.lists;
	struct rung__offsets_writer writer;
	struct rung__features indptr;
	struct rung__direct file = { .fd = -1 };
	unsigned char *buffer = NULL;
	int rc = rung__array_open(ds, RUNG__INDPTR, &indptr);

	if (rc < 0)
		return rc;
	rc = rung__direct_open(&file, indptr.files[0].fd, indptr.files[0].path);
	if (rc == 0) {
		/* a page more: the data can begin in the middle of one */
		buffer = rung__map_pages(READ_BYTES + RUNG__PAGE_BYTES);
		if (!buffer)
			rc = rung__fail(RUNG_E_NOMEM, "%s: no memory for the read buffer",
			                file.name);
	}
	rung__offsets_begin(&writer, block, lists->csc.vertex_count, lists->csc.edge_count);
	if (rc == 0)
		rc = add_offsets(&writer, &file, indptr.layout.data_offset, buffer);
	lists->offsets = rung__offsets_of(block, lists->csc.vertex_count);
	lists->degree_max = writer.degree_max;
	rung__unmap_pages(buffer, READ_BYTES + RUNG__PAGE_BYTES);
	rung__direct_close(&file);
	rung__features_close(&indptr);
	return rc;
}

/* Allocate the offsets, which other processes can map if the store is shared. */
static int open_offsets(const struct rung_dataset *ds, struct rung__structure *structure)
{
	const struct rung_csc *csc = &structure->base.lists.csc;
	const uint64_t bytes = rung__align_up(
		rung__offsets_bytes(csc->vertex_count, csc->edge_count), RUNG__PAGE_BYTES);
	const uint64_t free_bytes = rung__host_memory_free(rung__machine_root);
	int rc;

	if (free_bytes > 0 && bytes > free_bytes) /* 0: unknown */
		return rung__fail(RUNG_E_NOMEM,
		                  "structure: %" PRIu64 " bytes of memory are needed for offsets, "
		                  "but only %" PRIu64 " are free",
		                  bytes, free_bytes);
	if (structure->is_shared) {
		rc = rung__segment_create("rung-offsets", bytes, &structure->offsets);
		if (rc < 0)
			return rc;
	} else {
		structure->offsets = (struct rung__segment){ .base = rung__map_pages(bytes),
			                                     .bytes = bytes,
			                                     .fd = -1 };
		if (!structure->offsets.base)
			return rung__fail(RUNG_E_NOMEM,
			                  "structure: no memory for %" PRIu64 " bytes of offsets",
			                  bytes);
	}
	rc = load_offsets(ds, structure, structure->offsets.base);
	if (rc == 0 && structure->is_shared)
		rc = rung__segment_seal("rung-offsets", &structure->offsets);
	return rc;
}

/* ---- lists ---- */

static int read_blocks(const struct rung__lists *lists, const uint64_t *blocks, uint64_t count,
                       unsigned char *to)
{
	const struct rung__structure *structure = lists->owner;
	const struct rung_ids ids = {
		.data = blocks, .count = count, .dtype = RUNG_U64, .space = RUNG_RANKS
	};

	return rung_gather(structure->store, &ids, to, RUNG__LIST_BLOCK_BYTES);
}

int rung__structure_finish(struct rung__structure *structure)
{
	struct rung__lists *lists = &structure->base.lists;
	const struct rung_store *store = structure->store;
	const uint64_t entries = store->shape.tiers[RUNG__TIER_HOST].row_count *
	                         RUNG__LIST_BLOCK_BYTES / lists->csc.index_bytes;
	uint64_t at;
	int rc;

	lists->owner = structure;
	lists->path = structure->path;
	lists->read = read_blocks;
	lists->csc.indices = store->host_view.base;
	lists->resident_count = RUNG__MIN(entries, lists->csc.edge_count);
	rc = rung__ids_stray(lists->path, lists->csc.indices, lists->csc.index_bytes,
	                     lists->resident_count, rung__lists_sources(lists), &at);
	if (rc == 0 && at < lists->resident_count)
		return rung__fail(RUNG_E_RANGE,
		                  "%s: entry %" PRIu64 " is %" PRIu64
		                  ", not below the vertex count %" PRIu64
		                  "; run rung verify, and stage the dataset again",
		                  lists->path, at,
		                  rung__id_get(lists->csc.indices, lists->csc.index_bytes, at),
		                  rung__lists_sources(lists));
	return rc;
}

/* Blocks as the rows of a store: their type. */
static struct rung_array_info blocks_of(const struct rung_plan *plan, unsigned index_bytes)
{
	return (struct rung_array_info){
		.dtype = index_bytes == 4 ? RUNG_U32 : RUNG_U64,
		.dim_count = 2,
		.dims = { plan->vertex_count, RUNG__LIST_BLOCK_BYTES / index_bytes },
		.row_count = plan->vertex_count,
		.row_bytes = RUNG__LIST_BLOCK_BYTES,
	};
}

struct rung_store_opts rung__structure_opts(const struct rung_store_opts *caller)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;

	opts.requests_max = 1; /* nothing is submitted without waiting */
	opts.batch_rows_max = RUNG__LIST_BLOCKS_MAX;
	opts.queue_depth = caller->queue_depth;
	opts.refill_threads = caller->refill_threads;
	opts.engine = caller->engine;
	opts.no_merge = caller->no_merge;
	opts.buffered = caller->buffered;
	opts.merge_gap_bytes = caller->merge_gap_bytes;
	opts.read_timeout_ms = caller->read_timeout_ms;
	return opts;
}

static int open_blocks(const struct rung_dataset *ds, const struct rung_plan *plan,
                       const struct rung_store_opts *caller,
                       const struct rung__reader_ops *reader_ops, struct rung__structure *structure)
{
	struct rung_store_opts opts = rung__structure_opts(caller);
	const struct rung_array_info array = blocks_of(plan, structure->base.lists.csc.index_bytes);
	struct rung_store *store;
	int rc;

	opts.queue_depth = opts.queue_depth ? opts.queue_depth : plan->queue_depth;
	opts.merge_gap_bytes =
		opts.merge_gap_bytes ? opts.merge_gap_bytes : plan->tuning.merge_gap_bytes;
	opts.refill_threads =
		opts.refill_threads ? opts.refill_threads : plan->tuning.refill_threads;
	rc = rung__store_new(&opts, true, &store);
	if (rc < 0)
		return rc;
	structure->store = store;
	store->is_shared = structure->is_shared;
	store->shape = rung__store_shape(&array, NULL, plan);
	store->dataset_dir = rung__strdup(rung_dataset_dir(ds));
	if (!store->dataset_dir)
		return rung__fail(RUNG_E_NOMEM, "store: out of memory");
	rc = rung__lists_open(ds, &store->features);
	if (rc < 0)
		return rc;
	store->shape.layout = store->features.layout;
	structure->path = rung__strdup(store->features.files[0].path);
	if (!structure->path)
		return rung__fail(RUNG_E_NOMEM, "structure: out of memory");
	rc = rung__store_open_tiers(store, reader_ops, NULL, -1);
	if (rc == 0)
		rc = rung__structure_finish(structure);
	if (!structure->is_shared)
		rung__features_close(&store->features); /* tiers have their own descriptors */
	return rc;
}

/* True if the plan has the lists of a dataset: all their blocks. */
static bool is_of(const struct rung_plan *plan, const struct rung_dataset_info *info)
{
	const uint64_t bytes = info->edge_count * info->index_bytes;
	const uint64_t blocks = bytes ? (bytes - 1) / RUNG__LIST_BLOCK_BYTES + 1 : 0;

	return plan->has_structure && plan->vertex_count == info->vertex_count &&
	       (plan->structure ? plan->structure->vertex_count : 0) == blocks;
}

int rung__structure_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                         const struct rung_store_opts *opts,
                         const struct rung__reader_ops *reader_ops, bool is_shared,
                         struct rung__structure **structure_out)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung__structure *structure;
	int rc;

	if (!is_of(plan, info))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: the plan has no structure of this dataset; create one with "
		                  "structure_bytes",
		                  rung_dataset_dir(ds));
	structure = rung__zalloc(sizeof(*structure));
	if (!structure)
		return rung__fail(RUNG_E_NOMEM, "structure: out of memory");
	structure->is_shared = is_shared;
	structure->base.lists.csc = (struct rung_csc){ .vertex_count = info->vertex_count,
		                                       .edge_count = info->edge_count,
		                                       .index_bytes = info->index_bytes,
		                                       .source_count = info->source_count };
	rc = open_offsets(ds, structure);
	if (rc == 0 && plan->structure)
		rc = open_blocks(ds, plan->structure, opts, reader_ops, structure);
	if (rc < 0) {
		rung__structure_close(structure);
		return rc;
	}
	*structure_out = structure;
	return 0;
}

int rung__structure_close(struct rung__structure *structure)
{
	int rc;

	if (!structure)
		return 0;
	rc = rung__store_release(structure->store);
	if (rc < 0)
		return rc;
	rung__segment_fini(&structure->offsets);
	rung__free(structure->path);
	rung__free(structure);
	return 0;
}

struct rung__share_lists rung__structure_offer(const struct rung__structure *structure)
{
	return (struct rung__share_lists){
		.store = structure->store,
		.edge_count = structure->base.lists.csc.edge_count,
		.index_bytes = structure->base.lists.csc.index_bytes,
		.offsets_fd = structure->offsets.fd,
	};
}

/* ---- public ---- */

int rung_structure_open(const struct rung_dataset *ds, const struct rung_plan *plan,
                        const struct rung_store_opts *caller, struct rung_structure **structure_out)
{
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung__structure *structure;
	int rc = rung__opts_copy_in(&opts, sizeof(opts), caller, "rung_store_opts");

	if (rc == 0)
		rc = rung__structure_open(ds, plan, &opts, rung__registry_reader(), false,
		                          &structure);
	if (rc == 0)
		*structure_out = &structure->base;
	return rc;
}

int rung_structure_close(struct rung_structure *structure)
{
	return rung__structure_close((struct rung__structure *)structure);
}

int rung_structure_stats(const struct rung_structure *structure, struct rung_store_stats *stats_out)
{
	const struct rung__structure *full = (const struct rung__structure *)structure;
	struct rung_store_stats stats = { .engine = "none",
		                          .engine_why = "the graph has no edges",
		                          .cache_why = "",
		                          .stats_page_why = "" };

	return full->store
	               ? rung_store_stats(full->store, stats_out)
	               : rung__opts_copy_out(stats_out, &stats, sizeof(stats), "rung_store_stats");
}

struct rung_structure *rung_store_structure(const struct rung_store *store)
{
	return store->structure ? &store->structure->base : NULL;
}
