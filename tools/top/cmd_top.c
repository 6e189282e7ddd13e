/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rung top: what the stores of all running processes of this user do. It only reads their
 * statistics pages, so a store is not disturbed, and a process that is stopped is shown as well.
 *
 * On a terminal the screen is redrawn, and keys are read without Enter. SIGINT and other signals
 * are only recorded, so that the terminal's mode is restored before the process ends.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "args/args.h"
#include "interrupt.h"
#include "top/top.h"

static void set_pid(const struct argp_state *state, void *ctx, const char *arg)
{
	struct top_args *args = ctx;

	if (args->pid)
		argp_error(state, "'%s': one PID is accepted", arg);
	args->pid = tool_arg_u32(state, "PID", arg, 1, INT32_MAX);
}

static void check(const struct argp_state *state, void *ctx)
{
	const struct top_args *args = ctx;

	if (args->common.json && !args->once)
		argp_error(state, "--json needs --once");
	if (args->common.json && args->metrics)
		argp_error(state, "--json and --openmetrics exclude each other");
}

static const struct tool_option options[] = {
	{ "interval", "SECONDS", 1, "Time between two samples (default: 1)",
	  TOOL_TIME(struct top_args, interval, 0.1, 86400) },
	{ "once", NULL, 1, "Print what happens in one interval, and end",
	  TOOL_FLAG(struct top_args, once) },
	{ "openmetrics", "FILE", 1,
	  "Write counters to FILE in each interval, for Prometheus, instead of printing",
	  TOOL_TEXT(struct top_args, metrics) },
	{ 0 },
};

static const struct tool_part parts[] = {
	TOOL_PART(tool_output_set, struct top_args, common),
	{ 0 },
};
const struct tool_command tool_top_command = {
	.options = options,
	.parts = parts,
	.operands = "[PID]",
	.doc = "Show what the open stores of all processes of this user do, or those of PID: rows "
	       "per "
	       "second, where they come from, reads, and what the trainer waits for. q ends.",
	.operand = set_pid,
	.check = check,
	.examples = "  rung top\n  rung top 4711 --once --json",
};

static void forget(struct top_sample *sample)
{
	rung__free(sample->views);
	free(sample->stores);
	*sample = (struct top_sample){ 0 };
}

/* @return a status */
static int take(const struct top_args *args, struct top_sample *sample)
{
	size_t kept = 0;
	int rc = rung__watch_read(&sample->views, &sample->count);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sample->count; i++) {
		/* those attached to a store of the process are shown as well */
		if (args->pid == 0 || sample->views[i].pid == args->pid ||
		    sample->views[i].owner_pid == args->pid)
			sample->views[kept++] = sample->views[i];
	}
	sample->count = kept;
	return 0;
}

/* The same store in an earlier sample, or NULL. */
static const struct rung__watch_view *find(const struct top_sample *sample,
                                           const struct rung__watch_view *view)
{
	for (size_t i = 0; i < sample->count; i++) {
		const struct rung__watch_view *earlier = &sample->views[i];

		if (earlier->pid == view->pid && earlier->number == view->number &&
		    earlier->opened_s == view->opened_s)
			return earlier;
	}
	return NULL;
}

/* Rates since an earlier sample; a store that was opened in between began with zeros.
 * @return a status */
static int compare(const struct top_sample *before, struct top_sample *sample, double interval)
{
	static const struct rung_store_stats zeros;

	sample->stores = calloc(sample->count + 1, sizeof(*sample->stores));
	if (!sample->stores)
		return RUNG_E_NOMEM;
	for (size_t i = 0; i < sample->count; i++) {
		const struct rung__watch_view *view = &sample->views[i], *old = find(before, view);
		const double seconds = old && view->now_ns > old->now_ns
		                               ? (double)(view->now_ns - old->now_ns) / 1e9
		                               : interval;

		sample->stores[i].view = view;
		tool_rates_of(old ? &old->stats : &zeros, &view->stats, seconds,
		              &sample->stores[i].rates);
	}
	return 0;
}

static int no_store(const char *name, const struct top_args *args)
{
	if (args->pid)
		return tool_error(
			name, TOOL_FAILED,
			"process %u has no open store that can be watched; run rung top to "
			"list those that have one",
			args->pid);
	return tool_error(name, TOOL_FAILED,
	                  "no running process of this user has a store that can be watched; start "
	                  "one, without RUNG_STATS_PAGE=0");
}

/* Sleep until the next sample. @return nonzero: the user or a signal ends the command */
static int rest(uint64_t until_ns, int keys)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t now_ns;

	while (!tool_interrupted() && (now_ns = tool_now_ns()) < until_ns) {
		const int ms = (int)((until_ns - now_ns) / 1000000 + 1);
		char key = 0;

		if (poll(&input, keys ? 1 : 0, ms) > 0 && read(STDIN_FILENO, &key, 1) <= 0)
			keys = 0; /* closed */
		if (key == 'q' || key == 'Q')
			return 1;
	}
	return tool_interrupted();
}

/* Sample and print until the end. @return an exit code */
static int watch(const char *name, const struct top_args *args, int screen, int keys)
{
	const uint64_t step_ns = (uint64_t)(args->interval * 1e9);
	struct top_sample before = { 0 }, sample = { 0 };
	uint64_t due_ns = tool_now_ns();
	int code = TOOL_DONE, rc = take(args, &before);

	if (rc >= 0 && before.count == 0 && !args->metrics)
		code = no_store(name, args);
	if (rc >= 0 && args->metrics)
		code = top_write_metrics(name, args, &before);
	if (args->metrics && args->once)
		due_ns = UINT64_MAX;
	while (rc >= 0 && code == TOOL_DONE && due_ns != UINT64_MAX) {
		due_ns += step_ns;
		if (rest(due_ns, keys))
			break;
		rc = take(args, &sample);
		if (rc >= 0)
			rc = compare(&before, &sample, args->interval);
		if (rc < 0)
			break;
		if (args->metrics)
			code = top_write_metrics(name, args, &sample);
		else if (args->pid && sample.count == 0)
			due_ns = UINT64_MAX; /* it has ended */
		else if (args->common.json)
			code = top_print_json(name, args, &sample);
		else
			code = top_print(name, args, &sample, screen);
		forget(&before);
		before = sample;
		sample = (struct top_sample){ 0 };
		if (args->once)
			break;
	}
	forget(&before);
	forget(&sample);
	return rc < 0 ? tool_fail(name, rc) : code;
}

int cmd_top(int argc, char **argv)
{
	struct top_args args = { .interval = 1 };
	struct termios old, raw;
	const char *term = getenv("TERM");
	int screen, keys, code;

	tool_args_parse(&tool_top_command, argc, argv, &args);
	screen = !args.once && !args.metrics && isatty(STDOUT_FILENO) && term &&
	         strcmp(term, "dumb") != 0;
	keys = screen && tcgetattr(STDIN_FILENO, &old) == 0;
	tool_interrupt_grace(TOOL_GRACE_MS);
	if (keys) {
		raw = old;
		raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
		keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
	code = watch(argv[0], &args, screen, keys);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &old);
	return code;
}
