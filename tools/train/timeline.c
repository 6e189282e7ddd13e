/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of training: which batch was in which step when, as a trace for Perfetto and
 * chrome://tracing, and as a picture of a few batches. Steps of several batches overlap, so a lane
 * has as many rows as it has steps at the same time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output/svg.h"
#include "train.h"

enum lane { SAMPLE, ANNOUNCE, COPY, READ, COMPUTE, WAIT, LANES };

static const char *const lane_names[LANES] = { "sample", "announce", "copy",
	                                       "read",   "compute",  "wait" };

#define ROWS_MAX 16u /* of a lane: more than there are threads that sample, or gathers */

struct span {
	uint64_t begin_ns, end_ns; /* 0, 0: the step was left out */
};

/* Ends of the last steps in each row of a lane. */
struct rows {
	uint64_t end_ns[ROWS_MAX];
	uint32_t count;
};

int train_timeline_init(struct train_timeline *timeline)
{
	timeline->marks = calloc(TRAIN_MARKS_MAX, sizeof(*timeline->marks));
	return timeline->marks ? 0 : RUNG_E_NOMEM;
}

void train_timeline_add(struct train_timeline *timeline, const struct train_mark *mark)
{
	if (timeline->marks)
		timeline->marks[timeline->count++ % TRAIN_MARKS_MAX] = *mark;
}

static uint64_t first_kept(const struct train_timeline *timeline)
{
	return timeline->count > TRAIN_MARKS_MAX ? timeline->count - TRAIN_MARKS_MAX : 0;
}

static const struct train_mark *mark_at(const struct train_timeline *timeline, uint64_t i)
{
	return &timeline->marks[i % TRAIN_MARKS_MAX];
}

/* The feeder queues a read when it has copied the rows in memory. Rows that were complete by then
 * needed no read. */
static struct span span_of(const struct train_mark *mark, enum lane lane)
{
	const struct rung_loader_times *load = &mark->load;

	switch (lane) {
	case SAMPLE:
		return (struct span){ load->sample_begin_ns, load->sample_end_ns };
	case ANNOUNCE:
		return (struct span){ load->announce_begin_ns, load->announce_end_ns };
	case COPY:
		return (struct span){ load->gather_begin_ns, load->gather_end_ns };
	case READ:
		if (load->rows_ns <= load->gather_end_ns)
			return (struct span){ 0 };
		return (struct span){ load->gather_end_ns, load->rows_ns };
	case COMPUTE:
		return (struct span){ mark->begin_ns, mark->end_ns };
	case WAIT:
	default:
		return (struct span){ mark->wait_ns, mark->begin_ns };
	}
}

/* The first row that is free when a step begins; the last one if there are too many. */
static uint32_t place(struct rows *rows, struct span span)
{
	uint32_t row = 0;

	while (row < rows->count && rows->end_ns[row] > span.begin_ns && row + 1 < ROWS_MAX)
		row++;
	if (row == rows->count)
		rows->count++;
	rows->end_ns[row] = span.end_ns;
	return row;
}

/* ---- trace ---- */

/* A wait is in the row of the computation: the same thread does both. */
static unsigned thread_of(enum lane lane, uint32_t row)
{
	return (unsigned)(lane == WAIT ? COMPUTE : lane) * ROWS_MAX + row + 1;
}

static double us(uint64_t ns, uint64_t zero_ns)
{
	return (double)(ns - zero_ns) / 1e3;
}

static void write_event(FILE *out, unsigned thread, const char *category, const char *name,
                        const struct train_mark *mark, struct span span, uint64_t zero_ns)
{
	fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"cat\":\"%s\",\"name\":\"%s\",",
	        (int)getpid(), thread, category, name);
	fprintf(out,
	        "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"epoch\":%u,\"batch\":%llu,\"rows\":%llu}}",
	        us(span.begin_ns, zero_ns), us(span.end_ns, span.begin_ns), mark->epoch,
	        (unsigned long long)mark->batch, (unsigned long long)mark->rows);
}

static void write_thread(FILE *out, enum lane lane, uint32_t row, int numbered)
{
	const unsigned thread = thread_of(lane, row);
	char number[16] = "";

	if (numbered)
		snprintf(number, sizeof(number), " %u", row + 1);
	fprintf(out,
	        ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"name\":\"thread_name\","
	        "\"args\":{\"name\":\"%s%s\"}}",
	        (int)getpid(), thread, lane_names[lane], number);
	fprintf(out,
	        ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"name\":\"thread_sort_index\","
	        "\"args\":{\"sort_index\":%u}}",
	        (int)getpid(), thread, thread);
}

/* The parts of a computation, inside of it; --consumer has none. */
static void write_parts(FILE *out, const struct train_mark *mark, uint64_t zero_ns)
{
	const unsigned thread = thread_of(COMPUTE, 0);

	if (!mark->update_ns)
		return;
	write_event(out, thread, "compute", "forward", mark,
	            (struct span){ mark->begin_ns, mark->backward_ns }, zero_ns);
	write_event(out, thread, "compute", "backward", mark,
	            (struct span){ mark->backward_ns, mark->update_ns }, zero_ns);
	write_event(out, thread, "compute", "update", mark,
	            (struct span){ mark->update_ns, mark->end_ns }, zero_ns);
}

void train_timeline_json(const struct train_timeline *timeline, FILE *out)
{
	struct rows rows[LANES] = { 0 };
	uint64_t zero_ns = UINT64_MAX;
	char name[32];

	for (uint64_t i = first_kept(timeline); i < timeline->count; i++) {
		const struct train_mark *mark = mark_at(timeline, i);

		zero_ns =
			mark->load.sample_begin_ns < zero_ns ? mark->load.sample_begin_ns : zero_ns;
		zero_ns = mark->wait_ns < zero_ns ? mark->wait_ns : zero_ns;
	}
	fprintf(out,
	        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	        "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\","
	        "\"args\":{\"name\":\"rung train\"}}",
	        (int)getpid());
	for (uint64_t i = first_kept(timeline); i < timeline->count; i++) {
		const struct train_mark *mark = mark_at(timeline, i);

		snprintf(name, sizeof(name), "batch %llu", (unsigned long long)mark->batch);
		for (int l = 0; l < LANES; l++) {
			const enum lane lane = (enum lane)l;
			const struct span span = span_of(mark, lane);

			if (span.end_ns > span.begin_ns)
				write_event(out, thread_of(lane, place(&rows[lane], span)),
				            lane_names[lane], lane == WAIT ? "wait" : name, mark,
				            span, zero_ns);
		}
		write_parts(out, mark, zero_ns);
	}
	for (int l = 0; l < WAIT; l++) {
		for (uint32_t row = 0; row < rows[l].count; row++)
			write_thread(out, (enum lane)l, row, rows[l].count > 1);
	}
	fputs("\n]}\n", out);
}

/* ---- picture ---- */

/* In user units, which viewers show as pixels. */
#define WIDTH      760.0
#define LEFT       100.0
#define TOP        78.0
#define PLOT_WIDTH 644.0
#define ROW_STEP   26.0 /* rows of a lane */
#define ROW_HEIGHT 22.0
#define LANE_GAP   12.0
#define SHOWN      5u /* batches that are computed in the window */

struct picture {
	const struct train_timeline *timeline;
	uint64_t first, end;       /* marks of the epoch */
	uint64_t begin_ns, end_ns; /* the window */
	const struct train_mark *from, *to;
	struct rows rows[LANES]; /* count: rows that the window needs */
	double top[LANES], bottom;
};

static double place_x(const struct picture *picture, uint64_t ns)
{
	const uint64_t begin_ns = picture->begin_ns, end_ns = picture->end_ns;

	ns = ns < begin_ns ? begin_ns : ns > end_ns ? end_ns : ns;
	return LEFT + PLOT_WIDTH * (double)(ns - begin_ns) / (double)(end_ns - begin_ns);
}

/* The middle of the last epoch: at its begin the pipeline is empty, and at its end nothing is left
 * to sample. */
static void choose_window(struct picture *picture)
{
	const struct train_timeline *timeline = picture->timeline;
	const uint32_t epoch = mark_at(timeline, timeline->count - 1)->epoch;
	uint64_t shown;

	picture->first = picture->end = timeline->count;
	while (picture->first > first_kept(timeline) &&
	       mark_at(timeline, picture->first - 1)->epoch == epoch)
		picture->first--;
	shown = picture->end - picture->first;
	shown = shown < SHOWN ? shown : SHOWN;
	const uint64_t from = picture->first + (picture->end - picture->first - shown) / 2;
	picture->from = mark_at(timeline, from);
	picture->to = mark_at(timeline, from + shown - 1);
	picture->begin_ns = picture->from->wait_ns;
	picture->end_ns = picture->to->end_ns;
	if (picture->end_ns <= picture->begin_ns) /* a clock without that resolution */
		picture->end_ns = picture->begin_ns + 1;
}

static int is_shown(const struct picture *picture, struct span span)
{
	return span.end_ns > span.begin_ns && span.end_ns > picture->begin_ns &&
	       span.begin_ns < picture->end_ns;
}

/* A step with the number of its batch, if that fits. */
static void draw_step(FILE *out, const struct picture *picture, enum lane lane, struct span span,
                      double y, uint64_t batch)
{
	const double x = place_x(picture, span.begin_ns);
	double width = place_x(picture, span.end_ns) - x;
	char text[32];

	width = width < 1.5 ? 1.5 : width;
	fprintf(out, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
	        lane == WAIT ? 7 : lane, x, y, width > 4 ? width - 1 : width, ROW_HEIGHT);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)batch);
	if (lane == WAIT)
		snprintf(text, sizeof(text), "wait");
	if (width > 8.0 * (double)strlen(text) + 6)
		svg_text_at(out, x + width / 2, y + ROW_HEIGHT / 2 + 4.5,
		            "class=\"ground\" text-anchor=\"middle\"", text);
}

/* All steps of a lane that are in the window; without a file only their rows are counted. */
static void draw_lane(struct picture *picture, enum lane lane, FILE *out)
{
	struct rows *rows = &picture->rows[lane];

	*rows = (struct rows){ 0 };
	for (uint64_t i = picture->first; i < picture->end; i++) {
		const struct train_mark *mark = mark_at(picture->timeline, i);
		const struct span span = span_of(mark, lane);

		if (!is_shown(picture, span))
			continue;
		const uint32_t row = place(rows, span);
		if (out)
			draw_step(out, picture, lane, span, picture->top[lane] + ROW_STEP * row,
			          mark->batch);
	}
}

static void set_heights(struct picture *picture)
{
	double y = TOP;

	for (int l = 0; l < WAIT; l++) {
		draw_lane(picture, (enum lane)l, NULL);
		picture->top[l] = y;
		y += ROW_STEP * (picture->rows[l].count ? picture->rows[l].count : 1) + LANE_GAP;
	}
	picture->top[WAIT] = picture->top[COMPUTE];
	picture->bottom = y;
}

/* Ticks of the time axis: 4 to 10, at 1, 2 or 5 times a power of ten. */
static void draw_axis(const struct picture *picture, FILE *out)
{
	const double ms = (double)(picture->end_ns - picture->begin_ns) / 1e6;
	double step = 1e-6;
	char text[32];

	for (int i = 0; step * 10 < ms; i++)
		step *= i % 3 == 1 ? 2.5 : 2;
	for (int i = 0; step * i <= ms; i++) {
		const double x = LEFT + PLOT_WIDTH * step * i / ms;

		fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, TOP - 6,
		        picture->bottom);
		snprintf(text, sizeof(text), "%g%s", step * i, i ? "" : " ms");
		svg_text_at(out, x, picture->bottom + 18, "class=\"muted\" text-anchor=\"middle\"",
		            text);
	}
}

static void draw_titles(const struct picture *picture, const char *dir, FILE *out)
{
	const struct train_mark *from = picture->from, *to = picture->to;
	uint64_t wait_ns = 0;
	char text[512];

	for (uint64_t i = picture->first; i < picture->end; i++) {
		const struct train_mark *mark = mark_at(picture->timeline, i);

		if (mark->batch >= from->batch && mark->batch <= to->batch)
			wait_ns += mark->begin_ns - mark->wait_ns;
	}
	snprintf(text, sizeof(text), "Batches %llu to %llu of epoch %u: %.380s",
	         (unsigned long long)from->batch, (unsigned long long)to->batch, from->epoch, dir);
	svg_text_at(out, 16, 28, "class=\"title\"", text);
	snprintf(text, sizeof(text),
	         "a number is a batch; grey: the model waits, %.0f %% of this time",
	         100 * (double)wait_ns / (double)(picture->end_ns - picture->begin_ns));
	svg_text_at(out, 16, 52, "class=\"muted\"", text);
}

void train_timeline_svg(const struct train_timeline *timeline, const char *dir, FILE *out)
{
	struct picture picture = { .timeline = timeline };

	choose_window(&picture);
	set_heights(&picture);
	svg_begin(out, WIDTH, picture.bottom + 34, "Timeline of batches in training");
	draw_titles(&picture, dir, out);
	draw_axis(&picture, out);
	for (int l = 0; l < LANES; l++) {
		const double y = picture.top[l] + ROW_HEIGHT / 2 + 4.5;

		if (l != WAIT)
			svg_text_at(out, 16, y, "class=\"label\"", lane_names[l]);
		draw_lane(&picture, (enum lane)l, out);
		if (l != WAIT && !picture.rows[l].count)
			svg_text_at(out, LEFT + 6, y, "class=\"muted\"",
			            l == READ ? "none: all rows were in memory"
			                      : "none in this time");
	}
	svg_end(out);
}
