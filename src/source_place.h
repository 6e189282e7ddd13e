/* SPDX-License-Identifier: Apache-2.0 */
/** Where the bytes of a source lie, for those who read them past rung_source_read(). Private to rung; io/source.c knows. */
#ifndef RUNG_SOURCE_PLACE_H
#define RUNG_SOURCE_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "rung/source.h"

struct rung__source_place {
	const unsigned char *data;   /* all of the array in memory (a small deflated member), else NULL */
	bool inflated;               /* as it is read: only by rung_source_read(), and best from the first row to the last; else */
	int fd;                      /* the source's own, for reading */
	const char *path;
	uint64_t offset;             /* of the array in the file */
	uint64_t memory_bytes;       /* that the source holds */
};

/** Valid until the source is closed. */
struct rung__source_place rung__source_place(const struct rung_source *src);

/** stat() of the file that a spec names, which is not opened. @return 0, or -1 with errno */
int rung__source_stat(const char *spec, struct stat *st_out);

#endif
