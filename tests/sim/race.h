/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the simulated CUDA runtime: races under ThreadSanitizer; without it, nothing.
 *
 * One lock and one device thread would put all that streams do into one order and hide every race.
 * So what the simulator does for itself is unseen (it is compiled without the sanitizer, and its
 * locks are ignored), each queue is a fiber of the sanitizer's, and the orders that CUDA promises
 * are announced, those and no others: an operation comes after the call that put it on its stream
 * and after those in front of it; a wait, after the operation waited for. What is seen are the
 * accesses of kernels (the harness announces each), of copies and fills, and words that streams
 * wait for; of host functions only what they lock and signal, because all of them have the device
 * thread's stack. So a kernel that writes what the host, or another stream, reads without waiting
 * is reported, however the threads happened to run.
 */
#ifndef SIM_RACE_H
#define SIM_RACE_H

#include <cstddef>
#include <cstdint>
#include <memory>

#ifdef LANES_TSAN
extern "C" { /* some are built into gcc, with just these types */
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

/** An operation, to the sanitizer. Null without it. */
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
inline void after(const token &what) /* from unseen code: what follows comes after it */
{
	if (!what)
		return;
	see_locks(true);
	__tsan_acquire(what.get());
	see_locks(false);
}
inline void before(const token &what) /* the same, the other way round */
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

/** Until its end, nothing that the thread does is seen. Not inside another. */
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

/** What a queue's operations run as. The device thread enters and leaves, unseen on both sides. */
struct context {
#ifdef LANES_TSAN
	void *fiber = nullptr, *device = nullptr;

	void enter()
	{
		const bool first = !fiber;

		device = __tsan_get_current_fiber();
		if (first)
			fiber = __tsan_create_fiber(0);
		__tsan_switch_to_fiber(fiber, 1); /* 1: no order comes of it */
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
