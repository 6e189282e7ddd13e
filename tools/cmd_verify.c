/* SPDX-License-Identifier: Apache-2.0 */
/* rung verify: re-read a staged dataset and compare all checksums, and its rows with their source. */
#include "json.h"
#include "tool.h"

#define BAD_LINES_MAX 20   /* of the human output; JSON lists all */

enum { KEY_SOURCE = 0x1001 };

struct verify_args {
	const char *dir;
	const char *source;
	struct tool_common common;
};

static const struct argp_option options[] = {
	{ "source", KEY_SOURCE, "SRC", 0, "Also compare every row with the features it was staged from", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct verify_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->common;
		return 0;
	case KEY_SOURCE:
		args->source = arg;
		return 0;
	case ARGP_KEY_ARG:
		tool_arg_dir(state, arg, &args->dir);
		return 0;
	case ARGP_KEY_END:
		if (!args->dir)
			argp_error(state, "DIR is missing: the staged dataset");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &tool_common_argp, 0, NULL, 0 }, { 0 } };
static const struct argp verify_argp = {
	.options = options,
	.parser = parse,
	.args_doc = "DIR",
	.doc = "Re-read every file of the staged dataset DIR and compare the checksums of all blocks. Exit status 3: something "
	       "differs, and the "
	       "output names file, block and offset.",
	.children = children,
};

static json_t *report_json(const struct rung_verify_report *report, int ok, int with_source)
{
	json_t *root = json_object(), *bad = json_array();
	int differ = report->rows_different > 0;

	for (uint64_t i = 0; i < report->bad_count; i++) {
		json_t *entry = json_object();
		tool_json_set(entry, "file", tool_json_text(report->bad[i].file));
		tool_json_set(entry, "block", tool_json_u64(report->bad[i].block));
		tool_json_set(entry, "offset", tool_json_u64(report->bad[i].offset));
		tool_json_append(bad, entry);
	}
	tool_json_set(root, "ok", json_boolean(ok));
	tool_json_set(root, "blocks_checked", tool_json_u64(report->blocks_checked));
	tool_json_set(root, "bytes_checked", tool_json_u64(report->bytes_checked));
	tool_json_set(root, "bad", bad);
	tool_json_set(root, "rows_compared", with_source ? tool_json_u64(report->rows_compared) : json_null());
	tool_json_set(root, "rows_different", with_source ? tool_json_u64(report->rows_different) : json_null());
	tool_json_set(root, "first_different", differ ? tool_json_u64(report->first_different) : json_null());
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	return root;
}

static void print_report(const char *dir, const struct rung_verify_report *report, int ok, int with_source)
{
	char bytes[TOOL_TEXT_BYTES], time[TOOL_TEXT_BYTES];

	for (uint64_t i = 0; i < report->bad_count && i < BAD_LINES_MAX; i++) {
		printf("%s/%s: block %llu at offset %llu differs from its checksum\n", dir, report->bad[i].file,
		       (unsigned long long)report->bad[i].block, (unsigned long long)report->bad[i].offset);
	}
	if (report->bad_count > BAD_LINES_MAX)
		printf("… and %llu more blocks (--json lists all)\n", (unsigned long long)(report->bad_count - BAD_LINES_MAX));
	if (report->rows_different) {
		printf("%llu rows differ from the source, the first is that of vertex %llu\n",
		       (unsigned long long)report->rows_different, (unsigned long long)report->first_different);
	}
	printf("%s: %llu blocks, %s", ok ? "ok" : "does not verify", (unsigned long long)report->blocks_checked,
	       tool_bytes_text(bytes, (double)report->bytes_checked));
	if (with_source)
		printf(", %llu rows compared with the source", (unsigned long long)report->rows_compared);
	printf(", %s\n", tool_seconds_text(time, report->seconds));
	if (!ok)
		printf("Stage it again from its source: rung stage ... --out %s --force\n", dir);
}

int cmd_verify(int argc, char **argv)
{
	struct verify_args args = { 0 };
	struct rung_verify_opts opts = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report = { 0 };
	struct tool_progress progress;
	int rc, ok;

	argp_parse(&verify_argp, argc, argv, 0, NULL, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	opts.source = args.source;
	opts.threads = args.common.threads;
	opts.progress = tool_progress;
	opts.progress_ctx = &progress;
	rc = rung_dataset_verify(args.dir, &opts, &report);
	tool_progress_end(&progress);
	if (rc < 0 && rc != RUNG_E_CORRUPT)
		return tool_fail(argv[0], rc);
	ok = rc >= 0;
	if (!args.common.json)
		print_report(args.dir, &report, ok, args.source != NULL);
	else if (tool_json_print(argv[0], report_json(&report, ok, args.source != NULL)) < 0)
		ok = -1;
	rung_verify_report_fini(&report);
	return ok < 0 ? TOOL_FAILED : ok ? TOOL_DONE : TOOL_CORRUPT;
}
