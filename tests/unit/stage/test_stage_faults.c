/* SPDX-License-Identifier: Apache-2.0 */
/* Staging on failing devices: the calls that read, write and sync are replaced here and fail once
 * at a chosen call. The resumed run must write the same bytes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "stage_fixture.h"
#include "rows/stage_schedule.h"
#include "stage/stage_memory.h"

TestSuite(stage_faults, .init = setup, .fini = teardown, .timeout = 300);

enum call { CALL_READ, CALL_WRITE, CALL_SYNC, CALL_KINDS };

static atomic_int calls[CALL_KINDS];
static atomic_int fail_at[CALL_KINDS]; /* 0: never */
static int fail_errno;                 /* 0: the call transfers half of the bytes */

static bool fails_now(enum call kind)
{
	const int at = atomic_load(&fail_at[kind]);

	return atomic_fetch_add(&calls[kind], 1) + 1 == at;
}

/* Definitions in the program take precedence over libc's. Half of a call is a number of whole
 * pages, as with devices, or a few bytes. */
static ssize_t move(long number, enum call kind, int fd, void *buf, size_t bytes, off_t offset)
{
	if (fails_now(kind)) {
		if (fail_errno) {
			errno = fail_errno;
			return -1;
		}
		bytes = bytes > 8192 ? bytes / 2 / 4096 * 4096 : (bytes + 1) / 2;
	}
	return syscall(number, fd, buf, bytes, offset);
}

ssize_t pread(int fd, void *buf, size_t bytes, off_t offset)
{
	return move(SYS_pread64, CALL_READ, fd, buf, bytes, offset);
}

ssize_t pwrite(int fd, const void *buf, size_t bytes, off_t offset)
{
	return move(SYS_pwrite64, CALL_WRITE, fd, (void *)(uintptr_t)buf, bytes, offset);
}

ssize_t pread64(int fd, void *buf, size_t bytes, off_t offset)
{
	return pread(fd, buf, bytes, offset);
}

ssize_t pwrite64(int fd, const void *buf, size_t bytes, off_t offset)
{
	return pwrite(fd, buf, bytes, offset);
}

static struct {
	struct stat folder;
	/* the folder was synced; a journal was synced before the folder */
	bool synced, journal_before;
} watched;

static void watch_sync(int fd)
{
	char link[40], target[500] = "";
	struct stat st;

	if (watched.folder.st_ino == 0 || fstat(fd, &st) < 0)
		return;
	watched.synced |= st.st_ino == watched.folder.st_ino && st.st_dev == watched.folder.st_dev;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, target, sizeof(target) - 1) > 0 && strstr(target, "/journal"))
		watched.journal_before |= !watched.synced;
}

static int sync_by(long number, int fd)
{
	watch_sync(fd);
	if (fails_now(CALL_SYNC)) {
		errno = fail_errno ? fail_errno : EIO;
		return -1;
	}
	return (int)syscall(number, fd);
}

int fsync(int fd)
{
	return sync_by(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return sync_by(SYS_fdatasync, fd);
}

static int interruptions_max; /* signals that interrupt the reservation of a file */
static int interruptions, reserved;

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	if (interruptions_max > 0 && mode == 0) {
		if (interruptions++ % (interruptions_max + 1) < interruptions_max) {
			errno = EINTR;
			return -1;
		}
		reserved++;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

int fallocate64(int fd, int mode, off_t offset, off_t bytes)
{
	return fallocate(fd, mode, offset, bytes);
}

static char reference[310];

static void setup_ranges(void)
{
	cr_assert_eq(support_sources(dir, 300, 900, 5000, 3), 0);
	snprintf(reference, sizeof(reference), "%s/reference", dir);
	opts.out_dir = reference;
	opts.score.method = RUNG_SCORE_DEGREE;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	opts.out_dir = out;
	rung__stage_range_rows_max = 70;
	rung__stage_graph_in_files = true;
}

/* Stages with the `at`-th call failing. @return the status */
static int stage_with(enum call kind, int at, int err)
{
	int rc;

	for (int i = 0; i < CALL_KINDS; i++)
		calls[i] = 0;
	fail_errno = err;
	fail_at[kind] = at;
	rc = rung_stage(&opts, NULL);
	fail_at[kind] = 0;
	return rc;
}

/* Makes every `step`-th call of an undisturbed run fail. */
static void fails_and_goes_on(enum call kind, int err, int status, int step)
{
	int failures = 0, last;

	setup_ranges();
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		opts.resume = 0;
		cr_assert_eq(stage_with(kind, 0, 0), 0, "%s", rung_last_error());
		last = calls[kind];
		cr_assert_gt(last, 10);
		for (int at = 1 + plan; at <= last; at += step) {
			int rc;

			support_remove(out);
			opts.resume = 0;
			rc = stage_with(kind, at, err);
			if (rc < 0) {
				cr_assert_eq(rc, status, "call %d: %s", at, rung_last_error());
				cr_assert(strstr(rung_last_error(), strerror(err)), "call %d: %s",
				          at, rung_last_error());
				failures++;
			}
			cr_assert_not(opens(partial));
			/* even if the last sync failed, after the rename */
			if (rc < 0) {
				opts.resume = 1;
				cr_assert_eq(rung_stage(&opts, NULL), 0, "call %d: %s", at,
				             rung_last_error());
			}
			same_files(reference, out);
			no_leftovers(out);
		}
		support_remove(out);
	}
	cr_assert_gt(failures, 5);
}

Test(stage_faults, a_run_resumes_after_a_full_device)
{
	fails_and_goes_on(CALL_WRITE, ENOSPC, RUNG_E_NOSPC, 13);
}

Test(stage_faults, a_run_resumes_after_a_failed_write)
{
	fails_and_goes_on(CALL_WRITE, EIO, RUNG_E_IO, 17);
}

Test(stage_faults, a_run_resumes_after_a_failed_read)
{
	fails_and_goes_on(CALL_READ, EIO, RUNG_E_IO, 23);
}

Test(stage_faults, a_run_resumes_after_a_failed_sync)
{
	fails_and_goes_on(CALL_SYNC, EIO, RUNG_E_IO, 7);
}

/* Otherwise a power failure could lose the name of a folder that has the journal and files of hours
 * of work. */
Test(stage_faults, the_folder_is_synced_into_its_parent_before_the_journal)
{
	setup_ranges();
	cr_assert_eq(stat(dir, &watched.folder), 0);
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert(watched.synced);
	cr_assert_not(watched.journal_before);
}

/* The same if a features file is rebuilt in the folder that its link points to. */
Test(stage_faults, the_folder_of_a_repaired_file_is_synced)
{
	struct rung_verify_opts verify = RUNG_VERIFY_OPTS_INIT;
	struct rung_verify_report report = { 0 };
	char one[300], two[300], target[500] = "", name[400];
	const char *folders[] = { one, two };

	snprintf(one, sizeof(one), "%s/one", dir);
	snprintf(two, sizeof(two), "%s/two", dir);
	cr_assert(mkdir(one, 0777) == 0 && mkdir(two, 0777) == 0);
	opts.stripe_dirs = folders;
	opts.stripe_count = 2;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	snprintf(name, sizeof(name), "%s/features.001.npy", out);
	cr_assert(readlink(name, target, sizeof(target) - 1) > 0 && unlink(target) == 0);
	cr_assert_eq(stat(two, &watched.folder), 0);
	verify.repair = 1;
	verify.source = features;
	cr_assert_eq(rung_dataset_verify(out, &verify, &report), 0, "%s", rung_last_error());
	cr_assert(report.repaired_count > 0 && exists(target));
	cr_assert(watched.synced);
	rung_verify_report_fini(&report);
}

/* A short read or write is not a failure: it is continued. */
Test(stage_faults, short_reads_and_writes_are_continued)
{
	setup_ranges();
	for (int plan = RUNG_ROW_ORDER_PASSES; plan <= RUNG_ROW_ORDER_GATHER; plan++) {
		opts.row_order = (enum rung_row_order)plan;
		for (int kind = CALL_READ; kind <= CALL_WRITE; kind++) {
			for (int at = 1; at < 40; at += 11) {
				cr_assert_eq(stage_with((enum call)kind, at, 0), 0, "call %d: %s",
				             at, rung_last_error());
				same_files(reference, out);
				support_remove(out);
			}
		}
	}
}

/* A signal interrupts fallocate() on tmpfs. */
Test(stage_faults, interrupted_reservations_are_tried_again)
{
	setup_ranges();
	interruptions_max = 3;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	cr_assert_gt(reserved, 5);
	cr_assert_eq(interruptions, 4 * reserved);
	same_files(reference, out);
	support_remove(out);
	interruptions_max = INT_MAX - 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_files(reference, out);
}

static int cut_source(void *ctx, const char *name, unsigned long long done,
                      unsigned long long total)
{
	(void)ctx;
	(void)done;
	(void)total;
	if (strcmp(name, "features") == 0)
		cr_assert_eq(truncate(features, 900000), 0);
	return 0;
}

/* A file that is truncated after the first range counts as a different file when the run is
 * resumed. */
Test(stage_faults, a_source_that_shrinks_while_it_is_read_is_reported)
{
	setup_ranges();
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	opts.progress = cut_source;
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_IO);
	cr_assert(strstr(rung_last_error(), "features.npy: ends at offset") &&
	                  strstr(rung_last_error(), "truncated"),
	          "%s", rung_last_error());
	cr_assert_not(exists(out));
	opts.progress = NULL;
	opts.resume = 1;
	/* the header claims more rows than the file has */
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_FORMAT);
	cr_assert_eq(support_sources(dir, 300, 900, 5000, 3), 0);
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "another job"), "%s", rung_last_error());
	opts.force = 1;
	opts.resume = 0;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	same_files(reference, out);
}
