/* SPDX-License-Identifier: Apache-2.0 */
#include "criterion/criterion.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static struct cr_test *tests, **last = &tests;
static struct {
	unsigned passing, failing, crashing;
} totals;
/* in a test */
static jmp_buf leave;
static pthread_t runner;
static volatile sig_atomic_t status;

void cr_register(struct cr_test *test)
{
	*last = test;
	last = &test->next;
}

/* End the test; its fini runs if the runner's thread calls this. */
static _Noreturn void end_test(int with)
{
	if (!pthread_equal(pthread_self(), runner))
		_exit(with);
	if (!status) /* a failed check before a skip counts */
		status = with;
	longjmp(leave, 1);
}

void cr_report(bool fatal, const char *file, int line, const char *check, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: failed: %s", file, line, check);
	if (*format) {
		fprintf(stderr, ": ");
		va_start(args, format);
		vfprintf(stderr, format, args);
		va_end(args);
	}
	fprintf(stderr, "\n");
	if (fatal)
		end_test(1);
	status = 1;
}

void cr_skip_test(const char *format, ...)
{
	va_list args;

	printf("[SKIP] ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	end_test(SKIPPED);
}

static void call(void (*function)(void))
{
	if (function)
		function();
}

static _Noreturn void run_child(const struct cr_test *test, const struct cr_test *suite, void *with)
{
	runner = pthread_self();
	if (!setjmp(leave)) {
		if (suite)
			call(suite->options.init);
		call(test->options.init);
		if (with)
			test->body_with(with);
		else
			test->body();
	}
	if (!setjmp(leave)) {
		call(test->options.fini);
		if (suite)
			call(suite->options.fini);
	}
	fflush(NULL);
	_exit(status);
}

static void run(const struct cr_test *test, const struct cr_test *suite, void *with)
{
	int result = 0;

	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		run_child(test, suite, with);
	while (child < 0 || waitpid(child, &result, 0) < 0) {
		if (child < 0 || errno != EINTR) {
			perror("a test cannot be started");
			exit(1);
		}
	}
	int signal = WIFSIGNALED(result) ? WTERMSIG(result) : 0;
	if (signal != test->options.signal)
		totals.crashing++;
	else if (!signal && WEXITSTATUS(result) == SKIPPED)
		return;
	else if (!signal && WEXITSTATUS(result) != 0)
		totals.failing++;
	else {
		totals.passing++;
		return;
	}
	printf("FAILED: %s::%s, signal %d\n", test->suite, test->name, signal);
}

/* @return the pattern after --filter, or one that selects all tests */
static const char *filter_of(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--filter") == 0)
			return argv[i + 1];
	return "*";
}

static bool selected(const struct cr_test *test, const char *filter)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", test->suite, test->name);
	return fnmatch(filter, name, 0) == 0;
}

int main(int argc, char **argv)
{
	const char *filter = filter_of(argc, argv);

	for (const struct cr_test *test = tests; test; test = test->next) {
		const struct cr_test *suite = tests;
		if (!test->name || !selected(test, filter))
			continue;
		while (suite && (suite->name || strcmp(suite->suite, test->suite) != 0))
			suite = suite->next;
		if (!test->parameters) {
			run(test, suite, NULL);
			continue;
		}
		struct cr_parameters all = test->parameters();
		for (size_t i = 0; i < all.length; i++)
			run(test, suite, all.values + i * all.size);
	}
	printf("Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n",
	       totals.passing + totals.failing + totals.crashing, totals.passing, totals.failing,
	       totals.crashing);
	return totals.failing + totals.crashing > 0;
}
