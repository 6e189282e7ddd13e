/* SPDX-License-Identifier: Apache-2.0 */
/** Basics that all parts of rung use: failures, memory, options, sizes, threads, time. Private to
 * rung, as all names that start with rung__. */
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

#define RUNG__ERROR_BYTES 1024  /* longest text of a failure, with its NUL; longer ones are cut */
#define RUNG__PAGE_BYTES  4096u /* alignment that O_DIRECT accepts on every device */

/**
 * Record why a call fails, as the calling thread's last error. Returns `status`, so that `return
 * rung__fail(...)` is one line. The function that detects the failure calls it, once; its callers
 * pass the status on. The text names file, position, value and remedy, without a full stop. With
 * RUNG_E_NOMEM it may be just the purpose of the memory and its size, because ": out of memory" is
 * appended. The arguments may point into the last error.
 */
int rung__fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** As rung__fail() for a memory budget that is too small, with RUNG_E_INVAL. `least` is the
 * smallest budget that works, in bytes; the text contains it too. rung_last_error_min_bytes()
 * returns it. */
int rung__fail_min_bytes(uint64_t least, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** As rung__fail(), with ": <strerror(err)>" appended and the status for that errno value (ENOENT,
 * ENOSPC, ENOMEM and others; RUNG_E_IO by default). */
int rung__fail_errno(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Set this thread's last error to `text`, such as the error of a request. Returns `status`. */
int rung__fail_text(int status, const char *text);

/** Work of a loop after which it is interruptible, see rung_interrupt_set(). A row, an id or an
 * edge counts as RUNG__WORK_ROW bytes, so that this is also 2^20 of them. */
#define RUNG__WORK_BYTES (UINT64_C(64) << 20)
#define RUNG__WORK_ROW   64u

/** Count work of the calling thread, in bytes. @param step  for the message, such as "forecast"
 * @return 0, or RUNG_E_CANCELED if the caller wants the call to end */
int rung__worked(const char *step, uint64_t bytes);

/** The same for a wait, without work: the caller's function is called now. */
int rung__interrupt_poll(const char *step);

/** Whether calls of this thread can be canceled that way. */
bool rung__interruptible(void);

/** Find the first of `count` ids that is not below `limit`; *at_out is `count` if all are.
 * @return 0, RUNG_E_CANCELED */
int rung__ids_stray(const char *step, const void *ids, unsigned id_bytes, uint64_t count,
                    uint64_t limit, uint64_t *at_out);

/**
 * The first failure of several threads. The last error is private to its thread, so its text is
 * copied here for the thread that reports it. A zeroed struct has no failure. rung__failure_keep()
 * needs no lock. It writes the text after `rc`, so call rung__failure_report() only after the
 * threads have ended, or with a lock held that each thread also holds while it keeps a failure.
 */
struct rung__failure {
	int rc; /* status of the first failure; 0: no failure */
	char text[RUNG__ERROR_BYTES];
};

/** Keep `rc` and the calling thread's last error, if `rc` is the first failure. */
void rung__failure_keep(struct rung__failure *failure, int rc);

/** @return 0, or the failure, whose text is then the calling thread's last error */
int rung__failure_report(const struct rung__failure *failure);

/* Memory. All heap memory of rung is allocated here, and freed with rung__free(). NULL on failure,
 * or when a test injects one; the caller records the error, with the purpose of the memory. */

/** For 0 bytes, returns a pointer to one byte, so that NULL always means failure. */
void *rung__malloc(size_t bytes);
/** The same, zeroed. */
void *rung__zalloc(size_t bytes);
/** Allocate an array. Returns NULL if its size overflows, and one byte for count 0. */
void *rung__malloc_array(uint64_t count, size_t item_bytes);
void *rung__zalloc_array(uint64_t count, size_t item_bytes);
/** After a failure `ptr` is unchanged. */
void *rung__realloc_array(void *ptr, uint64_t count, size_t item_bytes);
/** `align` is a power of two. */
void *rung__malloc_aligned(size_t align, size_t bytes);

#define RUNG__HUGE_ALIGN 256u /* least alignment of rung__malloc_huge(), whatever the size */

/**
 * For large or randomly accessed memory: requests huge pages from 4 MiB on. With huge pages, the
 * first touch takes a fifth of the time, and access needs few TLB entries.
 */
void *rung__malloc_huge(uint64_t bytes);
char *rung__strdup(const char *text);
/** Like printf(), into newly allocated memory of the right size. */
char *rung__format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *rung__vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/** NULL is allowed. */
void rung__free(void *ptr);

/**
 * Map anonymous zeroed memory, aligned to 2 MiB, with huge pages requested; NULL on failure.
 * Release it, and the mappings below, with rung__unmap_pages(). A child of fork() does not inherit
 * it: otherwise copy-on-write could replace its pages while the kernel reads data into them.
 */
void *rung__map_pages(uint64_t bytes);
/**
 * The same, for memory that will perhaps be used only in part, from its start. Its first 2 MiB are
 * small pages, because the first byte would otherwise allocate a whole huge page.
 */
void *rung__map_growing(uint64_t bytes);
/** Map the memory of a descriptor, such as a memfd, which other processes can map too. */
void *rung__map_shared(int fd, uint64_t bytes, bool writable);
/** Map a part of such memory, writable, in place of the mapping at `base`. @param offset  whole
 * pages. @return false with errno */
bool rung__map_shared_at(void *base, int fd, uint64_t offset, uint64_t bytes);
/** Replace the writable mapping at `base` by a read-only one. @return false with errno; the range
 * then has the old mapping, or is unmapped */
bool rung__map_readonly(void *base, int fd, uint64_t bytes);
void rung__unmap_pages(void *ptr, uint64_t bytes);

/** Tests: set the number of allocations that still succeed; negative: no limit, which is the
 * default. */
void rung__alloc_limit(int64_t count);

/**
 * Copy a caller's options over the defaults, whichever version of rung the caller was built for.
 * Both structs begin with their size. A shorter one leaves the rest at its defaults; a longer one
 * must be zero past the end of the known struct: it then uses no option that this version lacks.
 * @param dst   [dst_size] with its defaults set
 * @param src   may be NULL: all defaults
 * @param what  name of the struct, for messages
 * @return 0, RUNG_E_INVAL (size not set), RUNG_E_ABI (an option that this version lacks is set)
 */
int rung__opts_copy_in(void *dst, size_t dst_size, const void *src, const char *what);

/** Copy a struct to a caller, as much of it as the caller's version has. Both begin with their
 * size, which the caller has set. @return 0, RUNG_E_INVAL (size not set), RUNG_E_ABI (a longer
 * struct than this version knows) */
int rung__opts_copy_out(void *dst, const void *known, size_t known_bytes, const char *what);

/* Sizes computed from untrusted numbers. @return false on overflow, with *out unchanged */
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

/* `align` is a power of two. Rounding up gives 0 for the last values below 2^64. */
static inline uint64_t rung__align_down(uint64_t x, uint64_t align)
{
	return x & ~(align - 1);
}

static inline uint64_t rung__align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

/* Ids of 4 or 8 bytes. If `bytes` does not change inside a loop, the compiler generates one loop
 * per width, and the test costs nothing. */
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

/** Nanoseconds of the monotonic clock. */
uint64_t rung__now_ns(void);

/**
 * Number of threads for a parallel region: `wanted`, at most 1024, or the default of OpenMP for 0.
 * It is always 1 without OpenMP, and in a child forked by a process that had parallel regions,
 * because OpenMP's threads do not exist in the child. Every parallel region calls this.
 */
int rung__threads(uint32_t wanted);

/** Index of the calling thread in its parallel region; 0 without OpenMP. */
int rung__thread_number(void);

/** One step of splitmix64 (Steele, Lea, Flood 2014): a bijective 64-bit mix, for keys of random
 * draws and for hashes. */
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

/** The folder with sys/ and proc/ of the machine: "", except in tests. */
extern const char *rung__machine_root;

/** Host memory that can be allocated, in bytes: MemAvailable, or the rest of a control group's
 * limit if that is lower. 0: unknown. `root` is "" or, in tests, a folder with proc/ and sys/. */
uint64_t rung__host_memory_free(const char *root);

/**
 * Default memory budget of long work, in bytes: a quarter of RAM, and at most three quarters of the
 * memory that can be allocated, because not all allocations are counted.
 */
uint64_t rung__host_memory_budget(const char *root);

/** Lowest memory limit of the control groups of this process, in bytes; UINT64_MAX: no limit. */
uint64_t rung__host_memory_limit(const char *root);

/** Threads that the control groups of this process still permit; UINT64_MAX: no limit.
 * @param limit_out  the lowest limit of these groups, which can be another one's */
uint64_t rung__threads_free(const char *root, uint64_t *limit_out);

#endif
