/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several machines: the cold rows of a plan are on local drives, on shared storage, or some on
 * each. A batch takes as long as its slowest part: copying from memory, the reads of the local
 * drives, or the bytes that arrive over the NIC. They overlap, as the reads of several files do.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_machines.h"
#include "plan/plan_rates.h"

#define PAGE 4096u

/* descending, as the arrangements are */
const double plan_prefixes[PLAN_PREFIXES] = { 0.8, 0.6, 0.4, 0.2 };

/* Seconds of the reads from shared storage of `share` of the rows and, nonzero, of the lists; 0:
 * its rate is unknown. */
static double storage_seconds(const struct plan_machines *plan, double share, int lists)
{
	const struct plan_work *work = &plan->work;
	const struct rung_profile *shared = plan->args.rates;
	const double row_bytes = work->row_reads > 0 ? work->row_read_bytes / work->row_reads : 0,
		     list_bytes =
			     work->list_reads > 0 ? work->list_read_bytes / work->list_reads : 0;
	double seconds = 0;
	uint32_t depth;

	if (plan->args.storage > 0)
		return (share * work->row_read_bytes + (lists ? work->list_read_bytes : 0)) *
		       plan->args.machines / plan->args.storage;
	if (!shared)
		return 0;
	depth = plan_read_depth(shared, work->row_bytes);
	if (work->row_reads > 0)
		seconds += share * work->row_reads * plan_read_seconds(shared, depth, row_bytes);
	if (lists && work->list_reads > 0)
		seconds += work->list_reads * plan_read_seconds(shared, depth, list_bytes);
	return seconds;
}

double plan_sector_rest(uint64_t row_bytes, uint32_t sector_bytes)
{
	uint64_t divisor = sector_bytes, rest = row_bytes % divisor, next;

	for (; rest > 0; rest = next) {
		next = divisor % rest;
		divisor = rest;
	}
	return (double)(sector_bytes - divisor);
}

double plan_fetch_seconds(const struct plan_machines_args *args, double bytes)
{
	const double nic = bytes / args->nic;

	return args->storage > 0 ? fmax(nic, bytes * args->machines / args->storage) : nic;
}

/* Raise a time to that of another part. */
static void at_least(struct plan_arrangement *place, double seconds, const char *limit)
{
	if (seconds > place->seconds) {
		place->seconds = seconds;
		place->limit = limit;
	}
}

/* A new arrangement: the first `share` of the rows and all other files are on local drives. */
static struct plan_arrangement *next(struct plan_machines *plan, const char *name, double share)
{
	struct plan_arrangement *place = &plan->arrangement[plan->count++];
	const struct plan_work *work = &plan->work;

	*place = (struct plan_arrangement){ .name = name, .share = share };
	place->disk_bytes = work->copy_bytes - (1 - share) * work->feature_bytes;
	return place;
}

/* Fill in the times.
 * @param drive    seconds of the reads of local drives
 * @param storage  seconds of those of the shared storage
 * @param rows     seconds in which the cold rows arrive */
static void finish(struct plan_machines *plan, struct plan_arrangement *place, double drive,
                   double storage, double rows)
{
	place->fetch_seconds =
		plan_fetch_seconds(&plan->args, place->disk_bytes + place->memory_bytes);
	place->rows_per_s = plan->work.cold_rows / rows;
	place->seconds = plan->work.memory_seconds;
	place->limit = "memory";
	at_least(place, drive, "drive");
	at_least(place, place->nic_bytes / plan->args.nic, "network");
	at_least(place, storage, "storage");
	place->epoch_seconds = place->seconds * (double)plan->batches;
	place->source_bytes_per_s = plan->args.machines * place->nic_bytes / place->seconds;
}

/* The hottest rows are on local drives, and the rest on shared storage. */
static void add_prefix(struct plan_machines *plan, double share, double hits)
{
	const struct plan_work *work = &plan->work;
	struct plan_arrangement *place = next(plan, share < 1 ? "prefix" : "own copies", share);
	double rest, local, storage;

	place->local_share = fmin(fmax((hits - work->served) / (1 - work->served), 0), 1);
	rest = 1 - place->local_share;
	local = place->local_share * work->row_seconds;
	place->nic_bytes = rest * work->row_read_bytes;
	storage = storage_seconds(plan, rest, 0);
	finish(plan, place, local + work->list_seconds, storage,
	       fmax(local, fmax(place->nic_bytes / plan->args.nic, storage)));
}

static void add_shared(struct plan_machines *plan)
{
	const struct plan_work *work = &plan->work;
	struct plan_arrangement *place = next(plan, "shared storage", 0);

	place->disk_bytes = 0;
	place->nic_bytes = work->row_read_bytes + work->list_read_bytes;
	finish(plan, place, 0, storage_seconds(plan, 1, 1),
	       fmax(work->row_read_bytes / plan->args.nic, storage_seconds(plan, 1, 0)));
}

/* The cold rows are dealt to the memory of all machines. Rows arrive one by one, without gaps, and
 * those of a cache do not arrive again. */
static void add_memory(struct plan_machines *plan)
{
	const struct plan_work *work = &plan->work;
	struct plan_arrangement *place = next(plan, "other memory", 0);
	const double machines = plan->args.machines, remote = (machines - 1) / machines;

	place->memory_bytes = (1 - work->memory_share) * work->feature_bytes / machines;
	place->nic_bytes =
		remote * fmin(work->cold_rows * (double)work->row_bytes, work->row_read_bytes);
	finish(plan, place, work->list_seconds, 0, place->nic_bytes / plan->args.nic);
	plan->memory_even = place->nic_bytes / work->row_seconds;
	place->source_bytes_per_s = 0;
}

/* The arrangement with the least local disk that is about as fast as the fastest, or that keeps the
 * model busy. rung serves all but the last. */
static uint32_t choose(const struct plan_machines *plan)
{
	const uint32_t served = plan->count - 1;
	double shortest = INFINITY;
	uint32_t best = 0;

	for (uint32_t i = 0; i < served; i++)
		shortest = fmin(shortest, plan->arrangement[i].seconds);
	shortest = fmax(shortest * PLAN_NEAR, plan->work.compute);
	for (uint32_t i = 0; i < served; i++) {
		if (plan->arrangement[i].seconds <= shortest)
			best = i;
	}
	return best;
}

void plan_machines_init(struct plan_machines *plan, const struct plan_machines_args *args,
                        const struct plan_work *work)
{
	uint64_t seeds = work->seeds / args->machines;

	*plan = (struct plan_machines){ .args = *args, .work = *work };
	seeds = seeds ? seeds : 1;
	plan->batches = (seeds - 1) / work->batch + 1;
	if (work->row_reads == 0)
		return;
	add_prefix(plan, 1, 1);
	for (uint32_t i = 0; i < PLAN_PREFIXES && !work->no_prefix; i++) {
		if (plan_prefixes[i] > work->memory_share)
			add_prefix(plan, plan_prefixes[i], work->hits[i]);
	}
	add_shared(plan);
	add_memory(plan);
	plan->page_bytes =
		(work->row_read_bytes +
	         work->row_reads * (plan_sector_rest(work->row_bytes, PAGE) -
	                            plan_sector_rest(work->row_bytes, work->sector_bytes))) /
		work->cold_rows;
	plan->storage_even = work->row_read_bytes / work->row_seconds;
	plan->advice = choose(plan);
}
