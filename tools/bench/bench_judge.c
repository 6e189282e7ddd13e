/* SPDX-License-Identifier: Apache-2.0 */
/* What limited a run of rung bench, judged by its counters, and the command to try next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_summary.h"
#include "output/command.h"

#define SHORT_SECONDS 0.2 /* start and end of the threads have a share in a shorter run */
/* From these shares on, a resource counts as the limit. Reads are submitted in groups and complete
 * one by one, so that a drive that limits the run has less than all of them at a time. */
#define BUSY_DRIVE 0.7
#define FULL_QUEUE 0.6
#define DEEP_QUEUE 32 /* reads in flight */
#define BUSY_CPUS  0.9
#define LOOK_AHEAD 32

/* ---- the command of this run with one option changed ---- */

/* The command line with `--option value` in place of an earlier one; "" if it does not fit, as a
 * command that was cut would be a different one. */
static void change(const struct bench_args *args, const char *option, const char *value,
                   char command[BENCH_COMMAND_BYTES])
{
	char *line = command_changed(args->argv, &(struct command_change){ option, value, 0 }, 1);

	*command = 0;
	if (line && strlen(line) < BENCH_COMMAND_BYTES)
		strcpy(command, line);
	free(line);
}

/* The same with a number. */
static void change_number(const struct bench_args *args, const char *option, unsigned value,
                          char command[BENCH_COMMAND_BYTES])
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	change(args, option, text, command);
}

static void more_requests(const struct bench_args *args, char command[BENCH_COMMAND_BYTES])
{
	if (2 * args->common.threads * args->in_flight <= BENCH_REQUESTS_MAX)
		change_number(args, "in-flight", 2 * args->in_flight, command);
}

/* Fewer reads: with more knowledge of the future, otherwise with twice the memory. The process that
 * shares a store decides about its memory. */
static void fewer_reads(const struct bench_args *args, const struct bench_summary *summary,
                        char command[BENCH_COMMAND_BYTES])
{
	const struct tool_size *host = &args->store.host;
	char text[32];

	if (summary->stats.cache_rows > 0 && args->look_ahead == 0 && !args->store.profile &&
	    !(args->runtime > 0 && args->repeat > 1)) { /* it excludes --look-ahead */
		change_number(args, "look-ahead", LOOK_AHEAD, command);
		return;
	}
	if (args->attach)
		return;
	if (!host->given || host->share > 0.5 || host->bytes > RUNG_BYTES_MAX / 4)
		snprintf(text, sizeof(text), "max");
	else if (host->share >= 0)
		snprintf(text, sizeof(text), "%.3g%%", 200 * host->share);
	else
		snprintf(text, sizeof(text), "%lluKiB",
		         (unsigned long long)(host->bytes / 512 + (host->bytes % 512 != 0)));
	change(args, "host", text, command);
}

/* ---- the judgement ---- */

/* Every row was in memory. */
static void judge_memory(const struct bench_args *args, const struct bench_summary *summary,
                         struct bench_verdict *out)
{
	const unsigned threads = args->common.threads, cpus = tool_cpu_count();

	if (summary->result->info.device != RUNG_DEVICE_CPU) {
		out->bound = "memory";
		snprintf(out->text, sizeof(out->text),
		         "bound by the GPU's gathers: every row was in memory");
		more_requests(args, out->command);
	} else if (threads < cpus) {
		out->bound = "threads";
		snprintf(out->text, sizeof(out->text),
		         "bound by the copies of %u thread%s, on a machine with %u CPUs: every row "
		         "was in memory",
		         threads, threads == 1 ? "" : "s", cpus);
		if (cpus * args->in_flight <= BENCH_REQUESTS_MAX)
			change_number(args, "threads", cpus, out->command);
	} else {
		out->bound = "memory";
		snprintf(out->text, sizeof(out->text),
		         "bound by copies in memory: every row was there, and all %u CPUs copied",
		         cpus);
		snprintf(out->command, sizeof(out->command), "rung numa --only gather");
	}
}

/* Rows were read from the file. */
static void judge_reads(const struct bench_args *args, const struct bench_summary *summary,
                        double drive_busy, struct bench_verdict *out)
{
	const double full = summary->in_flight / summary->in_flight_max;
	const unsigned cpus = tool_cpu_count();
	char reads[TOOL_TEXT_BYTES], most[TOOL_TEXT_BYTES];

	tool_count_text(reads, summary->in_flight);
	tool_count_text(most, summary->in_flight_max);
	/* without the rates of the drive, a full queue shows that it is busy only if it is deep */
	const int deep = summary->in_flight_max >= DEEP_QUEUE;

	if (isnan(drive_busy) ? full >= FULL_QUEUE && deep : drive_busy >= BUSY_DRIVE) {
		out->bound = "drive";
		if (isnan(drive_busy))
			snprintf(out->text, sizeof(out->text),
			         "bound by the drive: it had %s of at most %s reads at a time",
			         reads, most);
		else
			snprintf(out->text, sizeof(out->text),
			         "bound by the drive: it was busy %.0f %% of the time, at the "
			         "rates of the profile",
			         100 * drive_busy);
		fewer_reads(args, summary, out->command);
	} else if (full >= FULL_QUEUE) {
		out->bound = "depth";
		if (isnan(drive_busy))
			snprintf(out->text, sizeof(out->text),
			         "bound by the queue depth: there were %s of at most %s reads at a "
			         "time",
			         reads, most);
		else
			snprintf(out->text, sizeof(out->text),
			         "bound by the queue depth: the drive was busy %.0f %% of the time "
			         "with %s of at most %s reads",
			         100 * drive_busy, reads, most);
		change_number(args, "queue-depth", 2 * summary->stats.queue_depth, out->command);
	} else if (summary->cores >= BUSY_CPUS * cpus) {
		out->bound = "cpu";
		snprintf(out->text, sizeof(out->text),
		         "bound by the CPU: %.1f of %u CPUs were busy, while the drive had %s of "
		         "at most %s reads",
		         summary->cores, cpus, reads, most);
		fewer_reads(args, summary, out->command);
	} else {
		out->bound = "requests";
		snprintf(out->text, sizeof(out->text),
		         "bound by waiting for reads: too few rows are requested at a time, the "
		         "drive had %s of at most %s reads",
		         reads, most);
		more_requests(args, out->command);
	}
}

void bench_judge(const struct bench_args *args, const struct bench_summary *summary,
                 const struct rung_forecast *forecast, struct bench_verdict *out)
{
	char text[TOOL_TEXT_BYTES];

	*out = (struct bench_verdict){ .bound = NULL };
	if (args->check || summary->result->request_count == 0)
		return;
	if (summary->result->seconds < SHORT_SECONDS) {
		snprintf(out->text, sizeof(out->text), "too short to judge: the run took %s",
		         tool_seconds_text(text, summary->result->seconds));
		/* a file of ids has no more of them, and --rows ends the run as soon */
		if (!bench_ids_are_vertices(args) && args->rows == 0 &&
		    !(args->repeat > 1 && args->look_ahead))
			change(args, "runtime", "10s", out->command);
		return;
	}
	if (summary->stats.device_reads == 0)
		judge_memory(args, summary, out);
	else
		judge_reads(args, summary, bench_drive_busy(summary, forecast), out);
}
