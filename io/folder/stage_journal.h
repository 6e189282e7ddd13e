/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The journal of a run: its finished parts, line by line, so that a later run can resume. A line
 * describes data that were synced before the line was written. Each line has its own checksum, so
 * an incomplete last line after a kill or a power failure is ignored. One thread uses a journal.
 * Private to io.
 *
 * The lines, without checksums:
 *
 *   job KEY VALUE                     the job: stage/stage_job.c
 *   ranked NUMBERS                    the maps and the score are complete
 *   file NAME                         a file is complete
 *   partitioned NAME ROWS ROW SUM     rows before ROW are in buckets of ROWS rows
 *   rows NAME ROW TAILS SUM           ranks below ROW are in their files
 *   scales BITS ...                   scales per column of quantized rows
 *   sums FIRST SUM ...                checksums of blocks, from number FIRST on
 *   scratch NAME SUM                  of types: the checksum of a file of scores
 *   scored SUM                        of a part: the checksum of its scores
 *   complete HOST                     of a part: all of it is checked
 */
#ifndef RUNG_IO_STAGE_JOURNAL_H
#define RUNG_IO_STAGE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define RUNG__JOURNAL        "journal"
#define RUNG__JOURNAL_RANKED "ranked" /* a run can be resumed only if the journal has this line */
#define RUNG__JOURNAL_SCORED "scored"
/* a part's file can be moved to part 0 only if the journal has this line */
#define RUNG__JOURNAL_COMPLETE "complete"

struct rung__journal {
	int fd;     /* -1: not open */
	char *path; /* for messages */
	/* the valid lines of an earlier run, each ending in '\n', without their checksums; "" for a
	 * new journal. Lines of this run are not added */
	char *text;
	char *pending; /* lines that are not written yet, with their checksums */
	uint64_t pending_bytes, pending_capacity; /* used and allocated bytes of `pending` */
	uint64_t bytes; /* size of the file, up to the end of the last valid line */
	uint64_t lines_added;
};

/** Read the journal in the folder `dir_fd`, which messages call `dir`. Without a file the journal
 * is empty. @return 0, RUNG_E_EXIST if the file cannot be a journal, RUNG_E_IO, RUNG_E_NOMEM */
int rung__journal_read(struct rung__journal *journal, int dir_fd, const char *dir);

/** Open the file for writing after its last valid line, or create it. */
int rung__journal_begin(struct rung__journal *journal, int dir_fd);

/** The text after `key` and a space in the last line of `text` that begins with them; NULL if no
 * line does. The result ends with '\n'. */
const char *rung__lines_last(const char *text, const char *key);

/** The same for the lines of a journal. */
const char *rung__journal_last(const struct rung__journal *journal, const char *key);

/** The text after `kind`, a space and `name` in the last line that begins with them. */
const char *rung__journal_last_of(const struct rung__journal *journal, const char *kind,
                                  const char *name);

/** Add a line, which rung__journal_commit() will write. */
int rung__journal_add(struct rung__journal *journal, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Add lines with the checksums of blocks [first, first + count), counted over all files. */
int rung__journal_add_sums(struct rung__journal *journal, uint64_t first, uint64_t count,
                           const uint64_t *sums);

/** Copy the checksums of blocks [first, end) that the lines contain to sums[]; other entries do not
 * change. */
void rung__journal_drain_sums(const struct rung__journal *journal, uint64_t first, uint64_t end,
                              uint64_t *sums);

/** Write and sync the added lines. The data that they describe must be synced already.
 * @param dir_fd  a folder with new files, which is synced first; -1: none */
int rung__journal_commit(struct rung__journal *journal, int dir_fd);

void rung__journal_fini(struct rung__journal *journal);

#endif
