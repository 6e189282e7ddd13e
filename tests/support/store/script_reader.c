/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted reader. One refill thread of a store drives it, so its reads need no lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file/file.h"
#include "script_reader.h"

#define IN_FLIGHT_MARK 0xa5    /* fills the memory of a read that is in flight */
#define FAILED_MARK    0xee    /* fills the memory of a read that failed */
#define POLL_NS        100000u /* between checks of `release` */

struct script_settings script;

struct flying {
	struct script_read read;
	struct script_fate fate;
	uint64_t due_ns;
};

struct rung__reader {
	struct rung__reader_args args;
	struct rung__geometry geometry;
	char *path;
	int fd;
	uint64_t shuffles;
	uint32_t count;
	struct flying flying[]; /* [queue_depth], in order of submission */
};

void script_reset(void)
{
	memset(&script, 0, sizeof(script));
	script.align = 512;
	script.merge_gap_bytes = 4096;
	script.read_bytes_max = 131072;
}

static void violation(const char *what, const struct rung__fetch *fetch)
{
	fprintf(stderr, "script reader: read of token %u at offset %llu of %u bytes to %llu: %s\n",
	        fetch->token, (unsigned long long)fetch->offset, fetch->bytes,
	        (unsigned long long)fetch->to, what);
	atomic_fetch_add(&script.violations, 1);
}

static int script_open(const struct rung__reader_args *args, struct rung__reader **reader_out)
{
	struct rung__reader *reader =
		calloc(1, sizeof(*reader) + args->queue_depth * sizeof(reader->flying[0]));

	reader->args = *args;
	reader->path = strdup(args->features->files[args->file_idx].path);
	reader->fd = rung__reopen(args->features->files[args->file_idx].fd, 0);
	reader->geometry = (struct rung__geometry){
		.file_bytes = args->features->layout.file_bytes[args->file_idx],
		.read_bytes_max = script.read_bytes_max,
		.merge_gap_bytes = script.merge_gap_bytes,
		.align = script.align,
		.path = reader->path,
	};
	*reader_out = reader;
	return 0;
}

static void script_close(struct rung__reader *reader)
{
	close(reader->fd);
	free(reader->path);
	free(reader);
}

static int script_start(struct rung__reader *reader)
{
	(void)reader;
	return 0;
}

static void script_stop(struct rung__reader *reader)
{
	if (reader->count > 0 && !atomic_load(&script.broken))
		violation("in flight when the reader is stopped", &reader->flying[0].read.fetch);
}

static void script_geometry(const struct rung__reader *reader, struct rung__geometry *geometry_out)
{
	*geometry_out = reader->geometry;
}

static void script_engine(const struct rung__reader *reader, struct rung__engine_state *state_out)
{
	(void)reader;
	*state_out = (struct rung__engine_state){ .name = "script",
		                                  .why = "",
		                                  .direct = script.align > 1 };
}

static void check_fetch(const struct rung__reader *reader, const struct rung__fetch *fetch)
{
	uint32_t align = reader->geometry.align;

	if (reader->count >= reader->args.queue_depth || fetch->token >= reader->args.token_count)
		violation("deeper than the queue", fetch);
	if (fetch->bytes == 0 || fetch->offset % align || fetch->to % align || fetch->bytes % align)
		violation("not aligned", fetch);
	if (fetch->offset >= reader->geometry.file_bytes ||
	    fetch->to + fetch->bytes > reader->args.pool_bytes)
		violation("outside the file or the pool", fetch);
	for (uint32_t i = 0; i < reader->count; i++) {
		const struct rung__fetch *other = &reader->flying[i].read.fetch;

		if (other->token == fetch->token)
			violation("its token is in flight", fetch);
		if (other->to < fetch->to + fetch->bytes && fetch->to < other->to + other->bytes)
			violation("its memory is being read into", fetch);
	}
}

static bool is_late(const struct flying *flying)
{
	return flying->fate.held || flying->fate.delay_ns > 0;
}

static void note_peak(const struct rung__reader *reader)
{
	uint64_t late = 0;

	for (uint32_t i = 0; i < reader->count; i++)
		late += is_late(&reader->flying[i]);
	if (late > atomic_load(&script.late_peak))
		atomic_store(&script.late_peak, late);
}

static int script_submit(struct rung__reader *reader, const struct rung__fetch *fetch)
{
	struct flying *flying = &reader->flying[reader->count];

	if (atomic_load(&script.broken) && atomic_load(&script.refuses))
		return -atomic_load(&script.broken);
	check_fetch(reader, fetch);
	*flying = (struct flying){ .read = { *fetch, reader->args.file_idx,
		                             atomic_fetch_add(&script.sent, 1) } };
	if (script.decide)
		script.decide(&flying->read, &flying->fate);
	flying->due_ns = rung__now_ns() + flying->fate.delay_ns;
	memset(reader->args.pool + fetch->to, IN_FLIGHT_MARK, fetch->bytes);
	reader->count++;
	if (flying->fate.held)
		atomic_fetch_add(&script.held, 1);
	if (is_late(flying))
		note_peak(reader);
	return 0;
}

static void check_mark(const struct rung__reader *reader, const struct rung__fetch *fetch)
{
	const unsigned char *at = reader->args.pool + fetch->to;

	for (uint32_t i = 0; i < fetch->bytes; i++) {
		if (at[i] != IN_FLIGHT_MARK) {
			violation("its memory was written to while it was in flight", fetch);
			return;
		}
	}
}

static struct rung__fetched end_read(struct rung__reader *reader, const struct flying *flying)
{
	const struct rung__fetch *fetch = &flying->read.fetch;
	const struct script_fate *fate = &flying->fate;
	unsigned char *to = reader->args.pool + fetch->to;
	uint32_t bytes = fetch->bytes;
	ssize_t got;

	check_mark(reader, fetch);
	if (script.came_back)
		script.came_back(&flying->read, fate);
	if (fate->bytes_max > 0)
		bytes = RUNG__MIN(bytes, RUNG__MAX((uint32_t)rung__align_down(
							   fate->bytes_max, reader->geometry.align),
		                                   reader->geometry.align));
	memset(to, FAILED_MARK, fetch->bytes);
	if (fate->err || fate->empty)
		return (struct rung__fetched){ fetch->token, -fate->err };
	got = pread(reader->fd, to, bytes, (off_t)fetch->offset);
	return (struct rung__fetched){ fetch->token, got < 0 ? -errno : (int32_t)got };
}

static bool is_ready(const struct flying *flying, uint64_t now_ns)
{
	return now_ns >= flying->due_ns && (!flying->fate.held || atomic_load(&script.release));
}

static void shuffle(struct rung__reader *reader, struct rung__fetched *fetched, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t with = (uint32_t)(rung__mix64(script.seed + ++reader->shuffles) % i);
		struct rung__fetched swap = fetched[i - 1];

		fetched[i - 1] = fetched[with];
		fetched[with] = swap;
	}
}

static uint32_t take_ready(struct rung__reader *reader, struct rung__fetched *fetched, uint32_t max)
{
	uint64_t now_ns = rung__now_ns();
	uint32_t taken = 0, left = 0;

	for (uint32_t i = 0; i < reader->count; i++) {
		if (taken < max && is_ready(&reader->flying[i], now_ns))
			fetched[taken++] = end_read(reader, &reader->flying[i]);
		else
			reader->flying[left++] = reader->flying[i];
	}
	reader->count = left;
	if (script.shuffled)
		shuffle(reader, fetched, taken);
	atomic_fetch_add(&script.ended, taken);
	return taken;
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec pause = { .tv_sec = (time_t)(ns / 1000000000u),
		                        .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&pause, NULL);
}

static uint32_t count_ready(const struct rung__reader *reader, uint64_t now_ns)
{
	uint32_t ready = 0;

	for (uint32_t i = 0; i < reader->count; i++)
		ready += is_ready(&reader->flying[i], now_ns);
	return ready;
}

static int script_reap(struct rung__reader *reader, uint32_t want, uint64_t timeout_ns,
                       struct rung__fetched *fetched, uint32_t max)
{
	uint64_t until_ns = rung__now_ns() + timeout_ns;
	int taken;

	while (!atomic_load(&script.broken)) {
		uint64_t now_ns = rung__now_ns();

		if (count_ready(reader, now_ns) >= want)
			break;
		if (now_ns >= until_ns) {
			atomic_fetch_add(&script.expired, timeout_ns > 0);
			break;
		}
		sleep_ns(RUNG__MIN(until_ns - now_ns, POLL_NS));
	}
	if (atomic_load(&script.broken))
		return atomic_load(&script.refuses) ? (int)take_ready(reader, fetched, max)
		                                    : -atomic_load(&script.broken);
	taken = (int)take_ready(reader, fetched, max);
	if (max > 0 && script.oversleep_ns > 0)
		sleep_ns(script.oversleep_ns);
	return taken;
}

const struct rung__reader_ops script_reader = {
	.abi = RUNG__READER_ABI,
	.size = sizeof(struct rung__reader_ops),
	.name = "script",
	.open = script_open,
	.close = script_close,
	.geometry = script_geometry,
	.start = script_start,
	.stop = script_stop,
	.engine = script_engine,
	.submit = script_submit,
	.reap = script_reap,
};
