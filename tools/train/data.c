/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels and splits. Labels have any number type, one per vertex: a class is a whole number from 0
 * on; NaN and negative numbers stand for no label. Splits come first: only the labels of their
 * vertices are kept, and the file is read in pieces.
 */
#include "data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "tool.h"

#define READ_LABELS (1u << 18) /* labels of a piece of the file */

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
	struct rung_source *file;    /* of the labels */
	struct rung_array_info info; /* of the labels */
	struct train_data *data;
};

/* Open the labels and check their shape. @return an exit code, the failure printed */
static int open_labels(struct loader *loader)
{
	const char *dir = rung_dataset_dir(loader->ds);
	const struct rung_dataset_info *dataset = rung_dataset_info(loader->ds);
	char *path;
	int rc;
	if (!dataset->has_labels)
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: has no labels to train on; stage it with --labels SRC", dir);
	if (asprintf(&path, "%s/labels.npy", dir) < 0)
		return tool_error(loader->name, TOOL_FAILED, "no memory for the path of labels");
	rc = rung_source_open(path, &loader->file);
	free(path);
	if (rc < 0)
		return tool_fail(loader->name, rc);
	loader->info = *rung_source_info(loader->file);
	if (loader->info.row_count != dataset->vertex_count)
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: has %" PRIu64 " labels for %" PRIu64
		                  " vertices; stage it again",
		                  dir, loader->info.row_count, dataset->vertex_count);
	if (loader->info.row_bytes != rung_dtype_bytes(loader->info.dtype))
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: labels have %" PRIu64
		                  " bytes per vertex; one number per vertex is needed",
		                  dir, loader->info.row_bytes);
	return TOOL_DONE;
}

/* A label as it is kept. */
static int32_t class_of(double value)
{
	if (!(value >= 0))
		return TRAIN_LABEL_NONE;
	return value >= TRAIN_CLASSES_MAX || value != floor(value) ? TRAIN_LABEL_WRONG
	                                                           : (int32_t)value;
}

/* Read the labels of the members. @return an exit code, the failure printed */
static int read_labels(struct loader *loader)
{
	struct train_labels *labels = &loader->data->labels;
	const uint64_t count = loader->info.row_count;
	void *piece = calloc(READ_LABELS, loader->info.row_bytes);
	int rc = piece ? train_labels_alloc(labels) : RUNG_E_NOMEM;
	for (uint64_t first = 0; first < count && rc >= 0; first += READ_LABELS) {
		const uint64_t rows = count - first < READ_LABELS ? count - first : READ_LABELS;
		rc = rung_source_read(loader->file, first, rows, piece);
		for (uint64_t i = 0; i < rows && rc >= 0; i++) {
			int32_t *at = train_labels_at(labels, first + i);
			if (at)
				*at = class_of(label_value(loader->info.dtype, piece, i));
		}
	}
	free(piece);
	if (rc == RUNG_E_NOMEM)
		return tool_error(loader->name, TOOL_FAILED, "no memory for %" PRIu64 " labels",
		                  labels->member_count);
	return rc < 0 ? tool_fail(loader->name, rc) : TOOL_DONE;
}

/* Report a label that is not a class, which is read again. @return an exit code */
static int wrong_label(struct loader *loader, uint64_t rank, const char *split_name)
{
	uint64_t bytes; /* of any number type */
	int rc = rung_source_read(loader->file, rank, 1, &bytes);
	if (rc < 0)
		return tool_fail(loader->name, rc);
	return tool_error(loader->name, TOOL_FAILED,
	                  "%s: labels: rank %" PRIu64
	                  " of split %s has label %.9g; labels must be whole "
	                  "numbers from 0 to %u",
	                  rung_dataset_dir(loader->ds), rank, split_name,
	                  label_value(loader->info.dtype, &bytes, 0), TRAIN_CLASSES_MAX - 1);
}

/* Keep the ids of a split that can be trained on, in their order: those with a label. Only labels
 * of splits are checked; others may be anything.
 * @param repeats  ids that load_split() has left out
 * @return an exit code, the failure printed */
static int filter_split(struct loader *loader, const char *split_name, uint64_t repeats,
                        struct train_split *split)
{
	struct train_data *data = loader->data;
	uint64_t kept = 0, unlabelled = 0;
	for (uint64_t i = 0; i < split->count; i++) {
		const int32_t label = *train_labels_at(&data->labels, split->ids[i]);
		if (label == TRAIN_LABEL_WRONG)
			return wrong_label(loader, split->ids[i], split_name);
		if (label == TRAIN_LABEL_NONE) {
			unlabelled++;
			continue;
		}
		if ((uint32_t)label >= data->class_count)
			data->class_count = (uint32_t)label + 1;
		split->ids[kept++] = split->ids[i];
	}
	if ((unlabelled || repeats) && !loader->quiet)
		fprintf(stderr,
		        "%s: split %s: %" PRIu64 " of %" PRIu64 " ids left out (%" PRIu64
		        " without label, %" PRIu64 " repeated)\n",
		        loader->name, split_name, unlabelled + repeats, split->count + repeats,
		        unlabelled, repeats);
	split->count = kept;
	return TOOL_DONE;
}

/* Load the ids of a split, each once, and make them members. @return an exit code, the failure
 * printed */
static int load_split(struct loader *loader, const char *split_name, uint64_t *repeats_out,
                      struct train_split *split)
{
	struct train_labels seen; /* in this split; splits may overlap */
	uint64_t kept = 0;
	char array[32];
	int rc;
	*repeats_out = 0;
	snprintf(array, sizeof(array), "split_%s", split_name);
	rc = rung_dataset_load_ids(loader->ds, array, &split->count, &split->ids);
	if (rc == RUNG_E_NOENT) {
		split->ids = NULL;
		split->count = 0;
		return TOOL_DONE;
	}
	if (rc < 0)
		return tool_fail(loader->name, rc);
	rc = train_labels_init(&seen, loader->info.row_count);
	for (uint64_t i = 0; i < split->count && rc == 0; i++) {
		if (!train_labels_add(&seen, split->ids[i]))
			continue;
		train_labels_add(&loader->data->labels, split->ids[i]);
		split->ids[kept++] = split->ids[i];
	}
	train_labels_fini(&seen);
	*repeats_out = split->count - kept;
	split->count = kept;
	return rc == 0 ? TOOL_DONE
	               : tool_error(loader->name, TOOL_FAILED, "no memory for split %s",
	                            split_name);
}

/* Load all splits and their labels; only "train" is required. @return an exit code, the failure
 * printed */
static int load_splits(struct loader *loader)
{
	const char *dir = rung_dataset_dir(loader->ds);
	struct train_split *splits = loader->data->splits;
	uint64_t repeats[TRAIN_SPLIT_COUNT];
	int code = TOOL_DONE;
	for (int s = 0; s < TRAIN_SPLIT_COUNT && code == TOOL_DONE; s++)
		code = load_split(loader, split_names[s], &repeats[s], &splits[s]);
	if (code == TOOL_DONE)
		code = read_labels(loader);
	for (int s = 0; s < TRAIN_SPLIT_COUNT && code == TOOL_DONE; s++)
		code = filter_split(loader, split_names[s], repeats[s], &splits[s]);
	if (code != TOOL_DONE)
		return code;
	if (!splits[TRAIN_SPLIT_TRAIN].ids)
		return tool_error(loader->name, TOOL_FAILED,
		                  "%s: has no split 'train'; stage it with --split train=SRC", dir);
	if (!splits[TRAIN_SPLIT_TRAIN].count)
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
		count[*train_labels_at(&data->labels, train->ids[i])]++;
	for (uint32_t c = 1; c < data->class_count; c++) {
		if (count[c] > count[best])
			best = c;
	}
	for (uint64_t i = 0; i < test->count; i++)
		hits += (uint32_t)*train_labels_at(&data->labels, test->ids[i]) == best;
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
	int code = open_labels(&loader);
	if (code == TOOL_DONE && train_labels_init(&data.labels, vertex_count) < 0)
		code = tool_error(name, TOOL_FAILED,
		                  "no memory for the labels of %" PRIu64 " vertices", vertex_count);
	if (code == TOOL_DONE)
		code = load_splits(&loader);
	if (code == TOOL_DONE && find_majority(&data) < 0)
		code = tool_error(name, TOOL_FAILED, "no memory to count %u classes",
		                  data.class_count);
	rung_source_close(loader.file);
	if (code == TOOL_DONE)
		*data_out = data;
	else
		train_data_fini(&data);
	return code;
}

void train_data_fini(struct train_data *data)
{
	for (int s = 0; s < TRAIN_SPLIT_COUNT; s++)
		rung_free(data->splits[s].ids);
	train_labels_fini(&data->labels);
	memset(data, 0, sizeof(*data));
}
