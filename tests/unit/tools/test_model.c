/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's model compared with naive loops in double precision, and its parts with cases
 * worked out by hand. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/blas.h"
#include "train/model.h"

static void load_blas(void)
{
	const char *why = train_blas_load();

	cr_assert_null(why, "%s", why);
}

TestSuite(model, .init = load_blas);

/* ---- rows ---- */

static float convert_one(enum rung_dtype dtype, const void *value)
{
	float out = -1;
	train_rows_convert(dtype, value, 1, 1, TRAIN_NORM_NONE, (struct train_dropout){ 0 }, &out);
	return out;
}

/* IEEE 754 binary16 by its definition. */
static double half_by_definition(unsigned bits)
{
	int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
	double magnitude = exponent == 0    ? ldexp(mantissa, -24)
	                   : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
	                                    : ldexp(1024 + mantissa, exponent - 25);
	return bits & 0x8000 ? -magnitude : magnitude;
}

Test(model, every_f16_is_converted_exactly_alone_and_in_a_row)
{
	static uint16_t bits[65536];
	static float row[65536];
	for (unsigned i = 0; i < 65536; i++)
		bits[i] = (uint16_t)i;
	train_rows_convert(RUNG_F16, bits, 1, 65536, TRAIN_NORM_NONE, (struct train_dropout){ 0 },
	                   row);
	for (unsigned i = 0; i < 65536; i++) {
		double expected = half_by_definition(i);
		float one = train_from_f16((uint16_t)i);
		if (isnan(expected)) {
			cr_assert(isnan(one) && isnan(row[i]), "%#x", i);
		} else {
			cr_assert_eq((double)one, expected, "%#x", i);
			cr_assert_eq((double)row[i], expected, "%#x", i);
			cr_assert_eq(signbit(one) != 0, i >= 0x8000, "%#x", i);
		}
	}
}

Test(model, every_dtype_is_converted)
{
	cr_assert_eq(convert_one(RUNG_BF16, &(uint16_t){ 0xc049 }), -3.140625f);
	cr_assert_eq(convert_one(RUNG_F32, &(float){ 1.5f }), 1.5f);
	cr_assert_eq(convert_one(RUNG_F64, &(double){ -2.25 }), -2.25f);
	cr_assert_eq(convert_one(RUNG_I8, &(int8_t){ -128 }), -128.0f);
	cr_assert_eq(convert_one(RUNG_U8, &(uint8_t){ 255 }), 255.0f);
	cr_assert_eq(convert_one(RUNG_BOOL, &(uint8_t){ 1 }), 1.0f);
	cr_assert_eq(convert_one(RUNG_I16, &(int16_t){ -300 }), -300.0f);
	cr_assert_eq(convert_one(RUNG_U16, &(uint16_t){ 65535 }), 65535.0f);
	cr_assert_eq(convert_one(RUNG_I32, &(int32_t){ -70000 }), -70000.0f);
	cr_assert_eq(convert_one(RUNG_U32, &(uint32_t){ 3000000000u }), 3e9f);
	cr_assert_eq(convert_one(RUNG_I64, &(int64_t){ -5 }), -5.0f);
	cr_assert_eq(convert_one(RUNG_U64, &(uint64_t){ 1ull << 40 }), 0x1p40f);
}

Test(model, rows_are_scaled_to_norm_one_and_zero_rows_stay_zero)
{
	float in[6] = { 3, -4, 0, 0, 0, 2 }, l1[6], l2[6];
	train_rows_convert(RUNG_F32, in, 3, 2, TRAIN_NORM_L1, (struct train_dropout){ 0 }, l1);
	train_rows_convert(RUNG_F32, in, 3, 2, TRAIN_NORM_L2, (struct train_dropout){ 0 }, l2);
	float expected1[6] = { 3.0f / 7, -4.0f / 7, 0, 0, 0, 1 },
	      expected2[6] = { 0.6f, -0.8f, 0, 0, 0, 1 };
	for (int i = 0; i < 6; i++) {
		cr_assert_float_eq(l1[i], expected1[i], 1e-6);
		cr_assert_float_eq(l2[i], expected2[i], 1e-6);
	}
}

Test(model, dropout_zeroes_its_share_and_scales_the_rest)
{
	enum { COUNT = 200000 };
	float *row = malloc(COUNT * sizeof(*row));
	double zeros = 0;
	for (int i = 0; i < COUNT; i++)
		row[i] = 1;
	train_row_dropout((struct train_dropout){ 0.3f, 7 }, 5, COUNT, row);
	for (int i = 0; i < COUNT; i++) {
		cr_assert(row[i] == 0 || fabsf(row[i] - 1 / 0.7f) < 1e-6f);
		zeros += row[i] == 0;
	}
	cr_assert_float_eq(zeros / COUNT, 0.3, 0.005); /* five standard deviations */
	free(row);
}

/* ---- a small batch: three hops of random blocks ---- */

#define LAYERS  3
#define WIDTH   5
#define HIDDEN  4
#define CLASSES 3
#define SEEDS   6

struct small {
	struct rung_block blocks[LAYERS]; /* [0] is the last hop */
	const struct rung_block *order[LAYERS];
	float *rows;
	int32_t labels[SEEDS];
	struct train_input input;
};

static uint64_t small_draw(uint64_t *state, uint64_t bound)
{
	return rung__mix64((*state)++) % bound;
}

static void make_block(struct rung_block *block, uint64_t dst_count, uint64_t src_count,
                       uint64_t *state)
{
	uint64_t *indptr = calloc(dst_count + 1, sizeof(*indptr));
	uint32_t *indices = calloc(dst_count * 5 + 1, sizeof(*indices));
	for (uint64_t d = 0; d < dst_count; d++) {
		uint64_t degree = small_draw(state, 5); /* some vertices have no neighbour */
		indptr[d + 1] = indptr[d] + degree;
		for (uint64_t e = indptr[d]; e < indptr[d + 1]; e++)
			indices[e] = (uint32_t)small_draw(state, src_count);
	}
	*block = (struct rung_block){
		dst_count, src_count, indptr[dst_count], indptr, indices, NULL
	};
}

static void small_init(struct small *small)
{
	const uint64_t counts[LAYERS + 1] = { 25, 17, 11, SEEDS };
	uint64_t state = 42;
	for (int l = 0; l < LAYERS; l++) {
		make_block(&small->blocks[l], counts[l + 1], counts[l], &state);
		small->order[l] = &small->blocks[l];
	}
	small->rows = calloc(counts[0] * WIDTH, sizeof(float));
	for (uint64_t i = 0; i < counts[0] * WIDTH; i++)
		small->rows[i] = (float)small_draw(&state, 2001) / 1000.0f - 1;
	for (int i = 0; i < SEEDS; i++)
		small->labels[i] = (int32_t)small_draw(&state, CLASSES);
	small->input = (struct train_input){ small->order, small->rows };
}

static void small_fini(struct small *small)
{
	for (int l = 0; l < LAYERS; l++) {
		free((void *)(uintptr_t)small->blocks[l].indptr);
		free((void *)(uintptr_t)small->blocks[l].indices);
	}
	free(small->rows);
}

/* Evaluates the formula of the model in double precision. `logits` may be NULL. @return the mean
 * loss over the seeds */
static double naive_loss(const struct small *small, const double *params, double *logits)
{
	double *in = calloc(32 * WIDTH, sizeof(double)), loss = 0;
	for (uint64_t i = 0; i < small->blocks[0].src_count * WIDTH; i++)
		in[i] = (double)small->rows[i];
	for (int l = 0; l < LAYERS; l++) {
		const struct rung_block *block = &small->blocks[l];
		int wide = l == 0 ? WIDTH : HIDDEN, out_width = l + 1 == LAYERS ? CLASSES : HIDDEN;
		const double *self = params, *neigh = self + wide * out_width,
			     *bias = neigh + wide * out_width;
		double *out = calloc(block->dst_count * (uint64_t)out_width, sizeof(double));
		for (uint64_t d = 0; d < block->dst_count; d++) {
			for (int o = 0; o < out_width; o++) {
				double z = bias[o];
				uint64_t degree = block->indptr[d + 1] - block->indptr[d];
				for (int i = 0; i < wide; i++) {
					double sum = 0;
					for (uint64_t e = block->indptr[d];
					     e < block->indptr[d + 1]; e++)
						sum += in[block->indices[e] * (unsigned)wide +
						          (unsigned)i];
					z += in[d * (uint64_t)wide + (uint64_t)i] *
					     self[i * out_width + o];
					z += degree ? sum / (double)degree *
					                      neigh[i * out_width + o]
					            : 0;
				}
				out[d * (uint64_t)out_width + (uint64_t)o] =
					l + 1 < LAYERS && z < 0 ? 0 : z;
			}
		}
		free(in);
		in = out;
		params = bias + out_width;
	}
	for (int s = 0; s < SEEDS; s++) {
		double sum = 0;
		for (int c = 0; c < CLASSES; c++)
			sum += exp(in[s * CLASSES + c]);
		loss += log(sum) - in[s * CLASSES + small->labels[s]];
	}
	if (logits)
		memcpy(logits, in, SEEDS * CLASSES * sizeof(double));
	free(in);
	return loss / SEEDS;
}

static double *params_in_double(const struct train_model *model)
{
	double *params = malloc(model->param_count * sizeof(*params));
	for (uint64_t i = 0; i < model->param_count; i++)
		params[i] = (double)model->params[i];
	return params;
}

static void init_model(struct train_model *model)
{
	cr_assert_eq(train_model_init(model, LAYERS, WIDTH, HIDDEN, CLASSES, 0, 3), 0);
	for (uint64_t i = 0; i < model->param_count; i++) /* biases too */
		model->params[i] += (float)(rung__mix64(i) % 1000) / 2000.0f - 0.25f;
}

Test(model, logits_and_loss_follow_the_formula)
{
	struct small small;
	struct train_model model;
	double expected[SEEDS * CLASSES], loss;
	float *logits;
	small_init(&small);
	init_model(&model);
	double *params = params_in_double(&model);
	double expected_loss = naive_loss(&small, params, expected);
	cr_assert_eq(train_model_forward(&model, &small.input, 1, 0, &logits), 0);
	for (int i = 0; i < SEEDS * CLASSES; i++)
		cr_assert_float_eq((double)logits[i], expected[i], 1e-5);
	cr_assert_eq(train_model_loss(&model, logits, small.labels, SEEDS, 0, &loss), 0);
	cr_assert_float_eq(loss, expected_loss, 1e-5);
	free(params);
	train_model_fini(&model);
	small_fini(&small);
}

Test(model, gradients_are_the_slopes_of_the_formula)
{
	struct small small;
	struct train_model model;
	const double step = 1e-6;
	double loss;
	float *logits;
	int nonzero = 0;
	small_init(&small);
	init_model(&model);
	double *params = params_in_double(&model);
	/* the second round reuses buffers */
	for (int round = 0; round < 2; round++) {
		cr_assert_eq(train_model_forward(&model, &small.input, 1, 0, &logits), 0);
		cr_assert_eq(train_model_loss(&model, logits, small.labels, SEEDS, 1, &loss), 0);
		cr_assert_eq(train_model_backward(&model, &small.input), 0);
	}
	for (uint64_t i = 0; i < model.param_count; i++) {
		double at = params[i];
		params[i] = at + step;
		double above = naive_loss(&small, params, NULL);
		params[i] = at - step;
		double below = naive_loss(&small, params, NULL);
		params[i] = at;
		double slope = (above - below) / (2 * step);
		cr_assert_float_eq((double)model.grads[i], slope, 1e-5,
		                   "parameter %d: %g, slope %g", (int)i, (double)model.grads[i],
		                   slope);
		nonzero += fabs(slope) > 1e-3;
	}
	cr_assert_gt(nonzero, (int)model.param_count / 3); /* the case is not trivial */
	free(params);
	train_model_fini(&model);
	small_fini(&small);
}

Test(model, gradients_pass_only_values_kept_by_dropout)
{
	/* One hidden layer with dropout of its output: dropped values have no gradient in the layer
	 * below. */
	const uint64_t indptr[2] = { 0, 0 };
	const struct rung_block bare = { .dst_count = 1, .src_count = 1, .indptr = indptr };
	const struct rung_block *blocks[2] = { &bare, &bare };
	const float row[1] = { 1 };
	const int32_t label = 0;
	struct train_input input = { blocks, row };
	struct train_model model;
	float *logits;
	double loss;
	int dropped = 0, kept = 0;
	cr_assert_eq(train_model_init(&model, 2, 1, 64, 2, 0.5f, 1), 0);
	for (int i = 0; i < 64; i++)
		model.layers[0].self[i] = 1;
	cr_assert_eq(train_model_forward(&model, &input, 1, 9, &logits), 0);
	cr_assert_eq(train_model_loss(&model, logits, &label, 1, 1, &loss), 0);
	float *d_logits = model.hidden[1].data;
	cr_assert_eq(train_model_backward(&model, &input), 0);
	for (int i = 0; i < 64; i++) {
		const float *weights = model.layers[1].self + 2 * i;
		float through = 2 * (d_logits[0] * weights[0] + d_logits[1] * weights[1]);
		bool was_kept = model.hidden[0].data[i] > 0;
		cr_assert_float_eq(model.hidden[0].data[i], was_kept ? 2 : 0, 1e-6);
		cr_assert_float_eq(model.layers[0].d_self[i], was_kept ? through : 0, 1e-6);
		kept += was_kept;
		dropped += !was_kept;
	}
	cr_assert(kept > 10 && dropped > 10);
	train_model_fini(&model);
}

Test(model, the_loss_of_equal_logits_is_the_logarithm_of_the_class_count)
{
	struct train_model model;
	float logits[8] = { 7, 7, 7, 7, -3, -3, -3, -3 };
	const int32_t labels[2] = { 1, 3 };
	double loss;
	cr_assert_eq(train_model_init(&model, 1, 2, 2, 4, 0, 0), 0);
	cr_assert_eq(train_model_loss(&model, logits, labels, 2, 1, &loss), 0);
	cr_assert_float_eq(loss, log(4), 1e-12);
	for (int i = 0; i < 8; i++)
		cr_assert_float_eq(logits[i], (0.25 - (i == 1 || i == 7)) / 2, 1e-7);
	train_model_fini(&model);
}

Test(model, the_first_of_equal_logits_is_the_prediction)
{
	const float logits[6] = { 1, 1, 0, -2, 5, 5 };
	cr_assert_eq(train_count_correct(logits, (const int32_t[]){ 0, 1 }, 2, 3), 2);
	cr_assert_eq(train_count_correct(logits, (const int32_t[]){ 1, 2 }, 2, 3), 0);
}

Test(model, two_steps_equal_those_worked_out_by_hand)
{
	struct train_model model;
	struct train_adam adam = { .lr = 0.1f, .weight_decay = 0.5f };
	cr_assert_eq(train_model_init(&model, 1, 1, 1, 1, 0, 0), 0);
	double p[3] = { 2, -1, 3 }, m[3] = { 0 }, v[3] = { 0 };
	const double grads[2][3] = { { 0.25, -4, 0.5 }, { -1, 0, 2 } };
	for (int i = 0; i < 3; i++)
		model.params[i] = (float)p[i];
	for (int step = 0; step < 2; step++) {
		for (int i = 0; i < 3; i++) {
			/* the third is the bias: no decay */
			double grad = grads[step][i] + (i < 2 ? 0.5 * p[i] : 0);
			model.grads[i] = (float)grads[step][i];
			m[i] = 0.9 * m[i] + 0.1 * grad;
			v[i] = 0.999 * v[i] + 0.001 * grad * grad;
			p[i] -= 0.1 * (m[i] / (1 - pow(0.9, step + 1))) /
			        (sqrt(v[i] / (1 - pow(0.999, step + 1))) + 1e-8);
		}
		train_adam_step(&adam, &model);
		for (int i = 0; i < 3; i++)
			cr_assert_float_eq((double)model.params[i], p[i], 1e-6);
	}
	train_model_fini(&model);
}
