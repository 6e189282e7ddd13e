/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the long calls of a thread early: work is counted, and the caller's function is called at
 * fixed amounts of it, so that the work after a request to end is bounded and testable. */
#include "base/base.h"

struct watch {
	rung_progress_fn canceled; /* NULL: calls of this thread are not watched */
	void *ctx;
	uint64_t done, next; /* bytes of work so far; the function is called when they reach next */
};

static _Thread_local struct watch watch;

void rung_interrupt_set(rung_progress_fn canceled, void *ctx)
{
	watch = (struct watch){ .canceled = canceled, .ctx = ctx, .next = RUNG__WORK_BYTES };
}

bool rung__interruptible(void)
{
	return watch.canceled != NULL;
}

int rung__interrupt_poll(const char *step)
{
	watch.next = watch.done + RUNG__WORK_BYTES;
	if (!watch.canceled || watch.canceled(watch.ctx, step, watch.done, 0) == 0)
		return 0;
	return rung__fail(RUNG_E_CANCELED, "%s: canceled", step);
}

int rung__worked(const char *step, uint64_t bytes)
{
	watch.done += bytes;
	return watch.done < watch.next || !watch.canceled ? 0 : rung__interrupt_poll(step);
}

int rung__ids_stray(const char *step, const void *ids, unsigned id_bytes, uint64_t count,
                    uint64_t limit, uint64_t *at_out)
{
	uint64_t found = count;
	int rc = 0;

	for (uint64_t at = 0, end; at < found && rc == 0; at = end) {
		end = RUNG__MIN(at + RUNG__WORK_BYTES / id_bytes, count);
#pragma omp parallel for num_threads(rung__threads(0)) reduction(min : found) schedule(static)
		for (uint64_t i = at; i < end; i++) {
			if (rung__id_get(ids, id_bytes, i) >= limit && i < found)
				found = i;
		}
		if (found == count)
			rc = rung__worked(step, (end - at) * id_bytes);
	}
	*at_out = found;
	return rc;
}
