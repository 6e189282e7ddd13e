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

#endif
