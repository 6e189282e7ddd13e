/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung verify: re-read a staged dataset and compare all checksums; with its sources, compare its
 * contents with them, too; with --repair, rebuild bad blocks. A difference is a result and not a
 * failure: the report goes to stdout as usual, and the exit status is TOOL_CORRUPT.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "args/args.h"
#include "interrupt.h"
#include "output/json.h"

#define RANGES_MAX 10 /* ranges of bad blocks listed for people; JSON lists all blocks */

struct verify_args {
	const char *dir;
	struct rung_verify_opts opts;
	/* [opts.split_count] names, allocated here, and their SRCs, parts of the command line or of
	 * `preset` */
	char **split_names;
	const char **split_specs;
	char **array_names; /* [opts.array_count], owned in the same way */
	const char **array_specs;
	struct tool_graph_args graph;
	struct tool_preset_args preset;
	struct tool_common common;
};

/* Append a name of `length` bytes and its SRC to the two lists at names_at and specs_at. @return
 * RUNG_E_NOMEM on failure */
static int append_named(char ***names_at, const char ***specs_at, size_t *count_at,
                        const char *name, size_t length, const char *spec)
{
	const size_t count = *count_at + 1;
	char **names = realloc(*names_at, count * sizeof(*names));
	const char **specs = realloc(*specs_at, count * sizeof(*specs));

	/* one list may have moved even if the other could not be enlarged: keep its new address */
	*names_at = names ? names : *names_at;
	*specs_at = specs ? specs : *specs_at;
	if (names && specs)
		names[count - 1] = strndup(name, length);
	if (!names || !specs || !names[count - 1])
		return RUNG_E_NOMEM;
	specs[count - 1] = spec;
	*count_at = count;
	return 0;
}

/* Append a NAME=SRC, whose name has `length` bytes. */
static void add_named(const struct argp_state *state, char ***names_at, const char ***specs_at,
                      size_t *count_at, const char *text, size_t length)
{
	if (append_named(names_at, specs_at, count_at, text, length, text + length + 1) < 0)
		argp_failure(state, TOOL_FAILED, 0, "no memory for the options");
}

/* --source SRC is the features; --source NAME=SRC another array, as with rung stage --features. */
static void add_source(const struct argp_state *state, void *ctx, const char *text)
{
	struct verify_args *args = ctx;
	const size_t length = tool_name_length(text);

	if (length > 0)
		add_named(state, &args->array_names, &args->array_specs, &args->opts.array_count,
		          text, length);
	else
		tool_set_once(state, "--source", &args->opts.source, text);
}

static void add_split(const struct argp_state *state, void *ctx, const char *text)
{
	struct verify_args *args = ctx;

	add_named(state, &args->split_names, &args->split_specs, &args->opts.split_count, text,
	          tool_arg_split(state, text));
}

/* "1%" and "0.01" are shares, whole numbers and "1.5M" are rows: "1" is one row, "1.0" all of
 * them. */
static void set_sample(const struct argp_state *state, void *ctx, const char *text)
{
	struct rung_verify_opts *opts = &((struct verify_args *)ctx)->opts;

	/* if --sample is repeated, the last one counts, even if it is of the other kind */
	opts->sample_rows = 0;
	opts->sample_share = 0;
	if (strchr(text, '%'))
		opts->sample_share = tool_arg_size(state, "--sample", text).share;
	else if (strchr(text, '.') && !isalpha((unsigned char)text[strlen(text) - 1]))
		opts->sample_share = tool_arg_double(state, "--sample", text, 0, 1, TOOL_OPEN_LOW);
	else
		opts->sample_rows = tool_arg_u64(state, "--sample", text, 1, UINT64_MAX);
	/* "0%": in the library 0 means all rows */
	if (opts->sample_rows == 0 && !(opts->sample_share > 0))
		argp_error(state,
		           "--sample: '%s' selects no row; give a percentage or a number of rows, "
		           "such as 1%% or 100000",
		           text);
}

/* A sample limits the comparison with sources; checksums, labels and splits are always complete. */
static void check_sample(const struct argp_state *state, void *ctx)
{
	const struct verify_args *args = ctx;
	const struct rung_verify_opts *opts = &args->opts;
	const int given = opts->source || tool_graph_given(&args->graph) || args->preset.kind;

	if ((opts->sample_rows || opts->sample_share > 0) && !given)
		argp_error(state,
		           "--sample needs --source, --graph or --dataset; give one of them");
	if (args->graph.none && args->preset.kind)
		argp_error(state, "--graph none: the given dataset provides a graph; omit --graph");
}

static const struct tool_option options[] = {
	{ "source", "[NAME=]SRC", 1,
	  "Also compare every row with the features it was staged from; with a NAME (repeatable) "
	  "those of another array",
	  TOOL_SET(add_source) },
	{ "labels", "SRC", 1, "Also compare the labels with their source",
	  TOOL_SRC(struct verify_args, opts.labels) },
	{ "split", "NAME=SRC", 1, "Also compare a split with its source (repeatable)",
	  TOOL_SET(add_split) },
	{ "score", "SRC", 1,
	  "Also compare the score with its source: float32 by original vertex, as rung score "
	  "writes it",
	  TOOL_SRC(struct verify_args, opts.score) },
	{ "sample", "SHARE|ROWS", 3,
	  "Compare only the rows and lists of a sample of vertices, such as 1%, 0.01 or 100000",
	  TOOL_SET(set_sample) },
	{ "seed", "N", 3, "Seed of the sample (default: 0)",
	  TOOL_U64(struct verify_args, opts.seed, 0, UINT64_MAX) },
	{ "memory", "SIZE", 3,
	  "Maximum memory to use for comparing (default: a quarter of RAM, or 3/4 of the free "
	  "memory "
	  "if that is less)",
	  TOOL_BYTES(struct verify_args, opts.memory_bytes, 0,
	             "not in bytes; give a size such as 4GiB") },
	{ "repair", NULL, 5, "Rebuild bad blocks from the sources given and from files of DIR",
	  TOOL_FLAG(struct verify_args, opts.repair) },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_common_set, struct verify_args, common),
	TOOL_PART(tool_dataset_set, struct verify_args, preset),
	TOOL_PART(tool_graph_set, struct verify_args, graph),
	{ 0 },
};
const struct tool_command tool_verify_command = {
	.options = options,
	.parts = parts,
	.operands = "DIR",
	.doc = "Re-read every file of the staged dataset DIR and compare the checksums of all "
	       "blocks; if sources are given, also compare the contents with them. Exit status 3: "
	       "something differs, and the output names file, block and offset, rows and lists.",
	.operand_kind = TOOL_OPERAND_DIR,
	.dir = offsetof(struct verify_args, dir),
	.check = check_sample,
	.headings = { [1] = "Sources to compare with:",
	              [2] = "Graph:",
	              [3] = "Extent:",
	              [5] = "Repair:" },
	.examples = "  rung verify graph.rung\n  rung verify graph.rung --dataset dataset.json "
		    "--sample 1% --repair",
};

/* ---- JSON ---- */

/* All blocks, unlike print_blocks(). */
static json_t *blocks_json(const struct rung_bad_block *blocks, uint64_t count)
{
	json_t *list = json_array();

	for (uint64_t i = 0; i < count; i++) {
		json_t *entry = json_object();

		tool_json_set(entry, "file", tool_json_text(blocks[i].file));
		tool_json_set(entry, "block", tool_json_u64(blocks[i].block));
		tool_json_set(entry, "offset", tool_json_u64(blocks[i].offset));
		tool_json_append(list, entry);
	}
	return list;
}

/* A comparison with a source, and its keys in JSON. */
struct compared {
	const char *keys[3]; /* of the next three members; the last may be NULL */
	uint64_t compared, different, first;
	int given; /* 0: not requested, and the numbers are null */
};

/* Every key is set in every report, so that readers need not test for it. `first` is null if
 * nothing differs, because 0 is a vertex, too. */
static void set_compared(json_t *root, const struct compared *c)
{
	tool_json_set(root, c->keys[0], c->given ? tool_json_u64(c->compared) : json_null());
	tool_json_set(root, c->keys[1], c->given ? tool_json_u64(c->different) : json_null());
	if (c->keys[2])
		tool_json_set(root, c->keys[2],
		              c->different ? tool_json_u64(c->first) : json_null());
}

/* The comparisons with their keys. `given` follows from the options and not from the counter, which
 * is 0 for an empty source, too. Rows in place are compared even without an option. */
static void set_all_compared(json_t *root, const struct verify_args *args,
                             const struct rung_verify_report *r)
{
	const struct rung_verify_opts *opts = &args->opts;
	const int typed = opts->type_count > 0;
	const struct compared all[] = {
		{ { "rows_compared", "rows_different", "first_different" },
		  r->rows_compared,
		  r->rows_different,
		  r->first_different,
		  typed || opts->source != NULL },
		{ { "lists_compared", "lists_different", "first_list_different" },
		  r->lists_compared,
		  r->lists_different,
		  r->first_list_different,
		  typed || opts->graph != NULL },
		{ { "labels_compared", "labels_different", "first_label_different" },
		  r->labels_compared,
		  r->labels_different,
		  r->first_label_different,
		  typed || opts->labels != NULL },
		{ { "scores_compared", "scores_different", "first_score_different" },
		  r->scores_compared,
		  r->scores_different,
		  r->first_score_different,
		  opts->score != NULL },
		{ { "array_rows_compared", "array_rows_different", "first_array_different" },
		  r->array_rows_compared,
		  r->array_rows_different,
		  r->first_array_different,
		  typed || opts->array_count > 0 },
		{ { "split_ids_compared", "split_ids_different", NULL },
		  r->split_ids_compared,
		  r->split_ids_different,
		  0,
		  typed || opts->split_count > 0 },
		{ { "in_place_blocks_compared", "in_place_blocks_different",
		    "first_in_place_different" },
		  r->in_place_blocks_compared,
		  r->in_place_blocks_different,
		  r->first_in_place_different,
		  r->in_place_blocks_compared > 0 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		set_compared(root, &all[i]);
}

/* Rate of the checksums alone, without the comparison with sources. */
static double bytes_per_s(const struct rung_verify_report *report)
{
	return report->block_seconds > 0 ? (double)report->bytes_checked / report->block_seconds
	                                 : 0;
}

static json_t *report_json(const struct verify_args *args, const struct rung_verify_report *report,
                           int ok)
{
	json_t *root = json_object();

	tool_json_set(root, "ok", json_boolean(ok));
	tool_json_set(root, "blocks_checked", tool_json_u64(report->blocks_checked));
	tool_json_set(root, "bytes_checked", tool_json_u64(report->bytes_checked));
	tool_json_set(root, "bytes_per_s", tool_json_real(bytes_per_s(report)));
	tool_json_set(root, "bad", blocks_json(report->bad, report->bad_count));
	tool_json_set(root, "repaired",
	              args->opts.repair ? blocks_json(report->repaired, report->repaired_count)
	                                : json_null());
	tool_json_set(root, "unrepaired",
	              report->unrepaired ? tool_json_text(report->unrepaired) : json_null());
	tool_json_set(root, "maps_agree", json_boolean(!report->maps_disagree));
	set_all_compared(root, args, report);
	/* null without a sample: the seed had no effect */
	tool_json_set(root, "seed",
	              args->opts.sample_rows || args->opts.sample_share > 0
	                      ? tool_json_u64(args->opts.seed)
	                      : json_null());
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	return root;
}

/* ---- text ---- */

/* The number of blocks from the first one on that follow each other in one file. */
static uint64_t range_of(const struct rung_bad_block *blocks, uint64_t count)
{
	uint64_t i = 1;

	while (i < count && strcmp(blocks[i].file, blocks[0].file) == 0 &&
	       blocks[i].block == blocks[0].block + i)
		i++;
	return i;
}

/* A truncated file has thousands of bad blocks, in one range. The first ranges show where the
 * damage is. @param one, several  what is reported of a block, and of several */
static void print_blocks(const char *dir, const struct rung_bad_block *blocks, uint64_t count,
                         const char *one, const char *several)
{
	uint64_t ranges = 0, shown = 0, length;

	for (uint64_t i = 0; i < count; i += length, ranges++) {
		const struct rung_bad_block *first = &blocks[i];

		length = range_of(first, count - i);
		if (ranges >= RANGES_MAX)
			continue;
		shown += length;
		if (length == 1)
			printf("%s/%s: block %llu at offset %llu %s\n", dir, first->file,
			       (unsigned long long)first->block, (unsigned long long)first->offset,
			       one);
		else
			printf("%s/%s: blocks %llu to %llu from offset %llu on %s\n", dir,
			       first->file, (unsigned long long)first->block,
			       (unsigned long long)first[length - 1].block,
			       (unsigned long long)first->offset, several);
	}
	if (count > shown)
		printf("… and %llu more of %llu blocks, in %llu more range%s (--json lists all)\n",
		       (unsigned long long)(count - shown), (unsigned long long)count,
		       (unsigned long long)(ranges - RANGES_MAX),
		       ranges == RANGES_MAX + 1 ? "" : "s");
}

/* One line for each kind that differs; nothing if all of them agree. */
static void print_different(const char *what, const char *source, uint64_t different,
                            uint64_t first)
{
	if (different)
		printf("%llu %s differ from the %s (the first: vertex %llu)\n",
		       (unsigned long long)different, what, source, (unsigned long long)first);
}

/* Part of the summary line: shows that a comparison was done even if nothing differs. */
static void print_compared(const char *what, uint64_t count)
{
	if (count)
		printf(", %llu %s compared with the source", (unsigned long long)count, what);
}

/* Differences first, then the summary line, then how to fix them. */
static void print_report(const struct verify_args *args, const struct rung_verify_report *r, int ok)
{
	char bytes[TOOL_TEXT_BYTES], rate[TOOL_TEXT_BYTES], time[TOOL_TEXT_BYTES];

	print_blocks(args->dir, r->repaired, r->repaired_count,
	             "differed from its checksum, and is repaired",
	             "differed from their checksums, and are repaired");
	print_blocks(args->dir, r->bad, r->bad_count, "differs from its checksum",
	             "differ from their checksums");
	if (r->unrepaired)
		printf("not repaired: %s\n", r->unrepaired);
	if (r->maps_disagree)
		printf("vertex_of_rank.npy and rank_of_vertex.npy are not each other's inverse: "
		       "nothing was compared with its source\n");
	print_different("rows", "source", r->rows_different, r->first_different);
	print_different("lists", "graph", r->lists_different, r->first_list_different);
	print_different("labels", "source", r->labels_different, r->first_label_different);
	print_different("scores", "source", r->scores_different, r->first_score_different);
	print_different("rows of arrays", "source", r->array_rows_different,
	                r->first_array_different);
	if (r->split_ids_different)
		printf("%llu ids of the splits differ from their sources\n",
		       (unsigned long long)r->split_ids_different);
	if (r->in_place_blocks_different)
		printf("%llu of %llu blocks of the features file used in place differ, the first "
		       "at offset %llu: restore the file\n",
		       (unsigned long long)r->in_place_blocks_different,
		       (unsigned long long)r->in_place_blocks_compared,
		       (unsigned long long)r->first_in_place_different);
	printf("%s: ", ok ? "ok" : "does not verify");
	if (r->bad_count)
		printf("%llu bad of ", (unsigned long long)r->bad_count);
	printf("%llu blocks, %s, %s/s", (unsigned long long)r->blocks_checked,
	       tool_bytes_text(bytes, (double)r->bytes_checked),
	       tool_bytes_text(rate, bytes_per_s(r)));
	if (r->in_place_blocks_compared)
		printf(", %llu blocks of the features file used in place",
		       (unsigned long long)r->in_place_blocks_compared);
	print_compared("rows", r->rows_compared);
	print_compared("lists", r->lists_compared);
	print_compared("labels", r->labels_compared);
	print_compared("scores", r->scores_compared);
	print_compared("rows of arrays", r->array_rows_compared);
	print_compared("ids of splits", r->split_ids_compared);
	printf(", %s\n", tool_seconds_text(time, r->seconds));
	/* bad blocks can be repaired; not different contents, and not after a repair that has
	 * failed */
	if (!ok && r->bad_count > 0 && !args->opts.repair)
		printf("Repair it from its sources: rung verify %s --repair --dataset "
		       "dataset.json, or --source ... --graph ... --labels ...\n",
		       args->dir);
	else if (!ok)
		printf("Stage it again from its source: rung stage ... --out %s --force\n",
		       args->dir);
}

/* Sources of --dataset, except those that were given by their own options. @return an exit code */
static int fill_sources(const char *name, struct verify_args *args)
{
	const int no_splits = args->opts.split_count == 0, no_arrays = args->opts.array_count == 0;
	struct rung_stage_opts stage = RUNG_STAGE_OPTS_INIT;
	int rc;

	stage.graph = args->graph.opts;
	stage.features = args->opts.source;
	stage.labels = args->opts.labels;
	stage.split_count = args->opts.split_count;
	stage.array_count = args->opts.array_count;
	rc = tool_preset_fill(&args->preset, &stage);
	if (rc < 0)
		return tool_fail(name, rc);
	args->graph.opts = stage.graph;
	args->opts.source = stage.features;
	args->opts.labels = stage.labels;
	args->opts.types = stage.types;
	args->opts.type_count = stage.type_count;
	args->opts.relations = stage.relations;
	args->opts.relation_count = stage.relation_count;
	for (size_t i = 0; rc == 0 && no_splits && i < stage.split_count; i++)
		rc = append_named(&args->split_names, &args->split_specs, &args->opts.split_count,
		                  stage.splits[i].name, strlen(stage.splits[i].name),
		                  stage.splits[i].spec);
	for (size_t i = 0; rc == 0 && no_arrays && i < stage.array_count; i++)
		rc = append_named(&args->array_names, &args->array_specs, &args->opts.array_count,
		                  stage.arrays[i].name, strlen(stage.arrays[i].name),
		                  stage.arrays[i].spec);
	return rc < 0 ? tool_error(name, TOOL_FAILED, "no memory for the options") : TOOL_DONE;
}

/* Verify and report. @return an exit code */
static int run(const char *name, struct verify_args *args)
{
	struct rung_verify_report report = { 0 };
	struct tool_progress progress;
	int rc, ok;

	rc = fill_sources(name, args);
	if (rc != TOOL_DONE)
		return rc;
	tool_progress_init(&progress, name, args->common.quiet);
	args->opts.graph = tool_graph_given(&args->graph) ? &args->graph.opts : NULL;
	args->opts.split_names = (const char *const *)args->split_names;
	args->opts.split_specs = args->split_specs;
	args->opts.array_names = (const char *const *)args->array_names;
	args->opts.array_specs = args->array_specs;
	args->opts.threads = args->common.threads;
	args->opts.progress = tool_progress_update;
	args->opts.progress_ctx = &progress;
	/* A repair can have a temporary folder, which the library removes when the repair is
	 * canceled. Without a repair the process can end in the signal handler. */
	if (args->opts.repair)
		tool_interrupt_grace(TOOL_GRACE_MS);
	rc = rung_dataset_verify(args->dir, &args->opts, &report);
	tool_progress_end(&progress);
	if (rc < 0 && rc != RUNG_E_CORRUPT)
		return tool_fail(name, rc);
	ok = rc >= 0; /* RUNG_E_CORRUPT comes with a report, unlike all other errors */
	if (!args->common.json)
		print_report(args, &report, ok);
	else if (tool_json_print(name, report_json(args, &report, ok)) < 0)
		ok = -1;
	rung_verify_report_fini(&report);
	return ok < 0 ? TOOL_FAILED : ok ? TOOL_DONE : TOOL_CORRUPT;
}

/* run() connects the lists of the options to opts; they are freed here, after the report. */
int cmd_verify(int argc, char **argv)
{
	struct verify_args args = { .opts = RUNG_VERIFY_OPTS_INIT,
		                    .graph = { .opts = RUNG_GRAPH_OPTS_INIT } };
	int code;

	tool_args_parse(&tool_verify_command, argc, argv, &args);
	code = run(argv[0], &args);
	for (size_t i = 0; i < args.opts.split_count; i++)
		free(args.split_names[i]);
	for (size_t i = 0; i < args.opts.array_count; i++)
		free(args.array_names[i]);
	free(args.array_names);
	free(args.array_specs);
	free(args.split_names);
	free(args.split_specs);
	free(args.graph.specs);
	tool_preset_free(&args.preset);
	return code;
}
