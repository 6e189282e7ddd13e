/* SPDX-License-Identifier: Apache-2.0 */
/** What rung info prints about arrays, and about the types and relations of a typed dataset, whose
 * parts are datasets in folders below. */
#ifndef RUNG_CMD_INFO_TYPED_H
#define RUNG_CMD_INFO_TYPED_H

#include "output/json.h"

/** The dimensions; null without a dtype. */
json_t *info_shape_json(const struct rung_array_info *array);
/** Null unless rows are quantized. */
json_t *info_quantized_json(const struct rung_dataset_info *info);
json_t *info_names_json(const char *const *names, size_t count);
/** "f32 [1000, 16]", without a line end; nothing without a dtype. */
void info_print_array(const struct rung_array_info *array);
/** The rest of a line about rows, and further lines about their files; "none" without rows. */
void info_print_rows(const struct rung_dataset_info *info);
/** "25,10", and "all" for all neighbours. */
void info_print_fanouts(const uint32_t *fanouts, uint32_t count);
/** " a b", or " none". */
void info_print_names(const char *const *names, size_t count);

/** Set "vertex_types" and "relations", with the contents of the parts. @return a status */
int info_types_json(const struct rung_dataset *ds, json_t *root);

/** Print a paragraph about each type and each relation. @return a status */
int info_print_types(const struct rung_dataset *ds);

#endif
