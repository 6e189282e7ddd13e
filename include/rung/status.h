/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Status codes, and the text of the last failure.
 *
 * Functions of rung return `int`: zero or a count when they succeed, one of the negative codes below when they do not.
 * The function that fails first records a sentence that names the file, the place, the value and the cure;
 * rung_last_error() returns it on the thread that made the call. The sentence of work finished by another thread
 * stays with its request: rung_request_error() in store.h.
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

/**
 * The initialiser of a struct of options is RUNG_..._INIT in C and, since C++ had no designated
 * initialisers before C++20, rung_..._init() in C++: `struct rung_plan_opts opts =
 * rung_plan_opts_init();`. `nested` is a block that sets the sizes of the options inside.
 */
#ifdef __cplusplus
#define RUNG_INIT_FUNCTION(name, nested)                                                   \
	static inline struct name name##_init(void)                                        \
	{                                                                                  \
		struct name opts = {};                                                     \
		opts.size = sizeof(opts);                                                  \
		nested                                                                     \
		return opts;                                                               \
	}
#else
#define RUNG_INIT_FUNCTION(name, nested)
#endif

/** X(code, value, text): the one list of status codes. */
#define RUNG_STATUS_LIST(X)                                                                \
	X(RUNG_E_INVAL, -1, "invalid argument")                                            \
	X(RUNG_E_NOMEM, -2, "out of memory")                                               \
	X(RUNG_E_IO, -3, "input/output error")                                             \
	X(RUNG_E_NODEV, -4, "no such hardware")                                            \
	X(RUNG_E_NOSUP, -5, "not built in or not available")                               \
	X(RUNG_E_AGAIN, -6, "all requests are in flight")                                  \
	X(RUNG_E_ABI, -7, "caller was built for a newer rung")                             \
	X(RUNG_E_NOENT, -8, "no such file or entry")                                       \
	X(RUNG_E_EXIST, -9, "output exists")                                               \
	X(RUNG_E_FORMAT, -10, "malformed file")                                            \
	X(RUNG_E_RANGE, -11, "id out of range")                                            \
	X(RUNG_E_NOSPC, -12, "out of disk space")                                          \
	X(RUNG_E_CORRUPT, -13, "data do not verify")                                       \
	X(RUNG_E_CANCELED, -14, "canceled")                                                \
	X(RUNG_E_TIMEDOUT, -15, "timed out")                                               \
	X(RUNG_E_BUSY, -16, "in use by another process")

/** What functions return, those of RUNG_STATUS_LIST; each is negative but RUNG_OK. */
enum rung_status {
	RUNG_OK = 0,
#define RUNG_STATUS_ENUM(code, value, text) code = value,
	RUNG_STATUS_LIST(RUNG_STATUS_ENUM)
#undef RUNG_STATUS_ENUM
};

/** Name of a status, "RUNG_E_INVAL"; "RUNG_OK" for zero and counts, "RUNG_E_?" for a code that is not in the list. */
RUNG_API const char *rung_status_name(int status);

/** Short text of a status, "invalid argument". */
RUNG_API const char *rung_status_text(int status);

/**
 * The sentence recorded by the last call that failed on this thread; "" when none has.
 * Valid until the next failing call on the thread. Never NULL.
 */
RUNG_API const char *rung_last_error(void);

/** Bytes that would have been enough, when the call that rung_last_error() tells of failed because a memory budget was too small; else 0. */
RUNG_API unsigned long long rung_last_error_least(void);

/** Version as "major.minor.patch". */
RUNG_API const char *rung_version(void);

/** Commit this library was built from, "unknown" outside a git checkout. */
RUNG_API const char *rung_commit(void);

/**
 * What is built in: `idx` 0, 1, 2 … gives one feature each ("io_uring", "numa", "openmp", "cuda"), NULL past the end.
 *
 * @param built_in_out  1 when it is built in, else 0
 * @param why_out       a few words: the version found, or why it is not built in
 */
RUNG_API const char *rung_feature(unsigned idx, int *built_in_out, const char **why_out);

/** Free memory that a function of rung says is to be freed with rung_free(); NULL is allowed. */
RUNG_API void rung_free(void *ptr);

/**
 * Called with work done and work in all while a long function runs; return nonzero to cancel it (RUNG_E_CANCELED).
 * `stage` is a short constant name of the step ("edges", "features"); units are those of the step, `total` 0 when unknown.
 */
typedef int (*rung_progress_fn)(void *ctx, const char *stage, unsigned long long done, unsigned long long total);

#ifdef __cplusplus
}
#endif
#endif
