/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pread engine: a pool of threads, each with one blocking read. It serves kernels and
 * containers that refuse io_uring. It reaches as many reads per second as io_uring, but uses about
 * twice the CPU time.
 *
 * One mutex protects both queues; the reads themselves run without it.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "engine/engine.h"
#include "base/thread.h"

#define THREADS_MAX 32u /* maximum number of reads in flight, even with a larger queue depth */
/* part of the threads that a limit leaves: other pools, loaders and the program need some, too */
#define THREADS_SHARE 8u

struct rung__engine {
	struct rung__engine_args args;
	pthread_mutex_t lock;
	pthread_cond_t work;         /* a read is queued, or `stop` is set */
	pthread_cond_t done;         /* a read has ended */
	struct rung__fetch *queue;   /* ring of [queue_depth] reads that no thread has started */
	struct rung__fetched *ended; /* ring of [queue_depth] results that are not reaped yet */
	uint32_t queue_head, queue_count;
	uint32_t ended_head, ended_count;
	uint32_t thread_count; /* threads that were started */
	bool stop;
	pthread_t threads[THREADS_MAX];
};

/* @return bytes read, or -errno. A short read is a result: the caller reads the rest. */
static int32_t read_once(const struct rung__engine_args *args, const struct rung__fetch *fetch)
{
	unsigned char *to = args->pool + fetch->to;
	ssize_t got;

	do
		got = pread(args->fd, to, fetch->bytes, (off_t)fetch->offset);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : (int32_t)got;
}

/* A thread of the pool: starts queued reads until the queue is empty and `stop` is set. Closing
 * therefore completes all queued reads, and no thread writes to the read buffers afterwards. */
static void *worker(void *ctx)
{
	struct rung__engine *engine = ctx;
	uint32_t depth = engine->args.queue_depth;

	pthread_mutex_lock(&engine->lock);
	for (;;) {
		struct rung__fetch fetch;
		int32_t result;

		while (engine->queue_count == 0 && !engine->stop)
			pthread_cond_wait(&engine->work, &engine->lock);
		if (engine->queue_count == 0)
			break;
		assert(engine->queue_count <= depth);
		fetch = engine->queue[engine->queue_head];
		engine->queue_head = (engine->queue_head + 1) % depth;
		engine->queue_count--;
		pthread_mutex_unlock(&engine->lock);
		/* without the lock, so that reads of several threads are in flight at the same
		 * time */
		result = read_once(&engine->args, &fetch);
		pthread_mutex_lock(&engine->lock);
		assert(engine->ended_count < depth);
		engine->ended[(engine->ended_head + engine->ended_count++) % depth] =
			(struct rung__fetched){ .token = fetch.token, .result = result };
		pthread_cond_signal(&engine->done);
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

static void pread_close(struct rung__engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	engine->stop = true;
	pthread_cond_broadcast(&engine->work);
	pthread_mutex_unlock(&engine->lock);
	for (uint32_t i = 0; i < engine->thread_count; i++)
		pthread_join(engine->threads[i], NULL);
	pthread_cond_destroy(&engine->done);
	pthread_cond_destroy(&engine->work);
	pthread_mutex_destroy(&engine->lock);
	rung__free(engine->ended);
	rung__free(engine->queue);
	rung__free(engine);
}

static int open_pool(const struct rung__engine_args *args, uint32_t wanted,
                     struct rung__engine **engine_out, struct rung__engine_report *report)
{
	struct rung__engine *engine = rung__zalloc(sizeof(*engine));
	uint32_t started;

	if (!engine)
		return rung__engine_refuse(report, -ENOMEM, "out of memory");
	engine->args = *args;
	pthread_mutex_init(&engine->lock, NULL);
	/* waits have a deadline, which must be on the monotonic clock */
	rung__cond_init(&engine->done);
	pthread_cond_init(&engine->work, NULL);
	engine->queue = rung__malloc_array(args->queue_depth, sizeof(*engine->queue));
	engine->ended = rung__malloc_array(args->queue_depth, sizeof(*engine->ended));
	if (engine->queue && engine->ended) {
		while (engine->thread_count < wanted &&
		       rung__thread_start(&engine->threads[engine->thread_count], worker, engine) ==
		               0)
			engine->thread_count++;
	}
	/* fewer threads than requested are enough; without memory for the queues none is started */
	started = engine->thread_count;
	if (started == wanted) {
		*engine_out = engine;
		return 0;
	}
	pread_close(engine);
	/* leave as many threads to others as this pool uses */
	return started > 1 ? open_pool(args, started / 2, engine_out, report)
	                   : rung__engine_refuse(report, -EAGAIN, "no thread could be started");
}

static int pread_open(const struct rung__engine_args *args, struct rung__engine **engine_out,
                      struct rung__engine_report *report)
{
	uint64_t limit;
	const uint64_t left = rung__threads_free(rung__machine_root, &limit) / THREADS_SHARE;
	const uint64_t wanted = RUNG__MIN(RUNG__MIN(args->queue_depth, THREADS_MAX), left);

	return open_pool(args, (uint32_t)RUNG__MAX(wanted, 1u), engine_out, report);
}

static int pread_submit(struct rung__engine *engine, const struct rung__fetch *fetch)
{
	uint32_t depth = engine->args.queue_depth;
	int rc = -EAGAIN;

	pthread_mutex_lock(&engine->lock);
	if (engine->queue_count < depth) {
		engine->queue[(engine->queue_head + engine->queue_count++) % depth] = *fetch;
		pthread_cond_signal(&engine->work);
		rc = 0;
	}
	pthread_mutex_unlock(&engine->lock);
	return rc;
}

/* Wait for `want` results or until the timeout, and return at most `max`. */
static int pread_reap(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns,
                      struct rung__fetched *fetched, uint32_t max)
{
	uint32_t depth = engine->args.queue_depth;
	struct timespec until = rung__deadline(timeout_ns);
	uint32_t count = 0;

	pthread_mutex_lock(&engine->lock);
	while (engine->ended_count < want) {
		if (pthread_cond_timedwait(&engine->done, &engine->lock, &until) == ETIMEDOUT)
			break;
	}
	assert(engine->ended_count <= depth);
	while (count < max && engine->ended_count > 0) {
		fetched[count++] = engine->ended[engine->ended_head];
		engine->ended_head = (engine->ended_head + 1) % depth;
		engine->ended_count--;
	}
	pthread_mutex_unlock(&engine->lock);
	return (int)count;
}

const struct rung__engine_ops rung__engine_pread = {
	.name = "pread",
	.id = RUNG_ENGINE_PREAD,
	.open = pread_open,
	.close = pread_close,
	.submit = pread_submit,
	.reap = pread_reap,
};
