/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Loading the rows of a memory tier from the features files, past the page cache, so that no second
 * copy stays there. Rows in rank order are loaded with large reads, rows that were staged in place
 * (in the order of the vertices) with many small reads in flight.
 */
#ifndef RUNG_LOAD_H
#define RUNG_LOAD_H

#include "dataset/features.h"
#include "file/direct.h"

/* bytes of one read: large enough for the full rate of any disk */
#define RUNG__LOAD_BYTES (4u << 20)

struct rung__scattered;

struct rung__row_loader {
	const struct rung__features *features;
	struct rung__scattered *scattered;          /* NULL: rows are stored in rank order */
	struct rung__direct files[RUNG__FILES_MAX]; /* [features->layout.file_count] */
	/* for reads that are not aligned to whole pages of the file and of memory; NULL: not
	 * open */
	unsigned char *bounce;
};

/** Open a loader, for use by one thread at a time. @param features  outlives the loader. @return 0
 * or the failure of opening the files, RUNG_E_NOMEM */
int rung__row_loader_open(const struct rung__features *features,
                          struct rung__row_loader *loader_out);

/**
 * Read `bytes` bytes of one of the files. A short read is a failure.
 * @param to  memory for whole pages; no copy is needed if its offset in its page equals that of
 *            `offset`
 */
int rung__row_loader_read(const struct rung__row_loader *loader, uint32_t file_idx, uint64_t offset,
                          uint64_t bytes, unsigned char *to);

/** Read the rows of ranks from `first` on, row_stride bytes apart, with the rules of the function
 * above. */
int rung__row_loader_rows(const struct rung__row_loader *loader, uint64_t first, uint64_t rows,
                          unsigned char *to);

void rung__row_loader_close(struct rung__row_loader *loader);

/** Load rows with a loader that exists only during the call. */
int rung__load_rows(const struct rung__features *features, uint64_t first, uint64_t rows,
                    unsigned char *to);

/* ---- load_scattered.c ---- */

/** Most rows that are sorted and read at a time; tests set fewer. */
extern uint64_t rung__scattered_list_rows;

/** For features whose layout has vertex_of_rank. */
int rung__scattered_open(const struct rung__features *features,
                         struct rung__scattered **scattered_out);

/** As rung__row_loader_rows(). After a failure `scattered` can only be closed. */
int rung__scattered_rows(struct rung__scattered *scattered, uint64_t first, uint64_t rows,
                         unsigned char *to);

/** NULL is allowed. */
void rung__scattered_close(struct rung__scattered *scattered);

#endif
