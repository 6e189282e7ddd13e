/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dividing the host budget between rows, lists of the graph and the cold-row cache.
 *
 * Every division is a plan, and a forecast counts the device reads that the sampled batches need
 * with it: merged reads, reused rows and the limits of slots included. So divisions are compared by
 * what they cost instead of by a model of hit curves. The reads are nearly convex in each part, so
 * a coarse grid and a few steps of half the distance find the best division.
 */
#include <math.h>
#include <string.h>

#include "divide/divide.h"
#include "plan/plan.h"

/* ids of rows and blocks that are recorded: more batches hardly change the result */
#define IDS_MAX     (2u << 20)
#define BATCHES_MIN 2u /* batches that are recorded even if they exceed that */
#define GRID        8u /* divisions of the first round, less one */
#define STEPS       3u /* rounds of half the distance */
#define CACHE_STEPS 7u
/* of the budget without lists, for the cache, which also holds the rows that are read ahead */
static const double cache_shares[CACHE_STEPS] = { 0, 0.0625, 0.125, 0.25, 0.5, 0.75, 0.9 };

/* A division and the reads per batch that it needs. */
struct split {
	uint64_t structure_bytes, cache_bytes; /* cache RUNG_BYTES_MAX: all that is left */
	double row_reads, list_reads;          /* infinite: the budget cannot hold it */
};

struct divider {
	const struct rung_dataset *ds;
	struct rung_plan_opts opts;
	uint64_t host_bytes; /* the budget, with its default filled in */
	uint64_t kept_cache; /* of the caller, if keeps_cache; as in struct split */
	struct rung_forecast_opts forecast_opts;
	struct rung_profile assumed;
	uint64_t lists_bytes;              /* all lists */
	bool keeps_structure, keeps_cache; /* given by the caller */
	struct rung__record rows, blocks;  /* of the sampled batches */
	uint64_t batches;
	uint32_t tried;
	struct split best;
};

static double total(const struct split *split)
{
	return split->row_reads + split->list_reads;
}

/* Count the reads of a plan for the recorded batches. The first half of the batches only fills the
 * cache. */
static int count_reads(struct divider *div, struct rung_plan *plan, struct split *split)
{
	struct rung_forecast forecast = { .size = sizeof(forecast) };
	struct rung_forecast_opts opts = div->forecast_opts;
	int rc;

	opts.warmup_batches = div->batches / 2;
	rc = rung_plan_forecast(plan, &opts, rung__record_next, &div->rows, &forecast);
	if (rc < 0)
		return rc;
	split->row_reads = forecast.reads / (double)(div->batches - opts.warmup_batches);
	split->list_reads = 0;
	if (!plan->structure)
		return 0;
	rc = rung_plan_forecast(plan->structure, &div->forecast_opts, rung__record_next,
	                        &div->blocks, &forecast);
	split->list_reads = forecast.reads / (double)div->batches;
	return rc;
}

/* A number of bytes as an option, of which 0 is the default. */
static uint64_t option_of(uint64_t bytes)
{
	return bytes ? bytes : RUNG_BYTES_NONE;
}

/* Evaluate a division of `host_bytes`. A budget that is too small for it is not a failure. */
static int evaluate(struct divider *div, uint64_t host_bytes, struct split *split)
{
	struct rung_plan_opts opts = div->opts;
	struct rung_plan *plan;
	int rc;

	split->row_reads = split->list_reads = INFINITY;
	opts.host_bytes = option_of(host_bytes);
	opts.structure_bytes = split->structure_bytes;
	opts.cache_share = 0;
	opts.cache_bytes = option_of(split->cache_bytes);
	rc = rung_plan_create(div->ds, &opts, &plan);
	if (rc == RUNG_E_INVAL)
		return 0;
	if (rc < 0)
		return rc;
	rc = count_reads(div, plan, split);
	rung_plan_destroy(plan);
	return rc;
}

/* Evaluate a division of the budget, and keep it if it is the best so far. */
static int try(struct divider *div, uint64_t structure_bytes, double cache_share)
{
	const uint64_t rest = div->host_bytes - structure_bytes;
	struct split split = { .structure_bytes = structure_bytes,
		               .cache_bytes = div->keeps_cache
		                                      ? div->kept_cache
		                                      : (uint64_t)((double)rest * cache_share) };
	const int rc = evaluate(div, div->host_bytes, &split);

	div->tried++;
	if (rc == 0 && (total(&split) < total(&div->best) || div->tried == 1))
		div->best = split;
	return rc;
}

/* The best cache so far, as a share of what other lists leave of the budget. */
static double best_cache_share(const struct divider *div, uint64_t structure_bytes)
{
	const uint64_t rest = div->host_bytes - structure_bytes;

	return rest ? RUNG__MIN((double)div->best.cache_bytes / (double)rest, 1.0) : 0;
}

/* Search between `least` and `most` bytes of lists, then for the cache, then for lists again. */
static int search_structure(struct divider *div, uint64_t least, uint64_t most)
{
	uint64_t step = (most - least) / GRID;
	int rc = 0;

	for (uint64_t i = step ? 0 : GRID; i <= GRID && rc == 0; i++)
		rc = try(div, i < GRID ? least + i * step : most, cache_shares[2]);
	for (uint32_t i = 0; i < CACHE_STEPS && rc == 0 && !div->keeps_cache; i++)
		rc = try(div, div->best.structure_bytes, cache_shares[i]);
	/* again, twice as fine: a large cache moves the best lists, and windows are uneven */
	for (uint64_t i = step ? 0 : 2 * GRID; i <= 2 * GRID && rc == 0 && !div->keeps_cache; i++) {
		const uint64_t at = i < 2 * GRID ? least + i * step / 2 : most;

		rc = try(div, at, best_cache_share(div, at));
	}
	for (uint32_t i = 0; i < STEPS && rc == 0; i++) {
		const uint64_t middle = div->best.structure_bytes;

		step /= 2;
		if (step < RUNG__PAGE_BYTES)
			break;
		if (middle >= least + step)
			rc = try(div, middle - step, best_cache_share(div, middle - step));
		if (rc == 0 && middle + step <= most)
			rc = try(div, middle + step, best_cache_share(div, middle + step));
	}
	return rc;
}

/* The smallest number of bytes for lists: their slots. */
static int least_structure(struct divider *div, uint64_t *least_out)
{
	struct rung_plan_opts opts = div->opts;
	struct rung_plan *plan;
	int rc;

	opts.host_bytes = RUNG_BYTES_MAX;
	opts.structure_bytes = 1;
	rc = rung_plan_create(div->ds, &opts, &plan);
	if (rc == 0) /* one byte is enough for all lists */
		rung_plan_destroy(plan);
	*least_out = rc == 0 ? 1 : rung_last_error_min_bytes();
	return rc == RUNG_E_INVAL && *least_out > 0 ? 0 : rc;
}

/* Report a budget that is too small for any division, with the least that works. */
static int fail_budget(struct divider *div)
{
	const uint64_t all = rung__align_up(div->lists_bytes, RUNG__LIST_BLOCK_BYTES);
	struct rung_plan_opts opts = div->opts;
	struct rung_plan *plan;
	uint64_t least = opts.structure_bytes;
	int rc = 0;

	if (!div->keeps_structure) {
		rc = least_structure(div, &least);
		least = opts.structure_bytes = RUNG__MAX(RUNG__MIN(least, all), 1u);
	}
	if (rc < 0)
		return rc;
	/* the error of this plan has the sum of lists and rows */
	opts.host_bytes = option_of(div->host_bytes);
	rc = rung_plan_create(div->ds, &opts, &plan);
	if (rc == 0)
		rung_plan_destroy(plan);
	else if (div->keeps_structure || rung_last_error_min_bytes() == 0)
		return rc;
	else
		least = rung_last_error_min_bytes();
	return rung__fail_min_bytes(
		least,
		"a host budget of %" PRIu64
		" bytes cannot hold the staging slots of rows and lists; give at least %" PRIu64
		" bytes",
		div->host_bytes, least);
}

/* If all rows are in memory, the lists use what the rows leave. */
static int use_rest(struct divider *div)
{
	struct split more = div->best;
	struct rung_plan_opts opts = div->opts;
	struct rung_plan *plan;
	uint64_t rows_bytes;
	int rc;

	if (div->keeps_structure || isinf(total(&div->best)))
		return 0;
	opts.host_bytes = option_of(div->host_bytes);
	opts.structure_bytes = div->best.structure_bytes;
	rc = rung_plan_create(div->ds, &opts, &plan);
	if (rc < 0)
		return rc;
	rows_bytes = plan->tiers[RUNG__TIER_HOST].row_count * plan->row_stride + plan->graph.bytes -
	             plan->graph.gpu_bytes;
	if (plan->slots.slot_count == 0 && rows_bytes < div->host_bytes - more.structure_bytes) {
		more.structure_bytes = div->host_bytes - rows_bytes;
		rc = evaluate(div, div->host_bytes, &more);
		if (rc == 0 && total(&more) <= total(&div->best))
			div->best = more;
	}
	rung_plan_destroy(plan);
	return rc;
}

static int search(struct divider *div)
{
	uint64_t least, most, left = div->host_bytes;
	int rc;

	if (div->keeps_structure || div->lists_bytes == 0) {
		const uint64_t kept =
			div->keeps_structure ? div->opts.structure_bytes : RUNG_BYTES_MAX;
		const uint64_t bytes =
			RUNG__MIN(kept, RUNG__MIN(div->lists_bytes, div->host_bytes));

		return search_structure(div, bytes, bytes);
	}
	rc = least_structure(div, &least);
	if (rc < 0)
		return rc;
	least = RUNG__MIN(least, div->lists_bytes);
	if (div->keeps_cache && div->kept_cache != RUNG_BYTES_MAX)
		left -= RUNG__MIN(div->kept_cache, left);
	most = RUNG__MIN(div->lists_bytes, left);
	return search_structure(div, least, RUNG__MAX(least, most));
}

/* The reads per batch that one more MiB of each part saves, from plans with a larger budget. A part
 * that is complete saves nothing. */
static int marginal(struct divider *div, struct rung_plan_division *out)
{
	const uint64_t more = RUNG__MAX(UINT64_C(1) << 20, div->host_bytes / 64);
	const struct split best = div->best;
	struct split splits[] = { best, best, best };
	double *saved[] = { &out->rows_saved, &out->structure_saved, &out->cache_saved };
	const bool complete[] = { false, best.structure_bytes >= div->lists_bytes,
		                  best.cache_bytes == RUNG_BYTES_MAX };

	splits[1].structure_bytes += more;
	splits[2].cache_bytes += complete[2] ? 0 : more;
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(saved); i++) {
		int rc;

		*saved[i] = 0;
		if (complete[i])
			continue;
		rc = evaluate(div, div->host_bytes + more, &splits[i]);
		if (rc < 0)
			return rc;
		/* a difference of two counts of sampled reads: below zero is noise */
		*saved[i] = RUNG__MAX(total(&best) - total(&splits[i]), 0.0) *
		            (double)(UINT64_C(1) << 20) / (double)more;
	}
	return 0;
}

/* ---- sampling ---- */

/* Record batches until enough ids are recorded. */
static int record(struct rung__recorded *sample, uint64_t ids_max, struct rung__batches *batches)
{
	const uint64_t *ranks;
	uint64_t count;
	int rc = 0;

	batches->blocks = &sample->blocks;
	while ((sample->rows.count + sample->blocks.count < ids_max ||
	        sample->rows.batches < BATCHES_MIN) &&
	       (rc = rung__batches_next(batches, &ranks, &count)) > 0) {
		rc = rung__record_sorted(&sample->rows, ranks, count);
		if (rc < 0)
			return rc;
	}
	sample->per_epoch = batches->per_epoch;
	sample->hop_count = batches->sampler->hop_count;
	return rc < 0 ? rc : 0;
}

/* Open a structure from which the batches are sampled. It uses half of the budget, or the least
 * that works. */
static int open_structure(struct divider *div, struct rung_structure **structure_out)
{
	struct rung_plan_opts opts = div->opts;
	struct rung_plan *plan;
	int rc;

	opts.host_bytes = option_of(div->host_bytes);
	opts.structure_bytes = RUNG__MAX(div->host_bytes / 2, 1u);
	if (opts.structure_bytes >= div->lists_bytes)
		opts.structure_bytes = RUNG_BYTES_MAX;
	rc = rung_plan_create(div->ds, &opts, &plan);
	if (rc == RUNG_E_INVAL) {
		rc = least_structure(div, &opts.structure_bytes);
		/* a budget that is too small fails here, with the least that works */
		if (rc == 0)
			rc = rung_plan_create(div->ds, &opts, &plan);
	}
	if (rc < 0)
		return rc;
	rc = rung_structure_open(div->ds, plan, NULL, structure_out);
	rung_plan_destroy(plan);
	return rc;
}

/* The budget in bytes, also if the caller left it to the default, and of the cache if the caller
 * decided about it. */
static int fix_budgets(struct divider *div)
{
	struct rung_plan_opts opts = div->opts;
	struct rung_plan *plan;
	int rc;

	div->host_bytes = opts.host_bytes;
	if (opts.host_bytes == 0) {
		opts.structure_bytes = 0;
		rc = rung_plan_create(div->ds, &opts, &plan);
		if (rc < 0)
			return rc;
		div->host_bytes = plan->bytes.host;
		rung_plan_destroy(plan);
	} else if (opts.host_bytes == RUNG_BYTES_NONE) {
		div->host_bytes = 0;
	}
	div->keeps_cache = opts.cache_bytes != 0 || opts.cache_share > 0;
	if (opts.cache_share > 0)
		div->kept_cache = rung__share_of(div->host_bytes, opts.cache_share);
	else if (opts.cache_bytes != RUNG_BYTES_NONE)
		div->kept_cache = opts.cache_bytes;
	return 0;
}

static struct rung_plan_division result(const struct divider *div)
{
	return (struct rung_plan_division){
		.size = sizeof(struct rung_plan_division),
		.host_bytes = option_of(div->host_bytes),
		.structure_bytes = div->best.structure_bytes >= div->lists_bytes
		                           ? RUNG_BYTES_MAX
		                           : div->best.structure_bytes,
		.cache_bytes = option_of(div->best.cache_bytes),
		.batches = div->batches,
		.tried = div->tried,
		.row_reads = div->best.row_reads,
		.list_reads = div->best.list_reads,
	};
}

/* Options with their defaults filled in. */
static int begin(struct divider *div, const struct rung_plan_opts *opts)
{
	const struct rung_dataset_info *info = rung_dataset_info(div->ds);
	const int rc = rung__opts_copy_in(&div->opts, sizeof(div->opts), opts, "rung_plan_opts");

	if (rc < 0)
		return rc;
	div->lists_bytes = info->edge_count * info->index_bytes;
	div->keeps_structure = div->opts.structure_bytes != 0;
	rung_profile_assume(&div->assumed);
	div->forecast_opts.profile = div->opts.profile ? div->opts.profile : &div->assumed;
	div->forecast_opts.keep_placement = 1;
	div->forecast_opts.look_ahead = RUNG_LOOK_AHEAD;
	div->forecast_opts.window = div->opts.window;
	return fix_budgets(div);
}

int rung__sample_batches(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                         uint64_t host_bytes, const struct rung_sampler_opts *sampler,
                         const uint64_t *seeds, uint64_t seed_count, uint32_t batch_size,
                         uint32_t batches_max, uint64_t ids_max, struct rung__recorded *sample_out)
{
	struct divider div = { .ds = ds, .opts = RUNG_PLAN_OPTS_INIT };
	struct rung_sampler_opts sampler_opts = RUNG_SAMPLER_OPTS_INIT;
	struct rung_structure *structure = NULL;
	struct rung__batches batches;
	int rc = begin(&div, opts), closed;

	if (rc == 0)
		rc = rung__opts_copy_in(&sampler_opts, sizeof(sampler_opts), sampler,
		                        "rung_sampler_opts");
	div.host_bytes = RUNG__MIN(div.host_bytes, host_bytes);
	if (rc == 0 && !sampler_opts.structure) {
		rc = open_structure(&div, &structure);
		if (rc == RUNG_E_INVAL && rung_last_error_min_bytes() > 0)
			rc = fail_budget(&div);
		sampler_opts.structure = structure;
	}
	if (rc == 0)
		rc = rung__batches_open(NULL, &sampler_opts, seeds, seed_count, batch_size,
		                        batches_max, &batches);
	if (rc == 0) {
		rc = record(sample_out, ids_max, &batches);
		rung__batches_close(&batches);
	}
	/* unless it is the caller's, it exists only during the call */
	closed = rung_structure_close(structure);
	return rc < 0 ? rc : closed;
}

void rung__sample_fini(struct rung__recorded *sample)
{
	rung__record_fini(&sample->rows);
	rung__record_fini(&sample->blocks);
}

/* The first batches of a sample, as rung_plan_divide() samples them. */
static void use_sample(struct divider *div, const struct rung__recorded *sample)
{
	const uint64_t *row_ends = sample->rows.ends, *block_ends = sample->blocks.ends;
	const uint32_t hops = sample->blocks.batches ? sample->hop_count : 0;
	uint64_t used = 0, ids = 0;

	while (used < sample->rows.batches && (ids < IDS_MAX || used < BATCHES_MIN)) {
		used++;
		ids = row_ends[used - 1] + (hops ? block_ends[used * hops - 1] : 0);
	}
	div->batches = used;
	div->rows = rung__record_first(&sample->rows, used);
	div->blocks = rung__record_first(&sample->blocks, used * hops);
}

int rung__divide_sample(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                        const struct rung__recorded *sample,
                        struct rung_plan_division *division_out)
{
	struct divider div = { .ds = ds,
		               .opts = RUNG_PLAN_OPTS_INIT,
		               .forecast_opts = RUNG_FORECAST_OPTS_INIT };
	struct rung_plan_division division;
	int rc = begin(&div, opts);

	if (rc < 0)
		return rc;
	if (div.host_bytes == RUNG_BYTES_MAX) {
		/* everything is in memory, unless the caller limits the lists */
		div.best.structure_bytes =
			div.keeps_structure ? div.opts.structure_bytes : RUNG_BYTES_MAX;
		div.best.cache_bytes = div.kept_cache;
		*division_out = result(&div);
		return 0;
	}
	use_sample(&div, sample);
	rc = search(&div);
	if (rc == 0)
		rc = use_rest(&div);
	if ((rc == 0 && isinf(total(&div.best))) ||
	    (rc == RUNG_E_INVAL && rung_last_error_min_bytes() > 0))
		rc = fail_budget(&div);
	division = result(&div);
	if (rc == 0)
		rc = marginal(&div, &division);
	if (rc == 0)
		*division_out = division;
	return rc;
}

int rung_plan_divide(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                     const struct rung_sampler_opts *sampler, const uint64_t *seeds,
                     uint64_t seed_count, uint32_t batch_size, uint32_t batches_max,
                     struct rung_plan_division *division_out)
{
	struct rung_plan_division division;
	struct rung__recorded sample = { .per_epoch = 0 };
	int rc = 0;

	if (!opts || opts->host_bytes != RUNG_BYTES_MAX)
		rc = rung__sample_batches(ds, opts, RUNG_BYTES_MAX, sampler, seeds, seed_count,
		                          batch_size, batches_max, IDS_MAX, &sample);
	if (rc == 0)
		rc = rung__divide_sample(ds, opts, &sample, &division);
	rung__sample_fini(&sample);
	return rc < 0 ? rc
	              : rung__opts_copy_out(division_out, &division, sizeof(division),
	                                    "rung_plan_division");
}
