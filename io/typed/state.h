/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One run of rung_stage() with types. Private to io/typed.
 *
 * The whole has a folder, a journal and a manifest like a dataset, but no files: the parts are
 * datasets in folders below, which rung__stage_run() stages one after the other. First the scores
 * of all types and relations are computed and kept in files `score_N.npy` of OUT.partial, so that a
 * run that is resumed does not compute them again.
 */
#ifndef RUNG_IO_TYPED_STATE_H
#define RUNG_IO_TYPED_STATE_H

#include "run/run.h"

#define RUNG__TYPED_SCORE "score_%03u.npy" /* of part number %u */
/* of edge rows, by the target of the edge */
#define RUNG__TYPED_EDGES "score_%03u_edges.npy"
/* lines of the journal: the checksum of a file of scores; all parts are complete */
#define RUNG__TYPED_SUM  "scratch"
#define RUNG__TYPED_DONE "parts"

/** What the parts of the run have in common. */
struct rung__typed {
	/* options, folder, journal, manifest, job and report of the whole */
	struct rung__stage stage;
	bool has_rows[RUNG__RELATIONS_MAX];
	uint64_t *train; /* [train_count] of the seed type; NULL: all its vertices */
	uint64_t train_count;
	uint64_t bytes_needed; /* of all parts */
};

/* ---- typed_input.c ---- */

/** The parts of the whole by their number (rung__dataset_part()). */
struct rung__typed_part {
	enum rung__typed_kind { RUNG__TYPED_ROWS, RUNG__TYPED_LISTS, RUNG__TYPED_EDGE_ROWS } kind;
	uint32_t idx; /* of the type or relation */
	const char *folder;
};

/** @return false past the last one */
bool rung__typed_part(const struct rung__typed *typed, uint32_t number,
                      struct rung__typed_part *part_out);

/** Check the options, and fill in types, relations and settings of the manifest. */
int rung__typed_check(struct rung__typed *typed);
/** Read the train vertices. */
int rung__typed_read_train(struct rung__typed *typed);
/** The options of the graph of a relation. */
struct rung_graph_opts rung__typed_graph_opts(const struct rung__typed *typed, uint32_t relation);

/* ---- typed_job.c ---- */

/** Describe options and inputs in stage->job and the manifest. */
int rung__typed_describe(struct rung__typed *typed);
/** RUNG_E_CORRUPT if an input has changed since then; the message names it. */
int rung__typed_unchanged(struct rung__typed *typed);

/* ---- typed_score.c ---- */

/** Compute and write the scores of types and relations. */
int rung__typed_score(struct rung__typed *typed);
/** Number of the part with the edge rows of a relation that has some. */
uint32_t rung__typed_rows_part(const struct rung__typed *typed, uint32_t relation);
/** Write scores to the file `name` of OUT.partial. */
int rung__typed_write_score(const struct rung__typed *typed, const char *name, const float *score,
                            uint64_t count);
/** Read such a file, and compare it with its checksum if an earlier run has written it.
 * RUNG_E_CORRUPT: it is missing or was changed. @param count  of scores; 0: all.
 * @param score_out  free it with rung__free() */
int rung__typed_read_score(const struct rung__typed *typed, const char *name, uint64_t count,
                           float **score_out);

/* ---- typed_parts.c ---- */

/** Stage part `number`, or with `dry_run` only check the inputs and add the bytes it needs. */
int rung__typed_stage_part(struct rung__typed *typed, uint32_t number, bool dry_run);
/** Check the files of a part that is complete against their checksums, and add its sizes to the
 * report. @param whole  the folder of the whole. @param cure  the end of messages */
int rung__typed_check_part(struct rung__typed *typed, const struct rung__typed_part *part,
                           const char *whole, const char *cure);
/** Take over the counts of a part that is complete, and the checksum of its manifest. */
int rung__typed_note_part(struct rung__typed *typed, const struct rung__typed_part *part);

/* ---- typed_rows.c ---- */

/** The order and the scores of the edge rows of a relation, whose lists are complete. Writes the
 * scores as those of the part.
 * @param edge_of_position_out  [edges] of index_bytes of their number; free it with rung__free() */
int rung__typed_order_rows(struct rung__typed *typed, uint32_t number, uint32_t relation,
                           void **edge_of_position_out);

#endif
