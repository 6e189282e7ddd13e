/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that measure: each stays where it was put, and all begin together. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "measure.h"
#include "base/thread.h"

struct member {
	struct rung__team *team;
	pthread_t thread;
	const uint32_t *cpus;        /* [cpu_count] it may run on, of whoever starts the team */
	uint32_t rank, cpu_count;
	uint64_t begin_ns, end_ns;   /* of the last run */
};

struct rung__team {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t count;              /* threads that there are */
	uint32_t ready, done;        /* that are pinned; that have ended the run */
	uint64_t run;                /* number of the run that is asked for */
	bool stop;
	int err;                     /* of pinning, on err_cpu */
	uint32_t err_cpu;
	pthread_barrier_t start;     /* [count] */
	rung__work_fn work;
	void *ctx;
	uint64_t passes;
	struct member members[];
};

/* Raw: the clock that NTP does not slew while we measure. */
static uint64_t raw_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

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
	int err = pin(me->cpus, me->cpu_count);
	uint64_t run = 0;

	pthread_mutex_lock(&team->lock);
	team->ready++;
	if (err) {
		team->err = err;
		team->err_cpu = me->cpus[0];
	}
	pthread_cond_broadcast(&team->changed);
	for (;;) {
		while (team->run == run && !team->stop)
			pthread_cond_wait(&team->changed, &team->lock);
		if (team->stop)
			break;
		run = team->run;
		pthread_mutex_unlock(&team->lock);
		pthread_barrier_wait(&team->start);
		me->begin_ns = raw_ns();
		team->work(team->ctx, me->rank, team->count, team->passes);
		me->end_ns = raw_ns();
		pthread_mutex_lock(&team->lock);
		team->done++;
		pthread_cond_broadcast(&team->changed);
	}
	pthread_mutex_unlock(&team->lock);
	return NULL;
}

void rung__team_stop(struct rung__team *team)
{
	if (!team)
		return;
	pthread_mutex_lock(&team->lock);
	team->stop = true;
	pthread_cond_broadcast(&team->changed);
	pthread_mutex_unlock(&team->lock);
	for (uint32_t i = 0; i < team->count; i++)
		pthread_join(team->members[i].thread, NULL);
	pthread_barrier_destroy(&team->start);
	pthread_cond_destroy(&team->changed);
	pthread_mutex_destroy(&team->lock);
	rung__free(team);
}

/* @param each  of the CPUs that one thread may run on: 1, or all of them */
static int start(const uint32_t *cpus, uint32_t each, uint32_t count, struct rung__team **team_out)
{
	struct rung__team *team = rung__zalloc(sizeof(*team) + count * sizeof(team->members[0]));
	int err = 0, rc;

	if (!team)
		return rung__fail(RUNG_E_NOMEM, "measuring: no memory for %" PRIu32 " threads", count);
	pthread_mutex_init(&team->lock, NULL);
	pthread_cond_init(&team->changed, NULL);
	pthread_barrier_init(&team->start, NULL, count);
	for (uint32_t i = 0; i < count && err == 0; i++) {
		team->members[i] = (struct member){ .team = team, .rank = i, .cpus = cpus + i, .cpu_count = each };
		err = rung__thread_start(&team->members[i].thread, member_main, &team->members[i]);
		team->count += err == 0;
	}
	pthread_mutex_lock(&team->lock);
	while (team->ready < team->count)
		pthread_cond_wait(&team->changed, &team->lock);
	rc = team->err;
	pthread_mutex_unlock(&team->lock);
	if (err) {
		rung__team_stop(team);
		return rung__fail_errno(err, "measuring: starting %" PRIu32 " threads", count);
	}
	if (rc) {
		uint32_t cpu = team->err_cpu;

		rung__team_stop(team);
		return rung__fail(RUNG_E_NOSUP, "no thread can be pinned to CPU %" PRIu32 ": %s", cpu, strerror(rc));
	}
	*team_out = team;
	return 0;
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

	pthread_mutex_lock(&team->lock);
	team->work = work;
	team->ctx = ctx;
	team->passes = passes;
	team->done = 0;
	team->run++;
	pthread_cond_broadcast(&team->changed);
	while (team->done < team->count)
		pthread_cond_wait(&team->changed, &team->lock);
	pthread_mutex_unlock(&team->lock);
	for (uint32_t i = 0; i < team->count; i++) {
		begin_ns = RUNG__MIN(begin_ns, team->members[i].begin_ns);
		end_ns = RUNG__MAX(end_ns, team->members[i].end_ns);
	}
	return (double)(end_ns - begin_ns) / 1e9;
}
