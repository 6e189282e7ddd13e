/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of rung top --once. */
#include "output/json.h"
#include "top/top.h"

static json_t *attached_json(const struct top_sample *sample, uint32_t pid)
{
	json_t *pids = json_array();

	for (size_t i = 0; i < sample->count; i++) {
		if (sample->views[i].owner_pid == pid && !sample->views[i].is_lists)
			tool_json_append(pids, tool_json_u64(sample->views[i].pid));
	}
	return pids;
}

static json_t *sources_json(const struct tool_rates *rates)
{
	json_t *sources = json_array();

	for (uint32_t i = 0; i < rates->source_count; i++) {
		json_t *source = json_object();

		tool_json_set(source, "name", tool_json_text(rates->sources[i].name));
		tool_json_set(source, "share", tool_json_real(rates->sources[i].share));
		tool_json_append(sources, source);
	}
	return sources;
}

static json_t *store_json(const struct top_sample *sample, const struct top_store *store)
{
	const struct rung__watch_view *view = store->view;
	const struct tool_rates *rates = &store->rates;
	json_t *object = json_object();

	tool_json_set(object, "pid", tool_json_u64(view->pid));
	tool_json_set(object, "number", tool_json_u64(view->number));
	tool_json_set(object, "command", tool_json_text(view->command));
	tool_json_set(object, "dataset", tool_json_text(view->dataset));
	tool_json_set(object, "lists", json_boolean(view->is_lists));
	tool_json_set(object, "owner_pid",
	              view->is_attached ? tool_json_u64(view->owner_pid) : json_null());
	tool_json_set(object, "attached_pids", attached_json(sample, view->pid));
	tool_json_set(object, "seconds", tool_json_real(rates->seconds));
	tool_json_set(object, "bottleneck", tool_json_text(rates->bottleneck));
	tool_json_set(object, "rows_per_s", tool_json_real(rates->rows));
	tool_json_set(object, "row_bytes_per_s", tool_json_real(rates->row_bytes));
	tool_json_set(object, "memory_share", tool_json_real(rates->memory));
	tool_json_set(object, "sources", sources_json(rates));
	tool_json_set(object, "reads_per_s", tool_json_real(rates->reads));
	tool_json_set(object, "read_bytes_per_s", tool_json_real(rates->read_bytes));
	tool_json_set(object, "read_s", tool_json_real(rates->read_s));
	tool_json_set(object, "in_flight", tool_json_real(rates->queue));
	tool_json_set(object, "queue_depth", tool_json_u64(view->queue_depth));
	tool_json_set(object, "wait_share", tool_json_real(rates->wait));
	tool_json_set(object, "wait_sample_share", tool_json_real(rates->wait_sample));
	tool_json_set(object, "engine", tool_json_text(view->engine));
	tool_json_set(object, "tiers", tool_json_hits(&view->stats));
	return object;
}

int top_print_json(const char *name, const struct top_args *args, const struct top_sample *sample)
{
	json_t *object = json_object(), *stores = json_array();

	for (size_t i = 0; i < sample->count; i++)
		tool_json_append(stores, store_json(sample, &sample->stores[i]));
	tool_json_set(object, "interval", tool_json_real(args->interval));
	tool_json_set(object, "stores", stores);
	return tool_json_print(name, object) == 0 ? TOOL_DONE : TOOL_FAILED;
}
