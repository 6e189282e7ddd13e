/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Loading rows from the features files past the page cache, so that no second copy is left there:
 * by large reads, and where rows were left in their source's order by many at a time.
 */
#ifndef RUNG_LOAD_H
#define RUNG_LOAD_H

#include "dataset/features.h"
#include "file/direct.h"

#define RUNG__LOAD_BYTES (4u << 20) /* one read: large enough for any disk's full rate */

struct rung__scattered;

struct rung__row_loader {
	const struct rung__features *features;
	struct rung__scattered *scattered;          /* NULL: rows follow each other by rank */
	struct rung__direct files[RUNG__FILES_MAX]; /* [features->layout.file_count] */
	/* for reads that are not aligned to whole pages of the file and of memory; NULL: not
	 * open */
	unsigned char *bounce;
};

/** The loader is the calling thread's. @param features  outlives the loader */
int rung__row_loader_open(const struct rung__features *features,
                          struct rung__row_loader *loader_out);

/**
 * Read bytes of one of the files.
 * @param to  memory for whole pages; no copy is needed if its offset in its page equals that of
 *            `offset`
 */
int rung__row_loader_read(const struct rung__row_loader *loader, uint32_t file_idx, uint64_t offset,
                          uint64_t bytes, unsigned char *to);

/** Read rows of the ranks from `first` on, row_stride apart, as above. */
int rung__row_loader_rows(const struct rung__row_loader *loader, uint64_t first, uint64_t rows,
                          unsigned char *to);

void rung__row_loader_close(struct rung__row_loader *loader);

/** The same at once, by a loader that lives as long as the call. */
int rung__load_rows(const struct rung__features *features, uint64_t first, uint64_t rows,
                    unsigned char *to);

/* ---- load_scattered.c ---- */

/** Rows that are sorted and read at a time; fewer in tests. */
extern uint64_t rung__scattered_list_rows;

/** For features whose layout has vertex_of_rank. */
int rung__scattered_open(const struct rung__features *features,
                         struct rung__scattered **scattered_out);

/** As rung__row_loader_rows(). After a failure it can only be closed. */
int rung__scattered_rows(struct rung__scattered *scattered, uint64_t first, uint64_t rows,
                         unsigned char *to);

/** NULL is allowed. */
void rung__scattered_close(struct rung__scattered *scattered);

#endif
