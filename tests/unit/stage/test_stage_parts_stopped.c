/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that are killed, canceled, or run out of space or memory: they continue, and no finished
 * work of another part is lost. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "parts_fixture.h"
#include "rows/stage_schedule.h"

static void unmount_and_teardown(void)
{
	char small[300];

	snprintf(small, sizeof(small), "%s/small", dir);
	umount2(small, MNT_DETACH);
	teardown();
}

TestSuite(stage_parts_stopped, .init = setup_parts, .fini = unmount_and_teardown, .timeout = 300);

/* Stages the parts in turn; each is killed at its step `k`, if it has one, and then resumed.
 * @return whether a part was killed */
static bool stage_with_kills(int k, uint32_t parts)
{
	bool killed = false;

	for (uint32_t i = 0; i < parts; i++) {
		opts.part = (i + 1) % parts; /* part 0 last */
		opts.resume = 0;
		if (stage_killed_at(k) == 1) {
			killed = true;
			opts.resume = 1;
			cr_assert_eq(stage_killed_at(0), 0, "part %u after a kill at step %d",
			             opts.part, k);
		}
	}
	return killed;
}

static void killed_anywhere(enum rung_row_order order)
{
	int k = 1 + (int)order;

	make_whole(90, 5000);
	rung__stage_range_rows_max = 12;
	opts.row_order = order;
	opts.part_count = 3;
	opts.threads = 1;
	while (stage_with_kills(k, 3)) {
		/* compares in this process: it stages nothing, so that children can */
		same_rows(3);
		no_leftovers(out);
		for (uint32_t p = 1; p < 3; p++)
			cr_assert_not(exists(folder_of(p)));
		support_remove(out);
		k += 3;
	}
	cr_assert_gt(k, 40);
}

Test(stage_parts_stopped, passes_killed_at_any_step_continue)
{
	killed_anywhere(RUNG_ROW_ORDER_PASSES);
}

Test(stage_parts_stopped, partitioned_parts_killed_at_any_step_continue)
{
	killed_anywhere(RUNG_ROW_ORDER_PARTITION);
}

/* Part 0 is killed while it moves the files and publishes; another part is then repeated. */
Test(stage_parts_stopped, a_kill_of_part_0_leaves_the_other_parts_complete)
{
	bool done = false;

	make_whole(60, 300);
	opts.part_count = 4;
	opts.threads = 1;
	for (int k = 1; !done; k++) {
		opts.resume = 0;
		for (opts.part = 3; opts.part > 0; opts.part--)
			cr_assert_eq(stage_killed_at(0), 0);
		done = stage_killed_at(k) == 0;
		opts.resume = 1;
		opts.part = 2;
		cr_assert_eq(stage_killed_at(0), 0, "part 2 after a kill of part 0 at step %d", k);
		opts.part = 0;
		cr_assert_eq(stage_killed_at(0), 0, "after a kill at step %d", k);
		same_rows(4);
		no_leftovers(out);
		for (uint32_t p = 1; p < 4; p++)
			cr_assert_not(exists(folder_of(p)), "part %u, step %d", p, k);
		support_remove(out);
	}
}

static int moves;

static void kill_after_moves(const char *step)
{
	if (strcmp(step, "move") == 0 && moves++ == stop_step)
		kill(getpid(), SIGKILL);
}

/* Part 0 is killed after it has moved files of other parts, and discarded. */
Test(stage_parts_stopped, force_of_part_0_keeps_the_rows_of_the_other_parts)
{
	make_whole(60, 300);
	opts.part_count = 4;
	opts.threads = 1;
	for (int moved = 0; moved < 3; moved++) {
		pid_t child;
		int status;

		opts.resume = opts.force = 0;
		for (opts.part = 3; opts.part > 0; opts.part--)
			cr_assert_eq(stage_killed_at(0), 0);
		stop_step = moved;
		child = fork();
		if (child == 0) {
			rung__stage_step_hook = kill_after_moves;
			_exit(-rung_stage(&opts, NULL));
		}
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert(WIFSIGNALED(status));
		opts.force = 1;
		cr_assert_eq(stage_killed_at(0), 0, "after %d moves", moved);
		same_rows(4);
		no_leftovers(out);
		support_remove(out);
	}
}

static int stop_at_features(void *ctx, const char *what, unsigned long long done,
                            unsigned long long total)
{
	(void)ctx;
	return strcmp(what, "features") == 0 && done > total / 2;
}

Test(stage_parts_stopped, a_canceled_part_continues_where_it_stopped)
{
	struct rung_stage_report report;

	make_whole(400, 5000);
	rung__stage_range_rows_max = 30;
	opts.row_order = RUNG_ROW_ORDER_GATHER;
	opts.part_count = 2;
	opts.part = 1;
	opts.progress = stop_at_features;
	assert_error(stage_part(1), RUNG_E_CANCELED, "canceled");
	opts.progress = NULL;
	assert_error(stage_part(1), RUNG_E_EXIST, folder_of(1));
	opts.resume = 1;
	assert_error(stage_part(0), RUNG_E_NOENT, "not: 1 (unfinished); ");
	opts.part = 1;
	cr_assert_eq(rung_stage(&opts, &report), 0, "%s", rung_last_error());
	cr_assert(report.resumed && report.rows_resumed >= 60 && report.rows_resumed < 200);
	cr_assert_eq(report.already_staged, 0);
	part_is_staged(0);
	is_whole(2);
}

Test(stage_parts_stopped, a_part_continues_after_a_file_size_limit)
{
	struct rlimit limit = { 100000, RLIM_INFINITY };

	make_whole(400, 1000);
	signal(SIGXFSZ, SIG_IGN);
	opts.part_count = 2;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_error(stage_part(1), RUNG_E_NOSPC, "features.001.npy");
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	opts.resume = 1;
	part_is_staged(1);
	part_is_staged(0);
	is_whole(2);
}

/* A full device has room for one part, but not for all rows. */
Test(stage_parts_stopped, space_is_checked_for_the_part)
{
	char small[300], target[320];

	make_whole(4000, 200);
	snprintf(small, sizeof(small), "%s/small", dir);
	cr_assert_eq(mkdir(small, 0777), 0);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", small, "tmpfs", 0, "size=700k") < 0)
		cr_skip_test("cannot mount a tmpfs: %s", strerror(errno));
	snprintf(target, sizeof(target), "%s/ds", small);
	opts.out_dir = target;
	opts.part_count = 4;
	part_is_staged(1);
	part_is_staged(2);
	assert_error(stage_part(3), RUNG_E_NOSPC, "are free; free");
	opts.part_count = opts.part = 0;
	assert_error(rung_stage(&opts, NULL), RUNG_E_NOSPC, "are free; free");
}

Test(stage_parts_stopped, nothing_leaks_whichever_allocation_fails)
{
	int64_t allowed = 0;
	int rc, fds;

	make_whole(60, 30);
	opts.threads = 1;
	opts.part_count = 3;
	opts.resume = 1;
	for (uint32_t p = 3; p-- > 0;)
		part_is_staged(p);
	fds = support_open_descriptors();
	for (uint32_t p = 3; p-- > 0;) {
		support_remove(out);
		for (uint32_t other = 2; other > p; other--)
			part_is_staged(other);
		if (p == 0)
			part_is_staged(1);
		opts.part = p;
		allowed = 0;
		do {
			rung__alloc_limit(allowed++);
			rc = rung_stage(&opts, NULL);
			rung__alloc_limit(-1);
			cr_assert(rc == 0 || rc == RUNG_E_NOMEM, "%d %s", rc, rung_last_error());
			cr_assert_eq(support_open_descriptors(), fds);
		} while (rc < 0);
		cr_assert_gt(allowed, 20);
	}
	cr_assert(opens(out));
}
