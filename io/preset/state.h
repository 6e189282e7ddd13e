/* SPDX-License-Identifier: Apache-2.0 */
/** A preset while it is derived, and the functions that all data sets share. Private to
 * io/preset. */
#ifndef RUNG_IO_PRESET_STATE_H
#define RUNG_IO_PRESET_STATE_H

#include <stdbool.h>

#include "dataset/manifest.h"
#include "rung/stage.h"

/** About 10 KiB: allocate it on the heap. */
struct rung__preset {
	/* first member: callers hold a pointer to it, and close the preset by it */
	struct rung_preset derived;
	const char *option;      /* name of the data set, for messages: "MAG240M" */
	const char *root, *part; /* as given, borrowed; part NULL: the default */
	/* the requested parts: a combination of RUNG_PRESET_GRAPH and so on */
	unsigned wanted;
	const char *dir; /* the folder with the files: root, or a folder inside it */
	/* [kept_count] all texts and lists that `derived` and `dir` point to; freed with the preset
	 */
	void **kept;
	size_t kept_count, kept_room;
	/* lists of the presets of public data sets, to which `derived` points; each of them has one
	 * edge list, and one array */
	const char *graphs[1];
	struct rung_stage_split splits[RUNG__SPLITS_MAX];
	struct rung_stage_array arrays[1];
	uint32_t fanouts[RUNG_HOPS_MAX];
};

/** Format a text that the preset owns. @return NULL with RUNG_E_NOMEM recorded */
const char *rung__preset_text(struct rung__preset *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** A list of zeros that the preset owns. @return NULL with RUNG_E_NOMEM recorded */
void *rung__preset_list(struct rung__preset *p, size_t count, size_t item_bytes);

/**
 * Add an edge list, a split or an array with one row per vertex.
 * @param spec, name  texts of the preset or constants. NULL, from a failed rung__preset_text(): the
 *                    result is RUNG_E_NOMEM, which is recorded already
 */
int rung__preset_add_graph(struct rung__preset *p, const char *spec);
int rung__preset_add_split(struct rung__preset *p, const char *name, const char *spec);
int rung__preset_add_array(struct rung__preset *p, const char *name, const char *spec);

/**
 * Search a list of folders inside root, and set p->dir to the first one that contains `file`. The
 * list ends with NULL, and "" is root itself. The message of RUNG_E_NOENT names all folders.
 */
int rung__preset_find(struct rung__preset *p, const char *const *inside, const char *file);

/** Find a file in p->dir. @param why the content of the file, for the message. @param path_out a
 * text of the preset. @return 0, RUNG_E_NOENT, RUNG_E_NOMEM */
int rung__preset_file(struct rung__preset *p, const char *name, const char *why,
                      const char **path_out);

/** Whether a path is a regular file, or a link to one. @param bytes_out  its size; unchanged if it
 * is not */
bool rung__preset_exists(const char *path, uint64_t *bytes_out);

/**
 * The spec of a file that is either a .npy or raw bytes: rows of `row_items` items of `dtype`. The
 * size of raw bytes is checked here, because raw files have no header to check later.
 * @param spec_out  `path` itself, or a text of the preset
 * @param rows_out  number of rows
 * @return 0, RUNG_E_FORMAT (not whole rows), RUNG_E_NOMEM, RUNG_E_IO, or the errors of
 *         rung_source_open()
 */
int rung__preset_npy_or_raw(struct rung__preset *p, const char *path, enum rung_dtype dtype,
                            uint64_t row_items, const char **spec_out, uint64_t *rows_out);

/** Derive a preset: fill in p->derived from option, root, part and wanted. */
int rung__preset_papers100m(struct rung__preset *p);
int rung__preset_mag240m(struct rung__preset *p);
int rung__preset_igb(struct rung__preset *p);
int rung__preset_description(struct rung__preset *p);

#endif
