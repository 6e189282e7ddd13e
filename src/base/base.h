/* SPDX-License-Identifier: Apache-2.0 */
/** Basics shared by all parts of rung: failures, memory, options, sizes, time. Private: names start
 * with rung__. */
#ifndef RUNG_INTERNAL_H
#define RUNG_INTERNAL_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/dtype.h"
#include "rung/status.h"

#ifdef __cplusplus
extern "C" { /* for kernels/ */
#endif

/* Arithmetic shared by kernels/ and the core, so that both compute the same results. */
#ifdef __CUDACC__
#define RUNG__ANYWHERE __host__ __device__
#else
#define RUNG__ANYWHERE
#endif

#define RUNG__ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define RUNG__MIN(a, b)    ((a) < (b) ? (a) : (b))
#define RUNG__MAX(a, b)    ((a) > (b) ? (a) : (b))

#define RUNG__ERROR_BYTES 1024  /* longest sentence kept of a failure */
#define RUNG__PAGE_BYTES  4096u /* alignment that O_DIRECT takes on every device */

/**
 * Record why a call fails; returns `status`, so that `return rung__fail(...)` is one line. The
 * function that decides the failure calls it, once; those above pass the status on. The sentence
 * names file, place, value and cure, without a full stop.
 */
int rung__fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** As rung__fail() for a memory budget that is too small: RUNG_E_INVAL, and `least` is the smallest
 * budget that works, in bytes. The message contains it too. */
int rung__fail_min_bytes(uint64_t least, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** As rung__fail(), with ": <strerror(err)>" appended and the status for that errno value (ENOENT,
 * ENOSPC, ENOMEM and others; RUNG_E_IO by default). */
int rung__fail_errno(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Put a sentence back as this thread's last error (one kept by a request). Returns `status`. */
int rung__fail_text(int status, const char *text);

/**
 * The failure of one of several threads. The last error belongs to a thread, so it is carried to
 * the thread that reports it. All zero: no failure. Keeping needs no lock. Report it after the
 * threads have ended, or under the lock under which they keep failures.
 */
struct rung__failure {
	int rc; /* of the first that was kept */
	char text[RUNG__ERROR_BYTES];
};

/** Keep `rc` and the calling thread's last error, if rc is a failure and the first. */
void rung__failure_keep(struct rung__failure *failure, int rc);

/** @return 0, or the failure, which is then the calling thread's */
int rung__failure_report(const struct rung__failure *failure);

/* Memory. All heap memory of rung is allocated here; NULL on failure, or when a test injects
 * one. */
void *rung__malloc(size_t bytes);
void *rung__zalloc(size_t bytes);
/* NULL on overflow; 1 byte for count 0 */
void *rung__malloc_array(uint64_t count, size_t item_bytes);
void *rung__zalloc_array(uint64_t count, size_t item_bytes);
void *rung__realloc_array(void *ptr, uint64_t count, size_t item_bytes);
/* align a power of two; freed with rung__free() */
void *rung__malloc_aligned(size_t align, size_t bytes);

#define RUNG__HUGE_ALIGN 256u

/* For large or randomly accessed memory: uses huge pages if it fills at least one, which needs a
 * fifth of the time for the first touch and few TLB entries. Aligned to at least RUNG__HUGE_ALIGN;
 * freed with rung__free(). */
void *rung__malloc_huge(uint64_t bytes);
char *rung__strdup(const char *text);
char *rung__format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *rung__vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
void rung__free(void *ptr);

/**
 * Anonymous zeroed memory, 2 MiB aligned, with huge pages requested; NULL on failure. fork() does
 * not copy it: while the kernel writes to it, copy-on-write in a child would move the pages away
 * from under a read.
 */
void *rung__map_pages(uint64_t bytes);
/**
 * The same for memory that is used from its beginning up to where it is needed. Its first 2 MiB are
 * small pages, because the first few bytes would touch the whole of a huge page.
 */
void *rung__map_growing(uint64_t bytes);
/** The same over the memory of a descriptor, which other processes may map too. */
void *rung__map_shared(int fd, uint64_t bytes, bool writable);
/** The same over a part of such memory, writable, in the place of other memory. @param offset whole
 * pages. @return false with errno */
bool rung__map_shared_at(void *base, int fd, uint64_t offset, uint64_t bytes);
/** Put a read-only mapping in the place of a writable one. @return false with errno, the old one
 * still there or nothing */
bool rung__map_readonly(void *base, int fd, uint64_t bytes);
void rung__unmap_pages(void *ptr, uint64_t bytes);

/** Tests: the number of allocations that still succeed, negative for no limit (the default). */
void rung__alloc_limit(int64_t count);

/**
 * Copy a caller's options over our defaults: a shorter struct leaves the rest, a longer one must be
 * zero past our end. `dst` is `dst_size` bytes with its defaults set (all zero for most); `src` may
 * be NULL.
 */
int rung__opts_copy_in(void *dst, size_t dst_size, const void *src, const char *what);

/** Give a caller as much of a struct as it knows; both begin with their size, which the caller has
 * set. @return 0 or RUNG_E_ABI, _INVAL */
int rung__opts_copy_out(void *dst, const void *known, size_t known_bytes, const char *what);

/* Sizes: false on overflow, *out untouched. */
static inline bool rung__mul(uint64_t a, uint64_t b, uint64_t *out)
{
	uint64_t r;
	if (__builtin_mul_overflow(a, b, &r))
		return false;
	*out = r;
	return true;
}

static inline bool rung__add(uint64_t a, uint64_t b, uint64_t *out)
{
	uint64_t r;
	if (__builtin_add_overflow(a, b, &r))
		return false;
	*out = r;
	return true;
}

/* align: a power of two */
static inline uint64_t rung__align_down(uint64_t x, uint64_t align)
{
	return x & ~(align - 1);
}

static inline uint64_t rung__align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

/* Ids of 4 or 8 bytes. `bytes` does not change inside a loop: the compiler makes two loops of
 * it. */
static inline uint64_t rung__id_get(const void *ids, unsigned bytes, uint64_t i)
{
	return bytes == 4 ? ((const uint32_t *)ids)[i] : ((const uint64_t *)ids)[i];
}

static inline void rung__id_set(void *ids, unsigned bytes, uint64_t i, uint64_t value)
{
	if (bytes == 4)
		((uint32_t *)ids)[i] = (uint32_t)value;
	else
		((uint64_t *)ids)[i] = value;
}

/** Monotonic clock. */
uint64_t rung__now_ns(void);

/**
 * Threads for a parallel part: `wanted`, or as many as OpenMP would take for 0; always 1 without
 * OpenMP, and in a child forked by a process that had such parts, as OpenMP's threads are not
 * there. Every parallel part asks here.
 */
int rung__threads(uint32_t wanted);

/** Number of this thread inside a parallel part; 0 without OpenMP. */
int rung__thread_number(void);

/** splitmix64's finaliser (Steele, Lea, Flood 2014): a good 64-bit mix for keys of random draws and
 * hashes. */
static RUNG__ANYWHERE inline uint64_t rung__mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

#ifdef __cplusplus
}
#endif

/* ---- dtype.c ---- */

/** The dtype with this name; RUNG_DTYPE_NONE if the name is unknown. */
enum rung_dtype rung__dtype_parse(const char *name);

/* ---- host_memory.c ---- */

/** Host memory that can be allocated: MemAvailable, or the limit of a control group if that is
 * lower. `root` is "" or, in tests, a folder with proc/ and sys/. */
uint64_t rung__host_memory_free(const char *root);

/**
 * Default memory of long work: a quarter of RAM, and at most three quarters of what can be
 * allocated, because not all allocations are counted.
 */
uint64_t rung__host_memory_budget(const char *root);

/** The tightest memory limit of the control groups above this process; UINT64_MAX: none. */
uint64_t rung__host_memory_limit(const char *root);

#endif
