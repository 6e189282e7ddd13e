/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch of a forecast: the rows of each tier, the rows that the cold-row cache has, and the
 * reads of the others.
 */
#include "plan/forecast.h"
#include "sort/radix.h"

/* work of a gather thread for a row that is not in memory: look up, sort, hand over */
#define MISS_NS 60.0
#define ID_NS   4.0 /* work for every row, in addition to copying it */

/* Offset of a row as if all rows were in one file: only distances and alignment matter. */
static uint64_t offset_of(const struct rung__forecaster *f, uint64_t rank)
{
	return f->plan->data_offset + rank * f->plan->row_stride;
}

/* Add the time of a read to that of the file's drive. The read has the bytes [begin, end), and its
 * first row is `rank`. */
static void add_read(struct rung__forecaster *f, uint64_t rank, uint64_t begin, uint64_t end)
{
	const struct rung_plan *plan = f->plan;
	const uint64_t file = rung__row_file(&plan->layout, rank);
	const uint64_t align = f->rule.align;
	const uint64_t bytes = rung__align_up(end, align) - rung__align_down(begin, align);

	f->out->reads++;
	f->out->read_bytes += (double)bytes;
	f->nvme_ns[file] += rung__read_ns(&f->drives[file], f->out->queue_depth, bytes);
}

/* Add the reads of some positions, which are ascending. All rows count as if in one file:
 * with several files, blocks are so large that the distances are nearly the same. */
static void add_reads(struct rung__forecaster *f, const uint64_t *positions, uint64_t count)
{
	uint64_t first, begin, end;

	for (uint64_t i = 0; i < count;) {
		first = positions[i];
		begin = offset_of(f, first);
		end = begin + f->plan->row_bytes;
		for (i++; i < count; i++) {
			const uint64_t next = offset_of(f, positions[i]);

			if (!rung__row_joins(&f->rule, begin, end, next))
				break;
			end = next + f->plan->row_bytes;
		}
		add_read(f, first, begin, end);
	}
}

/* Position of a rank's row. Rows staged in place are stored by vertex, and the plan has no map, so
 * any position represents a rank equally well. */
static uint64_t position_of(const struct rung__forecaster *f, uint64_t rank)
{
	return f->plan->bytes.map ? rung__mix64(rank) % f->plan->vertex_count : rank;
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

/* Cold rows that this batch and the previous one share: both lists are ascending. */
static uint64_t count_common(const struct rung__forecaster *f, uint64_t count)
{
	uint64_t common = 0;

	for (uint64_t i = 0, at = 0; i < count; i++) {
		while (at < f->before_count && f->before[at] < f->cold[i])
			at++;
		common += at < f->before_count && f->before[at] == f->cold[i];
	}
	return common;
}

/*
 * Select the cold rows to be read: their positions go to tmp. Rows of the previous batch are in
 * flight and stay cached; the remaining frames hold the hottest cold ranks.
 * @return their number
 */
static uint64_t count_misses(struct rung__forecaster *f, uint64_t count)
{
	uint64_t free_frames = f->frames,
		 spare = free_frames - RUNG__MIN(free_frames, count_common(f, count)), misses = 0;

	for (uint64_t i = 0, at = 0; i < count; i++) {
		const uint64_t rank = f->cold[i], hot = rank - f->cold_first;
		bool hit = hot < spare && f->seen[hot];

		if (hot < f->frames)
			f->seen[hot] = 1;
		while (at < f->before_count && f->before[at] < rank)
			at++;
		if (!hit && free_frames > 0 && at < f->before_count && f->before[at] == rank) {
			hit = true;
			free_frames--;
		}
		if (hit)
			f->out->cache_hits++;
		else
			f->tmp[misses++] = position_of(f, rank);
	}
	return misses;
}

static void add_hit(struct rung__forecaster *f, uint64_t rank)
{
	const uint64_t at =
		(rank - f->plan->tiers[RUNG__TIER_HOST].rank_first) * f->plan->row_stride;

	for (uint32_t s = 0; s < f->interleaving_count; s++)
		f->interleavings[s].hits[rung__placement_at(&f->interleavings[s].placement, at)]++;
}

/* Whether an interleaved row is in the memory of the gathering GPU itself. That GPU may be listed
 * several times. */
static bool is_own(const struct rung_plan *plan, uint64_t rank)
{
	const uint64_t row = rank - plan->tiers[RUNG__TIER_PEER].rank_first;

	return plan->device.gpus[row % plan->device.gpu_count] == plan->device.gpus[0];
}

/* Add the time of the GPU's reads for a batch, whose ranks were checked. */
static void add_gpu(struct rung__forecaster *f, const uint64_t *ranks, uint64_t count)
{
	const struct rung_plan_tier *gpu = &f->plan->tiers[RUNG__TIER_GPU],
				    *peer = &f->plan->tiers[RUNG__TIER_PEER];
	uint64_t own = 0, others = 0;

	for (uint64_t i = 0; i < count; i++) {
		const bool in_peer = ranks[i] - peer->rank_first < peer->row_count;
		const bool is_here = ranks[i] - gpu->rank_first < gpu->row_count ||
		                     (in_peer && is_own(f->plan, ranks[i]));

		own += is_here;
		others += in_peer && !is_here;
	}
	f->out->gpu_seconds += (double)own * f->gpu_ns * 1e-9;
	f->out->peer_seconds += (double)others * f->peer_ns * 1e-9;
	f->out->link_seconds += (double)(count - own - others) * f->link_ns * 1e-9;
}

static int check_rank(const struct rung__forecaster *f, uint64_t rank)
{
	if (rank < f->plan->vertex_count)
		return 0;
	return rung__fail(RUNG_E_INVAL,
	                  "forecast: rank %" PRIu64 " is out of range; there are %" PRIu64
	                  " vertices",
	                  rank, f->plan->vertex_count);
}

/* Add the rows in memory, and list the others in f->cold. @return their number, or RUNG_E_INVAL */
static int64_t add_warm(struct rung__forecaster *f, const uint64_t *ranks, uint64_t count)
{
	const bool on_gpu = f->plan->device.device == RUNG_DEVICE_CUDA;
	uint64_t cold = 0;

	for (uint64_t i = 0; i < count; i++) {
		const int rc = check_rank(f, ranks[i]);

		if (rc < 0)
			return rc;
		if (ranks[i] >= f->cold_first)
			f->cold[cold++] = ranks[i];
		else if (!on_gpu)
			add_hit(f, ranks[i]);
	}
	if (on_gpu)
		add_gpu(f, ranks, count);
	f->cpu_ns += (on_gpu ? 0 : (double)count * ID_NS) + (double)cold * MISS_NS;
	return (int64_t)cold;
}

static unsigned rank_bits(const struct rung__forecaster *f)
{
	return 64u - (unsigned)__builtin_clzll(f->plan->vertex_count | 1);
}

int rung__forecast_add(struct rung__forecaster *f, const uint64_t *ranks, uint64_t count)
{
	int64_t listed = add_warm(f, ranks, count);
	uint64_t cold, misses;
	uint64_t *swap;

	if (listed < 0)
		return (int)listed;
	rung__radix_sort_keys(&f->cold, &f->tmp, (uint64_t)listed, rank_bits(f));
	cold = each_once(f->cold, (uint64_t)listed);
	misses = count_misses(f, cold);
	/* the next batch is compared with this one; the list of the batch before becomes scratch */
	swap = f->before;
	f->before = f->cold;
	f->before_count = cold;
	f->cold = swap;
	/* positions by vertex are not in the order of the ranks */
	if (f->plan->bytes.map)
		rung__radix_sort_keys(&f->tmp, &f->cold, misses, rank_bits(f));
	add_reads(f, f->tmp, misses);
	return 0;
}

int rung__forecast_check(const struct rung__forecaster *f, const uint64_t *ranks, uint64_t count)
{
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++)
		rc = check_rank(f, ranks[i]);
	return rc;
}

int rung__forecast_add_announced(struct rung__forecaster *f, const uint64_t *ranks, uint64_t count)
{
	struct rung__ahead_model *ahead = &f->ahead;
	const int64_t cold = add_warm(f, ranks, count);
	uint64_t misses;
	int rc;

	if (cold < 0)
		return (int)cold;
	misses = rung__ahead_model_gather(ahead, f->cold, (uint64_t)cold, f->tmp);
	f->out->cache_hits += (double)((uint64_t)cold - misses);
	if (f->plan->bytes.map) {
		for (uint64_t i = 0; i < misses; i++)
			f->tmp[i] = position_of(f, f->tmp[i]);
		rung__radix_sort_keys(&f->tmp, &f->cold, misses, rank_bits(f));
	}
	add_reads(f, f->tmp, misses);
	rc = rung__ahead_model_step(ahead);
	if (rc == 0)
		add_reads(f, ahead->rows, ahead->row_count);
	return rc;
}

/* Doubling keeps the number of reallocations small. */
int rung__forecast_reserve(struct rung__forecaster *f, uint64_t rows)
{
	uint64_t **lists[] = { &f->cold, &f->tmp, &f->before };

	if (rows <= f->rows_max)
		return 0;
	rows = RUNG__MAX(rows, 2 * f->rows_max);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(lists); i++) {
		uint64_t *larger = rung__realloc_array(*lists[i], rows, sizeof(*larger));

		if (!larger)
			return rung__fail(RUNG_E_NOMEM,
			                  "forecast: no memory for batches of %" PRIu64 " rows",
			                  rows);
		*lists[i] = larger;
	}
	f->rows_max = rows;
	return 0;
}
