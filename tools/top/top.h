/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parts of rung top: sampling the statistics pages of running stores (cmd_top.c), and its three
 * outputs: text (top_print.c), JSON (top_json.c) and OpenMetrics (top_metrics.c).
 */
#ifndef RUNG_TOOL_TOP_H
#define RUNG_TOOL_TOP_H

#include "output/rates.h"
#include "tool.h"
#include "watch/watch.h"

struct top_args {
	uint32_t pid;    /* 0: all processes */
	double interval; /* seconds */
	int once;
	const char *metrics; /* file for OpenMetrics; NULL: none */
	struct tool_common common;
};

/** A store, and what it did in the interval. */
struct top_store {
	const struct rung__watch_view *view;
	struct tool_rates rates;
};

/** All stores at one moment, by pid. */
struct top_sample {
	struct rung__watch_view *views;
	struct top_store *stores; /* [count]; NULL: no rates yet */
	size_t count;
};

/** Print the stores as text. @param screen  nonzero: draw over the last one, cut to the terminal
 * @return an exit code */
int top_print(const char *name, const struct top_args *args, const struct top_sample *sample,
              int screen);

/** Print them as one JSON object. @return an exit code */
int top_print_json(const char *name, const struct top_args *args, const struct top_sample *sample);

/** Replace the file args->metrics; needs no rates. @return an exit code */
int top_write_metrics(const char *name, const struct top_args *args,
                      const struct top_sample *sample);

#endif
