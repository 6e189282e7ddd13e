/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Passes over edges that stay in files. Private to rung.
 *
 *   edges.c        opening: in place, or sorted first
 *   edges_columns.c  in place
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

/** Integers of a file, from an open source or of a temporary file. */
struct rung__id_file {
	const char *name;              /* for messages: the spec */
	const unsigned char *data;     /* all of them in memory, or NULL */
	const struct rung_source *src; /* NULL: a temporary file */
	bool streamed;                 /* read through `src`, best in order; else */
	struct rung__direct file;
	uint64_t offset; /* of the first */
	uint64_t count;
	enum rung_dtype dtype;
};

/* of one read: large enough for any disk's full rate */
#define RUNG__READ_BYTES (UINT64_C(4) << 20)
/* reads cover whole pages, at both ends */
#define RUNG__READ_SLACK (2 * (uint64_t)RUNG__PAGE_BYTES)

/** The file of a source. It uses a separate descriptor; the source stays open until it is
 * closed. */
int rung__id_file_open(struct rung__id_file *file, const struct rung_source *src);
void rung__id_file_close(struct rung__id_file *file);

/** Whether ids of this file can be read where they are to be, without a buffer between. */
bool rung__id_file_in_place(const struct rung__id_file *file, unsigned id_bytes);

/** How ids are read. */
struct rung__id_reader {
	unsigned id_bytes;   /* of what comes out: 4 or 8 */
	uint64_t limit;      /* ids are to be below it; at most 2^32 with id_bytes 4 */
	uint64_t read_bytes; /* of one read, at most RUNG__READ_BYTES */
	/* [read_bytes + RUNG__READ_SLACK] on a page, for files that are not read in place */
	unsigned char *bounce;
	/* NULL, or checked between reads: true ends the call without further reads */
	const _Atomic bool *stop;
};

struct rung__ids {
	void *ids;      /* inside of the room */
	uint64_t good;  /* below the limit, from the first on; the count when all are */
	uint64_t value; /* of the first one, in the format of rung__ids_text() */
};

/**
 * Read ids [first, first + count).
 *
 * @param room  [count * id_bytes + RUNG__READ_SLACK] page-aligned buffer; the ids are stored
 *              somewhere in it
 * @return 0, also if an id is not below the limit; RUNG_E_IO
 */
int rung__id_file_read(const struct rung__id_file *file, const struct rung__id_reader *reader,
                       uint64_t first, uint64_t count, void *room, struct rung__ids *ids_out);

struct rung_edges {
	struct rung__id_file indptr, indices;
	struct rung_source *indptr_src, *indices_src; /* NULL: temporary files */
	struct rung_edges_info info;
	uint64_t source_bytes;  /* that deflated members of a .npz hold */
	uint64_t edges_max;     /* of a chunk */
	uint64_t vertices_max;  /* of a chunk */
	uint64_t read_bytes;    /* of one read */
	unsigned char *buffers; /* of a pass: see edges_pass.c */
	uint64_t buffer_bytes;
	char *temp_name; /* of temporary files, for messages */
	char *temp_dir;
};

/** Edges without anything, to be opened. @return NULL with the failure recorded */
struct rung_edges *rung__edges_create(void);

/** The end of opening: *edges_out are the edges, or they are closed. @return rc */
int rung__edges_opened(struct rung_edges *edges, int rc, struct rung_edges **edges_out);

/** A csc: or csr: source is read in place, with its lists as they are. edges_columns.c */
int rung__edges_open_columns(const struct rung_graph_opts *opts, uint64_t memory_bytes,
                             uint64_t chunk_bytes, struct rung_edges **edges_out);

/** A graph with every edge turned round, in temporary files: its lists are the out-neighbours,
 * ascending. edges.c */
int rung__edges_turn(struct rung_edges *edges, uint64_t memory_bytes,
                     struct rung_edges **turned_out);

/** Size the buffers of a pass within `memory_bytes`, and allocate them. @return 0, RUNG_E_INVAL
 * (the message has the least), RUNG_E_NOMEM */
int rung__edges_plan_pass(struct rung_edges *edges, uint64_t memory_bytes, uint64_t chunk_bytes);

/* the rest of what other rooms may use */
#include "edges/edges_input.h"

#endif
