/* SPDX-License-Identifier: Apache-2.0 */
/* The text of rung top: a block of lines for each store. It is composed in memory first, so that a
 * screen is drawn at once, and each line can be cut to the width of the terminal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "top/top.h"

#define BAR_CELLS 40

static void print_bar(FILE *out, const char *name, double share)
{
	char bar[BAR_CELLS + 1];

	memset(bar, '.', BAR_CELLS);
	bar[BAR_CELLS] = 0;
	if (isnan(share)) {
		fprintf(out, "  %-8s %s      -\n", name, bar);
		return;
	}
	memset(bar, '#', (size_t)(share * BAR_CELLS + 0.5));
	fprintf(out, "  %-8s %s %6.1f %%\n", name, bar, 100 * share);
}

static void print_reads(FILE *out, const struct top_store *store)
{
	const struct tool_rates *rates = &store->rates;
	char reads[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];

	fprintf(out, "  %-8s %s/s, %s/s, %.1f of %llu in flight", "reads",
	        tool_count_text(reads, rates->reads), tool_bytes_text(bytes, rates->read_bytes),
	        rates->queue, (unsigned long long)store->view->queue_depth);
	if (!isnan(rates->read_s))
		fprintf(out, ", %.3g ms each", 1e3 * rates->read_s);
	fprintf(out, ", %s\n", store->view->engine);
}

/* Processes that are attached to this one, whatever store of it they use. */
static void print_attached(FILE *out, const struct top_sample *sample,
                           const struct rung__watch_view *owner)
{
	unsigned count = 0;

	for (size_t i = 0; i < sample->count; i++) {
		const struct rung__watch_view *view = &sample->views[i];

		if (view->owner_pid == owner->pid && !view->is_lists)
			fprintf(out, "%s %u", count++ ? "," : "  attached", view->pid);
	}
	if (count)
		fputc('\n', out);
}

static void print_store(FILE *out, const struct top_sample *sample, const struct top_store *store)
{
	const struct rung__watch_view *view = store->view;
	const struct tool_rates *rates = &store->rates;
	char text[TOOL_TEXT_BYTES], bytes[TOOL_TEXT_BYTES];

	fprintf(out, "%u  %s  %s%s", view->pid, view->command,
	        view->is_lists ? "neighbour lists of " : "", view->dataset);
	if (view->is_attached)
		fprintf(out, "  attached to %u", view->owner_pid);
	fputc('\n', out);
	if (!view->is_lists)
		fprintf(out, "  %-8s %s\n", "now", rates->bottleneck);
	fprintf(out, "  %-8s %s/s, %s/s", view->is_lists ? "blocks" : "rows",
	        tool_count_text(text, rates->rows), tool_bytes_text(bytes, rates->row_bytes));
	if (!view->is_lists)
		fprintf(out, "; waits %.0f %% of the time", 100 * rates->wait);
	fputc('\n', out);
	for (uint32_t i = 0; i < rates->source_count; i++) {
		/* blocks in memory are read directly, and not counted */
		if (!view->is_lists)
			print_bar(out, rates->sources[i].name, rates->sources[i].share);
	}
	if (view->queue_depth)
		print_reads(out, store);
	if (!view->is_lists)
		print_attached(out, sample, view);
}

static void compose(FILE *out, const struct top_args *args, const struct top_sample *sample,
                    int screen)
{
	const time_t now = time(NULL);
	struct tm local;
	char clock[16] = "";

	if (localtime_r(&now, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	fprintf(out, "rung top  %s  in %g s%s\n", clock, args->interval,
	        screen ? "  (q ends)" : "");
	if (sample->count == 0)
		fprintf(out, "\nno open store\n");
	for (size_t i = 0; i < sample->count; i++) {
		fputc('\n', out);
		print_store(out, sample, &sample->stores[i]);
	}
}

/* Draw lines over the previous screen, cut at its edges. */
static void draw(const char *text)
{
	struct winsize size;
	int rows = 24, columns = 80;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 && size.ws_col > 1) {
		rows = size.ws_row;
		columns = size.ws_col;
	}
	fputs("\033[H", stdout);
	/* the last row stays empty: a line end there would scroll */
	for (int row = 1; row < rows && *text; row++) {
		const int length = (int)strcspn(text, "\n");

		printf("%.*s\033[K\n", length < columns ? length : columns - 1, text);
		text += length + (text[length] == '\n');
	}
	fputs("\033[J", stdout);
}

int top_print(const char *name, const struct top_args *args, const struct top_sample *sample,
              int screen)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (out) {
		compose(out, args, sample, screen);
		fclose(out);
	}
	if (!text)
		return tool_fail(name, RUNG_E_NOMEM);
	if (screen)
		draw(text);
	else
		printf("%s%s", text, args->once ? "" : "\n");
	free(text);
	return tool_flush(name);
}
