/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of long calls on stderr. The library calls tool_progress_update() very often, possibly
 * from several threads; only a few calls draw anything.
 */
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "tool.h"

#define BAR_CELLS     24
#define SHOW_AFTER_NS 1000000000u  /* a step shorter than this shows nothing */
#define REDRAW_NS     100000000u   /* between two bars on a terminal */
#define LINE_NS       10000000000u /* between two lines elsewhere, such as in a log file */

void tool_progress_init(struct tool_progress *progress, const char *name, int quiet)
{
	memset(progress, 0, sizeof(*progress));
	progress->name = name;
	progress->quiet = quiet;
	progress->terminal = isatty(STDERR_FILENO);
	pthread_mutex_init(&progress->lock, NULL);
}

/* Draw the bar in place of the previous one, or append a line. Without a total there is neither a
 * share nor a time left. The caller holds the lock. */
static void draw(struct tool_progress *progress, unsigned long long done, unsigned long long total,
                 uint64_t now_ns)
{
	double seconds = (double)(now_ns - progress->step_ns) / 1e9;
	double rate = seconds > 0 ? (double)done / seconds : 0;
	char count[TOOL_TEXT_BYTES], left[TOOL_TEXT_BYTES], bar[BAR_CELLS + 1];
	unsigned cells = total ? (unsigned)((double)BAR_CELLS * (double)done / (double)total) : 0;

	if (cells > BAR_CELLS)
		cells = BAR_CELLS;
	memset(bar, '.', BAR_CELLS);
	memset(bar, '#', cells);
	bar[BAR_CELLS] = 0;
	/* set before the bar is drawn: a signal in between clears an empty line at worst */
	if (progress->terminal) {
		tool_interrupt_bar(1);
		fputs("\r\033[K", stderr);
	}
	fprintf(stderr, "%s: %s", progress->name, progress->step);
	if (total && progress->terminal)
		fprintf(stderr, " [%s]", bar);
	if (total)
		fprintf(stderr, " %3.0f %%", 100 * (double)done / (double)total);
	fprintf(stderr, ", %s/s", tool_count_text(count, rate));
	if (total && rate > 0 && done <= total)
		fprintf(stderr, ", %s left",
		        tool_seconds_text(left, (double)(total - done) / rate));
	if (!progress->terminal)
		fputc('\n', stderr);
	fflush(stderr);
	progress->drawn = progress->terminal;
	progress->shown_ns = now_ns;
}

int tool_progress_update(void *ctx, const char *step, unsigned long long done,
                         unsigned long long total)
{
	struct tool_progress *progress = ctx;
	uint64_t now_ns, wait_ns = progress->terminal ? REDRAW_NS : LINE_NS;

	if (progress->quiet)
		return tool_interrupted();
	pthread_mutex_lock(&progress->lock);
	now_ns = tool_now_ns();
	/* a new step, with its own rate; names are compared up to the length that is stored */
	if (strncmp(progress->step, step, sizeof(progress->step) - 1) != 0) {
		snprintf(progress->step, sizeof(progress->step), "%s", step);
		progress->step_ns = now_ns;
		progress->shown_ns = now_ns;
	}
	if (now_ns - progress->step_ns >= SHOW_AFTER_NS && now_ns - progress->shown_ns >= wait_ns)
		draw(progress, done, total, now_ns);
	pthread_mutex_unlock(&progress->lock);
	return tool_interrupted();
}

/* No call of the library must be running, because this does not acquire the lock. */
void tool_progress_end(struct tool_progress *progress)
{
	if (progress->drawn)
		fputs("\r\033[K", stderr);
	progress->drawn = 0;
	progress->step[0] = 0;
	fflush(stderr);
	tool_interrupt_bar(0);
}
