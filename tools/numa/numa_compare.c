/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two profiles, value by value. A value has changed if its median differs by more than the
 * threshold, and the ranges of the samples, from minimum to maximum, do not overlap: a noisy value
 * is no reason for an alarm.
 */
#include <stdlib.h>
#include <string.h>

#include "numa/numa_results.h"
#include "output/table.h"

/* What was found. */
struct changes {
	size_t both, worse, better;
	size_t of_other_threads;        /* not compared */
	uint32_t threads, threads_then; /* of one of these */
	struct tool_table *table;
};

static int is_same_cell(const struct rung_numa_result *a, const struct rung_numa_result *b)
{
	/* files have temporary or different names; a drive has one */
	return a->matrix == b->matrix && numa_alike(a->kind, b->kind) &&
	       a->cpu_node == b->cpu_node && a->memory_node == b->memory_node &&
	       a->all_cores == b->all_cores && a->level == b->level &&
	       a->row_bytes == b->row_bytes && a->page_bytes == b->page_bytes &&
	       a->queue_depth == b->queue_depth && numa_alike(a->drive, b->drive) &&
	       (a->drive || numa_alike(a->file, b->file)) &&
	       numa_alike(a->gpu_bus_id, b->gpu_bus_id) &&
	       numa_alike(a->to_gpu_bus_id, b->to_gpu_bus_id);
}

/* The same value in another profile, present in it; NULL: none. The search begins at position
 * `from`, because profiles mostly have the same order. */
static const struct rung_numa_result *find(const struct numa_measured *measured, size_t from,
                                           const struct rung_numa_result *like)
{
	const size_t count = measured->info.result_count;

	for (size_t i = 0; i < count; i++) {
		const struct rung_numa_result *result = numa_result(measured, (from + i) % count);

		if (!result->absent && is_same_cell(result, like))
			return result;
	}
	return NULL;
}

/* The place of a value: "node 0 -> node 1", "GPU0 -> node 1", "nvme0n1, 4.00 KiB, depth 32". */
static void place_cell(struct tool_table *table, const struct rung_numa_result *result)
{
	char from[TOOL_TEXT_BYTES], to[TOOL_TEXT_BYTES];

	snprintf(from, sizeof(from), "node %d", result->cpu_node);
	snprintf(to, sizeof(to), "node %d", result->memory_node);
	if (result->gpu_bus_id)
		numa_gpu_text(from, result->gpu, result->gpu_bus_id);
	if (result->to_gpu_bus_id)
		numa_gpu_text(to, result->to_gpu, result->to_gpu_bus_id);
	if (result->matrix == RUNG_NUMA_NVME)
		tool_table_cell(table, "%s -> %s, depth %u", from,
		                result->drive ? result->drive : result->file, result->queue_depth);
	else if (result->cpu_node < 0 && !result->gpu_bus_id)
		tool_table_cell(table, "%s", to);
	else
		tool_table_cell(table, "%s -> %s", from, to);
}

static void value_cell(struct tool_table *table, const struct rung_numa_result *result)
{
	const double median = numa_main_value(result)->median;
	char text[TOOL_TEXT_BYTES];

	if (result->matrix & (RUNG_NUMA_LATENCY | RUNG_NUMA_LOADED))
		tool_table_cell(table, "%s ns", numa_digits(text, median));
	else if (result->matrix & (RUNG_NUMA_TOUCH | RUNG_NUMA_REGISTER))
		tool_table_cell(table, "%s ms/GiB", numa_digits(text, 1000 * median));
	else
		tool_table_cell(table, "%s GB/s", numa_digits(text, median / 1e9));
}

static void compare_result(struct changes *changes, const struct rung_numa_result *now,
                           const struct rung_numa_result *old, double threshold)
{
	const struct rung_numa_value *value = numa_main_value(now), *was = numa_main_value(old);
	const int less_is_better = value != &now->bytes_per_s;
	const double change = value->median / was->median - 1;
	const int is_worse = less_is_better ? change > 0 : change < 0;
	char text[TOOL_TEXT_BYTES];

	changes->both++;
	if ((change < 0 ? -change : change) <= threshold ||
	    (value->min <= was->max && was->min <= value->max))
		return;
	tool_table_cell(changes->table, "%s", numa_label(text, now));
	tool_table_cell(changes->table, "%s",
	                now->all_cores < 0 ? ""
	                : now->all_cores   ? "all cores"
	                                   : "one core");
	place_cell(changes->table, now);
	value_cell(changes->table, old);
	value_cell(changes->table, now);
	tool_table_cell(changes->table, "%+.0f %%", 100 * change);
	tool_table_cell(changes->table, "%s", is_worse ? "worse" : "better");
	*(is_worse ? &changes->worse : &changes->better) += 1;
}

/* Nodes, GPUs and drives of `machine` that `other` does not have. */
static void print_shape(const struct numa_machine *machine, const struct numa_machine *other,
                        const char *whose)
{
	const struct rung_topology_node *node, *their_node;
	const struct rung_topology_device *device, *theirs;

	for (size_t i = 0; (node = numa_node(machine, i)) != NULL; i++) {
		for (size_t j = 0; (their_node = numa_node(other, j)) != NULL; j++) {
			if (their_node->node == node->node)
				break;
		}
		if (!their_node)
			printf("only %s: node %u\n", whose, node->node);
	}
	for (size_t i = 0; (device = numa_device(machine, i)) != NULL; i++) {
		for (size_t j = 0; (theirs = numa_device(other, j)) != NULL; j++) {
			if (theirs->kind == device->kind && strcmp(theirs->name, device->name) == 0)
				break;
		}
		if (!theirs)
			printf("only %s: %s %s\n", whose,
			       device->kind == RUNG_TOPOLOGY_GPU ? "GPU" : "drive", device->name);
	}
}

int numa_compare(const char *name, const struct numa_measured *measured,
                 const struct numa_profile *old, const char *path, double threshold)
{
	struct changes changes = { .table = tool_table_new("lllrrrl") };
	const struct rung_numa_result *now, *was;
	static const char *const names[] = { "changed", "", "place", "old", "new", "change", "" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		tool_table_cell(changes.table, "%s", names[i]);
	for (size_t i = 0; (now = numa_result(measured, i)) != NULL; i++) {
		was = now->absent ? NULL : find(&old->measured, i, now);
		if (was && now->threads != was->threads) {
			changes.of_other_threads++;
			changes.threads = now->threads;
			changes.threads_then = was->threads;
		} else if (was) {
			compare_result(&changes, now, was, threshold);
		}
	}
	print_shape(measured->machine, &old->machine, "in the new profile");
	print_shape(&old->machine, measured->machine, "in the old profile");
	if (measured->info.quick != old->measured.info.quick)
		printf("only one of the profiles is of --quick, so the values differ for that "
		       "reason, too\n");
	if (!changes.worse && !changes.better)
		tool_table_free(changes.table);
	else if (tool_table_print(changes.table) < 0)
		return tool_error(name, TOOL_FAILED, "no memory for the table");
	if (!changes.both)
		return tool_error(name, TOOL_FAILED,
		                  "--compare: %s has no value in common with this profile%s", path,
		                  changes.of_other_threads
		                          ? ", measured with as many threads; use the same "
		                            "--threads"
		                          : "");
	if (changes.of_other_threads)
		tool_wrap(2,
		          "%zu values are not compared, because they were measured with other "
		          "numbers of threads, such as %u instead of %u; use the same --threads",
		          changes.of_other_threads, changes.threads, changes.threads_then);
	tool_wrap(2, "%zu of %zu values are more than %g %% worse than in %s, and %zu are better",
	          changes.worse, changes.both, 100 * threshold, path, changes.better);
	return changes.worse ? TOOL_WORSE : TOOL_DONE;
}
