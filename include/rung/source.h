/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Sources: arrays in files, or computed, as `rung stage` accepts them (SRC in the help texts).
 *
 * file.npy                a .npy file of format version 1, 2 or 3
 * file.npz:member         a member of a .npz, stored or deflated. The ".npy" of its name is
 *                         optional. A name that occurs twice is refused
 * raw:FILE,DTYPE,DIM[xDIM][,OFFSET[,trailing=ignore]]
 *                         elements without a header, from byte OFFSET on, to the end of the file;
 *                         with trailing=ignore other bytes can follow. Without an OFFSET, files
 *                         that begin as those of a known format (.npy, zip, HDF5) are refused
 * file.csv file.txt [.gz] one number of at most 63 bits per line, without a header: int64 [lines];
 *                         .gz: compressed by gzip
 * file.pt:key             a one-dimensional array of integers in the dict of NumPy arrays that
 *                         torch.save() wrote. Nothing in the file is executed, and other objects
 *                         are refused
 * range:FIRST,END         the numbers FIRST to END - 1: int64 [END - FIRST]
 * pad:ROWS,SRC            the rows of SRC, followed by rows of -1 (signed integers) or NaN
 *                         (floating point), ROWS in total
 * every:PERIOD,FIRST,END,SRC
 *                         rows FIRST to END - 1 of every PERIOD rows of SRC
 *
 * If FILE:MEMBER can be split at several colons, FILE is the longest existing file. A spec without
 * any of these prefixes that is the name of an existing file is that file.
 *
 * Arrays must be little-endian and in C order. Fortran order, big-endian and object arrays are
 * refused, with the command that converts them. Edge indices are accepted in both orders.
 *
 * A .npy, a stored member of a .npz and raw: are read in place. Deflated members larger than 1 MiB,
 * text, range:, pad: and every: are computed while they are read, from the first byte or from a
 * remembered state of less than 1 MiB in total, so read them in order. The CRC of a deflated member
 * is compared after its last byte, and that of a stored member unless rows were read at random.
 * Opening a text file reads it once to count its lines. Smaller deflated members and arrays of
 * torch files are decoded into memory. Members with other compression methods are decoded into
 * memory up to 256 MiB, else into a temporary file without a name in $TMPDIR or /var/tmp.
 *
 * Vertices. rung_source_read_vertices() accepts an array of integers [K], which contains ids, or a
 * bool mask [vertex_count], which selects the vertices at which it is true. RUNG_E_FORMAT: type,
 * shape, length of a mask, more ids than vertices, an id that occurs twice, with both positions, or
 * integers that look like a mask: 0 and 1, or 0 and one other value with one entry per vertex.
 */
#ifndef RUNG_SOURCE_H
#define RUNG_SOURCE_H

#include "dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rung_source;

/**
 * Open an array for reading, and check its header against the size of the file.
 *
 * Rows of sources that are decoded while they are read are best read in order; see above.
 *
 * @param spec     a source as described above
 * @param src_out  the source; close it with rung_source_close()
 * @return 0, RUNG_E_INVAL (syntax of spec), RUNG_E_NOENT, RUNG_E_FORMAT (also a truncated file),
 *         RUNG_E_IO, RUNG_E_NOMEM, RUNG_E_NOSPC
 *
 * Threads: any.
 */
RUNG_API int rung_source_open(const char *spec, struct rung_source **src_out);

/**
 * Element type and shape of a source.
 *
 * @param src  an open source
 * @return the type, which the source owns; valid until rung_source_close(); never NULL
 *
 * For text, row_count is the number of lines. For every: and pad: the shape is that of the result,
 * not that of the inner source.
 *
 * Threads: any.
 */
RUNG_API const struct rung_array_info *rung_source_info(const struct rung_source *src);

/**
 * Read rows of a source into memory.
 *
 * @param src        an open source
 * @param row_first  first row to read
 * @param row_count  number of rows
 * @param buf        receives row_count * row_bytes bytes
 * @return 0, RUNG_E_INVAL (rows outside the array), RUNG_E_IO with file, offset and errno, also if
 *         the file has become shorter; for members also RUNG_E_FORMAT (damaged) and RUNG_E_NOMEM
 *
 * Rows of sources that are computed while they are read should be read in ascending order: reading
 * backwards starts again at the beginning.
 *
 * Threads: any number on one source at the same time.
 */
RUNG_API int rung_source_read(const struct rung_source *src, uint64_t row_first, uint64_t row_count,
                              void *buf);

/**
 * Read a set of vertices, such as the train split, from ids or from a mask. See Vertices at the top
 * of this file.
 *
 * @param vertex_count  number of vertices of the graph; ids must be below it
 * @param distinct      nonzero: refuse an id that occurs twice
 * @param count_out     number of ids
 * @param ids_out       [*count_out] ids in the order of the array; free them with rung_free()
 * @return 0, RUNG_E_FORMAT, RUNG_E_RANGE (an id, with its position), RUNG_E_NOMEM, or the errors of
 *         rung_source_read()
 *
 * Threads: any.
 */
RUNG_API int rung_source_read_vertices(const struct rung_source *src, uint64_t vertex_count,
                                       int distinct, uint64_t *count_out, uint64_t **ids_out);

/**
 * Close a source and free its memory.
 *
 * @param src  the source; NULL is allowed
 *
 * Closes its file and removes its temporary file, if it has one. Pointers that rung_source_info()
 * returned become invalid; ids that rung_source_read_vertices() returned stay valid.
 *
 * Threads: any, but no other call with the same source.
 */
RUNG_API void rung_source_close(struct rung_source *src);

#ifdef __cplusplus
}
#endif
#endif
