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

/* Bits of the number of vertices in a bin. They depend only on the number of vertices, because the
 * terms of a total are added by bins. */
static unsigned bin_bits_for(uint64_t vertex_count)
{
	unsigned bits = RUNG__BIN_BITS_MAX;

	while (bits > RUNG__BIN_BITS_MIN && vertex_count >> bits < UINT64_C(1) << BINS_WANTED_BITS)
		bits--;
	return bits;
}

uint64_t rung__propagation_room_bytes(const struct rung__propagation *spread)
{
	const uint64_t width = RUNG__MAX(spread->opts.width_max, 1u);

	return rung__align_up(RUNG__PROPAGATION_VERTICES_MAX * width * sizeof(float),
	                      RUNG__PAGE_BYTES) +
	       rung__align_up((spread->bin_count + UINT64_C(1)) * sizeof(uint32_t),
	                      RUNG__PAGE_BYTES) +
	       rung__align_up(spread->block_edges * sizeof(uint32_t), RUNG__PAGE_BYTES);
}

/* Allocate the buffers of all threads in one mapping; each part begins at a page, so that threads
 * share no cache line. */
static int alloc_buffers(struct rung__propagation *spread)
{
	const uint64_t threads = (uint64_t)spread->opts.threads,
		       bytes = rung__propagation_room_bytes(spread);
	char *at;

	spread->rooms = rung__zalloc_array(threads, sizeof(*spread->rooms));
	/* huge pages if the kernel grants them: accesses are random */
	spread->room_memory = rung__map_pages(threads * bytes);
	if (!spread->rooms || !spread->room_memory)
		return rung__fail(RUNG_E_NOMEM,
		                  "edge passes: no memory for %" PRIu64 " bytes in each of %" PRIu64
		                  " threads; use fewer threads",
		                  bytes, threads);
	at = spread->room_memory;
	for (uint64_t t = 0; t < threads; t++) {
		struct rung__propagation_room *room = &spread->rooms[t];
		char *end = at + bytes;

		room->messages = (float *)(void *)at;
		at += rung__align_up(RUNG__PROPAGATION_VERTICES_MAX *
		                             (uint64_t)RUNG__MAX(spread->opts.width_max, 1u) *
		                             sizeof(float),
		                     RUNG__PAGE_BYTES);
		room->next = (uint32_t *)(void *)at;
		at += rung__align_up((spread->bin_count + UINT64_C(1)) * sizeof(uint32_t),
		                     RUNG__PAGE_BYTES);
		room->pairs = (uint32_t *)(void *)at;
		at = end;
	}
	return 0;
}

int rung__propagation_create(const struct rung_csc *csc, struct rung_edges *edges,
                             const struct rung__propagation_opts *opts,
                             struct rung__propagation **spread_out)
{
	struct rung__propagation *spread = rung__zalloc(sizeof(*spread));
	int rc;

	if (!spread)
		return rung__fail(RUNG_E_NOMEM, "edge passes: no memory");
	spread->opts = *opts;
	/* so that closing works at any time: nothing is open yet */
	spread->mutual_file.fd = -1;
	spread->csc = *csc;
	spread->edges = edges;
	spread->block_edges = block_edges;
	spread->bin_bits = bin_bits_for(csc->vertex_count);
	spread->bin_count =
		(uint32_t)((csc->vertex_count + (UINT64_C(1) << spread->bin_bits) - 1) >>
	                   spread->bin_bits);
	spread->sums = rung__map_pages(csc->vertex_count * sizeof(*spread->sums));
	spread->bin_results = rung__malloc_array(spread->bin_count, sizeof(*spread->bin_results));
	if (!spread->sums || !spread->bin_results)
		rc = rung__fail(RUNG_E_NOMEM,
		                "edge passes: no memory for the sums of %" PRIu64 " vertices",
		                csc->vertex_count);
	else
		rc = alloc_buffers(spread);
	if (rc < 0) {
		rung__propagation_close(spread);
		return rc;
	}
	*spread_out = spread;
	return 0;
}

void rung__propagation_close(struct rung__propagation *spread)
{
	if (!spread)
		return;
	rung__unmap_pages(spread->sums, spread->csc.vertex_count * sizeof(*spread->sums));
	rung__unmap_pages(spread->tiles, spread->tile_bytes);
	rung__unmap_pages(spread->values, spread->values_max * sizeof(*spread->values));
	rung__free(spread->bin_results);
	rung__free(spread->blocks);
	rung__free(spread->starts);
	rung__free(spread->record_starts);
	rung__free(spread->indptr_copies);
	rung__free(spread->mutual_rooms);
	rung__direct_close(&spread->mutual_file);
	rung__free(spread->rooms);
	rung__unmap_pages(spread->room_memory,
	                  (uint64_t)spread->opts.threads * rung__propagation_room_bytes(spread));
	rung__free(spread);
}
