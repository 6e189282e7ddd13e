/* SPDX-License-Identifier: Apache-2.0 */
/** Members of zip files: where they are, the CRC of stored ones. Private to rung; the face of this
 * room. */
#ifndef RUNG_ZIP_ZIP_H
#define RUNG_ZIP_ZIP_H

#include "zip/member_crc.h"
#include "zip/zip_offset.h"

#endif
