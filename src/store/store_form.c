/* SPDX-License-Identifier: Apache-2.0 */
/* The type in which a store delivers rows: as they are stored, or decoded from quantized rows. */
#include "store/store.h"

/* The type of decoded values that the options ask for; RUNG_U8: the stored rows. */
static enum rung_dtype wanted(const struct rung_store *store)
{
	const enum rung_dtype given = store->shape.array.dtype;

	if (store->opts.out_dtype != RUNG_DTYPE_NONE)
		return store->opts.out_dtype;
	return given == RUNG_F64 ? RUNG_F32 : given;
}

int rung__store_choose_form(struct rung_store *store)
{
	const struct rung__shape *shape = &store->shape;
	const enum rung_dtype dtype = wanted(store), given = shape->array.dtype;

	store->form = rung__row_form_copy(given, shape->layout.row_bytes);
	if (shape->quant.format == RUNG_QUANT_NONE) {
		if (store->opts.out_dtype == RUNG_DTYPE_NONE || store->opts.out_dtype == given)
			return 0;
		return rung__fail(
			RUNG_E_INVAL,
			"%s: rows of %s cannot be gathered as %s; only quantized rows are "
			"converted: stage with --quantize, or omit the type",
			store->dataset_dir, rung_dtype_name(given), rung_dtype_name(dtype));
	}
	if (dtype == RUNG_U8) {
		store->form.dtype = RUNG_U8;
		return 0;
	}
	if (dtype != RUNG_F16 && dtype != RUNG_BF16 && dtype != RUNG_F32)
		return rung__fail(
			RUNG_E_INVAL,
			"%s: quantized rows cannot be gathered as %s; use f16, bf16 or f32, "
			"or u8 for the stored bytes",
			store->dataset_dir, rung_dtype_name(dtype));
	store->form = rung__row_form_decode(&shape->quant, store->scales_memory.base, dtype);
	return 0;
}

struct rung_array_info rung__store_array(const struct rung_store *store)
{
	struct rung_array_info array = store->shape.array;

	array.dtype = store->form.dtype;
	array.row_bytes = store->form.out_bytes;
	/* stored rows are bytes, whatever the shape of their values */
	if (store->shape.quant.format != RUNG_QUANT_NONE && array.dtype == RUNG_U8) {
		array.dim_count = 2;
		array.dims[1] = array.row_bytes;
	}
	return array;
}
