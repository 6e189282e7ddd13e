/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that the command prints for people: a unit, two or three digits, no exponent. Percentiles
 * of the library's histograms. */
#include <criterion/criterion.h>
#include <math.h>

#include "state/state.h"
#include "tool.h"

static char text[TOOL_TEXT_BYTES];

Test(tool, seconds_have_the_unit_of_their_size)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {
		{ 0, "0 s" },          { 2e-10, "0 ns" },      { 5e-8, "50 ns" },
		{ 7.14e-6, "7.1 us" }, { 0.00071, "710 us" },  { 0.0034, "3.4 ms" },
		{ 0.0099, "9.9 ms" },  { 0.01, "10 ms" },      { 0.25, "250 ms" },
		{ 1, "1.00 s" },       { 3.14159, "3.14 s" },  { 42, "42 s" },
		{ 125, "2 min 05 s" }, { 7300, "2 h 01 min" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(tool_seconds_text(text, cases[i].seconds), cases[i].text);
}

Test(tool, seconds_below_a_limit_are_not_rounded_beyond_it)
{
	cr_expect_str_eq(tool_seconds_text(text, 0.00099996), "1.0 ms");
	cr_expect_str_eq(tool_seconds_text(text, 0.99996), "1.00 s");
	cr_expect_str_eq(tool_seconds_text(text, 0.00996), "10 ms");
	cr_expect_str_eq(tool_seconds_text(text, 9.996), "10 s");
	cr_expect_str_eq(tool_seconds_text(text, 119.7), "1 min 59 s");
}

Test(tool, counts_have_three_digits_and_no_exponent)
{
	static const struct {
		double count;
		const char *text;
	} cases[] = {
		{ 0, "0" },           { 1, "1" },          { 12, "12" },        { 999, "999" },
		{ 1000, "1.00 k" },   { 59070, "59.1 k" }, { 3.1e6, "3.10 M" }, { 1e12, "1.00 T" },
		{ 0.00001, "0.000" }, { 0.25, "0.25" },    { 3.4142, "3.4" },   { 9.96, "10.0" },
		{ 31.25, "31.2" },    { 99.97, "100" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(tool_count_text(text, cases[i].count), cases[i].text);
}

Test(tool, a_value_is_found_within_an_eighth_of_its_octave)
{
	for (uint64_t value = 1; value < UINT64_C(1) << 33; value += value / 5 + 1) {
		uint64_t buckets[RUNG_LATENCY_BUCKETS] = { 0 };
		double found;

		buckets[rung__latency_bucket(value)] = 1;
		found = tool_percentile(buckets, 0.5);
		cr_assert(found >= 0.93 * (double)value && found <= 1.07 * (double)value + 0.5,
		          "%llu: %g", (unsigned long long)value, found);
	}
	cr_assert_eq(rung__latency_bucket(0), 0);
	cr_assert_eq(rung__latency_bucket(UINT64_MAX), RUNG_LATENCY_BUCKETS - 1);
}

Test(tool, values_of_a_bucket_are_interpolated)
{
	uint64_t buckets[RUNG_LATENCY_BUCKETS] = { 0 };

	/* 1024 to 1151, and 1152 to 1279 */
	buckets[rung__latency_bucket(1024)] = 300;
	buckets[rung__latency_bucket(1152)] = 100;
	cr_expect_float_eq(tool_percentile(buckets, 0.5), 1024 + 128 * 200.0 / 300, 1e-9);
	cr_expect_float_eq(tool_percentile(buckets, 0.75), 1152, 1e-9);
	cr_expect_float_eq(tool_percentile(buckets, 0.99), 1152 + 128 * 0.96, 1e-9);
}

Test(tool, few_values_have_only_a_median)
{
	uint64_t buckets[RUNG_LATENCY_BUCKETS] = { 0 };

	cr_expect(isnan(tool_percentile(buckets, 0.5)));
	buckets[50] = 1;
	cr_expect_not(isnan(tool_percentile(buckets, 0.5)));
	cr_expect(isnan(tool_percentile(buckets, 0.9)));
	buckets[50] = 99;
	cr_expect_not(isnan(tool_percentile(buckets, 0.9)));
	cr_expect(isnan(tool_percentile(buckets, 0.99)));
	buckets[50] = 100;
	cr_expect_not(isnan(tool_percentile(buckets, 0.99)));
	cr_expect(isnan(tool_percentile(buckets, 0.999)));
}
