/* SPDX-License-Identifier: Apache-2.0 */
/** The end of a manifest's text, which both its writer and its reader rely on. Private to
 * io/manifest*.c. */
#ifndef RUNG_DATASET_STATE_H
#define RUNG_DATASET_STATE_H

#define RUNG__MANIFEST_CHECKSUM_KEY "\n \"checksum\": \"" /* before the digits */
#define RUNG__MANIFEST_TAIL         "\"\n}\n"             /* end of the text */

#endif
