/* SPDX-License-Identifier: Apache-2.0 */
/* Measured values as CSV, for other programs: a line for each sample, or one with the reason if a
 * value is absent. Samples and not medians, so that a reader can compute its own statistics. */
#include <math.h>
#include <string.h>

#include "numa/numa_results.h"

/* Keys of numa_fields, and three that belong to a sample: unit, sample, value. */
static const char headings[] =
	"matrix,kind,cpu_node,memory_node,cores,threads,level,row_bytes,page_bytes,queue_depth,gpu,"
	"gpu_bus_id,to_gpu,to_gpu_bus_id,drive,file,engine,buffer_bytes,placement_share,huge_share,"
	"unit,sample,value,absent,advised_bytes";

/* Quoted as in RFC 4180 if necessary: names of files and reasons may contain commas and quotes. */
static void print_word(const char *word)
{
	if (!strpbrk(word, ",\"\n\r")) {
		fputs(word, stdout);
		return;
	}
	putchar('"');
	for (; *word; word++)
		printf(*word == '"' ? "\"\"" : "%c", *word);
	putchar('"');
}

/* A field that is absent prints nothing between its commas. */
static void print_field(const struct rung_numa_result *result, const struct numa_field *field)
{
	const struct numa_datum datum = numa_datum(field, result);
	/* 0 counts as absent in some columns, although JSON has it as a number */
	const int shown = field->zero == NUMA_ZERO_JSON      ? datum.number != 0
	                  : field->zero == NUMA_ZERO_THREADS ? result->all_cores >= 0
	                                                     : datum.is == NUMA_NUMBER;

	if (datum.is == NUMA_WORD)
		print_word(datum.word);
	else if (datum.is == NUMA_DOUBLE)
		printf("%.9g", datum.real);
	else if (shown)
		printf("%llu", (unsigned long long)datum.number);
}

/* @param unit  NULL where the result is absent */
static void print_line(const struct rung_numa_result *result, const char *unit, size_t sample,
                       double value)
{
	for (const char *key = headings; *key;) {
		const size_t length = strcspn(key, ",");
		const struct numa_field *field = numa_field(result->matrix, key, length);

		if (field)
			print_field(result, field);
		else if (unit && strncmp(key, "unit", length) == 0)
			fputs(unit, stdout);
		else if (unit && strncmp(key, "sample", length) == 0)
			printf("%zu", sample);
		else if (isfinite(value) && strncmp(key, "value", length) == 0)
			printf("%.9g", value);
		key += length;
		putchar(*key ? ',' : '\n');
		key += *key != 0;
	}
}

/* One line per sample of each value; `unit` in it is the key of the value, such as bytes_per_s. */
static void print_result(const struct rung_numa_result *result)
{
	for (const struct numa_field *field = numa_fields; field->key; field++) {
		const struct rung_numa_value *value = numa_at(result, field->offset);

		if (field->form != NUMA_VALUE || !(field->matrices & result->matrix))
			continue;
		for (size_t i = 0; i < value->count; i++)
			print_line(result, field->key, i, value->samples[i]);
	}
	if (result->absent)
		print_line(result, NULL, 0, NAN);
}

int numa_results_csv(const struct numa_measured *measured)
{
	const struct rung_numa_result *result;

	puts(headings);
	for (size_t i = 0; (result = numa_result(measured, i)) != NULL; i++)
		print_result(result);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -1;
}
