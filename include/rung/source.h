/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Arrays in files, as `rung stage` takes them:
 *
 * file.npy                a .npy of format version 1, 2 or 3
 * file.npz:member         a member of a .npz, stored or deflated; the ".npy" of its name may be
 *                         left out; a name that is there twice is refused
 * raw:FILE,DTYPE,DIM[xDIM][,OFFSET]
 *                         bytes without a header, from byte OFFSET on
 * file.csv file.txt [.gz] numbers of at most 63 bits, one a line, without a header: int64 [lines];
 *                         .gz: compressed by gzip
 * file.pt:key             an array of integers, with one dimension, of the dict of NumPy arrays
 *                         that torch.save() wrote. Nothing of the file is executed; any other
 *                         object is refused
 * range:FIRST,END         FIRST to END - 1: int64 [END - FIRST]
 * pad:ROWS,SRC            the rows of SRC, and after them -1 (signed integers) or NaN (floating) in
 *                         every element, ROWS in all
 * every:PERIOD,FIRST,END,SRC
 *                         of every PERIOD rows of SRC, rows FIRST to END - 1
 *
 * Where FILE:MEMBER can be cut in several ways, FILE is the longest that exists; a spec without one
 * of the words above that names a file as it stands is that file.
 *
 * C order and little-endian only; Fortran order, big-endian and object arrays are refused with the
 * way to convert them. (An edge index may come in either order.)
 */
#ifndef RUNG_SOURCE_H
#define RUNG_SOURCE_H

#include "dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_source;

/**
 * Open an array for reading. Its header is checked against the size of the file: a truncated file
 * is refused here. A .npy, a stored member of a .npz and raw: are read where they lie. A deflated
 * member of more than 1 MiB, text, range:, pad: and every: are worked out as they are read, from
 * the first byte or a state that is remembered (less than 1 MiB in all), so they are best read in
 * order. The CRC of a deflated member is compared when all of it was read. That of a stored member
 * is, too, unless rows were read at random. Text is read once when it is opened, to count its
 * lines. Smaller deflated members and dicts of torch are made when they are opened, in memory. So
 * are
 * members that are compressed in another way, in memory up to 256 MiB, else in a temporary file
 * without a name in $TMPDIR, or /var/tmp.
 *
 * @param spec     a source as above
 * @param src_out  the source; close it with rung_source_close()
 * @return 0, or RUNG_E_INVAL (the words of spec), RUNG_E_NOENT, RUNG_E_FORMAT, RUNG_E_IO,
 * RUNG_E_NOMEM, RUNG_E_NOSPC
 */
RUNG_API int rung_source_open(const char *spec, struct rung_source **src_out);

/** Type and shape; valid until the source is closed. */
RUNG_API const struct rung_array_info *rung_source_info(const struct rung_source *src);

/**
 * Read `row_count` rows from `row_first` on into `buf` (row_count * row_bytes bytes).
 *
 * Threads: any number on one source at the same time.
 * @return 0, or RUNG_E_INVAL (rows outside the array), RUNG_E_IO with file, offset and errno (also when the file became shorter), and of a
 *         member RUNG_E_FORMAT (damaged) and RUNG_E_NOMEM
 */
RUNG_API int rung_source_read(const struct rung_source *src, uint64_t row_first, uint64_t row_count, void *buf);

/**
 * Read a set of vertices: integers of any type [K] are their ids, a bool mask [vertex_count] stands for those where it is true.
 *
 * @param distinct   nonzero: an id that is there twice is refused
 * @param ids_out    [*count_out] in the order of the array; free them with rung_free()
 * @return 0, RUNG_E_FORMAT (type or shape, a mask of another length, more ids than vertices, an id twice: names both places),
 *         RUNG_E_RANGE (an id that is no vertex, with its place), RUNG_E_NOMEM, what rung_source_read() returns
 */
RUNG_API int rung_source_read_vertices(const struct rung_source *src, uint64_t vertex_count, int distinct, uint64_t *count_out,
                                       uint64_t **ids_out);

/** Close; NULL is allowed. */
RUNG_API void rung_source_close(struct rung_source *src);

#ifdef __cplusplus
}
#endif
#endif
