/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed regions of the meter. The stream is blocked, an event, many passes and another event are
 * queued on it, and it is released: the GPU then runs them without gaps, so the time between the
 * events contains no cost of queueing (src/device/meter.h).
 *
 * A watchdog thread releases a stream that stays blocked for too long, because the thread that
 * queues may itself wait for the stream.
 */
#include <string.h>

#include "base/thread.h"
#include "host/gpu_meter.h"

/* passes queued on a blocked stream: after a few hundred operations, queueing itself waits */
#define ROUND_PASSES 64u
#define HOLD_NS      5000000000ull /* the watchdog releases a stream after this time */

/* ---- blocking a stream ---- */

/* Lets the blocked stream continue. A second call for the same turn has no effect. */
static void release_stream(struct rung__meter *meter)
{
	__atomic_store_n(&meter->page->word, meter->turn, __ATOMIC_RELEASE);
}

/*
 * The watchdog thread. A CUDA call may wait until the GPU's queues are empty; drivers do that when
 * they load something lazily. While the stream is blocked, such a call would never return, because
 * the thread that makes it would release the stream only later.
 */
static void *watch(void *ctx)
{
	struct rung__meter *meter = ctx;
	struct meter_watchdog *dog = &meter->watchdog;

	pthread_mutex_lock(&dog->lock);
	while (!dog->stop) {
		uint64_t now = rung__now_ns();

		if (!dog->holding) {
			pthread_cond_wait(&dog->changed, &dog->lock);
		} else if (now < dog->until_ns) {
			struct timespec until = rung__deadline(dog->until_ns - now);

			pthread_cond_timedwait(&dog->changed, &dog->lock, &until);
		} else {
			release_stream(meter);
			dog->late = true;
			dog->holding = false;
		}
	}
	pthread_mutex_unlock(&dog->lock);
	return NULL;
}

int rung__gpu_watchdog_start(struct rung__meter *meter)
{
	struct meter_watchdog *dog = &meter->watchdog;
	int err;

	pthread_mutex_init(&dog->lock, NULL);
	rung__cond_init(&dog->changed);
	err = rung__thread_start(&dog->thread, watch, meter);
	dog->started = err == 0;
	if (err)
		return rung__fail(RUNG_E_NOMEM,
		                  "cuda: not enough memory or threads to measure with: %s",
		                  strerror(err));
	return 0;
}

void rung__gpu_watchdog_stop(struct rung__meter *meter)
{
	struct meter_watchdog *dog = &meter->watchdog;

	if (dog->started) {
		pthread_mutex_lock(&dog->lock);
		dog->stop = true;
		pthread_cond_signal(&dog->changed);
		pthread_mutex_unlock(&dog->lock);
		pthread_join(dog->thread, NULL);
	}
	pthread_cond_destroy(&dog->changed);
	pthread_mutex_destroy(&dog->lock);
}

/* Later work on the first stream waits until the word reaches the turn. */
static int put_wait(struct rung__meter *meter)
{
	unsigned long long at = (unsigned long long)(uintptr_t)&meter->page->word;

	if (meter->wait_value(meter->streams[0], at, meter->turn, 0) != 0)
		return rung__fail(
			RUNG_E_IO,
			"cuda: a wait cannot be queued on a stream (cuStreamWaitValue32)");
	return 0;
}

/* Blocks the first stream. On a failure end_hold() is still required: the watchdog is armed. */
static int hold(struct rung__meter *meter)
{
	struct meter_watchdog *dog = &meter->watchdog;

	pthread_mutex_lock(&dog->lock);
	meter->turn++;
	dog->holding = true;
	dog->late = false;
	dog->until_ns = rung__now_ns() + HOLD_NS;
	pthread_cond_signal(&dog->changed);
	pthread_mutex_unlock(&dog->lock);
	return put_wait(meter);
}

/* Releases the stream, even if something failed since hold(): work queued on it must not stay
 * blocked. @return rc, or RUNG_E_TIMEDOUT if the watchdog was first, so that the time is wrong */
static int end_hold(struct rung__meter *meter, int rc)
{
	struct meter_watchdog *dog = &meter->watchdog;
	bool late;

	pthread_mutex_lock(&dog->lock);
	release_stream(meter);
	dog->holding = false;
	late = dog->late;
	pthread_mutex_unlock(&dog->lock);
	if (rc == 0 && late)
		rc = rung__fail(RUNG_E_TIMEDOUT,
		                "cuda: work was not queued on a blocked stream within %llu s; "
		                "set CUDA_MODULE_LOADING=EAGER",
		                HOLD_NS / 1000000000u);
	return rc;
}

/* ---- timing ---- */

/* Queues a timed region after the wait for the word. The second stream starts when the first one is
 * released, and the event `ended` follows the work of both. */
static int put_passes(struct rung__meter *meter, meter_pass_fn pass, const void *work,
                      unsigned stream_count, uint64_t passes)
{
	cudaError_t err = cudaEventRecord(meter->begun, meter->streams[0]);
	int rc = 0;

	if (err == cudaSuccess && stream_count > 1)
		err = cudaStreamWaitEvent(meter->streams[1], meter->begun, 0);
	if (err != cudaSuccess)
		return cuda_status(err, "recording the start of the timed region");
	for (uint64_t p = 0; p < passes && rc == 0; p++) {
		for (unsigned s = 0; s < stream_count && rc == 0; s++)
			rc = pass(meter, work, s);
	}
	if (rc < 0)
		return rc;
	if (stream_count > 1)
		err = cudaEventRecord(meter->joined, meter->streams[1]);
	if (err == cudaSuccess && stream_count > 1)
		err = cudaStreamWaitEvent(meter->streams[0], meter->joined, 0);
	if (err == cudaSuccess)
		err = cudaEventRecord(meter->ended, meter->streams[0]);
	return cuda_status(err, "recording the end of the timed region");
}

/* @param seconds_out  of the timed region, by the GPU's clock */
static int wait_for_end(struct rung__meter *meter, const char *what, double *seconds_out)
{
	float ms = 0;
	int rc = cuda_status(cudaEventSynchronize(meter->ended), what);

	if (rc == 0)
		rc = cuda_status(cudaEventElapsedTime(&ms, meter->begun, meter->ended),
		                 "reading the time between two events");
	if (rc == 0 && !(ms > 0))
		rc = rung__fail(RUNG_E_IO,
		                "cuda: %s: the GPU's clock reports %g ms, not a positive time",
		                what, (double)ms);
	*seconds_out = (double)ms / 1e3;
	return rc;
}

/* Triggers the driver's lazy initialisation for the first pass of a kind, while no stream is
 * blocked. */
static int first_pass(struct rung__meter *meter, meter_pass_fn pass, const void *work,
                      unsigned stream_count, const char *what)
{
	const uint64_t next = meter->list;
	/* this wait ends at once, because the word has reached the turn already */
	int rc = put_wait(meter);

	/* the list whose turn is last, so that the first timed gathers find no cached rows */
	meter->list = next - 1;
	if (rc == 0)
		rc = put_passes(meter, pass, work, stream_count, 1);
	if (rc == 0)
		rc = cuda_status(cudaEventSynchronize(meter->ended), what);
	meter->list = next;
	return rc;
}

/* One timed region of at most ROUND_PASSES passes. */
static int time_round(struct rung__meter *meter, meter_pass_fn pass, const void *work,
                      unsigned stream_count, uint64_t passes, const char *what, double *seconds_out)
{
	int rc = hold(meter);

	if (rc == 0)
		rc = put_passes(meter, pass, work, stream_count, passes);
	rc = end_hold(meter, rc);
	return rc == 0 ? wait_for_end(meter, what, seconds_out) : rc;
}

int rung__gpu_meter_time(struct rung__meter *meter, meter_pass_fn pass, const void *work,
                         unsigned stream_count, uint64_t passes, const char *what,
                         double *seconds_out)
{
	int before, rc = rung__gpu_enter(meter->gpu, &before);
	double seconds = 0, sum = 0;

	if (rc < 0)
		return rc;
	rc = first_pass(meter, pass, work, stream_count, what);
	for (uint64_t left = passes; left > 0 && rc == 0;) {
		const uint64_t now = RUNG__MIN(left, ROUND_PASSES);

		rc = time_round(meter, pass, work, stream_count, now, what, &seconds);
		if (rc == 0)
			sum += seconds;
		left -= now;
	}
	/* queued passes must end before the caller frees their memory */
	for (unsigned s = 0; s < METER_STREAMS && rc < 0; s++)
		rung__gpu_drain(meter->streams[s]);
	rung__gpu_leave(before);
	*seconds_out = sum;
	return rc;
}
