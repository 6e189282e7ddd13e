/* SPDX-License-Identifier: Apache-2.0 */
/* The output of rung train. Losses and accuracies have nine digits, so that two runs that print the
 * same numbers computed the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output/json.h"
#include "train.h"

/* "-" for NaN: the split does not exist. */
static const char *percent(char text[TOOL_TEXT_BYTES], double share)
{
	if (isnan(share))
		snprintf(text, TOOL_TEXT_BYTES, "-");
	else
		snprintf(text, TOOL_TEXT_BYTES, "%.2f %%", 100 * share);
	return text;
}

/* "-" for NaN: a consumer computes no loss. */
static const char *loss_text(char text[TOOL_TEXT_BYTES], double loss)
{
	if (isnan(loss))
		snprintf(text, TOOL_TEXT_BYTES, "-");
	else
		snprintf(text, TOOL_TEXT_BYTES, "%.9g", loss);
	return text;
}

/* Columns in seconds: sampling is summed over threads and may exceed the wall time; compute and
 * stall are parts of the wall time. */
void train_print_epoch(uint32_t number, const struct train_epoch *epoch)
{
	char valid[TOOL_TEXT_BYTES], loss[TOOL_TEXT_BYTES];
	if (number == 1) {
		printf("%5s %12s %9s %9s %9s %9s %9s %9s %9s\n", "epoch", "loss", "valid",
		       "seconds", "sample", "gather", "compute", "stall", "eval");
	}
	printf("%5u %12s %9s %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n", number,
	       loss_text(loss, epoch->loss), percent(valid, epoch->valid_accuracy), epoch->seconds,
	       epoch->load.sample_s, epoch->load.gather_s, epoch->compute_s, epoch->load.wait_s,
	       epoch->eval_s);
}

/* Rows that the batches requested. */
static uint64_t rows_requested(const struct rung_store_stats *rows)
{
	uint64_t requested = 0;
	for (uint32_t t = 0; t < rows->tier_count; t++)
		requested += rows->tiers[t].hits;
	return requested;
}

/* Blocks of lists: those in memory are read directly, and their reads are not counted. */
static void print_lists(const struct rung_store_stats *lists, uint64_t batches)
{
	char text[TOOL_TEXT_BYTES];
	uint64_t cold = 0;
	if (lists->tier_count == 0) /* a graph without edges */
		return;
	printf("\n%-8s %14s %14s\n", "lists", "blocks", "requested");
	for (uint32_t t = 0; t < lists->tier_count; t++) {
		const struct rung_tier_stats *tier = &lists->tiers[t];
		printf("%-8s %14llu ", tier->name, (unsigned long long)tier->rows);
		if (strcmp(tier->name, "host") == 0)
			printf("%14s\n", "-");
		else
			printf("%14llu\n", (unsigned long long)tier->hits);
		cold += strcmp(tier->name, "host") == 0 ? 0 : tier->rows;
	}
	if (cold)
		printf("reads of lists: %llu, %.3g a batch, %s\n",
		       (unsigned long long)lists->device_reads,
		       (double)lists->device_reads / (double)batches,
		       tool_bytes_text(text, (double)lists->device_read_bytes));
}

static void print_accuracies(const struct train_run *run, const struct train_result *result)
{
	const struct train_epoch *best = &result->epochs[result->best_epoch];
	char text[TOOL_TEXT_BYTES];
	printf("\n%s, %llu parameters, best epoch %u of %u\n",
	       run->args->no_edges ? "model without edges" : "GraphSAGE",
	       (unsigned long long)run->model->param_count, result->best_epoch + 1,
	       result->epoch_count);
	printf("valid accuracy     %9s  (%.9g)\n", percent(text, best->valid_accuracy),
	       best->valid_accuracy);
	printf("test accuracy      %9s  (%.9g)\n", percent(text, result->test_accuracy),
	       result->test_accuracy);
	printf("majority class     %9s  of the test split\n",
	       percent(text, run->data->majority_accuracy));
}

void train_print_summary(const struct train_run *run, const struct train_result *result,
                         const struct train_reads *reads)
{
	const struct rung_store_stats *stats = &reads->rows;
	char text[TOOL_TEXT_BYTES];
	if (run->args->consumer > 0)
		printf("\nconsumer of %g batches/s, which computes nothing\n", run->args->consumer);
	else
		print_accuracies(run, result);
	printf("time               %9s\n", tool_seconds_text(text, result->seconds));
	printf("peak memory        %9s\n", tool_bytes_text(text, (double)tool_peak_rss()));
	printf("read from file     %9s  in %llu reads, %.3g per requested row\n\n",
	       tool_bytes_text(text, (double)stats->device_read_bytes),
	       (unsigned long long)stats->device_reads,
	       (double)stats->device_reads / (double)rows_requested(stats));
	tool_print_hits(stats);
	tool_print_engine(stats);
	if (reads->has_lists)
		print_lists(&reads->lists, result->batches);
}

/* NaN of an empty split becomes null. */
static json_t *epoch_json(const struct train_epoch *epoch)
{
	json_t *object = json_object();
	tool_json_set(object, "loss", tool_json_real(epoch->loss));
	tool_json_set(object, "seconds", tool_json_real(epoch->seconds));
	tool_json_set(object, "sample_s", tool_json_real(epoch->load.sample_s));
	tool_json_set(object, "gather_s", tool_json_real(epoch->load.gather_s));
	tool_json_set(object, "announce_s", tool_json_real(epoch->load.announce_s));
	tool_json_set(object, "compute_s", tool_json_real(epoch->compute_s));
	tool_json_set(object, "stall_s", tool_json_real(epoch->load.wait_s));
	tool_json_set(object, "stall_sample_s", tool_json_real(epoch->load.wait_sample_s));
	tool_json_set(object, "stall_rows_s", tool_json_real(epoch->load.wait_rows_s));
	tool_json_set(object, "batches", tool_json_u64(epoch->load.batches));
	tool_json_set(object, "rows", tool_json_u64(epoch->load.rows));
	tool_json_set(object, "announced", tool_json_u64(epoch->load.announced));
	tool_json_set(object, "valid_accuracy", tool_json_real(epoch->valid_accuracy));
	tool_json_set(object, "valid_loss", tool_json_real(epoch->valid_loss));
	tool_json_set(object, "eval_s", tool_json_real(epoch->eval_s));
	return object;
}

/* Null with --no-edges. "hits" of tier "host" are null: reads from memory are not counted. */
static json_t *lists_json(const struct train_reads *reads, uint64_t batches)
{
	const struct rung_store_stats *lists = &reads->lists;
	json_t *object, *tiers = json_array();
	if (!reads->has_lists) {
		json_decref(tiers);
		return json_null();
	}
	object = json_object();
	for (uint32_t t = 0; t < lists->tier_count; t++) {
		const struct rung_tier_stats *tier = &lists->tiers[t];
		const int counted = strcmp(tier->name, "host") != 0;
		json_t *entry = json_object();
		tool_json_set(entry, "name", tool_json_text(tier->name));
		tool_json_set(entry, "blocks", tool_json_u64(tier->rows));
		tool_json_set(entry, "hits", counted ? tool_json_u64(tier->hits) : json_null());
		tool_json_append(tiers, entry);
	}
	tool_json_set(object, "tiers", tiers);
	tool_json_set(object, "device_reads", tool_json_u64(lists->device_reads));
	tool_json_set(object, "device_read_bytes", tool_json_u64(lists->device_read_bytes));
	tool_json_set(object, "reads_per_batch",
	              tool_json_real((double)lists->device_reads / (double)batches));
	tool_json_set(object, "engine", tool_json_text(lists->engine));
	return object;
}

int train_print_json(const struct train_run *run, const struct train_result *result,
                     const struct train_reads *reads)
{
	const struct rung_store_stats *stats = &reads->rows;
	json_t *object = json_object(), *epochs = json_array();
	for (uint32_t e = 0; e < result->epoch_count; e++)
		tool_json_append(epochs, epoch_json(&result->epochs[e]));
	tool_json_set(object, "epochs", epochs);
	tool_json_set(object, "best_epoch", tool_json_u64(result->best_epoch + 1));
	tool_json_set(object, "valid_accuracy",
	              tool_json_real(result->epochs[result->best_epoch].valid_accuracy));
	tool_json_set(object, "test_accuracy", tool_json_real(result->test_accuracy));
	tool_json_set(object, "majority_accuracy", tool_json_real(run->data->majority_accuracy));
	tool_json_set(object, "edges", json_boolean(!run->args->no_edges));
	tool_json_set(object, "classes", tool_json_u64(run->model->class_count));
	tool_json_set(object, "parameters", tool_json_u64(run->model->param_count));
	tool_json_set(object, "fanout",
	              tool_json_u32s(run->args->fanouts.hops, run->args->fanouts.count));
	tool_json_set(object, "batch", tool_json_u64(run->args->batch_size));
	tool_json_set(object, "consumer",
	              run->args->consumer > 0 ? tool_json_real(run->args->consumer) : json_null());
	tool_json_set(object, "seconds", tool_json_real(result->seconds));
	tool_json_set(object, "tiers", tool_json_hits(stats));
	tool_json_set(object, "cache_hits", tool_json_u64(stats->cache_hits));
	tool_json_set(object, "joined_rows", tool_json_u64(stats->joined_rows));
	tool_json_set(object, "read_rows", tool_json_u64(stats->read_rows));
	tool_json_set(object, "engine", tool_json_text(stats->engine));
	tool_json_set(object, "device_reads", tool_json_u64(stats->device_reads));
	tool_json_set(object, "device_read_bytes", tool_json_u64(stats->device_read_bytes));
	tool_json_set(object, "batches", tool_json_u64(result->batches));
	tool_json_set(object, "reads_per_row",
	              tool_json_real((double)stats->device_reads / (double)rows_requested(stats)));
	tool_json_set(object, "structure", lists_json(reads, result->batches));
	tool_json_set(object, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return tool_json_print(run->name, object) == 0 ? TOOL_DONE : TOOL_FAILED;
}
