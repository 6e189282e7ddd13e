/* SPDX-License-Identifier: Apache-2.0 */
/** How many bytes between two rows are worth reading along. */
#ifndef RUNG_IO_GAP_H
#define RUNG_IO_GAP_H

#include "engine/file_reader.h"

#define RUNG__GAP_DEFAULT 16384u

/**
 * What the device reads in the time of one more read: its bandwidth over its reads a second, measured through the engine in use and
 * kept for the process, by device and engine.
 *
 * @param ops         of the reader
 * @param read_bytes  of the large reads
 * @param gap_out     bytes, whole sectors, at most 64 KiB; RUNG__GAP_DEFAULT where measuring is not worth its time (a file under 64 MiB) or
 *                    tells nothing (the page cache, reads that fail)
 * @return 0, or -errno when the engine cannot go on
 */
int rung__gap_measure(const struct rung__reader_ops *ops, struct rung__reader *reader,
                      uint32_t read_bytes, uint32_t *gap_out);

/** The budget of a device with so many bytes and reads a second. */
uint32_t rung__gap_of(double bytes_per_s, double reads_per_s, uint32_t align);

#endif
