/* SPDX-License-Identifier: Apache-2.0 */
/** Where a dataset is fetched from, and transfers of its files. Private to io/fetch. */
#ifndef RUNG_FETCH_ORIGIN_H
#define RUNG_FETCH_ORIGIN_H

#include <stdatomic.h>

#include "fetch/child.h"

enum rung__origin_kind {
	RUNG__ORIGIN_FOLDER,
	RUNG__ORIGIN_RSYNC, /* HOST:PATH or rsync://HOST/MODULE/PATH */
	RUNG__ORIGIN_CURL,  /* a URL that curl knows */
	RUNG__ORIGIN_S3     /* s3://BUCKET/PREFIX: s5cmd signs URLs for curl */
};

struct rung__origin {
	enum rung__origin_kind kind;
	char *text;        /* as given, without slashes at its end */
	atomic_bool *stop; /* set: transfers end with RUNG_E_CANCELED */
};

/** @param text  as given by the user @return 0, RUNG_E_NOMEM. Release with rung__origin_fini() */
int rung__origin_init(const char *text, atomic_bool *stop, struct rung__origin *origin_out);
void rung__origin_fini(struct rung__origin *origin);

/** Bytes of one file of an origin, in order. */
struct rung__transfer {
	const struct rung__origin *origin;
	const char *name;
	uint64_t at, end; /* position of the next byte, and after the last one */
	int fd;           /* of a file, which is read at `at`; -1: the child's output is read */
	struct rung__child child;
};

/** Begin to read bytes [begin, end) of a file; not for rsync. @return 0, or a failure; then nothing
 * is open */
int rung__transfer_begin(const struct rung__origin *origin, const char *name, uint64_t begin,
                         uint64_t end, struct rung__transfer *transfer_out);
/** Read exactly the next `bytes`. @return 0, RUNG_E_IO with the program's message, RUNG_E_CANCELED
 */
int rung__transfer_read(struct rung__transfer *transfer, void *to, uint64_t bytes);
/** Read until the file ends, at most `bytes`. */
int rung__transfer_rest(struct rung__transfer *transfer, void *to, uint64_t bytes,
                        uint64_t *got_out);
void rung__transfer_end(struct rung__transfer *transfer);

/**
 * Through rsync, append to the file `name` of the folder `dir_fd` until it has `bytes` bytes.
 * @param each  called now and then, for progress
 * @return 0, RUNG_E_IO with the program's message, RUNG_E_CANCELED. The file keeps what has arrived
 */
int rung__origin_append(const struct rung__origin *origin, const char *name, int dir_fd,
                        const char *to_name, uint64_t bytes, void (*each)(void *ctx), void *ctx);

#endif
