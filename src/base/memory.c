/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap memory, with a limit that tests set to inject failures; mapped memory; copying structs of
 * options across versions; the clock, and the number of OpenMP's threads.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/base.h"

#define HUGE_BYTES (2u << 20) /* a huge page of x86-64 and arm64 */

static _Atomic int64_t allocations_left = -1;

void rung__alloc_limit(int64_t count)
{
	atomic_store(&allocations_left, count);
}

/* Count an allocation. Allocations of other threads count as well, so it is atomic; without a limit
 * it is one load. */
static bool may_allocate(void)
{
	int64_t left = atomic_load_explicit(&allocations_left, memory_order_relaxed);

	/* a failed exchange loads `left` again */
	while (left >= 0) {
		if (left == 0)
			return false;
		if (atomic_compare_exchange_weak(&allocations_left, &left, left - 1))
			return true;
	}
	return true;
}

void *rung__malloc(size_t bytes)
{
	/* malloc(0) may return NULL, which would look like a failure */
	return may_allocate() ? malloc(bytes ? bytes : 1) : NULL;
}

void *rung__zalloc(size_t bytes)
{
	return may_allocate() ? calloc(1, bytes ? bytes : 1) : NULL;
}

void *rung__malloc_array(uint64_t count, size_t item_bytes)
{
	uint64_t bytes;

	/* counts may come from files; no object can be larger than PTRDIFF_MAX */
	if (!rung__mul(count, item_bytes, &bytes) || bytes > PTRDIFF_MAX)
		return NULL;
	return rung__malloc((size_t)bytes);
}

void *rung__zalloc_array(uint64_t count, size_t item_bytes)
{
	uint64_t bytes;

	if (!rung__mul(count, item_bytes, &bytes) || bytes > PTRDIFF_MAX)
		return NULL;
	return rung__zalloc((size_t)bytes);
}

void *rung__realloc_array(void *ptr, uint64_t count, size_t item_bytes)
{
	uint64_t bytes;

	if (!rung__mul(count, item_bytes, &bytes) || bytes > PTRDIFF_MAX || !may_allocate())
		return NULL;
	return realloc(ptr, bytes ? (size_t)bytes : 1);
}

void *rung__malloc_aligned(size_t align, size_t bytes)
{
	void *ptr;

	if (!may_allocate() || bytes > PTRDIFF_MAX - align)
		return NULL;
	/* aligned_alloc() needs a multiple of the alignment */
	ptr = aligned_alloc(align, (size_t)rung__align_up(bytes ? bytes : 1, align));
	return ptr;
}

void *rung__malloc_huge(uint64_t bytes)
{
	void *ptr;

	if (bytes < 2 * HUGE_BYTES)
		return rung__malloc_aligned(RUNG__HUGE_ALIGN, (size_t)bytes);
	if (!may_allocate() || bytes > PTRDIFF_MAX - HUGE_BYTES ||
	    posix_memalign(&ptr, HUGE_BYTES, (size_t)bytes) != 0)
		return NULL;
	/* only advice: small pages work as well */
	madvise(ptr, (size_t)bytes & ~(size_t)(RUNG__PAGE_BYTES - 1), MADV_HUGEPAGE);
	return ptr;
}

char *rung__strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = rung__malloc(bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

char *rung__vformat(const char *format, va_list args)
{
	va_list again;
	char *text;
	int len;

	va_copy(again, args); /* the first call only measures the text, but would use up `args` */
	len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	text = len < 0 ? NULL : rung__malloc((size_t)len + 1);
	if (text)
		vsnprintf(text, (size_t)len + 1, format, args);
	return text;
}

char *rung__format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = rung__vformat(format, args);
	va_end(args);
	return text;
}

void rung__free(void *ptr)
{
	free(ptr);
}

/* public, because callers may use a different allocator than the library */
void rung_free(void *ptr)
{
	free(ptr);
}

/* Reserve address space, without memory, aligned to a huge page. mmap() aligns only to small pages,
 * so one more huge page than needed is mapped, and both ends are unmapped. */
static unsigned char *reserve(uint64_t size)
{
	unsigned char *map, *base;
	size_t lead, tail;

	if (size > PTRDIFF_MAX - HUGE_BYTES || !may_allocate())
		return NULL;
	map = mmap(NULL, (size_t)size + HUGE_BYTES, PROT_NONE,
	           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	base = (unsigned char *)rung__align_up((uint64_t)(uintptr_t)map, HUGE_BYTES);
	lead = (size_t)(base - map);
	tail = HUGE_BYTES - lead;
	if (lead)
		munmap(map, lead);
	if (tail)
		munmap(base + size, tail);
	return base;
}

/* Replace the mapping at `base`, which is not shared with a child of fork(). MAP_FIXED replaces it
 * in one step: no other thread can map memory there in between. */
static bool map_at(unsigned char *base, uint64_t size, int prot, int flags, int fd, uint64_t offset)
{
	if (mmap(base, (size_t)size, prot, flags | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED)
		return false;
	madvise(base, (size_t)size, MADV_HUGEPAGE); /* only advice */
	madvise(base, (size_t)size, MADV_DONTFORK);
	return true;
}

/* Map new address space, aligned to a huge page. 0 bytes are one page, because mmap() refuses 0. */
static void *map_new(uint64_t bytes, int prot, int flags, int fd)
{
	uint64_t size = rung__align_up(bytes ? bytes : 1, RUNG__PAGE_BYTES);
	/* size < bytes: rounding up has overflowed */
	unsigned char *base = size < bytes ? NULL : reserve(size);

	if (base && !map_at(base, size, prot, flags, fd, 0)) {
		munmap(base, (size_t)size);
		return NULL;
	}
	return base;
}

void *rung__map_pages(uint64_t bytes)
{
	return map_new(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	               -1);
}

void *rung__map_growing(uint64_t bytes)
{
	void *base = rung__map_pages(bytes);

	if (base)
		madvise(base,
		        (size_t)rung__align_up(RUNG__MIN(bytes, HUGE_BYTES), RUNG__PAGE_BYTES),
		        MADV_NOHUGEPAGE);
	return base;
}

void *rung__map_shared(int fd, uint64_t bytes, bool writable)
{
	return map_new(bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
	               MAP_SHARED | MAP_NORESERVE, fd);
}

bool rung__map_shared_at(void *base, int fd, uint64_t offset, uint64_t bytes)
{
	return map_at(base, rung__align_up(bytes ? bytes : 1, RUNG__PAGE_BYTES),
	              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
}

bool rung__map_readonly(void *base, int fd, uint64_t bytes)
{
	return map_at(base, rung__align_up(bytes ? bytes : 1, RUNG__PAGE_BYTES), PROT_READ,
	              MAP_SHARED | MAP_NORESERVE, fd, 0);
}

void rung__unmap_pages(void *ptr, uint64_t bytes)
{
	if (ptr)
		munmap(ptr, (size_t)rung__align_up(bytes ? bytes : 1, RUNG__PAGE_BYTES));
}

int rung__opts_copy_in(void *dst, size_t dst_size, const void *src, const char *what)
{
	const unsigned char *bytes = src;
	size_t src_size;

	if (!src)
		return 0;
	memcpy(&src_size, src, sizeof(src_size)); /* `size` is the first field of every struct */
	/* 0 is the usual mistake: a struct that was cleared instead of initialised */
	if (src_size < sizeof(size_t))
		return rung__fail(RUNG_E_INVAL,
		                  "%s: size is %zu; set it with the struct's initialiser", what,
		                  src_size);
	/* a caller of a newer rung: options that are unknown here must have their defaults, zero */
	for (size_t i = dst_size; i < src_size; i++) {
		if (bytes[i])
			return rung__fail(
				RUNG_E_ABI,
				"%s: has %zu bytes and uses byte %zu, but this version of "
				"rung supports at most %zu bytes; update the library",
				what, src_size, i, dst_size);
	}
	memcpy(dst, src, RUNG__MIN(dst_size, src_size));
	return 0;
}

int rung__opts_copy_out(void *dst, const void *known, size_t known_bytes, const char *what)
{
	size_t size;

	memcpy(&size, dst, sizeof(size));
	if (size < sizeof(size))
		return rung__fail(RUNG_E_INVAL, "%s: size is %zu; set it to sizeof(struct %s)",
		                  what, size, what);
	if (size > known_bytes)
		return rung__fail(
			RUNG_E_ABI,
			"%s: has %zu bytes, but this version of rung supports at most %zu; "
			"update the library",
			what, size, known_bytes);
	/* the caller's size stays */
	memcpy((char *)dst + sizeof(size), (const char *)known + sizeof(size), size - sizeof(size));
	return 0;
}

uint64_t rung__now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int rung__thread_number(void)
{
#ifdef _OPENMP
	return omp_get_thread_num();
#else
	return 0;
#endif
}

#ifdef _OPENMP
/* has_team: this process has had a parallel region. is_forked: its parent had one before fork(). */
static atomic_bool has_team, is_forked;

/* Runs in the child of fork(). The threads of libgomp's team do not exist there, and libgomp would
 * wait for them forever. This must not call OpenMP: LLVM's library holds its locks until its own
 * handler of the fork has run. */
static void leave_team(void)
{
	if (atomic_load(&has_team))
		atomic_store(&is_forked, true);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, leave_team);
}
#endif

int rung__threads(uint32_t wanted)
{
#ifdef _OPENMP
	/* loaded first: a store by every thread would move the cache line between CPUs */
	if (!atomic_load_explicit(&has_team, memory_order_relaxed))
		atomic_store(&has_team, true);
	if (atomic_load_explicit(&is_forked, memory_order_relaxed))
		return 1;
	if (wanted == 0)
		return omp_get_max_threads();
	return wanted > 1024 ? 1024 : (int)wanted;
#else
	(void)wanted;
	return 1;
#endif
}
