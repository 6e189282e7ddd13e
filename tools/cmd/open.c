/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening dataset, plan and store for the subcommands. tool_plan() opens dataset and profile and
 * places the rows; tool_open_store() opens the store of that plan, or tool_attach_store() one that
 * another process shares. tool_open() does both steps for commands that need nothing in between.
 */
#include <stdlib.h>

#include "tool.h"

const char *const tool_quant_formats[] = { "none", "int8", "int4", "fp8" };
const char *const tool_quant_scales[] = { "row", "column" };

uint64_t tool_quant_row_bytes(enum rung_quant_format format, uint64_t columns)
{
	const uint64_t codes = format == RUNG_QUANT_INT4 ? (columns + 1) / 2 : columns;

	return (sizeof(float) + codes + 3) / 4 * 4;
}

/* A share such as 10% refers to the bytes of all feature rows, so sizes become bytes only when the
 * dataset is open. */
void tool_plan_opts(const struct tool_store_args *args, uint64_t feature_bytes,
                    struct rung_plan_opts *opts)
{
	uint64_t replicate_bytes = tool_size_bytes(&args->replicate, feature_bytes);

	opts->host_bytes = tool_size_bytes(&args->host, feature_bytes);
	/* a share in --cache refers to the host budget, which is known only to the plan */
	if (args->cache.given && args->cache.share > 0)
		opts->cache_share = args->cache.share;
	else
		opts->cache_bytes = tool_size_bytes(&args->cache, 0);
	opts->window = args->window;
	opts->queue_depth = args->queue_depth;
	opts->device = args->device;
	opts->gpus = args->gpu_count ? args->gpus : NULL;
	opts->gpu_count = args->gpu_count;
	opts->gpu_bytes = tool_size_bytes(&args->gpu, feature_bytes);
	/* in this budget, unlike the others, 0 means no bytes and not a default */
	opts->replicate_bytes = replicate_bytes == RUNG_BYTES_NONE ? 0 : replicate_bytes;
	opts->vertex_ids = args->vertex_ids;
	opts->numa = args->numa;
	opts->numa_node = args->numa_node;
	opts->quantize = args->quantize;
}

/* With --device auto, rows can be gathered by the CPU, or with fewer GPUs than requested. The
 * reason is printed, so that measured times are not mistaken for those of a GPU. The command
 * continues. */
void tool_report_device(const char *name, const struct rung_plan_device *device)
{
	if (*device->why)
		tool_error(name, TOOL_DONE, "%s%s",
		           device->device == RUNG_DEVICE_CPU ? "gathering on the CPU: " : "",
		           device->why);
}

int tool_profile_load(const char *path, struct rung_profile **profile_out)
{
	struct rung_profile *profile = malloc(sizeof(*profile));
	int rc = RUNG_E_NOMEM;

	if (profile) {
		profile->size = sizeof(*profile);
		rc = rung_profile_load(path, profile);
	}
	if (rc < 0) {
		free(profile);
		return rc;
	}
	*profile_out = profile;
	return 0;
}

int tool_plan(const char *name, const char *dir, const struct tool_store_args *args,
              const struct tool_sampling *sampling, struct tool_data *data_out)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	struct tool_data data = { 0 };
	int rc = rung_dataset_open(dir, &data.ds);

	if (rc == 0 && args->profile)
		rc = tool_profile_load(args->profile, &data.profile);
	if (rc < 0) {
		tool_close(&data);
		return rc;
	}
	tool_plan_opts(args, rung_dataset_info(data.ds)->feature_bytes, &opts);
	opts.profile = data.profile;
	/* of a typed dataset there is no plan, and the call below says so */
	if (rung_dataset_info(data.ds)->type_count > 0)
		sampling = NULL;
	rc = sampling ? tool_structure_plan(args, data.ds, sampling, &opts, &data.division) : 0;
	if (rc == 0)
		rc = tool_plan_create(data.ds, &opts, &data.plan);
	if (rc == 0 && sampling && sampling->apart)
		rc = tool_structure_move(&opts, &data);
	if (rc < 0) {
		tool_close(&data);
		return rc;
	}
	tool_report_device(name, rung_plan_device(data.plan));
	*data_out = data;
	return 0;
}

/* If an engine was requested, RUNG_E_NOSUP refers to it, which is a failure. Otherwise it refers to
 * the GPU: missing hardware, exit status 77. */
static int status_of_store(const struct tool_store_args *args, int rc)
{
	return rc == RUNG_E_NOSUP && args->engine == RUNG_ENGINE_AUTO ? RUNG_E_NODEV : rc;
}

int tool_open_store(const struct tool_store_args *args, const struct rung_store_opts *opts,
                    struct tool_data *data)
{
	struct rung_store_opts all = tool_store_opts(args, opts);
	struct rung_store *store;
	int rc;

	/* rows in place can be read ahead only with the map in both directions */
	if (rung_plan_bytes(data->plan)->map > 0 && rung_plan_cache(data->plan)->row_count > 0 &&
	    all.window != RUNG_WINDOW_NONE)
		all.vertex_ids = 1;
	rc = rung_store_open(data->ds, data->plan, &all, &store);
	if (rc >= 0)
		data->store = store;
	return status_of_store(args, rc);
}

int tool_attach_store(const char *path, const struct tool_store_args *args,
                      const struct rung_store_opts *opts, struct tool_data *data)
{
	struct rung_store_opts all = tool_store_opts(args, opts);
	struct rung_store *store;
	int rc = rung_store_attach(path, &all, &store);

	if (rc >= 0)
		data->store = store;
	return status_of_store(args, rc);
}

int tool_open(const char *name, const char *dir, const struct tool_store_args *args,
              const struct tool_sampling *sampling, const struct rung_store_opts *opts,
              struct tool_data *data_out)
{
	struct tool_data data;
	int rc = tool_plan(name, dir, args, sampling, &data);

	if (rc < 0)
		return rc;
	rc = tool_open_store(args, opts, &data);
	if (rc < 0) {
		tool_close(&data);
		return rc;
	}
	*data_out = data;
	return 0;
}

int tool_close(struct tool_data *data)
{
	/* the store first: its threads may still read rows; all members may be NULL */
	int rc = data->store ? rung_store_close(data->store) : 0;

	rung_plan_destroy(data->plan);
	rung_plan_destroy(data->lists);
	free(data->profile);
	rung_dataset_close(data->ds);
	*data = (struct tool_data){ 0 };
	return rc;
}
