/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung info: print the contents of a staged dataset. They come from its manifest and the headers of
 * its files, which rung_dataset_open() has checked; the arrays themselves are not read.
 */
#include "args/args.h"
#include "cmd/info_typed.h"
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
		tool_json_set(entry, "shape", info_shape_json(&file->array));
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

/* The name of the type of the seeds; NULL if the dataset is not typed. */
static const char *seed_type(const struct rung_dataset_info *info)
{
	return info->type_count ? info->types[info->seed_type].name : NULL;
}

/*
 * One object with every field of the manifest. The library stores 0 or NULL where a field does not
 * apply (no iterations, no damping, nothing sampled, one features file); JSON has null there, so
 * that a reader cannot mistake the 0 for a value.
 */
static int info_json(const struct rung_dataset *ds, json_t *root)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);
	const int none = info->features.dtype == RUNG_DTYPE_NONE;
	int rc = 0;

	tool_json_set(root, "vertices", tool_json_u64(info->vertex_count));
	tool_json_set(root, "edges", tool_json_u64(info->edge_count));
	if (info->type_count > 0) {
		rc = info_types_json(ds, root);
	} else {
		tool_json_set(root, "vertex_types", types_json(info));
		tool_json_set(root, "relations", relations_json(info));
	}
	tool_json_set(root, "seed_type", tool_json_text(seed_type(info)));
	tool_json_set(root, "dtype",
	              tool_json_text(none ? NULL : rung_dtype_name(info->features.dtype)));
	tool_json_set(root, "shape", info_shape_json(&info->features));
	tool_json_set(root, "row_bytes", tool_json_u64(info->features.row_bytes));
	tool_json_set(root, "quantized", info_quantized_json(info));
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
	tool_json_set(root, "arrays", info_names_json(info->array_names, info->array_count));
	tool_json_set(root, "splits", info_names_json(info->split_names, info->split_count));
	/* width of the ids in graph, maps and splits: 4, or 8 for large graphs */
	tool_json_set(root, "index_bytes", tool_json_u64(info->index_bytes));
	tool_json_set(root, "format", tool_json_u64(info->format_version));
	tool_json_set(root, "files", files_json(ds));
	return rc;
}

/* How the rows are ranked, and how training samples. */
static void print_settings(const struct rung_dataset_info *info)
{
	printf("order     %s", info->score_method);
	if (info->score_iterations)
		printf(", %u iterations", info->score_iterations);
	if (info->score_damping > 0)
		printf(", damping %g", info->score_damping);
	if (info->score_sampled)
		printf(", %llu batch%s sampled", (unsigned long long)info->score_batches,
		       info->score_batches == 1 ? "" : "es");
	printf("\nbatch     %u, fanout ", info->batch_size);
	info_print_fanouts(info->fanouts, info->fanout_count);
	if (info->draws == RUNG_DRAWS_NEW)
		printf(", new vertices draw");
	printf("\n");
}

static void print_files(const struct rung_dataset *ds)
{
	const struct rung_dataset_file *file;

	printf("\n");
	for (size_t i = 0; (file = rung_dataset_file(ds, i)) != NULL; i++) {
		printf("%-24s %14llu", file->name, (unsigned long long)file->bytes);
		if (file->array.dtype != RUNG_DTYPE_NONE)
			printf("  ");
		info_print_array(&file->array);
		putchar('\n');
	}
}

/* A typed dataset: what all parts share, then a paragraph about each part. */
static int print_typed(const struct rung_dataset *ds)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);

	printf("vertices  %llu of %u types\nedges     %llu of %u relations\n",
	       (unsigned long long)info->vertex_count, info->type_count,
	       (unsigned long long)info->edge_count, info->relation_count);
	printf("seeds     type %s\n", seed_type(info));
	print_settings(info);
	printf("format    %u\n", info->format_version);
	return info_print_types(ds);
}

/*
 * The same for people: one line per subject, in columns of 10 characters, then the files. Fields
 * that do not apply are left out instead of printed as null.
 */
static int print_info(const struct rung_dataset *ds)
{
	const struct rung_dataset_info *info = rung_dataset_info(ds);

	if (info->type_count > 0)
		return print_typed(ds);
	printf("vertices  %llu, type %s\nedges     %llu, relation %s\n",
	       (unsigned long long)info->vertex_count, info->vertex_type,
	       (unsigned long long)info->edge_count, info->relation);
	printf("features  ");
	info_print_rows(info);
	print_settings(info);
	printf("labels    %s\narrays   ", info->has_labels ? "yes" : "no");
	info_print_names(info->array_names, info->array_count);
	printf("\nsplits   ");
	info_print_names(info->split_names, info->split_count);
	printf("\nformat    %u, ids of %u bytes\n", info->format_version, info->index_bytes);
	print_files(ds);
	return 0;
}

/* Print an object, unless a part of the dataset could not be opened. @return an exit code */
static int print_json(const char *name, const struct rung_dataset *ds)
{
	json_t *root = json_object();
	int rc = info_json(ds, root);

	if (rc == 0)
		return tool_json_print(name, root) < 0 ? TOOL_FAILED : TOOL_DONE;
	json_decref(root);
	return tool_fail(name, rc);
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
		code = print_json(argv[0], ds);
	else if ((rc = print_info(ds)) < 0)
		code = tool_fail(argv[0], rc);
	rung_dataset_close(ds);
	return code;
}
