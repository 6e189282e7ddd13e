/* SPDX-License-Identifier: Apache-2.0 */
/* The description of quantized rows in a manifest: how they are stored, and what was given. */
#include <string.h>

#include "base/base.h"
#include "dataset/manifest_field.h"
#include "dataset/state.h"
#include "source/npy.h"

int rung__manifest_quantize(struct rung__manifest *m, const struct rung_array_info *given,
                            enum rung_quant_format format, enum rung_quant_scales scales)
{
	m->given = *given;
	m->quant = (struct rung__quant){
		.format = format,
		.scales = scales,
		.columns = given->row_bytes / rung_dtype_bytes(given->dtype),
	};
	m->features = (struct rung_array_info){
		.dtype = RUNG_U8,
		.dim_count = 2,
		.dims = { given->row_count, rung__quant_row_bytes(&m->quant) },
		.row_count = given->row_count,
		.row_bytes = rung__quant_row_bytes(&m->quant),
	};
	if (scales != RUNG_SCALES_COLUMN)
		return 0;
	m->column_scales = rung__malloc_array(m->quant.columns, sizeof(float));
	if (!m->column_scales)
		return rung__fail(RUNG_E_NOMEM, "staging: no memory for %" PRIu64 " scales",
		                  m->quant.columns);
	for (uint64_t c = 0; c < m->quant.columns; c++)
		m->column_scales[c] = 1;
	return 0;
}

/* The shape and the scales are lists. jansson's functions accept NULL and fail. */
json_t *rung__manifest_quant_json(const struct rung__manifest *m)
{
	json_t *shape = json_array(), *scales = m->column_scales ? json_array() : NULL, *quant;
	int failed = 0;

	for (unsigned i = 0; i < m->given.dim_count; i++)
		failed |= json_array_append_new(shape, json_integer((json_int_t)m->given.dims[i]));
	for (uint64_t c = 0; m->column_scales && c < m->quant.columns; c++)
		failed |= json_array_append_new(scales, json_real((double)m->column_scales[c]));
	quant = json_pack("{s:s, s:s, s:s, s:o}", "format",
	                  rung__quant_format_name(m->quant.format), "scales",
	                  rung__quant_scales_name(m->quant.scales), "dtype",
	                  rung_dtype_name(m->given.dtype), "shape", shape);
	if (m->column_scales)
		failed |= json_object_set_new(quant, "column_scales", scales);
	if (!failed)
		return quant;
	json_decref(quant);
	return NULL;
}

/* The number of a name, counted from `first`. @return false: unknown */
static bool get_name(const json_t *quant, const char *key, const char *(*name_of)(uint64_t),
                     uint64_t first, uint64_t *number_out)
{
	for (uint64_t i = first; name_of(i); i++) {
		if (rung__field_has_text(quant, key, name_of(i))) {
			*number_out = i;
			return true;
		}
	}
	return false;
}

/* Scales are numbers that decoders may use without checks. */
static bool get_scales(const json_t *list, const struct rung__quant *quant, float *scales)
{
	for (uint64_t c = 0; c < quant->columns; c++) {
		const json_t *scale = json_array_get(list, c);

		/* as float: the text has 15 digits, and those of the limits are rounded */
		scales[c] = (float)json_number_value(scale);
		if (!json_is_number(scale) || !(scales[c] >= rung__quant_scale_min(quant)) ||
		    scales[c] > rung__quant_scale_max(quant))
			return false;
	}
	return true;
}

bool rung__manifest_quant_parse(const json_t *features, struct rung__manifest *m, bool *nomem_out)
{
	const json_t *quant = json_object_get(features, "quantized"),
		     *scales = json_object_get(quant, "column_scales");

	if (!quant)
		return true;
	if (!get_name(quant, "format", rung__quant_format_name, RUNG_QUANT_INT8,
	              &m->quant.format) ||
	    !get_name(quant, "scales", rung__quant_scales_name, 0, &m->quant.scales) ||
	    !rung__field_array(quant, &m->given) || !rung__quant_accepts(m->given.dtype) ||
	    m->given.row_count != m->vertex_count || m->given.row_bytes == 0)
		return false;
	m->quant.columns = m->given.row_bytes / rung_dtype_bytes(m->given.dtype);
	if (!rung__quant_valid(&m->quant) || m->features.dtype != RUNG_U8 ||
	    m->features.dim_count != 2 || m->features.row_bytes != rung__quant_row_bytes(&m->quant))
		return false;
	if (m->quant.scales == RUNG_SCALES_ROW)
		return scales == NULL;
	/* the list is in the text, so its length is bounded by that of a manifest */
	if (json_array_size(scales) != m->quant.columns)
		return false;
	m->column_scales = rung__malloc_array(m->quant.columns, sizeof(float));
	*nomem_out = !m->column_scales;
	return m->column_scales && get_scales(scales, &m->quant, m->column_scales);
}
