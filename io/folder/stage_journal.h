/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a run has finished, line by line, so that a later one can go on. A line speaks of data that
 * were synced before it was written, and holds a checksum of itself: what a kill or a power cut
 * left of the last one is not believed. Private to io/stage*.c.
 */
#ifndef RUNG_IO_STAGE_JOURNAL_H
#define RUNG_IO_STAGE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define RUNG__JOURNAL        "journal"
#define RUNG__JOURNAL_RANKED "ranked" /* the line behind which there is something to go on with */

struct rung__journal {
	int fd;     /* -1: not open */
	char *path; /* for messages */
	/* the lines that were found whole, each ending in '\n', without their checksums; "" for
	 * none */
	char *text;
	char *pending; /* lines not written yet, with their checksums */
	uint64_t pending_bytes, pending_room;
	uint64_t bytes; /* of the file, up to the end of the last good line */
	uint64_t lines_added;
};

/** Read the journal in the folder `dir_fd`, called `dir` in messages. A folder without one has an
 * empty one. */
int rung__journal_read(struct rung__journal *journal, int dir_fd, const char *dir);

/** Open it for writing behind its last good line, making it when it is not there. */
int rung__journal_begin(struct rung__journal *journal, int dir_fd);

/** What follows `key` and a space in the last line of `text` that begins so; NULL: no such line.
 * Ends with '\n'. */
const char *rung__lines_last(const char *text, const char *key);

/** The same in the lines of a journal. */
const char *rung__journal_last(const struct rung__journal *journal, const char *key);

/** What follows in the last line that begins with `kind`, a space, and `name`. */
const char *rung__journal_last_of(const struct rung__journal *journal, const char *kind,
                                  const char *name);

/** Add a line, to be written by rung__journal_commit(). */
int rung__journal_add(struct rung__journal *journal, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Lines with the checksums of blocks [first, first + count), of all files together. */
int rung__journal_add_sums(struct rung__journal *journal, uint64_t first, uint64_t count,
                           const uint64_t *sums);

/** Put all checksums that were found into sums[block_count]. */
void rung__journal_take_sums(const struct rung__journal *journal, uint64_t block_count,
                             uint64_t *sums);

/** Write and sync what was added. @param dir_fd a folder to sync before, where files were made in
 * it; -1: none */
int rung__journal_commit(struct rung__journal *journal, int dir_fd);

void rung__journal_fini(struct rung__journal *journal);

#endif
