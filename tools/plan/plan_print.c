/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as text: the table of budgets, the advice, and the tiers of one budget. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/command.h"
#include "output/table.h"
#include "plan/plan_answer.h"

#define BAR 12

static const char *bar(char text[BAR + 1], double share)
{
	for (int i = 0; i < BAR; i++)
		text[i] = share * BAR >= i + 0.5 ? '#' : '.';
	text[BAR] = 0;
	return text;
}

/* "54 %"; one digit more below 10 %, and never "100 %" for less */
static const char *share_text(char text[TOOL_TEXT_BYTES], double share)
{
	const double percent = 100 * share;

	if (percent > 99.9 && percent < 100)
		return strcpy(text, ">99.9 %");
	snprintf(text, TOOL_TEXT_BYTES,
	         percent < 10 || (percent > 99 && percent < 100) ? "%.1f %%" : "%.0f %%", percent);
	return text;
}

/* ---- the table ---- */

static void headings(struct tool_table *table, int has_compute)
{
	tool_table_cell(table, "host memory");
	tool_table_cell(table, "of all");
	tool_table_cell(table, "rows");
	tool_table_cell(table, "served from memory");
	tool_table_cell(table, "read/epoch");
	tool_table_cell(table, "moving/epoch");
	if (has_compute)
		tool_table_cell(table, "idle");
	tool_table_cell(table, "limit");
	tool_table_cell(table, "%s", "");
}

static void budget_row(struct tool_table *table, const struct plan_answers *answers, uint32_t i)
{
	const struct plan_answer *answer = &answers->answer[i];
	const struct plan_answer_tier *files = &answer->tiers[answer->tier_count - 1];
	const double served = plan_served(answer);
	char text[TOOL_TEXT_BYTES], hashes[BAR + 1];

	tool_table_cell(table, "%s%s", tool_bytes_text(text, (double)answer->host_bytes),
	                answer->host_bytes == answers->given_bytes ? " *" : "");
	tool_table_cell(table, "%.0f %%",
	                100 * (double)answer->host_bytes / (double)answers->whole_bytes);
	tool_table_cell(table, "%s",
	                share_text(text, 1 - (double)files->rows / (double)answer->rows));
	share_text(text, served);
	tool_table_cell(table, "%s %*s", bar(hashes, served), 7, text);
	tool_table_cell(table, "%s", tool_bytes_text(text, answer->read_bytes));
	tool_table_cell(table, "%s",
	                tool_seconds_text(text, answer->seconds * (double)answer->batches));
	if (answers->compute > 0)
		tool_table_cell(table, "%s", share_text(text, plan_idle(answer, answers->compute)));
	tool_table_cell(table, "%s", rung_bound_name(answer->bound));
	tool_table_cell(table, "%s", i == plan_knee(answers) ? "<- knee" : "");
}

/* The time in a sentence. */
static const char *epoch_text(char text[TOOL_TEXT_BYTES], const struct plan_answer *answer)
{
	return tool_seconds_text(text, answer->seconds * (double)answer->batches);
}

/* What a budget is enough for. */
static void print_enough(const struct plan_answers *answers, uint32_t enough)
{
	const struct plan_answer
		*last = &answers->answer[answers->count - 1],
		*answer = &answers->answer[enough == PLAN_NONE ? answers->count - 1 : enough];
	char bytes[TOOL_TEXT_BYTES], batch[TOOL_TEXT_BYTES], all[TOOL_TEXT_BYTES],
		share[TOOL_TEXT_BYTES];

	tool_bytes_text(bytes, (double)answer->host_bytes);
	tool_bytes_text(all, (double)last->host_bytes);
	tool_seconds_text(batch, answer->seconds);
	if (enough == PLAN_NONE) {
		share_text(share, plan_idle(answer, answers->compute));
		tool_wrap(2,
		          "Advice: no budget keeps the trainer busy: with all in memory (%s) it "
		          "still waits %s of the time, for %s.",
		          bytes, share, rung_bound_name(answer->bound));
	} else if (answers->compute > 0) {
		tool_seconds_text(batch, answers->compute);
		tool_wrap(2,
		          "Advice: %s is enough for a model of %s a batch: the trainer waits less "
		          "than %.0f %% of the time.",
		          bytes, batch, 100 * PLAN_IDLE_MAX);
	} else if (answer == last) {
		tool_wrap(2,
		          "Advice: no knee: up to %s each MiB saves about as much as the one "
		          "before. All of it is enough if a batch trains in %s or more.",
		          bytes, batch);
	} else {
		char faster[TOOL_TEXT_BYTES];

		tool_wrap(2,
		          "Advice: %s is enough if a batch trains in %s or more; all of it (%s) "
		          "if it trains in %s or more.",
		          bytes, batch, all, tool_seconds_text(faster, last->seconds));
	}
}

/* What more memory and another drive save, at budget `i`. */
static void print_savings(const struct plan_answers *answers, uint32_t i)
{
	const struct plan_answer *answer = &answers->answer[i];
	char at[TOOL_TEXT_BYTES], now[TOOL_TEXT_BYTES], then[TOOL_TEXT_BYTES],
		size[TOOL_TEXT_BYTES];
	static const double steps[] = { 0x1p30, 100 * 0x1p20, 10 * 0x1p20, 0x1p20, 10240, 1 };
	size_t step = 0;

	tool_bytes_text(at, (double)answer->host_bytes);
	epoch_text(now, answer);
	if (i + 1 < answers->count &&
	    answer[1].seconds < 0.99 * answer->seconds) { /* else the sentence has nothing to say */
		while (steps[step] > (double)(answer[1].host_bytes - answer->host_bytes))
			step++;
		tool_wrap(2, "From %s on, the next %s of memory save %s of %s an epoch.", at,
		          tool_bytes_text(size, steps[step]),
		          tool_seconds_text(then, plan_saved_per_byte(answers, i) * steps[step]),
		          now);
	}
	if (answer->nvme_seconds > 0 && plan_more_drives(answer) < 0.99 * answer->seconds)
		tool_wrap(
			2,
			"Another drive of the same rates, rows striped over %s: %s instead of "
			"%s an epoch at %s.",
			answer->drives > 1 ? "all" : "both",
			tool_seconds_text(then, plan_more_drives(answer) * (double)answer->batches),
			now, at);
}

/* The row of --host has a star, unless the budget is too small for a plan. */
static void print_given(const struct plan_answers *answers)
{
	char text[TOOL_TEXT_BYTES];

	for (uint32_t i = 0; i < answers->count; i++) {
		if (answers->answer[i].host_bytes == answers->given_bytes) {
			printf("* the budget of --host\n");
			return;
		}
	}
	if (answers->given_bytes != RUNG_BYTES_MAX)
		printf("the budget of --host, %s, is too small for buffers and lists\n",
		       tool_bytes_text(text, (double)answers->given_bytes));
}

/* The command that shows one of the budgets in detail. */
static void print_details(uint64_t host_bytes, char *const *argv)
{
	char text[TOOL_TEXT_BYTES];
	const struct command_change changes[] = {
		{ "host", text, 0 }, { "explain", "", 1 }, { "sweep", NULL, 1 }, { "svg", NULL, 0 }
	};
	size_t used = 0;
	char *command;

	tool_bytes_text(text, (double)host_bytes);
	for (size_t i = 0; text[i]; i++) {
		if (text[i] != ' ')
			text[used++] = text[i];
	}
	text[used] = 0;
	command = command_changed(argv, changes, sizeof(changes) / sizeof(changes[0]));
	if (command)
		printf("Details: %s\n", command); /* not wrapped: it can be pasted */
	free(command);
}

void plan_answers_print(const struct plan_answers *answers, char *const *argv)
{
	const int has_compute = answers->compute > 0;
	struct tool_table *table = tool_table_new(has_compute ? "rrrlrrrll" : "rrrlrrll");
	const uint32_t enough = plan_enough(answers);
	const uint32_t shown = enough == PLAN_NONE ? answers->count - 1 : enough;

	headings(table, has_compute);
	for (uint32_t i = 0; i < answers->count; i++)
		budget_row(table, answers, i);
	tool_table_print(table);
	if (answers->given_bytes)
		print_given(answers);
	putchar('\n');
	print_enough(answers, enough);
	/* a knee that does not exist is no place to compare: the middle of the curve is */
	print_savings(answers,
	              shown + 1 == answers->count && answers->count > 1 ? shown / 2 : shown);
	print_details(answers->answer[shown].host_bytes, argv);
}

/* ---- one budget ---- */

void plan_answer_print(const struct plan_answer *answer, double compute)
{
	struct tool_table *table = tool_table_new("lrrl");
	char text[TOOL_TEXT_BYTES], more[TOOL_TEXT_BYTES], hashes[BAR + 1];

	tool_table_cell(table, "tier");
	tool_table_cell(table, "rows");
	tool_table_cell(table, "bytes");
	tool_table_cell(table, "requests");
	for (uint32_t i = 0; i < answer->tier_count; i++) {
		const struct plan_answer_tier *tier = &answer->tiers[i];

		tool_table_cell(table, "%s", tier->name);
		tool_table_cell(table, "%llu", (unsigned long long)tier->rows);
		tool_table_cell(table, "%s", tool_bytes_text(text, (double)tier->bytes));
		tool_table_cell(table, "%s %5.1f %%", bar(hashes, tier->share), 100 * tier->share);
	}
	tool_table_print(table);
	if (answer->cache_share > 0)
		printf("the cold-row cache serves %.1f %% of the requests in place of nvme\n",
		       100 * answer->cache_share);
	printf("\npredicted: %s a batch, ", tool_seconds_text(text, answer->seconds));
	printf("%s an epoch, bound by %s\n", epoch_text(more, answer),
	       rung_bound_name(answer->bound));
	if (compute > 0)
		printf("with a model of %s a batch the trainer waits %s of the time\n",
		       tool_seconds_text(more, compute),
		       share_text(text, plan_idle(answer, compute)));
}
