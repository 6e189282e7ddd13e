/* SPDX-License-Identifier: Apache-2.0 */
/* Names and limits of quantization. */
#include "quant/quant.h"

static const char *const format_names[] = { "none", "int8", "int4", "fp8" };
static const char *const scales_names[] = { "row", "column" };

const char *rung__quant_format_name(uint64_t format)
{
	return format < RUNG__ARRAY_LEN(format_names) ? format_names[format] : NULL;
}

const char *rung__quant_scales_name(uint64_t scales)
{
	return scales < RUNG__ARRAY_LEN(scales_names) ? scales_names[scales] : NULL;
}

bool rung__quant_valid(const struct rung__quant *quant)
{
	return quant->format > RUNG_QUANT_NONE && rung__quant_format_name(quant->format) &&
	       rung__quant_scales_name(quant->scales) && quant->columns > 0 &&
	       quant->columns < UINT64_C(1) << 60;
}

bool rung__quant_accepts(enum rung_dtype dtype)
{
	return dtype == RUNG_F16 || dtype == RUNG_BF16 || dtype == RUNG_F32 || dtype == RUNG_F64;
}
