/* SPDX-License-Identifier: Apache-2.0 */
/* Places and the kernel: binding memory, touching it, and looking up what came of it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "place/place.h"
#include "rung_config.h"
#if RUNG_HAVE_NUMA
#include <numaif.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23   /* Linux 5.14 */
#endif
#define TOUCH_BYTES (64ull << 20)   /* a thread at a time */
#define LOOKED_AT_MAX 16384u        /* pages of a part; a large one is looked at here and there */
#define LOOK_AT_ONCE 512u

/* ---- bind and touch ---- */

#if RUNG_HAVE_NUMA
static int ask(void *memory, uint64_t bytes, int mode, uint32_t node)
{
	unsigned long mask[RUNG_NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };

	mask[node / (8 * sizeof(unsigned long))] = 1ul << (node % (8 * sizeof(unsigned long)));
	return mbind(memory, bytes, mode, mask, RUNG_NODES_MAX + 1, 0) == 0 ? 0 : errno;   /* it takes one bit off */
}

int rung__place_on_node(void *memory, uint64_t bytes, uint32_t node)
{
	return ask(memory, bytes, MPOL_PREFERRED, node);
}

int rung__placement_bind(void *memory, const struct rung__placement *place)
{
	unsigned char *at = memory;

	for (uint32_t p = 0; p < place->part_count; p++) {
		const struct rung__placement_part *part = &place->parts[p];

		for (uint64_t from = 0, block = 0; from < part->bytes; from += part->block_bytes, block++) {
			uint32_t node = place->nodes[part->node_first + block % part->node_count];
			int err = ask(at + from, RUNG__MIN(part->block_bytes, part->bytes - from), MPOL_BIND, node);

			if (err)
				return err;
		}
		at += part->bytes;
	}
	return 0;
}
#else
int rung__place_on_node(void *memory, uint64_t bytes, uint32_t node)
{
	(void)memory;
	(void)bytes;
	(void)node;
	return ENOSYS;
}

int rung__placement_bind(void *memory, const struct rung__placement *place)
{
	(void)memory;
	return place->part_count > 0 ? ENOSYS : 0;
}
#endif

static void touch(unsigned char *memory, uint64_t bytes)
{
	if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
		return;
	for (uint64_t at = 0; at < bytes; at += RUNG__PAGE_BYTES) {
		volatile unsigned char *byte = memory + at;

		*byte = *byte;
	}
}

void rung__placement_touch(void *memory, uint64_t bytes)
{
	int64_t count = (int64_t)((bytes + TOUCH_BYTES - 1) / TOUCH_BYTES);

#pragma omp parallel for num_threads(rung__threads(0)) schedule(dynamic, 1)
	for (int64_t i = 0; i < count; i++)
		touch((unsigned char *)memory + (uint64_t)i * TOUCH_BYTES, RUNG__MIN(TOUCH_BYTES, bytes - (uint64_t)i * TOUCH_BYTES));
}

/* ---- look ---- */

#if RUNG_HAVE_NUMA
/* Number i of `count` pages out of so many: one in each stretch, at a drawn place in it, so that no regular pattern of blocks goes by. */
static uint64_t page_of(uint64_t i, uint64_t count, uint64_t pages)
{
	uint64_t stretch = pages / count;

	return i * stretch + (stretch > 1 ? rung__mix64(i) % stretch : 0);
}

static uint32_t node_asked(const struct rung__placement *place, const struct rung__placement_part *part, uint64_t offset)
{
	return place->nodes[part->node_first + offset / part->block_bytes % part->node_count];
}

int rung__placement_look(const unsigned char *at, const struct rung__placement *place, uint32_t part_idx, uint64_t *count_out, uint64_t *there_out)
{
	const struct rung__placement_part *part = &place->parts[part_idx];
	uint64_t pages = part->bytes / RUNG__PAGE_BYTES, count = RUNG__MIN(pages, LOOKED_AT_MAX), known = 0, there = 0;
	uint64_t offsets[LOOK_AT_ONCE];
	void *list[LOOK_AT_ONCE];
	int nodes[LOOK_AT_ONCE], first = 0;

	for (uint64_t done = 0; done < count; done += LOOK_AT_ONCE) {
		unsigned some = (unsigned)RUNG__MIN(count - done, LOOK_AT_ONCE);

		for (unsigned i = 0; i < some; i++) {
			offsets[i] = page_of(done + i, count, pages) * RUNG__PAGE_BYTES;
			list[i] = (void *)(at + offsets[i]);
			(void)*(const volatile unsigned char *)list[i];
		}
		if (move_pages(0, some, list, NULL, nodes, 0) < 0)   /* moves nothing: tells */
			return errno;
		for (unsigned i = 0; i < some; i++) {
			known += nodes[i] >= 0;
			there += nodes[i] >= 0 && (uint32_t)nodes[i] == node_asked(place, part, offsets[i]);
		}
		first = done == 0 ? nodes[0] : first;
	}
	if (known == 0)
		return -first;
	*count_out = known;
	*there_out = there;
	return 0;
}
#else
int rung__placement_look(const unsigned char *at, const struct rung__placement *place, uint32_t part_idx, uint64_t *count_out, uint64_t *there_out)
{
	(void)at;
	(void)place;
	(void)part_idx;
	*count_out = *there_out = 0;
	return ENOSYS;
}
#endif

double rung__placed_share(const void *memory, uint64_t bytes, uint32_t node, int *err_out)
{
	struct rung__placement place;
	uint64_t count = 0, there = 0;

	rung__placement_on(node, rung__align_up(bytes, RUNG__PAGE_BYTES), &place);
	*err_out = rung__placement_look(memory, &place, 0, &count, &there);
	return *err_out ? (double)NAN : (double)there / (double)count;
}

/* ---- huge pages ---- */

struct mapping {
	uint64_t begin, end;
	uint64_t resident, huge;
	bool told;
};

/* What of a mapping lies inside the memory, as far as can be told. */
static void add_mapping(struct rung__mapped *list, size_t count, const struct mapping *mapping)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t begin = (uint64_t)(uintptr_t)list[i].at, end = begin + list[i].bytes;
		double share;

		begin = RUNG__MAX(begin, mapping->begin);
		end = RUNG__MIN(end, mapping->end);
		if (begin >= end)
			continue;
		share = (double)(end - begin) / (double)(mapping->end - mapping->begin);
		list[i].resident_bytes += (uint64_t)(share * (double)mapping->resident);
		list[i].huge_bytes += (uint64_t)(share * (double)mapping->huge);
		list[i].told |= mapping->told;
	}
}

int rung__mapped_look(const char *smaps_path, struct rung__mapped *list, size_t count)
{
	struct mapping mapping = { .end = 0 };
	bool line_begins = true;
	char line[256], key[32];
	FILE *file = fopen(smaps_path, "re");

	if (!file)
		return errno;
	while (fgets(line, sizeof(line), file)) {
		unsigned long long begin, end;

		if (line_begins && sscanf(line, "%llx-%llx ", &begin, &end) == 2) {
			add_mapping(list, count, &mapping);
			mapping = (struct mapping){ .begin = begin, .end = end };
		} else if (line_begins && sscanf(line, "%31[^:]: %llu kB", key, &begin) == 2) {
			mapping.told |= strcmp(key, "AnonHugePages") == 0;
			if (strcmp(key, "Rss") == 0)
				mapping.resident = begin * 1024;
			else if (strcmp(key, "AnonHugePages") == 0 || strcmp(key, "ShmemPmdMapped") == 0 || strcmp(key, "FilePmdMapped") == 0)
				mapping.huge += begin * 1024;
		}
		line_begins = strchr(line, '\n') != NULL;
	}
	add_mapping(list, count, &mapping);
	fclose(file);
	return 0;
}
