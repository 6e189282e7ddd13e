/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take the next item each until there is none. The caller's waits, tells the progress and cancels. */
#include <stdatomic.h>
#include <string.h>

#include "base/thread.h"
#include "verify/verify_pump.h"

#define LOOK_NS UINT64_C(50000000) /* between two calls of progress */

struct pump_run {
	const struct rung__pump *pump;
	_Atomic uint64_t next, done;
	_Atomic bool stop;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t ended;
	unsigned at_work;
	int rc;
	char text[RUNG__ERROR_BYTES]; /* the last error belongs to a thread: carried to the caller's */
};

static void keep_failure(struct pump_run *run, int rc)
{
	pthread_mutex_lock(&run->lock);
	if (run->rc == 0) {
		run->rc = rc;
		memcpy(run->text, rung_last_error(), strlen(rung_last_error()) + 1);
	}
	pthread_mutex_unlock(&run->lock);
	run->stop = true;
}

static void *work(void *ctx)
{
	struct pump_run *run = ctx;
	const struct rung__pump *pump = run->pump;
	unsigned char *room = rung__malloc_aligned(RUNG__PAGE_BYTES, (size_t)pump->room_bytes);

	if (!room)
		keep_failure(run, rung__fail(RUNG_E_NOMEM, "%s: %" PRIu64 " bytes to read into", pump->stage, pump->room_bytes));
	while (!run->stop) {
		uint64_t item = run->next++;
		int rc = item < pump->item_count ? pump->work(pump->ctx, item, room) : 1;

		if (rc == 1)
			break;
		if (rc < 0)
			keep_failure(run, rc);
		run->done++;
	}
	rung__free(room);
	pthread_mutex_lock(&run->lock);
	run->at_work--;
	pthread_cond_signal(&run->ended);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

static unsigned thread_count(const struct rung__pump *pump)
{
	uint64_t count = RUNG__MAX((uint64_t)pump->threads, RUNG__PUMP_THREADS_MIN);

	count = RUNG__MIN(count, RUNG__PUMP_THREADS_MAX);
	if (pump->memory_bytes)
		count = RUNG__MIN(count, RUNG__MAX(pump->memory_bytes / pump->room_bytes, 1u));
	return (unsigned)RUNG__MIN(count, pump->item_count);
}

static void tell(struct pump_run *run)
{
	const struct rung__pump *pump = run->pump;

	if (!pump->progress || run->stop)
		return;
	if (pump->progress(pump->progress_ctx, pump->stage, run->done, pump->item_count))
		keep_failure(run, rung__fail(RUNG_E_CANCELED, "%s: canceled", pump->stage));
}

static void wait_for_all(struct pump_run *run)
{
	pthread_mutex_lock(&run->lock);
	while (run->at_work > 0) {
		struct timespec until = rung__deadline(LOOK_NS);

		pthread_cond_timedwait(&run->ended, &run->lock, &until);
		pthread_mutex_unlock(&run->lock);
		tell(run);
		pthread_mutex_lock(&run->lock);
	}
	pthread_mutex_unlock(&run->lock);
}

int rung__pump_run(const struct rung__pump *pump)
{
	struct pump_run run = { .pump = pump };
	const unsigned wanted = thread_count(pump);
	pthread_t threads[RUNG__PUMP_THREADS_MAX];
	unsigned started = 0;
	int err = 0;

	pthread_mutex_init(&run.lock, NULL);
	rung__cond_init(&run.ended);
	run.at_work = wanted;
	while (started < wanted && (err = rung__thread_start(&threads[started], work, &run)) == 0)
		started++;
	pthread_mutex_lock(&run.lock);
	run.at_work -= wanted - started;
	pthread_mutex_unlock(&run.lock);
	wait_for_all(&run);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	tell(&run);
	pthread_cond_destroy(&run.ended);
	pthread_mutex_destroy(&run.lock);
	if (started == 0 && wanted > 0)
		return rung__fail_errno(err, "%s: starting a thread", pump->stage);
	return run.rc < 0 ? rung__fail_text(run.rc, run.text) : 0;
}

int rung__span_read(const struct rung__direct *file, uint64_t offset, uint64_t bytes, unsigned char *room,
		    const unsigned char **at_out)
{
	const uint64_t begin = rung__align_down(offset, RUNG__PAGE_BYTES);
	int rc = bytes > 0 ? rung__direct_read(file, room, offset - begin + bytes, begin) : 0;

	*at_out = room + (offset - begin);
	return rc;
}
