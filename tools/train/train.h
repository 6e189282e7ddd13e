/* SPDX-License-Identifier: Apache-2.0 */
/** `rung train`: its arguments, the state of an epoch, and the results. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include <stdint.h>
#include <stdio.h>

#include "data.h"
#include "model.h"
#include "tool.h"

struct train_args {
	struct tool_common common;
	struct tool_store_args store;
	const char *dir;
	/* batch_size 0: as staged; patience 0: all epochs */
	uint32_t hidden, batch_size, epochs, patience;
	uint32_t look_ahead; /* batches; 0: the loader's default */
	/* count 0: as staged; of evaluation: as in training */
	struct tool_fanouts fanouts, eval_fanouts;
	/* a negative input_dropout: the same as dropout */
	double lr, weight_decay, dropout, input_dropout;
	double status;   /* seconds between two status lines; 0: none */
	double consumer; /* batches per second that are taken without computing; 0: train */
	enum train_norm norm;
	uint64_t seed;
	int no_edges;
	const char *trace_out, *trace_svg; /* files to write; NULL: not */
	char **argv;                       /* the command line, for the command to try next */
};

struct train_epoch {
	double loss; /* mean over the train split; NaN with a consumer that computes nothing */
	double seconds, compute_s;                 /* of training, without evaluation */
	struct rung_loader_stats load;             /* of training, without evaluation */
	double valid_accuracy, valid_loss, eval_s; /* NaN without a valid split */
};

struct train_result {
	struct train_epoch *epochs; /* [epoch_count] */
	uint32_t epoch_count;
	uint32_t best_epoch;  /* index of the epoch whose weights were tested */
	double test_accuracy; /* NaN without a test split */
	uint64_t batches;     /* of all passes, evaluation and test included */
	double seconds;       /* from the first batch of training to the last of the test */
};

#define TRAIN_MARKS_MAX 4096u

/** A batch of training: when each step began, in nanoseconds as tool_now_ns(). */
struct train_mark {
	uint64_t batch;   /**< in its epoch, counted from 1 */
	uint64_t rows;    /**< requested */
	uint32_t epoch;   /**< counted from 1 */
	uint64_t wait_ns; /**< the wait for this batch */
	uint64_t begin_ns;
	uint64_t backward_ns, update_ns; /**< 0 with a consumer */
	uint64_t end_ns;
	struct rung_loader_times load;
};

/** The newest batches of training, at most TRAIN_MARKS_MAX. */
struct train_timeline {
	struct train_mark *marks; /**< a ring; NULL: nothing is recorded. Free it with free() */
	uint64_t count;           /**< of all batches that were added */
};

/** Start recording. @return a status */
int train_timeline_init(struct train_timeline *timeline);
void train_timeline_add(struct train_timeline *timeline, const struct train_mark *mark);

/** Write a trace in Chrome's JSON format. A failed write is reported when the file is committed,
 * here and below. */
void train_timeline_json(const struct train_timeline *timeline, FILE *out);
/** Draw a few batches in the middle of the last epoch. @param dir  for the title */
void train_timeline_svg(const struct train_timeline *timeline, const char *dir, FILE *out);

/** The parts that work together. The caller opens and closes them. */
struct train_run {
	const char *name; /* "rung train" */
	const struct train_args *args;
	const struct train_data *data;
	const struct rung_dataset_info *info;
	enum rung_dtype
		row_dtype; /* of gathered rows; quantized ones are not as they were staged */
	struct rung_loader *loader, *eval_loader; /* may be the same one */
	struct train_model *model;
	struct tool_progress *progress;
	struct train_timeline *timeline;
};

/**
 * Train for the requested epochs, evaluate after each, and test the best weights: those with the
 * highest validation accuracy, then the lowest validation loss, then the earliest. Without a valid
 * split the last weights are tested.
 * @param result_out  written for TOOL_DONE; free its epochs with free()
 * @return an exit code, the failure printed
 */
int train_run(struct train_run *run, struct train_result *result_out);

/** Print the table line of an epoch, counted from 1, on stdout; a heading before the first. */
void train_print_epoch(uint32_t number, const struct train_epoch *epoch);
/** Counters of the store at the end. */
struct train_reads {
	struct rung_store_stats rows;
	struct rung_store_stats lists; /* valid if has_lists */
	int has_lists;                 /* nonzero: batches were sampled */
};

/** Print the result and the counters on stdout. */
void train_print_summary(const struct train_run *run, const struct train_result *result,
                         const struct train_reads *reads);

/** Print all of it as one JSON object. @return an exit code */
int train_print_json(const struct train_run *run, const struct train_result *result,
                     const struct train_reads *reads);

#endif
