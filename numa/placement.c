/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory lies, by the kernel's own calls: libnuma's end the program in places, and know the running machine's nodes only. */
#include <errno.h>
#include <math.h>

#include "placement.h"
#include "rung/numa.h"
#include "rung_config.h"
#if RUNG_HAVE_NUMA
#include <numaif.h>
#endif

#if RUNG_HAVE_NUMA
#define PAGES_LOOKED_AT 1024u
#define WORD_BITS (8 * sizeof(unsigned long))

int rung__place_on_node(void *memory, uint64_t bytes, uint32_t node)
{
	unsigned long mask[RUNG_NODES_MAX / WORD_BITS] = { 0 };

	mask[node / WORD_BITS] = 1ul << (node % WORD_BITS);
	return mbind(memory, (size_t)bytes, MPOL_PREFERRED, mask, RUNG_NODES_MAX + 1, 0) == 0 ? 0 : errno;   /* it takes one bit off */
}

double rung__placed_share(void *memory, uint64_t bytes, uint32_t node, int *err_out)
{
	const uint64_t page_count = rung__align_up(bytes, RUNG__PAGE_BYTES) / RUNG__PAGE_BYTES;
	const uint64_t count = RUNG__MIN(page_count, PAGES_LOOKED_AT);
	void *pages[PAGES_LOOKED_AT];
	int nodes[PAGES_LOOKED_AT];
	uint64_t there = 0, known = 0;

	*err_out = 0;
	for (uint64_t i = 0; i < count; i++)
		pages[i] = (unsigned char *)memory + page_count * i / count * RUNG__PAGE_BYTES;
	if (move_pages(0, count, pages, NULL, nodes, 0) < 0)   /* moves nothing: tells */
		*err_out = errno;
	for (uint64_t i = 0; i < count && *err_out == 0; i++) {   /* a page on its way somewhere has no node: others tell enough */
		there += nodes[i] == (int)node;
		known += nodes[i] >= 0;
	}
	if (*err_out == 0 && known == 0)
		*err_out = count ? -nodes[0] : EINVAL;
	return *err_out ? (double)NAN : (double)there / (double)known;
}
#else
int rung__place_on_node(void *memory, uint64_t bytes, uint32_t node)
{
	(void)memory;
	(void)bytes;
	(void)node;
	return ENOSYS;
}

double rung__placed_share(void *memory, uint64_t bytes, uint32_t node, int *err_out)
{
	(void)memory;
	(void)bytes;
	(void)node;
	*err_out = ENOSYS;
	return (double)NAN;
}
#endif
