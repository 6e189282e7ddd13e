/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that measure: each is pinned to its CPUs, and all begin together.
 *
 * One barrier of the threads and the caller separates the phases. A run passes it twice: once to
 * begin, once at the end, when all threads are ready for the next run. Each thread records when
 * its work begins and ends, so the wait at the barrier is not part of the result.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "measure.h"
#include "base/thread.h"

/* A thread of a team. */
struct member {
	struct rung__team *team;
	pthread_t thread;
	/* [cpu_count] CPUs it may run on, owned by the thread that starts the team */
	const uint32_t *cpus;
	uint32_t rank, cpu_count;
	int err;                   /* error of pinning */
	uint64_t begin_ns, end_ns; /* begin and end of the last run */
};

struct rung__team {
	/* held until all threads have been started, or starting one has failed */
	pthread_mutex_t starting;
	/* barrier of the threads and the caller: ready, begin, end of a run */
	pthread_barrier_t turn;
	uint32_t count; /* threads that were started */
	/* written by the caller between two barriers; the barriers order them for the threads */
	bool stop;
	rung__work_fn work;
	void *ctx;
	uint64_t passes;
	struct member members[]; /* [count] */
};

uint64_t rung__measure_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Pin the calling thread. The set is allocated: a static one ends at CPU 1023. @return 0 or an
 * errno */
static int pin(const uint32_t *cpus, uint32_t count)
{
	cpu_set_t *set = CPU_ALLOC(RUNG__CPUS_MAX);
	size_t bytes = CPU_ALLOC_SIZE(RUNG__CPUS_MAX);
	int rc;

	if (!set)
		return ENOMEM;
	CPU_ZERO_S(bytes, set);
	for (uint32_t i = 0; i < count; i++)
		CPU_SET_S(cpus[i], bytes, set);
	rc = pthread_setaffinity_np(pthread_self(), bytes, set);
	CPU_FREE(set);
	return rc;
}

static void *member_main(void *arg)
{
	struct member *me = arg;
	struct rung__team *team = me->team;

	me->err = pin(me->cpus, me->cpu_count);
	/* If a thread cannot be started, the barrier would wait for it forever: read `stop`, which
	 * the lock orders, before the first wait. */
	pthread_mutex_lock(&team->starting);
	pthread_mutex_unlock(&team->starting);
	while (!team->stop) {
		pthread_barrier_wait(&team->turn); /* ready, or the end of a run */
		pthread_barrier_wait(&team->turn);
		if (team->stop)
			break;
		me->begin_ns = rung__measure_ns();
		team->work(team->ctx, me->rank, team->count, team->passes);
		me->end_ns = rung__measure_ns();
	}
	return NULL;
}

/* Join the threads, which have been stopped, and free the team. */
static void end_team(struct rung__team *team)
{
	for (uint32_t i = 0; i < team->count; i++)
		pthread_join(team->members[i].thread, NULL);
	pthread_barrier_destroy(&team->turn);
	pthread_mutex_destroy(&team->starting);
	rung__free(team);
}

void rung__team_stop(struct rung__team *team)
{
	if (!team)
		return;
	team->stop = true;
	pthread_barrier_wait(&team->turn); /* the threads wait for a run to begin */
	end_team(team);
}

/* Start `count` threads and wait until all are pinned. @param each  number of CPUs that one thread
 * may run on: 1, or all of them */
static int start(const uint32_t *cpus, uint32_t each, uint32_t count, struct rung__team **team_out)
{
	struct rung__team *team = rung__zalloc(sizeof(*team) + count * sizeof(team->members[0]));
	const struct member *unpinned = NULL;
	int err = 0, rc;

	if (!team)
		return rung__fail(RUNG_E_NOMEM, "measuring: no memory for %" PRIu32 " threads",
		                  count);
	pthread_mutex_init(&team->starting, NULL);
	pthread_barrier_init(&team->turn, NULL, count + 1);
	pthread_mutex_lock(&team->starting);
	for (uint32_t i = 0; i < count && err == 0; i++) {
		team->members[i] = (struct member){
			.team = team, .rank = i, .cpus = cpus + i, .cpu_count = each
		};
		err = rung__thread_start(&team->members[i].thread, member_main, &team->members[i]);
		team->count += err == 0;
	}
	team->stop = err != 0; /* then the threads that were started end without a barrier */
	pthread_mutex_unlock(&team->starting);
	if (err) {
		end_team(team);
		return rung__fail_errno(err, "measuring: %" PRIu32 " threads cannot be started",
		                        count);
	}
	pthread_barrier_wait(&team->turn); /* ready: each thread has written its `err` */
	for (uint32_t i = 0; i < count; i++) {
		if (team->members[i].err)
			unpinned = &team->members[i];
	}
	if (!unpinned) {
		*team_out = team;
		return 0;
	}
	rc = rung__fail(RUNG_E_NOSUP, "measuring: a thread cannot be pinned to CPU %" PRIu32 ": %s",
	                unpinned->cpus[0], strerror(unpinned->err));
	rung__team_stop(team);
	return rc;
}

int rung__team_start(const uint32_t *cpus, uint32_t count, struct rung__team **team_out)
{
	return start(cpus, 1, count, team_out);
}

int rung__team_start_one(const uint32_t *cpus, uint32_t count, struct rung__team **team_out)
{
	return start(cpus, count, 1, team_out);
}

uint32_t rung__team_count(const struct rung__team *team)
{
	return team->count;
}

double rung__team_run(struct rung__team *team, rung__work_fn work, void *ctx, uint64_t passes)
{
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;

	team->work = work;
	team->ctx = ctx;
	team->passes = passes;
	pthread_barrier_wait(&team->turn); /* begin */
	pthread_barrier_wait(&team->turn); /* end: the threads have written their times */
	for (uint32_t i = 0; i < team->count; i++) {
		begin_ns = RUNG__MIN(begin_ns, team->members[i].begin_ns);
		end_ns = RUNG__MAX(end_ns, team->members[i].end_ns);
	}
	return (double)(end_ns - begin_ns) / 1e9;
}
