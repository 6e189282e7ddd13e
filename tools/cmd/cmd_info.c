/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung info: print the contents of a staged dataset. They come from its manifest and the headers of
 * its files, which rung_dataset_open() has checked; the arrays themselves are not read.
 */
#include "args/args.h"
#include "output/json.h"

struct info_args {
	const char *dir;
	struct tool_common common;
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_output_set, struct info_args, common),
	{ 0 },
};
const struct tool_command tool_info_command = {
	.parts = parts,
	.operands = "DIR",
	.doc = "Print the contents of the staged dataset DIR. Only its manifest and the headers "
	       "of its files are read.",
	.operand_kind = TOOL_OPERAND_DIR,
	.dir = offsetof(struct info_args, dir),
	.examples = "  rung info graph.rung\n  rung info graph.rung --json",
};

/* null for a file that is not an array, such as the manifest: a scalar would be [] */
static json_t *shape_json(const struct rung_array_info *array)
{
	json_t *shape;

	if (array->dtype == RUNG_DTYPE_NONE)
		return json_null();
	shape = json_array();
	for (unsigned i = 0; i < array->dim_count; i++)
		tool_json_append(shape, tool_json_u64(array->dims[i]));
	return shape;
}

static json_t *files_json(const struct rung_dataset *ds)
{
	json_t *files = json_array();
	const struct rung_dataset_file *file;

	/* the library lists checksums and manifest last */
	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		json_t *entry = json_object();
		int is_array = file->array.dtype != RUNG_DTYPE_NONE;
		tool_json_set(entry, "name", tool_json_text(file->name));
		tool_json_set(entry, "bytes", tool_json_u64(file->bytes));
		tool_json_set(entry, "dtype",
		              tool_json_text(is_array ? rung_dtype_name(file->array.dtype) : NULL));
		tool_json_set(entry, "shape", shape_json(&file->array));
		tool_json_set(entry, "data_offset",
		              is_array ? tool_json_u64(file->data_offset) : json_null());
		tool_json_append(files, entry);
	}
	return files;
}

/* As in the manifest, which omits default names. */
static json_t *types_json(const struct rung_dataset_info *info)
{
	json_t *type = json_object(), *list = json_array();

	tool_json_set(type, "name", tool_json_text(info->vertex_type));
	tool_json_set(type, "vertices", tool_json_u64(info->vertex_count));
	tool_json_append(list, type);
	return list;
}

static json_t *relations_json(const struct rung_dataset_info *info)
{
	json_t *relation = json_object(), *list = json_array();

	tool_json_set(relation, "name", tool_json_text(info->relation));
	tool_json_set(relation, "source", tool_json_text(info->vertex_type));
	tool_json_set(relation, "target", tool_json_text(info->vertex_type));
	tool_json_set(relation, "edges", tool_json_u64(info->edge_count));
	tool_json_append(list, relation);
	return list;
}

/* Null unless rows are quantized. */
static json_t *quantized_json(const struct rung_dataset_info *info)
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

/* [] for rows in place. */
static json_t *ranges_json(const struct rung_dataset_info *info)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < info->feature_range_count && !info->features_path; i++) {
		const struct rung_feature_range *range = &info->feature_ranges[i];
		json_t *object = json_object();

		tool_json_set(object, "begin", tool_json_u64(range->begin));
		tool_json_set(object, "end", tool_json_u64(range->end));
		tool_json_set(object, "stored_first", tool_json_u64(range->stored_first));
		tool_json_set(object, "files", tool_json_u64(range->file_count));
		tool_json_set(object, "block_rows",
		              range->file_count > 1 ? tool_json_u64(range->block_rows)
		                                    : json_null());
		tool_json_append(list, object);
	}
	return list;
}

/*
 * One object with every field of the manifest. The library stores 0 or NULL where a field does not
 * apply (no iterations, no damping, nothing sampled, one features file); JSON has null there, so
 * that a reader cannot mistake the 0 for a value.
 */
static json_t *info_json(const struct rung_dataset *ds)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	json_t *root = json_object(), *arrays = json_array(), *splits = json_array();

	tool_json_set(root, "vertices", tool_json_u64(info->vertex_count));
	tool_json_set(root, "edges", tool_json_u64(info->edge_count));
	tool_json_set(root, "vertex_types", types_json(info));
	tool_json_set(root, "relations", relations_json(info));
	tool_json_set(root, "dtype", tool_json_text(rung_dtype_name(info->features.dtype)));
	tool_json_set(root, "shape", shape_json(&info->features));
	tool_json_set(root, "row_bytes", tool_json_u64(info->features.row_bytes));
	tool_json_set(root, "quantized", quantized_json(info));
	tool_json_set(root, "row_stride", tool_json_u64(info->row_stride));
	tool_json_set(root, "feature_bytes", tool_json_u64(info->feature_bytes));
	tool_json_set(root, "feature_files", tool_json_u64(info->feature_file_count));
	tool_json_set(root, "ranges", ranges_json(info));
	tool_json_set(root, "in_place", tool_json_text(info->features_path));
	tool_json_set(root, "score", tool_json_text(info->score_method));
	tool_json_set(root, "iterations",
	              info->score_iterations ? tool_json_u64(info->score_iterations) : json_null());
	tool_json_set(root, "damping",
	              info->score_damping > 0 ? tool_json_real(info->score_damping) : json_null());
	tool_json_set(root, "score_batches",
	              info->score_sampled ? tool_json_u64(info->score_batches) : json_null());
	tool_json_set(root, "score_seed",
	              info->score_sampled ? tool_json_u64(info->score_seed) : json_null());
	tool_json_set(root, "fanout", tool_json_u32s(info->fanouts, info->fanout_count));
	tool_json_set(root, "batch", tool_json_u64(info->batch_size));
	tool_json_set(root, "draws", tool_json_text(info->draws == RUNG_DRAWS_NEW ? "new" : "all"));
	tool_json_set(root, "labels", json_boolean(info->has_labels));
	for (size_t i = 0; i < info->array_count; i++)
		tool_json_append(arrays, tool_json_text(info->array_names[i]));
	tool_json_set(root, "arrays", arrays);
	for (size_t i = 0; i < info->split_count; i++)
		tool_json_append(splits, tool_json_text(info->split_names[i]));
	tool_json_set(root, "splits", splits);
	/* width of the ids in graph, maps and splits: 4, or 8 for large graphs */
	tool_json_set(root, "index_bytes", tool_json_u64(info->index_bytes));
	tool_json_set(root, "format", tool_json_u64(info->format_version));
	tool_json_set(root, "files", files_json(ds));
	return root;
}

/* "f32 [1000, 16]", without a line end; nothing for a file that is not an array */
static void print_array(const struct rung_array_info *array)
{
	if (array->dtype == RUNG_DTYPE_NONE)
		return;
	printf("%s [", rung_dtype_name(array->dtype));
	for (unsigned i = 0; i < array->dim_count; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)array->dims[i]);
	printf("]");
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

/*
 * The same for people: one line per subject, in columns of 10 characters, then the files. Fields
 * that do not apply are left out instead of printed as null.
 */
static void print_info(const struct rung_dataset *ds)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const struct rung_dataset_file *file;
	char text[TOOL_TEXT_BYTES];

	printf("vertices  %llu, type %s\nedges     %llu, relation %s\n",
	       (unsigned long long)info->vertex_count, info->vertex_type,
	       (unsigned long long)info->edge_count, info->relation);
	printf("features  ");
	print_array(&info->features);
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
	printf("order     %s", info->score_method);
	if (info->score_iterations)
		printf(", %u iterations", info->score_iterations);
	if (info->score_damping > 0)
		printf(", damping %g", info->score_damping);
	if (info->score_sampled)
		printf(", %llu batch%s sampled", (unsigned long long)info->score_batches,
		       info->score_batches == 1 ? "" : "es");
	printf("\nbatch     %u, fanout ", info->batch_size);
	for (uint32_t i = 0; i < info->fanout_count; i++) {
		if (info->fanouts[i] == UINT32_MAX) /* the manifest's value for all neighbours */
			printf("%sall", i ? "," : "");
		else
			printf("%s%u", i ? "," : "", info->fanouts[i]);
	}
	if (info->draws == RUNG_DRAWS_NEW)
		printf(", new vertices draw");
	printf("\nlabels    %s\narrays    %s", info->has_labels ? "yes" : "no",
	       info->array_count ? "" : "none");
	for (size_t i = 0; i < info->array_count; i++)
		printf("%s%s", i ? " " : "", info->array_names[i]);
	printf("\nsplits    %s", info->split_count ? "" : "none");
	for (size_t i = 0; i < info->split_count; i++)
		printf("%s%s", i ? " " : "", info->split_names[i]);
	printf("\nformat    %u, ids of %u bytes\n\n", info->format_version, info->index_bytes);
	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		printf("%-24s %14llu", file->name, (unsigned long long)file->bytes);
		if (file->array.dtype != RUNG_DTYPE_NONE)
			printf("  ");
		print_array(&file->array);
		putchar('\n');
	}
}

int cmd_info(int argc, char **argv)
{
	struct info_args args = { 0 };
	struct rung_dataset *ds;
	int rc, code = TOOL_DONE;

	tool_args_parse(&tool_info_command, argc, argv, &args);
	rc = rung_dataset_open(args.dir, &ds);
	if (rc < 0)
		return tool_fail(argv[0], rc);
	if (args.common.json)
		code = tool_json_print(argv[0], info_json(ds)) < 0 ? TOOL_FAILED : TOOL_DONE;
	else
		print_info(ds);
	rung_dataset_close(ds);
	return code;
}
