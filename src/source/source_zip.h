/* SPDX-License-Identifier: Apache-2.0 */
/** Members of zip files, read by libzip, for .npz and .pt. Private to src/source. */
#ifndef RUNG_SOURCE_ZIP_H
#define RUNG_SOURCE_ZIP_H

#include <zip.h>

#include "source/npy.h"
#include "source/state.h"

/** Open the source's file as a zip file, through a duplicate of its descriptor, which libzip
 * closes. Release it with zip_discard(). */
int rung__zip_open(const struct rung_source *src, zip_t **zip_out);

/** Fail with the message `what`, followed by libzip's error. @return RUNG_E_NOMEM, RUNG_E_IO,
 * RUNG_E_FORMAT */
int rung__zip_failed(const struct rung_source *src, const char *what, zip_error_t *error);

/** The same for reading a member. If the file ends inside the member, the status is RUNG_E_IO. */
int rung__zip_inflating_failed(const struct rung_source *src, zip_file_t *file);

/** Fail because a member has fewer or more bytes than its entry claims; `how` is "less" or "more".
 * @return RUNG_E_FORMAT */
int rung__zip_wrong_length(const struct rung_source *src, const char *how, uint64_t bytes);

/**
 * Use a deflated member as the stream of a source. Its first bytes, with the header of the array,
 * are inflated now, the rest while it is read. Any number of threads may read, one at a time.
 *
 * Reads fail with RUNG_E_IO, with RUNG_E_NOMEM, or with RUNG_E_FORMAT if the member is damaged.
 * After RUNG_E_FORMAT every later read fails too. Length and CRC are compared with the zip entry
 * when the last byte is inflated.
 *
 * @param head_bytes  at least those of the header, at most those of the member
 */
int rung__inflated_begin(struct rung_source *src, const zip_stat_t *st, size_t head_bytes,
                         struct rung__npy *npy);

#endif
