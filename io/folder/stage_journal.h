/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts that a run has finished, line by line, so that a later run can resume. A line describes
 * data that were synced before it was written, and has a checksum of itself, so an incomplete last
 * line after a kill or a power failure is ignored. Private to io/stage*.c.
 */
#ifndef RUNG_IO_STAGE_JOURNAL_H
#define RUNG_IO_STAGE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define RUNG__JOURNAL        "journal"
#define RUNG__JOURNAL_RANKED "ranked" /* from this line on a run can be resumed */

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

/** Open it for writing after its last valid line; create it if it does not exist. */
int rung__journal_begin(struct rung__journal *journal, int dir_fd);

/** The text after `key` and a space in the last line of `text` that begins with them; NULL: no such
 * line. Ends with '\n'. */
const char *rung__lines_last(const char *text, const char *key);

/** The same in the lines of a journal. */
const char *rung__journal_last(const struct rung__journal *journal, const char *key);

/** The text after `kind`, a space and `name` in the last line that begins with them. */
const char *rung__journal_last_of(const struct rung__journal *journal, const char *kind,
                                  const char *name);

/** Add a line, to be written by rung__journal_commit(). */
int rung__journal_add(struct rung__journal *journal, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Lines with the checksums of blocks [first, first + count), of all files together. */
int rung__journal_add_sums(struct rung__journal *journal, uint64_t first, uint64_t count,
                           const uint64_t *sums);

/** Put all checksums that were found into sums[block_count]. */
void rung__journal_drain_sums(const struct rung__journal *journal, uint64_t block_count,
                              uint64_t *sums);

/** Write and sync the new lines. @param dir_fd a folder with new files, to sync first; -1: none */
int rung__journal_commit(struct rung__journal *journal, int dir_fd);

void rung__journal_fini(struct rung__journal *journal);

#endif
