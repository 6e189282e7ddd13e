/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching to a store with a structure: offers whose structure is malformed are refused. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect_error.h"
#include "share_fixture.h"
#include "store/structure.h"

static struct share_fixture s;
static struct rung_store *creator;
static struct share_message good; /* as the creator sends it */
static char impostor[450];        /* a socket in the creator's folder */
static int listen_fd;

static void set_up(void)
{
	struct rung_plan_opts plan_opts = RUNG_PLAN_OPTS_INIT;
	struct rung_store_opts opts = RUNG_STORE_OPTS_INIT;
	struct rung_plan *plan;

	share_fixture_open(&s);
	plan_opts.device = RUNG_DEVICE_CPU;
	plan_opts.host_bytes = 4u << 20;
	plan_opts.cache_bytes = RUNG_BYTES_NONE;
	plan_opts.structure_bytes = 20000;
	cr_assert_eq(rung_plan_create(s.base.ds, &plan_opts, &plan), 0, "%s", rung_last_error());
	opts.share_path = s.path;
	cr_assert_eq(rung_store_open(s.base.ds, plan, &opts, &creator), 0, "%s", rung_last_error());
	rung_plan_destroy(plan);
	cr_assert_eq(share_message_receive(s.path, &good), (ssize_t)sizeof(good.offer));
	cr_assert(good.offer.lists.present && good.offer.lists.edge_count > 0);
	cr_assert_gt(good.offer.lists.shape.tiers[RUNG__TIER_HOST].row_count, 0);
	snprintf(impostor, sizeof(impostor), "%s/impostor", s.folder);
	listen_fd = share_impostor_listen(impostor, 16);
}

static void tear_down(void)
{
	close(listen_fd);
	share_message_close(&good);
	rung_store_close(creator);
	share_fixture_close(&s);
}

TestSuite(share_structure, .init = set_up, .fini = tear_down);

static void *answer(void *message)
{
	share_impostor_answer(listen_fd, message);
	return NULL;
}

static int attach_to(struct share_message *message, struct rung_store **store_out)
{
	pthread_t thread;
	int rc;

	pthread_create(&thread, NULL, answer, message);
	rc = rung_store_attach(impostor, NULL, store_out);
	pthread_join(thread, NULL);
	return rc;
}

static void refuses(struct share_message *message, int status, const char *words)
{
	unsigned before = share_fixture_descriptors(NULL);
	struct rung_store *store = NULL;

	assert_error(attach_to(message, &store), status, words);
	cr_assert_eq(share_fixture_descriptors(NULL), before, "%s", words);
}

/* The descriptors of a message, from the end: offsets, resident lists, file. */
static int *offsets_fd(struct share_message *message)
{
	return &message->fds[message->fd_count - 1];
}

static int memory(int like, unsigned char fill)
{
	const int fd = memfd_create("impostor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static unsigned char page[4096];
	struct stat st;

	memset(page, fill, sizeof(page));
	cr_assert_eq(fstat(like, &st), 0);
	for (off_t at = 0; at < st.st_size; at += (off_t)sizeof(page))
		cr_assert_eq(write(fd, page, sizeof(page)), (ssize_t)sizeof(page));
	cr_assert_eq(
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL),
		0);
	return fd;
}

Test(share_structure, the_unchanged_offer_is_accepted)
{
	struct rung_store *store;

	cr_assert_eq(attach_to(&good, &store), 0, "%s", rung_last_error());
	cr_assert_not_null(rung_store_structure(store));
	rung_store_close(store);
}

Test(share_structure, numbers_that_do_not_fit_together)
{
	struct share_message message = good;

	message.offer.lists.present = 2;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (sizes)");
	message = good;
	message.offer.lists.index_bytes = 3;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (sizes)");
	message = good;
	message.offer.lists.edge_count = UINT64_MAX / 2;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (sizes)");
	message = good;
	message.offer.lists.edge_count += 1000;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (sizes)");
	message = good;
	message.offer.lists.shape.layout.is_lists = 0;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid");
	message = good;
	message.offer.lists.shape.layout.row_bytes = 64;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (layout)");
	message = good;
	message.offer.lists.shape.layout.data_offset = UINT64_MAX;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (layout)");
	message = good;
	message.offer.lists.shape.vertex_count++;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid");
	message = good;
	message.offer.lists.shape.tiers[RUNG__TIER_NVME].row_count++;
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (tiers)");
	message = good;
	message.offer.shape.layout.is_lists = 1; /* of the rows */
	refuses(&message, RUNG_E_FORMAT, "store is invalid (layout)");
}

Test(share_structure, descriptors_that_do_not_match)
{
	struct share_message message = good;
	const int other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	message.fd_count--;
	refuses(&message, RUNG_E_IO, "descriptors arrived");
	message = good;
	message.fds[message.fd_count - 3] = other;
	refuses(&message, RUNG_E_FORMAT, "does not refer to graph_indices.npy");
	message = good;
	*offsets_fd(&message) = other;
	refuses(&message, RUNG_E_FORMAT, "not sealed");
	message = good;
	*offsets_fd(&message) = good.fds[good.fd_count - 2];
	refuses(&message, RUNG_E_FORMAT, "the shared memory has");
	close(other);
}

Test(share_structure, memory_with_other_contents)
{
	struct share_message message = good;

	*offsets_fd(&message) = memory(*offsets_fd(&good), 0xff);
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (offsets)");
	close(*offsets_fd(&message));
	message = good;
	*offsets_fd(&message) = memory(*offsets_fd(&good), 0);
	refuses(&message, RUNG_E_FORMAT, "structure is invalid (offsets)");
	close(*offsets_fd(&message));
	message = good;
	message.fds[message.fd_count - 2] = memory(good.fds[good.fd_count - 2], 0xff);
	refuses(&message, RUNG_E_RANGE, "entry 0 is 4294967295");
	close(message.fds[message.fd_count - 2]);
}
