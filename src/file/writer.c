/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that writes buffers in the order in which they were put. One lock guards the stack of
 * free buffers and the ring of jobs; it is not held while a buffer is written. A buffer is free,
 * held by a caller, or in a job, so neither list can overflow.
 */
#include "file/writer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"

struct job {
	struct rung__direct file; /* a copy; the caller closes it */
	unsigned char *buffer;
	uint64_t bytes, offset;
};

struct rung__writer {
	pthread_t thread;
	pthread_mutex_t lock; /* guards all fields below, except the two sizes */
	/* a job was put or is done, a buffer is free, or the thread must end */
	pthread_cond_t changed;
	uint64_t buffer_bytes;
	uint32_t buffer_count;
	unsigned char **free; /* [free_count] a stack, with space for buffer_count */
	uint32_t free_count;
	struct job *jobs; /* [buffer_count] a ring: jobs done_count to put_count - 1 are pending */
	uint64_t put_count, done_count; /* since the start; job n is in jobs[n % buffer_count] */
	bool ending;                    /* the thread returns when no job is pending */
	struct rung__failure failure;   /* the first failure; later jobs are skipped */
};

static int write_job(const struct job *job, bool skip)
{
	return skip ? 0 : rung__direct_write(&job->file, job->buffer, job->bytes, job->offset);
}

/* Put a buffer on the stack of free ones. With the lock held. */
static void release(struct rung__writer *writer, unsigned char *buffer)
{
	assert(buffer && writer->free_count < writer->buffer_count);
	writer->free[writer->free_count++] = buffer;
}

/* The thread. A failed write does not end it: callers that wait for buffers still get them. */
static void *write_all(void *ctx)
{
	struct rung__writer *writer = ctx;

	pthread_mutex_lock(&writer->lock);
	for (;;) {
		const struct job *job = &writer->jobs[writer->done_count % writer->buffer_count];
		const bool skip = writer->failure.rc < 0;
		int rc;

		if (writer->done_count == writer->put_count) {
			if (writer->ending)
				break;
			pthread_cond_wait(&writer->changed, &writer->lock);
			continue;
		}
		assert(writer->put_count - writer->done_count <= writer->buffer_count);
		/* the slot of the ring is not reused before done_count is raised */
		pthread_mutex_unlock(&writer->lock);
		rc = write_job(job, skip);
		pthread_mutex_lock(&writer->lock);
		rung__failure_keep(&writer->failure, rc);
		release(writer, job->buffer);
		writer->done_count++;
		pthread_cond_broadcast(&writer->changed);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

int rung__writer_open(unsigned char *pool, uint64_t buffer_bytes, uint32_t buffer_count,
                      struct rung__writer **writer_out)
{
	struct rung__writer *writer = rung__zalloc(sizeof(*writer));
	int err;

	if (!writer)
		return rung__fail(RUNG_E_NOMEM, "no memory for a writer with %" PRIu32 " buffers",
		                  buffer_count);
	writer->buffer_bytes = buffer_bytes;
	writer->buffer_count = buffer_count;
	writer->free = rung__malloc_array(buffer_count, sizeof(*writer->free));
	writer->jobs = rung__malloc_array(buffer_count, sizeof(*writer->jobs));
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	for (; writer->free && writer->free_count < buffer_count; writer->free_count++)
		writer->free[writer->free_count] = pool + writer->free_count * buffer_bytes;
	err = writer->free && writer->jobs ? rung__thread_start(&writer->thread, write_all, writer)
	                                   : ENOMEM;
	if (err == 0) {
		*writer_out = writer;
		return 0;
	}
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	rung__free(writer->free);
	rung__free(writer->jobs);
	rung__free(writer);
	return rung__fail_thread(err, "a thread that writes");
}

unsigned char *rung__writer_reserve(struct rung__writer *writer)
{
	unsigned char *buffer;

	pthread_mutex_lock(&writer->lock);
	while (writer->free_count == 0)
		pthread_cond_wait(&writer->changed, &writer->lock);
	buffer = writer->free[--writer->free_count];
	pthread_mutex_unlock(&writer->lock);
	return buffer;
}

void rung__writer_put(struct rung__writer *writer, const struct rung__direct *file,
                      unsigned char *buffer, uint64_t bytes, uint64_t offset)
{
	pthread_mutex_lock(&writer->lock);
	assert(bytes <= writer->buffer_bytes);
	/* the caller holds a buffer, so fewer buffers are in jobs than are in use */
	assert(writer->put_count - writer->done_count < writer->buffer_count - writer->free_count);
	if (bytes == 0)
		release(writer, buffer);
	else
		writer->jobs[writer->put_count++ % writer->buffer_count] =
			(struct job){ *file, buffer, bytes, offset };
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
}

bool rung__writer_failed(struct rung__writer *writer)
{
	bool failed;

	pthread_mutex_lock(&writer->lock);
	failed = writer->failure.rc < 0;
	pthread_mutex_unlock(&writer->lock);
	return failed;
}

int rung__writer_flush(struct rung__writer *writer)
{
	int rc;

	pthread_mutex_lock(&writer->lock);
	while (writer->done_count < writer->put_count)
		pthread_cond_wait(&writer->changed, &writer->lock);
	rc = rung__failure_report(&writer->failure);
	pthread_mutex_unlock(&writer->lock);
	return rc;
}

void rung__writer_close(struct rung__writer *writer)
{
	if (!writer)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->ending = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	rung__free(writer->free);
	rung__free(writer->jobs);
	rung__free(writer);
}

/* Hand the buffer to the writer: `bytes` are `used`, or that rounded up to pages. */
static void put_buffer(struct rung__out_stream *stream, uint64_t bytes)
{
	rung__writer_put(stream->writer, &stream->file, stream->buffer, bytes, stream->written);
	stream->written += stream->used;
	stream->buffer = NULL;
	stream->used = 0;
}

int rung__stream_append(struct rung__out_stream *stream, const void *bytes, uint64_t byte_count)
{
	const unsigned char *from = bytes;

	while (byte_count > 0) {
		uint64_t piece;

		if (!stream->buffer)
			stream->buffer = rung__writer_reserve(stream->writer);
		piece = RUNG__MIN(byte_count, stream->buffer_bytes - stream->used);
		memcpy(stream->buffer + stream->used, from, (size_t)piece);
		stream->used += piece;
		from += piece;
		byte_count -= piece;
		if (stream->used < stream->buffer_bytes)
			continue;
		put_buffer(stream, stream->used);
		/* report a failure now, not after the rest of a large file */
		if (rung__writer_failed(stream->writer))
			return rung__writer_flush(stream->writer);
	}
	return 0;
}

int rung__stream_end(struct rung__out_stream *stream)
{
	const uint64_t bytes = rung__align_up(stream->used, RUNG__PAGE_BYTES);
	int rc;

	/* direct writes need whole pages: the padding is zeros, and is truncated below */
	if (stream->buffer) {
		memset(stream->buffer + stream->used, 0, (size_t)(bytes - stream->used));
		put_buffer(stream, bytes);
	}
	rc = rung__writer_flush(stream->writer);
	if (rc == 0 && ftruncate(stream->file.fd, (off_t)stream->written) < 0)
		rc = rung__fail_errno(errno, "%s: cannot be truncated to %" PRIu64 " bytes",
		                      stream->file.name, stream->written);
	return rc;
}
