/* SPDX-License-Identifier: Apache-2.0 */
/* What a host budget gives: its knee, what is enough, and what more memory or another drive save.
 */
#include <math.h>
#include <stdlib.h>

#include "output/json.h"
#include "plan/plan_answer.h"

double plan_served(const struct plan_answer *answer)
{
	return fmin(1 - answer->tiers[answer->tier_count - 1].share + answer->cache_share, 1);
}

double plan_idle(const struct plan_answer *answer, double compute)
{
	return answer->seconds > compute ? 1 - compute / answer->seconds : 0;
}

double plan_more_drives(const struct plan_answer *answer)
{
	const double rows = answer->nvme_seconds - answer->list_nvme_seconds;
	const double nvme =
		rows * answer->drives / (answer->drives + 1.0) + answer->list_nvme_seconds;

	return fmax(nvme, fmax(answer->memory_seconds, answer->gpu_seconds));
}

uint32_t plan_knee(const struct plan_answers *answers)
{
	const struct plan_answer *first = &answers->answer[0],
				 *last = &answers->answer[answers->count - 1];
	const double width = (double)last->host_bytes - (double)first->host_bytes,
		     height = first->seconds - last->seconds;
	double most = PLAN_KNEE_MIN;
	uint32_t knee = PLAN_NONE;

	for (uint32_t i = 1; i + 1 < answers->count && height > 0; i++) {
		const struct plan_answer *answer = &answers->answer[i];
		const double x = ((double)answer->host_bytes - (double)first->host_bytes) / width,
			     y = (answer->seconds - last->seconds) / height;

		if (1 - x - y >= most) {
			most = 1 - x - y;
			knee = i;
		}
	}
	return knee;
}

uint32_t plan_enough(const struct plan_answers *answers)
{
	const uint32_t knee = plan_knee(answers);

	if (answers->compute == 0)
		return knee == PLAN_NONE ? answers->count - 1 : knee;
	for (uint32_t i = 0; i < answers->count; i++) {
		if (plan_idle(&answers->answer[i], answers->compute) < PLAN_IDLE_MAX)
			return i;
	}
	return PLAN_NONE;
}

double plan_saved_per_byte(const struct plan_answers *answers, uint32_t i)
{
	const struct plan_answer *answer = &answers->answer[i];

	if (i + 1 >= answers->count)
		return 0;
	return fmax(answer->seconds - answer[1].seconds, 0) * (double)answer->batches /
	       (double)(answer[1].host_bytes - answer->host_bytes);
}

/* A size with three digits, so that --host accepts the printed number and gives the same plan.
 * @param up  nonzero: not below `bytes` */
static uint64_t round_bytes(uint64_t bytes, int up)
{
	double unit = 1, step;

	while ((double)bytes >= 1000 * unit)
		unit *= 1024;
	step = (double)bytes >= 100 * unit ? 1 : (double)bytes >= 10 * unit ? 0.1 : 0.01;
	step = unit > 1 ? step : 1;
	return (uint64_t)(floor((double)bytes / unit / step + (up ? 1 : 0)) * step * unit);
}

static int compare_u64(const void *one, const void *two)
{
	const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;

	return (a > b) - (a < b);
}

uint32_t plan_budgets(const struct plan_answers *answers, uint64_t budgets[PLAN_BUDGETS_MAX])
{
	static const double shares[] = { 0.05, 0.1, 0.25, 0.5, 0.75 };
	const double whole = (double)answers->whole_bytes;
	uint32_t count = 0, kept = 0;

	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		budgets[count++] = round_bytes((uint64_t)(whole * shares[i]), 0);
	budgets[count++] = round_bytes(answers->whole_bytes, 1);
	if (answers->given_bytes && answers->given_bytes < RUNG_BYTES_NONE)
		budgets[count++] = answers->given_bytes;
	qsort(budgets, count, sizeof(*budgets), compare_u64);
	for (uint32_t i = 0; i < count; i++) {
		if (budgets[i] > 0 && (kept == 0 || budgets[kept - 1] != budgets[i]))
			budgets[kept++] = budgets[i];
	}
	return kept;
}

/* ---- JSON ---- */

void plan_answer_json(const struct plan_answer *answer, double compute, json_t *root)
{
	const double batches = (double)answer->batches;

	tool_json_set(root, "served_share", tool_json_real(plan_served(answer)));
	tool_json_set(root, "drive_bytes_per_epoch", tool_json_real(answer->read_bytes));
	tool_json_set(root, "seconds_per_epoch_with_another_drive",
	              tool_json_real(plan_more_drives(answer) * batches));
	tool_json_set(root, "compute_seconds", compute > 0 ? tool_json_real(compute) : json_null());
	tool_json_set(root, "idle_share",
	              compute > 0 ? tool_json_real(plan_idle(answer, compute)) : json_null());
}

static json_t *advice_json(const struct plan_answers *answers)
{
	const uint32_t enough = plan_enough(answers);
	const struct plan_answer *answer;
	json_t *root;

	if (enough == PLAN_NONE)
		return json_null();
	answer = &answers->answer[enough];
	root = json_object();
	tool_json_set(root, "host_bytes", tool_json_u64(answer->host_bytes));
	tool_json_set(root, "seconds_per_batch", tool_json_real(answer->seconds));
	tool_json_set(root, "seconds_per_epoch_saved_per_mib",
	              tool_json_real(plan_saved_per_byte(answers, enough) * 0x1p20));
	return root;
}

json_t *plan_answers_json(const struct plan_answers *answers, json_t *budgets)
{
	const uint32_t knee = plan_knee(answers);
	json_t *root = json_object();

	tool_json_set(root, "whole_bytes", tool_json_u64(answers->whole_bytes));
	tool_json_set(root, "knee_host_bytes",
	              knee == PLAN_NONE ? json_null()
	                                : tool_json_u64(answers->answer[knee].host_bytes));
	tool_json_set(root, "advice", advice_json(answers));
	tool_json_set(root, "budgets", budgets);
	return root;
}
