/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpolated rates of a machine profile, and the rates of a typical machine for use without a
 * profile. A profile has a few sizes and depths, and a plan needs others. Times are interpolated,
 * not rates, because the time of a row or a read is nearly linear in its bytes: a fixed cost plus
 * the bytes at the bandwidth.
 */
#include <math.h>
#include <string.h>

#include "plan/profile_rates.h"
#include "rung/numa.h"

/* A GPU with 1.5 TB/s to its memory, 100 GB/s to that of other GPUs and 20 GB/s to the host's.
 * It reads at least 32 bytes at a time. */
static const struct rung_profile_gpu_rows assumed_gpu[] = { { 64, 8e9 },
	                                                    { 512, 2.5e9 },
	                                                    { 4096, 350e6 } };
static const struct rung_profile_gpu_rows assumed_peer[] = { { 64, 700e6 },
	                                                     { 512, 180e6 },
	                                                     { 4096, 24e6 } };
static const struct rung_profile_gpu_rows assumed_link[] = { { 64, 130e6 },
	                                                     { 512, 36e6 },
	                                                     { 4096, 4.8e6 } };

void rung_profile_assume(struct rung_profile *profile_out)
{
	/* a core that copies 6 GB/s of random rows, and a drive of 400,000 reads per second and 3
	 * GB/s */
	static const struct rung_profile_rows rows[] = { { 0, 1, 0, 0, 64, 30e6 },
		                                         { 0, 1, 0, 0, 512, 10e6 },
		                                         { 0, 1, 0, 0, 4096, 1.5e6 } };
	static const struct rung_profile_reads reads[] = {
		{ 0, 4096, 1, 11e3 },    { 0, 4096, 8, 85e3 },     { 0, 4096, 32, 300e3 },
		{ 0, 4096, 128, 400e3 }, { 0, 131072, 1, 5e3 },    { 0, 131072, 8, 20e3 },
		{ 0, 131072, 32, 23e3 }, { 0, 131072, 128, 23e3 },
	};

	*profile_out = (struct rung_profile){ .size = sizeof(*profile_out),
		                              .rows_count = RUNG__ARRAY_LEN(rows),
		                              .drive_count = 1,
		                              .reads_count = RUNG__ARRAY_LEN(reads),
		                              .gpu_rows_count = RUNG__ARRAY_LEN(assumed_gpu),
		                              .peer_rows_count = RUNG__ARRAY_LEN(assumed_peer),
		                              .link_rows_count = RUNG__ARRAY_LEN(assumed_link) };
	memcpy(profile_out->rows, rows, sizeof(rows));
	memcpy(profile_out->reads, reads, sizeof(reads));
	memcpy(profile_out->gpu_rows, assumed_gpu, sizeof(assumed_gpu));
	memcpy(profile_out->peer_rows, assumed_peer, sizeof(assumed_peer));
	memcpy(profile_out->link_rows, assumed_link, sizeof(assumed_link));
}

/* ---- completeness ---- */

static bool is_rate(double rate)
{
	return isfinite(rate) && rate > 0;
}

/* Whether the rates are valid, and at least one of them is of a single core and its own node, which
 * row_ns_near() needs. */
static bool rows_ok(const struct rung_profile *profile)
{
	bool any = false;

	for (uint32_t i = 0; i < profile->rows_count; i++) {
		const struct rung_profile_rows *rows = &profile->rows[i];

		if (rows->row_bytes == 0 || !is_rate(rows->rows_per_s) || rows->threads == 0 ||
		    rows->cpu_node >= RUNG_NODES_MAX || rows->memory_node >= RUNG_NODES_MAX)
			return false;
		any |= !rows->all_cores && rows->cpu_node == rows->memory_node;
	}
	return any;
}

/* Drives are numbered without gaps, and the sizes and depths of a drive ascend strictly: the
 * functions below search them in this order. */
static bool ascends(const struct rung_profile_reads *a, const struct rung_profile_reads *b)
{
	if (a->drive != b->drive)
		return a->drive + 1 == b->drive;
	return a->read_bytes != b->read_bytes ? a->read_bytes < b->read_bytes : a->depth < b->depth;
}

static bool reads_ok(const struct rung_profile *profile)
{
	const struct rung_profile_reads *reads = profile->reads;

	for (uint32_t i = 0; i < profile->reads_count; i++) {
		if (reads[i].read_bytes == 0 || reads[i].depth == 0 ||
		    !is_rate(reads[i].reads_per_s) || (i > 0 && !ascends(&reads[i - 1], &reads[i])))
			return false;
	}
	if (profile->reads_count == 0)
		return profile->drive_count == 0;
	/* together with ascends(), this check shows that each drive has reads */
	return reads[0].drive == 0 &&
	       reads[profile->reads_count - 1].drive + 1 == profile->drive_count;
}

static bool gpu_rows_ok(const struct rung_profile_gpu_rows *rows, uint32_t count)
{
	if (count > RUNG_PROFILE_GPU_ROWS_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].row_bytes <= (i ? rows[i - 1].row_bytes : 0) ||
		    !is_rate(rows[i].rows_per_s))
			return false;
	}
	return true;
}

int rung__profile_check(const struct rung_profile *profile)
{
	if (profile->size != sizeof(*profile))
		return rung__fail(RUNG_E_ABI,
		                  "rung_profile: has %zu bytes, but this version of rung needs %zu",
		                  profile->size, sizeof(*profile));
	if (profile->rows_count == 0)
		return rung__fail(RUNG_E_INVAL, "the profile has no rates of gathering rows; "
		                                "measure them with rung numa --json");
	if (profile->rows_count > RUNG_PROFILE_ROWS_MAX ||
	    profile->reads_count > RUNG_PROFILE_READS_MAX ||
	    profile->drive_count > RUNG_PROFILE_DRIVES_MAX || !rows_ok(profile) ||
	    !reads_ok(profile) || !gpu_rows_ok(profile->gpu_rows, profile->gpu_rows_count) ||
	    !gpu_rows_ok(profile->peer_rows, profile->peer_rows_count) ||
	    !gpu_rows_ok(profile->link_rows, profile->link_rows_count))
		return rung__fail(RUNG_E_INVAL,
		                  "the profile has counts, sizes or rates that are out of range; "
		                  "load it with rung_profile_load(), which checks them");
	return 0;
}

/* ---- rows ---- */

/* A measured size and its rate; 0 bytes: not measured. */
struct point {
	uint64_t row_bytes;
	double rows_per_s;
};

/*
 * Nanoseconds per row from the nearest smaller size and the nearest size that is at least
 * row_bytes. Rows below all measured sizes take the time of the smallest.
 * @return 0: neither was measured
 */
static double ns_between(struct point low, struct point high, uint64_t row_bytes)
{
	double low_ns, high_ns;

	if (low.row_bytes == 0)
		return high.row_bytes ? 1e9 / high.rows_per_s : 0;
	low_ns = 1e9 / low.rows_per_s;
	if (high.row_bytes == 0)
		return low_ns * (double)row_bytes / (double)low.row_bytes;
	high_ns = 1e9 / high.rows_per_s;
	return low_ns + (high_ns - low_ns) * (double)(row_bytes - low.row_bytes) /
	                        (double)(high.row_bytes - low.row_bytes);
}

double rung__row_ns(const struct rung_profile *profile, enum rung__cores cores, uint32_t cpu_node,
                    uint32_t memory_node, uint64_t row_bytes)
{
	struct point low = { 0 }, high = { 0 };

	for (uint32_t i = 0; i < profile->rows_count && high.row_bytes == 0; i++) {
		const struct rung_profile_rows *rows = &profile->rows[i];

		if ((rows->all_cores != 0) != (cores == RUNG__CORES_ALL) ||
		    rows->cpu_node != cpu_node || rows->memory_node != memory_node)
			continue;
		/* sizes ascend: the last smaller one, and the first that is not smaller */
		*(rows->row_bytes < row_bytes ? &low : &high) =
			(struct point){ rows->row_bytes, rows->rows_per_s };
	}
	return ns_between(low, high, row_bytes);
}

double rung__row_ns_near(const struct rung_profile *profile, enum rung__cores cores,
                         uint64_t row_bytes, uint32_t *node_out)
{
	double least = 0;

	for (uint32_t i = 0; i < profile->rows_count; i++) {
		const uint32_t node = profile->rows[i].cpu_node;
		const double ns = rung__row_ns(profile, cores, node, node, row_bytes);

		if (ns > 0 && (least == 0 || ns < least)) {
			least = ns;
			if (node_out)
				*node_out = node;
		}
	}
	return least;
}

uint32_t rung__row_threads(const struct rung_profile *profile, uint32_t node)
{
	for (uint32_t i = 0; i < profile->rows_count; i++) {
		if (profile->rows[i].all_cores && profile->rows[i].cpu_node == node &&
		    profile->rows[i].memory_node == node)
			return profile->rows[i].threads;
	}
	return 0;
}

/* ---- rows that a GPU gathers ---- */

/* Like rung__row_ns(), for one list of rates of a GPU. */
static double gpu_row_ns(const struct rung_profile_gpu_rows *rows, uint32_t count,
                         uint64_t row_bytes)
{
	struct point low = { 0 }, high = { 0 };

	for (uint32_t i = 0; i < count && high.row_bytes == 0; i++)
		*(rows[i].row_bytes < row_bytes ? &low : &high) =
			(struct point){ rows[i].row_bytes, rows[i].rows_per_s };
	return ns_between(low, high, row_bytes);
}

double rung__gpu_row_ns(const struct rung_profile *profile, enum rung_assumed rung,
                        uint64_t row_bytes)
{
	switch (rung) {
	case RUNG_ASSUMED_GPU:
		return gpu_row_ns(profile->gpu_rows, profile->gpu_rows_count, row_bytes);
	case RUNG_ASSUMED_PEER:
		return gpu_row_ns(profile->peer_rows, profile->peer_rows_count, row_bytes);
	default:
		return gpu_row_ns(profile->link_rows, profile->link_rows_count, row_bytes);
	}
}

double rung__gpu_row_ns_assumed(enum rung_assumed rung, uint64_t row_bytes)
{
	switch (rung) {
	case RUNG_ASSUMED_GPU:
		return gpu_row_ns(assumed_gpu, RUNG__ARRAY_LEN(assumed_gpu), row_bytes);
	case RUNG_ASSUMED_PEER:
		return gpu_row_ns(assumed_peer, RUNG__ARRAY_LEN(assumed_peer), row_bytes);
	default:
		return gpu_row_ns(assumed_link, RUNG__ARRAY_LEN(assumed_link), row_bytes);
	}
}

/* ---- reads ---- */

struct rung__drive_reads rung__drive_reads(const struct rung_profile *profile, uint32_t drive)
{
	struct rung__drive_reads reads = { .list = profile->reads };

	while (reads.list->drive != drive)
		reads.list++;
	while (reads.list + reads.count < profile->reads + profile->reads_count &&
	       reads.list[reads.count].drive == drive)
		reads.count++;
	return reads;
}

/*
 * Reads per second at a depth, for the size of measurement `first`, which must be the first
 * measurement of that size. Below the smallest measured depth the latency is that of the smallest,
 * and above the largest the rate is that of the largest.
 */
static double rate_at(const struct rung__drive_reads *reads, uint32_t first, uint32_t depth)
{
	const struct rung_profile_reads *list = reads->list;
	uint32_t i = first;
	double latency, before;

	while (i + 1 < reads->count && list[i + 1].read_bytes == list[first].read_bytes &&
	       list[i].depth < depth)
		i++;
	if (list[i].depth <= depth)
		return list[i].reads_per_s;
	/* Little's law: latency is depth divided by rate */
	latency = list[i].depth / list[i].reads_per_s;
	if (i > first) {
		before = list[i - 1].depth / list[i - 1].reads_per_s;
		latency = before + (latency - before) * (depth - list[i - 1].depth) /
		                           (list[i].depth - list[i - 1].depth);
	}
	return depth / latency;
}

/* The first measurement of the next size after measurement i; the count after the last size. */
static uint32_t next_size(const struct rung__drive_reads *reads, uint32_t i)
{
	const uint64_t bytes = reads->list[i].read_bytes;

	while (i < reads->count && reads->list[i].read_bytes == bytes)
		i++;
	return i;
}

double rung__read_ns(const struct rung__drive_reads *reads, uint32_t depth, uint64_t bytes)
{
	const struct rung_profile_reads *list = reads->list;
	uint32_t i = 0, next = next_size(reads, 0);
	double low, high;

	if (bytes <= list[0].read_bytes || next == reads->count)
		return 1e9 / rate_at(reads, 0, depth);
	while (list[next].read_bytes < bytes && next_size(reads, next) < reads->count) {
		i = next;
		next = next_size(reads, next);
	}
	low = 1e9 / rate_at(reads, i, depth);
	high = 1e9 / rate_at(reads, next, depth);
	/* bytes beyond the largest size cost as much as between the last two */
	low += (high - low) * (double)(bytes - list[i].read_bytes) /
	       (double)(list[next].read_bytes - list[i].read_bytes);
	/* a noisy profile can have a negative slope, but longer reads never take less time */
	return bytes > list[next].read_bytes ? RUNG__MAX(low, high) : low;
}

double rung__read_byte_ns(const struct rung__drive_reads *reads, uint32_t depth)
{
	double least = 0;

	if (next_size(reads, 0) == reads->count)
		return 0;
	/* merged reads are not longer, so the bandwidth of longer reads does not count */
	for (uint32_t i = 0; i < reads->count && reads->list[i].read_bytes <= RUNG__READ_BYTES_MAX;
	     i = next_size(reads, i)) {
		const double ns =
			1e9 / rate_at(reads, i, depth) / (double)reads->list[i].read_bytes;

		least = least == 0 ? ns : RUNG__MIN(least, ns);
	}
	return least;
}

uint32_t rung__read_depth_max(const struct rung__drive_reads *reads)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < reads->count; i++)
		most = RUNG__MAX(most, reads->list[i].depth);
	return most;
}
