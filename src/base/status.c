/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, the text of the last failure of each thread, and the list of built-in features. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "rung_config.h"

static _Thread_local char last_error[RUNG__ERROR_BYTES];
static _Thread_local uint64_t last_error_least; /* bytes; 0: not an error about a memory budget */

const char *rung_status_name(int status)
{
	switch (status) {
#define NAME_CASE(code, value, text)                                                               \
	case code:                                                                                 \
		return #code;
		RUNG_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
	default: /* positive values are counts, returned on success */
		return status >= 0 ? "RUNG_OK" : "RUNG_E_?";
	}
}

const char *rung_status_text(int status)
{
	switch (status) {
#define TEXT_CASE(code, value, text)                                                               \
	case code:                                                                                 \
		return text;
		RUNG_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
	default:
		return status >= 0 ? "success" : "unknown status";
	}
}

const char *rung_last_error(void)
{
	return last_error;
}

unsigned long long rung_last_error_min_bytes(void)
{
	return last_error_least;
}

/* Replace the last error of this thread. A text that is too long is cut. */
static void record(uint64_t least, const char *format, va_list args)
{
	char text[RUNG__ERROR_BYTES]; /* not last_error itself: the arguments may point into it */

	vsnprintf(text, sizeof(text), format, args);
	memcpy(last_error, text, sizeof(text));
	last_error_least = least;
}

/* The message of a failed allocation may just name the purpose and the size: add the reason. */
static void add_out_of_memory(void)
{
	const size_t length = strlen(last_error);

	if (!strstr(last_error, "memory"))
		snprintf(last_error + length, sizeof(last_error) - length, ": out of memory");
}

int rung__fail(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	record(0, format, args); /* also clears the budget of an earlier failure */
	va_end(args);
	if (status == RUNG_E_NOMEM)
		add_out_of_memory();
	return status;
}

int rung__fail_min_bytes(uint64_t least, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	record(least, format, args);
	va_end(args);
	return RUNG_E_INVAL;
}

/* The status for an errno value. EFBIG: the file system, or ulimit -f, limits the size of files. */
static int status_of_errno(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
		return RUNG_E_NOENT;
	case EEXIST:
	case ENOTEMPTY:
		return RUNG_E_EXIST;
	case ENOSPC: /* for a user, a quota that is exceeded is a full disk */
	case EDQUOT:
	case EFBIG:
		return RUNG_E_NOSPC;
	case ENOMEM:
		return RUNG_E_NOMEM;
	default:
		return RUNG_E_IO;
	}
}

int rung__fail_errno(int err, const char *format, ...)
{
	char text[RUNG__ERROR_BYTES / 2]; /* half: strerror() must fit after it */
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return rung__fail(status_of_errno(err), "%s: %s", text, strerror(err));
}

int rung__fail_text(int status, const char *text)
{
	return rung__fail(status, "%s", text);
}

void rung__failure_keep(struct rung__failure *failure, int rc)
{
	int none = 0;

	/* only the thread that stored its rc writes the text, so no two threads write it */
	if (rc < 0 && __atomic_compare_exchange_n(&failure->rc, &none, rc, false, __ATOMIC_RELAXED,
	                                          __ATOMIC_RELAXED))
		snprintf(failure->text, sizeof(failure->text), "%s", rung_last_error());
}

int rung__failure_report(const struct rung__failure *failure)
{
	return failure->rc < 0 ? rung__fail_text(failure->rc, failure->text) : 0;
}

const char *rung_version(void)
{
	return RUNG_VERSION_STRING;
}

const char *rung_commit(void)
{
	return RUNG_COMMIT_STRING;
}

const char *rung_feature(unsigned idx, int *built_in_out, const char **why_out)
{
	static const struct {
		const char *name;
		int built_in;
		const char *why; /* it is not built in; from CMake */
	} features[] = {
		{ "io_uring", RUNG_HAVE_IO_URING, RUNG_WHY_IO_URING },
		{ "numa", RUNG_HAVE_NUMA, RUNG_WHY_NUMA },
		{ "openmp", RUNG_HAVE_OPENMP, RUNG_WHY_OPENMP },
		{ "cuda", RUNG_HAVE_CUDA, RUNG_WHY_CUDA },
	};

	if (idx >= RUNG__ARRAY_LEN(features))
		return NULL;
	if (built_in_out)
		*built_in_out = features[idx].built_in;
	if (why_out)
		*why_out = features[idx].why;
	return features[idx].name;
}
