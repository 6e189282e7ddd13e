/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Passes over edges that stay in files. Private to rung.
 *
 *   edges.c        opening: in place, or sorted first
 *   edges_columns.c  in place
 *   edges_pass.c   chunks read ahead by threads, checked, handed out in order
 *   edges_read.c   ids of a file to ids of 4 or 8 bytes, checked
 *   edges_input.c  a graph of any spec as a stream of pairs
 *   edges_sort.c   pairs to columns, through buckets in a temporary file (spool.c, edges_bucket.c, partition.c)
 */
#ifndef RUNG_EDGES_EDGES_H
#define RUNG_EDGES_EDGES_H

#include "file/direct.h"
#include "base/base.h"
#include "rung/edges.h"

/**
 * A part of the graph: the edges [edge_first, edge_first + edge_count), and the vertices whose lists they are in. Chunks come
 * in the order of the edges, together all of them, every vertex in one chunk at least. A list lies in one chunk unless it is
 * longer than chunks are: then it takes several, the vertex alone in all but the last of them.
 */
struct rung__edge_chunk {
	uint64_t vertex_first;
	uint64_t vertex_count;     /* at least 1 */
	const uint64_t *indptr;    /* [vertex_count + 1], the graph's: edges indptr[i] .. indptr[i + 1] are all of list vertex_first + i */
	uint64_t edge_first;       /* above indptr[0] when the first list began in a chunk before */
	uint64_t edge_count;       /* ends below indptr[vertex_count] when the last list goes on */
	const void *indices;       /* [edge_count] of index_bytes, each below the graph's vertex count */
	unsigned index_bytes;      /* 4 or 8, rung_index_bytes() of the graph */
};

/** Edges of chunk->indices that belong to list vertex_first + i: places [*begin_out, *end_out) in `indices`. */
static inline void rung__edge_chunk_list(const struct rung__edge_chunk *chunk, uint64_t i, uint64_t *begin_out, uint64_t *end_out)
{
	*begin_out = i == 0 ? 0 : chunk->indptr[i] - chunk->edge_first;
	*end_out = i + 1 == chunk->vertex_count ? chunk->edge_count : chunk->indptr[i + 1] - chunk->edge_first;
}

/**
 * Read every edge once. Threads of the pass's own read ahead while `work` has a chunk; all that it is given has been checked in
 * this pass: offsets and ids are those of a graph of the sizes that rung_edges_info() tells, whoever writes to the files.
 *
 * @param work  called on the calling thread with each chunk in order, which is gone when it returns; not 0 ends the pass
 * @return 0, what `work` returned, or RUNG_E_IO (a file became shorter), RUNG_E_FORMAT, RUNG_E_RANGE (files that changed)
 *
 * Threads: one pass at a time on one graph.
 */
int rung__edges_pass(struct rung_edges *edges, int (*work)(void *ctx, const struct rung__edge_chunk *chunk), void *ctx);

/** Integers of a file, from an open source or of a temporary file. */
struct rung__id_file {
	const char *name;            /* for messages: the spec */
	const unsigned char *data;   /* all of them in memory, or NULL */
	const struct rung_source *src;   /* NULL: a temporary file */
	bool streamed;               /* read through `src`, best in order; else */
	struct rung__direct file;
	uint64_t offset;             /* of the first */
	uint64_t count;
	enum rung_dtype dtype;
};

#define RUNG__READ_BYTES (UINT64_C(4) << 20)   /* of one read: large enough for any disk's full rate */
#define RUNG__READ_SLACK (2 * (uint64_t)RUNG__PAGE_BYTES)   /* reads cover whole pages, at both ends */

/** The file of a source. It reads through a descriptor of its own; the source stays open as long. */
int rung__id_file_open(struct rung__id_file *file, const struct rung_source *src);
void rung__id_file_close(struct rung__id_file *file);

/** Whether ids of this file can be read where they are to be, without a buffer between. */
bool rung__id_file_in_place(const struct rung__id_file *file, unsigned id_bytes);

/** How ids are read. */
struct rung__id_reader {
	unsigned id_bytes;           /* of what comes out: 4 or 8 */
	uint64_t limit;              /* ids are to be below it; at most 2^32 with id_bytes 4 */
	uint64_t read_bytes;         /* of one read, at most RUNG__READ_BYTES */
	unsigned char *bounce;       /* [read_bytes + RUNG__READ_SLACK] on a page, for files that are not read in place */
	const _Atomic bool *stop;    /* NULL, or looked at between reads: true ends it with nothing more read */
};

struct rung__ids {
	void *ids;        /* inside of the room */
	uint64_t good;    /* below the limit, from the first on; the count when all are */
	uint64_t value;   /* of the first that is not, as rung__ids_text() takes it */
};

/**
 * Read ids [first, first + count).
 *
 * @param room  [count * id_bytes + RUNG__READ_SLACK] on a page: the ids come to lie somewhere in it
 * @return 0, also when an id is not below the limit; RUNG_E_IO
 */
int rung__id_file_read(const struct rung__id_file *file, const struct rung__id_reader *reader, uint64_t first, uint64_t count,
                       void *room, struct rung__ids *ids_out);

struct rung_edges {
	struct rung__id_file indptr, indices;
	struct rung_source *indptr_src, *indices_src;   /* NULL: temporary files */
	struct rung_edges_info info;
	uint64_t source_bytes;        /* that deflated members of a .npz hold */
	uint64_t edges_max;           /* of a chunk */
	uint64_t vertices_max;        /* of a chunk */
	uint64_t read_bytes;          /* of one read */
	unsigned char *buffers;       /* of a pass: see edges_pass.c */
	uint64_t buffer_bytes;
	char *temp_name;              /* of temporary files, for messages */
	char *temp_dir;
};

/** Edges without anything, to be opened. @return NULL with the failure recorded */
struct rung_edges *rung__edges_create(void);

/** The end of opening: *edges_out are the edges, or they are closed. @return rc */
int rung__edges_opened(struct rung_edges *edges, int rc, struct rung_edges **edges_out);

/** A csc: or csr: read where it lies, its lists as they are. edges_columns.c */
int rung__edges_open_columns(const struct rung_graph_opts *opts, uint64_t memory_bytes, uint64_t chunk_bytes,
                             struct rung_edges **edges_out);

/** A graph with every edge turned round, in temporary files: its lists are the out-neighbours, ascending. edges.c */
int rung__edges_turn(struct rung_edges *edges, uint64_t memory_bytes, struct rung_edges **turned_out);

/** Lay out the buffers of a pass within `memory_bytes`, and take them. @return 0, RUNG_E_INVAL (says the least), RUNG_E_NOMEM */
int rung__edges_plan_pass(struct rung_edges *edges, uint64_t memory_bytes, uint64_t chunk_bytes);

#endif
