/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of plans: the ladder of one budget, and the time of an epoch over the budgets. They are
 * narrow, so that text stays readable at 400 pixels. */
#include <math.h>

#include "output/svg.h"
#include "plan/plan_answer.h"

#define WIDTH 480.0
#define LEFT  72.0
#define RIGHT 416.0 /* of bars and plots */

/* ---- the ladder ---- */

#define TIERS_TOP 72.0
#define TIER_STEP 62.0 /* from one tier to the next */
#define TIME_STEP 34.0

/* A bar with its text next to it, or inside if it is long. */
static void bar(FILE *out, double y, double share, const char *color, const char *name,
                const char *text)
{
	const double width = fmax((RIGHT - LEFT) * share, 2);
	const int inside = share > 0.45;

	svg_text_at(out, LEFT - 8, y + 17, "text-anchor=\"end\"", name);
	fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"24\"/>\n",
	        color, LEFT, y, width);
	svg_text_at(out, LEFT + width + (inside ? -8 : 8), y + 17,
	            inside ? "class=\"ground\" text-anchor=\"end\"" : "", text);
}

/* The share of the bytes, thin, below the bar with the share of the requests. */
static void bytes_bar(FILE *out, double y, double share, const char *text)
{
	const double width = fmax((RIGHT - LEFT) * share, 2);

	fprintf(out, "<rect class=\"f7\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"6\"/>\n",
	        LEFT, y, width);
	if (share < 0.45)
		svg_text_at(out, LEFT + width + 8, y + 8, "class=\"small\"", text);
	else
		svg_text_at(out, LEFT + width, y + 19, "class=\"small\" text-anchor=\"end\"", text);
}

static void write_tiers(const struct plan_answer *answer, FILE *out)
{
	double all = 0;

	for (uint32_t i = 0; i < answer->tier_count; i++)
		all += (double)answer->tiers[i].bytes;
	for (uint32_t i = 0; i < answer->tier_count; i++) {
		const struct plan_answer_tier *tier = &answer->tiers[i];
		const double y = TIERS_TOP + TIER_STEP * i,
			     share = all > 0 ? (double)tier->bytes / all : 0;
		char bytes[TOOL_TEXT_BYTES], text[100], color[16];

		snprintf(text, sizeof(text), "%.1f %% of requests", 100 * tier->share);
		snprintf(color, sizeof(color), "f%u", i);
		bar(out, y, tier->share, color, tier->name, text);
		snprintf(text, sizeof(text), "%s, %.1f %% of the rows",
		         tool_bytes_text(bytes, (double)tier->bytes), 100 * share);
		bytes_bar(out, y + 27, share, text);
	}
}

struct time_bar {
	const char *name, *about, *color;
	double seconds;
};

/* The times of a batch, which overlap: the longest one is that of the batch. @return the number */
static unsigned times_of(const struct plan_answer *answer, double compute, struct time_bar bars[4])
{
	const struct time_bar all[] = {
		{ "memory", "copying rows", "f0", answer->memory_seconds },
		{ "GPU", "reading rows", "f2", answer->gpu_seconds },
		{ "drive", "reading rows and lists", "f1", answer->nvme_seconds },
		{ "model", "training", "f3", compute },
	};
	unsigned count = 0;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].seconds > 0)
			bars[count++] = all[i];
	}
	return count;
}

void plan_answer_svg(const struct plan_answer *answer, double compute, const char *name, FILE *out)
{
	const double most = fmax(answer->seconds, compute),
		     top = TIERS_TOP + TIER_STEP * answer->tier_count + 30;
	struct time_bar bars[4];
	const unsigned count = times_of(answer, compute, bars);
	char text[200], bytes[TOOL_TEXT_BYTES];

	svg_begin(out, WIDTH, top + TIME_STEP * count + 10,
	          "Tiers of a plan and the times of a batch");
	svg_text_at(out, 12, 28, "class=\"title\"", "Which tier serves the requests");
	if (answer->host_bytes == RUNG_BYTES_MAX)
		snprintf(text, sizeof(text), "%.60s: all rows in memory", name);
	else
		snprintf(text, sizeof(text), "%.60s: %s of host memory", name,
		         tool_bytes_text(bytes, (double)answer->host_bytes));
	svg_text_at(out, 12, 52, "", text);
	write_tiers(answer, out);
	snprintf(text, sizeof(text), "A batch moves its rows in %s",
	         tool_seconds_text(bytes, answer->seconds));
	svg_text_at(out, 12, top - 12, "class=\"label\"", text);
	for (unsigned i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%s: %s", bars[i].about,
		         tool_seconds_text(bytes, bars[i].seconds));
		bar(out, top + TIME_STEP * i, most > 0 ? bars[i].seconds / most : 0, bars[i].color,
		    bars[i].name, text);
	}
	svg_end(out);
}

/* ---- the curve ---- */

#define TOP    96.0
#define BOTTOM 300.0

struct frame {
	double x_max, y_max;
};

static double at_x(const struct frame *frame, double bytes)
{
	return LEFT + (RIGHT - LEFT) * bytes / frame->x_max;
}

static double at_y(const struct frame *frame, double seconds)
{
	return BOTTOM - (BOTTOM - TOP) * seconds / frame->y_max;
}

static double epoch(const struct plan_answer *answer)
{
	return answer->seconds * (double)answer->batches;
}

static void write_axes(const struct frame *frame, FILE *out)
{
	for (int i = 0; i <= 4; i++) {
		const double x = LEFT + (RIGHT - LEFT) * i / 4, y = BOTTOM - (BOTTOM - TOP) * i / 4;
		char text[TOOL_TEXT_BYTES];

		fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", LEFT, y, RIGHT);
		svg_text_at(out, LEFT - 6, y + 4, "class=\"small f0\" text-anchor=\"end\"",
		            tool_seconds_text(text, frame->y_max * i / 4));
		snprintf(text, sizeof(text), "%d %%", 25 * i);
		svg_text_at(out, RIGHT + 6, y + 4, "class=\"small f2\"", text);
		svg_text_at(out, x, BOTTOM + 18, "class=\"small\" text-anchor=\"middle\"",
		            i ? tool_bytes_text(text, frame->x_max * i / 4) : "0");
	}
	fprintf(out, "<path class=\"rule\" d=\"M%.1f %.1fV%.1fH%.1fV%.1f\"/>\n", LEFT, TOP, BOTTOM,
	        RIGHT, TOP);
	svg_text_at(out, (LEFT + RIGHT) / 2, BOTTOM + 38, "text-anchor=\"middle\"", "host memory");
}

static void write_line(const struct frame *frame, const struct plan_answers *answers, int served,
                       FILE *out)
{
	const char *color = served ? "2" : "0";

	fprintf(out, "<path fill=\"none\" class=\"s%s\" stroke-width=\"2\"%s d=\"", color,
	        served ? " stroke-dasharray=\"6 4\"" : "");
	for (uint32_t i = 0; i < answers->count; i++) {
		const struct plan_answer *answer = &answers->answer[i];

		fprintf(out, "%c%.1f %.1f", i ? 'L' : 'M', at_x(frame, (double)answer->host_bytes),
		        at_y(frame, served ? plan_served(answer) * frame->y_max : epoch(answer)));
	}
	fputs("\"/>\n", out);
	for (uint32_t i = 0; i < answers->count && !served; i++)
		fprintf(out, "<circle class=\"f0\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
		        at_x(frame, (double)answers->answer[i].host_bytes),
		        at_y(frame, epoch(&answers->answer[i])));
}

static void write_knee(const struct frame *frame, const struct plan_answers *answers, FILE *out)
{
	const uint32_t knee = plan_knee(answers);
	const struct plan_answer *answer = &answers->answer[knee];
	char bytes[TOOL_TEXT_BYTES], text[64];
	double x, y;

	if (knee == PLAN_NONE)
		return;
	x = at_x(frame, (double)answer->host_bytes);
	y = at_y(frame, epoch(answer));
	snprintf(text, sizeof(text), "knee: %s",
	         tool_bytes_text(bytes, (double)answer->host_bytes));
	fprintf(out, "<path class=\"s1\" stroke-dasharray=\"3 3\" d=\"M%.1f %.1fV%.1f\"/>\n", x,
	        TOP - 6, BOTTOM);
	fprintf(out,
	        "<circle fill=\"none\" class=\"s1\" stroke-width=\"2\" cx=\"%.1f\" cy=\"%.1f\" "
	        "r=\"8\"/>\n",
	        x, y);
	svg_text_at(out, x, TOP - 8,
	            x < (LEFT + RIGHT) / 2 ? "class=\"label f1\""
	                                   : "class=\"label f1\" text-anchor=\"end\"",
	            text);
}

void plan_answers_svg(const struct plan_answers *answers, const char *name, FILE *out)
{
	struct frame frame = { .x_max = (double)answers->answer[answers->count - 1].host_bytes };
	const double model = answers->compute * (double)answers->answer[0].batches;
	char text[200];

	frame.y_max = model;
	for (uint32_t i = 0; i < answers->count; i++)
		frame.y_max = fmax(frame.y_max, epoch(&answers->answer[i]));
	svg_begin(out, WIDTH, BOTTOM + 52, "Time of an epoch over the memory budget");
	svg_text_at(out, 12, 28, "class=\"title\"", "How much memory?");
	snprintf(text, sizeof(text), "%.60s", name);
	svg_text_at(out, 12, 48, "", text);
	svg_text_at(out, 12, 68, "class=\"f0\"", "moving rows, time an epoch");
	svg_text_at(out, WIDTH - 12, 68, "class=\"f2\" text-anchor=\"end\"", "served from memory");
	write_axes(&frame, out);
	write_line(&frame, answers, 1, out);
	write_line(&frame, answers, 0, out);
	if (model > 0) {
		fprintf(out, "<path class=\"s3\" stroke-width=\"2\" d=\"M%.1f %.1fH%.1f\"/>\n",
		        LEFT, at_y(&frame, model), RIGHT);
		svg_text_at(out, RIGHT - 4, at_y(&frame, model) - 6,
		            "class=\"f3\" text-anchor=\"end\"", "training");
	}
	write_knee(&frame, answers, out);
	svg_end(out);
}
