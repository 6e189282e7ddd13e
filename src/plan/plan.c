/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating a plan: the machine is inspected, then the lists of the graph and the rows are placed,
 * each as rows of a plan (plan_tiers.c).
 *
 * The host budget covers the rows, the staging slots, the cold-row cache, the map of rows staged in
 * place, the lists of the graph if they are planned, and the part of a graph sampled on GPUs that
 * is not on them: `--host` is the total that is used. Nothing is allocated here except the plan
 * itself; the store allocates by its numbers.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/dataset.h"
#include "file/file.h"
#include "file/mount.h"
#include "plan/plan.h"
#include "quant/quant.h"
#include "plan/profile_rates.h"
#include "sample/lists.h"

#define QUEUE_DEPTH_DEFAULT 64u

/* Name the drive that holds an open file as a profile does; "" if it is unknown. */
static void name_drive(int fd, char name[RUNG_DRIVE_NAME_BYTES])
{
	struct stat st;

	name[0] = 0;
	if (fstat(fd, &st) == 0)
		rung__mount_drive("", st.st_dev, name, RUNG_DRIVE_NAME_BYTES);
}

/* Open the files of the rows to learn their layout, their alignment for direct I/O and their
 * drives.
 * @param topology  NULL: memory is not placed, so the nodes of the drives are not needed */
static int learn_files(const struct rung_dataset *ds, const struct rung_topology *topology,
                       struct rung_plan *plan)
{
	struct rung__features features;
	int rc = plan->is_lists ? rung__lists_open(ds, &features)
	                        : rung__features_open(ds, &features);

	if (rc < 0)
		return rc;
	plan->data_offset = features.layout.data_offset;
	plan->file_count = (uint32_t)features.layout.file_count;
	plan->layout = features.layout;
	/* no overflow: the sum is the size of a file */
	plan->bytes.map = plan->vertex_count * features.layout.vertex_bytes;
	for (uint32_t f = 0; f < plan->file_count && rc == 0; f++) {
		/* one rule for the reads of all files: the largest alignment suits every file */
		plan->sector_bytes =
			RUNG__MAX(plan->sector_bytes, rung__dio_align(features.files[f].fd));
		name_drive(features.files[f].fd, plan->drive_names[f]);
		if (topology)
			rc = rung__placement_drive(topology, features.files[f].fd,
			                           &plan->placements.drives[f]);
	}
	rung__features_close(&features);
	return rc;
}

/* Lines of RUNG__LINE_BYTES that an array occupies; the last one may be partly used. */
static uint64_t lines_of(uint64_t items, uint64_t item_bytes)
{
	/* no overflow: the size of a file, which was checked */
	return (items * item_bytes + RUNG__LINE_BYTES - 1) / RUNG__LINE_BYTES;
}

/* Memory of the graph for sampling on a GPU. indptr has one more entry than there are vertices. */
static void measure_graph(const struct rung_dataset_info *info, struct rung_plan *plan)
{
	plan->graph_lines[0] = lines_of(info->vertex_count + 1, sizeof(uint64_t));
	plan->graph_lines[1] = lines_of(info->edge_count, info->index_bytes);
	plan->graph.bytes = (plan->graph_lines[0] + plan->graph_lines[1]) * RUNG__LINE_BYTES;
}

/*
 * Host budget in bytes; the default is half of the free memory of the allowed nodes. Free memory is
 * limited by the control group and, if nodes are known, by the memory of those that this process
 * may use.
 * @param topology  NULL: nodes are not restricted
 */
static uint64_t host_budget(const struct rung_plan *plan, const struct rung_plan_opts *opts,
                            const struct rung_topology *topology)
{
	uint64_t free_bytes = rung__host_memory_free(rung__machine_root);
	struct rung__node_budgets budgets;

	if (topology) {
		rung__node_budgets_find(topology, plan->only, &budgets);
		free_bytes = RUNG__MIN(free_bytes, rung__node_budgets_sum(&budgets));
	}
	if (opts->host_bytes == 0)
		return free_bytes / 2;
	return opts->host_bytes == RUNG_BYTES_NONE ? 0 : opts->host_bytes;
}

/* Derive settings from the profile. The queue depth is needed at once, because it determines the
 * number of slots; an explicit option has precedence over the profile. */
static void choose(struct rung_plan *plan, const struct rung_plan_opts *opts)
{
	plan->has_choice = opts->profile && plan->row_bytes > 0;
	if (plan->has_choice)
		rung__plan_choose(plan, opts->profile, &plan->tuning);
	plan->queue_depth = opts->queue_depth ? opts->queue_depth : plan->tuning.queue_depth;
	if (plan->queue_depth == 0)
		plan->queue_depth = QUEUE_DEPTH_DEFAULT;
}

static int check_opts(const struct rung_plan_opts *opts)
{
	if (opts->queue_depth > RUNG__QUEUE_DEPTH_MAX)
		return rung__fail(RUNG_E_INVAL, "queue depth %u is above %u, the maximum",
		                  opts->queue_depth, RUNG__QUEUE_DEPTH_MAX);
	if (!(opts->cache_share >= 0 && opts->cache_share <= 1))
		return rung__fail(RUNG_E_INVAL, "cache_share %g is out of range; give 0 to 1",
		                  opts->cache_share);
	if (opts->cache_share > 0 && opts->cache_bytes != 0)
		return rung__fail(RUNG_E_INVAL, "cache_share and cache_bytes are both set; "
		                                "leave one of them 0");
	return opts->profile ? rung__profile_check(opts->profile) : 0;
}

/* What all steps of creating a plan need. */
struct creation {
	const struct rung_dataset *ds;
	const struct rung_plan_opts *opts;
	struct rung_topology *topology;     /* NULL: nothing is placed */
	struct rung__node_budgets *budgets; /* memory left on each node; NULL: nothing is placed */
};

/*
 * Place the rows of a plan whose counts are set. The order of the steps is fixed: the profile's
 * choice needs the drives and the device; the slots need the chosen queue depth; and memory is
 * placed on nodes last, when all sizes are known.
 */
static int place(const struct creation *creation, uint64_t host_bytes, struct rung_plan *plan)
{
	static const char *const names[] = {
#define TIER_NAME(id, name) [id] = name,
		RUNG__TIER_LIST(TIER_NAME)
#undef TIER_NAME
	};
	const struct rung_plan_opts *opts = creation->opts;
	uint64_t gpu_bytes;
	int rc = learn_files(creation->ds, creation->topology, plan);

	if (rc < 0)
		return rc;
	if (opts->sample_on_gpu && opts->device != RUNG_DEVICE_CPU)
		measure_graph(rung_dataset_info(creation->ds), plan);
	rc = rung__plan_choose_device(plan, opts, &gpu_bytes);
	if (rc < 0)
		return rc;
	/* AUTO chose the CPU, which samples from private memory outside the budget */
	if (plan->device.device == RUNG_DEVICE_CPU)
		plan->graph = (struct rung__graph_location){ 0 };
	choose(plan, opts);
	rc = rung__plan_on_host(plan, opts, host_bytes, rung__plan_on_gpus(plan, opts, gpu_bytes));
	if (rc == 0)
		rc = rung__plan_place_host(plan, opts, creation->budgets);
	for (unsigned t = 0; t < RUNG__TIER_COUNT; t++) {
		plan->tiers[t].name = names[t];
		plan->tiers[t].bytes = plan->tiers[t].row_count * plan->row_bytes;
		plan->tiers[t].hit_share = NAN;
	}
	return rc;
}

/* Bytes of the host budget that the lists need at least with these options. */
static uint64_t wanted_lists(const struct rung_dataset_info *info, uint64_t structure_bytes)
{
	const uint64_t all = info->edge_count * info->index_bytes;

	/* the last block is longer than its lists */
	return structure_bytes >= all ? rung__align_up(all, RUNG__LIST_BLOCK_BYTES)
	                              : structure_bytes;
}

/* Plan the blocks of the graph's lists, as rows of a second plan: the first blocks, those of the
 * hottest vertices, are in memory. */
static int place_lists(const struct creation *creation, struct rung_plan *plan)
{
	const struct rung_dataset_info *info = rung_dataset_info(creation->ds);
	const uint64_t all = info->edge_count * info->index_bytes;
	struct creation lists = *creation;
	struct rung_plan_opts opts = *creation->opts;
	struct rung_plan *sub;

	sub = plan->structure = rung__malloc(sizeof(*sub));
	if (!sub)
		return rung__fail(RUNG_E_NOMEM, "plan: out of memory");
	*sub = *plan; /* the machine, as it was inspected */
	sub->has_structure = false;
	sub->structure = NULL;
	if (plan->only)
		sub->only = &sub->bound;
	sub->is_lists = true;
	sub->vertex_count = (all - 1) / RUNG__LIST_BLOCK_BYTES + 1;
	sub->row_bytes = sub->row_stride = RUNG__LIST_BLOCK_BYTES;
	opts.device = RUNG_DEVICE_CPU; /* the CPU samples */
	opts.sample_on_gpu = opts.vertex_ids = 0;
	opts.cache_share = 0;
	/* lists are not announced: a cache would hold the blocks that the tier "host" holds */
	opts.cache_bytes = RUNG_BYTES_NONE;
	lists.opts = &opts;
	/* the last block must not be left out because it is longer than its lists */
	if (opts.structure_bytes >= all)
		opts.structure_bytes = RUNG_BYTES_MAX;
	return place(&lists, opts.structure_bytes, sub);
}

/* Report a budget that cannot hold the lists, with the least that holds them and the slots of the
 * rows. */
static int fail_lists(const struct creation *creation, uint64_t host_bytes, uint64_t lists_bytes,
                      struct rung_plan *plan)
{
	uint64_t least = lists_bytes;
	int rc = place(creation, 0, plan); /* fails if rows need slots: the least is that error's */

	if (rc < 0 && (rc != RUNG_E_INVAL || rung_last_error_min_bytes() == 0))
		return rc;
	least += rc < 0 ? rung_last_error_min_bytes() : 0;
	return rung__fail_min_bytes(
		least,
		"a host budget of %" PRIu64 " bytes cannot hold %" PRIu64
		" bytes of the graph and the staging slots of the rows; give at least %" PRIu64
		" bytes, or less for the structure",
		host_bytes, lists_bytes, least);
}

static int create(struct creation *creation, struct rung_plan *plan)
{
	const struct rung_dataset_info *info = rung_dataset_info(creation->ds);
	struct rung__node_budgets budgets;
	uint64_t host_bytes, lists_bytes = 0;
	int rc = rung__plan_inspect_machine(plan, creation->opts, &creation->topology);

	if (rc < 0)
		return rc;
	if (creation->topology) {
		rung__node_budgets_find(creation->topology, plan->only, &budgets);
		creation->budgets = &budgets;
	}
	host_bytes = host_budget(plan, creation->opts, creation->topology);
	plan->bytes.host = host_bytes;
	/* a graph without edges needs nothing */
	if (plan->has_structure && info->edge_count > 0) {
		lists_bytes = wanted_lists(info, creation->opts->structure_bytes);
		if (lists_bytes > host_bytes)
			return fail_lists(creation, host_bytes, lists_bytes, plan);
		rc = place_lists(creation, plan);
		if (rc < 0)
			return rc;
		lists_bytes = rung__plan_lists_bytes(plan);
	}
	return place(creation, host_bytes == RUNG_BYTES_MAX ? host_bytes : host_bytes - lists_bytes,
	             plan);
}

/* Set the size of a row: as staged, or as if the rows were quantized. */
static int choose_row(const struct rung_dataset *ds, enum rung_quant_format format,
                      struct rung_plan *plan)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung__quant quant = { .format = format, .scales = RUNG_SCALES_ROW };

	plan->row_bytes = info->stored_row_bytes;
	plan->row_stride = info->row_stride;
	if (format == RUNG_QUANT_NONE)
		return 0;
	quant.columns = info->features.row_bytes / rung_dtype_bytes(info->features.dtype);
	if (!rung__quant_valid(&quant) || !rung__quant_accepts(info->features.dtype) ||
	    info->quantization.format != RUNG_QUANT_NONE || info->features_path)
		return rung__fail(RUNG_E_INVAL,
		                  "%s: its rows of %s cannot be planned as quantized (%s); plan a "
		                  "dataset with f16, bf16, f32 or f64 rows in rank order",
		                  rung_dataset_dir(ds), rung_dtype_name(info->features.dtype),
		                  info->quantization.format ? "they are quantized already"
		                  : info->features_path     ? "they are in place"
		                                            : "the type is not supported");
	plan->row_bytes = plan->row_stride = rung__quant_row_bytes(&quant);
	return 0;
}

int rung_plan_create(const struct rung_dataset *ds, const struct rung_plan_opts *user_opts,
                     struct rung_plan **plan_out)
{
	struct rung_plan_opts opts = RUNG_PLAN_OPTS_INIT;
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct creation creation = { .ds = ds, .opts = &opts };
	struct rung_plan *plan;
	int rc = rung__opts_copy_in(&opts, sizeof(opts), user_opts, "rung_plan_opts");

	if (rc == 0)
		rc = check_opts(&opts);
	if (rc == 0)
		rc = rung__dataset_needs(ds, (opts.structure_bytes ? RUNG__NEEDS_LISTS : 0) |
		                                     (opts.quantize ? RUNG__NEEDS_ROWS : 0));
	if (rc < 0)
		return rc;
	plan = rung__zalloc(sizeof(*plan));
	if (!plan)
		return rung__fail(RUNG_E_NOMEM, "plan: out of memory");
	plan->vertex_count = info->vertex_count;
	plan->has_structure = opts.structure_bytes != 0;
	if (plan->has_structure)
		plan->bytes.offsets = rung__offsets_bytes(info->vertex_count, info->edge_count);
	rc = choose_row(ds, opts.quantize, plan);
	if (rc == 0)
		rc = create(&creation, plan);
	rung_topology_destroy(creation.topology); /* the plan keeps only node numbers */
	if (rc < 0) {
		rung_plan_destroy(plan);
		return rc;
	}
	*plan_out = plan;
	return 0;
}

void rung_plan_destroy(struct rung_plan *plan)
{
	if (!plan)
		return;
	rung_plan_destroy(plan->structure);
	rung__free(plan->placement_list);
	rung__free(plan);
}

const struct rung_plan *rung_plan_structure(const struct rung_plan *plan)
{
	return plan->structure;
}

const struct rung_plan_tier *rung_plan_tier(const struct rung_plan *plan, unsigned idx)
{
	idx += rung__first_tier(plan->device.device == RUNG_DEVICE_CUDA);
	return idx < RUNG__TIER_COUNT ? &plan->tiers[idx] : NULL;
}

const struct rung_plan_bytes *rung_plan_bytes(const struct rung_plan *plan)
{
	return &plan->bytes;
}

const struct rung_plan_slots *rung_plan_slots(const struct rung_plan *plan)
{
	return &plan->slots;
}

const struct rung_plan_cache *rung_plan_cache(const struct rung_plan *plan)
{
	return &plan->cache;
}

const struct rung_plan_device *rung_plan_device(const struct rung_plan *plan)
{
	return &plan->device;
}
