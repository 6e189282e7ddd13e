/* SPDX-License-Identifier: Apache-2.0 */
/** A preset being derived. Private to io/preset*.c. */
#ifndef RUNG_IO_PRESET_STATE_H
#define RUNG_IO_PRESET_STATE_H

#include <stdbool.h>

#include "rung/preset.h"

#define RUNG__PRESET_TEXTS_MAX  256u
#define RUNG__PRESET_GRAPHS_MAX 4u
/* as many as a dict has, and two more that its `test` is cut into */
#define RUNG__PRESET_SPLITS_MAX 66u

struct rung__preset {
	struct rung_preset derived; /* first: it is what callers hold */
	const char *option;         /* for messages: "MAG240M" */
	const char *root, *part;    /* as given; part NULL: none */
	unsigned wanted;
	const char *dir;                     /* the data set's own folder */
	char *texts[RUNG__PRESET_TEXTS_MAX]; /* all that `derived` and `dir` point to */
	size_t text_count;
	const char *graphs[RUNG__PRESET_GRAPHS_MAX];
	struct rung_stage_split splits[RUNG__PRESET_SPLITS_MAX];
	struct rung_stage_array year;
};

/** A text that lives as long as the preset; NULL with the failure recorded. */
const char *rung__preset_text(struct rung__preset *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Add an edge list, a split … @param spec, name texts of the preset; NULL: RUNG_E_NOMEM, recorded
 * already */
int rung__preset_add_graph(struct rung__preset *p, const char *spec);
int rung__preset_add_split(struct rung__preset *p, const char *name, const char *spec);
/** The array "year". */
int rung__preset_set_year(struct rung__preset *p, const char *spec);

/**
 * Find p->dir: the first of root and its folders `inside` (ended by NULL, "" for root itself) that
 * contains `file`. RUNG_E_NOENT names all of them.
 */
int rung__preset_find(struct rung__preset *p, const char *const *inside, const char *file);

/** The path of a file in p->dir, which must exist. @param why  its purpose, for the message */
int rung__preset_file(struct rung__preset *p, const char *name, const char *why,
                      const char **path_out);

/** Is it there? @param bytes_out  its size */
bool rung__preset_there(const char *path, uint64_t *bytes_out);

/**
 * The spec of a file that is a .npy, or else bytes without a header: rows of `row_items` of
 * `dtype`.
 * @param rows_out  how many there are
 */
int rung__preset_npy_or_raw(struct rung__preset *p, const char *path, enum rung_dtype dtype,
                            uint64_t row_items, const char **spec_out, uint64_t *rows_out);

int rung__preset_papers100m(struct rung__preset *p);
int rung__preset_mag240m(struct rung__preset *p);
int rung__preset_igb(struct rung__preset *p);

#endif
