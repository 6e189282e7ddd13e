/* SPDX-License-Identifier: Apache-2.0 */
/* rung fetch: copy a staged dataset, or its hottest rows, from another machine. */
#include <stdio.h>

#include "args/args.h"
#include "interrupt.h"
#include "output/json.h"
#include "rung/dataset.h"
#include "tool.h"

struct fetch_args {
	struct rung_fetch_opts opts;
	struct tool_common common;
};

static void set_share(const struct argp_state *state, void *ctx, const char *arg)
{
	struct fetch_args *args = ctx;

	args->opts.share = tool_arg_share(state, "--share", arg);
}

static void add_operand(const struct argp_state *state, void *ctx, const char *arg)
{
	struct fetch_args *args = ctx;

	if (!args->opts.source)
		args->opts.source = arg;
	else if (!args->opts.out_dir)
		args->opts.out_dir = arg;
	else
		argp_error(state, "unexpected argument '%s'; give SRC and DIR once", arg);
}

static void check(const struct argp_state *state, void *ctx)
{
	const struct fetch_args *args = ctx;

	if (!args->opts.out_dir)
		argp_error(state, "%s is missing; give SRC and DIR",
		           args->opts.source ? "DIR" : "SRC");
}

static const struct tool_option options[] = {
	{ "share", "SHARE", 1,
	  "Copy only this share of the rows, the hottest, such as 40%; the copy refers to the "
	  "others "
	  "where they are",
	  TOOL_SET(set_share) },
	{ "rest", "PATH", 1,
	  "With --share, the folder through which this machine reads the other rows, such as a "
	  "mount "
	  "(default: SRC, if it is a folder)",
	  TOOL_TEXT(struct fetch_args, opts.rest) },
	{ 0 },
};
static const struct tool_part parts[] = {
	TOOL_PART(tool_common_set, struct fetch_args, common),
	{ 0 },
};
const struct tool_command tool_fetch_command = {
	.options = options,
	.parts = parts,
	.operands = "SRC DIR",
	.doc = "Copy the staged dataset SRC to DIR, and compare every block with its checksum. SRC "
	       "is "
	       "a folder, HOST:PATH or rsync://... (rsync), an http URL (curl), or s3://... "
	       "(s5cmd, "
	       "curl). A copy that was stopped is continued by the same command.",
	.operand = add_operand,
	.check = check,
	.headings = { [1] = "Rows:" },
	.threads = "Number of transfers at the same time (default: 8)",
	.examples = "  rung fetch storage:/data/graph.rung graph.rung\n"
		    "  rung fetch /mnt/san/graph.rung /nvme/graph.rung --share 40%",
};

static void print_report(const struct rung_fetch_report *report)
{
	char text[3][TOOL_TEXT_BYTES];

	printf("%s in %.3g s, %s of them from an earlier run\n",
	       tool_bytes_text(text[0], (double)report->bytes), report->seconds,
	       tool_bytes_text(text[1], (double)report->bytes_kept));
	if (report->row_count < report->vertex_count)
		printf("the hottest %llu of %llu rows; the others are in files of %s\n",
		       (unsigned long long)report->row_count,
		       (unsigned long long)report->vertex_count,
		       tool_bytes_text(text[2], (double)report->bytes_left));
}

static json_t *report_json(const struct rung_fetch_report *report)
{
	json_t *root = json_object();

	tool_json_set(root, "vertices", tool_json_u64(report->vertex_count));
	tool_json_set(root, "rows", tool_json_u64(report->row_count));
	tool_json_set(root, "bytes", tool_json_u64(report->bytes));
	tool_json_set(root, "bytes_kept", tool_json_u64(report->bytes_kept));
	tool_json_set(root, "bytes_left", tool_json_u64(report->bytes_left));
	tool_json_set(root, "seconds", tool_json_real(report->seconds));
	return root;
}

int cmd_fetch(int argc, char **argv)
{
	struct fetch_args args = { .opts = RUNG_FETCH_OPTS_INIT };
	static const char *const steps[] = { "fetch", NULL };
	struct rung_fetch_report report = { 0 };
	struct tool_progress progress;
	int rc, code = TOOL_DONE;

	tool_args_parse(&tool_fetch_command, argc, argv, &args);
	tool_progress_init(&progress, argv[0], args.common.quiet);
	progress.steps = steps;
	args.opts.threads = args.common.threads;
	args.opts.progress = tool_progress_update;
	args.opts.progress_ctx = &progress;
	tool_interrupt_resumable(argv[0], args.opts.out_dir, "");
	rc = rung_fetch(&args.opts, &report);
	tool_progress_end(&progress);
	if (rc < 0)
		code = tool_fail(argv[0], rc);
	else if (!args.common.json)
		print_report(&report);
	else if (tool_json_print(argv[0], report_json(&report)) < 0)
		code = TOOL_FAILED;
	return code;
}
