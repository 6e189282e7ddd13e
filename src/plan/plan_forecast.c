/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time of batches, predicted from rates measured on the machine.
 *
 * While two or more requests are in flight, two resources work at the same time: gather threads
 * copy rows that are in memory and look up the rest, and the drive reads. For a run of batches the
 * longer of the two sums counts. Both are computed batch by batch from the rows themselves. Without
 * announcements the cold-row cache keeps the rows of the next batch, which is in flight, and in the
 * remaining frames the hottest ranks after those of the host tier, from their first read on. Rows
 * that share a read are found by the store's own rule. The time of a read of b bytes is
 * interpolated between measured sizes of its drive, at the depth that the slots allow. The cost of
 * a row in memory depends on the node of that memory (plan_interleave.c).
 *
 * A GPU that gathers reads its own memory, that of other GPUs and, over its link, host memory in
 * one kernel at the same time: the longest of the three sums counts. Cold rows, from slots and
 * frames, come over the link too; the thread that hands them over does the work that a gather
 * thread does for them on the CPU.
 */
#include <string.h>

#include "plan/plan.h"
#include "plan/profile_rates.h"
#include "sort/radix.h"
#include "rung/store.h"

/* work of a gather thread for a row that is not in memory: look up, sort, hand over */
#define MISS_NS 60.0
#define ID_NS   4.0 /* work for every row, in addition to copying it */

struct forecast {
	struct rung_plan *plan;
	struct rung_forecast_opts opts;
	struct rung__read_rule rule; /* which rows share a read, as in the store */
	uint64_t frames, cold_first; /* of the cache; first rank of the NVMe tier */
	/* [frames] by rank, from cold_first on: whether the row was read */
	unsigned char *seen;
	uint64_t rows_max; /* rows of the largest batch so far: size of the lists */
	/* [rows_max] cold: the cold ranks of a batch, ascending, each once; tmp: scratch of the
	 * sort, then the positions of the rows to be read */
	uint64_t *cold, *tmp;
	uint64_t *before; /* [before_count] ranks of the previous batch */
	uint64_t before_count;
	/* placements of rows in host memory that are compared; without a choice only the first is
	 * used */
	struct rung__interleave interleavings[2];
	uint32_t interleaving_count;
	/* work other than copying, of all gather threads or, with a GPU, of the thread that handles
	 * cold rows */
	double cpu_ns;
	double gpu_ns, peer_ns, link_ns;                  /* per row, on a GPU */
	struct rung__drive_reads drives[RUNG__FILES_MAX]; /* by file */
	double nvme_ns[RUNG__FILES_MAX];                  /* by file, sum of the reads so far */
	struct rung_forecast *out;
};

const char *rung_bound_name(enum rung_bound bound)
{
	static const char *const names[] = { [RUNG_BOUND_MEMORY] = "host memory",
		                             [RUNG_BOUND_NVME] = "nvme",
		                             [RUNG_BOUND_GPU] = "gpu memory",
		                             [RUNG_BOUND_PEER] = "peers",
		                             [RUNG_BOUND_LINK] = "link" };

	return (unsigned)bound < RUNG__ARRAY_LEN(names) ? names[bound] : NULL;
}

const char *rung_assumed_name(enum rung_assumed assumed)
{
	switch (assumed) {
	case RUNG_ASSUMED_GPU:
		return "gpu";
	case RUNG_ASSUMED_PEER:
		return "peer";
	case RUNG_ASSUMED_LINK:
		return "host";
	default:
		return NULL;
	}
}

/* ---- a batch ---- */

/* Offset of a row as if all rows were in one file: only distances and alignment matter. */
static uint64_t offset_of(const struct forecast *f, uint64_t rank)
{
	return f->plan->data_offset + rank * f->plan->row_stride;
}

/* Add the time of a read to that of the file's drive. The read has the bytes [begin, end), and its
 * first row is `rank`. */
static void add_read(struct forecast *f, uint64_t rank, uint64_t begin, uint64_t end)
{
	const struct rung_plan *plan = f->plan;
	const uint64_t file = plan->file_count > 1 ? rank / plan->block_rows % plan->file_count : 0;
	const uint64_t align = f->rule.align;
	const uint64_t bytes = rung__align_up(end, align) - rung__align_down(begin, align);

	f->out->reads++;
	f->out->read_bytes += (double)bytes;
	f->nvme_ns[file] += rung__read_ns(&f->drives[file], f->out->queue_depth, bytes);
}

/* Add the reads of the positions in tmp, which are ascending. All rows count as if in one file:
 * with several files, blocks are so large that the distances are nearly the same. */
static void add_reads(struct forecast *f, uint64_t count)
{
	uint64_t first, begin, end;

	for (uint64_t i = 0; i < count;) {
		first = f->tmp[i];
		begin = offset_of(f, first);
		end = begin + f->plan->row_bytes;
		for (i++; i < count; i++) {
			const uint64_t next = offset_of(f, f->tmp[i]);

			if (!rung__row_joins(&f->rule, begin, end, next))
				break;
			end = next + f->plan->row_bytes;
		}
		add_read(f, first, begin, end);
	}
}

/* Position of a rank's row. Rows staged in place are stored by vertex, and the plan has no map, so
 * any position represents a rank equally well. */
static uint64_t position_of(const struct forecast *f, uint64_t rank)
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

/* Cold rows that this batch and the previous one share: both lists are ascending. */
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

/*
 * Select the cold rows to be read: their positions go to tmp. Rows of the previous batch are in
 * flight and stay cached; the remaining frames hold the hottest cold ranks.
 * @return their number
 */
static uint64_t count_misses(struct forecast *f, uint64_t count)
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

static void add_hit(struct forecast *f, uint64_t rank)
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
static void add_gpu(struct forecast *f, const uint64_t *ranks, uint64_t count)
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

static int add_batch(struct forecast *f, const uint64_t *ranks, uint64_t count)
{
	const unsigned bits = 64u - (unsigned)__builtin_clzll(f->plan->vertex_count | 1);
	const bool on_gpu = f->plan->device.device == RUNG_DEVICE_CUDA;
	uint64_t cold = 0, misses;
	uint64_t *swap;

	for (uint64_t i = 0; i < count; i++) {
		if (ranks[i] >= f->plan->vertex_count)
			return rung__fail(RUNG_E_INVAL,
			                  "forecast: rank %" PRIu64
			                  " is out of range; there are %" PRIu64 " vertices",
			                  ranks[i], f->plan->vertex_count);
		if (ranks[i] >= f->cold_first)
			f->cold[cold++] = ranks[i];
		else if (!on_gpu)
			add_hit(f, ranks[i]);
	}
	if (on_gpu)
		add_gpu(f, ranks, count);
	f->cpu_ns += (on_gpu ? 0 : (double)count * ID_NS) + (double)cold * MISS_NS;
	rung__radix_sort_keys(&f->cold, &f->tmp, cold, bits);
	cold = each_once(f->cold, cold);
	misses = count_misses(f, cold);
	/* the next batch is compared with this one; the list of the batch before becomes scratch */
	swap = f->before;
	f->before = f->cold;
	f->before_count = cold;
	f->cold = swap;
	/* positions by vertex are not in the order of the ranks */
	if (f->plan->vertices_bytes)
		rung__radix_sort_keys(&f->tmp, &f->cold, misses, bits);
	add_reads(f, misses);
	return 0;
}

/* ---- all of them ---- */

/* Nanoseconds per row from the profile, or else assumed. An assumption is reported only for tiers
 * that have rows. */
static double gpu_row_ns(struct forecast *f, enum rung_assumed rung, bool has_rows)
{
	const double ns = rung__gpu_row_ns(f->opts.profile, rung, f->plan->row_bytes);

	if (ns > 0)
		return ns;
	f->out->assumed |= has_rows ? (uint32_t)rung : 0;
	return rung__gpu_row_ns_assumed(rung, f->plan->row_bytes);
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
	const bool peers = tiers[RUNG__TIER_PEER].row_count > 0;

	f->gpu_ns = gpu_row_ns(f, RUNG_ASSUMED_GPU, tiers[RUNG__TIER_GPU].row_count > 0 || peers);
	f->peer_ns = gpu_row_ns(f, RUNG_ASSUMED_PEER, peers && have_others(f->plan));
	f->link_ns =
		gpu_row_ns(f, RUNG_ASSUMED_LINK,
	                   tiers[RUNG__TIER_HOST].row_count + tiers[RUNG__TIER_NVME].row_count > 0);
}

/* The placements to compare, and the number of gather threads. */
static void prepare_cpu(struct forecast *f)
{
	const struct rung_plan *plan = f->plan;

	f->out->threads = f->opts.threads ? f->opts.threads : RUNG__MAX(plan->tuning.threads, 1u);
	f->interleaving_count =
		f->opts.keep_placement ? 1 : RUNG__MAX(plan->interleaving_count, 1u);
	f->interleavings[0].placement =
		f->interleaving_count > 1 ? plan->interleavings[0] : plan->placements.host;
	f->interleavings[1].placement = plan->interleavings[1];
}

static void prepare_reads(struct forecast *f)
{
	const struct rung_plan *plan = f->plan;
	const uint32_t gap =
		f->opts.merge_gap_bytes ? f->opts.merge_gap_bytes : f->out->tuning.merge_gap_bytes;

	for (uint32_t file = 0; file < plan->file_count; file++)
		f->drives[file] =
			rung__drive_reads(f->opts.profile, f->out->tuning.drive_idx[file]);
	f->out->queue_depth = f->opts.queue_depth ? f->opts.queue_depth : plan->queue_depth;
	f->out->queue_depth =
		(uint32_t)RUNG__MIN(f->out->queue_depth, plan->slots.slot_count / plan->file_count);
	f->out->merge_gap_bytes = gap == RUNG_MERGE_GAP_NONE ? 0 : gap;
	f->rule = (struct rung__read_rule){
		.row_bytes = plan->row_bytes,
		.align = RUNG__MAX(plan->sector_bytes, 1u),
		.merge_gap_bytes = f->out->merge_gap_bytes,
		.read_bytes_max = RUNG__MIN(plan->slots.slot_bytes, RUNG__READ_BYTES_MAX),
		.apart = f->opts.no_merge,
	};
}

static int prepare(struct forecast *f)
{
	const struct rung_plan *plan = f->plan;

	if (plan->tiers[RUNG__TIER_NVME].row_count > 0 && f->opts.profile->reads_count == 0)
		return rung__fail(RUNG_E_INVAL,
		                  "forecast: the plan has rows in files, but the profile has no "
		                  "read rates; measure the drive of the files (rung numa --dir)");
	f->seen = rung__zalloc_array(plan->cache.row_count, 1);
	if (!f->seen)
		return rung__fail(RUNG_E_NOMEM,
		                  "forecast: no memory for a cache of %" PRIu64 " rows",
		                  plan->cache.row_count);
	f->cold_first = plan->tiers[RUNG__TIER_NVME].rank_first;
	f->frames = plan->cache.row_count;
	rung__plan_choose(plan, f->opts.profile, &f->out->tuning);
	if (plan->device.device == RUNG_DEVICE_CUDA)
		prepare_gpu(f);
	else
		prepare_cpu(f);
	if (plan->slots.slot_count > 0)
		prepare_reads(f);
	return 0;
}

/* Make the lists large enough for a batch; doubling keeps the number of reallocations small. */
static int reserve(struct forecast *f, uint64_t rows)
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

/* Reset times and counts after the warm-up batches; the content of the cache stays. */
static void forget_times(struct forecast *f)
{
	f->out->reads = f->out->read_bytes = f->out->cache_hits = 0;
	f->out->gpu_seconds = f->out->peer_seconds = f->out->link_seconds = 0;
	f->cpu_ns = 0;
	memset(f->nvme_ns, 0, sizeof(f->nvme_ns));
	for (uint32_t s = 0; s < f->interleaving_count; s++)
		memset(f->interleavings[s].hits, 0, sizeof(f->interleavings[s].hits));
}

static int memory_seconds(struct forecast *f)
{
	const struct rung_tuning *kept = &f->plan->tuning;
	double ns[2] = { f->cpu_ns, 0 }; /* with a GPU there are no placements to compare */
	int rc = 0;

	for (uint32_t s = 0; s < f->interleaving_count; s++)
		ns[s] = rung__interleave_ns(f->plan, f->opts.profile, &f->interleavings[s],
		                            f->cpu_ns, f->out->threads);
	if (f->interleaving_count > 1)
		rc = rung__interleave_choose(f->plan, ns, &f->out->tuning);
	f->out->memory_seconds = ns[f->out->tuning.interleaved ? 1 : 0] * 1e-9;
	/* the placement has not changed, so its reason is kept */
	if (f->opts.keep_placement && f->plan->has_choice) {
		f->out->tuning.interleaved = kept->interleaved;
		memcpy(f->out->tuning.interleaved_why, kept->interleaved_why,
		       sizeof(kept->interleaved_why));
	}
	return rc;
}

static void find_bound(struct rung_forecast *out)
{
	const struct {
		enum rung_bound bound;
		double seconds;
	} parts[] = {
		{ RUNG_BOUND_NVME, out->nvme_seconds },
		{ RUNG_BOUND_GPU, out->gpu_seconds },
		{ RUNG_BOUND_PEER, out->peer_seconds },
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

static int add_batches(struct forecast *f, rung_forecast_next_fn next, void *ctx)
{
	const uint64_t *ranks;
	uint64_t batches = 0, count;
	int rc;

	while ((rc = next(ctx, &ranks, &count)) > 0) {
		if (batches++ == f->opts.warmup_batches)
			forget_times(f);
		rc = reserve(f, count);
		if (rc == 0)
			rc = add_batch(f, ranks, count);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && f->opts.warmup_batches && f->opts.warmup_batches >= batches)
		return rung__fail(RUNG_E_INVAL,
		                  "forecast: %" PRIu64 " of %" PRIu64
		                  " batches are for warm-up; leave at least one to measure",
		                  f->opts.warmup_batches, batches);
	return rc;
}

static int add_all(struct forecast *f, rung_forecast_next_fn next, void *ctx)
{
	int rc = prepare(f);

	if (rc == 0)
		rc = add_batches(f, next, ctx);
	if (rc < 0)
		return rc;
	for (uint32_t file = 0; file < RUNG__FILES_MAX; file++)
		f->out->nvme_seconds = RUNG__MAX(f->out->nvme_seconds, f->nvme_ns[file] * 1e-9);
	rc = memory_seconds(f);
	find_bound(f->out);
	return rc;
}

int rung_plan_forecast(struct rung_plan *plan, const struct rung_forecast_opts *opts,
                       rung_forecast_next_fn next, void *ctx, struct rung_forecast *forecast_out)
{
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	struct forecast f = { .plan = plan, .opts = RUNG_FORECAST_OPTS_INIT, .out = &forecast };
	int rc = rung__opts_copy_in(&f.opts, sizeof(f.opts), opts, "rung_forecast_opts");

	if (rc < 0)
		return rc;
	if (!f.opts.profile)
		return rung__fail(RUNG_E_INVAL,
		                  "forecast: a profile is needed; measure one with rung numa "
		                  "--json, or use rung_profile_assume() for typical rates");
	rc = rung__profile_check(f.opts.profile);
	if (rc < 0)
		return rc;
	rc = add_all(&f, next, ctx);
	rung__free(f.cold);
	rung__free(f.tmp);
	rung__free(f.before);
	rung__free(f.seen);
	if (rc == 0)
		rc = rung__opts_copy_out(forecast_out, &forecast, sizeof(forecast),
		                         "rung_forecast");
	return rc;
}
