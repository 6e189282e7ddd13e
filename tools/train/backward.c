/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss, the gradients of the model, and Adam. Each sum over rows is computed by one thread in a
 * fixed order, because float addition depends on the order: results must not depend on the number
 * of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "model.h"

#define ADAM_BETA1   0.9
#define ADAM_BETA2   0.999
#define ADAM_EPSILON 1e-8f

/* -log softmax(row)[label]; with `gradient` the row becomes (softmax - onehot) * scale. The largest
 * logit is subtracted first, so that exp() cannot overflow. */
static double row_loss(float *row, uint32_t width, int32_t label, int gradient, float scale)
{
	float top = row[0];
	double sum = 0;
	for (uint32_t c = 1; c < width; c++)
		top = row[c] > top ? row[c] : top;
	double loss = (double)top - (double)row[label];
	for (uint32_t c = 0; c < width; c++)
		sum += exp((double)row[c] - (double)top);
	if (gradient) {
		for (uint32_t c = 0; c < width; c++)
			row[c] = (float)(exp((double)row[c] - (double)top) / sum) * scale;
		row[label] -= scale;
	}
	return loss + log(sum);
}

int train_model_loss(struct train_model *model, float *logits, const int32_t *labels,
                     uint64_t count, int gradient, double *loss_out)
{
	uint32_t width = model->class_count;
	if (count > model->row_loss_cap) {
		free(model->row_loss);
		model->row_loss_cap = 0;
		model->row_loss = calloc(count, sizeof(double));
		if (!model->row_loss)
			return RUNG_E_NOMEM;
		model->row_loss_cap = count;
	}
	double *losses = model->row_loss;
#pragma omp parallel for schedule(static)
	for (uint64_t r = 0; r < count; r++)
		losses[r] = row_loss(logits + r * width, width, labels[r], gradient,
		                     1.0f / (float)count);
	double sum = 0;
	for (uint64_t r = 0; r < count; r++)
		sum += losses[r];
	*loss_out = sum / (double)count;
	return 0;
}

/* d_weights = in^T * d_out */
static void weight_gradient(const float *in, const float *d_out, const struct train_layer *layer,
                            uint64_t rows, float *d_weights)
{
	train_blas.sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)layer->in_width,
	                 (int)layer->out_width, (int)rows, 1.0f, in, (int)layer->in_width, d_out,
	                 (int)layer->out_width, 0.0f, d_weights, (int)layer->out_width);
}

/* d_in = d_out * weights^T */
static void input_gradient(const float *d_out, const float *weights,
                           const struct train_layer *layer, uint64_t rows, float *d_in)
{
	train_blas.sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)layer->in_width,
	                 (int)layer->out_width, 1.0f, d_out, (int)layer->out_width, weights,
	                 (int)layer->out_width, 0.0f, d_in, (int)layer->in_width);
}

static void bias_gradient(const float *d_out, uint64_t rows, uint64_t width, float *d_bias)
{
	memset(d_bias, 0, width * sizeof(float));
	for (uint64_t r = 0; r < rows; r++) {
		for (uint64_t i = 0; i < width; i++)
			d_bias[i] += d_out[r * width + i];
	}
}

/* Gradient through dropout and ReLU, from the outputs alone: a positive output was kept by both,
 * and scaled by 1 / (1 - rate); a zero was dropped by one of them. */
static void activation_gradient(const float *out, uint64_t rows, uint64_t width, float rate,
                                float *d_out)
{
	float scale = 1.0f / (1.0f - rate);
#pragma omp parallel for schedule(static)
	for (uint64_t r = 0; r < rows; r++) {
		for (uint64_t i = r * width; i < (r + 1) * width; i++)
			d_out[i] = out[i] > 0 ? d_out[i] * scale : 0;
	}
}

/* Gradient of the input rows of layer l, from that of its output, in model->d_hidden[l - 1]. The
 * destinations of a block are its first sources: they receive a gradient through both weight
 * matrices, the other sources only through the matrix that multiplies the means. @return 0 or
 * RUNG_E_NOMEM */
static int layer_input_gradient(struct train_model *model, const struct rung_block *block,
                                uint32_t l, const float *d_out)
{
	const struct train_layer *layer = &model->layers[l];
	struct train_buffer *d_in = &model->d_hidden[l - 1];
	uint64_t width = layer->in_width;
	if (train_buffer_need(d_in, block->src_count, width) < 0)
		return RUNG_E_NOMEM;
	input_gradient(d_out, layer->self, layer, block->dst_count, d_in->data);
	memset(d_in->data + block->dst_count * width, 0,
	       (block->src_count - block->dst_count) * width * sizeof(float));
	if (block->edge_count) {
		if (train_buffer_need(&model->d_mean, block->dst_count, width) < 0 ||
		    train_transpose_build(&model->turned, block) < 0)
			return RUNG_E_NOMEM;
		input_gradient(d_out, layer->neigh, layer, block->dst_count, model->d_mean.data);
		train_transpose_add(&model->turned, block->src_count, model->d_mean.data, width,
		                    d_in->data);
	}
	activation_gradient(model->hidden[l - 1].data, block->src_count, width, model->dropout,
	                    d_in->data);
	return 0;
}

int train_model_backward(struct train_model *model, const struct train_input *input)
{
	const float *d_out = model->hidden[model->layer_count - 1].data;
	for (uint32_t l = model->layer_count; l-- > 0;) {
		const struct rung_block *block = input->blocks[l];
		const struct train_layer *layer = &model->layers[l];
		const float *in = l ? model->hidden[l - 1].data : input->rows;
		weight_gradient(in, d_out, layer, block->dst_count, layer->d_self);
		if (block->edge_count)
			weight_gradient(model->mean[l].data, d_out, layer, block->dst_count,
			                layer->d_neigh);
		else
			memset(layer->d_neigh, 0,
			       (size_t)layer->in_width * layer->out_width * sizeof(float));
		bias_gradient(d_out, block->dst_count, layer->out_width, layer->d_bias);
		if (l == 0) /* the input rows are features: they need no gradient */
			break;
		int rc = layer_input_gradient(model, block, l, d_out);
		if (rc < 0)
			return rc;
		d_out = model->d_hidden[l - 1].data;
	}
	return 0;
}

/* Update `count` parameters from `first` on. `rate` and `root2` include the bias corrections. */
static void adam_update(struct train_model *model, uint64_t first, uint64_t count,
                        float weight_decay, float rate, float root2)
{
	float *params = model->params + first, *m = model->moment1 + first,
	      *v = model->moment2 + first;
	const float *grads = model->grads + first;
#pragma omp parallel for schedule(static)
	for (uint64_t i = 0; i < count; i++) {
		float grad = grads[i] + weight_decay * params[i];
		m[i] = (float)ADAM_BETA1 * m[i] + (float)(1 - ADAM_BETA1) * grad;
		v[i] = (float)ADAM_BETA2 * v[i] + (float)(1 - ADAM_BETA2) * grad * grad;
		params[i] -= rate * m[i] / (sqrtf(v[i]) * root2 + ADAM_EPSILON);
	}
}

void train_adam_step(struct train_adam *adam, struct train_model *model)
{
	double step = (double)++adam->steps;
	/* bias corrections of both moments, the same for all parameters; in double, because
	 * 1 - beta^step is inexact in float for the first steps */
	float rate = (float)((double)adam->lr / (1 - pow(ADAM_BETA1, step)));
	float root2 = (float)(1 / sqrt(1 - pow(ADAM_BETA2, step)));
	for (uint32_t l = 0; l < model->layer_count; l++) {
		const struct train_layer *layer = &model->layers[l];
		uint64_t first = (uint64_t)(layer->self - model->params);
		uint64_t weights = 2 * (uint64_t)layer->in_width * layer->out_width;
		adam_update(model, first, weights, adam->weight_decay, rate, root2);
		adam_update(model, first + weights, layer->out_width, 0, rate, root2);
	}
}
