/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The reader of features files, and the selection of its engine. Private to io/engine and its
 * tests.
 *
 * file_reader.c opens the file and implements the table of functions. engine_select.c tries
 * engines, best first, until one works. merge_gap.c measures the largest gap between two rows that
 * share a read.
 */
#ifndef RUNG_IO_FILE_READER_H
#define RUNG_IO_FILE_READER_H

#include "engine/engine.h"

struct rung__reader {
	struct rung__reader_args args;
	struct rung__geometry geometry;
	char *path;  /* owned, for messages */
	int fd;      /* its own descriptor; -1: not open */
	bool direct; /* reads bypass the page cache */
	/* why the file is not opened, or the engine is not chosen, in the best way; "": both are */
	char why[1024];

	/* valid from start to stop */
	const struct rung__engine_ops *ops; /* of the engine in use */
	struct rung__engine *engine;        /* the open engine, or NULL */
	/* engines in the order in which they were tried, with reasons; the engine in use is last */
	struct rung_engine_step steps[RUNG_ENGINE_STEPS_MAX];
	uint32_t step_count;
	struct rung__engine_report report;                 /* of the engine in use */
	char whys[RUNG_ENGINE_STEPS_MAX][RUNG__WHY_BYTES]; /* storage for the reasons in `steps` */
	char engine_why[2 * RUNG__WHY_BYTES];              /* the part of `why` about the engine */
};

/**
 * Open the engine requested by reader->args.engine, or with AUTO the best one that works: an engine
 * is accepted only after reads through it have returned the same bytes as pread(). Called by the
 * thread that will use it.
 *
 * @param reader  with its file open; its texts are valid as long as it is
 * @return 0; RUNG_E_NOSUP (the requested engine does not work here; the message has the reason),
 *         RUNG_E_IO (the first bytes of the file cannot be read)
 */
int rung__engine_select(struct rung__reader *reader);

/** Close the engine, if one is open. No read may be in flight. */
void rung__engine_end(struct rung__reader *reader);

/* ---- merge_gap.c ---- */

#define RUNG__MERGE_GAP_DEFAULT 16384u /* the gap in bytes, if the device is not measured */

/**
 * The merge gap: the bytes that the device transfers in the time of one more read, which are its
 * bandwidth divided by its reads per second, measured through the engine in use and cached in the
 * process by device and engine.
 *
 * @param ops         of the reader
 * @param read_bytes  size of the large reads
 * @param gap_out     bytes, whole sectors, at most 64 KiB; RUNG__MERGE_GAP_DEFAULT if measuring
 *                    takes too long (a file under 64 MiB) or is meaningless (the page cache, reads
 *                    that fail, an engine that reads nothing)
 * @return 0, or -errno if the engine cannot continue
 */
int rung__merge_gap_measure(const struct rung__reader_ops *ops, struct rung__reader *reader,
                            uint32_t read_bytes, uint32_t *gap_out);

/** The gap in bytes for a device with this bandwidth and this rate of reads; 0: unknown. */
uint32_t rung__merge_gap_of(double bytes_per_s, double reads_per_s, uint32_t align);

#endif
