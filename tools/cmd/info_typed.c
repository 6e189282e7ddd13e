/* SPDX-License-Identifier: Apache-2.0 */
/* The types and relations of a typed dataset. */
#include <stdlib.h>
#include <string.h>

#include "cmd/info_typed.h"
#include "tool.h"

json_t *info_shape_json(const struct rung_array_info *array)
{
	json_t *shape;

	if (array->dtype == RUNG_DTYPE_NONE)
		return json_null();
	shape = json_array();
	for (unsigned i = 0; i < array->dim_count; i++)
		tool_json_append(shape, tool_json_u64(array->dims[i]));
	return shape;
}

json_t *info_quantized_json(const struct rung_dataset_info *info)
{
	const struct rung_quantization *quant = &info->quantization;
	json_t *quantized;

	if (quant->format == RUNG_QUANT_NONE)
		return json_null();
	quantized = json_object();
	tool_json_set(quantized, "format", tool_json_text(tool_quant_formats[quant->format]));
	tool_json_set(quantized, "scales", tool_json_text(tool_quant_scales[quant->scales]));
	tool_json_set(quantized, "row_bytes", tool_json_u64(quant->row_bytes));
	return quantized;
}

json_t *info_names_json(const char *const *names, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		tool_json_append(list, tool_json_text(names[i]));
	return list;
}

void info_print_array(const struct rung_array_info *array)
{
	if (array->dtype == RUNG_DTYPE_NONE)
		return;
	printf("%s [", rung_dtype_name(array->dtype));
	for (unsigned i = 0; i < array->dim_count; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)array->dims[i]);
	printf("]");
}

void info_print_fanouts(const uint32_t *fanouts, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (fanouts[i] == UINT32_MAX) /* the manifest's value for all neighbours */
			printf("%sall", i ? "," : "");
		else
			printf("%s%u", i ? "," : "", fanouts[i]);
	}
}

void info_print_names(const char *const *names, size_t count)
{
	if (count == 0)
		printf(" none");
	for (size_t i = 0; i < count; i++)
		printf(" %s", names[i]);
}

/* The division of the rows over files, if there are several. */
static void print_ranges(const struct rung_dataset_info *info)
{
	for (uint32_t i = 0; i < info->feature_range_count && info->feature_file_count > 1; i++) {
		const struct rung_feature_range *range = &info->feature_ranges[i];

		printf("          ");
		if (info->feature_range_count > 1)
			printf("ranks %llu to %llu ", (unsigned long long)range->begin,
			       (unsigned long long)range->end - 1);
		if (range->file_count > 1)
			printf("in %u files, striped in blocks of %llu rows\n", range->file_count,
			       (unsigned long long)range->block_rows);
		else
			printf("in features.%03u.npy\n", range->file_first);
	}
}

void info_print_rows(const struct rung_dataset_info *info)
{
	char text[TOOL_TEXT_BYTES];

	if (info->features.dtype == RUNG_DTYPE_NONE) {
		printf("none\n");
		return;
	}
	info_print_array(&info->features);
	printf(", %llu bytes a row, %s\n", (unsigned long long)info->features.row_bytes,
	       tool_bytes_text(text, (double)info->feature_bytes));
	if (info->quantization.format != RUNG_QUANT_NONE)
		printf("          stored as %s, scales per %s, %llu bytes a row\n",
		       tool_quant_formats[info->quantization.format],
		       tool_quant_scales[info->quantization.scales],
		       (unsigned long long)info->stored_row_bytes);
	print_ranges(info);
	if (info->features_path)
		printf("          in place, in %s\n", info->features_path);
}

/* ---- parts ---- */

/* Open a part of a typed dataset. @param folder  NULL: there is none, *part_out becomes NULL */
static int open_part(const struct rung_dataset *ds, const char *folder,
                     struct rung_dataset **part_out)
{
	char *path;
	int rc;

	*part_out = NULL;
	if (!folder)
		return 0;
	path = malloc(strlen(rung_dataset_dir(ds)) + strlen(folder) + 2);
	if (!path)
		return RUNG_E_NOMEM;
	sprintf(path, "%s/%s", rung_dataset_dir(ds), folder);
	rc = rung_dataset_open(path, part_out);
	free(path);
	return rc;
}

/* The members about rows that types and edge rows have. */
static void set_rows(json_t *root, const struct rung_dataset_info *info)
{
	const int none = info->features.dtype == RUNG_DTYPE_NONE;

	tool_json_set(root, "dtype",
	              tool_json_text(none ? NULL : rung_dtype_name(info->features.dtype)));
	tool_json_set(root, "shape", info_shape_json(&info->features));
	tool_json_set(root, "row_bytes", tool_json_u64(info->features.row_bytes));
	tool_json_set(root, "quantized", info_quantized_json(info));
	tool_json_set(root, "feature_bytes", tool_json_u64(info->feature_bytes));
	tool_json_set(root, "in_place", tool_json_text(info->features_path));
}

static int type_json(const struct rung_dataset *ds, const struct rung_dataset_type *type,
                     json_t *list)
{
	const struct rung_dataset_info *info;
	struct rung_dataset *part;
	json_t *root;
	int rc = open_part(ds, type->folder, &part);

	if (rc < 0)
		return rc;
	info = rung_dataset_info(part);
	root = json_object();
	tool_json_set(root, "name", tool_json_text(type->name));
	tool_json_set(root, "vertices", tool_json_u64(type->vertex_count));
	tool_json_set(root, "folder", tool_json_text(type->folder));
	set_rows(root, info);
	tool_json_set(root, "labels", json_boolean(info->has_labels));
	tool_json_set(root, "arrays", info_names_json(info->array_names, info->array_count));
	tool_json_set(root, "splits", info_names_json(info->split_names, info->split_count));
	tool_json_append(list, root);
	rung_dataset_close(part);
	return 0;
}

static int relation_json(const struct rung_dataset *ds,
                         const struct rung_dataset_relation *relation, json_t *list)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	json_t *root, *rows = json_null();
	struct rung_dataset *part;
	int rc = open_part(ds, relation->rows_folder, &part);

	if (rc < 0)
		return rc;
	root = json_object();
	tool_json_set(root, "name", tool_json_text(relation->name));
	tool_json_set(root, "source", tool_json_text(info->types[relation->source_type].name));
	tool_json_set(root, "target", tool_json_text(info->types[relation->target_type].name));
	tool_json_set(root, "edges", tool_json_u64(relation->edge_count));
	tool_json_set(root, "folder", tool_json_text(relation->folder));
	tool_json_set(root, "fanout", tool_json_u32s(relation->fanouts, info->fanout_count));
	if (part) {
		rows = json_object();
		tool_json_set(rows, "folder", tool_json_text(relation->rows_folder));
		set_rows(rows, rung_dataset_info(part));
	}
	tool_json_set(root, "rows", rows);
	tool_json_append(list, root);
	rung_dataset_close(part);
	return 0;
}

int info_types_json(const struct rung_dataset *ds, json_t *root)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	json_t *types = json_array(), *relations = json_array();
	int rc = 0;

	tool_json_set(root, "vertex_types", types);
	tool_json_set(root, "relations", relations);
	for (uint32_t i = 0; i < info->type_count && rc == 0; i++)
		rc = type_json(ds, &info->types[i], types);
	for (uint32_t i = 0; i < info->relation_count && rc == 0; i++)
		rc = relation_json(ds, &info->relations[i], relations);
	return rc;
}

/* ---- text ---- */

static int print_type(const struct rung_dataset *ds, const struct rung_dataset_type *type)
{
	const struct rung_dataset_info *info;
	struct rung_dataset *part;
	int rc = open_part(ds, type->folder, &part);

	if (rc < 0)
		return rc;
	info = rung_dataset_info(part);
	printf("\ntype      %s, %llu vertices\n", type->name,
	       (unsigned long long)type->vertex_count);
	printf("features  ");
	info_print_rows(info);
	printf("labels    %s\narrays   ", info->has_labels ? "yes" : "no");
	info_print_names(info->array_names, info->array_count);
	printf("\nsplits   ");
	info_print_names(info->split_names, info->split_count);
	printf("\nfolder    %s\n", type->folder);
	rung_dataset_close(part);
	return 0;
}

static int print_relation(const struct rung_dataset *ds,
                          const struct rung_dataset_relation *relation)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	struct rung_dataset *part;
	int rc = open_part(ds, relation->rows_folder, &part);

	if (rc < 0)
		return rc;
	printf("\nrelation  %s:%s:%s, %llu edges\nfanout    ",
	       info->types[relation->source_type].name, relation->name,
	       info->types[relation->target_type].name, (unsigned long long)relation->edge_count);
	info_print_fanouts(relation->fanouts, info->fanout_count);
	printf("\nrows      ");
	if (part)
		info_print_rows(rung_dataset_info(part));
	else
		printf("none\n");
	printf("folder    %s\n", relation->folder);
	rung_dataset_close(part);
	return 0;
}

int info_print_types(const struct rung_dataset *ds)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	int rc = 0;

	for (uint32_t i = 0; i < info->type_count && rc == 0; i++)
		rc = print_type(ds, &info->types[i]);
	for (uint32_t i = 0; i < info->relation_count && rc == 0; i++)
		rc = print_relation(ds, &info->relations[i]);
	return rc;
}
