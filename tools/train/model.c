/* SPDX-License-Identifier: Apache-2.0 */
/* The model's parameters and its forward pass. Backward is in backward.c. */
#include "model.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"

int train_buffer_need(struct train_buffer *buffer, uint64_t rows, uint64_t width)
{
	uint64_t count, bytes;
	if (__builtin_mul_overflow(rows, width, &count) ||
	    __builtin_mul_overflow(count, 2 * sizeof(float), &bytes))
		return RUNG_E_NOMEM;
	if (count <= buffer->cap)
		return 0;
	count += count / 8; /* later batches are rarely larger by more than an eighth */
	bytes = count * sizeof(float);
	free(buffer->data);
	buffer->cap = 0;
	buffer->data = malloc(bytes);
	if (!buffer->data)
		return RUNG_E_NOMEM;
	buffer->cap = count;
	return 0;
}

/* Glorot-uniform: between +-sqrt(6 / (in + out)). Each weight depends on the key and its index
 * only. */
static void init_weights(float *weights, const struct train_layer *layer, uint64_t key)
{
	uint64_t count = (uint64_t)layer->in_width * layer->out_width;
	double limit = sqrt(6.0 / ((double)layer->in_width + layer->out_width));
	for (uint64_t i = 0; i < count; i++) {
		double unit = (double)(rung__mix64(key + i) >> 11) * 0x1p-53;
		weights[i] = (float)((2 * unit - 1) * limit);
	}
}

/* Point the layers into the common arrays: self, neigh, bias of each layer in turn, so that Adam
 * runs over one array. train_adam_step() relies on this order. */
static void place_params(struct train_model *model)
{
	uint64_t at = 0;
	for (uint32_t l = 0; l < model->layer_count; l++) {
		struct train_layer *layer = &model->layers[l];
		uint64_t weights = (uint64_t)layer->in_width * layer->out_width;
		layer->self = model->params + at;
		layer->d_self = model->grads + at;
		layer->neigh = layer->self + weights;
		layer->d_neigh = layer->d_self + weights;
		layer->bias = layer->neigh + weights;
		layer->d_bias = layer->d_neigh + weights;
		at += 2 * weights + layer->out_width;
	}
}

int train_model_init(struct train_model *model, uint32_t layer_count, uint32_t width,
                     uint32_t hidden, uint32_t class_count, float dropout, uint64_t seed)
{
	memset(model, 0, sizeof(*model));
	/* CBLAS has int sizes */
	if (layer_count < 1 || layer_count > RUNG_HOPS_MAX || width < 1 || width > INT_MAX ||
	    hidden > INT_MAX || class_count > INT_MAX)
		return RUNG_E_INVAL;
	model->layer_count = layer_count;
	model->class_count = class_count;
	model->dropout = dropout;
	model->seed = seed;
	for (uint32_t l = 0; l < layer_count; l++) {
		struct train_layer *layer = &model->layers[l];
		layer->in_width = l == 0 ? width : hidden;
		layer->out_width = l + 1 == layer_count ? class_count : hidden;
		model->param_count +=
			2 * (uint64_t)layer->in_width * layer->out_width + layer->out_width;
	}
	model->params = calloc(model->param_count, sizeof(float));
	model->grads = calloc(model->param_count, sizeof(float));
	model->moment1 = calloc(model->param_count, sizeof(float));
	model->moment2 = calloc(model->param_count, sizeof(float));
	if (!model->params || !model->grads || !model->moment1 || !model->moment2) {
		train_model_fini(model);
		return RUNG_E_NOMEM;
	}
	place_params(model);
	/* a key per matrix: weights do not depend on the sizes of other layers */
	for (uint32_t l = 0; l < layer_count; l++) {
		init_weights(model->layers[l].self, &model->layers[l], train_key(seed, l, 1));
		init_weights(model->layers[l].neigh, &model->layers[l], train_key(seed, l, 2));
	}
	return 0;
}

void train_model_fini(struct train_model *model)
{
	free(model->params);
	free(model->grads);
	free(model->moment1);
	free(model->moment2);
	for (uint32_t l = 0; l < RUNG_HOPS_MAX; l++) {
		free(model->hidden[l].data);
		free(model->mean[l].data);
		free(model->d_hidden[l].data);
	}
	free(model->d_mean.data);
	free(model->row_loss);
	train_transpose_fini(&model->turned);
	memset(model, 0, sizeof(*model));
}

/* out += in * weights, for `rows` rows. */
static void multiply_add(const float *in, const float *weights, const struct train_layer *layer,
                         uint64_t rows, float *out)
{
	train_blas.sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows,
	                 (int)layer->out_width, (int)layer->in_width, 1.0f, in,
	                 (int)layer->in_width, weights, (int)layer->out_width, 1.0f, out,
	                 (int)layer->out_width);
}

static void fill_bias(const struct train_layer *layer, uint64_t rows, float *out)
{
#pragma omp parallel for schedule(static)
	for (uint64_t r = 0; r < rows; r++)
		memcpy(out + r * layer->out_width, layer->bias, layer->out_width * sizeof(float));
}

/* ReLU, then dropout. */
static void activate(uint64_t rows, uint64_t width, struct train_dropout dropout, float *out)
{
#pragma omp parallel for schedule(static)
	for (uint64_t r = 0; r < rows; r++) {
		float *row = out + r * width;
		for (uint64_t i = 0; i < width; i++)
			row[i] = row[i] < 0 ? 0 : row[i]; /* NaN is kept: the loss shows it */
		if (dropout.rate > 0)
			train_row_dropout(dropout, r, width, row);
	}
}

int train_model_forward(struct train_model *model, const struct train_input *input, int training,
                        uint64_t step, float **logits_out)
{
	const float *in = input->rows;
	for (uint32_t l = 0; l < model->layer_count; l++) {
		const struct rung_block *block = input->blocks[l];
		const struct train_layer *layer = &model->layers[l];
		uint64_t rows = block->dst_count;
		if (rows > INT_MAX)
			return RUNG_E_INVAL;
		if (train_buffer_need(&model->hidden[l], rows, layer->out_width) < 0 ||
		    (block->edge_count &&
		     train_buffer_need(&model->mean[l], rows, layer->in_width) < 0))
			return RUNG_E_NOMEM;
		float *out = model->hidden[l].data;
		/* the bias first: both products are added to it by BLAS */
		fill_bias(layer, rows, out);
		multiply_add(in, layer->self, layer, rows, out);
		if (block->edge_count) { /* without edges the means are zeros and add nothing */
			train_block_mean(block, in, layer->in_width, model->mean[l].data);
			multiply_add(model->mean[l].data, layer->neigh, layer, rows, out);
		}
		/* no ReLU or dropout on the logits; + 16 keeps these keys different from those of
		 * the weights */
		if (l + 1 < model->layer_count) {
			struct train_dropout dropout = { training ? model->dropout : 0,
				                         train_key(model->seed, step, l + 16) };
			activate(rows, layer->out_width, dropout, out);
		}
		in = out;
	}
	*logits_out = model->hidden[model->layer_count - 1].data;
	return 0;
}

uint64_t train_count_correct(const float *logits, const int32_t *labels, uint64_t count,
                             uint32_t class_count)
{
	uint64_t correct = 0;
	for (uint64_t r = 0; r < count; r++) {
		const float *row = logits + r * class_count;
		uint32_t best = 0;
		for (uint32_t c = 1; c < class_count; c++) {
			if (row[c] > row[best])
				best = c;
		}
		correct += best == (uint32_t)labels[r];
	}
	return correct;
}
