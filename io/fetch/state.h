/* SPDX-License-Identifier: Apache-2.0 */
/** One run of rung_fetch(): the state that its steps share. Private to io/fetch. */
#ifndef RUNG_FETCH_STATE_H
#define RUNG_FETCH_STATE_H

#include <stdatomic.h>

#include "dataset/manifest.h"
#include "fetch/origin.h"
#include "folder/folder.h"
#include "folder/stage_journal.h"
#include "rung/dataset.h"

#define RUNG__FETCH_FILES_MAX                                                                      \
	(2 * RUNG_FEATURE_FILES_MAX + RUNG__FILES_FIXED + 1 + RUNG__ARRAYS_MAX + RUNG__SPLITS_MAX)

/** A file to copy. While it is copied, it is the beginning of the source's file. */
struct rung__fetch_file {
	const struct rung__manifest_file *from, *to; /* in the manifests of source and result */
	/* to copy: whole blocks of the source, at least to->bytes */
	uint64_t bytes;
	int fd; /* in OUT.partial; -1: not open */
	char *path;
};

/** A file of the result that stays where it is. */
struct rung__fetch_link {
	const struct rung__manifest_file *from, *to;
};

struct rung__fetch_run {
	struct rung_fetch_opts opts;
	atomic_bool stop; /* set: transfers end */
	struct rung__origin origin;
	struct rung__stage_dir dir;
	struct rung__journal journal;
	char *text; /* the source's manifest */
	size_t text_bytes;
	struct rung__manifest *source, *result;
	uint64_t *sums;                                       /* [source->block_count] */
	uint64_t *out_sums;                                   /* [result->block_count] */
	struct rung__fetch_file files[RUNG__FETCH_FILES_MAX]; /* [file_count] */
	uint32_t file_count;
	struct rung__fetch_link links[RUNG_FEATURE_FILES_MAX]; /* [link_count] */
	uint32_t link_count;
	uint64_t bytes_total; /* of all `files` */
	atomic_uint_fast64_t bytes_done, bytes_kept;
	bool canceled; /* `progress` has asked for it */
};

/** Whether all rows are copied: the result is then the same dataset, byte for byte. */
static inline bool rung__fetch_is_whole(const struct rung__fetch_run *fetch)
{
	return fetch->link_count == 0;
}

/* ---- fetch_layout.c ---- */

/** Divide the ranks of fetch->source into those to copy and those to refer to, and fill in
 * `result`, `files` and `links`. @return 0, RUNG_E_INVAL, RUNG_E_RANGE */
int rung__fetch_lay_out(struct rung__fetch_run *fetch);

/* ---- fetch_pieces.c ---- */

/** Copy all files, except the bytes that an earlier run has copied. */
int rung__fetch_files(struct rung__fetch_run *fetch);

/* ---- fetch_result.c ---- */

/** Check the files that stay where they are: sizes, and the checksums of their first and last
 * blocks. */
int rung__fetch_check_links(const struct rung__fetch_run *fetch);
/** Cut the copied files to their rows, write headers, links, checksums and manifest. */
int rung__fetch_complete(struct rung__fetch_run *fetch);

#endif
