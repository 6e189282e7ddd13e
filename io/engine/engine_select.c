/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects an engine: tries each one, best first, until one works, and records the reasons of the
 * others for the statistics.
 *
 * An engine must return correct bytes before it is used. Set-up calls can succeed although later
 * reads fail, and commands to the disk can succeed although they read the wrong bytes. So each
 * engine is probed with real reads, whose results are compared with those of pread().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/file_reader.h"

#define PROBE_WAIT_NS 30000000000ull /* a sleeping disk can take seconds to answer */

/* best first */
static const struct rung__engine_ops *const engines[] = {
#if RUNG_HAVE_IO_URING
	&rung__engine_nvme,         &rung__engine_io_uring_poll, &rung__engine_io_uring,
#endif
	&rung__engine_pread,
#if RUNG_HAVE_IO_URING
	&rung__engine_null,
#endif
	&rung__engine_null_instant,
};

/* ---- probe ---- */

/* Read once through the engine, and wait for the result. @param result_out bytes read, or -errno of
 * the read.
 * @return 0, or -errno of the engine; -ETIMEDOUT: the read may still be in flight */
static int read_through(const struct rung__reader *reader, const struct rung__fetch *fetch,
                        int32_t *result_out)
{
	struct rung__fetched fetched = { 0, 0 };
	int rc = reader->ops->submit(reader->engine, fetch);

	if (rc < 0)
		return rc;
	rc = reader->ops->reap(reader->engine, 1, PROBE_WAIT_NS, &fetched, 1);
	*result_out = fetched.result;
	return rc < 0 ? rc : rc == 0 ? -ETIMEDOUT : 0;
}

/* Read one sector at `offset` with pread() and through the engine, and compare. */
static int probe_at(const struct rung__reader *reader, uint64_t offset,
                    struct rung__engine_report *report)
{
	_Alignas(RUNG__PAGE_BYTES) unsigned char expected[RUNG__PAGE_BYTES];
	struct rung__fetch fetch = { .offset = offset,
		                     .to = reader->args.probe_at,
		                     .bytes = RUNG__MAX(reader->geometry.align, 512u) };
	ssize_t got = pread(reader->fd, expected, fetch.bytes, (off_t)offset);
	int32_t result = 0;
	int rc;

	/* pread() has found a bad block, which is not the engine's fault; the other rows can be
	 * read */
	if (got < 0 && offset > 0)
		return 0;
	if (got < 0)
		return rung__engine_refuse(report, -errno,
		                           "the first bytes of the file cannot be read");
	rc = read_through(reader, &fetch, &result);
	if (rc == 0 && result < 0)
		rc = result;
	if (rc == -EOPNOTSUPP && reader->ops->unsupported)
		return rung__engine_refuse(report, rc, "%s", reader->ops->unsupported);
	if (rc < 0)
		return rung__engine_refuse(report, rc, "its first read failed");
	if (result != got ||
	    memcmp(reader->args.pool + reader->args.probe_at, expected, (size_t)got) != 0)
		return rung__engine_refuse(
			report, -EIO, "its first read returned bytes that differ from the file's");
	return 0;
}

/* Probe the beginning of the file. An engine that maps the file to the disk itself is also probed
 * in the middle and in the last page, because its map can be wrong for a part of the file. */
static int probe(const struct rung__reader *reader, struct rung__engine_report *report)
{
	const uint64_t offsets[] = {
		0, rung__align_down(reader->geometry.file_bytes / 2, RUNG__PAGE_BYTES),
		rung__align_down(reader->geometry.file_bytes - (reader->geometry.file_bytes > 0),
		                 RUNG__PAGE_BYTES)
	};
	int rc = 0;

	for (unsigned i = 0; i < (reader->ops->maps ? RUNG__ARRAY_LEN(offsets) : 1) && rc == 0; i++)
		rc = probe_at(reader, offsets[i], report);
	return rc;
}

/* ---- steps ---- */

/* Open an engine and probe it. @return 0 with the engine in use; otherwise -errno with report->why,
 * and the engine closed */
static int try_engine(struct rung__reader *reader, const struct rung__engine_ops *ops,
                      struct rung__engine_report *report)
{
	struct rung__engine_args engine_args = { reader->fd, reader->args.pool,
		                                 reader->args.pool_bytes,
		                                 reader->args.queue_depth };
	int rc;

	if (ops->direct && !reader->direct)
		return rung__engine_refuse(
			report, -ENOTSUP,
			"it bypasses the page cache, but this file is read through the page cache");
	rc = ops->open(&engine_args, &reader->engine, report);
	if (rc < 0)
		return rc;
	reader->ops = ops;
	rc = ops->reads_nothing ? 0 : probe(reader, report);
	if (rc < 0)
		rung__engine_end(reader);
	return rc;
}

/* Append to the list of engines in the statistics. `why` is not copied. */
static void add_step(struct rung__reader *reader, const char *name, const char *why)
{
	reader->steps[reader->step_count++] = (struct rung_engine_step){ name, why };
}

/* Record an engine that was tried and does not work, with the reason and the kernel's error. */
static void add_failed(struct rung__reader *reader, const char *name, int rc, const char *reason)
{
	char *why = reader->whys[reader->step_count], *err = strerror(-rc);

	/* the reason is cut off if necessary, not the error; 4: " (", ")" and the NUL */
	snprintf(why, RUNG__WHY_BYTES, "%.*s (%s)", (int)(RUNG__WHY_BYTES - strlen(err) - 4),
	         reason, err);
	rung__why_add(reader->engine_why, sizeof(reader->engine_why), why);
	add_step(reader, name, why);
}

/* Record the engine in use, and the features that it lacks. */
static void add_used(struct rung__reader *reader, enum rung_engine requested,
                     const struct rung__engine_report *report)
{
	if (requested == RUNG_ENGINE_PREAD)
		rung__why_add(reader->engine_why, sizeof(reader->engine_why),
		              "pread was requested");
	if (reader->ops->reads_nothing)
		rung__why_add(reader->engine_why, sizeof(reader->engine_why),
		              reader->ops->opt_in_why);
	add_step(reader, reader->ops->name, "");
	reader->report = *report;
	for (uint32_t i = 0; i < report->part_count; i++) {
		char why[RUNG__WHY_BYTES];

		if (report->parts[i].why[0]) {
			snprintf(why, sizeof(why), "no %s: %s", report->parts[i].name,
			         report->parts[i].why);
			rung__why_add(reader->engine_why, sizeof(reader->engine_why), why);
		}
	}
}

/* Whether to try an engine: the requested one, or with AUTO each one that is not opt-in. */
static bool is_wanted(const struct rung__engine_ops *ops, enum rung_engine requested)
{
	return requested == RUNG_ENGINE_AUTO ? !ops->opt_in_why : ops->id == requested;
}

/* The failure when no engine works. `rc` is the status of the last one; 0: none was tried. */
static int abandon(const struct rung__reader *reader, int rc)
{
	const enum rung_engine requested = reader->args.engine;

	/* the requested engine is not in the list: only engines that need io_uring can be
	 * missing */
	if (rc == 0)
		return rung__fail(RUNG_E_NOSUP,
		                  "%s: the requested engine needs io_uring, which is not built "
		                  "in: " RUNG_WHY_IO_URING "; use engine auto or pread",
		                  reader->path);
	if (requested == RUNG_ENGINE_AUTO || requested == RUNG_ENGINE_PREAD)
		return rung__fail(rc == -ENOMEM ? RUNG_E_NOMEM : RUNG_E_IO,
		                  "%s: no engine can read it: %s", reader->path,
		                  reader->engine_why);
	return rung__fail(RUNG_E_NOSUP, "%s: engine %s: %s; use engine auto or pread", reader->path,
	                  reader->steps[reader->step_count - 1].name, reader->engine_why);
}

int rung__engine_select(struct rung__reader *reader)
{
	const enum rung_engine requested = reader->args.engine;
	int rc = 0;

	if (!RUNG_HAVE_IO_URING && requested == RUNG_ENGINE_AUTO) {
		rung__why_add(reader->engine_why, sizeof(reader->engine_why),
		              "io_uring is not built in: " RUNG_WHY_IO_URING);
		add_step(reader, "io_uring", reader->engine_why);
	}
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(engines); i++) {
		const struct rung__engine_ops *ops = engines[i];
		struct rung__engine_report report = { .part_count = 0 };

		if (ops->reads_nothing && ops->id != requested)
			continue;
		if (!is_wanted(ops, requested)) {
			add_step(reader, ops->name,
			         ops->opt_in_why ? ops->opt_in_why
			                         : "another engine was requested");
			continue;
		}
		rc = try_engine(reader, ops, &report);
		if (rc == 0) {
			add_used(reader, requested, &report);
			return 0;
		}
		add_failed(reader, ops->name, rc, report.why);
		/* after a timeout the read can still write to the pool, so no other engine must use
		 * it */
		if (requested != RUNG_ENGINE_AUTO || rc == -ETIMEDOUT)
			break;
	}
	return abandon(reader, rc);
}

void rung__engine_end(struct rung__reader *reader)
{
	if (reader->engine)
		reader->ops->close(reader->engine);
	reader->engine = NULL;
}
