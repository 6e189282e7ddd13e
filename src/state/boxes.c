/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mailboxes of the refill threads and of the device thread.
 *
 * Each function adds an object or sets a flag, and wakes the thread. It does so under the lock
 * under which the thread checks for work before it sleeps, so no wake-up is lost. No function waits
 * for work or allocates memory: queued objects contain their links.
 */
#include <assert.h>

#include "base/thread.h"
#include "state/state.h"

/* ---- refill ---- */

void rung__refill_box_init(struct rung__refill_box *box)
{
	pthread_mutex_init(&box->lock, NULL);
	rung__cond_init(&box->wake);
}

void rung__refill_box_fini(struct rung__refill_box *box)
{
	pthread_cond_destroy(&box->wake);
	pthread_mutex_destroy(&box->lock);
	rung__free(box->returned);
}

void rung__refill_queue(struct rung__refill_box *box, struct rung__part *part)
{
	pthread_mutex_lock(&box->lock);
	rung__queue_push(&box->queue, &part->link);
	pthread_cond_signal(&box->wake);
	pthread_mutex_unlock(&box->lock);
}

/* The flag itself is in the request: the thread checks it for each part that it could begin. */
void rung__refill_may_copy(struct rung__refill_box *box)
{
	pthread_mutex_lock(&box->lock);
	pthread_cond_signal(&box->wake);
	pthread_mutex_unlock(&box->lock);
}

void rung__refill_return(struct rung__refill_box *box, uint32_t slot_head)
{
	pthread_mutex_lock(&box->lock);
	assert(box->returned_count < box->returned_max);
	/* chains are disjoint, so there are at most as many chains as slots */
	box->returned[box->returned_count++] = slot_head;
	pthread_cond_signal(&box->wake);
	pthread_mutex_unlock(&box->lock);
}

void rung__refill_cancel(struct rung__refill_box *box)
{
	pthread_mutex_lock(&box->lock);
	box->closing = true;
	pthread_cond_signal(&box->wake);
	pthread_mutex_unlock(&box->lock);
}

/* ---- device thread: one condition for both queues ---- */

void rung__device_thread_begin(struct rung_store *store, struct rung_request *request)
{
	struct rung__device_thread_box *box = &store->device_thread_box;

	pthread_mutex_lock(&store->lock);
	rung__queue_push(&box->inbox, &request->link);
	pthread_cond_signal(&box->work);
	pthread_mutex_unlock(&store->lock);
}

void rung__device_thread_add(struct rung_store *store, struct rung__slot_batch *slot_batch)
{
	pthread_mutex_lock(&store->lock);
	rung__queue_push(&store->device_thread_box.slot_batches, &slot_batch->link);
	pthread_cond_signal(&store->device_thread_box.work);
	pthread_mutex_unlock(&store->lock);
}
