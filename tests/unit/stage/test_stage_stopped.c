/* SPDX-License-Identifier: Apache-2.0 */
/* Staging that is canceled, killed, or runs out of space or memory: only a complete dataset must
 * open afterwards. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "folder/stage_publish.h"
#include "rows/stage_schedule.h"
#include "base/base.h"
#include "stage_killed.h"

/* A mount point must be unmounted before its removal; most tests have none. */
static void unmount_and_teardown(void)
{
	char small[300];

	snprintf(small, sizeof(small), "%s/small", dir);
	umount2(small, MNT_DETACH);
	teardown();
}

TestSuite(stage_stopped, .init = setup, .fini = unmount_and_teardown, .timeout = 300);

static struct {
	int calls, stop_at;
	int seen_graph, seen_score, seen_features, seen_files;
} progress;

static int count_progress(void *ctx, const char *step, unsigned long long done,
                          unsigned long long total)
{
	(void)ctx;
	(void)done;
	(void)total;
	progress.seen_graph |= strcmp(step, "graph") == 0;
	progress.seen_score |= strcmp(step, "score") == 0;
	progress.seen_features |= strcmp(step, "features") == 0;
	progress.seen_files |= strcmp(step, "files") == 0;
	return ++progress.calls == progress.stop_at;
}

/* Work is kept only once ranks are known, in a folder that does not open. */
static void left_nothing_or_a_journal(void)
{
	char journal[340];

	snprintf(journal, sizeof(journal), "%s/journal", partial);
	cr_assert_not(exists(out));
	cr_assert_eq(exists(partial), exists(journal));
	cr_assert_not(opens(partial));
}

Test(stage_stopped, a_run_canceled_at_any_call_leaves_nothing_or_can_be_resumed)
{
	int calls, kept = 0;

	opts.threads = 1; /* one thread makes the same calls each time */
	opts.progress = count_progress;
	cr_assert_eq(rung_stage(&opts, NULL), 0);
	cr_assert(progress.seen_graph && progress.seen_score && progress.seen_features &&
	          progress.seen_files);
	calls = progress.calls;
	cr_assert_gt(calls, 10);
	support_remove(out);
	for (int k = 1; k <= calls; k++) {
		progress.calls = 0;
		progress.stop_at = k;
		cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED);
		cr_assert(strstr(rung_last_error(), "canceled"), "%s", rung_last_error());
		left_nothing_or_a_journal();
		kept += exists(partial);
		support_remove(partial);
	}
	cr_assert(kept > 3 && kept < calls - 3);
}

static int kill_at_progress(void *ctx, const char *step, unsigned long long done,
                            unsigned long long total)
{
	(void)ctx;
	(void)step;
	(void)done;
	(void)total;
	kill_at_step("progress");
	return 0;
}

/* Stages in a child that is killed at its k-th step or progress call. @return true if it finished
 * before that */
static bool stage_ends(int k)
{
	int status;

	opts.progress = kill_at_progress;
	status = stage_killed_at(k);
	cr_assert(status == 0 || status == 1, "killed at %d: %s", k, rung_status_name(status));
	return status == 0;
}

static bool has_score_method(const char *path, const char *method)
{
	struct rung_dataset *ds = NULL;
	bool has;

	if (rung_dataset_open(path, &ds) < 0)
		return false;
	has = strcmp(rung_dataset_info(ds)->score_method, method) == 0;
	rung_dataset_close(ds);
	return has;
}

/* The next run must succeed whatever state a kill leaves. All runs are in children, because OpenMP
 * does not survive a fork. */
Test(stage_stopped, a_run_killed_at_any_step_leaves_no_incomplete_folder_that_opens)
{
	int k = 1, whole = 0;

	opts.threads = 1;
	for (bool done = false; !done; k += 3) {
		done = stage_ends(k);
		cr_assert_not(opens(partial), "step %d", k);
		if (exists(out)) {
			cr_assert(opens(out), "step %d", k);
			whole++;
			support_remove(out);
		}
		opts.resume = 1;
		cr_assert(stage_ends(0), "the run after a kill at step %d", k);
		opts.resume = 0;
		cr_assert(opens(out));
		cr_assert_not(exists(partial), "step %d", k);
		support_remove(out);
	}
	cr_assert_gt(k, 50);
	cr_assert_lt(whole, 5, "the folder must get its name at the end");
}

static void killed_while_replacing(bool plain)
{
	int k = 1 + plain;

	opts.threads = 1;
	cr_assert(stage_ends(0));
	opts.force = 1;
	opts.score.method = RUNG_SCORE_DEGREE;
	rung__stage_plain_rename = plain;
	for (bool done = false; !done; k += 3) {
		bool old, new;

		done = stage_ends(k);
		old = has_score_method(out, "blend");
		new = has_score_method(out, "degree");
		/* two renames are not atomic: between them the old folder has another name, and the
		 * next run restores it */
		cr_assert(old || new || (plain && exists(aside)), "step %d", k);
		cr_assert_not(opens(partial), "step %d", k);
		cr_assert_not(opens(aside), "step %d", k);
		/* resumes where a run can be resumed, otherwise starts from scratch */
		opts.resume = 1;
		cr_assert(stage_ends(0), "the run after a kill at step %d", k);
		opts.resume = 0;
		cr_assert(has_score_method(out, "degree"));
		cr_assert_not(exists(partial), "step %d", k);
		cr_assert_not(exists(aside), "step %d", k);
		opts.score.method = RUNG_SCORE_DEFAULT;
		cr_assert(stage_ends(0));
		opts.score.method = RUNG_SCORE_DEGREE;
	}
	cr_assert_gt(k, 50);
}

Test(stage_stopped, a_run_killed_while_replacing_leaves_one_of_the_datasets)
{
	killed_while_replacing(false);
}

Test(stage_stopped, without_exchange_of_folders_the_old_dataset_is_restored)
{
	killed_while_replacing(true);
}

Test(stage_stopped, a_run_resumes_after_a_file_size_limit)
{
	struct rlimit limit = { 100000, RLIM_INFINITY };

	cr_assert_eq(support_sources(dir, 3000, 5000, 100, 1), 0);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(rung_stage(&opts, NULL), RUNG_E_NOSPC, "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "features.000.npy"), "%s", rung_last_error());
	left_nothing_or_a_journal();
	cr_assert(exists(partial));
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	opts.resume = 1;
	cr_assert_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
	no_leftovers(out);
}

/* Mounts a file system of `kib` KiB at `small`, which disappears with this process. */
static void mount_small(char small[300], unsigned kib)
{
	char options[32];

	snprintf(small, 300, "%s/small", dir);
	snprintf(options, sizeof(options), "size=%uk", kib);
	cr_assert_eq(mkdir(small, 0777), 0);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", small, "tmpfs", 0, options) < 0)
		cr_skip_test("cannot mount a tmpfs: %s", strerror(errno));
}

/* Creates two folders in it. */
static void make_two(const char *small, char a[310], char b[310])
{
	snprintf(a, 310, "%s/a", small);
	snprintf(b, 310, "%s/b", small);
	cr_assert_eq(mkdir(a, 0777) + mkdir(b, 0777), 0);
}

Test(stage_stopped, a_full_device_is_reported_before_anything_is_written)
{
	char small[300], target[320];

	mount_small(small, 256);
	cr_assert_eq(support_sources(dir, 3000, 5000, 100, 1), 0);
	snprintf(target, sizeof(target), "%s/ds", small);
	opts.out_dir = target;
	cr_expect_eq(rung_stage(&opts, NULL), RUNG_E_NOSPC);
	cr_expect(strstr(rung_last_error(), "bytes, but 262144 are free"), "%s", rung_last_error());
	cr_expect_not(exists(target));
	snprintf(target, sizeof(target), "%s/ds.partial", small);
	cr_expect_not(exists(target));
}

static bool is_empty(const char *folder)
{
	return rmdir(folder) == 0 && mkdir(folder, 0777) == 0;
}

/* Neither the run nor its dry run must write anything. */
static void has_no_room(const char *words)
{
	for (opts.dry_run = 1; opts.dry_run >= 0; opts.dry_run--) {
		assert_error(rung_stage(&opts, NULL), RUNG_E_NOSPC, words);
		assert_error(rung_stage(&opts, NULL), RUNG_E_NOSPC, "are free; free");
		for (size_t i = 0; i < opts.stripe_count; i++)
			cr_expect(is_empty(opts.stripe_dirs[i]));
		cr_expect_not(exists(opts.out_dir));
	}
	opts.dry_run = 0;
}

/* Each of the folders would fit alone. */
Test(stage_stopped, space_for_folders_on_one_device_is_summed)
{
	char small[300], a[310], b[310], wide[310], target[310], words[700];
	const char *folders[2] = { a, b };

	mount_small(small, 512);
	make_two(small, a, b);
	snprintf(wide, sizeof(wide), "%s/wide", dir);
	snprintf(target, sizeof(target), "%s/ds", small);
	cr_assert_eq(mkdir(wide, 0777), 0);
	cr_assert_eq(support_sources(dir, 6000, 3000, 100, 1), 0);
	opts.stripe_dirs = folders;
	opts.stripe_count = 2;
	snprintf(words, sizeof(words), "%s, %s: staging needs ", a, b);
	has_no_room(words);
	cr_assert_eq(support_sources(dir, 3500, 3000, 100, 1), 0);
	opts.stripe_count = 1;
	opts.out_dir = target;
	snprintf(words, sizeof(words), "%s, %s: staging needs ", target, a);
	has_no_room(words);
	folders[0] = wide; /* another device has enough space */
	cr_expect_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
}

static int stop_at_features(void *ctx, const char *what, unsigned long long done,
                            unsigned long long total)
{
	(void)ctx;
	return strcmp(what, "features") == 0 && done > total / 2;
}

/* Space that the stopped run has reserved is available to the run that resumes it. */
Test(stage_stopped, space_reserved_by_stripes_is_not_required_again)
{
	char small[300], a[310], b[310];
	const char *const folders[2] = { a, b };

	mount_small(small, 1024);
	make_two(small, a, b);
	cr_assert_eq(support_sources(dir, 6000, 3000, 100, 1), 0);
	opts.stripe_dirs = folders;
	opts.stripe_count = 2;
	opts.row_order = RUNG_ROW_ORDER_PASSES;
	rung__stage_range_rows_max = 1000;
	opts.progress = stop_at_features;
	cr_expect_eq(rung_stage(&opts, NULL), RUNG_E_CANCELED, "%s", rung_last_error());
	cr_expect_not(is_empty(a));
	opts.progress = NULL;
	opts.resume = 1;
	cr_expect_eq(rung_stage(&opts, NULL), 0, "%s", rung_last_error());
}

Test(stage_stopped, nothing_leaks_whichever_allocation_fails)
{
	int64_t allowed = 0;
	int rc, fds;

	opts.threads = 1;
	/* libraries have now opened the descriptors that they keep */
	cr_assert_eq(rung_stage(&opts, NULL), 0);
	support_remove(out);
	fds = support_open_descriptors();
	do {
		rung__alloc_limit(allowed++);
		rc = rung_stage(&opts, NULL);
		rung__alloc_limit(-1);
		cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d %s", rc, rung_last_error());
		cr_assert_eq(exists(out), rc == 0);
		if (rc < 0)
			left_nothing_or_a_journal();
		support_remove(partial);
		cr_assert_eq(support_open_descriptors(), fds);
	} while (rc < 0);
	cr_assert_gt(allowed, 40);
}
