/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and closing edge passes: sums, bins and the memory of threads, which graphs in memory
 * and in files have in common. */
#include "propagation/propagation_files.h"
#include "propagation/state.h"

/* at least 64 bins, if the graph is not tiny: threads share the bins among them */
#define BINS_WANTED_BITS 6u

static uint32_t block_edges = RUNG__BLOCK_EDGES_DEFAULT;

void rung__propagation_set_block_edges(uint32_t edges)
{
	block_edges = edges ? edges : RUNG__BLOCK_EDGES_DEFAULT;
}

/* Number of bits of a vertex's position in its bin. It depends only on the number of vertices: the
 * terms of a total are added bin by bin, so the size of the bins affects the last bits of the
 * total. */
static unsigned bin_bits_for(uint64_t vertex_count)
{
	unsigned bits = RUNG__BIN_BITS_MAX;

	while (bits > RUNG__BIN_BITS_MIN && vertex_count >> bits < UINT64_C(1) << BINS_WANTED_BITS)
		bits--;
	return bits;
}

uint64_t rung__propagation_scratch_bytes(const struct rung__propagation *prop)
{
	const uint64_t width = RUNG__MAX(prop->opts.width_max, 1u);

	return rung__align_up(RUNG__PROPAGATION_VERTICES_MAX * width * sizeof(float),
	                      RUNG__PAGE_BYTES) +
	       rung__align_up((prop->bin_count + UINT64_C(1)) * sizeof(uint32_t),
	                      RUNG__PAGE_BYTES) +
	       rung__align_up(prop->block_edges * sizeof(uint32_t), RUNG__PAGE_BYTES);
}

/* One mapping; each part begins at a page, so that threads share no cache line. */
int rung__propagation_alloc_buffers(struct rung__propagation *prop)
{
	const uint64_t threads = (uint64_t)prop->opts.threads,
		       bytes = rung__propagation_scratch_bytes(prop);
	char *at;

	prop->scratch_list = rung__zalloc_array(threads, sizeof(*prop->scratch_list));
	/* huge pages if the kernel grants them: accesses are random */
	prop->scratch_memory = rung__map_pages(threads * bytes);
	if (!prop->scratch_list || !prop->scratch_memory)
		return rung__fail(RUNG_E_NOMEM,
		                  "edge passes: no memory for %" PRIu64 " bytes in each of %" PRIu64
		                  " threads; use fewer threads",
		                  bytes, threads);
	at = prop->scratch_memory;
	for (uint64_t t = 0; t < threads; t++) {
		struct rung__propagation_scratch *scratch = &prop->scratch_list[t];
		char *end = at + bytes;

		scratch->messages = (float *)(void *)at;
		at += rung__align_up(RUNG__PROPAGATION_VERTICES_MAX *
		                             (uint64_t)RUNG__MAX(prop->opts.width_max, 1u) *
		                             sizeof(float),
		                     RUNG__PAGE_BYTES);
		scratch->next = (uint32_t *)(void *)at;
		at += rung__align_up((prop->bin_count + UINT64_C(1)) * sizeof(uint32_t),
		                     RUNG__PAGE_BYTES);
		scratch->pairs = (uint32_t *)(void *)at;
		at = end;
	}
	return 0;
}

int rung__propagation_create(const struct rung_csc *csc, struct rung_edges *edges,
                             const struct rung__propagation_opts *opts,
                             struct rung__propagation **prop_out)
{
	struct rung__propagation *prop = rung__zalloc(sizeof(*prop));
	int rc;

	if (!prop)
		return rung__fail(RUNG_E_NOMEM, "edge passes: no memory");
	prop->opts = *opts;
	/* mark the file as not open, so that rung__propagation_close() works after any failure */
	prop->mutual_file.fd = -1;
	prop->csc = *csc;
	prop->edges = edges;
	prop->source_count = opts->source_count ? opts->source_count : csc->vertex_count;
	prop->block_edges = block_edges;
	prop->bin_bits = bin_bits_for(prop->source_count);
	prop->bin_count = (uint32_t)((prop->source_count + (UINT64_C(1) << prop->bin_bits) - 1) >>
	                             prop->bin_bits);
	prop->sums =
		opts->sums ? opts->sums : rung__map_pages(prop->source_count * sizeof(*prop->sums));
	prop->bin_results = rung__malloc_array(prop->bin_count, sizeof(*prop->bin_results));
	if (!prop->sums || !prop->bin_results)
		rc = rung__fail(RUNG_E_NOMEM,
		                "edge passes: no memory for the sums of %" PRIu64 " vertices",
		                prop->source_count);
	else
		rc = rung__propagation_alloc_buffers(prop);
	if (rc < 0) {
		rung__propagation_close(prop);
		return rc;
	}
	*prop_out = prop;
	return 0;
}

/* Release the blocks and their arrays: those of a graph in files are the memory of a panel, and
 * those of a graph in memory belong to all passes. */
static void free_blocks(struct rung__propagation *prop)
{
	rung__unmap_pages(prop->tiles, prop->tile_bytes);
	rung__free(prop->blocks);
	rung__free(prop->starts);
	rung__free(prop->record_starts);
	rung__free(prop->indptr_copies);
	rung__free(prop->mutual_scratch);
	prop->tiles = NULL;
	prop->blocks = NULL;
	prop->starts = prop->record_starts = NULL;
	prop->indptr_copies = NULL;
	prop->mutual_scratch = NULL;
}

void rung__propagation_rest(struct rung__propagation *prop)
{
	if (prop->edges)
		free_blocks(prop);
	rung__unmap_pages(prop->values, prop->values_max * sizeof(*prop->values));
	rung__free(prop->scratch_list);
	rung__unmap_pages(prop->scratch_memory,
	                  (uint64_t)prop->opts.threads * rung__propagation_scratch_bytes(prop));
	prop->values = NULL;
	prop->scratch_list = NULL;
	prop->scratch_memory = NULL;
}

void rung__propagation_close(struct rung__propagation *prop)
{
	if (!prop)
		return;
	if (!prop->opts.sums)
		rung__unmap_pages(prop->sums, prop->source_count * sizeof(*prop->sums));
	rung__propagation_rest(prop);
	free_blocks(prop);
	rung__free(prop->bin_results);
	rung__direct_close(&prop->mutual_file);
	rung__free(prop);
}
