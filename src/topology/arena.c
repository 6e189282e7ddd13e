/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is released as a whole: a list of separate allocations. A topology has a few hundred
 * small lists, which are read once, so nothing faster is needed. */
#include <stdalign.h>

#include "topology/sysfs.h"

struct rung__arena_block {
	struct rung__arena_block *next;
	/* the items begin here, aligned for any type */
	alignas(max_align_t) unsigned char bytes[];
};

void *rung__arena_alloc(struct rung__arena *arena, uint64_t count, size_t item_bytes)
{
	struct rung__arena_block *block;
	uint64_t bytes;

	if (!rung__mul(count, item_bytes, &bytes) || bytes > PTRDIFF_MAX - sizeof(*block))
		return NULL;
	block = rung__zalloc(sizeof(*block) + (size_t)bytes);
	if (!block)
		return NULL;
	block->next = arena->blocks;
	arena->blocks = block;
	return block->bytes;
}

void rung__arena_free(struct rung__arena *arena)
{
	while (arena->blocks) {
		struct rung__arena_block *block = arena->blocks;

		arena->blocks = block->next;
		rung__free(block);
	}
}
