/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs: shuffle, train batch by batch, evaluate, keep the best weights. Draws come from keys
 * derived from the seed and sequence numbers, never from time or memory. A seed therefore gives the
 * same bits with any tier or engine.
 */
#include "train.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Keys of evaluation batches. They do not depend on the epoch, so that every evaluation samples the
 * same neighbourhoods, and they are larger than the key of any training step. */
#define EVAL_KEY(split) ((1ull << 63) | ((uint64_t)(split) << 56))
#define DROPOUT_KEY     0x64726f70u /* distinguishes input masks from those of layers */

struct trainer {
	struct train_run *run;
	struct train_adam adam;
	uint64_t step;            /* batches trained so far; also the key of the next one */
	uint64_t batches;         /* of all passes */
	struct train_mark mark;   /* of the batch in work */
	uint64_t busy_until_ns;   /* --consumer: end of the work on the last batch */
	uint64_t *order;          /* the train split, shuffled again in each epoch */
	struct train_buffer rows; /* rows of the batch in float32 */
	int32_t *labels;          /* [seed_count] of the batch */
	float *best_params;       /* [param_count] of the best epoch so far */
	/* blocks of the batch, the last hop first: the order of a model's layers */
	const struct rung_block *blocks[RUNG_HOPS_MAX];
	struct rung_block bare; /* --no-edges: a block without edges, used for all layers */
	uint64_t *bare_indptr;  /* its zeros, [batch_size + 1] */
	char stage[32];         /* name of the step for the progress */
};

/* Report a failed batch. @return an exit code */
static int no_memory(const struct trainer *trainer, int rc)
{
	return tool_error(trainer->run->name, TOOL_FAILED,
	                  "%s; use a smaller --batch, --fanout or --hidden",
	                  rc == RUNG_E_INVAL ? "a batch has more than 2^31 - 1 rows"
	                                     : "no memory for a batch of the model");
}

/* A number below `limit`, computed from the state without advancing it. The limit enters the hash,
 * and the shuffle passes a different one for each position. */
static uint64_t keyed_below(struct rung__rng *stream, uint64_t limit)
{
	uint64_t bits = stream->state + limit, value;
	do
		bits = rung__mix64(bits);
	while (!rung__bits_below(bits, limit, &value));
	return value;
}

/* Set the blocks of a batch; with --no-edges, a block without neighbours for each layer. */
static void claim_blocks(struct trainer *trainer, const struct rung_loader_batch *batch)
{
	uint32_t layer_count = trainer->run->model->layer_count;
	trainer->bare = (struct rung_block){ .dst_count = batch->seed_count,
		                             .src_count = batch->seed_count,
		                             .indptr = trainer->bare_indptr };
	for (uint32_t l = 0; l < layer_count; l++)
		trainer->blocks[l] =
			batch->block_count ? batch->blocks[layer_count - 1 - l] : &trainer->bare;
}

/* Convert the rows to float32 and compute the logits. @return a status */
static int forward(struct trainer *trainer, const struct rung_loader_batch *batch, int training,
                   struct train_input *input, float **logits)
{
	struct train_run *run = trainer->run;
	struct train_model *model = run->model;
	uint64_t width = model->layers[0].in_width;
	struct train_dropout dropout = { 0,
		                         train_key(run->args->seed, trainer->step, DROPOUT_KEY) };
	if (training)
		dropout.rate = (float)(run->args->input_dropout < 0 ? run->args->dropout
		                                                    : run->args->input_dropout);
	int rc = train_buffer_need(&trainer->rows, batch->rank_count, width);
	if (rc < 0)
		return rc;
	train_rows_convert(run->row_dtype, batch->rows, batch->rank_count, width, run->args->norm,
	                   dropout, trainer->rows.data);
	for (uint64_t i = 0; i < batch->seed_count; i++)
		trainer->labels[i] = *train_labels_at(&run->data->labels, batch->seeds[i]);
	claim_blocks(trainer, batch);
	*input = (struct train_input){ .blocks = trainer->blocks, .rows = trainer->rows.data };
	return train_model_forward(model, input, training, trainer->step, logits);
}

static bool row_is_finite(const float *row, uint64_t width)
{
	for (uint64_t i = 0; i < width; i++) {
		if (!isfinite(row[i]))
			return false;
	}
	return true;
}

/* Report a loss that is not finite: a feature is not finite, or the weights have diverged. @return
 * an exit code */
static int loss_failed(const struct trainer *trainer, const struct rung_loader_batch *batch,
                       double loss)
{
	const struct train_run *run = trainer->run;
	uint64_t width = run->model->layers[0].in_width;
	for (uint64_t i = 0; i < batch->rank_count; i++) {
		if (!row_is_finite(trainer->rows.data + i * width, width))
			return tool_error(run->name, TOOL_FAILED,
			                  "the features of rank %llu have NaN, an infinity or a "
			                  "number beyond float32; repair them and stage again",
			                  (unsigned long long)batch->ranks[i]);
	}
	return tool_error(run->name, TOOL_FAILED,
	                  "the loss is %g at step %llu; use a smaller --lr, or --normalize l2",
	                  loss, (unsigned long long)trainer->step);
}

/* One step of Adam on a batch. @return an exit code; the weights are unchanged if it is not
 * TOOL_DONE */
static int train_batch(struct trainer *trainer, const struct rung_loader_batch *batch,
                       double *loss_out)
{
	struct train_model *model = trainer->run->model;
	struct train_input input;
	float *logits;
	int rc = forward(trainer, batch, 1, &input, &logits);
	if (rc >= 0)
		rc = train_model_loss(model, logits, trainer->labels, batch->seed_count, 1,
		                      loss_out);
	trainer->mark.backward_ns = tool_now_ns();
	if (rc >= 0 && isfinite(*loss_out))
		rc = train_model_backward(model, &input);
	if (rc < 0)
		return no_memory(trainer, rc);
	if (!isfinite(*loss_out))
		return loss_failed(trainer, batch, *loss_out);
	trainer->mark.update_ns = tool_now_ns();
	train_adam_step(&trainer->adam, model);
	trainer->step++;
	return TOOL_DONE;
}

/* Loss and number of correct predictions of a batch. @return an exit code */
static int test_batch(struct trainer *trainer, const struct rung_loader_batch *batch,
                      double *loss_out, uint64_t *correct_out)
{
	struct train_model *model = trainer->run->model;
	struct train_input input;
	float *logits;
	int rc = forward(trainer, batch, 0, &input, &logits);
	if (rc >= 0)
		rc = train_model_loss(model, logits, trainer->labels, batch->seed_count, 0,
		                      loss_out);
	if (rc < 0)
		return no_memory(trainer, rc);
	if (!isfinite(*loss_out))
		return loss_failed(trainer, batch, *loss_out);
	*correct_out =
		train_count_correct(logits, trainer->labels, batch->seed_count, model->class_count);
	return TOOL_DONE;
}

/* Instead of training on a batch, keep it for as long as a device of the given rate would work on
 * it. Time that was spent waiting for a batch is lost, as on that device. A timer that fires late
 * shortens the next sleep instead. */
static void consume_batch(struct trainer *trainer, uint64_t waited_ns)
{
	uint64_t end_ns =
		trainer->busy_until_ns + waited_ns + (uint64_t)(1e9 / trainer->run->args->consumer);
	struct timespec end = { .tv_sec = (time_t)(end_ns / 1000000000u),
		                .tv_nsec = (long)(end_ns % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
	}
	trainer->busy_until_ns = end_ns;
	trainer->step++;
}

/* Begin a pass of a loader over a split, in the order of `ids`. @return a status */
static int begin_pass(struct rung_loader *loader, const struct train_split *split,
                      const uint64_t *ids, uint64_t key_first)
{
	struct rung_loader_pass pass = RUNG_LOADER_PASS_INIT;
	pass.seeds = ids;
	pass.seed_count = split->count;
	pass.key_first = key_first;
	return rung_loader_begin(loader, &pass);
}

/* Train on the whole train split once. @return an exit code */
static int train_epoch(struct trainer *trainer, uint32_t number, struct train_epoch *epoch)
{
	struct train_run *run = trainer->run;
	const struct train_split *split = &run->data->splits[TRAIN_SPLIT_TRAIN];
	const struct rung_loader_batch *batch;
	uint64_t start_ns = tool_now_ns(), end_ns = start_ns, compute_ns = 0, done = 0;
	struct rung__rng stream = { train_key(run->args->seed, number, 0) };
	double loss_sum = 0, loss;
	int rc;
	rung__shuffle(trainer->order, split->count, keyed_below, &stream);
	snprintf(trainer->stage, sizeof(trainer->stage), "epoch %u", number + 1);
	trainer->busy_until_ns = start_ns;
	tool_progress_update(run->progress, trainer->stage, 0, split->count);
	rc = begin_pass(run->loader, split, trainer->order, trainer->step);
	while (rc >= 0 && (rc = rung_loader_next(run->loader, &batch)) > 0) {
		uint64_t batch_ns = tool_now_ns(), seed_count = batch->seed_count;
		int code = TOOL_DONE;
		trainer->batches++;
		trainer->mark = (struct train_mark){ .batch = batch->batch_idx + 1,
			                             .rows = batch->rank_count,
			                             .epoch = number + 1,
			                             .wait_ns = end_ns,
			                             .begin_ns = batch_ns,
			                             .load = batch->times };
		loss = (double)NAN;
		if (run->args->consumer > 0)
			consume_batch(trainer, batch_ns - end_ns);
		else
			code = train_batch(trainer, batch, &loss);
		rung_loader_put(run->loader, batch, NULL);
		if (code != TOOL_DONE)
			return code;
		loss_sum += loss * (double)seed_count; /* the last batch may be smaller */
		done += seed_count;
		trainer->mark.end_ns = end_ns = tool_now_ns();
		train_timeline_add(run->timeline, &trainer->mark);
		compute_ns += end_ns - batch_ns;
		tool_progress_update(run->progress, trainer->stage, done, split->count);
	}
	epoch->load.size = sizeof(epoch->load);
	if (rc >= 0)
		rc = rung_loader_stats(run->loader, &epoch->load);
	if (rc < 0)
		return tool_fail(run->name, rc);
	epoch->loss = loss_sum / (double)split->count;
	epoch->seconds = (double)(tool_now_ns() - start_ns) / 1e9;
	epoch->compute_s = (double)compute_ns / 1e9;
	return TOOL_DONE;
}

/* Accuracy and loss of a split, always with the same sampled neighbourhoods; NaN for an empty
 * split. @param number  of the epoch, for the progress. @return an exit code */
static int evaluate(struct trainer *trainer, int which, uint32_t number, double *accuracy_out,
                    double *loss_out)
{
	struct train_run *run = trainer->run;
	const struct train_split *split = &run->data->splits[which];
	const struct rung_loader_batch *batch;
	uint64_t correct = 0, done = 0;
	double loss_sum = 0;
	int rc;
	*accuracy_out = *loss_out = (double)NAN;
	if (!split->count || run->args->consumer > 0)
		return TOOL_DONE;
	snprintf(trainer->stage, sizeof(trainer->stage),
	         which == TRAIN_SPLIT_TEST ? "testing" : "epoch %u validating", number + 1);
	tool_progress_update(run->progress, trainer->stage, 0, split->count);
	rc = begin_pass(run->eval_loader, split, split->ids, EVAL_KEY(which));
	while (rc >= 0 && (rc = rung_loader_next(run->eval_loader, &batch)) > 0) {
		uint64_t batch_correct = 0, seed_count = batch->seed_count;
		double loss = 0;
		int code = test_batch(trainer, batch, &loss, &batch_correct);
		trainer->batches++;
		rung_loader_put(run->eval_loader, batch, NULL);
		if (code != TOOL_DONE)
			return code;
		loss_sum += loss * (double)seed_count;
		correct += batch_correct;
		done += seed_count;
		tool_progress_update(run->progress, trainer->stage, done, split->count);
	}
	if (rc < 0)
		return tool_fail(run->name, rc);
	*accuracy_out = (double)correct / (double)split->count;
	*loss_out = loss_sum / (double)split->count;
	return TOOL_DONE;
}

/* By validation accuracy, then by validation loss. Among equal epochs the earlier one stays. */
static bool is_better(const struct train_epoch *epoch, const struct train_epoch *best)
{
	if (isnan(epoch->valid_accuracy)) /* no valid split: the last epoch counts */
		return true;
	if (epoch->valid_accuracy != best->valid_accuracy)
		return epoch->valid_accuracy > best->valid_accuracy;
	return epoch->valid_loss < best->valid_loss;
}

/* All epochs; afterwards the model has the weights of the best one. @return an exit code */
static int run_epochs(struct trainer *trainer, struct train_result *result)
{
	struct train_run *run = trainer->run;
	size_t param_bytes = run->model->param_count * sizeof(float);
	for (uint32_t e = 0; e < run->args->epochs; e++) {
		struct train_epoch *epoch = &result->epochs[e];
		int code = train_epoch(trainer, e, epoch);
		if (code != TOOL_DONE)
			return code;
		uint64_t start_ns = tool_now_ns();
		code = evaluate(trainer, TRAIN_SPLIT_VALID, e, &epoch->valid_accuracy,
		                &epoch->valid_loss);
		if (code != TOOL_DONE)
			return code;
		epoch->eval_s = (double)(tool_now_ns() - start_ns) / 1e9;
		result->epoch_count = e + 1;
		if (!run->args->common.json) {
			tool_progress_end(run->progress);
			train_print_epoch(e + 1, epoch);
			/* stop when the first line cannot be written, not after hours of
			 * training */
			if (tool_flush(run->name) != TOOL_DONE)
				return TOOL_FAILED;
		}
		if (e == 0 || is_better(epoch, &result->epochs[result->best_epoch])) {
			result->best_epoch = e;
			memcpy(trainer->best_params, run->model->params, param_bytes);
		}
		if (run->args->patience && e - result->best_epoch >= run->args->patience)
			break;
	}
	memcpy(run->model->params, trainer->best_params, param_bytes);
	return TOOL_DONE;
}

int train_run(struct train_run *run, struct train_result *result_out)
{
	const struct train_split *train = &run->data->splits[TRAIN_SPLIT_TRAIN];
	struct trainer trainer = { .run = run,
		                   .adam = { .lr = (float)run->args->lr,
		                             .weight_decay = (float)run->args->weight_decay } };
	struct train_result result = { .epochs =
		                               calloc(run->args->epochs, sizeof(*result.epochs)) };
	uint64_t start_ns = tool_now_ns();
	double test_loss;
	int code;
	trainer.order = malloc(train->count * sizeof(*trainer.order));
	trainer.labels = malloc(run->args->batch_size * sizeof(*trainer.labels));
	trainer.best_params = malloc(run->model->param_count * sizeof(float));
	trainer.bare_indptr =
		calloc((size_t)run->args->batch_size + 1, sizeof(*trainer.bare_indptr));
	if (result.epochs && trainer.order && trainer.labels && trainer.best_params &&
	    trainer.bare_indptr) {
		memcpy(trainer.order, train->ids, train->count * sizeof(*trainer.order));
		code = run_epochs(&trainer, &result);
		if (code == TOOL_DONE)
			code = evaluate(&trainer, TRAIN_SPLIT_TEST, 0, &result.test_accuracy,
			                &test_loss);
	} else {
		code = no_memory(&trainer, RUNG_E_NOMEM);
	}
	result.seconds = (double)(tool_now_ns() - start_ns) / 1e9;
	result.batches = trainer.batches;
	free(trainer.bare_indptr);
	free(trainer.order);
	free(trainer.labels);
	free(trainer.best_params);
	free(trainer.rows.data);
	if (code == TOOL_DONE)
		*result_out = result;
	else
		free(result.epochs);
	return code;
}
