/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curve of a table: for a number of host budgets the rows that the plan would keep in memory,
 * and the accesses that these serve. The plan subtracts slots and cache, which grow with the
 * budget; with all rows in memory it needs neither. So the curve is not concave, and not even every
 * plan with more bytes holds more rows: such points are left out.
 */
#include "divide/curve.h"
#include "layout/list_block.h"
#include "plan/profile_rates.h"

/* The first rank that is not on GPUs. */
static uint64_t first_on_host(const struct rung_plan *plan)
{
	return plan->tiers[RUNG__TIER_GPU].row_count + plan->tiers[RUNG__TIER_PEER].row_count;
}

int rung__divided_try(struct rung__divided *table, uint64_t host_bytes, uint64_t *resident_out)
{
	struct rung_plan *part = table->part;
	int rc;

	*resident_out = 0;
	if (!part)
		return 0;
	part->slots = (struct rung_plan_slots){ 0, 0 };
	part->cache = (struct rung_plan_cache){ 0, 0, 0 };
	part->bytes = (struct rung_plan_bytes){
		.host = host_bytes,
		.map = part->vertex_count * part->layout.vertex_bytes,
	};
	rc = rung__plan_on_host(part, &table->opts, host_bytes, first_on_host(part));
	*resident_out =
		(first_on_host(part) + part->tiers[RUNG__TIER_HOST].row_count) * part->row_stride;
	return rc;
}

/* Nanoseconds of a read of one row at the planned depth; without measured reads, of a typical
 * drive. */
static double read_ns(const struct rung_plan *part, const struct rung_profile *profile)
{
	const uint64_t bytes = rung__align_up(part->row_bytes, RUNG__MAX(part->sector_bytes, 1u));
	struct rung_profile assumed;
	struct rung__drive_reads reads;

	rung_profile_assume(&assumed);
	if (profile && profile->reads_count > 0)
		reads = rung__drive_reads(profile, part->tuning.drive_idx[0]);
	else
		reads = rung__drive_reads(&assumed, 0);
	return rung__read_ns(&reads, part->queue_depth, bytes);
}

/* The plan of the rows or of the lists, if they have any bytes. */
static void choose_part(struct rung__divided *table)
{
	struct rung_plan *plan = table->plan;

	table->part = table->is_lists ? plan->structure : plan->row_bytes ? plan : NULL;
	if (table->is_lists) {
		/* as the plan does: lists are not announced, so there is nothing to cache */
		table->opts.cache_share = 0;
		table->opts.cache_bytes = RUNG_BYTES_NONE;
	}
}

int rung__divided_begin(struct rung__divided *table, const struct rung_plan_opts *opts)
{
	struct rung__curve *curve = &table->curve;
	uint64_t resident;
	int rc;

	table->opts = *opts;
	table->opts.host_bytes = RUNG_BYTES_MAX;
	table->opts.structure_bytes = table->is_lists ? RUNG_BYTES_MAX : 0;
	if (rung_dataset_info(table->ds)->stored_row_bytes == 0)
		table->opts.quantize = RUNG_QUANT_NONE;
	rc = rung_plan_create(table->ds, &table->opts, &table->plan);
	if (rc < 0)
		return rc;
	choose_part(table);
	if (!table->part)
		return 0;
	curve->whole =
		(table->part->vertex_count - first_on_host(table->part)) * table->part->row_stride;
	curve->cost = read_ns(table->part, opts->profile);
	rc = rung__divided_try(table, 0, &resident);
	if (rc < 0 && (rc != RUNG_E_INVAL || rung_last_error_min_bytes() == 0))
		return rc;
	/* a small table needs fewer bytes than the slots for a part of it */
	curve->least = rc < 0 ? RUNG__MIN(rung_last_error_min_bytes(), curve->whole) : 0;
	return 0;
}

/* Points at equal distances, each with more rows in memory than the one before. */
static int choose_points(struct rung__divided *table, uint64_t bytes_max)
{
	struct rung__curve *curve = &table->curve;
	const uint64_t most = RUNG__MAX(RUNG__MIN(bytes_max, curve->whole), curve->least);
	/* rounded up, so that the points are not too many */
	const uint64_t step = RUNG__MAX((most - curve->least) / (RUNG__CURVE_POINTS - 2) + 1,
	                                table->part->row_stride);
	uint64_t bytes = curve->least;

	for (;; bytes = RUNG__MIN(bytes + step, most)) {
		uint64_t resident;
		const int rc = rung__divided_try(table, bytes, &resident);

		if (rc < 0)
			return rc;
		if (curve->count == 0 || resident > curve->resident[curve->count - 1]) {
			curve->bytes[curve->count] = bytes;
			curve->resident[curve->count++] = resident;
		}
		if (bytes == most)
			return 0;
	}
}

int rung__divided_curve(struct rung__divided *table, uint64_t bytes_max)
{
	struct rung__curve *curve = &table->curve;
	int rc;

	curve->bytes = rung__malloc(RUNG__CURVE_POINTS * sizeof(*curve->bytes));
	curve->resident = rung__zalloc(RUNG__CURVE_POINTS * sizeof(*curve->resident));
	curve->hits = rung__zalloc(RUNG__CURVE_POINTS * sizeof(*curve->hits));
	if (!curve->bytes || !curve->resident || !curve->hits)
		return rung__fail(RUNG_E_NOMEM, "plan: out of memory");
	if (!table->part) {
		curve->bytes[curve->count++] = 0;
		return 0;
	}
	rc = choose_points(table, bytes_max);
	if (rc < 0)
		return rc;
	return rung__curve_scores(table->ds, table->is_lists ? 0 : table->part->row_stride, curve);
}

void rung__divided_fini(struct rung__divided *table)
{
	rung__free(table->curve.bytes);
	rung__free(table->curve.resident);
	rung__free(table->curve.hits);
	rung_plan_destroy(table->plan);
}

double rung__curve_hits(const struct rung__curve *curve, uint64_t resident)
{
	uint32_t at = 0;
	double share;

	while (at + 1 < curve->count && curve->resident[at + 1] <= resident)
		at++;
	if (at + 1 == curve->count || resident <= curve->resident[at])
		return curve->hits[at];
	share = (double)(resident - curve->resident[at]) /
	        (double)(curve->resident[at + 1] - curve->resident[at]);
	return curve->hits[at] + share * (curve->hits[at + 1] - curve->hits[at]);
}
