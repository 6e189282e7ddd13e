/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time of batches, predicted from rates measured on the machine.
 *
 * While two or more requests are in flight, two resources work at the same time: gather threads
 * copy rows that are in memory and look up the rest, and the drive reads. For a run of batches the
 * longer of the two sums counts. Both are computed batch by batch from the rows themselves. With
 * announced batches the store's cache decides which rows are kept and which are read ahead. Without
 * announcements it keeps the rows of the next batch, which is in flight, and in the
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

#include "plan/forecast.h"
#include "plan/record.h"
#include "rung/store.h"

const char *rung_bound_name(enum rung_bound bound)
{
	static const char *const names[] = { [RUNG_BOUND_MEMORY] = "memory",
		                             [RUNG_BOUND_NVME] = "drive",
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

/* Nanoseconds per row from the profile, or else assumed. An assumption is reported only for tiers
 * that have rows. */
static double gpu_row_ns(struct rung__forecaster *f, enum rung_assumed rung, bool has_rows)
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

static void prepare_gpu(struct rung__forecaster *f)
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
static void prepare_cpu(struct rung__forecaster *f)
{
	const struct rung_plan *plan = f->plan;

	f->out->threads = f->opts.threads ? f->opts.threads : RUNG__MAX(plan->tuning.threads, 1u);
	f->interleaving_count =
		f->opts.keep_placement ? 1 : RUNG__MAX(plan->interleaving_count, 1u);
	f->interleavings[0].placement =
		f->interleaving_count > 1 ? plan->interleavings[0] : plan->placements.host;
	f->interleavings[1].placement = plan->interleavings[1];
}

static void prepare_reads(struct rung__forecaster *f)
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

static int prepare(struct rung__forecaster *f)
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

/* Reset times and counts after the warm-up batches; the content of the cache stays. */
static void forget_times(struct rung__forecaster *f)
{
	f->out->reads = f->out->read_bytes = f->out->cache_hits = 0;
	f->out->gpu_seconds = f->out->peer_seconds = f->out->link_seconds = 0;
	f->cpu_ns = 0;
	memset(f->nvme_ns, 0, sizeof(f->nvme_ns));
	for (uint32_t s = 0; s < f->interleaving_count; s++)
		memset(f->interleavings[s].hits, 0, sizeof(f->interleavings[s].hits));
}

static int memory_seconds(struct rung__forecaster *f)
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

static int fail_warmup(const struct rung__forecaster *f, uint64_t batches)
{
	return rung__fail(RUNG_E_INVAL,
	                  "forecast: %" PRIu64 " of %" PRIu64
	                  " batches are for warm-up; leave at least one to measure",
	                  f->opts.warmup_batches, batches);
}

static int add_batches(struct rung__forecaster *f, rung_forecast_next_fn next, void *ctx)
{
	const uint64_t *ranks;
	uint64_t batches = 0, count;
	int rc;

	while ((rc = next(ctx, &ranks, &count)) > 0) {
		if (batches++ == f->opts.warmup_batches)
			forget_times(f);
		rc = rung__worked("forecast", count * RUNG__WORK_ROW);
		if (rc == 0)
			rc = rung__forecast_reserve(f, count);
		if (rc == 0)
			rc = rung__forecast_add(f, ranks, count);
		if (rc < 0)
			return rc;
	}
	return rc == 0 && f->opts.warmup_batches && f->opts.warmup_batches >= batches
	               ? fail_warmup(f, batches)
	               : rc;
}

/* ---- announced batches ---- */

/* Record all batches, each ascending and distinct, because they are announced before they are
 * gathered. */
static int record_batches(struct rung__forecaster *f, rung_forecast_next_fn next, void *ctx,
                          struct rung__record *record)
{
	const uint64_t *ranks;
	uint64_t count;
	int rc;

	while ((rc = next(ctx, &ranks, &count)) > 0) {
		rc = rung__worked("forecast", count * RUNG__WORK_ROW);
		if (rc == 0)
			rc = rung__forecast_check(f, ranks, count);
		if (rc == 0)
			rc = rung__forecast_reserve(f, count);
		if (rc == 0)
			rc = rung__record_distinct(record, ranks, count);
		if (rc < 0)
			return rc;
	}
	return rc == 0 && f->opts.warmup_batches && f->opts.warmup_batches >= record->batches
	               ? fail_warmup(f, record->batches)
	               : rc;
}

/* Announce a batch: its cold rows are the last ones. */
static void announce(struct rung__forecaster *f, const struct rung__record *record, uint64_t batch)
{
	uint64_t first = batch ? record->ends[batch - 1] : 0;
	const uint64_t end = record->ends[batch];

	while (first < end && record->ids[first] < f->cold_first)
		first++;
	rung__ahead_model_announce(&f->ahead, record->ids + first, end - first);
}

/* Scale times and counts, which are those of some of the batches. */
static void scale_times(struct rung__forecaster *f, double factor)
{
	f->out->reads *= factor;
	f->out->read_bytes *= factor;
	f->out->cache_hits *= factor;
	f->out->gpu_seconds *= factor;
	f->out->peer_seconds *= factor;
	f->out->link_seconds *= factor;
	f->cpu_ns *= factor;
	for (uint32_t file = 0; file < RUNG__FILES_MAX; file++)
		f->nvme_ns[file] *= factor;
	for (uint32_t s = 0; s < f->interleaving_count; s++) {
		for (unsigned n = 0; n < RUNG__PLACEMENT_NODES_MAX; n++)
			f->interleavings[s].hits[n] =
				(uint64_t)((double)f->interleavings[s].hits[n] * factor);
	}
}

/*
 * All batches of the record, of which the middle ones count: in the first ones the sweep has not
 * passed all rows, and the last ones have fewer announced batches behind them than others of an
 * epoch.
 */
static int add_announced(struct rung__forecaster *f, const struct rung__record *record)
{
	const uint64_t batches = record->batches, third = batches / 3,
		       ahead = RUNG__MIN(f->opts.look_ahead, third),
		       from = RUNG__MIN(RUNG__MAX(f->opts.warmup_batches, third),
	                                batches - ahead - 1),
		       end = batches - ahead;
	uint64_t announced = 0;
	int rc = 0;

	for (uint64_t i = 0; i < end && rc == 0; i++) {
		const uint64_t first = i ? record->ends[i - 1] : 0;

		if (i == from)
			forget_times(f);
		for (; announced < batches && announced <= i + ahead; announced++)
			announce(f, record, announced);
		rc = rung__worked("forecast", (record->ends[i] - first) * RUNG__WORK_ROW);
		if (rc == 0)
			rc = rung__forecast_add_announced(f, record->ids + first,
			                                  record->ends[i] - first);
	}
	scale_times(f, (double)(batches - f->opts.warmup_batches) / (double)(end - from));
	f->out->window_batches = f->ahead.window_batches;
	return rc;
}

static int add_recorded(struct rung__forecaster *f, rung_forecast_next_fn next, void *ctx)
{
	struct rung__record record = { 0 };
	int rc = record_batches(f, next, ctx, &record);

	if (rc == 0 && record.batches > 0) {
		rc = rung__ahead_model_open(f->plan, f->opts.window, record.count, &f->ahead);
		f->ahead.ahead.near_rows = rung__rule_near_rows(&f->rule, f->plan->row_stride);
		if (rc == 0)
			rc = add_announced(f, &record);
		rung__ahead_model_close(&f->ahead);
	}
	rung__record_fini(&record);
	return rc;
}

static int add_all(struct rung__forecaster *f, rung_forecast_next_fn next, void *ctx)
{
	int rc = prepare(f);

	if (rc == 0)
		rc = f->opts.look_ahead > 0 && f->frames > 0 ? add_recorded(f, next, ctx)
		                                             : add_batches(f, next, ctx);
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
	struct rung__forecaster f = { .plan = plan,
		                      .opts = RUNG_FORECAST_OPTS_INIT,
		                      .out = &forecast };
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
