/* SPDX-License-Identifier: Apache-2.0 */
/** Internals of a source. Private to this room. */
#ifndef RUNG_SOURCE_STATE_H
#define RUNG_SOURCE_STATE_H

#include <stdbool.h>

#include "zip/zip.h"
#include "source/source.h"

/** Bytes that are generated as they are read, best from the first to the last. `stream` is the
 * source's own. */
struct rung__stream_ops {
	/** Bytes [first, first + count) of the array, which has them. Threads: any number. */
	int (*read)(void *stream, uint64_t first, uint64_t count, unsigned char *to);
	/** Most bytes that it holds. */
	uint64_t (*memory)(const void *stream);
	void (*close)(void *stream);
};

struct rung_source {
	char *spec;
	struct rung_array_info info;
	bool transposed; /* the file has Fortran order; info and rows are the transpose's */
	int fd;          /* the file; -1 once all of it is in `data` */
	char *path;
	uint64_t data_offset; /* of row 0 in the file, or in `data` */
	unsigned char *data;  /* all of it in memory, or NULL and */
	const struct rung__stream_ops
		*stream_ops; /* generated as it is read; NULL: rows are read from the file */
	void *stream;
	/* of a stored member that is read from the file, to be compared; NULL: of none */
	struct rung__member_crc *crc;
	uint64_t data_bytes; /* of `data`, its header included */
};

/** Open a regular file as src->fd, under its own name src->path. */
int rung__source_open_file(struct rung_source *src, const char *path, size_t path_len,
                           uint64_t *bytes_out);

/** A decimal number that ends at `stop` or the end of the text, where *at is then; false if it is
 * not valid or too large. */
bool rung__parse_number(const char **at, char stop, uint64_t *value_out);

/** "range:FIRST,END", "pad:ROWS,SRC" and "every:PERIOD,FIRST,END,SRC". `inner` is SRC, opened; they
 * own it, also after a failure. */
int rung__source_open_range(struct rung_source *src);
int rung__source_open_padded(struct rung_source *src, struct rung_source *inner);
int rung__source_open_every(struct rung_source *src, struct rung_source *inner);

/** Whether the spec of one of the last two is as it should be. @param inner_spec_out  SRC */
int rung__source_check_derived(const struct rung_source *src, const char **inner_spec_out);

/** Start of SRC in a spec of the last two kinds; NULL: it is a different kind. */
const char *rung__source_inner_spec(const char *spec);

/** Numbers in text, one a line, plain or compressed by gzip; src->fd is open. */
int rung__source_open_text(struct rung_source *src);

/** An array of a dict that torch.save() wrote; src->fd is open. @param key NULL: names those there
 * are, RUNG_E_INVAL */
int rung__source_open_torch(struct rung_source *src, const char *key, uint64_t file_bytes);

/** Read into src->data the only member whose name ends in `end` of the zip file that src->fd is
 * open on. */
int rung__source_load_ending(struct rung_source *src, const char *end, uint64_t file_bytes);

/** Find a member in the zip file src->fd is open on, and fill info, and data_offset or data. */
int rung__source_open_member(struct rung_source *src, const char *member, uint64_t file_bytes);

/** RUNG_E_INVAL for a .npz without member, with the members there are. */
int rung__source_no_member(struct rung_source *src);

#endif
