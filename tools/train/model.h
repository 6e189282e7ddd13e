/* SPDX-License-Identifier: Apache-2.0 */
/**
 * GraphSAGE with the mean aggregator (Hamilton, Ying, Leskovec, "Inductive Representation Learning
 * on Large Graphs", 2017), forward and backward over sampled blocks:
 *
 *     h_0     = input rows (dropped out)
 *     z_l     = h_l[destinations] * W_self_l
 *               + mean over sampled in-neighbours of h_l * W_neigh_l + b_l
 *     h_{l+1} = dropout(relu(z_l)),   the last z being the logits
 *
 * trained on softmax cross-entropy with Adam. Matrices are row-major float32; products are CBLAS
 * calls.
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stdint.h>

#include "block.h"
#include "buffer.h"
#include "rows.h"

/** Adam (Kingma, Ba, 2015). Weight decay is L2: added to the gradients of the matrices, not of the
 * biases. */
struct train_adam {
	float lr;
	float weight_decay;
	uint64_t steps; /* taken so far */
};

struct train_layer {
	uint32_t in_width, out_width;
	float *self, *neigh, *bias;       /* inside model->params */
	float *d_self, *d_neigh, *d_bias; /* inside model->grads */
};

struct train_model {
	uint32_t layer_count;
	uint32_t class_count;
	float dropout; /* of hidden rows, while training */
	uint64_t seed;
	struct train_layer layers[RUNG_HOPS_MAX];
	uint64_t param_count;
	float *params, *grads;    /* [param_count] all layers */
	float *moment1, *moment2; /* [param_count] of Adam */
	/* Buffers of the last forward pass. hidden[l]: output rows of layer l. Those of the last
	 * layer are the logits, which train_model_loss() replaces with their gradient. mean[l]:
	 * means over neighbours. */
	struct train_buffer hidden[RUNG_HOPS_MAX];
	struct train_buffer mean[RUNG_HOPS_MAX];
	struct train_buffer d_mean, d_hidden[RUNG_HOPS_MAX]; /* their gradients */
	struct train_transpose turned; /* of the block whose gradient is computed */
	double *row_loss;              /* [row_loss_cap] loss of each row of a batch */
	uint64_t row_loss_cap;
};

/** Input of a model: blocks[l] belongs to layer l, so blocks[0] is the last hop of a batch. */
struct train_input {
	const struct rung_block *const *blocks; /* [layer_count] */
	const float *rows; /* [blocks[0]->src_count][width]; when training, after dropout */
};

/** Create a model with Glorot-uniform weights and zero biases.
 * @return 0, RUNG_E_NOMEM, RUNG_E_INVAL (sizes beyond the int of CBLAS) */
int train_model_init(struct train_model *model, uint32_t layer_count, uint32_t width,
                     uint32_t hidden, uint32_t class_count, float dropout, uint64_t seed);
void train_model_fini(struct train_model *model);

/**
 * Compute the logits of the last block's destinations.
 * @param step        key of the dropout masks while training; ignored otherwise
 * @param logits_out  [dst_count][class_count], owned by the model, valid until the next call
 * @return 0, RUNG_E_NOMEM, RUNG_E_INVAL (a batch beyond the int of CBLAS)
 */
int train_model_forward(struct train_model *model, const struct train_input *input, int training,
                        uint64_t step, float **logits_out);

/**
 * Mean softmax cross-entropy of logits; with `gradient` they are replaced by its gradient.
 * @return 0 or RUNG_E_NOMEM
 */
int train_model_loss(struct train_model *model, float *logits, const int32_t *labels,
                     uint64_t count, int gradient, double *loss_out);

/** Compute the gradients of all parameters from the gradient of the logits, which
 * train_model_loss() has stored in their place. @return 0 or RUNG_E_NOMEM */
int train_model_backward(struct train_model *model, const struct train_input *input);

/** Change the parameters by one step with the gradients. */
void train_adam_step(struct train_adam *adam, struct train_model *model);

/** Number of rows whose largest logit (the first of equal ones) is that of the label. */
uint64_t train_count_correct(const float *logits, const int32_t *labels, uint64_t count,
                             uint32_t class_count);

#endif
