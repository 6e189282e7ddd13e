/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request: acquired, polled, waited for, put. submit.c starts it, and
 * rung__request_finish() (state/request_state.c) completes it.
 *
 * Completion is detected in one of two ways. Without a device, and on a device with cold rows, a
 * thread of the store completes the request and wakes those that wait. On a device without cold
 * rows the store has no such thread: the callers poll the device, here, and a request that was put
 * early is on the list of retired requests until a later call finds that it has run.
 */
#include <assert.h>
#include <errno.h>
#include <time.h>

#include "store/store.h"
#include "base/thread.h"

#define POLL_NS 50000000 /* between two looks at whether the caller cancels a wait */

/* Acquire: with DONE, the rows, status and error of the request are visible too. */
static int state_of(const struct rung_request *request)
{
	return atomic_load_explicit(&request->state, memory_order_acquire);
}

/* True for a device without a device thread, where completion is detected only by polling. */
static bool completes_by_polling(const struct rung_request *request)
{
	return request->store->device && !request->store->device_thread;
}

int rung_request_poll(struct rung_request *request)
{
	if (completes_by_polling(request))
		rung__device_thread_complete(request);
	return state_of(request) == RUNG__REQUEST_DONE;
}

/* Without a thread that would wake the caller: poll until the request is complete or the time is
 * over. The interval grows with the time waited (rung__poll_ns()). */
static void complete_within(struct rung_request *request, int64_t timeout_ns)
{
	struct rung_store *store = request->store;
	const uint64_t begin_ns = rung__now_ns();
	uint64_t waited_ns = 0;

	if (rung_request_poll(request))
		return;
	rung__counter_add(&rung__counters(store)->host_waits, 1);
	if (timeout_ns == 0)
		return;
	rung__watch_wait_begin(store->watch, RUNG__WAIT_ROWS);
	while (timeout_ns < 0 || waited_ns < (uint64_t)timeout_ns) {
		const struct timespec pause = { .tv_nsec = (long)rung__poll_ns(waited_ns) };

		nanosleep(&pause, NULL);
		if (rung_request_poll(request))
			break;
		waited_ns = rung__now_ns() - begin_ns;
	}
	rung__watch_wait_end(store->watch, RUNG__WAIT_ROWS);
}

/* The lock is acquired even if the state is reached already: refill may still hold it inside
 * rung__request_finish(), and the caller may put the request right after this call. */
static bool await_state(struct rung_request *request, int state, int64_t timeout_ns)
{
	struct timespec until = rung__deadline(timeout_ns < 0 ? 0 : (uint64_t)timeout_ns);
	/* before the lock is acquired, because the begin of a wait has its own */
	const bool blocks = timeout_ns != 0 && state_of(request) < state;
	int waited = 0; /* 0, or ETIMEDOUT */
	bool there;

	if (blocks)
		rung__watch_wait_begin(request->store->watch, RUNG__WAIT_ROWS);
	pthread_mutex_lock(&request->lock);
	if (request->store->device && state_of(request) < state)
		rung__counter_add(&rung__counters(request->store)->host_waits, 1);
	while (!(there = state_of(request) >= state) && waited != ETIMEDOUT) {
		if (timeout_ns < 0)
			pthread_cond_wait(&request->done, &request->lock);
		else
			waited = pthread_cond_timedwait(&request->done, &request->lock, &until);
	}
	pthread_mutex_unlock(&request->lock);
	if (blocks)
		rung__watch_wait_end(request->store->watch, RUNG__WAIT_ROWS);
	return there;
}

void rung__request_await(struct rung_request *request)
{
	if (completes_by_polling(request))
		complete_within(request, -1);
	else
		await_state(request, RUNG__REQUEST_DONE, -1);
}

/* Wait in steps, between which the caller can cancel. @return 0, or RUNG_E_CANCELED with the
 * request in flight */
static int wait_in_steps(struct rung_request *request, int64_t timeout_ns)
{
	int64_t left = timeout_ns < 0 ? INT64_MAX : timeout_ns, step;
	int rc = 0;

	for (; rc == 0 && left > 0 && state_of(request) != RUNG__REQUEST_DONE; left -= step) {
		step = RUNG__MIN(left, POLL_NS);
		if (completes_by_polling(request))
			complete_within(request, step);
		else
			await_state(request, RUNG__REQUEST_DONE, step);
		if (state_of(request) != RUNG__REQUEST_DONE)
			rc = rung__interrupt_poll("request");
	}
	return rc;
}

int rung_request_wait(struct rung_request *request, int64_t timeout_ns)
{
	int64_t left = timeout_ns;
	bool done;

	if (timeout_ns != 0 && rung__interruptible()) {
		if (wait_in_steps(request, timeout_ns) < 0)
			return RUNG_E_CANCELED;
		left = 0;
	}
	if (completes_by_polling(request)) {
		complete_within(request, left);
		done = state_of(request) == RUNG__REQUEST_DONE;
	} else {
		done = await_state(request, RUNG__REQUEST_DONE, left);
	}
	if (!done)
		return rung__fail(RUNG_E_TIMEDOUT, "request: not complete after %" PRId64 " ns",
		                  timeout_ns);
	return request->status < 0 ? rung__fail_text(request->status, request->error) : 0;
}

int rung_request_wait_stream(struct rung_request *request, struct CUstream_st *stream)
{
	struct rung_store *store = request->store;

	if (!store->device)
		return rung_request_wait(request, -1);
	/* wait until the request's last scatter is on a stream; without a device thread no scatter
	 * follows, and the gather has been on its stream since the submission */
	if (store->device_thread)
		await_state(request, RUNG__REQUEST_LAUNCHED, -1);
	if (state_of(request) == RUNG__REQUEST_DONE && request->status < 0)
		return rung__fail_text(request->status, request->error);
	return store->device_ops->order(store->device, rung__request_index(request), stream);
}

const char *rung_request_error(const struct rung_request *request)
{
	return state_of(request) == RUNG__REQUEST_DONE && request->status < 0 ? request->error : "";
}

/*
 * Leave a request of a device to the thread that completes it, which then frees it: a put never
 * waits for a GPU. The flag is set under the lock under which the request completes, so either this
 * call or that thread frees it, not both.
 * @return false if it is complete: the caller frees it
 */
static bool retire(struct rung_request *request)
{
	struct rung_store *store = request->store;
	bool busy;

	pthread_mutex_lock(&request->lock);
	busy = state_of(request) != RUNG__REQUEST_DONE;
	request->retired = busy;
	pthread_mutex_unlock(&request->lock);
	if (busy && !store->device_thread) { /* no thread will complete the request */
		pthread_mutex_lock(&store->lock);
		rung__queue_push(&store->retired, &request->link);
		pthread_mutex_unlock(&store->lock);
	}
	return busy;
}

void rung_request_put(struct rung_request *request)
{
	if (!request)
		return;
	if (request->store->device) {
		if (retire(request))
			return;
	} else {
		rung__request_await(request);
	}
	rung__request_free(request);
}

void rung__request_harvest(struct rung_store *store, bool must)
{
	for (;;) {
		struct rung_request *request;
		bool block, done;

		/* removed from the list while it is polled: the device is called without the lock,
		 * and no other thread may free the request in the meantime */
		pthread_mutex_lock(&store->lock);
		request = RUNG__ENTRY(rung__queue_pop(&store->retired), struct rung_request, link);
		block = must && rung__queue_is_empty(&store->free);
		pthread_mutex_unlock(&store->lock);
		if (!request)
			return;
		done = rung_request_poll(request);
		if (!done && block) {
			rung__request_await(request);
			done = true;
		}
		if (done) {
			rung__request_free(request);
			continue;
		}
		/* the oldest request still runs: it stays the first, and the others wait for a
		 * later call */
		pthread_mutex_lock(&store->lock);
		rung__queue_push_first(&store->retired, &request->link);
		pthread_mutex_unlock(&store->lock);
		return;
	}
}

struct rung_request *rung__request_acquire(struct rung_store *store, bool sync)
{
	struct rung__queue *list = sync ? &store->sync_free : &store->free;
	struct rung_request *request;

	/* rung_gather() has separate requests, which are never put early: it need not wait here */
	if (store->device && !store->device_thread)
		rung__request_harvest(store, !sync);
	pthread_mutex_lock(&store->lock);
	/* each rung_gather() waits for its request and then frees it, so this wait ends */
	if (sync && rung__queue_is_empty(list)) {
		rung__watch_wait_begin(store->watch, RUNG__WAIT_ROWS);
		while (rung__queue_is_empty(list))
			pthread_cond_wait(&store->freed, &store->lock);
		rung__watch_wait_end(store->watch, RUNG__WAIT_ROWS);
	}
	request = RUNG__ENTRY(rung__queue_pop(list), struct rung_request, link);
	pthread_mutex_unlock(&store->lock);
	assert(!request || state_of(request) == RUNG__REQUEST_FREE);
	return request;
}
