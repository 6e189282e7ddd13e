/* SPDX-License-Identifier: Apache-2.0 */
/** An open source, and the functions that the formats provide to source.c. Private to
 * src/source. */
#ifndef RUNG_SOURCE_STATE_H
#define RUNG_SOURCE_STATE_H

#include <stdbool.h>

#include "zip/zip.h"
#include "source/source.h"

/** Bytes that are generated as they are read, best from the first to the last. `stream` is
 * src->stream, which the source owns. */
struct rung__stream_ops {
	/** Bytes [first, first + count) of the array, within its bounds. Any thread. */
	int (*read)(void *stream, uint64_t first, uint64_t count, unsigned char *to);
	/** Bytes of memory that the stream uses, at most: callers subtract them from a budget. */
	uint64_t (*memory)(const void *stream);
	/** Also called after a failed open, with a stream that is only partly initialised. */
	void (*close)(void *stream);
};

/** The content is in one of three places: `data`, `stream`, or the file `fd`, in this order. */
struct rung_source {
	char *spec;                  /* the spec as given, for messages */
	struct rung_array_info info; /* properties of the array as it is read */
	bool transposed;      /* the file has Fortran order; info and rows are the transpose's */
	int fd;               /* descriptor of the file; -1: the format has no file */
	char *path;           /* path of `fd`, for messages; NULL without a file */
	uint64_t data_offset; /* offset of row 0 in the file or in `data` */
	unsigned char *data;  /* the whole array, with its header, in memory; or NULL */
	const struct rung__stream_ops *stream_ops; /* of `stream` */
	void *stream;                              /* generates the array as it is read; or NULL */
	bool any_order; /* `stream` can be read in any order, by several threads, at full speed */
	/* checks the CRC of a stored member while it is read from the file; NULL if it is not a
	 * stored member */
	struct rung__member_crc *crc;
	uint64_t data_bytes; /* size of `data`, including the header */
};

/** Open the regular file named by the first `path_len` bytes of `path` as src->fd, and set
 * src->path. @param bytes_out  size of the file */
int rung__source_open_file(struct rung_source *src, const char *path, size_t path_len,
                           uint64_t *bytes_out);

/** Parse a decimal number that ends at `stop` or the end of the text, and move *at there. @return
 * false if it is not valid or needs more than 64 bits */
bool rung__parse_number(const char **at, char stop, uint64_t *value_out);

/** Open "range:FIRST,END", "pad:ROWS,SRC" and "every:PERIOD,FIRST,END,SRC". `inner` is SRC, opened;
 * they own it, also after a failure. The spec was accepted by rung__source_check_derived(). */
int rung__source_open_range(struct rung_source *src);
int rung__source_open_padded(struct rung_source *src, struct rung_source *inner);
int rung__source_open_every(struct rung_source *src, struct rung_source *inner);

/** Check a pad: or every: spec, before SRC is opened. @param inner_spec_out SRC. @return 0 or
 * RUNG_E_INVAL */
int rung__source_check_derived(const struct rung_source *src, const char **inner_spec_out);

/** Start of SRC in a pad: or every: spec; NULL for other specs. */
const char *rung__source_inner_spec(const char *spec);

/** Open numbers in a text file, one per line, plain or compressed by gzip; src->fd is open. */
int rung__source_open_text(struct rung_source *src);

/** Open an array of a dict that torch.save() wrote; src->fd is open. @param key  its key; NULL:
 * fail with RUNG_E_INVAL and list the keys */
int rung__source_open_torch(struct rung_source *src, const char *key, uint64_t file_bytes);

/** Load a member of the zip file src->fd into src->data: the only one whose name ends in `end`. */
int rung__source_load_ending(struct rung_source *src, const char *end, uint64_t file_bytes);

/** Find a member in the zip file src->fd, and fill info, and data, stream or data_offset. */
int rung__source_open_member(struct rung_source *src, const char *member, uint64_t file_bytes);

/** Fail with RUNG_E_INVAL for a .npz without a member name, and list the members. */
int rung__source_no_member(struct rung_source *src);

#endif
