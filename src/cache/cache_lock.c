/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a shared index, and the seats of its clients.
 *
 * A seat is one byte of the shared memory's file, locked by an open file description (F_OFD_SETLK)
 * that only this client has. The kernel releases that lock when the last thread of the process has
 * ended, and its memory is unmapped by then: a client whose seat is free can no longer write to the
 * index. This description is not the mapped one, because a mapping that a forked child inherits
 * would keep it open; the child closes its copy of the descriptor.
 *
 * The lock is one word: the seat of the holder and an acquisition number, or 0 if it is free. It is
 * never taken from a living holder, however long the holder is stopped, because it would continue
 * in the middle of a change to lists that others have changed since. A thread waits for
 * LOCK_WAIT_NS, then its process continues without the cache. The process remembers the word of the
 * lock, and does not wait for this acquisition again. To take the lock from a dead holder, a client
 * first locks the holder's seat: while it has that seat, no other client can acquire the lock with
 * it, so the word it replaces is that of the dead holder.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cache/state.h"
#include "file/file.h"

/* a holder needs microseconds, or the time slice of another thread */
#define LOCK_WAIT_NS 100000000u
/* the wait is cut into slices; after each the holder's seat is checked; a lost wake-up costs one
 * slice */
#define SLICE_NS 5000000u
/* between two checks of a holder that this process no longer waits for */
#define LIFE_NS 10000000u

#define WAITERS   (UINT32_C(1) << 31) /* a thread may sleep: the release wakes one */
#define SEAT_BITS 6
#define SEAT_MASK ((1u << SEAT_BITS) - 1) /* seat + 1 */

_Static_assert(RUNG__CACHE_CLIENTS_MAX <= SEAT_MASK, "a seat fits the lock's word");

/* ---- seats ---- */

/* The seats of this process, for the fork handlers. A forked child closes its copies of them. */
static pthread_mutex_t seated_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rung__queue seated;

/* Held over the fork, so that the child finds the list complete. */
static void before_fork(void)
{
	pthread_mutex_lock(&seated_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&seated_lock);
}

/*
 * In the child: close its copies of the parent's descriptors. Otherwise a parent that dies would
 * seem alive as long as its child lives.
 */
static void leave_seats(void)
{
	struct rung__cache *cache;

	while ((cache = RUNG__ENTRY(rung__queue_pop(&seated), struct rung__cache, seated_link)) !=
	       NULL) {
		close(cache->seat_fd);
		cache->seat_fd = -1;
	}
	pthread_mutex_unlock(&seated_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, leave_seats);
}

/* Lock or unlock a seat, without waiting. @return 0 or an errno value; EAGAIN: another client has
 * it */
static int set_seat(int fd, uint32_t seat, short type)
{
	struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_start = seat, .l_len = 1 };

	if (fcntl(fd, F_OFD_SETLK, &range) == 0)
		return 0;
	return errno == EACCES ? EAGAIN : errno;
}

bool rung__cache_seat_lives(const struct rung__cache *cache, uint32_t seat)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = seat, .l_len = 1
	};

	return fcntl(cache->seat_fd, F_OFD_GETLK, &range) < 0 || range.l_type != F_UNLCK;
}

/* Acquire the first free seat. @return 0 or an errno value; EAGAIN: all seats are taken */
static int find_seat(struct rung__cache *cache, int fd)
{
	int rc = EAGAIN;

	cache->seat_fd = rung__reopen(fd, O_RDWR);
	if (cache->seat_fd < 0)
		return errno;
	for (uint32_t seat = 0; rc == EAGAIN && seat < RUNG__CACHE_CLIENTS_MAX; seat++) {
		cache->seat = seat;
		rc = set_seat(cache->seat_fd, seat, F_WRLCK);
	}
	if (rc == 0) {
		rung__queue_push(&seated, &cache->seated_link);
	} else {
		close(cache->seat_fd);
		cache->seat_fd = -1;
	}
	return rc;
}

int rung__cache_seat_acquire(struct rung__cache *cache, int fd)
{
	int rc;

	/* no fork between opening the description and listing it */
	pthread_mutex_lock(&seated_lock);
	rc = find_seat(cache, fd);
	pthread_mutex_unlock(&seated_lock);
	if (rc == EAGAIN)
		return rung__fail(RUNG_E_BUSY,
		                  "cold-row cache: already used by %u processes, the maximum",
		                  RUNG__CACHE_CLIENTS_MAX);
	if (rc != 0)
		return rung__fail(RUNG_E_NOSUP,
		                  "cold-row cache: cannot lock a seat of its index: %s; "
		                  "set private_cache to share the store without its cache",
		                  strerror(rc));
	return 0;
}

void rung__cache_seat_release(struct rung__cache *cache)
{
	if (cache->seat_fd < 0)
		return;
	pthread_mutex_lock(&seated_lock);
	rung__queue_remove(&seated, &cache->seated_link);
	close(cache->seat_fd);
	cache->seat_fd = -1;
	pthread_mutex_unlock(&seated_lock);
}

/* ---- the lock ---- */

/* Sleep while the lock has this word, for a slice at most. FUTEX_WAIT without FUTEX_PRIVATE_FLAG,
 * because other processes wake it. */
static void await_change(_Atomic uint32_t *lock, uint32_t word)
{
	const struct timespec slice = { .tv_nsec = SLICE_NS };

	syscall(SYS_futex, lock, FUTEX_WAIT, word, &slice, NULL, 0);
}

/* A word for this attempt. The number distinguishes it from earlier acquisitions by this seat. */
static uint32_t new_word(struct rung__cache *cache)
{
	return (++cache->acquisitions << SEAT_BITS & ~WAITERS) | (cache->seat + 1);
}

/* Change the holder of the lock from `word` to `mine`, whether or not another thread has begun to
 * wait. @return false: it has another word by now */
static bool replace(_Atomic uint32_t *lock, uint32_t word, uint32_t mine)
{
	uint32_t now = atomic_load_explicit(lock, memory_order_relaxed);

	while ((now & ~WAITERS) == (word & ~WAITERS)) {
		if (atomic_compare_exchange_weak_explicit(
			    lock, &now, mine | WAITERS, memory_order_acquire, memory_order_relaxed))
			return true;
	}
	return false;
}

/* Whether the word is that of another client. If not, a dead client that had this seat before has
 * left it, or it is damaged. */
static bool is_others(const struct rung__cache *cache, uint32_t word)
{
	const uint32_t seat = (word & SEAT_MASK) - 1;

	return seat != cache->seat && seat < RUNG__CACHE_CLIENTS_MAX;
}

/* Acquire the lock if its holder is dead. @return false: the holder lives, or the lock has changed
 * hands */
static bool release_dead(struct rung__cache *cache, uint32_t word, uint32_t mine)
{
	const uint32_t seat = (word & SEAT_MASK) - 1;
	bool taken;

	if (!is_others(cache, word))
		return replace(&cache->index->lock, word, mine);
	if (set_seat(cache->seat_fd, seat, F_WRLCK) != 0) /* its holder lives */
		return false;
	taken = replace(&cache->index->lock, word, mine);
	set_seat(cache->seat_fd, seat, F_UNLCK);
	return taken;
}

static void count_wait(struct rung__cache *cache, uint64_t since_ns)
{
	atomic_fetch_add_explicit(&cache->wait_ns, rung__now_ns() - since_ns, memory_order_relaxed);
}

/*
 * The holder lives. @return true: this thread and later ones no longer wait for this acquisition
 */
static bool abandon(struct rung__cache *cache, uint32_t word, uint64_t since_ns, uint64_t now_ns)
{
	cache->life_ns = now_ns;
	if ((word & ~WAITERS) == cache->late_word)
		return true;
	if (now_ns - since_ns < LOCK_WAIT_NS)
		return false;
	cache->late_word = word & ~WAITERS;
	atomic_fetch_add_explicit(&cache->timeouts, 1, memory_order_relaxed);
	return true;
}

/*
 * Acquire a lock that was not free. The seat of the holder is checked when the word has not changed
 * during a slice, and, for a holder that is no longer waited for, every LIFE_NS: the check is a
 * system call.
 */
static bool lock_slowly(struct rung__cache *cache, uint32_t mine, bool *from_dead_out)
{
	_Atomic uint32_t *lock = &cache->index->lock;
	const uint64_t since_ns = rung__now_ns();
	uint32_t waited_for = 0;

	for (;;) {
		uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);
		uint64_t now_ns = rung__now_ns();

		if (word == 0 && atomic_compare_exchange_strong_explicit(
					 lock, &word, mine | WAITERS, memory_order_acquire,
					 memory_order_relaxed))
			return true;
		if ((word & ~WAITERS) == cache->late_word && now_ns - cache->life_ns < LIFE_NS)
			return false;
		if ((word & ~WAITERS) == waited_for || (word & ~WAITERS) == cache->late_word ||
		    !is_others(cache, word)) {
			*from_dead_out = release_dead(cache, word, mine);
			if (*from_dead_out)
				return true;
		}
		if (abandon(cache, word, since_ns, now_ns))
			return false;
		waited_for = word & ~WAITERS;
		if (word & WAITERS || atomic_compare_exchange_strong_explicit(
					      lock, &word, word | WAITERS, memory_order_relaxed,
					      memory_order_relaxed))
			await_change(lock, word | WAITERS);
	}
}

bool rung__cache_index_lock(struct rung__cache *cache, bool *from_dead_out)
{
	const uint32_t mine = new_word(cache);
	uint32_t free = 0;
	uint64_t since_ns;
	bool locked;

	*from_dead_out = false;
	if (cache->seat_fd < 0) /* a forked child has no seat */
		return false;
	if (atomic_compare_exchange_strong_explicit(&cache->index->lock, &free, mine,
	                                            memory_order_acquire, memory_order_relaxed))
		return true;
	since_ns = rung__now_ns();
	locked = lock_slowly(cache, mine, from_dead_out);
	count_wait(cache, since_ns);
	return locked;
}

bool rung__cache_index_unlock(struct rung__cache *cache)
{
	uint32_t word = atomic_exchange_explicit(&cache->index->lock, 0, memory_order_release);

	if (word & WAITERS)
		syscall(SYS_futex, &cache->index->lock, FUTEX_WAKE, 1, NULL, NULL, 0);
	return word & WAITERS;
}

bool rung__cache_index_is_free(const struct rung__cache *cache)
{
	return atomic_load_explicit(&cache->index->lock, memory_order_relaxed) == 0;
}
