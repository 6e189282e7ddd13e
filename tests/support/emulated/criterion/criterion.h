/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The part of Criterion's interface that the tests here use, for builds that run in an emulator.
 * Criterion starts every test by executing its program again, which an emulator does not translate.
 * Here a test is a forked child of the program. The tests that --filter selects run, one after the
 * other; other options of the command line and timeouts are ignored.
 */
#ifndef RUNG_TEST_EMULATED_CRITERION_H
#define RUNG_TEST_EMULATED_CRITERION_H

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cr_options {
	int reserved; /* for a test without options */
	void (*init)(void);
	void (*fini)(void);
	int signal;     /* that ends the test, or 0 */
	double timeout; /* ignored */
};

struct cr_parameters {
	size_t size, length;
	char *values;
};

struct cr_test {
	const char *suite, *name; /* a suite has no name */
	void (*body)(void);
	void (*body_with)(void *parameter);
	struct cr_parameters (*parameters)(void); /* NULL: the test has none */
	struct cr_options options;
	struct cr_test *next;
};

void cr_register(struct cr_test *test);
void cr_report(bool fatal, const char *file, int line, const char *check, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
_Noreturn void cr_skip_test(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define cr_skip cr_skip_test

#define CR_REGISTER(id, ...)                                                                       \
	__attribute__((constructor)) static void id##_register(void)                               \
	{                                                                                          \
		static struct cr_test test = { __VA_ARGS__ };                                      \
		cr_register(&test);                                                                \
	}
#define TestSuite(of, ...)                                                                         \
	CR_REGISTER(of##_suite, .suite = #of, .options = { .reserved = 0, __VA_ARGS__ })           \
	extern int of##_suite_end
#define Test(of, id, ...)                                                                          \
	static void of##_##id##_body(void);                                                        \
	CR_REGISTER(of##_##id, .suite = #of, .name = #id, .body = of##_##id##_body,                \
	            .options = { .reserved = 0, __VA_ARGS__ })                                     \
	static void of##_##id##_body(void)
#define ParameterizedTestParameters(of, id) static struct cr_parameters of##_##id##_parameters(void)
#define ParameterizedTest(parameter, of, id, ...)                                                  \
	static void of##_##id##_body(parameter);                                                   \
	CR_REGISTER(of##_##id, .suite = #of, .name = #id,                                          \
	            .body_with = (void (*)(void *))(void (*)(void))of##_##id##_body,               \
	            .parameters = of##_##id##_parameters,                                          \
	            .options = { .reserved = 0, __VA_ARGS__ })                                     \
	static void of##_##id##_body(parameter)
#define cr_make_param_array(type, values_, count)                                                  \
	((struct cr_parameters){ sizeof(type), (count), (char *)(values_) })

#define CR_CHECK(ok, fatal, text, ...)                                                             \
	((ok) ? (void)0 : cr_report(fatal, __FILE__, __LINE__, text, "" __VA_ARGS__))
#define CR_BINARY(fatal, a, op, b, ...) CR_CHECK((a)op(b), fatal, #a " " #op " " #b, __VA_ARGS__)

#define cr_assert(ok, ...)                  CR_CHECK(ok, true, #ok, __VA_ARGS__)
#define cr_assert_not(ok, ...)              CR_CHECK(!(ok), true, "not " #ok, __VA_ARGS__)
#define cr_assert_fail(...)                 CR_CHECK(false, true, "reached", __VA_ARGS__)
#define cr_assert_eq(a, b, ...)             CR_BINARY(true, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...)            CR_BINARY(true, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)             CR_BINARY(true, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...)            CR_BINARY(true, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)             CR_BINARY(true, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...)            CR_BINARY(true, a, >=, b, __VA_ARGS__)
#define cr_assert_null(a, ...)              CR_BINARY(true, a, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...)          CR_BINARY(true, a, !=, NULL, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)         CR_BINARY(true, strcmp(a, b), ==, 0, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)        CR_BINARY(true, strcmp(a, b), !=, 0, __VA_ARGS__)
#define cr_assert_str_empty(a, ...)         CR_BINARY(true, *(a), ==, '\0', __VA_ARGS__)
#define cr_assert_arr_eq(a, b, bytes, ...)  CR_BINARY(true, memcmp(a, b, bytes), ==, 0, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, bytes, ...) CR_BINARY(true, memcmp(a, b, bytes), !=, 0, __VA_ARGS__)
#define cr_assert_float_eq(a, b, most, ...)                                                        \
	CR_BINARY(true, fabs((double)(a) - (double)(b)), <=, (double)(most), __VA_ARGS__)
#define cr_expect(ok, ...)          CR_CHECK(ok, false, #ok, __VA_ARGS__)
#define cr_expect_not(ok, ...)      CR_CHECK(!(ok), false, "not " #ok, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)     CR_BINARY(false, a, ==, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...)    CR_BINARY(false, a, <=, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...)    CR_BINARY(false, a, >=, b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) CR_BINARY(false, strcmp(a, b), ==, 0, __VA_ARGS__)
#define cr_expect_float_eq(a, b, most, ...)                                                        \
	CR_BINARY(false, fabs((double)(a) - (double)(b)), <=, (double)(most), __VA_ARGS__)

#endif
