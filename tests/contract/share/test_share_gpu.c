/* SPDX-License-Identifier: Apache-2.0 */
/* Stores with rows in GPU memory, shared between processes. CUDA IPC needs two processes, so one
 * end is always a child. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect_error.h"
#include "share_child.h"
#include "share_fixture.h"

static struct share_fixture s;

static void set_up(void)
{
	if (!fixture_on_cuda())
		cr_skip_test("RUNG_TEST_DEVICE names no GPU tiers");
	share_fixture_open(&s);
}

static void tear_down(void)
{
	share_fixture_close(&s);
}

TestSuite(share_gpu, .init = set_up, .fini = tear_down);

/* Whether rows are in the GPU memory of one process and read there by others. */
static bool has_peer_rows(void)
{
	return rung_plan_tier(s.base.plan, fixture_tier(&s.base, "peer"))->row_count > 0;
}

Test(share_gpu, several_processes_gather_at_the_same_time)
{
	struct rung_store *creator = share_fixture_create(&s);

	share_fixture_compete(&s, creator, 2, 5);
	rung_store_close(creator);
}

Test(share_gpu, a_killed_attacher_does_not_disturb_the_others)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child killed, child;

	cr_assert_eq(share_child_start(&killed, "attach", s.path, s.base.dir), 0, "%s",
	             killed.line);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&killed, "go"), 0);
	share_child_kill(&killed);
	cr_assert_eq(share_child_ask(&child, "gather 4"), 0, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	share_fixture_check(&s, creator, 1);
	rung_store_close(creator);
}

/* Its GPU memory is freed with it: processes that read rows there get an error, the others do not
 * notice. */
Test(share_gpu, readers_of_its_gpu_memory_notice_a_killed_creator)
{
	struct share_child creator, child;
	int wanted = has_peer_rows() ? RUNG_E_NODEV : 0;

	cr_assert_eq(share_child_start(&creator, "create", s.path, s.base.dir), 0, "%s",
	             creator.line);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "gather 1"), 0, "%s", child.line);
	share_child_kill(&creator);
	cr_assert_eq(share_child_ask(&child, "gather 2"), wanted, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "gather 3"), wanted, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0); /* which closes its store first */
}

static struct rung_store *closing;

static void *close_store(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)rung_store_close(closing);
}

/* A simulated GPU aborts the process that frees memory while another process has it open. */
Test(share_gpu, closing_waits_for_processes_that_read_its_memory)
{
	int refused = has_peer_rows() ? RUNG_E_NODEV : 0;
	struct share_child child;
	pthread_t thread;
	void *rc;

	closing = share_fixture_create(&s);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "submit 1"), 0, "%s", child.line);
	cr_assert_eq(pthread_create(&thread, NULL, close_store, NULL), 0);
	cr_assert_eq(share_child_ask(&child, "finish"), 0, "%s", child.line);
	/* until the close begins: after that no gather starts */
	while (share_fixture_is_shared(&s))
		sched_yield();
	cr_assert_eq(share_child_ask(&child, "gather 2"), refused, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	cr_assert_eq(pthread_join(thread, &rc), 0);
	cr_assert_eq((intptr_t)rc, 0, "%s", rung_last_error());
}

Test(share_gpu, closing_leaves_memory_that_a_stopped_process_has_open)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child child;

	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), 0, "%s", child.line);
	cr_assert_eq(kill(child.pid, SIGSTOP), 0);
	if (has_peer_rows()) {
		assert_error(rung_store_close(creator), RUNG_E_TIMEDOUT,
		             "is still open in attached "
		             "processes after 5 s; it stays allocated until this process ends");
	} else {
		cr_assert_eq(rung_store_close(creator), 0, "%s", rung_last_error());
	}
	cr_assert_eq(kill(child.pid, SIGCONT), 0);
	cr_assert_eq(share_child_ask(&child, "gather 2"), has_peer_rows() ? RUNG_E_NODEV : 0, "%s",
	             child.line);
	cr_assert_eq(share_child_end(&child), 0);
}

Test(share_gpu, a_driver_without_read_only_registration_is_reported)
{
	struct share_child child;
	struct rung_gpu_info info = { .size = sizeof(info) };

	cr_assert_eq(rung_gpu_info(-1, &info), 0);
	if (!strstr(info.name, "imulated"))
		cr_skip_test("the test cannot choose what a real GPU registers");
	setenv("RUNG_SIM_READ_ONLY", "0", 1);
	cr_assert_eq(share_child_start(&child, "create", s.path, s.base.dir), RUNG_E_NOSUP, "%s",
	             child.line);
	cr_assert(strstr(child.line, "open the store without share_path"), "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	unsetenv("RUNG_SIM_READ_ONLY");
}

Test(share_gpu, a_process_without_a_gpu_gets_an_error)
{
	struct rung_store *creator = share_fixture_create(&s);
	struct share_child child;

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	setenv("RUNG_SIM_GPUS", "0", 1);
	cr_assert_eq(share_child_start(&child, "attach", s.path, s.base.dir), RUNG_E_NODEV, "%s",
	             child.line);
	cr_assert(strstr(child.line, "cuda: looking for GPUs"), "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("RUNG_SIM_GPUS");
	rung_store_close(creator);
}

static int attach_to_gpu(struct share_child *child, const char *gpu)
{
	int rc;

	setenv("RUNG_TEST_ATTACH_GPU", gpu, 1);
	rc = share_child_start(child, "attach", s.path, s.base.dir);
	unsetenv("RUNG_TEST_ATTACH_GPU");
	return rc;
}

Test(share_gpu, an_attacher_may_choose_its_gpu)
{
	struct rung_store *creator = share_fixture_create(&s), *store;
	struct rung_store_opts opts = { .size = sizeof(opts) };
	struct rung_gpu_info info = { .size = sizeof(info) };
	const char *last = rung_gpu_info(1, &info) == 0 ? "1" : "0";
	struct share_child child;

	cr_assert_eq(attach_to_gpu(&child, last), 0, "%s", child.line);
	cr_assert_eq(share_child_ask(&child, "gpu"), atoi(last));
	cr_assert_eq(share_child_ask(&child, "gather 3"), 0, "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	cr_assert_eq(attach_to_gpu(&child, "77"), RUNG_E_NODEV, "%s", child.line);
	cr_assert(strstr(child.line, "GPU 77 does not exist"), "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	cr_assert_eq(attach_to_gpu(&child, "-2"), RUNG_E_INVAL, "%s", child.line);
	cr_assert(strstr(child.line, "gpu -2 is not valid; give a GPU's number"), "%s", child.line);
	cr_assert_eq(share_child_end(&child), 0);
	rung_store_close(creator);
	opts.gpu = &info.node; /* any GPU number */
	cr_assert_eq(rung_store_open(s.base.ds, s.base.plan, &opts, &store), RUNG_E_INVAL);
	cr_assert(strstr(rung_last_error(), "is only for rung_store_attach()"), "%s",
	          rung_last_error());
}
