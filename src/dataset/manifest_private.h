/* SPDX-License-Identifier: Apache-2.0 */
/** The end of a manifest's text, which both its writer and its reader rely on. Private to
 * io/manifest*.c. */
#ifndef RUNG_IO_MANIFEST_PRIVATE_H
#define RUNG_IO_MANIFEST_PRIVATE_H

#define RUNG__MANIFEST_CHECKSUM_KEY "\n \"checksum\": \"" /* before the digits */
#define RUNG__MANIFEST_TAIL         "\"\n}\n"             /* end of the text */

#endif
