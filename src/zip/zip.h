/* SPDX-License-Identifier: Apache-2.0 */
/** Stored members of zip files, which are read in place: their position, and their CRC. Includes
 * the headers of src/zip. Private to rung. */
#ifndef RUNG_ZIP_ZIP_H
#define RUNG_ZIP_ZIP_H

#include "zip/member_crc.h"
#include "zip/zip_offset.h"

#endif
