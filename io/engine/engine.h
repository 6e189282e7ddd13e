/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An engine keeps many reads of one file in flight. The file reader uses the best engine that
 * works.
 *
 * There are four, best first: `nvme`, `io_uring_poll`, `io_uring`, `pread`. `nvme` sends NVMe
 * commands directly; it queries the file's extents only once, so it is opt-in. `io_uring_poll`
 * polls, which keeps a core busy, so it is opt-in too. `pread` uses a pool of threads. An engine is
 * accepted only after a read through it has returned the same bytes as pread(). The statistics list
 * the refused engines and features, with reasons, in engine_steps and engine_parts. tests/vm/ runs
 * all four on emulated NVMe disks of both block sizes. Two more, `null` and `null_instant`, read
 * nothing; they measure what the rest costs.
 *
 * A ring is created by the thread that uses it, with DEFER_TASKRUN, else COOP_TASKRUN, else
 * neither. Pool, file and ring descriptor are registered one by one, and the kernel can refuse each
 * registration.
 */
#ifndef RUNG_IO_ENGINE_H
#define RUNG_IO_ENGINE_H

#include "tier/reader.h"

struct rung__engine;

/** The file and the pool are borrowed: both stay valid until the engine is closed. */
struct rung__engine_args {
	int fd;               /* the file, opened with or without O_DIRECT */
	unsigned char *pool;  /* [pool_bytes], page-aligned: the destination of all reads */
	uint64_t pool_bytes;  /* size of the pool, which the engine may register with the kernel */
	uint32_t queue_depth; /* maximum number of reads in flight */
};

#define RUNG__WHY_BYTES 320 /* size of a reason, including the NUL; longer ones are cut off */

/** The outcome of opening an engine. */
struct rung__engine_report {
	char why[RUNG__WHY_BYTES]; /* on failure: the reason */
	/* features that make the engine faster, each with the reason if it is missing; constant
	 * texts */
	struct rung_engine_step parts[RUNG_ENGINE_STEPS_MAX];
	uint32_t part_count;
};

struct rung__engine_ops {
	const char *name;
	enum rung_engine id;    /* its public identifier */
	const char *opt_in_why; /* NULL: tried by default; otherwise the reason why it is opt-in */
	/* text for EOPNOTSUPP at the first read; NULL: the error has no special meaning */
	const char *unsupported;
	bool direct; /* it bypasses the page cache, whatever the flags of the descriptor are */
	/* it maps the file to positions on the disk: the probe checks several places */
	bool maps;
	bool reads_nothing; /* for measurements: it is not probed, and only used if it is named */
	/**
	 * Called by the thread that will submit and reap.
	 * @param report  zeroed
	 * @return 0, or -errno with report->why and with all resources released
	 */
	int (*open)(const struct rung__engine_args *args, struct rung__engine **engine_out,
	            struct rung__engine_report *report);
	void (*close)(struct rung__engine *engine);
	/* as in rung__reader_ops */
	int (*submit)(struct rung__engine *engine, const struct rung__fetch *fetch);
	int (*reap)(struct rung__engine *engine, uint32_t want, uint64_t timeout_ns,
	            struct rung__fetched *fetched, uint32_t max);
};

/** Record why an engine cannot be opened; returns `rc`. */
int rung__engine_refuse(struct rung__engine_report *report, int rc, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Append a reason to a list of reasons, which "; " separates; "" is ignored. Text that does not
 * fit is cut off. */
void rung__why_add(char *whys, size_t size, const char *why);

#include "rung_config.h"
#if RUNG_HAVE_IO_URING
extern const struct rung__engine_ops rung__engine_nvme, rung__engine_io_uring_poll,
	rung__engine_io_uring, rung__engine_null;
#endif
extern const struct rung__engine_ops rung__engine_pread, rung__engine_null_instant;

/** The reader of features files, with one engine per file. Defined in file_reader.c. */
extern const struct rung__reader_ops rung__file_reader;

#endif
