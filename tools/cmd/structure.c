/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the graph's lists, by --structure. In commands with a host budget the lists are
 * part of it; rung trace, and rung bench with an attached store, have lists without a budget.
 */
#include <stdlib.h>

#include "tool.h"

#define BATCH_DEFAULT 1024u /* seeds, as in the library */

/* Bytes of all lists. */
static uint64_t lists_bytes(const struct rung_dataset *ds)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);

	return info->edge_count * info->index_bytes; /* no overflow: the size of a file */
}

/* --structure as an option of a plan: 0 for auto. A structure of 0 bytes is refused, with the least
 * that works: 1 byte is too little as well. */
uint64_t tool_structure_bytes(const struct tool_store_args *args, const struct rung_dataset *ds)
{
	const uint64_t bytes = tool_size_bytes(&args->structure, lists_bytes(ds));

	if (lists_bytes(ds) == 0)
		return RUNG_BYTES_MAX; /* the offsets of empty lists */
	return bytes == RUNG_BYTES_NONE ? 1 : bytes;
}

/* Nonzero if a plan holds all rows and all lists in memory. */
static int holds_all(const struct rung_plan *plan)
{
	const struct rung_plan *lists = rung_plan_structure(plan);

	return rung_plan_slots(plan)->slot_count == 0 &&
	       (!lists || rung_plan_slots(lists)->slot_count == 0);
}

int tool_plan_create(const struct rung_dataset *ds, const struct rung_plan_opts *opts,
                     struct rung_plan **plan_out)
{
	const int rc = rung_plan_create(ds, opts, plan_out);

	return rc == RUNG_E_NOSUP ? RUNG_E_NODEV : rc;
}

/* Whether everything fits in the budgets with all lists in memory. The first plan of a command: it
 * fails without the GPU that --device cuda requires. @return 1, 0 or a status */
static int fits(const struct rung_dataset *ds, const struct rung_plan_opts *opts)
{
	struct rung_plan_opts all = *opts;
	struct rung_plan *plan;
	int whole, rc;

	all.structure_bytes = RUNG_BYTES_MAX;
	rc = tool_plan_create(ds, &all, &plan);
	if (rc < 0)
		return rc == RUNG_E_INVAL ? 0 : rc;
	whole = holds_all(plan);
	rung_plan_destroy(plan);
	return whole;
}

/* Compare divisions of the host budget by the reads of sampled batches. */
static int divide(const struct rung_dataset *ds, const struct tool_sampling *sampling,
                  const struct rung_plan_opts *opts, struct rung_plan_division *division)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung_sampler_opts sampler = RUNG_SAMPLER_OPTS_INIT;
	uint32_t batch = sampling->batch ? sampling->batch : info->batch_size;
	struct tool_fanouts fanouts;
	uint64_t *seeds, seed_count;
	int rc = tool_train_ranks(ds, &seed_count, &seeds);

	if (rc < 0)
		return rc;
	tool_fanouts_of(&sampling->fanouts, info, &fanouts);
	sampler.fanouts = fanouts.hops;
	sampler.hop_count = fanouts.count;
	sampler.seed = sampling->seed;
	if (sampling->draws_as_staged)
		sampler.draws = info->draws;
	sampler.threads = sampling->threads;
	division->size = sizeof(*division);
	rc = rung_plan_divide(ds, opts, &sampler, seeds, seed_count, batch ? batch : BATCH_DEFAULT,
	                      0, division);
	free(seeds);
	return rc;
}

uint64_t tool_lists_bytes(const struct rung_plan *plan)
{
	const struct rung_plan *lists = rung_plan_structure(plan);
	const struct rung_plan_slots *slots;

	if (!lists)
		return 0;
	slots = rung_plan_slots(lists);
	return rung_plan_tier(lists, 0)->bytes + slots->slot_count * slots->slot_bytes;
}

/* Compare a structure that was given, and the cache that the plan has with it, with a little more
 * of each. A size that does not fit fails here. */
static int compare(const struct rung_dataset *ds, const struct tool_sampling *sampling,
                   const struct rung_plan_opts *opts, struct rung_plan_division *division)
{
	struct rung_plan_opts given = *opts;
	struct rung_plan *plan;
	int rc = rung_plan_create(ds, opts, &plan);

	if (rc < 0)
		return rc;
	if (given.cache_share == 0 && given.cache_bytes == 0) {
		given.cache_bytes = rung_plan_cache(plan)->bytes;
		if (given.cache_bytes == 0)
			given.cache_bytes = RUNG_BYTES_NONE;
	}
	rung_plan_destroy(plan);
	return divide(ds, sampling, &given, division);
}

int tool_structure_plan(const struct tool_store_args *args, const struct rung_dataset *ds,
                        const struct tool_sampling *sampling, struct rung_plan_opts *opts,
                        struct rung_plan_division *division)
{
	int rc;

	opts->structure_bytes = tool_structure_bytes(args, ds);
	if (opts->structure_bytes && !sampling->compare)
		return 0;
	rc = fits(ds, opts);
	if (rc < 0)
		return rc;
	if (rc > 0) {
		if (!opts->structure_bytes)
			opts->structure_bytes = RUNG_BYTES_MAX;
		return 0;
	}
	if (opts->structure_bytes)
		return compare(ds, sampling, opts, division);
	rc = divide(ds, sampling, opts, division);
	if (rc < 0)
		return rc;
	opts->host_bytes = division->host_bytes;
	opts->structure_bytes = division->structure_bytes;
	if (opts->cache_share == 0 && opts->cache_bytes == 0)
		opts->cache_bytes = division->cache_bytes;
	return 0;
}

int tool_structure_move(struct rung_plan_opts *opts, struct tool_data *data)
{
	const uint64_t host_bytes = rung_plan_bytes(data->plan)->host;
	int rc;

	opts->structure_bytes = 0;
	if (host_bytes != RUNG_BYTES_MAX) {
		/* shares refer to the whole budget */
		if (opts->cache_share > 0)
			opts->cache_bytes = (uint64_t)(opts->cache_share * (double)host_bytes);
		opts->cache_share = 0;
		/* the rows were planned in the rest, so it is not 0, which would be the default */
		opts->host_bytes = host_bytes - tool_lists_bytes(data->plan);
	}
	data->lists = data->plan;
	data->plan = NULL;
	rc = rung_plan_create(data->ds, opts, &data->plan);
	return rc;
}

/* A plan with the structure alone: the rows are planned, but nothing allocates them. */
static int plan_lists(const struct rung_dataset *ds, const struct tool_store_args *args,
                      uint64_t host_bytes, uint64_t bytes, struct rung_plan **plan_out)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;

	opts.host_bytes = host_bytes;
	opts.structure_bytes = bytes;
	opts.cache_bytes = RUNG_BYTES_NONE;
	opts.queue_depth = args->queue_depth;
	opts.numa = args->numa;
	opts.numa_node = args->numa_node;
	return rung_plan_create(ds, &opts, plan_out);
}

/* "auto" without a budget: the default of --host is for the lists alone. */
static int default_bytes(const struct rung_dataset *ds, const struct tool_store_args *args,
                         uint64_t *bytes_out)
{
	struct rung_plan *plan;
	int rc = plan_lists(ds, args, 0, 0, &plan);

	if (rc < 0)
		return rc;
	*bytes_out = rung_plan_bytes(plan)->host;
	rung_plan_destroy(plan);
	return 0;
}

/* All lists are loaded as arrays: the scores of rung trace need them. */
static int open_free(const struct tool_store_args *args, const struct rung_dataset *ds,
                     const struct rung_store_opts *opts, struct tool_lists *lists)
{
	uint64_t bytes = tool_structure_bytes(args, ds);
	struct rung_plan *plan;
	int rc = bytes ? 0 : default_bytes(ds, args, &bytes);

	if (rc == 0 && bytes >= lists_bytes(ds))
		return rung_dataset_load_graph(ds, &lists->graph);
	if (rc == 0)
		rc = plan_lists(ds, args, RUNG_BYTES_MAX, bytes, &plan);
	if (rc < 0)
		return rc;
	rc = rung_structure_open(ds, plan, opts, &lists->structure);
	rung_plan_destroy(plan);
	return rc;
}

int tool_lists_open(const struct tool_store_args *args, const struct rung_dataset *ds,
                    const struct rung_plan *plan, struct tool_lists *lists_out)
{
	const struct rung_store_opts defaults = RUNG_STORE_OPTS_INIT;
	const struct rung_store_opts opts = tool_store_opts(args, &defaults);
	struct tool_lists lists = { 0 };
	int rc = plan ? rung_structure_open(ds, plan, &opts, &lists.structure)
	              : open_free(args, ds, &opts, &lists);

	if (rc == 0)
		*lists_out = lists;
	return rc;
}

void tool_lists_close(struct tool_lists *lists)
{
	rung_graph_destroy(lists->graph);
	rung_structure_close(lists->structure);
	*lists = (struct tool_lists){ 0 };
}

const struct rung_csc *tool_lists_for(const struct tool_lists *lists,
                                      struct rung_sampler_opts *opts)
{
	opts->structure = lists->structure;
	return lists->graph ? rung_graph_csc(lists->graph) : NULL;
}
