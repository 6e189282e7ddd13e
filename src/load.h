/* SPDX-License-Identifier: Apache-2.0 */
/** Loading rows from the features file: large direct reads, so that no second copy is left in the page cache. */
#ifndef RUNG_LOAD_H
#define RUNG_LOAD_H

#include "tier.h"

#define RUNG__LOAD_BYTES (4u << 20)   /* one read: large enough for any disk's full rate */

struct rung__loader {
	const char *path;       /* for messages */
	int fd;
	unsigned char *bounce;  /* for what does not lie on whole pages of the file */
};

/** @param features  may be closed once the loader is open */
int rung__loader_open(const struct rung__features *features, struct rung__loader *loader_out);

/** Read bytes of the file. @param to  with room for whole pages */
int rung__loader_read(const struct rung__loader *loader, uint64_t offset, uint64_t bytes, unsigned char *to);

void rung__loader_close(struct rung__loader *loader);

#endif
