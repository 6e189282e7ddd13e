/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: its state, the entry of every call, and the thread that runs the streams'
 * work. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <pthread.h>
#include <signal.h>

#include "../lanes/cuda_language.h"
#include "runtime.h"

namespace sim
{

/* interval of polling a word that the host writes: no event announces the write */
static const std::chrono::microseconds LOOK_AGAIN(50);
static const unsigned LAZY_US_MAX = 8000;

static bool forked;       /* this process was created by fork(), in which CUDA does not work */
static bool started_here; /* the state exists */
static thread_local bool on_device_thread;
static thread_local cudaError_t last_error;

void wrong(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "simulated CUDA: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	abort();
}

uint64_t draw(state &s)
{
	s.seed ^= s.seed << 13;
	s.seed ^= s.seed >> 7;
	s.seed ^= s.seed << 17;
	return s.seed;
}

/* ---- state ---- */

static unsigned long long number_in_environment(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return otherwise;
	const unsigned long long value = strtoull(text, &end, 0);
	if (*end)
		wrong("%s is '%s', which is not a number", name, text);
	return value;
}

/* No kernel must run once the process ends, because its memory is torn down. Host functions are not
 * waited for, because they can block. */
static void stop_at_exit()
{
	if (forked)
		return;
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);
	s.stopping = true; /* as after CUDA is unloaded: see enter() */
	s.finished.wait(lock, [&] { return !s.running || s.running_host_function; });
}

static state *make_state()
{
	state &s = *new state;
	const char *gpus = getenv("RUNG_SIM_GPUS"), *modules = getenv("CUDA_MODULE_LOADING");

	s.driver = !gpus || strcmp(gpus, "none") != 0;
	s.gpus.resize(s.driver ? number_in_environment("RUNG_SIM_GPUS", 1) : 0);
	s.gpu_bytes = number_in_environment("RUNG_SIM_GPU_BYTES", 64 << 20);
	s.may_peer = number_in_environment("RUNG_SIM_PEERS", 1) != 0;
	s.may_register_read_only = number_in_environment("RUNG_SIM_READ_ONLY", 1) != 0;
	s.lazy = number_in_environment("RUNG_SIM_LAZY", 0) != 0;
	s.lazy_modules = modules && strcmp(modules, "LAZY") == 0;
	s.seed = (number_in_environment("RUNG_SIM_SEED", 1) + 1) * 0x9e3779b97f4a7c15u | 1;
	lanes::seed = draw(s) | 1;
	s.launch_blocking = number_in_environment("CUDA_LAUNCH_BLOCKING", 0) != 0;
	s.one_queue = number_in_environment("CUDA_DEVICE_MAX_CONNECTIONS", 0) == 1;
	for (size_t i = 0; i < s.gpus.size(); i++) {
		struct gpu &gpu = s.gpus[i];

		gpu.peers.resize(s.gpus.size());
		reserve_gpu(s, &gpu);
		if (s.one_queue)
			gpu.one_queue = new_queue(s, (int)i);
		gpu.legacy = std::make_shared<struct stream>();
		gpu.legacy->ops = s.one_queue ? gpu.one_queue : new_queue(s, (int)i);
		gpu.legacy->gpu = (int)i;
	}
	pthread_atfork(nullptr, nullptr, [] { forked = started_here; });
	atexit(stop_at_exit);
	started_here = true;
	return &s;
}

state &the_state()
{
	static state *const s = make_state();
	return *s;
}

/* ---- calls ---- */

entry *first_entry;

entry::entry(const char *name_, unsigned flags_) : name(name_), flags(flags_), next(first_entry)
{
	first_entry = this;
}

void enter(entry &function, entered *out)
{
	if (forked) {
		out->err = cudaErrorInitializationError;
		return;
	}
	if (on_device_thread)
		wrong("%s was called by a stream's host function; CUDA calls are not "
		      "allowed there",
		      function.name);
	state &s = the_state();
	out->s = &s;
	out->lock = held_lock(s.lock);
	if (s.stopping)
		wrong("%s was called after CUDA was unloaded at exit", function.name);
	function.calls++;
	if (!(function.flags & NEEDS_NO_GPU)) /* waits for the context's lock */
		s.finished.wait(out->lock, [&] { return !s.loading; });
	if (function.drain_in > 0 && --function.drain_in == 0)
		wait_for_all(s, out->lock, -1);
	if (s.broken != cudaSuccess)
		out->err = s.broken;
	else if (function.fail_in > 0 && --function.fail_in == 0)
		out->err = function.fail_with, out->skip = true;
	else if (!s.driver && !(function.flags & NEEDS_NO_GPU))
		out->err = cudaErrorInsufficientDriver;
	else if (s.gpus.empty() && !(function.flags & NEEDS_NO_GPU))
		out->err = cudaErrorNoDevice;
	else if (function.flags & UNSAFE)
		out->err = check_unsafe(s);
}

cudaError_t leave(cudaError_t err)
{
	if (err != cudaSuccess)
		last_error = err;
	return err;
}

/* ---- the device thread ---- */

static bool is_done(const mark &m)
{
	return !m.where || m.where->done >= m.position;
}

bool passed(const mark &m)
{
	const bool done = is_done(m);

	if (done)
		race::after(m.last);
	return done;
}

static bool word_has_come(state &s, const awaited_word &word)
{
	const void *at = real_address(s, (const void *)word.at, sizeof(uint32_t), false,
	                              "a stream that waits for a word");
	const uint32_t now = __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);

	switch (word.compare) {
	case 0:
		return (int32_t)(now - word.value) >= 0;
	case 1:
		return now == word.value;
	case 2:
		return (now & word.value) != 0;
	default:
		return ~(now | word.value) != 0;
	}
}

/* Later operations of the queue come after the write of the word; this reports that order to the
 * sanitizer. */
static void load_seen(state &s, const awaited_word &word)
{
	held_lock lock(s.lock);
	const void *at = real_address(s, (const void *)word.at, sizeof(uint32_t), false,
	                              "a stream that waits for a word");

	lock.unlock();
	race::see(true);
	race::load_word((const uint32_t *)at);
	race::see(false);
}

/* Whether the first operation of the queue can run. If it cannot, and only time or a write of the
 * host can change that, `again` is lowered to the time of the next check. */
static bool is_ready(state &s, const queue &q, time_point now, time_point *again)
{
	const op &first = q.ops.front();
	bool ready = true;

	if (q.done >= q.wanted && now < first.not_before) {
		*again = std::min(*again, first.not_before);
		return false;
	}
	if (first.kind == WAIT_MARK)
		ready = is_done(first.until);
	if (first.kind == WAIT_WORD && !word_has_come(s, first.word)) {
		*again = std::min(*again, now + LOOK_AGAIN);
		ready = false;
	}
	return ready;
}

static std::shared_ptr<queue> draw_ready_queue(state &s, time_point now, time_point *again)
{
	std::vector<std::shared_ptr<queue>> ready;

	if (s.held || s.stopping)
		return nullptr;
	for (size_t i = 0; i < s.queues.size(); i++) {
		if (!s.queues[i]->ops.empty()) {
			if (is_ready(s, *s.queues[i], now, again))
				ready.push_back(s.queues[i]);
		} else if (s.queues[i].use_count() == 1) { /* its stream was destroyed */
			s.queues[i--].swap(s.queues.back());
			s.queues.pop_back();
		}
	}
	return ready.empty() ? nullptr : ready[draw(s) % ready.size()];
}

/* Run the operation as the queue, ordered after the operation it waits for. */
static void run_in_context(state &s, queue &q, const op &what)
{
	q.context.enter();
	race::after(what.token);
	race::after(what.until.last);
	if (what.kind == WAIT_WORD)
		load_seen(s, what.word);
	if (what.run)
		what.run();
	race::before(what.token);
	q.context.leave();
}

static void run_first(state &s, held_lock &lock, queue &q)
{
	const op first = std::move(q.ops.front());

	q.ops.pop_front();
	s.running = true;
	s.running_host_function = first.kind == HOST_FUNCTION;
	lock.unlock();
	run_in_context(s, q, first);
	lock.lock();
	s.running = s.running_host_function = false;
	if (s.broken == cudaSuccess)
		q.done++;
	s.finished.notify_all();
}

[[noreturn]] static void device_main()
{
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);

	on_device_thread = true;
	for (;;) {
		const time_point now = std::chrono::steady_clock::now(), never = time_point::max();
		time_point again = never;
		const std::shared_ptr<queue> next = draw_ready_queue(s, now, &again);

		if (next)
			run_first(s, lock, *next);
		else if (again != never)
			s.work.wait_until(lock, again);
		else
			s.work.wait(lock);
	}
}

/* All signals are blocked in the device thread: they are for the program's own threads. */
static void start_device_thread(state &s)
{
	sigset_t all, before;

	s.started = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	std::thread(device_main).detach();
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/* ---- queues ---- */

std::shared_ptr<queue> new_queue(state &s, int gpu)
{
	s.queues.push_back(std::make_shared<queue>());
	s.queues.back()->gpu = gpu;
	return s.queues.back();
}

mark append(state &s, const std::shared_ptr<queue> &where, op what)
{
	if (!s.started)
		start_device_thread(s);
	if (s.lazy)
		what.not_before = std::chrono::steady_clock::now() +
		                  std::chrono::microseconds(draw(s) % LAZY_US_MAX);
	what.token = where->last = race::make_token();
	race::before(what.token);
	where->ops.push_back(std::move(what));
	s.work.notify_one();
	return { where, ++where->queued, where->last };
}

/* Something waits for this mark: operations up to it must not be delayed any longer. */
static void want(const mark &m)
{
	queue &q = *m.where;

	if (m.position <= q.wanted)
		return;
	q.wanted = m.position;
	for (size_t i = 0; i < q.ops.size() && q.queued - q.ops.size() + i < m.position; i++)
		if (q.ops[i].kind == WAIT_MARK && !is_done(q.ops[i].until))
			want(q.ops[i].until);
}

cudaError_t wait_for(state &s, held_lock &lock, const mark &m)
{
	if (!is_done(m)) {
		want(m);
		s.work.notify_one();
		s.finished.wait(lock, [&] { return s.broken != cudaSuccess || is_done(m); });
	}
	race::after(m.last);
	return s.broken;
}

cudaError_t wait_for_all(state &s, held_lock &lock, int gpu)
{
	std::vector<mark> marks;

	for (const auto &q : s.queues)
		if (gpu < 0 || q->gpu == gpu)
			marks.push_back({ q, q->queued, q->last });
	for (const mark &m : marks)
		wait_for(s, lock, m);
	return s.broken;
}

void drop_work(state &s)
{
	for (const auto &q : s.queues) {
		q->ops.clear();
		q->done = q->queued;
	}
	s.finished.notify_all();
}

cudaError_t last_error_of_thread(bool reset)
{
	const cudaError_t err = last_error;

	if (reset)
		last_error = cudaSuccess;
	return err;
}

} // namespace sim

#ifdef LANES_TSAN
void lanes_race_store_release(void *at, uint32_t value)
{
	race::see(true);
	race::store_word((uint32_t *)at, value);
	race::see(false);
}

/* Report accesses by width, not as a range: a range is reported byte by byte, and the sanitizer
 * does not remember that many accesses per location. */
void lanes_race_access(void *at, size_t bytes, bool write, bool atomic)
{
	race::see_accesses(true);
	switch (atomic ? bytes + 100 : bytes) {
	case 1:
		write ? __tsan_write1(at) : __tsan_read1(at);
		break;
	case 2:
		write ? __tsan_write2(at) : __tsan_read2(at);
		break;
	case 4:
		write ? __tsan_write4(at) : __tsan_read4(at);
		break;
	case 8:
		write ? __tsan_write8(at) : __tsan_read8(at);
		break;
	case 16:
		write ? __tsan_write16(at) : __tsan_read16(at);
		break;
	case 104:
		__tsan_atomic32_fetch_add(at, 0, __ATOMIC_RELAXED);
		break;
	case 108:
		__tsan_atomic64_fetch_add(at, 0, __ATOMIC_RELAXED);
		break;
	default:
		sim::wrong("an access of %zu bytes", bytes);
	}
	race::see_accesses(false);
}
#endif
