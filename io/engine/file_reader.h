/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The reader of features files, and how it comes by its engine. Private to io/engine and its tests.
 *
 * file_reader.c opens the file and is the table of functions, engine_select.c tries engines from
 * the best down to one that works, gap.c measures what a read may skip.
 */
#ifndef RUNG_IO_FILE_READER_H
#define RUNG_IO_FILE_READER_H

#include "engine/engine.h"

struct rung__reader {
	struct rung__reader_args args;
	struct rung__geometry geometry;
	char *path;
	int fd;
	bool direct;
	char why[1024]; /* not better: file and engine */

	/* from start to stop */
	const struct rung__engine_ops *ops;                   /* of the engine in use */
	struct rung__engine *engine;                          /* NULL: none is open */
	struct rung_engine_step steps[RUNG_ENGINE_STEPS_MAX]; /* best first, it last */
	uint32_t step_count;
	struct rung__engine_report report;                 /* its own */
	char whys[RUNG_ENGINE_STEPS_MAX][RUNG__WHY_BYTES]; /* of the others */
	char engine_why[2 * RUNG__WHY_BYTES]; /* not a better one, of those to be tried */
};

/**
 * Open the engine that reader->args.engine asks for, or with AUTO the best one that works: an
 * engine counts only when real reads through it have brought what pread() brings. Called by the
 * thread that will use it.
 *
 * @param reader  with its file open; its texts live as long as it does
 * @return 0; RUNG_E_NOSUP (the engine asked for does not work here: the reason), RUNG_E_IO (the
 * file's first bytes cannot be read)
 */
int rung__engine_select(struct rung__reader *reader);

void rung__engine_end(struct rung__reader *reader);

/* ---- gap.c ---- */

#define RUNG__GAP_DEFAULT 16384u

/**
 * What the device reads in the time of one more read: its bandwidth over its reads a second,
 * measured through the engine in use and kept for the process, by device and engine.
 *
 * @param ops         of the reader
 * @param read_bytes  of the large reads
 * @param gap_out     bytes, whole sectors, at most 64 KiB; RUNG__GAP_DEFAULT where measuring is not
 *                    worth its time (a file under 64 MiB) or tells nothing (the page cache, reads
 *                    that fail)
 * @return 0, or -errno when the engine cannot go on
 */
int rung__gap_measure(const struct rung__reader_ops *ops, struct rung__reader *reader,
                      uint32_t read_bytes, uint32_t *gap_out);

/** The budget of a device with so many bytes and reads a second. */
uint32_t rung__gap_of(double bytes_per_s, double reads_per_s, uint32_t align);

#endif
