/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The end of a manifest's text. The checksum is the last key, at a fixed distance from the end, so
 * that it can be checked and written without parsing: writer (manifest.c) and reader
 * (manifest_parse.c) rely on the same bytes. Private to src/dataset.
 */
#ifndef RUNG_DATASET_STATE_H
#define RUNG_DATASET_STATE_H

#define RUNG__MANIFEST_CHECKSUM_KEY "\n \"checksum\": \"" /* before the digits */
#define RUNG__MANIFEST_TAIL         "\"\n}\n"             /* end of the text */

#endif
