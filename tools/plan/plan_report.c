/* SPDX-License-Identifier: Apache-2.0 */
/* The report of rung plan on a staged dataset and one budget. */
#include <math.h>
#include <string.h>

#include "output/json.h"
#include "plan/plan_budget.h"
#include "plan/plan_dataset.h"

/* The device that would gather, and the reason if it is not the requested one. */
static void set_device(json_t *root, const struct rung_plan_device *device)
{
	json_t *gpus = json_array();

	for (uint32_t i = 0; i < device->gpu_count; i++)
		tool_json_append(gpus, json_integer(device->gpus[i]));
	tool_json_set(root, "device", tool_json_text(rung_device_name(device->device)));
	tool_json_set(root, "device_why", tool_json_text(*device->why ? device->why : NULL));
	tool_json_set(root, "gpus", gpus);
}

/* Predicted reads of lists, and the blocks of lists from which the hops of a batch draw. */
static void set_lists(json_t *root, const struct rung_plan_traffic *traffic)
{
	const struct rung_forecast *lists = &traffic->structure_forecast;
	const double sampled = (double)traffic->batches_sampled,
		     epoch = (double)traffic->batches_per_epoch;

	tool_json_set(root, "list_blocks_per_batch",
	              tool_json_real(traffic->blocks_per_epoch / epoch));
	tool_json_set(root, "cold_list_blocks_per_batch",
	              tool_json_real(traffic->cold_blocks_per_epoch / epoch));
	tool_json_set(root, "list_reads_per_batch", tool_json_real(lists->reads / sampled));
	tool_json_set(root, "list_read_bytes_per_batch",
	              tool_json_real(lists->read_bytes / sampled));
	tool_json_set(root, "list_nvme_seconds_per_batch",
	              tool_json_real(lists->nvme_seconds / sampled));
}

/* Without a profile the rates of CPUs and drives are assumed, and those of GPUs that hold rows. */
static json_t *assumed_json(const struct rung_plan *plan, const char *profile, uint32_t assumed)
{
	const struct rung_plan_tier *tier;
	json_t *names = profile ? tool_json_assumed(assumed) : json_array();

	if (!profile) {
		for (unsigned i = 0; (tier = rung_plan_tier(plan, i)) != NULL; i++) {
			if (strcmp(tier->name, "host") == 0 || strcmp(tier->name, "nvme") == 0 ||
			    tier->row_count > 0)
				tool_json_append(names, tool_json_text(tier->name));
		}
	}
	return names;
}

/*
 * Predicted times and the settings they assume. The forecast has totals over the sampled batches;
 * JSON has means per batch, which do not depend on how many were sampled. GPU times are null on the
 * CPU, and `threads` is null on a GPU, where the host threads do not gather.
 */
static void set_forecast(json_t *root, const struct rung_plan *plan, const struct plan_args *args,
                         const struct rung_plan_traffic *traffic)
{
	const struct rung_forecast *forecast = &traffic->forecast;
	const int on_gpu = rung_plan_device(plan)->device == RUNG_DEVICE_CUDA;
	const double batches = (double)traffic->batches_sampled;

	tool_json_set(root, "seconds_per_epoch", tool_json_real(traffic->seconds_per_epoch));
	tool_json_set(root, "seconds_per_batch", tool_json_real(forecast->seconds / batches));
	tool_json_set(root, "memory_seconds_per_batch",
	              tool_json_real(forecast->memory_seconds / batches));
	tool_json_set(root, "nvme_seconds_per_batch",
	              tool_json_real(forecast->nvme_seconds / batches));
	tool_json_set(root, "gpu_seconds_per_batch",
	              on_gpu ? tool_json_real(forecast->gpu_seconds / batches) : json_null());
	tool_json_set(root, "peer_seconds_per_batch",
	              on_gpu ? tool_json_real(forecast->peer_seconds / batches) : json_null());
	tool_json_set(root, "link_seconds_per_batch",
	              on_gpu ? tool_json_real(forecast->link_seconds / batches) : json_null());
	tool_json_set(root, "reads_per_batch", tool_json_real(forecast->reads / batches));
	set_lists(root, traffic);
	tool_json_set(root, "bound", tool_json_text(rung_bound_name(forecast->bound)));
	tool_json_set(root, "threads", on_gpu ? json_null() : tool_json_u64(forecast->threads));
	/* a depth of 0: all rows are in memory, and nothing is read */
	tool_json_set(root, "queue_depth",
	              forecast->queue_depth ? tool_json_u64(forecast->queue_depth) : json_null());
	tool_json_set(root, "merge_gap_bytes",
	              forecast->queue_depth ? tool_json_u64(forecast->merge_gap_bytes)
	                                    : json_null());
	tool_json_set(root, "window_batches", tool_json_u64(forecast->window_batches));
	tool_json_set(root, "chosen", tool_json_tuning(rung_plan_tuning(plan)));
	tool_json_set(root, "profile", tool_json_text(args->store.profile));
	tool_json_set(root, "assumed", assumed_json(plan, args->store.profile, forecast->assumed));
}

/* Planned NUMA nodes of each block of host memory. Called after predict(), which interleaves the
 * rows of the host tier if that is faster. */
static void set_placements(json_t *root, const struct rung_plan *plan)
{
	const char *why = rung_plan_placement_why(plan);
	const struct rung_placement *placement;
	json_t *placements = json_array();

	for (size_t i = 0; (placement = rung_plan_placement(plan, i)) != NULL; i++)
		tool_json_append(placements, tool_json_placement(placement));
	tool_json_set(root, "placements", placements);
	tool_json_set(root, "placement_why", tool_json_text(*why ? why : NULL));
}

/* The tiers come after predict(): only then do they have a hit share. */
json_t *plan_json(const struct tool_data *data, const struct plan_args *args,
                  const struct prediction *prediction)
{
	const struct rung_dataset_info *info = rung_dataset_info(data->ds);
	const struct rung_plan *plan = data->plan;
	const struct rung_plan_traffic *traffic = &prediction->traffic;
	const struct plan_budget budget = { plan, traffic, &data->division };
	const struct rung_plan_slots *slots = rung_plan_slots(plan);
	const struct rung_plan_cache *cache = rung_plan_cache(plan);
	struct plan_answer answer;
	struct plan_work work;
	json_t *root = json_object(), *slots_json = json_object(), *cache_json = json_object();

	tool_json_set(slots_json, "count", tool_json_u64(slots->slot_count));
	tool_json_set(slots_json, "slot_bytes", tool_json_u64(slots->slot_bytes));
	tool_json_set(slots_json, "bytes", tool_json_u64(slots->slot_count * slots->slot_bytes));
	tool_json_set(cache_json, "rows", tool_json_u64(cache->row_count));
	tool_json_set(cache_json, "bytes", tool_json_u64(cache->bytes));
	set_device(root, rung_plan_device(plan));
	tool_json_set(root, "quantize",
	              args->store.quantize
	                      ? tool_json_text(tool_quant_formats[args->store.quantize])
	                      : json_null());
	tool_json_set(root, "tiers", tool_json_plan(plan));
	set_placements(root, plan);
	tool_json_set(root, "slots", slots_json);
	tool_json_set(root, "cache", cache_json);
	tool_json_set(root, "map_bytes", tool_json_u64(rung_plan_bytes(plan)->map));
	tool_json_set(root, "budget", plan_budget_json(&budget));
	tool_json_set(root, "read_bytes_per_epoch", tool_json_real(traffic->read_bytes_per_epoch));
	set_forecast(root, plan, args, traffic);
	tool_json_set(root, "rows_per_batch", tool_json_real(traffic->rows_per_batch));
	tool_json_set(root, "rows_per_epoch", tool_json_real(traffic->rows_per_epoch));
	tool_json_set(root, "cold_rows_per_epoch", tool_json_real(traffic->cold_rows_per_epoch));
	tool_json_set(root, "batches_per_epoch", tool_json_u64(traffic->batches_per_epoch));
	tool_json_set(root, "batches_sampled", tool_json_u64(traffic->batches_sampled));
	tool_json_set(root, "sector_bytes", tool_json_u64(traffic->sector_bytes));
	tool_json_set(root, "fanout",
	              tool_json_u32s(prediction->fanouts.hops, prediction->fanouts.count));
	tool_json_set(root, "draws", tool_json_text(info->draws == RUNG_DRAWS_NEW ? "new" : "all"));
	tool_json_set(root, "batch", tool_json_u64(prediction->batch));
	tool_json_set(root, "seeds", tool_json_u64(prediction->seed_count));
	answer = plan_answer_of(data->ds, plan, traffic);
	plan_answer_json(&answer, args->compute, root);
	work = plan_work_of(data, args, prediction);
	tool_json_set(root, "machines", plan_machines_json(&args->machines, &work));
	return root;
}

/* The first GPU of the list gathers, and reads the memory of the others; nothing is printed on the
 * CPU. */
static void print_gpus(const struct rung_plan_device *device)
{
	if (device->gpu_count == 0)
		return;
	printf("GPU %d gathers", device->gpus[0]);
	for (uint32_t i = 1; i < device->gpu_count; i++)
		printf("%s %d", i == 1 ? "; rows are interleaved with GPU" : ",", device->gpus[i]);
	putchar('\n');
}

void plan_print_rates(const char *profile, uint32_t assumed)
{
	char text[TOOL_ASSUMED_BYTES];

	if (profile)
		tool_wrap(2, "by the profile %s%s", profile, tool_assumed_text(text, assumed));
	else
		tool_wrap(2,
		          "rates of the machine are assumed: measure them with rung numa --json, "
		          "and give --profile");
}

void plan_print_counts(const struct rung_dataset *ds, const struct plan_args *args,
                       const struct prediction *prediction)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const struct rung_plan_traffic *traffic = &prediction->traffic;
	char rows[TOOL_TEXT_BYTES], lists[TOOL_TEXT_BYTES], each[TOOL_TEXT_BYTES],
		hops[12 * RUNG_HOPS_MAX + 1] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < prediction->fanouts.count; i++) {
		const uint32_t hop = prediction->fanouts.hops[i];

		used += (size_t)snprintf(hops + used, sizeof(hops) - used,
		                         hop == UINT32_MAX ? "%sall" : "%s%u", i ? "," : "", hop);
	}
	tool_wrap(2, "%s: %llu rows of %llu bytes (%s), neighbour lists of %s", args->dir,
	          (unsigned long long)info->vertex_count,
	          (unsigned long long)(info->feature_bytes / info->vertex_count),
	          tool_bytes_text(rows, (double)info->feature_bytes),
	          tool_bytes_text(lists, (double)(info->edge_count * info->index_bytes)));
	if (args->store.quantize) {
		const uint64_t columns =
			info->features.row_bytes / rung_dtype_bytes(info->features.dtype);
		const uint64_t bytes = tool_quant_row_bytes(args->store.quantize, columns);

		tool_wrap(2, "planned as if staged with --quantize %s: rows of %llu bytes (%s)",
		          tool_quant_formats[args->store.quantize], (unsigned long long)bytes,
		          tool_bytes_text(rows, (double)(bytes * info->vertex_count)));
	}
	tool_wrap(2, "batches of %u seed%s, fanout %s: %s rows each, %llu an epoch (%llu sampled)",
	          prediction->batch, prediction->batch == 1 ? "" : "s", hops,
	          tool_count_text(each, floor(traffic->rows_per_batch + 0.5)),
	          (unsigned long long)traffic->batches_per_epoch,
	          (unsigned long long)traffic->batches_sampled);
	putchar('\n');
}

/* --explain: the division of the budget, and the settings of the prediction. */
static void explain(const struct tool_data *data, const struct plan_args *args,
                    const struct prediction *prediction)
{
	const struct rung_plan_traffic *traffic = &prediction->traffic;
	const struct rung_forecast *forecast = &traffic->forecast;
	const struct plan_budget budget = { data->plan, traffic, &data->division };
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES];

	putchar('\n');
	plan_budget_print(&budget);
	tool_wrap(2, "an epoch: %s rows, of which %s are in files",
	          tool_count_text(text, traffic->rows_per_epoch),
	          tool_count_text(more, traffic->cold_rows_per_epoch));
	tool_wrap(2, "cold rows of an epoch: %s in sectors of %u bytes, without merging",
	          tool_bytes_text(text, traffic->read_bytes_per_epoch), traffic->sector_bytes);
	if (forecast->threads)
		tool_wrap(2, "%u thread%s", forecast->threads,
		          forecast->threads > 1 ? "s gather" : " gathers");
	if (forecast->queue_depth)
		tool_wrap(2, "%u reads in flight; one read spans gaps of up to %u bytes",
		          forecast->queue_depth, forecast->merge_gap_bytes);
	if (forecast->window_batches)
		tool_wrap(2, "the cold rows of %u coming batches are read together",
		          forecast->window_batches);
	if (rung_plan_tuning(data->plan))
		tool_print_tuning(rung_plan_tuning(data->plan), args->store.profile);
}

void plan_print(const struct tool_data *data, const struct plan_args *args,
                const struct prediction *prediction)
{
	const struct plan_answer answer =
		plan_answer_of(data->ds, data->plan, &prediction->traffic);
	struct plan_work work;

	plan_print_counts(data->ds, args, prediction);
	print_gpus(rung_plan_device(data->plan));
	plan_answer_print(&answer, args->compute);
	plan_print_rates(args->store.profile, prediction->traffic.forecast.assumed);
	if (args->explain)
		explain(data, args, prediction);
	work = plan_work_of(data, args, prediction);
	plan_machines_print(&args->machines, &work);
}
