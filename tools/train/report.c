/* SPDX-License-Identifier: Apache-2.0 */
/* The output of rung train. Losses and accuracies have nine digits, so that two runs that print the
 * same numbers computed the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/command.h"
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

/* ---- verdict ---- */

#define WAIT_SHARE_MAX 0.05 /* a smaller share is not worth more memory */
#define COPY_SHARE_MIN 0.9  /* the thread that copies rows has no time left */

/* What bounds the training: a word of the JSON. The wait is a part of the seconds, and both are
 * sums over the epochs, without evaluation. */
struct verdict {
	const char *bound;
	double seconds, wait_s, compute_s; /* compute_s: per batch */
	char text[160];                    /* a sentence */
	char *command;                     /* to try next; NULL: none, or no memory */
	const char *purpose;               /* of the command */
};

/* rung plan for this sampling: options that differ from those of the dataset are repeated. */
static void write_plan(FILE *out, const struct train_run *run, double compute_s)
{
	const struct rung_dataset_info *info = run->info;
	const struct tool_fanouts *fanouts = &run->args->fanouts;

	fputs("rung plan ", out);
	command_word(out, run->args->dir);
	if (fanouts->count != info->fanout_count ||
	    memcmp(fanouts->hops, info->fanouts, fanouts->count * sizeof(*fanouts->hops)) != 0) {
		for (uint32_t h = 0; h < fanouts->count; h++) {
			fputs(h ? "," : " --fanout ", out);
			if (fanouts->hops[h] == UINT32_MAX)
				fputs("all", out);
			else
				fprintf(out, "%u", fanouts->hops[h]);
		}
	}
	if (run->args->batch_size != info->batch_size)
		fprintf(out, " --batch %u", run->args->batch_size);
	if (run->args->store.profile) {
		fputs(" --profile ", out);
		command_word(out, run->args->store.profile);
	}
	if (compute_s >= 1)
		fprintf(out, " --compute %.1fs", compute_s);
	else if (compute_s >= 1e-6)
		fprintf(out, " --compute %.3gms", compute_s * 1e3);
}

static void add_command(const struct train_run *run, struct verdict *verdict, int lists_in_file)
{
	const unsigned cpus = tool_cpu_count();
	const uint32_t threads = run->args->common.threads;
	char text[16];
	size_t bytes;
	FILE *out;

	if (strcmp(verdict->bound, "sampling") == 0 && !lists_in_file) {
		snprintf(text, sizeof(text), "%u", cpus);
		if (threads && threads < cpus)
			verdict->command = command_changed(
				run->args->argv, &(struct command_change){ "threads", text, 0 }, 1);
		verdict->purpose = "more threads sample";
		return;
	}
	out = open_memstream(&verdict->command, &bytes);
	if (!out)
		return;
	if (strcmp(verdict->bound, "memory") == 0) {
		fputs("rung numa --only gather", out);
		verdict->purpose = "how fast the memory is";
	} else if (!run->args->no_edges) { /* a plan samples neighbours */
		write_plan(out, run, verdict->compute_s);
		verdict->purpose = strcmp(verdict->bound, "compute") == 0
		                           ? "the least memory without waiting"
		                           : "the memory that removes the wait";
	}
	if (fclose(out) != 0 || !bytes) {
		free(verdict->command);
		verdict->command = NULL;
	}
}

static void write_text(const struct train_run *run, struct verdict *verdict)
{
	const char *what = strcmp(verdict->bound, "compute") == 0
	                           ? run->args->consumer > 0 ? "the consumer" : "computation"
	                   : strcmp(verdict->bound, "drive") == 0  ? "the drive"
	                   : strcmp(verdict->bound, "memory") == 0 ? "copying in memory"
	                                                           : "sampling";
	char wait[TOOL_TEXT_BYTES], seconds[TOOL_TEXT_BYTES];

	snprintf(verdict->text, sizeof(verdict->text),
	         "%s bounds this run; %s waited %.1f %% of the time for batches (%s of %s)", what,
	         run->args->consumer > 0 ? "the consumer" : "training",
	         100 * verdict->wait_s / verdict->seconds, tool_seconds_text(wait, verdict->wait_s),
	         tool_seconds_text(seconds, verdict->seconds));
}

/* The caller frees the command. */
static struct verdict decide(const struct train_run *run, const struct train_result *result,
                             const struct train_reads *reads)
{
	struct verdict verdict = { .bound = "compute" };
	double sampling_s = 0, copying_s = 0;
	uint64_t batches = 0, lists = 0;

	for (uint32_t e = 0; e < result->epoch_count; e++) {
		const struct train_epoch *epoch = &result->epochs[e];

		verdict.seconds += epoch->seconds;
		verdict.wait_s += epoch->load.wait_s;
		verdict.compute_s += epoch->compute_s;
		sampling_s += epoch->load.wait_sample_s;
		copying_s += epoch->load.gather_s + epoch->load.announce_s;
		batches += epoch->load.batches;
	}
	verdict.compute_s /= (double)(batches ? batches : 1);
	if (run->args->consumer > 0) /* without the delays of its timer */
		verdict.compute_s = 1 / run->args->consumer;
	for (uint32_t t = 0; reads->has_lists && t < reads->lists.tier_count; t++) {
		if (strcmp(reads->lists.tiers[t].name, "host") != 0)
			lists += reads->lists.tiers[t].rows;
	}
	if (verdict.wait_s >= WAIT_SHARE_MAX * verdict.seconds) {
		if (sampling_s > verdict.wait_s / 2)
			verdict.bound = "sampling";
		else if (copying_s >= COPY_SHARE_MIN * verdict.seconds || !reads->rows.device_reads)
			verdict.bound = "memory";
		else
			verdict.bound = "drive";
	}
	write_text(run, &verdict);
	add_command(run, &verdict, lists > 0);
	return verdict;
}

static void print_verdict(const struct verdict *verdict)
{
	putchar('\n');
	tool_wrap(9, "verdict: %s", verdict->text);
	if (verdict->command)
		printf("next:    %s   (%s)\n", verdict->command, verdict->purpose);
}

static json_t *verdict_json(const struct verdict *verdict)
{
	json_t *object = json_object();

	tool_json_set(object, "bound", tool_json_text(verdict->bound));
	tool_json_set(object, "wait_s", tool_json_real(verdict->wait_s));
	tool_json_set(object, "wait_share", tool_json_real(verdict->wait_s / verdict->seconds));
	tool_json_set(object, "compute_s_per_batch", tool_json_real(verdict->compute_s));
	tool_json_set(object, "text", tool_json_text(verdict->text));
	tool_json_set(object, "command", tool_json_text(verdict->command));
	return object;
}

/* ---- tables ---- */

static int by_seconds(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median of the epochs' seconds; the lower one of two. NaN without memory. */
static double median_seconds(const struct train_result *result)
{
	double *seconds = malloc(result->epoch_count * sizeof(*seconds)), median;

	if (!seconds)
		return (double)NAN;
	for (uint32_t e = 0; e < result->epoch_count; e++)
		seconds[e] = result->epochs[e].seconds;
	qsort(seconds, result->epoch_count, sizeof(*seconds), by_seconds);
	median = seconds[(result->epoch_count - 1) / 2];
	free(seconds);
	return median;
}

static void print_accuracies(const struct train_run *run, const struct train_result *result)
{
	const struct train_epoch *best = &result->epochs[result->best_epoch];
	char text[TOOL_TEXT_BYTES];
	printf("\ntest accuracy      %9s  (%.9g)\n", percent(text, result->test_accuracy),
	       result->test_accuracy);
	printf("valid accuracy     %9s  (%.9g), best epoch %u of %u\n",
	       percent(text, best->valid_accuracy), best->valid_accuracy, result->best_epoch + 1,
	       result->epoch_count);
	printf("majority class     %9s  of the test split\n",
	       percent(text, run->data->majority_accuracy));
	printf("loss               %9.4g  in epoch %u\n", best->loss, result->best_epoch + 1);
}

void train_print_summary(const struct train_run *run, const struct train_result *result,
                         const struct train_reads *reads)
{
	const struct rung_store_stats *stats = &reads->rows;
	struct verdict verdict = decide(run, result, reads);
	char text[TOOL_TEXT_BYTES];

	if (run->args->consumer > 0)
		printf("\nconsumer of %g batches/s, which computes nothing\n", run->args->consumer);
	else
		print_accuracies(run, result);
	printf("epoch              %9s  median; %.1f %% of it waiting for batches\n",
	       tool_seconds_text(text, median_seconds(result)),
	       100 * verdict.wait_s / verdict.seconds);
	printf("time               %9s  with evaluation\n",
	       tool_seconds_text(text, result->seconds));
	if (!(run->args->consumer > 0))
		printf("model              %9llu  parameters, %s\n",
		       (unsigned long long)run->model->param_count,
		       run->args->no_edges ? "without edges" : "GraphSAGE");
	printf("peak memory        %9s\n", tool_bytes_text(text, (double)tool_peak_rss()));
	printf("read from file     %9s  in %llu reads, %.3g per requested row\n\n",
	       tool_bytes_text(text, (double)stats->device_read_bytes),
	       (unsigned long long)stats->device_reads,
	       (double)stats->device_reads / (double)rows_requested(stats));
	tool_print_hits(stats);
	tool_print_engine(stats);
	if (reads->has_lists)
		print_lists(&reads->lists, result->batches);
	print_verdict(&verdict);
	free(verdict.command);
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
	struct verdict verdict = decide(run, result, reads);
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
	tool_json_set(object, "ahead_rows", tool_json_u64(stats->ahead_rows));
	tool_json_set(object, "window_batches", tool_json_u64(stats->window_batches));
	tool_json_set(object, "read_rows", tool_json_u64(stats->read_rows));
	tool_json_set(object, "engine", tool_json_text(stats->engine));
	tool_json_set(object, "device_reads", tool_json_u64(stats->device_reads));
	tool_json_set(object, "device_read_bytes", tool_json_u64(stats->device_read_bytes));
	tool_json_set(object, "batches", tool_json_u64(result->batches));
	tool_json_set(object, "reads_per_row",
	              tool_json_real((double)stats->device_reads / (double)rows_requested(stats)));
	tool_json_set(object, "structure", lists_json(reads, result->batches));
	tool_json_set(object, "verdict", verdict_json(&verdict));
	free(verdict.command);
	tool_json_set(object, "peak_rss_bytes", tool_json_u64(tool_peak_rss()));
	return tool_json_print(run->name, object) == 0 ? TOOL_DONE : TOOL_FAILED;
}
