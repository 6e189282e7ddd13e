/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that prints status lines. It sleeps until the next line is due, a signal, or the
 * end. */
#include "output/status.h"

#include "output/rates.h"

/* Print what the store did since *last, which is updated. */
static void print_line(const struct tool_status *status, struct rung_store_stats *last,
                       uint64_t *last_ns)
{
	struct rung_store_stats now = { .size = sizeof(now) };
	const uint64_t now_ns = tool_now_ns();
	struct tool_rates rates;
	char text[TOOL_RATES_BYTES];

	if (rung_store_stats(status->store, &now) < 0 || now_ns == *last_ns)
		return;
	tool_rates_of(last, &now, (double)(now_ns - *last_ns) / 1e9, &rates);
	tool_progress_line(status->progress, tool_rates_line(text, &rates));
	*last = now;
	*last_ns = now_ns;
}

static void *run(void *ctx)
{
	struct tool_status *status = ctx;
	const uint64_t step_ns = (uint64_t)(status->seconds * 1e9);
	struct rung_store_stats last = { .size = sizeof(last) };
	uint64_t last_ns = tool_now_ns(), due_ns = step_ns ? last_ns + step_ns : UINT64_MAX;

	rung_store_stats(status->store, &last);
	while (!atomic_load(&status->stop)) {
		const int asked = tool_ask_await(due_ns);

		if (atomic_load(&status->stop))
			break;
		if (!asked)
			/* a line that is late is not followed by a burst of them */
			due_ns = tool_now_ns() + step_ns;
		print_line(status, &last, &last_ns);
	}
	return NULL;
}

void tool_status_start(struct tool_status *status, struct tool_progress *progress,
                       const struct rung_store *store, double seconds)
{
	*status = (struct tool_status){ .progress = progress, .seconds = seconds, .store = store };
	tool_ask_watch(1);
	if (pthread_create(&status->thread, NULL, run, status) == 0)
		return;
	tool_ask_watch(0);
	status->store = NULL;
}

void tool_status_stop(struct tool_status *status)
{
	if (!status->store)
		return;
	atomic_store(&status->stop, 1);
	tool_ask_watch(0);
	pthread_join(status->thread, NULL);
	status->store = NULL;
}
