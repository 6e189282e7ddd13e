/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long batches take, by what the machine was measured to do.
 *
 * Two things work side by side while two or more requests are in flight: the thread that gathers copies rows that are in memory and looks
 * up the rest, and the drive reads. So of a run of batches the longer of the two sums counts. What each takes is counted batch by batch on the
 * rows themselves: without announcements the cold-row cache keeps what the next batch wants, which is in flight, and in what room that leaves the
 * hottest ranks behind those of the host tier, from their first read on; rows in one read are found by the rule of refill_plan.c. A read of b bytes takes the time between two that were measured, of fewer and of more
 * bytes, at the depth that the slots allow.
 *
 * A GPU that gathers reads its own memory, other GPUs' and, over its link, the host's side by side in one kernel: of the three sums the longest
 * counts. Cold rows come over the link as well, out of slots and frames; the thread that hands them over does what they take of the one that
 * gathers on the CPU.
 */
#include <math.h>
#include <string.h>

#include "plan_internal.h"
#include "radix.h"

#define QUEUE_DEPTH_DEFAULT 64u
#define MISS_NS 60.0          /* of the thread that gathers, for a row that is not in memory: looked up, sorted, handed over */
#define ID_NS 4.0             /* and for any row */
#define READ_BYTES_MAX 131072u
#define GAP_BYTES_MAX 65536u

struct forecast {
	const struct rung_plan *plan;
	const struct rung_profile *profile;
	uint32_t depth;
	uint64_t align, read_bytes_max, gap_bytes;
	uint64_t frames, cold_first;
	unsigned char *seen;               /* [frames] the ranks behind cold_first: has been read */
	uint64_t *cold, *tmp;              /* [rows_max] rows of a batch that are not in host memory, ascending, each once; later those to be read */
	uint64_t *before;                  /* [before_count] those of the batch before */
	uint64_t before_count;
	double row_ns;
	double gpu_ns, peer_ns, link_ns;   /* of a row, on a GPU */
	double nvme_ns[RUNG__FILES_MAX];
	struct rung_forecast *out;
};

void rung_profile_assume(struct rung_profile *profile_out)
{
	/*
	 * A core that copies 6 GB/s of rows it finds at random, a drive of 400,000 reads a second and 3 GB/s, and a GPU with 1.5 TB/s to its memory,
	 * 100 GB/s to others' and 20 GB/s to the host's, which fetches 32 bytes at least.
	 */
	static const struct rung_profile_rows rows[] = { { 64, 30e6 }, { 512, 10e6 }, { 4096, 1.5e6 } };
	static const struct rung_profile_reads reads[] = {
		{ 4096, 1, 11e3 }, { 4096, 8, 85e3 }, { 4096, 32, 300e3 }, { 4096, 128, 400e3 },
		{ 131072, 1, 5e3 }, { 131072, 8, 20e3 }, { 131072, 32, 23e3 }, { 131072, 128, 23e3 },
	};

	static const struct rung_profile_rows gpu[] = { { 64, 8e9 }, { 512, 2.5e9 }, { 4096, 350e6 } };
	static const struct rung_profile_rows peer[] = { { 64, 700e6 }, { 512, 180e6 }, { 4096, 24e6 } };
	static const struct rung_profile_rows over_link[] = { { 64, 130e6 }, { 512, 36e6 }, { 4096, 4.8e6 } };

	*profile_out = (struct rung_profile){ .size = sizeof(*profile_out), .rows_count = RUNG__ARRAY_LEN(rows),
	                                      .reads_count = RUNG__ARRAY_LEN(reads), .gpu_rows_count = RUNG__ARRAY_LEN(gpu),
	                                      .peer_rows_count = RUNG__ARRAY_LEN(peer), .link_rows_count = RUNG__ARRAY_LEN(over_link) };
	memcpy(profile_out->rows, rows, sizeof(rows));
	memcpy(profile_out->reads, reads, sizeof(reads));
	memcpy(profile_out->gpu_rows, gpu, sizeof(gpu));
	memcpy(profile_out->peer_rows, peer, sizeof(peer));
	memcpy(profile_out->link_rows, over_link, sizeof(over_link));
}

const char *rung_bound_name(enum rung_bound bound)
{
	static const char *const names[] = { [RUNG_BOUND_MEMORY] = "host memory", [RUNG_BOUND_NVME] = "nvme", [RUNG_BOUND_GPU] = "gpu memory",
	                                     [RUNG_BOUND_PEER] = "peers", [RUNG_BOUND_LINK] = "link" };

	return (unsigned)bound < RUNG__ARRAY_LEN(names) ? names[bound] : NULL;
}

const char *rung_assumed_name(enum rung_assumed assumed)
{
	switch (assumed) {
	case RUNG_ASSUMED_GPU: return "gpu";
	case RUNG_ASSUMED_PEER: return "peer";
	case RUNG_ASSUMED_LINK: return "host";
	default: return NULL;
	}
}

/* ---- rates between those that were measured ---- */

/* Nanoseconds of a row: of sizes between two, between theirs; of larger ones as many bytes a second as the largest. */
static double row_ns(const struct rung_profile_rows *rows, uint32_t count, uint64_t row_bytes)
{
	const uint32_t last = count - 1;
	uint32_t i = 0;
	double low, high;

	while (i < last && rows[i].row_bytes < row_bytes)
		i++;
	if (i == 0 || rows[i].row_bytes < row_bytes)
		return 1e9 / rows[i].rows_per_s * RUNG__MAX((double)row_bytes / (double)rows[i].row_bytes, 1.0);
	low = 1e9 / rows[i - 1].rows_per_s;
	high = 1e9 / rows[i].rows_per_s;
	return low + (high - low) * (double)(row_bytes - rows[i - 1].row_bytes) / (double)(rows[i].row_bytes - rows[i - 1].row_bytes);
}

/* Reads a second of the size that measurement `first` is of, at a depth: between the two nearest in steps of doubling. */
static double rate_at(const struct rung_profile *profile, uint32_t first, uint32_t depth)
{
	const struct rung_profile_reads *reads = profile->reads;
	uint32_t i = first;
	double share;

	while (i + 1 < profile->reads_count && reads[i + 1].read_bytes == reads[first].read_bytes && reads[i].depth < depth)
		i++;
	if (i == first || reads[i].depth <= depth)
		return reads[i].reads_per_s;
	share = log2((double)depth / reads[i - 1].depth) / log2((double)reads[i].depth / reads[i - 1].depth);
	return reads[i - 1].reads_per_s + share * (reads[i].reads_per_s - reads[i - 1].reads_per_s);
}

/* The next size behind measurement i; reads_count when there is none. */
static uint32_t next_size(const struct rung_profile *profile, uint32_t i)
{
	const uint64_t bytes = profile->reads[i].read_bytes;

	while (i < profile->reads_count && profile->reads[i].read_bytes == bytes)
		i++;
	return i;
}

/* Nanoseconds from one read to the next of so many bytes. */
static double read_ns(const struct rung_profile *profile, uint32_t depth, uint64_t bytes)
{
	const struct rung_profile_reads *reads = profile->reads;
	uint32_t i = 0, next = next_size(profile, 0);
	double low, high;

	if (bytes <= reads[0].read_bytes || next == profile->reads_count)
		return 1e9 / rate_at(profile, 0, depth);
	while (reads[next].read_bytes < bytes && next_size(profile, next) < profile->reads_count) {
		i = next;
		next = next_size(profile, next);
	}
	low = 1e9 / rate_at(profile, i, depth);
	high = 1e9 / rate_at(profile, next, depth);
	return low + (high - low) * (double)(bytes - reads[i].read_bytes) / (double)(reads[next].read_bytes - reads[i].read_bytes);   /* beyond them, too */
}

/* What a read may skip: bytes that the drive reads in the time of another command, as io/gap.c measures it. */
static uint64_t gap_bytes(const struct rung_profile *profile, uint32_t depth)
{
	const struct rung_profile_reads *reads = profile->reads;
	uint32_t last = 0;

	for (uint32_t i = 0; i < profile->reads_count; i = next_size(profile, i))
		last = reads[i].read_bytes <= READ_BYTES_MAX ? i : last;
	if (last == 0)
		return 0;
	return (uint64_t)RUNG__MIN((double)reads[last].read_bytes * rate_at(profile, last, depth) / rate_at(profile, 0, depth), GAP_BYTES_MAX);
}

static uint32_t depth_best(const struct rung_profile *profile, uint64_t bytes)
{
	double most = 0;
	uint32_t best = 1;

	for (uint32_t depth = 1; depth <= 1024; depth *= 2)
		most = RUNG__MAX(most, 1 / read_ns(profile, depth, bytes));
	while (best < 1024 && 1 / read_ns(profile, best, bytes) < 0.95 * most)
		best *= 2;
	return best;
}

/* ---- a batch ---- */

/* Where a row begins in its file. In place it is anywhere, which is all that counts here. */
static uint64_t offset_of(const struct forecast *f, uint64_t rank)
{
	return f->plan->data_offset + rank * f->plan->row_stride;
}

static void add_read(struct forecast *f, uint64_t rank, uint64_t begin, uint64_t end)
{
	const struct rung_plan *plan = f->plan;
	const uint64_t file = plan->file_count > 1 ? rank / plan->block_rows % plan->file_count : 0;
	const uint64_t bytes = rung__align_up(end, f->align) - rung__align_down(begin, f->align);

	f->out->reads++;
	f->out->read_bytes += (double)bytes;
	f->nvme_ns[file] += read_ns(f->profile, f->depth, bytes);
}

/* Places in tmp, ascending. Blocks of several files are so large that neighbours in one lie as in a file of their own. */
static void add_reads(struct forecast *f, uint64_t count)
{
	uint64_t first, begin, end;

	for (uint64_t i = 0; i < count;) {
		first = f->tmp[i];
		begin = offset_of(f, first);
		end = begin + f->plan->row_bytes;
		for (i++; i < count; i++) {
			const uint64_t next = offset_of(f, f->tmp[i]);

			if (rung__align_down(next, f->align) > rung__align_up(end, f->align) + f->gap_bytes ||
			    rung__align_up(next + f->plan->row_bytes, f->align) - rung__align_down(begin, f->align) > f->read_bytes_max)
				break;
			end = next + f->plan->row_bytes;
		}
		add_read(f, first, begin, end);
	}
}

/* In place rows lie by vertex: as good as anywhere, whatever the rank. */
static uint64_t place_of(const struct forecast *f, uint64_t rank)
{
	return f->plan->vertices_bytes ? rung__mix64(rank) % f->plan->vertex_count : rank;
}

static uint64_t each_once(uint64_t *ranks, uint64_t count)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (kept == 0 || ranks[kept - 1] != ranks[i])
			ranks[kept++] = ranks[i];
	}
	return kept;
}

static uint64_t count_common(const struct forecast *f, uint64_t count)
{
	uint64_t common = 0;

	for (uint64_t i = 0, at = 0; i < count; i++) {
		while (at < f->before_count && f->before[at] < f->cold[i])
			at++;
		common += at < f->before_count && f->before[at] == f->cold[i];
	}
	return common;
}

/* Which of `count` cold rows are to be read: their places go to tmp. @return how many */
static uint64_t take_misses(struct forecast *f, uint64_t count)
{
	uint64_t room = f->frames, spare = room - RUNG__MIN(room, count_common(f, count)), misses = 0;

	for (uint64_t i = 0, at = 0; i < count; i++) {
		const uint64_t rank = f->cold[i], hot = rank - f->cold_first;
		bool hit = hot < spare && f->seen[hot];

		if (hot < f->frames)
			f->seen[hot] = 1;
		while (at < f->before_count && f->before[at] < rank)
			at++;
		if (!hit && room > 0 && at < f->before_count && f->before[at] == rank) {
			hit = true;
			room--;
		}
		if (hit)
			f->out->cache_hits++;
		else
			f->tmp[misses++] = place_of(f, rank);
	}
	return misses;
}

/* Of the rows dealt to several GPUs, those that the one which gathers has itself: when it poses as several. */
static bool is_own(const struct rung_plan *plan, uint64_t rank)
{
	const uint64_t row = rank - plan->tiers[RUNG__TIER_PEER].rank_first;

	return plan->device.gpus[row % plan->device.gpu_count] == plan->device.gpus[0];
}

/* What the GPU reads of a batch; ranks were checked. */
static void add_gpu(struct forecast *f, const uint64_t *ranks, uint64_t count)
{
	const struct rung_plan_tier *gpu = &f->plan->tiers[RUNG__TIER_GPU], *peer = &f->plan->tiers[RUNG__TIER_PEER];
	uint64_t own = 0, others = 0;

	for (uint64_t i = 0; i < count; i++) {
		const bool in_peer = ranks[i] - peer->rank_first < peer->row_count;
		const bool is_here = ranks[i] - gpu->rank_first < gpu->row_count || (in_peer && is_own(f->plan, ranks[i]));

		own += is_here;
		others += in_peer && !is_here;
	}
	f->out->gpu_seconds += (double)own * f->gpu_ns * 1e-9;
	f->out->peer_seconds += (double)others * f->peer_ns * 1e-9;
	f->out->link_seconds += (double)(count - own - others) * f->link_ns * 1e-9;
}

static int add_batch(struct forecast *f, const uint64_t *ranks, uint64_t count)
{
	const unsigned bits = 64u - (unsigned)__builtin_clzll(f->plan->vertex_count | 1);
	const bool on_gpu = f->plan->device.device == RUNG_DEVICE_CUDA;
	uint64_t cold = 0, hits = 0, misses;
	uint64_t *swap;

	for (uint64_t i = 0; i < count; i++) {
		if (ranks[i] >= f->plan->vertex_count)
			return rung__fail(RUNG_E_INVAL, "forecast: rank %" PRIu64 ", there are %" PRIu64 " vertices", ranks[i], f->plan->vertex_count);
		if (ranks[i] < f->cold_first)
			hits++;
		else
			f->cold[cold++] = ranks[i];
	}
	if (on_gpu)
		add_gpu(f, ranks, count);
	f->out->memory_seconds += ((on_gpu ? 0 : (double)count * ID_NS + (double)hits * f->row_ns) + (double)(count - hits) * MISS_NS) * 1e-9;
	rung__radix_sort_keys(&f->cold, &f->tmp, cold, bits);
	cold = each_once(f->cold, cold);
	misses = take_misses(f, cold);
	swap = f->before;
	f->before = f->cold;
	f->before_count = cold;
	f->cold = swap;
	if (f->plan->vertices_bytes)
		rung__radix_sort_keys(&f->tmp, &f->cold, misses, bits);
	add_reads(f, misses);
	return 0;
}

/* ---- all of them ---- */

/* Nanoseconds of a row by the profile, or by what is assumed, which is told of rungs that have rows. */
static double gpu_row_ns(struct forecast *f, const struct rung_profile_rows *rows, uint32_t count, const struct rung_profile_rows *assumed_rows,
                         uint32_t assumed_count, uint32_t assumed, bool has_rows)
{
	if (count)
		return row_ns(rows, count, f->plan->row_bytes);
	f->out->assumed |= has_rows ? assumed : 0;
	return row_ns(assumed_rows, assumed_count, f->plan->row_bytes);
}

static bool have_others(const struct rung_plan *plan)
{
	for (uint32_t i = 1; i < plan->device.gpu_count; i++) {
		if (plan->device.gpus[i] != plan->device.gpus[0])
			return true;
	}
	return false;
}

static void prepare_gpu(struct forecast *f)
{
	const struct rung_plan_tier *tiers = f->plan->tiers;
	const struct rung_profile *p = f->profile;
	const bool peers = tiers[RUNG__TIER_PEER].row_count > 0;
	struct rung_profile a;

	rung_profile_assume(&a);
	f->gpu_ns = gpu_row_ns(f, p->gpu_rows, p->gpu_rows_count, a.gpu_rows, a.gpu_rows_count, RUNG_ASSUMED_GPU,
	                       tiers[RUNG__TIER_GPU].row_count > 0 || peers);
	f->peer_ns = gpu_row_ns(f, p->peer_rows, p->peer_rows_count, a.peer_rows, a.peer_rows_count, RUNG_ASSUMED_PEER, peers && have_others(f->plan));
	f->link_ns = gpu_row_ns(f, p->link_rows, p->link_rows_count, a.link_rows, a.link_rows_count, RUNG_ASSUMED_LINK,
	                        tiers[RUNG__TIER_HOST].row_count + tiers[RUNG__TIER_NVME].row_count > 0);
}

static int prepare(struct forecast *f, const uint64_t *starts, uint64_t batch_count)
{
	const struct rung_plan *plan = f->plan;
	uint64_t rows_max = 1;

	if (plan->tiers[RUNG__TIER_NVME].row_count > 0 && f->profile->reads_count == 0)
		return rung__fail(RUNG_E_INVAL, "forecast: rows are to be read from files, and the profile has no reads: measure the drive that they are on "
		                  "(rung numa --dir)");
	for (uint64_t b = 0; b < batch_count; b++)
		rows_max = RUNG__MAX(rows_max, starts[b + 1] - starts[b]);
	f->cold = rung__malloc_array(rows_max, sizeof(*f->cold));
	f->tmp = rung__malloc_array(rows_max, sizeof(*f->tmp));
	f->before = rung__malloc_array(rows_max, sizeof(*f->before));
	f->seen = rung__zalloc_array(plan->cache.row_count, 1);
	if (!f->cold || !f->tmp || !f->before || !f->seen)
		return rung__fail(RUNG_E_NOMEM, "forecast: batches of %" PRIu64 " rows", rows_max);
	f->cold_first = plan->tiers[RUNG__TIER_NVME].rank_first;
	f->frames = plan->cache.row_count;
	f->align = RUNG__MAX(plan->sector_bytes, 1u);
	f->row_ns = row_ns(f->profile->rows, f->profile->rows_count, plan->row_bytes);
	if (plan->device.device == RUNG_DEVICE_CUDA)
		prepare_gpu(f);
	if (plan->slots.slot_count == 0)
		return 0;
	f->depth = (uint32_t)RUNG__MIN(f->depth, plan->slots.slot_count / plan->file_count);
	f->read_bytes_max = RUNG__MIN(plan->slots.slot_bytes, READ_BYTES_MAX);
	f->gap_bytes = rung__align_down(gap_bytes(f->profile, f->depth), f->align);
	f->out->depth = f->depth;
	f->out->gap_bytes = (uint32_t)f->gap_bytes;
	f->out->depth_best = depth_best(f->profile, rung__align_up(plan->row_bytes, f->align));
	return 0;
}

static void find_bound(struct rung_forecast *out)
{
	const struct {
		enum rung_bound bound;
		double seconds;
	} parts[] = {
		{ RUNG_BOUND_NVME, out->nvme_seconds }, { RUNG_BOUND_GPU, out->gpu_seconds }, { RUNG_BOUND_PEER, out->peer_seconds },
		{ RUNG_BOUND_LINK, out->link_seconds },
	};

	out->bound = RUNG_BOUND_MEMORY;
	out->seconds = out->memory_seconds;
	for (size_t i = 0; i < RUNG__ARRAY_LEN(parts); i++) {
		if (parts[i].seconds > out->seconds) {
			out->bound = parts[i].bound;
			out->seconds = parts[i].seconds;
		}
	}
}

static int add_all(struct forecast *f, const uint64_t *ranks, const uint64_t *starts, uint64_t batch_count)
{
	int rc = prepare(f, starts, batch_count);

	for (uint64_t b = 0; b < batch_count && rc == 0; b++)
		rc = add_batch(f, ranks + starts[b], starts[b + 1] - starts[b]);
	for (uint32_t file = 0; file < RUNG__FILES_MAX; file++)
		f->out->nvme_seconds = RUNG__MAX(f->out->nvme_seconds, f->nvme_ns[file] * 1e-9);
	find_bound(f->out);
	return rc;
}

int rung_plan_forecast(const struct rung_plan *plan, const struct rung_profile *profile, const uint64_t *ranks, const uint64_t *starts,
                       uint64_t batch_count, uint32_t queue_depth, struct rung_forecast *forecast_out)
{
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	struct rung_profile p = { 0 };   /* an older caller's has no GPUs */
	struct forecast f = { .plan = plan, .profile = &p, .depth = queue_depth ? queue_depth : QUEUE_DEPTH_DEFAULT, .out = &forecast };
	int rc = rung__opts_take(&p, sizeof(p), profile, "rung_profile");

	if (rc < 0)
		return rc;
	if (p.rows_count == 0 || p.rows_count > RUNG_PROFILE_ROWS_MAX || p.reads_count > RUNG_PROFILE_READS_MAX ||
	    p.gpu_rows_count > RUNG_PROFILE_ROWS_MAX || p.peer_rows_count > RUNG_PROFILE_ROWS_MAX || p.link_rows_count > RUNG_PROFILE_ROWS_MAX)
		return rung__fail(RUNG_E_INVAL, "forecast: the profile has no rates of rows");
	rc = add_all(&f, ranks, starts, batch_count);
	rung__free(f.cold);
	rung__free(f.tmp);
	rung__free(f.before);
	rung__free(f.seen);
	if (rc == 0)
		rc = rung__opts_give(forecast_out, &forecast, sizeof(forecast), "rung_forecast");
	return rc;
}
