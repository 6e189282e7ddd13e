/* SPDX-License-Identifier: Apache-2.0 */
/* Neither end of the socket trusts the other: malformed offers, servers that are not rung, clients
 * that misbehave. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_error.h"
#include "share_child.h"
#include "share_fixture.h"

static struct share_fixture s;
static struct rung_store *creator;
static struct share_message good; /* as the creator sends it */
static char impostor[450];        /* a socket in the creator's folder */
static int listen_fd;

static void set_up(void)
{
	share_fixture_open(&s);
	creator = share_fixture_create(&s);
	cr_assert_eq(share_message_receive(s.path, &good), (ssize_t)sizeof(good.offer));
	cr_assert_eq(good.fd_count, 4);
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

TestSuite(share_refusals, .init = set_up, .fini = tear_down);

static void *answer(void *message)
{
	share_impostor_answer(listen_fd, message);
	return NULL;
}

/* Attach to an impostor that sends `message`. */
static int attach_to(struct share_message *message, struct rung_store **store_out)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	pthread_t thread;
	int rc;

	pthread_create(&thread, NULL, answer, message);
	rc = rung_store_attach(impostor, &opts, store_out);
	pthread_join(thread, NULL);
	return rc;
}

static void refuses(struct share_message *message, int status, const char *words)
{
	unsigned before = share_fixture_descriptors(NULL);
	struct rung_store *store = NULL;
	int rc = attach_to(message, &store);

	assert_error(rc, status, words);
	cr_assert_eq(share_fixture_descriptors(NULL), before, "%s", words);
}

Test(share_refusals, a_gpu_for_a_store_that_gathers_on_the_cpu)
{
	const int gpu = 0;
	struct rung_store_opts opts = { .size = sizeof(opts), .gpu = &gpu };
	struct rung_store *store;

	assert_error(rung_store_attach(s.path, &opts, &store), RUNG_E_INVAL,
	             "opts.gpu is 0, but the shared store gathers on the CPU; leave opts.gpu NULL");
}

/* Close the socket while connections wait to be accepted: they are reset. */
static void *stop_listening(void *arg)
{
	struct pollfd asked = { .fd = *(int *)arg, .events = POLLIN };

	poll(&asked, 1, -1);
	close(asked.fd);
	return NULL;
}

Test(share_refusals, a_reset_connection_brings_no_descriptors)
{
	struct rung_store_opts opts = { .size = sizeof(opts), .vertex_ids = 1 };
	struct rung_store *store;
	pthread_t thread;
	int files[32];
	int rc;

	/* a good answer first, then files that get the descriptor numbers of that answer */
	cr_assert_eq(rung_store_attach(s.path, &opts, &store), 0, "%s", rung_last_error());
	rung_store_close(store);
	for (unsigned i = 0; i < 32; i++)
		cr_assert_geq(files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	pthread_create(&thread, NULL, stop_listening, &listen_fd);
	rc = rung_store_attach(impostor, &opts, &store);
	pthread_join(thread, NULL);
	cr_assert(rc == RUNG_E_IO || rc == RUNG_E_NOENT, "%s: %s", rung_status_name(rc),
	          rung_last_error());
	for (unsigned i = 0; i < 32; i++)
		cr_assert_eq(close(files[i]), 0, "descriptor %d was closed by the attach",
		             files[i]);
	listen_fd = open("/dev/null", O_RDONLY); /* for tear_down to close */
}

Test(share_refusals, the_unchanged_offer_is_accepted)
{
	struct rung_store *store;
	uint64_t ids[300];

	cr_assert_eq(attach_to(&good, &store), 0, "%s", rung_last_error());
	rung_store_close(s.base.store);
	s.base.store = store;
	fixture_random_ids(&s.base, ids, 300, 1);
	fixture_gather_and_check(&s.base, ids, 300);
}

Test(share_refusals, messages_that_are_not_an_offer)
{
	struct share_message message = good;

	message.offer.magic[3] ^= 1;
	refuses(&message, RUNG_E_FORMAT, "does not share a store");
	message = good;
	message.bytes = 10;
	refuses(&message, RUNG_E_FORMAT, "does not share a store");
	message = good;
	message.bytes = 0;
	refuses(&message, RUNG_E_IO, "hung up");
	message = good;
	memset(&message.offer, 0xa5, sizeof(message.offer));
	message.fd_count = 0;
	refuses(&message, RUNG_E_FORMAT, "does not share a store");
}

Test(share_refusals, other_versions)
{
	struct share_message message = good;
	char later[32];

	message.offer.version++;
	snprintf(later, sizeof(later), "version %u,", RUNG__SHARE_VERSION + 1);
	refuses(&message, RUNG_E_ABI, later);
	message = good;
	message.offer.version = 0;
	message.bytes = 16; /* all versions have only the head in common */
	refuses(&message, RUNG_E_ABI, "version 0");
	message = good;
	message.offer.bytes++;
	refuses(&message, RUNG_E_ABI, "the same build on both sides");
	message = good;
	message.bytes -= 8;
	refuses(&message, RUNG_E_ABI, "the same build on both sides");
}

Test(share_refusals, descriptors_that_do_not_match_the_offer)
{
	struct share_message message = good;
	int other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	message.fd_count = 2;
	refuses(&message, RUNG_E_IO, "2 descriptors arrived");
	message.fd_count = 0;
	refuses(&message, RUNG_E_IO, "0 descriptors arrived");
	message = good;
	message.fds[message.fd_count++] = other;
	refuses(&message, RUNG_E_IO, "ulimit -n"); /* the fourth is cut off */
	message = good;
	message.fds[RUNG__OFFER_FEATURES] = other;
	refuses(&message, RUNG_E_FORMAT, "does not refer to");
	message = good;
	message.fds[RUNG__OFFER_HOST] = other;
	refuses(&message, RUNG_E_FORMAT, "not sealed");
	message = good;
	message.fds[RUNG__OFFER_HOST] = good.fds[RUNG__OFFER_MAP];
	refuses(&message, RUNG_E_FORMAT, "the shared memory has");
	close(other);
}

static int memory(uint64_t bytes, unsigned char fill, unsigned seals)
{
	int fd = memfd_create("impostor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	for (uint64_t i = 0; i < bytes; i++)
		cr_assert_eq(write(fd, &fill, 1), 1);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(share_refusals, memory_that_could_change)
{
	static const unsigned missing[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE };
	struct share_message message = good;
	struct stat st;

	cr_assert_eq(fstat(good.fds[RUNG__OFFER_MAP], &st), 0);
	for (unsigned m = 0; m < RUNG__ARRAY_LEN(missing); m++) {
		unsigned seals =
			(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) & ~missing[m];
		int fd = memory((uint64_t)st.st_size, 0, seals);

		message.fds[RUNG__OFFER_MAP] = fd;
		refuses(&message, RUNG_E_FORMAT, "not sealed");
		close(fd);
	}
}

Test(share_refusals, a_map_with_entries_outside)
{
	struct share_message message = good;
	struct stat st;

	cr_assert_eq(fstat(good.fds[RUNG__OFFER_MAP], &st), 0);
	message.fds[RUNG__OFFER_MAP] =
		memory((uint64_t)st.st_size, 0xff,
	               F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	refuses(&message, RUNG_E_RANGE, "entry 0 of the shared map");
	close(message.fds[RUNG__OFFER_MAP]);
}

Test(share_refusals, invalid_row_placements)
{
	const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
	struct share_message message = good;
	struct rung_store *store;
	struct stat st;

	cr_assert_eq(fstat(good.fds[RUNG__OFFER_MAP], &st), 0);
	/* the next one would be that of the cache */
	cr_assert_eq(good.fd_count, RUNG__OFFER_VERTICES + 1);
	message.fds[RUNG__OFFER_VERTICES + 1] = message.fds[RUNG__OFFER_VERTICES];
	message.fds[RUNG__OFFER_VERTICES] = memory((uint64_t)st.st_size, 0xff, seals);
	message.fd_count++;
	message.offer.shape.layout.vertex_bytes = 3;
	refuses(&message, RUNG_E_FORMAT, "map");
	message.offer.shape.layout.vertex_bytes = 8;
	refuses(&message, RUNG_E_FORMAT, "the shared memory has");
	message.offer.shape.layout.vertex_bytes = 4;
	refuses(&message, RUNG_E_RANGE, "entry 0 of the shared vertex_of_rank");
	close(message.fds[RUNG__OFFER_VERTICES]);
	message = good;
	message.offer.shape.layout.vertex_of_rank = &message; /* a pointer of another process */
	cr_assert_eq(attach_to(&message, &store), 0, "%s", rung_last_error());
	cr_assert_null(store->shape.layout.vertex_of_rank);
	rung_store_close(store);
}

/* Change one number of the offer. */
#define WRONG(field, value, words)                                                                 \
	do {                                                                                       \
		struct share_message wrong = good;                                                 \
		wrong.offer.field = (value);                                                       \
		refuses(&wrong, RUNG_E_FORMAT, words);                                             \
	} while (0)

Test(share_refusals, invalid_numbers)
{
	const struct rung__shape *shape = &good.offer.shape;
	struct share_message message = good;

	WRONG(shape.vertex_count, 0, "layout");
	WRONG(shape.vertex_count, UINT64_MAX, "layout");
	WRONG(shape.vertex_count, shape->vertex_count + 1, "layout");
	WRONG(shape.vertex_count, shape->vertex_count - 1, "layout");
	WRONG(shape.layout.row_stride, UINT64_MAX / 2, "layout");
	WRONG(shape.layout.row_stride, shape->layout.row_stride - 1, "layout");
	WRONG(shape.layout.row_bytes, 0, "layout");
	WRONG(shape.layout.row_bytes, shape->layout.row_bytes - 1, "type");
	WRONG(shape.layout.data_offset, UINT64_MAX, "layout");
	WRONG(shape.layout.file_bytes[0], shape->layout.file_bytes[0] - 1, "layout");
	WRONG(shape.layout.file_bytes[0], UINT64_MAX, "layout");
	WRONG(shape.layout.file_bytes[0], shape->layout.file_bytes[0] + 1, "changed while");
	WRONG(shape.tiers[RUNG__TIER_HOST].rank_first, 1, "tiers");
	WRONG(shape.tiers[RUNG__TIER_HOST].row_count, UINT64_MAX, "tiers");
	WRONG(shape.tiers[RUNG__TIER_NVME].rank_first, shape->tiers[RUNG__TIER_NVME].rank_first - 1,
	      "tiers");
	WRONG(shape.tiers[RUNG__TIER_NVME].row_count, shape->tiers[RUNG__TIER_NVME].row_count + 1,
	      "tiers");
	WRONG(shape.slot_count, 0, "tiers");
	WRONG(shape.slot_count, UINT64_MAX, "tiers");
	WRONG(shape.slot_count, 8193, "tiers");
	WRONG(shape.slot_bytes, 4096, "tiers"); /* a row may cross two pages */
	WRONG(shape.slot_bytes, shape->slot_bytes + 1, "tiers");
	WRONG(shape.array.dtype, RUNG_DTYPE_COUNT, "type");
	WRONG(shape.array.dim_count, RUNG_DIMS_MAX + 1, "type");
	WRONG(shape.array.dims[0], 1, "type");
	WRONG(shape.array.dims[1], UINT64_MAX, "type");
	WRONG(shape.array.row_count, 1, "type");
	WRONG(shape.array.row_bytes, 1, "type");
	/* rows of bytes are not quantized, and a format may be unknown */
	WRONG(shape.quant.format, RUNG_QUANT_INT8, "type");
	WRONG(shape.quant.format, UINT64_MAX, "type");
	WRONG(shape.map_on_gpu, 1, "number of GPUs");
	WRONG(shape.gpu_count, RUNG_GPUS_MAX + 1, "number of GPUs");
	WRONG(shape.map_bytes, 3, "map");
	WRONG(shape.map_bytes, 8, "the shared memory has");
	WRONG(files[0].inode, good.offer.files[0].inode + 1, "does not refer to");
	WRONG(files[0].device, good.offer.files[0].device + 1, "does not refer to");
	WRONG(path[0], 'x', "no absolute path");
	/* GPU rows without a GPU */
	message.offer.shape.tiers[RUNG__TIER_GPU].row_count =
		shape->tiers[RUNG__TIER_HOST].row_count;
	message.offer.shape.tiers[RUNG__TIER_HOST] = shape->tiers[RUNG__TIER_NVME];
	message.offer.shape.tiers[RUNG__TIER_HOST].row_count = 0;
	message.offer.shape.tiers[RUNG__TIER_PEER] = message.offer.shape.tiers[RUNG__TIER_HOST];
	message.fd_count--; /* the host tier's */
	refuses(&message, RUNG_E_FORMAT, "number of GPUs");
	message = good;
	memset(message.offer.path, '/', sizeof(message.offer.path));
	refuses(&message, RUNG_E_FORMAT, "no absolute path");
}

/* As if there were `count` files of the same size, all with the descriptor of the first. */
static void refuses_files(uint64_t count, uint64_t block_rows, uint64_t row_stride, uint64_t bytes)
{
	struct share_message message = good;
	struct rung__layout *layout = &message.offer.shape.layout;

	layout->file_count = count;
	layout->ranges[0] = rung__range_of_all(good.offer.shape.vertex_count, count, block_rows);
	layout->row_stride = row_stride;
	for (uint64_t f = 0; f < count; f++) {
		if (f > 0)
			memmove(message.fds + f, message.fds + f - 1,
			        message.fd_count++ * sizeof(*message.fds));
		message.offer.files[f] = good.offer.files[0];
		layout->file_bytes[f] = bytes;
	}
	refuses(&message, RUNG_E_FORMAT, "layout");
}

Test(share_refusals, invalid_file_counts)
{
	struct share_message message = good;
	const struct rung__layout *layout = &good.offer.shape.layout;
	const uint64_t count = good.offer.shape.vertex_count, stride = layout->row_stride,
		       bytes = layout->file_bytes[0];

	message.offer.shape.layout.file_count = 0;
	refuses(&message, RUNG_E_IO, "descriptors arrived");
	message.offer.shape.layout.file_count = UINT64_MAX;
	refuses(&message, RUNG_E_IO, "descriptors arrived");
	refuses_files(2, 0, stride, bytes);
	refuses_files(2, count, stride, bytes); /* leaves no row for the second file */
	refuses_files(2, UINT64_MAX / RUNG__FILES_MAX, stride, bytes);
	refuses_files(2, UINT64_MAX, stride, bytes);
	/* each of three files holds its rows, but the bytes of all rows do not fit 64 bits */
	refuses_files(3, 1, (INT64_MAX - 2 * layout->data_offset) / (count / 3), INT64_MAX);
}

/* An offer that is accepted must be safe to gather from, correct or not. The sanitizers check
 * it. */
Test(share_refusals, offers_with_random_bytes_are_refused_or_harmless)
{
	unsigned char out[400];
	unsigned before = share_fixture_descriptors(NULL);

	for (uint64_t i = 0; i < 400; i++) {
		uint64_t draw = rung__mix64(i), id = (draw >> 40) % s.base.vertices;
		struct rung_ids ids = { &id, 1, RUNG_U64, i % 2 ? RUNG_VERTICES : RUNG_RANKS };
		struct share_message message = good;
		struct rung_store *store = NULL;

		((unsigned char *)&message.offer.shape)[draw % sizeof(message.offer.shape)] ^=
			(unsigned char)(1u << (draw >> 32) % 8);
		if (attach_to(&message, &store) == 0) {
			rung_gather(store, &ids, out, 0);
			rung_store_close(store);
		}
	}
	cr_assert_eq(share_fixture_descriptors(NULL), before);
}

Test(share_refusals, shared_memory_cannot_be_written)
{
	for (unsigned i = RUNG__OFFER_HOST; i <= RUNG__OFFER_MAP; i++) {
		char name[64];
		int fd;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", good.fds[i]);
		fd = open(name, O_RDWR | O_CLOEXEC);
		cr_assert_geq(fd, 0);
		cr_assert_eq(pwrite(fd, "x", 1, 0), -1);
		cr_assert_eq(errno, EPERM);
		cr_assert_eq(ftruncate(fd, 0), -1);
		cr_assert_eq(errno, EPERM);
		cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
		             MAP_FAILED);
		close(fd);
	}
}

Test(share_refusals, an_attacher_short_of_descriptors_reports_it)
{
	struct rlimit before, tight;
	struct rung_store *store;
	/* three are free: its socket, the creator's end of it, and one of the three in the offer */
	int lowest[3];
	int rc;

	for (unsigned i = 0; i < 3; i++)
		lowest[i] = dup(good.fds[0]);
	for (unsigned i = 0; i < 3; i++)
		close(lowest[i]);
	getrlimit(RLIMIT_NOFILE, &before);
	tight = before;
	tight.rlim_cur = (rlim_t)lowest[2] + 1;
	setrlimit(RLIMIT_NOFILE, &tight);
	rc = rung_store_attach(s.path, NULL, &store);
	setrlimit(RLIMIT_NOFILE, &before);
	cr_assert_eq(rc, RUNG_E_IO, "%s", rung_last_error());
	cr_assert(strstr(rung_last_error(), "ulimit -n"), "%s", rung_last_error());
	cr_assert_eq(rung_store_attach(s.path, NULL, &store), 0, "%s", rung_last_error());
	rung_store_close(store);
}

Test(share_refusals, a_silent_server_times_out)
{
	struct rung_store *store;

	cr_assert_eq(rung_store_attach(impostor, NULL, &store), RUNG_E_TIMEDOUT);
	cr_assert(strstr(rung_last_error(), "stopped or stuck"), "%s", rung_last_error());
}

Test(share_refusals, a_server_with_a_full_queue_times_out)
{
	struct sockaddr_un address;
	struct rung_store *store;
	int fds[40];

	cr_assert_eq(rung__share_address(impostor, &address), 0);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(fds); i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(fds[i], (struct sockaddr *)&address, sizeof(address)) < 0)
			cr_assert_eq(errno, EAGAIN);
	}
	cr_assert_eq(rung_store_attach(impostor, NULL, &store), RUNG_E_TIMEDOUT, "%s",
	             rung_last_error());
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(fds); i++)
		close(fds[i]);
}

Test(share_refusals, a_socket_of_another_program_is_reported)
{
	int stream_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	struct rung_store *store;

	close(listen_fd);
	unlink(impostor);
	cr_assert_eq(rung__share_address(impostor, &address), 0);
	cr_assert_eq(bind(stream_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(stream_fd, 1), 0);
	cr_assert_eq(rung_store_attach(impostor, NULL, &store), RUNG_E_FORMAT);
	cr_assert(strstr(rung_last_error(), "another program's"), "%s", rung_last_error());
	listen_fd = stream_fd;
}

Test(share_refusals, clients_that_are_silent_or_send_garbage_block_no_other)
{
	struct sockaddr_un address;
	struct rung_store *store;
	char nonsense[5000];
	int fds[200];

	cr_assert_eq(rung__share_address(s.path, &address), 0);
	memset(nonsense, 0xa5, sizeof(nonsense));
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(fds); i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
		if (i % 2)
			/* may fail: the creator may already have hung up */
			send(fds[i], nonsense, sizeof(nonsense), MSG_NOSIGNAL);
	}
	store = share_fixture_attach(&s);
	rung_store_close(store);
	for (unsigned i = 0; i < RUNG__ARRAY_LEN(fds); i++)
		close(fds[i]);
	store = share_fixture_attach(&s);
	rung_store_close(store);
}
