/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Passes over edges that stay in files. Private to rung.
 *
 *   edges.c        opening: in place, or sorted first
 *   edges_columns.c  edges read in place
 *   edges_pass.c   chunks read ahead by threads, checked, handed out in order
 *   edges_read.c   ids of a file to ids of 4 or 8 bytes, checked
 *   edges_input.c  a graph of any spec as a stream of pairs
 *   edges_sort.c   pairs to columns, through buckets in a temporary file (spool.c,
 *                  edges_bucket.c, sort/partition.c)
 */
#ifndef RUNG_EDGES_EDGES_H
#define RUNG_EDGES_EDGES_H

#include "edges/edges_pass.h"
#include "file/direct.h"
#include "base/base.h"
#include "rung/edges.h"

/** An array of integers in a file: the file of an open source, or a temporary file. */
struct rung__id_file {
	const char *name;              /* for messages: the spec */
	const unsigned char *data;     /* all of them in memory, or NULL */
	const struct rung_source *src; /* borrowed; NULL: a temporary file */
	/* read through `src`, where reading in order is fastest; false: from `file` */
	bool streamed;
	struct rung__direct file;
	uint64_t offset; /* byte offset of the first integer */
	uint64_t count;  /* integers */
	enum rung_dtype dtype;
};

/* largest read in bytes, enough for the full rate of any disk */
#define RUNG__READ_BYTES (UINT64_C(4) << 20)
/* extra space of a buffer, because reads cover whole pages at both ends */
#define RUNG__READ_SLACK (2 * (uint64_t)RUNG__PAGE_BYTES)

/** Open the file of a source. It uses a separate descriptor; the source must stay open until the
 * file is closed. */
int rung__id_file_open(struct rung__id_file *file, const struct rung_source *src);
/** Does nothing for a zeroed struct. */
void rung__id_file_close(struct rung__id_file *file);

/** Whether ids of this file can be read directly to their destination, without a bounce buffer:
 * they have its width and are aligned to it. */
bool rung__id_file_in_place(const struct rung__id_file *file, unsigned id_bytes);

/** How ids are read. */
struct rung__id_reader {
	unsigned id_bytes;   /* of the output: 4 or 8 */
	uint64_t limit;      /* ids must be below it; at most 2^32 with id_bytes 4 */
	uint64_t read_bytes; /* size of one read, at most RUNG__READ_BYTES */
	/* [read_bytes + RUNG__READ_SLACK] page-aligned, for files that are not read in place */
	unsigned char *bounce;
	/* may be NULL; checked between reads: if true, the call ends without further reads */
	const _Atomic bool *stop;
};

/** Result of a read. */
struct rung__ids {
	void *ids;      /* the first id, inside the buffer */
	uint64_t good;  /* number of ids before the first that is not below the limit */
	uint64_t value; /* that id, in the format of rung__ids_text(); unset if all are good */
};

/**
 * Read ids [first, first + count).
 *
 * @param buffer  [count * id_bytes + RUNG__READ_SLACK] page-aligned; the ids are stored somewhere
 *                in it
 * @return 0, also if an id is not below the limit; RUNG_E_IO
 */
int rung__id_file_read(const struct rung__id_file *file, const struct rung__id_reader *reader,
                       uint64_t first, uint64_t count, void *buffer, struct rung__ids *ids_out);

/** An open graph: two arrays in files, and the sizes and buffers of a pass. */
struct rung_edges {
	struct rung__id_file indptr, indices;
	struct rung_source *indptr_src, *indices_src; /* NULL: temporary files */
	struct rung_edges_info info;
	uint64_t source_bytes;  /* memory that the sources use to inflate members of a .npz */
	uint64_t edges_max;     /* of a chunk */
	uint64_t vertices_max;  /* of a chunk */
	uint64_t read_bytes;    /* of one read */
	unsigned char *buffers; /* [buffer_bytes] buffers of a pass, laid out in edges_pass.c */
	uint64_t buffer_bytes;
	char *temp_name; /* of temporary files, for messages */
	char *temp_dir;  /* for rung__edges_turn() */
};

/** Allocate an empty struct, to be opened. @return NULL with the failure recorded */
struct rung_edges *rung__edges_create(void);

/** End opening with status `rc`: set *edges_out, or close the edges after a failure. @return rc */
int rung__edges_opened(struct rung_edges *edges, int rc, struct rung_edges **edges_out);

/** Open a csc: or csr: source that is read in place, with its lists as they are.
 * edges_columns.c */
int rung__edges_open_columns(const struct rung_graph_opts *opts, uint64_t memory_bytes,
                             uint64_t chunk_bytes, struct rung_edges **edges_out);

/** Write the graph with every edge reversed to temporary files: its lists are the out-neighbours,
 * ascending. edges.c */
int rung__edges_turn(struct rung_edges *edges, uint64_t memory_bytes,
                     struct rung_edges **turned_out);

/** Size the buffers of a pass within `memory_bytes`, and allocate them. @param chunk_bytes  0: as
 * large as memory_bytes allows. @return 0, RUNG_E_INVAL (the message has the smallest value that
 * works), RUNG_E_NOMEM */
int rung__edges_plan_pass(struct rung_edges *edges, uint64_t memory_bytes, uint64_t chunk_bytes);

/* the other part of edges/ that files outside it may include */
#include "edges/edges_input.h"

#endif
