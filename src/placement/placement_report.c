/* SPDX-License-Identifier: Apache-2.0 */
/* Reporting: the list that users see, the nodes of pages, huge pages, and the calls that the kernel
 * allows the process. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "placement/placement.h"
#include "rung/numa.h"
#include "rung_config.h"
#if RUNG_HAVE_NUMA
#include <numaif.h>
#endif

#define PAGES_QUERIED_MAX 16384u /* sampled pages of a large part */
#define PAGES_PER_QUERY   512u

/* ---- the list ---- */

static void list_slots(const struct rung__placement_set *placements,
                       const struct rung__placement_sizes *sizes, struct rung_placement *list)
{
	for (uint32_t f = 0; f < sizes->file_count; f++) {
		list[f] = (struct rung_placement){ .name = "slots",
			                           .bytes = sizes->slots_bytes,
			                           .block_bytes = sizes->slots_bytes };
		if (placements->slots[f] >= 0)
			list[f].nodes =
				(struct rung_id_list){ (const uint32_t *)&placements->slots[f], 1 };
	}
}

/* First row that begins at or after an offset: a row that crosses a border belongs to the part in
 * which it begins. */
static uint64_t first_row(const struct rung__placement_sizes *sizes, uint64_t at)
{
	return RUNG__MIN((at + sizes->row_stride - 1) / sizes->row_stride, sizes->row_count);
}

/* List the parts of a placement, or one entry without nodes.
 * @param rows  the parts are rows of the host tier */
static size_t list_parts(const char *name, const struct rung__placement *placement,
                         const struct rung__placement_sizes *sizes, uint64_t bytes, bool rows,
                         struct rung_placement *list)
{
	const struct rung__placement_part unplaced = { .bytes = bytes, .block_bytes = bytes };
	const struct rung__placement_part *parts =
		placement->part_count > 0 ? placement->parts : &unplaced;
	uint32_t count = RUNG__MAX(placement->part_count, 1u);
	uint64_t at = 0;

	for (uint32_t p = 0; p < count; p++) {
		const struct rung__placement_part *part = &parts[p];
		uint64_t end = at + part->bytes;

		list[p].name = name;
		list[p].bytes = part->bytes;
		list[p].block_bytes = part->block_bytes;
		if (placement->part_count > 0)
			list[p].nodes = (struct rung_id_list){ placement->nodes + part->node_first,
				                               part->node_count };
		if (rows) {
			list[p].rank_first = sizes->rank_first + first_row(sizes, at);
			list[p].row_count = first_row(sizes, end) - first_row(sizes, at);
		}
		at = end;
	}
	return count;
}

int rung__placement_set_list(const struct rung__placement_set *placements,
                             const struct rung__placement_sizes *sizes,
                             struct rung_placement **list_out, size_t *count_out)
{
	struct rung_placement *list = rung__zalloc_array(
		2 * RUNG__PLACEMENT_NODES_MAX + RUNG_FEATURE_FILES_MAX, sizeof(*list));
	uint64_t host_bytes =
		rung__align_up(sizes->row_count * sizes->row_stride, RUNG__PAGE_BYTES);
	size_t count = 0;

	if (!list)
		return rung__fail(RUNG_E_NOMEM, "no memory for a list of placements");
	if (sizes->row_count > 0)
		count += list_parts("host", &placements->host, sizes, host_bytes, true, list);
	list_slots(placements, sizes, list + count);
	count += sizes->file_count;
	if (sizes->frames_bytes > 0)
		count += list_parts("cache", &placements->frames, sizes, sizes->frames_bytes, false,
		                    list + count);
	*list_out = list;
	*count_out = count;
	return 0;
}

/* ---- location of pages ---- */

/* @return 0 or an errno value */
static int query_nodes(void **pages, unsigned count, int *nodes)
{
#if RUNG_HAVE_NUMA
	/* queries only, moves nothing */
	return move_pages(0, count, pages, NULL, nodes, 0) < 0 ? errno : 0;
#else
	(void)pages;
	(void)count;
	(void)nodes;
	return ENOSYS;
#endif
}

/*
 * The i-th of count pages that are sampled from total: one from each stretch, at a random position
 * in it, so that no regular pattern of blocks is missed.
 */
static uint64_t page_of(uint64_t i, uint64_t count, uint64_t pages)
{
	uint64_t stretch = pages / count;

	return i * stretch + (stretch > 1 ? rung__mix64(i) % stretch : 0);
}

/* The node that the placement has for an offset in a part. */
static uint32_t node_requested(const struct rung__placement *placement,
                               const struct rung__placement_part *part, uint64_t offset)
{
	return placement->nodes[part->node_first + offset / part->block_bytes % part->node_count];
}

int rung__placement_query(const unsigned char *at, const struct rung__placement *placement,
                          uint32_t part_idx, uint64_t *count_out, uint64_t *there_out)
{
	const struct rung__placement_part *part = &placement->parts[part_idx];
	uint64_t pages = part->bytes / RUNG__PAGE_BYTES,
		 count = RUNG__MIN(pages, PAGES_QUERIED_MAX), known = 0, there = 0;
	uint64_t offsets[PAGES_PER_QUERY];
	void *list[PAGES_PER_QUERY];
	int nodes[PAGES_PER_QUERY], first = 0, err;

	for (uint64_t done = 0; done < count; done += PAGES_PER_QUERY) {
		unsigned some = (unsigned)RUNG__MIN(count - done, PAGES_PER_QUERY);

		for (unsigned i = 0; i < some; i++) {
			offsets[i] = page_of(done + i, count, pages) * RUNG__PAGE_BYTES;
			list[i] = (void *)(at + offsets[i]);
			(void)*(const volatile unsigned char *)list[i];
		}
		err = query_nodes(list, some, nodes);
		if (err)
			return err;
		for (unsigned i = 0; i < some; i++) {
			known += nodes[i] >= 0;
			there += nodes[i] >= 0 &&
			         (uint32_t)nodes[i] == node_requested(placement, part, offsets[i]);
		}
		first = done == 0 ? nodes[0] : first;
	}
	if (known == 0)
		return -first;
	*count_out = known;
	*there_out = there;
	return 0;
}

double rung__placement_share(const void *memory, uint64_t bytes, uint32_t node, int *err_out)
{
	struct rung__placement placement;
	uint64_t count = 0, there = 0;

	rung__placement_on(node, rung__align_up(bytes, RUNG__PAGE_BYTES), &placement);
	*err_out = rung__placement_query(memory, &placement, 0, &count, &there);
	return *err_out ? (double)NAN : (double)there / (double)count;
}

/* ---- huge pages ---- */

/* One mapping of smaps. `reported` is set if it has a line on huge pages. */
struct mapping {
	uint64_t begin, end;
	uint64_t resident, huge;
	bool reported;
};

/* Add the part of a mapping that is inside the memory. smaps has only totals per mapping, so they
 * are divided in proportion. */
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
		list[i].reported |= mapping->reported;
	}
}

int rung__mapped_query(const char *smaps_path, struct rung__mapped *list, size_t count)
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
			mapping.reported |= strcmp(key, "AnonHugePages") == 0;
			if (strcmp(key, "Rss") == 0)
				mapping.resident = begin * 1024;
			else if (strcmp(key, "AnonHugePages") == 0 ||
			         strcmp(key, "ShmemPmdMapped") == 0 ||
			         strcmp(key, "FilePmdMapped") == 0)
				mapping.huge += begin * 1024;
		}
		line_begins = strchr(line, '\n') != NULL;
	}
	add_mapping(list, count, &mapping);
	fclose(file);
	return 0;
}

/* ---- calls that the process may use ---- */

/* Try mbind() and move_pages() on one page, and write the reason if the kernel refuses one. */
static void try_page(unsigned char *page, uint32_t node, struct rung_numa_policy *policy)
{
	int err = rung__placement_prefer(page, RUNG__PAGE_BYTES, node);
	double share;

	policy->can_bind = err == 0;
	if (err)
		snprintf(policy->bind_why, sizeof(policy->bind_why), "mbind: %s", strerror(err));
	*(volatile unsigned char *)page = 1; /* allocates the page */
	share = rung__placement_share(page, RUNG__PAGE_BYTES, node, &err);
	policy->can_query = err == 0;
	if (err)
		snprintf(policy->query_why, sizeof(policy->query_why), "move_pages: %s",
		         strerror(err));
	if (policy->can_bind && policy->can_query && share < 1) {
		snprintf(policy->bind_why, sizeof(policy->bind_why),
		         "mbind: a page for node %" PRIu32 " was placed on another node", node);
		policy->can_bind = 0;
	}
}

/* No file shows whether seccomp refuses the calls, so both are tried. */
int rung_numa_probe_policy(uint32_t node, struct rung_numa_policy *policy_out)
{
	struct rung_numa_policy policy = { .size = sizeof(policy) };
	unsigned char *page;

	if (node >= RUNG_NODES_MAX)
		return rung__fail(RUNG_E_INVAL,
		                  "rung_numa_probe_policy: node %" PRIu32
		                  " is out of range; use one below %d",
		                  node, RUNG_NODES_MAX);
	if (!RUNG_HAVE_NUMA) {
		snprintf(policy.bind_why, sizeof(policy.bind_why),
		         "rung was built without libnuma: %s", RUNG_WHY_NUMA);
		memcpy(policy.query_why, policy.bind_why, sizeof(policy.query_why));
		return rung__opts_copy_out(policy_out, &policy, sizeof(policy), "rung_numa_policy");
	}
	page = rung__map_pages(RUNG__PAGE_BYTES);
	if (!page)
		return rung__fail(RUNG_E_NOMEM, "rung_numa_probe_policy: no memory for a page");
	try_page(page, node, &policy);
	rung__unmap_pages(page, RUNG__PAGE_BYTES);
	return rung__opts_copy_out(policy_out, &policy, sizeof(policy), "rung_numa_policy");
}
