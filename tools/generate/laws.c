/* SPDX-License-Identifier: Apache-2.0 */
/* Laws that numbers are drawn from, as tables of integers. */
#include <math.h>

#include "generate.h"

/* The quantile of the normal distribution, by bisection of erfc(): it is called a few thousand
 * times, and its error is far below the rounding of the tables. */
double gen_normal_quantile(double share)
{
	double low = -9, high = 9;

	for (int i = 0; i < 64; i++) {
		const double middle = (low + high) / 2;

		if (erfc(-middle / sqrt(2)) / 2 < share)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* A log-normal law with the given mean, as a table of its quantiles. */
void gen_fill_log_normal(uint32_t law[GEN_LAW], double mean, double sigma)
{
	double sum = 0;

	for (unsigned i = 0; i < GEN_LAW; i++)
		sum += exp(sigma * gen_normal_quantile((i + 0.5) / GEN_LAW));
	for (unsigned i = 0; i < GEN_LAW; i++) {
		const double value = mean * GEN_LAW / sum *
		                     exp(sigma * gen_normal_quantile((i + 0.5) / GEN_LAW)) *
		                     GEN_ONE_16;

		law[i] = value >= UINT32_MAX ? UINT32_MAX : (uint32_t)llround(value);
	}
}

void gen_fill_ages(uint32_t law[GEN_LAW + 1], double recency)
{
	/* rounded to 2^-24, so that an error in the last bit of pow() changes nothing */
	for (unsigned i = 0; i <= GEN_LAW; i++) {
		const double age = round(pow((double)i / GEN_LAW, recency) * 0x1p24) * 256;

		law[i] = age >= UINT32_MAX ? UINT32_MAX : (uint32_t)age;
	}
}
