/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of long calls on stderr. The library calls tool_progress_update() very often, possibly
 * from several threads; only a few calls draw anything. On a terminal a thread draws as well, so
 * that the elapsed time advances while a step reports nothing.
 *
 * The state is static and the thread is never joined: whatever path a command returns by, the
 * thread uses nothing of the command. It ends with the process.
 */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "tool.h"

#define BAR_CELLS     24
#define BAR_CELLS_MIN 8
#define LINE_BYTES    256
#define SHOW_AFTER_NS 1000000000u  /* a step shorter than this shows nothing */
#define REDRAW_NS     100000000u   /* between two bars on a terminal */
#define LINE_NS       10000000000u /* between two lines elsewhere, such as in a log file */
#define TICK_NS       500000000    /* between two bars that the thread draws */

static struct {
	pthread_mutex_t lock;           /* tool_progress_update() may be called from any thread */
	struct tool_progress by;        /* of the last update */
	char step[48];                  /* name of the current step, cut if longer; "": none */
	uint64_t step_ns, shown_ns;     /* when the step began, and when it was last shown */
	unsigned long long done, total; /* of the last update */
	int drawn;                      /* nonzero: the terminal's line shows a bar */
	int ticking;                    /* nonzero: the thread was started */
} shown = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Units of the steps, by the start of their name. A step that is not listed shows no rate. */
static const struct {
	const char *command; /* NULL: any */
	const char *step, *unit;
} units[] = {
	{ "rung generate", "features", "rows" },
	{ "rung generate", "labels", "rows" },
	{ "rung stage", "features", NULL },
	{ "rung stage", "files", NULL },
	{ "rung stage", "check", NULL },
	{ "rung stage", "graph", "edges" },
	{ "rung stage", "score, sampling", "batches" },
	{ "rung stage", "score", "passes" },
	{ "rung stage", "relabel", "edges" },
	{ "rung trace", "sampling", "batches" },
	{ NULL, "sampling", "rows" },
	{ NULL, "forecast", "rows" },
	{ NULL, "gathers", "rows" },
	{ NULL, "checking ids", "ids" },
	{ NULL, "edges", "edges" },
	{ NULL, "sort", "edges" },
	{ NULL, "score", "passes" },
	{ NULL, "presample", "batches" },
	{ NULL, "LRU", "requests" },
	{ NULL, "epoch", "vertices" },
	{ NULL, "testing", "vertices" },
	{ NULL, "lists", "edges" },
	{ NULL, "repair", "blocks" },
};

void tool_progress_init(struct tool_progress *progress, const char *name, int quiet)
{
	memset(progress, 0, sizeof(*progress));
	progress->name = name;
	progress->quiet = quiet;
	progress->terminal = isatty(STDERR_FILENO);
}

/* "30 batches/s" or "140 MiB/s"; "" for a step without a unit, and before any work was done. */
static const char *rate_text(char text[2 * TOOL_TEXT_BYTES], double seconds)
{
	const double rate = seconds > 0 ? (double)shown.done / seconds : 0;
	char number[TOOL_TEXT_BYTES];

	*text = 0;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && rate > 0; i++) {
		if ((units[i].command && strcmp(units[i].command, shown.by.name) != 0) ||
		    strncmp(units[i].step, shown.step, strlen(units[i].step)) != 0)
			continue;
		if (units[i].unit)
			snprintf(text, 2 * TOOL_TEXT_BYTES, ", %s %s/s",
			         tool_count_text(number, rate), units[i].unit);
		else
			snprintf(text, 2 * TOOL_TEXT_BYTES, ", %s/s",
			         tool_bytes_text(number, rate));
		break;
	}
	return text;
}

/* Whole seconds: the time left changes by more than its fraction from one bar to the next. */
static const char *whole_text(char text[TOOL_TEXT_BYTES], double seconds)
{
	if (seconds < 100)
		snprintf(text, TOOL_TEXT_BYTES, "%.0f s", seconds);
	else
		tool_seconds_text(text, seconds);
	return text;
}

/* ", step 2 of 5" if the caller has listed the steps. */
static const char *phase_text(char text[TOOL_TEXT_BYTES])
{
	unsigned count = 0, found = 0;

	*text = 0;
	for (; shown.by.steps && shown.by.steps[count]; count++) {
		const char *step = shown.by.steps[count];

		if (!found && strncmp(step, shown.step, strlen(step)) == 0)
			found = count + 1;
	}
	if (found && count > 1)
		snprintf(text, TOOL_TEXT_BYTES, ", step %u of %u", found, count);
	return text;
}

/* Columns that a bar may use. The last one stays free: some terminals wrap a full line. */
static int columns(void)
{
	struct winsize size;

	if (!shown.by.terminal)
		return LINE_BYTES - 1;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 2)
		return 99; /* no window is known */
	return size.ws_col < LINE_BYTES ? size.ws_col - 1 : LINE_BYTES - 1;
}

/* The bar between its brackets, as long as the line has room for; "" if it has none. */
static void bar_text(char bar[BAR_CELLS + 4], double share, int room)
{
	const int cells = room - 3 < BAR_CELLS ? room - 3 : BAR_CELLS;
	int full = (int)(share * cells);

	*bar = 0;
	if (!shown.by.terminal || cells < BAR_CELLS_MIN)
		return;
	full = full < cells ? full : cells;
	memset(bar, '.', (size_t)cells + 3);
	memcpy(bar, " [", 2);
	memset(bar + 2, '#', (size_t)full);
	memcpy(bar + 2 + cells, "]", 2);
}

/* Draw the bar in place of the previous one, or append a line. Without a total there is neither a
 * share nor a time left. The caller holds the lock. */
static void draw(uint64_t now_ns)
{
	const double seconds = (double)(now_ns - shown.step_ns) / 1e9;
	const int room = columns();
	double share = shown.total ? (double)shown.done / (double)shown.total : 0;
	char rate[2 * TOOL_TEXT_BYTES], text[TOOL_TEXT_BYTES], left[TOOL_TEXT_BYTES] = "",
							       head[LINE_BYTES], tail[LINE_BYTES],
							       bar[BAR_CELLS + 4] = "";
	char line[2 * LINE_BYTES + sizeof(bar)];
	int used = 0;

	snprintf(head, sizeof(head), "%s: %s%s", shown.by.name, shown.step, phase_text(text));
	share = share < 1 ? share : 1;
	if (shown.total)
		used = snprintf(tail, sizeof(tail), " %3.0f %%", 100 * share);
	used += snprintf(tail + used, sizeof(tail) - (size_t)used, "%s, %s",
	                 rate_text(rate, seconds), whole_text(text, seconds));
	if (share > 0 && seconds >= 1) /* before, the rate is a guess */
		snprintf(tail + used, sizeof(tail) - (size_t)used, ", %s left",
		         whole_text(left, ceil(seconds * (1 - share) / share)));
	if (shown.total)
		bar_text(bar, share, room - (int)(strlen(head) + strlen(tail)));
	/* set before the bar is drawn: a signal in between clears an empty line at worst */
	if (shown.by.terminal) {
		tool_interrupt_bar(1);
		fputs("\r\033[K", stderr);
	}
	snprintf(line, sizeof(line), "%s%s%s", head, bar, tail);
	fprintf(stderr, "%.*s%s", room, line, shown.by.terminal ? "" : "\n");
	fflush(stderr);
	shown.drawn = shown.by.terminal;
	shown.shown_ns = now_ns;
}

/* Draw if a step is long enough and was last shown `wait_ns` ago. The caller holds the lock. */
static void draw_if_due(uint64_t now_ns, uint64_t wait_ns)
{
	if (!shown.by.quiet && shown.step[0] && now_ns - shown.step_ns >= SHOW_AFTER_NS &&
	    now_ns - shown.shown_ns >= wait_ns)
		draw(now_ns);
}

static void *tick(void *ctx)
{
	const struct timespec pause = { .tv_nsec = TICK_NS };

	(void)ctx;
	/* after a signal the line belongs to its message */
	while (!tool_interrupted()) {
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&shown.lock);
		if (!tool_interrupted())
			draw_if_due(tool_now_ns(), TICK_NS);
		pthread_mutex_unlock(&shown.lock);
	}
	return NULL;
}

/* Start the thread, with all signals blocked: handlers run on the threads of the command. Without
 * it, only updates draw. */
static void start_ticking(void)
{
	pthread_t thread;
	sigset_t all, old;

	shown.ticking = 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, NULL, tick, NULL) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Clear the bar. The caller holds the lock, as for the next function. */
static void clear(void)
{
	if (shown.drawn)
		fputs("\r\033[K", stderr);
	shown.drawn = 0;
	tool_interrupt_bar(0);
}

/* Keep the bar as a line, and begin a new one below it. */
static void end_line(void)
{
	if (shown.drawn)
		fputc('\n', stderr);
	shown.drawn = 0;
	tool_interrupt_bar(0);
	fflush(stderr);
}

int tool_progress_update(void *ctx, const char *step, unsigned long long done,
                         unsigned long long total)
{
	const struct tool_progress *progress = ctx;
	uint64_t now_ns;
	int changed;

	pthread_mutex_lock(&shown.lock);
	now_ns = tool_now_ns();
	/* names are compared up to the length that is stored */
	changed = strncmp(shown.step, step, sizeof(shown.step) - 1) != 0;
	/* a new step has its own times, unless the caller shows all steps as one */
	if (changed && (!progress->whole || !shown.step[0])) {
		shown.step_ns = now_ns;
		shown.shown_ns = now_ns;
	}
	if (changed)
		snprintf(shown.step, sizeof(shown.step), "%s", step);
	shown.by = *progress;
	shown.done = done;
	shown.total = total;
	if (tool_asked()) {
		draw(now_ns);
		end_line();
	}
	draw_if_due(now_ns, progress->terminal ? REDRAW_NS : LINE_NS);
	if (progress->terminal && !progress->quiet && !shown.ticking)
		start_ticking();
	pthread_mutex_unlock(&shown.lock);
	return tool_interrupted();
}

void tool_progress_end(struct tool_progress *progress)
{
	(void)progress;
	pthread_mutex_lock(&shown.lock);
	clear();
	shown.step[0] = 0;
	fflush(stderr);
	pthread_mutex_unlock(&shown.lock);
}

void tool_progress_line(struct tool_progress *progress, const char *text)
{
	pthread_mutex_lock(&shown.lock);
	clear();
	fprintf(stderr, "%s: %s\n", progress->name, text);
	fflush(stderr);
	pthread_mutex_unlock(&shown.lock);
}
