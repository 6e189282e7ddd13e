/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels and splits. Labels have any number type, one per vertex: a class is a whole number from 0
 * on; NaN and negative numbers stand for no label.
 */
#include "data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "tool.h"

static const char *const split_names[TRAIN_SPLIT_COUNT] = { "train", "valid", "test" };

#define LABEL_CASE(code, type)                                                                     \
	case code: {                                                                               \
		type value;                                                                        \
		memcpy(&value, at, sizeof(value));                                                 \
		return (double)value;                                                              \
	}

/* Label of rank r, of any number type. All valid classes are exact in a double. */
static double label_value(enum rung_dtype dtype, const void *labels, uint64_t r)
{
	const unsigned char *at = (const unsigned char *)labels + r * rung_dtype_bytes(dtype);
	uint16_t half;
	switch (dtype) {
		LABEL_CASE(RUNG_I8, int8_t)
		LABEL_CASE(RUNG_I16, int16_t)
		LABEL_CASE(RUNG_U16, uint16_t)
		LABEL_CASE(RUNG_I32, int32_t)
		LABEL_CASE(RUNG_U32, uint32_t)
		LABEL_CASE(RUNG_I64, int64_t)
		LABEL_CASE(RUNG_U64, uint64_t)
		LABEL_CASE(RUNG_F32, float)
		LABEL_CASE(RUNG_F64, double)
	case RUNG_F16:
		memcpy(&half, at, sizeof(half));
		return (double)train_from_f16(half);
	case RUNG_BF16:
		memcpy(&half, at, sizeof(half));
		return (double)train_from_bf16(half);
	default: /* u8, bool */
		return (double)*at;
	}
}

struct loader {
	const struct rung_dataset *ds;
	const char *name;
	int quiet;
	struct rung_array_info info; /* of the labels */
	void *values;                /* the labels as staged; free with rung_free() */
	unsigned char *seen;         /* one bit per vertex: it occurred in the current split */
	struct train_data *data;
};

/* Load the labels and check their shape. @return an exit code, the failure printed */
static int load_values(struct loader *loader)
{
	const char *dir = rung_dataset_dir(loader->ds);
	int rc = rung_dataset_load_array(loader->ds, "labels", &loader->info, &loader->values);
	if (rc == RUNG_E_NOENT)
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: has no labels to train on; stage it with --labels SRC", dir);
	if (rc < 0)
		return tool_fail(loader->name, rc);
	if (loader->info.row_count != rung_dataset_info(loader->ds)->vertex_count)
		return tool_error(
			loader->name, TOOL_FAILED,
			"%s: has %" PRIu64 " labels for %" PRIu64 " vertices; stage it again", dir,
			loader->info.row_count, rung_dataset_info(loader->ds)->vertex_count);
	if (loader->info.row_bytes != rung_dtype_bytes(loader->info.dtype))
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: labels have %" PRIu64
		                  " bytes per vertex; one number per vertex is needed",
		                  dir, loader->info.row_bytes);
	return TOOL_DONE;
}

/* Keep the ids of a split that can be trained on, in their order: distinct ones with a label. Only
 * labels of splits are checked; others may be anything. @return an exit code, the failure
 * printed */
static int filter_split(struct loader *loader, const char *split_name, struct train_split *split)
{
	struct train_data *data = loader->data;
	uint64_t kept = 0, repeats = 0, unlabelled = 0;
	memset(loader->seen, 0, (loader->info.row_count + 7) / 8);
	for (uint64_t i = 0; i < split->count; i++) {
		uint64_t r = split->ids[i];
		double value = label_value(loader->info.dtype, loader->values, r);
		if (loader->seen[r / 8] & (1u << (r % 8))) {
			repeats++;
			continue;
		}
		loader->seen[r / 8] |= (unsigned char)(1u << (r % 8));
		if (!(value >= 0)) {
			unlabelled++;
			continue;
		}
		if (value >= TRAIN_CLASSES_MAX || value != floor(value))
			return tool_error(loader->name, TOOL_FAILED,
			                  "%s: labels: rank %" PRIu64
			                  " of split %s has label %.9g; labels must be whole "
			                  "numbers from 0 to %u",
			                  rung_dataset_dir(loader->ds), r, split_name, value,
			                  TRAIN_CLASSES_MAX - 1);
		data->labels[r] = (int32_t)value;
		if ((uint32_t)value >= data->class_count)
			data->class_count = (uint32_t)value + 1;
		split->ids[kept++] = r;
	}
	if ((unlabelled || repeats) && !loader->quiet)
		fprintf(stderr,
		        "%s: split %s: %" PRIu64 " of %" PRIu64 " ids left out (%" PRIu64
		        " without label, %" PRIu64 " repeated)\n",
		        loader->name, split_name, unlabelled + repeats, split->count, unlabelled,
		        repeats);
	split->count = kept;
	return TOOL_DONE;
}

/* Load all splits; only "train" is required. @return an exit code, the failure printed */
static int load_splits(struct loader *loader)
{
	const char *dir = rung_dataset_dir(loader->ds);
	for (int s = 0; s < TRAIN_SPLIT_COUNT; s++) {
		struct train_split *split = &loader->data->splits[s];
		char array[32];
		snprintf(array, sizeof(array), "split_%s", split_names[s]);
		int rc = rung_dataset_load_ids(loader->ds, array, &split->count, &split->ids);
		if (rc == RUNG_E_NOENT) {
			split->ids = NULL;
			split->count = 0;
			continue;
		}
		if (rc < 0)
			return tool_fail(loader->name, rc);
		rc = filter_split(loader, split_names[s], split);
		if (rc != TOOL_DONE)
			return rc;
	}
	if (!loader->data->splits[TRAIN_SPLIT_TRAIN].ids)
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: has no split 'train'; stage it with --split train=SRC", dir);
	if (!loader->data->splits[TRAIN_SPLIT_TRAIN].count)
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: split 'train' has no vertex with a label", dir);
	return TOOL_DONE;
}

/* Accuracy on the test split of always predicting the most frequent class of the train split (the
 * first of equally frequent ones): a model that learned something is better. */
static int find_majority(struct train_data *data)
{
	const struct train_split *train = &data->splits[TRAIN_SPLIT_TRAIN],
				 *test = &data->splits[TRAIN_SPLIT_TEST];
	uint64_t *count = calloc(data->class_count, sizeof(*count));
	uint64_t hits = 0;
	uint32_t best = 0;
	if (!count)
		return RUNG_E_NOMEM;
	for (uint64_t i = 0; i < train->count; i++)
		count[data->labels[train->ids[i]]]++;
	for (uint32_t c = 1; c < data->class_count; c++) {
		if (count[c] > count[best])
			best = c;
	}
	for (uint64_t i = 0; i < test->count; i++)
		hits += (uint32_t)data->labels[test->ids[i]] == best;
	data->majority_accuracy = test->count ? (double)hits / (double)test->count : (double)NAN;
	free(count);
	return 0;
}

int train_data_load(const struct rung_dataset *ds, const char *name, int quiet,
                    struct train_data *data_out)
{
	uint64_t vertex_count = rung_dataset_info(ds)->vertex_count;
	struct train_data data = { 0 };
	struct loader loader = { .ds = ds, .name = name, .quiet = quiet, .data = &data };
	int code = load_values(&loader);
	if (code != TOOL_DONE)
		goto free_values;
	data.labels = malloc(vertex_count * sizeof(*data.labels));
	loader.seen = malloc(vertex_count / 8 + 1);
	if (data.labels && loader.seen) {
		memset(data.labels, 0xff, vertex_count * sizeof(*data.labels)); /* all -1 */
		code = load_splits(&loader);
		if (code == TOOL_DONE && find_majority(&data) < 0)
			code = tool_error(name, TOOL_FAILED, "no memory to count %u classes",
			                  data.class_count);
	} else {
		code = tool_error(name, TOOL_FAILED, "no memory for %" PRIu64 " labels",
		                  vertex_count);
	}
	free(loader.seen);
	if (code == TOOL_DONE)
		*data_out = data;
	else
		train_data_fini(&data);
free_values:
	rung_free(loader.values);
	return code;
}

void train_data_fini(struct train_data *data)
{
	for (int s = 0; s < TRAIN_SPLIT_COUNT; s++)
		rung_free(data->splits[s].ids);
	free(data->labels);
	memset(data, 0, sizeof(*data));
}
