/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Status codes, and the error text of the last call that failed.
 *
 * Functions of rung return an `int`: zero or a count on success, one of the negative codes below on
 * failure. The function that fails first records an error text with the file, the position, the
 * value and a remedy. rung_last_error() returns it on the thread that made the call. If another
 * thread did the work, the text belongs to the request: rung_request_error() in store.h.
 */
#ifndef RUNG_STATUS_H
#define RUNG_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RUNG_API __attribute__((visibility("default")))
#else
#define RUNG_API
#endif

/** The C initialiser of a struct of options: its size, and the defaults for all else. */
#define RUNG_INIT(type)                                                                            \
	{                                                                                          \
		.size = sizeof(type)                                                               \
	}

/**
 * Every struct of options has two initialisers: RUNG_..._INIT for C and rung_..._init() for C++,
 * because C++ has no designated initialisers before C++20:
 * `struct rung_plan_opts opts = rung_plan_opts_init();`. `nested` is a block that sets the sizes of
 * structs of options inside the struct.
 */
#ifdef __cplusplus
#define RUNG_INIT_FUNCTION(name, nested)                                                           \
	static inline struct name name##_init(void)                                                \
	{                                                                                          \
		struct name opts = {};                                                             \
		opts.size = sizeof(opts);                                                          \
		nested return opts;                                                                \
	}
#else
#define RUNG_INIT_FUNCTION(name, nested)
#endif

/** X(code, value, text) for every status code. */
#define RUNG_STATUS_LIST(X)                                                                        \
	X(RUNG_E_INVAL, -1, "invalid argument")                                                    \
	X(RUNG_E_NOMEM, -2, "out of memory")                                                       \
	X(RUNG_E_IO, -3, "input/output error")                                                     \
	X(RUNG_E_NODEV, -4, "no such hardware")                                                    \
	X(RUNG_E_NOSUP, -5, "not built in or not available")                                       \
	X(RUNG_E_AGAIN, -6, "all requests are in flight")                                          \
	X(RUNG_E_ABI, -7, "caller was built for a newer rung")                                     \
	X(RUNG_E_NOENT, -8, "no such file or entry")                                               \
	X(RUNG_E_EXIST, -9, "output exists")                                                       \
	X(RUNG_E_FORMAT, -10, "malformed file")                                                    \
	X(RUNG_E_RANGE, -11, "id out of range")                                                    \
	X(RUNG_E_NOSPC, -12, "out of disk space")                                                  \
	X(RUNG_E_CORRUPT, -13, "data do not verify")                                               \
	X(RUNG_E_CANCELED, -14, "canceled")                                                        \
	X(RUNG_E_TIMEDOUT, -15, "timed out")                                                       \
	X(RUNG_E_BUSY, -16, "in use by another process")

/** Status codes that functions return. All except RUNG_OK are negative. */
enum rung_status {
	RUNG_OK = 0,
#define RUNG_STATUS_ENUM(code, value, text) code = value,
	RUNG_STATUS_LIST(RUNG_STATUS_ENUM)
#undef RUNG_STATUS_ENUM
};

/**
 * Name of a status code, for logs and tests.
 *
 * @param status  the return value of any function of rung
 * @return a constant string such as "RUNG_E_INVAL", which must not be freed; "RUNG_OK" for zero and
 *         for counts; "RUNG_E_?" for a negative value that is not a status code
 *
 * Users read rung_last_error() instead: it has the file, the value and a remedy.
 *
 * Threads: any.
 */
RUNG_API const char *rung_status_name(int status);

/**
 * Short description of a status code in English.
 *
 * @param status  the return value of any function of rung
 * @return a constant string such as "invalid argument", which must not be freed
 *
 * It describes the kind of failure only. rung_last_error() returns the text of the failure itself,
 * with the file, the value and a remedy.
 *
 * Threads: any.
 */
RUNG_API const char *rung_status_text(int status);

/**
 * Error text of the last call that failed on the calling thread.
 *
 * @return text without a line end; "" if no call has failed on this thread; never NULL. rung owns
 *         it, and it is valid until the next call that fails on the thread.
 *
 * A call that succeeds does not clear the text, so check the status first. Work that another thread
 * finishes records its text in the request: see rung_request_error().
 *
 * Threads: each has its own text.
 */
RUNG_API const char *rung_last_error(void);

/**
 * Smallest memory budget that would have been enough.
 *
 * @return bytes, if the last call that failed on the calling thread failed because a memory budget
 *         was too small; else 0
 *
 * Callers that choose budgets automatically can retry the call with this value. The text of
 * rung_last_error() has the same number.
 *
 * Threads: each has its own value.
 */
RUNG_API unsigned long long rung_last_error_min_bytes(void);

/**
 * Version of the library.
 *
 * @return a constant string "major.minor.patch", which must not be freed
 *
 * It is the version of the library that is loaded at run time, which may be newer than the headers
 * that a program was built with. Structs of options carry their size, so that an older program
 * keeps working with a newer library.
 *
 * Threads: any.
 */
RUNG_API const char *rung_version(void);

/**
 * Git commit that the library was built from.
 *
 * @return a constant string, which must not be freed: an abbreviated commit id, with "-dirty" if
 *         files were modified; "unknown" if the library was not built in a git checkout
 *
 * The command `rung --version` prints it, and result files contain it, so that measurements can be
 * repeated with the same code.
 *
 * Threads: any.
 */
RUNG_API const char *rung_commit(void);

/**
 * Enumerate the optional features, and whether they are built in.
 *
 * @param idx           0, 1, 2 and so on
 * @param built_in_out  1 if the feature is built in, else 0
 * @param why_out       a few words: the version that was found, or why the feature is not built in
 * @return the name of the feature ("io_uring", "numa", "openmp", "cuda"); NULL past the last one.
 *         All strings are constant and must not be freed.
 *
 * Threads: any.
 */
RUNG_API const char *rung_feature(unsigned idx, int *built_in_out, const char **why_out);

/**
 * Free memory that a function of rung returned.
 *
 * @param ptr  memory whose documentation names rung_free(); NULL is allowed
 *
 * Objects are freed by their own functions, such as rung_store_close(). Do not pass memory of
 * malloc(): the library and the program may use different allocators.
 *
 * Threads: any; the memory must not be in use on another thread.
 */
RUNG_API void rung_free(void *ptr);

/**
 * Callback for progress: long-running functions call it with the work done so far.
 *
 * @param ctx    the progress_ctx that was passed with the callback
 * @param step   short constant name of the current step ("edges", "features")
 * @param done   work done, in units of the step
 * @param total  work of the step; 0 if unknown
 * @return 0 to continue; any other value cancels the function, which returns RUNG_E_CANCELED
 *
 * Threads: called on the thread that called the function, unless the function says otherwise.
 */
typedef int (*rung_progress_fn)(void *ctx, const char *step, unsigned long long done,
                                unsigned long long total);

/**
 * Make the long calls of this thread cancelable, also those without an option for progress:
 * rung_gather(), rung_request_wait(), and the functions that open stores and structures, plan, load
 * arrays and graphs, or sample.
 *
 * @param canceled  called after at most 2^20 rows or 64 MiB of work, and every 50 ms of a wait,
 *                  with the bytes of work so far as `done` and a `total` of 0. A nonzero result
 *                  ends the call, which returns RUNG_E_CANCELED. NULL: calls run to their end
 * @param ctx       passed to `canceled`
 *
 * It applies until the next call of this function on the thread, and to no other thread. After
 * RUNG_E_CANCELED, memory for results may be partly written; a request stays in flight if
 * rung_request_wait() was canceled.
 *
 * Threads: any.
 */
RUNG_API void rung_interrupt_set(rung_progress_fn canceled, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
