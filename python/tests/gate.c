/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before libc (LD_PRELOAD): a test can block reads or make them fail. A gather then stays in
 * flight as long as the test needs, independent of the speed of the machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int is_shut, failing, waiting;

void gate_shut(void)
{
	pthread_mutex_lock(&lock);
	is_shut = 1;
	pthread_mutex_unlock(&lock);
}

void gate_open(void)
{
	pthread_mutex_lock(&lock);
	is_shut = 0;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
}

/* Make every later read fail with this errno; 0: let reads succeed. */
void gate_fail(int err)
{
	pthread_mutex_lock(&lock);
	failing = err;
	pthread_mutex_unlock(&lock);
}

/* Wait until a read is blocked. */
void gate_wait(void)
{
	pthread_mutex_lock(&lock);
	while (waiting == 0)
		pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
}

ssize_t pread(int fd, void *buf, size_t bytes, off_t offset)
{
	int err;

	pthread_mutex_lock(&lock);
	waiting++;
	pthread_cond_broadcast(&change);
	while (is_shut)
		pthread_cond_wait(&change, &lock);
	waiting--;
	err = failing;
	pthread_mutex_unlock(&lock);
	if (err) {
		errno = err;
		return -1;
	}
	return syscall(SYS_pread64, fd, buf, bytes, offset);
}

ssize_t pread64(int fd, void *buf, size_t bytes, off_t offset) __attribute__((alias("pread")));
