/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Parts that the writer (manifest.c) and the reader (manifest_parse.c) of a manifest share.
 *
 * The end of a manifest's text. The checksum is the last key, at a fixed distance from the end, so
 * that it can be checked and written without parsing. Private to src/dataset.
 */
#ifndef RUNG_DATASET_STATE_H
#define RUNG_DATASET_STATE_H

#include <jansson.h>

#include "dataset/manifest.h"

#define RUNG__MANIFEST_CHECKSUM_KEY "\n \"checksum\": \"" /* before the digits */
#define RUNG__MANIFEST_TAIL         "\"\n}\n"             /* end of the text */

/* ---- manifest_quant.c ---- */

/** The value of "quantized" in "features". NULL: out of memory. */
json_t *rung__manifest_quant_json(const struct rung__manifest *m);

/** Read it, and compare it with m->features. @return false: it is not valid, or (*nomem_out) there
 * is no memory for the scales */
bool rung__manifest_quant_parse(const json_t *features, struct rung__manifest *m, bool *nomem_out);

/* ---- manifest_types.c ---- */

/** Add the keys of a typed dataset, or those of a part of one, to the root. @return nonzero: out of
 * memory */
int rung__manifest_put_types(const struct rung__manifest *m, json_t *root);

/** Read the keys of a part, after `version`. @return false: they are not valid */
bool rung__manifest_part_parse(const json_t *root, struct rung__manifest *m);

/** Read the types and relations, after vertex_count, edge_count and the fanouts. @return NULL, or
 * the key that is not valid; "" if there is no memory */
const char *rung__manifest_types_parse(const json_t *root, struct rung__manifest *m);

/* ---- manifest_ranges.c ---- */

/** Add the keys of the ranges to "features". @return nonzero: out of memory */
int rung__manifest_put_ranges(const struct rung__manifest *m, json_t *features);

/** Read them, after feature_file_count and vertex_count. @return false: they are not valid */
bool rung__manifest_ranges_parse(const json_t *features, struct rung__manifest *m);

#endif
