/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the simulated CUDA runtime: data races under ThreadSanitizer; without the sanitizer,
 * nothing here has an effect.
 *
 * One lock and one device thread would put all work of the streams into one order and hide every
 * race. Therefore the simulator's own accesses are invisible: it is compiled without the sanitizer,
 * and its locks are ignored. Each queue is a fiber of the sanitizer, and only the orders that CUDA
 * promises are reported. An operation comes after the call that put it on its stream and after the
 * operations in front of it; a wait comes after the operation waited for.
 *
 * The visible accesses are those of kernels (the harness reports each), of copies and fills, and of
 * words that streams wait for. For host functions only locks and signals are visible, because all
 * of them run on the device thread's stack. So a kernel is reported if it writes memory that the
 * host or another stream reads without waiting, whichever way the threads happened to run.
 */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include <cstddef>
#include <cstdint>
#include <memory>

#ifdef LANES_TSAN
extern "C" { /* gcc has some of these functions built in, with exactly these types */
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line); /* and writes */
void AnnotateIgnoreReadsEnd(const char *file, int line);
void __tsan_acquire(void *token);
void __tsan_release(void *token);
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_read1(void *at);
void __tsan_read2(void *at);
void __tsan_read4(void *at);
void __tsan_read8(void *at);
void __tsan_read16(void *at);
void __tsan_write1(void *at);
void __tsan_write2(void *at);
void __tsan_write4(void *at);
void __tsan_write8(void *at);
void __tsan_write16(void *at);
unsigned __tsan_atomic32_load(const volatile void *at, int order);
void __tsan_atomic32_store(volatile void *at, unsigned value, int order);
unsigned __tsan_atomic32_fetch_add(volatile void *at, unsigned value, int order);
unsigned long __tsan_atomic64_fetch_add(volatile void *at, unsigned long value, int order);
}
#endif

namespace race
{

/** Stands for an operation in the sanitizer. Null without it. */
using token = std::shared_ptr<char>;

#ifdef LANES_TSAN
inline token make_token()
{
	return std::make_shared<char>();
}

inline void see_locks(bool seen)
{
	if (seen)
		AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
	else
		AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
inline void see_accesses(bool seen)
{
	if (seen)
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	else
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
}
/* called in invisible code: later accesses come after the token */
inline void after(const token &what)
{
	if (!what)
		return;
	see_locks(true);
	__tsan_acquire(what.get());
	see_locks(false);
}
inline void before(const token &what) /* the converse: earlier accesses come before the token */
{
	see_locks(true);
	__tsan_release(what.get());
	see_locks(false);
}
inline uint32_t load_word(const uint32_t *at)
{
	return __tsan_atomic32_load(at, __ATOMIC_ACQUIRE);
}
inline void store_word(uint32_t *at, uint32_t value)
{
	__tsan_atomic32_store(at, value, __ATOMIC_RELEASE);
}
#else
inline token make_token()
{
	return nullptr;
}
inline void see_locks(bool)
{
}
inline void see_accesses(bool)
{
}
inline void after(const token &)
{
}
inline void before(const token &)
{
}
inline uint32_t load_word(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
inline void store_word(uint32_t *at, uint32_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}
#endif

inline void see(bool seen)
{
	see_accesses(seen);
	see_locks(seen);
}

/** While it exists, the thread's accesses are invisible. Must not be nested. */
struct unseen {
	unseen()
	{
		see(false);
	}
	~unseen()
	{
		see(true);
	}
	unseen(const unseen &) = delete;
	unseen &operator=(const unseen &) = delete;
};

/** The fiber that runs a queue's operations. The device thread enters and leaves it; both sides are
 * invisible. */
struct context {
#ifdef LANES_TSAN
	void *fiber = nullptr, *device = nullptr;

	void enter()
	{
		const bool first = !fiber;

		device = __tsan_get_current_fiber();
		if (first)
			fiber = __tsan_create_fiber(0);
		__tsan_switch_to_fiber(fiber, 1); /* 1: the switch implies no order */
		if (first)
			see(false);
	}
	void leave()
	{
		__tsan_switch_to_fiber(device, 1);
	}
	~context()
	{
		if (!fiber)
			return;
		device = __tsan_get_current_fiber();
		__tsan_switch_to_fiber(fiber, 1);
		see(true);
		__tsan_switch_to_fiber(device, 1);
		__tsan_destroy_fiber(fiber);
	}
#else
	void enter()
	{
	}
	void leave()
	{
	}
#endif
};

} // namespace race

#endif
