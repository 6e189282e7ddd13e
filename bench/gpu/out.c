/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, one object per line, flushed at its end: a run that is stopped leaves complete results of
 * the parts that it has finished. */
#include <math.h>
#include <stdio.h>

#include "bench.h"

#define DEPTH_MAX 8

static struct {
	int depth;
	char close[DEPTH_MAX];
	int filled[DEPTH_MAX]; /* items so far: from the second on, a comma precedes */
} out;

static void put_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar((unsigned char)*text < 0x20 ? ' ' : *text);
	}
	putchar('"');
}

static void put_key(const char *key)
{
	if (out.depth > 0 && out.filled[out.depth - 1]++)
		fputs(", ", stdout);
	if (key) {
		put_text(key);
		fputs(": ", stdout);
	}
}

static void open_with(const char *key, char open, char close)
{
	put_key(key);
	putchar(open);
	if (out.depth == DEPTH_MAX)
		bench_die("JSON is nested deeper than %d", DEPTH_MAX);
	out.close[out.depth] = close;
	out.filled[out.depth++] = 0;
}

void out_object(const char *key)
{
	open_with(key, '{', '}');
}

void out_array(const char *key)
{
	open_with(key, '[', ']');
}

void out_begin(const char *benchmark)
{
	out_object(NULL);
	out_text("benchmark", benchmark);
}

void out_end(void)
{
	putchar(out.close[--out.depth]);
	if (out.depth > 0)
		return;
	putchar('\n');
	if (fflush(stdout) != 0)
		bench_die("stdout cannot be written");
}

void out_u64(const char *key, uint64_t value)
{
	put_key(key);
	printf("%llu", (unsigned long long)value);
}

void out_real(const char *key, double value)
{
	put_key(key);
	if (isfinite(value)) /* JSON has no NaN and no infinity */
		printf("%.9g", value);
	else
		fputs("null", stdout);
}

void out_text(const char *key, const char *value)
{
	put_key(key);
	put_text(value);
}
