/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, numbers and lists of arguments, in the forms that people type and that the command prints.
 * Python reads the same forms (python/rung/sizes.py).
 *
 * All tool_arg_*() functions exit in argp_error(), so code after it sees only valid values.
 */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "args/args.h"

#define SIZE_HELP   "give one such as 4096, 4GiB, 500M, 10%% or max"
#define NUMBER_HELP "give one such as 5000, 64k or 1.5M"

/* 10^22 * 2^50 is below 2^128, so a number with a unit cannot overflow */
#define DIGITS_MAX     22
#define SIZE_SMALL_MAX 65535u /* no useful memory limit is smaller */

/* A decimal number: mantissa * 10^exponent, exactly. */
struct decimal {
	unsigned __int128 mantissa;
	int exponent;
	const char *unit; /* the text after the number and blanks */
};

/* Read digits into the number. @return the text after them; NULL: too many */
static const char *parse_digits(const char *text, struct decimal *number, int *digits)
{
	for (; *text >= '0' && *text <= '9'; text++) {
		number->mantissa = number->mantissa * 10 + (unsigned)(*text - '0');
		if (++*digits > DIGITS_MAX)
			return NULL;
	}
	return text;
}

/* Read the number at the beginning of a text: "1", "1.5", "1e6", not "1." or ".5". strtod() would
 * also accept signs, hexadecimals, "nan" and leading blanks. @return zero: it does not begin
 * with a number */
static int parse_decimal(const char *text, struct decimal *number)
{
	int digits = 0, whole_digits;

	*number = (struct decimal){ 0 };
	text = parse_digits(text, number, &digits);
	if (!text || digits == 0)
		return 0;
	whole_digits = digits;
	if (*text == '.') {
		text = parse_digits(text + 1, number, &digits);
		if (!text || digits == whole_digits)
			return 0;
		number->exponent = whole_digits - digits;
	}
	if ((*text == 'e' || *text == 'E') && isdigit((unsigned char)text[1])) {
		char *end;
		const long exponent = strtol(text + 1, &end, 10);

		if (end - text > 3) /* an exponent of more than two digits */
			return 0;
		number->exponent += (int)exponent;
		text = end;
	}
	number->unit = text + strspn(text, " ");
	return 1;
}

/* The number times `unit`, rounded down; 2^64 or more if it does not fit into 64 bits.
 * @param whole_out  zero if it was rounded */
static unsigned __int128 scaled(const struct decimal *number, uint64_t unit, int *whole_out)
{
	unsigned __int128 value = number->mantissa * unit;
	int exponent = number->exponent;

	*whole_out = 1;
	for (; exponent > 0 && value >> 64 == 0; exponent--)
		value *= 10;
	for (; exponent < 0; exponent++) {
		*whole_out &= value % 10 == 0;
		value /= 10;
	}
	return value;
}

/* The factor of a letter such as 'k', in steps of `step`; 0 for another character. */
static uint64_t letter_factor(char letter, uint64_t step)
{
	static const char letters[] = "kmgtp";
	const char *found = letter ? strchr(letters, tolower((unsigned char)letter)) : NULL;
	uint64_t factor = found ? step : 0;

	for (; found && found > letters; found--)
		factor *= step;
	return factor;
}

/* Bytes of a unit, in any case; 0 for an unknown one. K, Ki and KiB are 1024 bytes, as for other
 * programs that are given a memory limit; KB is 1000. */
static uint64_t unit_bytes(const char *unit)
{
	uint64_t bytes = 0;

	if (!*unit || strcasecmp(unit, "B") == 0)
		bytes = 1;
	else if (strcasecmp(unit + 1, "B") == 0)
		bytes = letter_factor(*unit, 1000);
	else if (!unit[1] || strcasecmp(unit + 1, "i") == 0 || strcasecmp(unit + 1, "iB") == 0)
		bytes = letter_factor(*unit, 1024);
	return bytes;
}

int tool_is_size(const char *arg)
{
	struct decimal number;

	return strcmp(arg, "max") == 0 ||
	       (parse_decimal(arg, &number) &&
	        (strcmp(number.unit, "%") == 0 || unit_bytes(number.unit) > 0));
}

static void too_large(const struct argp_state *state, const char *option, const char *arg)
{
	argp_error(state, "%s: '%s' is too large; give less than 2^64 bytes, or max for no limit",
	           option, arg);
}

struct tool_size tool_arg_size(const struct argp_state *state, const char *option, const char *arg)
{
	struct tool_size size = { .given = 1, .share = -1 };
	struct decimal number = { .unit = "" };
	unsigned __int128 bytes;
	int whole;

	if (!tool_is_size(arg))
		argp_error(state, "%s: '%s' is not a valid size; " SIZE_HELP, option, arg);
	if (!parse_decimal(arg, &number)) {
		size.bytes = RUNG_BYTES_MAX;
		return size;
	}
	if (strcmp(number.unit, "%") == 0) {
		size.share = strtod(arg, NULL) / 100;
		if (size.share > 1)
			argp_error(state, "%s: '%s' is more than the whole; give at most 100%%",
			           option, arg);
		return size;
	}
	bytes = scaled(&number, unit_bytes(number.unit), &whole);
	if (bytes >> 64 || (uint64_t)bytes == RUNG_BYTES_NONE) /* reserved: an empty budget */
		too_large(state, option, arg);
	size.bytes = (uint64_t)bytes;
	if (!whole && unit_bytes(number.unit) == 1)
		argp_error(state, "%s: '%s' is not a whole number of bytes; " SIZE_HELP, option,
		           arg);
	if (!*number.unit && bytes > 0 && bytes <= SIZE_SMALL_MAX)
		tool_size_note(option, size.bytes);
	return size;
}

double tool_arg_share(const struct argp_state *state, const char *option, const char *arg)
{
	struct decimal number;
	double share = 0;

	if (parse_decimal(arg, &number) && (!*number.unit || strcmp(number.unit, "%") == 0))
		share = strtod(arg, NULL) / (*number.unit ? 100 : 1);
	if (!(share > 0 && share <= 1))
		argp_error(
			state,
			"%s: '%s' is not a share; give one above 0 and at most 1, such as 0.4 or "
			"40%%",
			option, arg);
	return share;
}

uint64_t tool_size_bytes(const struct tool_size *size, uint64_t whole)
{
	uint64_t bytes = size->bytes;

	if (!size->given)
		return 0;
	/* 100% must not lose bytes by rounding */
	if (size->share >= 1)
		bytes = whole;
	else if (size->share >= 0)
		bytes = (uint64_t)(size->share * (double)whole);
	return bytes ? bytes : RUNG_BYTES_NONE;
}

uint64_t tool_arg_u64(const struct argp_state *state, const char *option, const char *arg,
                      uint64_t low, uint64_t high)
{
	struct decimal number;
	unsigned __int128 value = 0;
	uint64_t unit = 0;
	int whole = 0;

	if (parse_decimal(arg, &number)) {
		unit = *number.unit ? letter_factor(*number.unit, 1000) : 1;
		if (*number.unit && number.unit[1]) /* more than a letter */
			unit = 0;
		value = scaled(&number, unit, &whole);
	}
	if (!unit || !whole)
		argp_error(state, "%s: '%s' is not a whole number; " NUMBER_HELP, option, arg);
	if (value < low || value > high) {
		argp_error(state, "%s: '%s' is out of range; give %llu to %llu", option, arg,
		           (unsigned long long)low, (unsigned long long)high);
	}
	return (uint64_t)value;
}

uint32_t tool_arg_u32(const struct argp_state *state, const char *option, const char *arg,
                      uint32_t low, uint32_t high)
{
	return (uint32_t)tool_arg_u64(state, option, arg, low, high);
}

uint32_t tool_arg_size32(const struct argp_state *state, const char *option, const char *arg,
                         uint32_t low, uint32_t high)
{
	const struct tool_size size = tool_arg_size(state, option, arg);

	if (size.share >= 0 || size.bytes < low || size.bytes > high)
		argp_error(state, "%s: '%s' is out of range; give %u to %u bytes", option, arg, low,
		           high);
	return (uint32_t)size.bytes;
}

double tool_arg_double(const struct argp_state *state, const char *option, const char *arg,
                       double low, double high, enum tool_bounds bounds)
{
	char *end;
	double value = strtod(arg, &end);

	if (end == arg || *end || isspace((unsigned char)arg[0]) || !isfinite(value))
		argp_error(state, "%s: '%s' is not a number", option, arg);
	if (value < low || value > high || ((bounds & TOOL_OPEN_LOW) && value <= low) ||
	    ((bounds & TOOL_OPEN_HIGH) && value >= high)) {
		argp_error(state, "%s: '%s' is out of range; give %s %g and %s %g", option, arg,
		           bounds & TOOL_OPEN_LOW ? "more than" : "at least", low,
		           bounds & TOOL_OPEN_HIGH ? "less than" : "at most", high);
	}
	return value;
}

double tool_arg_seconds(const struct argp_state *state, const char *option, const char *arg,
                        double low, double high)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "", 1 },     { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 },
		      { "min", 60 }, { "m", 60 },    { "h", 3600 } };
	struct decimal number;
	double value = -1;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (parse_decimal(arg, &number) && strcmp(number.unit, units[i].name) == 0)
			value = (double)number.mantissa * pow(10, number.exponent) *
			        units[i].seconds;
	}
	if (!(value >= low && value <= high))
		argp_error(state,
		           "%s: '%s' is not a valid time; give one such as 90ms, 30s or 5min, "
		           "from %g to %g s",
		           option, arg, low, high);
	return value;
}

#define RATE_MIN 125e3 /* bytes per second: a megabit */
#define RATE_MAX 1e15

/* Bytes per second of a unit such as "Gb/s"; 0 for an unknown one. Only the case of b and B has a
 * meaning. The letters are powers of 1000, as those of networks are; "GiB" is 2^30 bytes. */
static double rate_unit(const char *unit)
{
	static const char *const ends[] = { "", "/s", "ps" };
	static const struct {
		const char *name;
		uint64_t step;
		double bytes;
	} units[] = {
		{ "b", 1000, 0.125 }, { "bit", 1000, 0.125 }, { "B", 1000, 1 }, { "iB", 1024, 1 }
	};
	const uint64_t one = letter_factor(*unit, 1000);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const char *name = unit + (one > 0);
		const size_t length = strlen(units[i].name);

		if (strncmp(name, units[i].name, length) != 0)
			continue;
		for (size_t end = 0; end < sizeof(ends) / sizeof(ends[0]); end++) {
			if (strcmp(name + length, ends[end]) == 0)
				return units[i].bytes *
				       (one ? (double)letter_factor(*unit, units[i].step) : 1);
		}
	}
	return 0;
}

/* Bytes per second; 0: it is not a rate. */
static double rate_of(const char *arg)
{
	struct decimal number;

	if (!parse_decimal(arg, &number))
		return 0;
	return (double)number.mantissa * pow(10, number.exponent) * rate_unit(number.unit);
}

int tool_is_rate(const char *arg)
{
	return rate_of(arg) > 0;
}

double tool_arg_rate(const struct argp_state *state, const char *option, const char *arg)
{
	const double rate = rate_of(arg);

	if (!(rate > 0))
		argp_error(state,
		           "%s: '%s' is not a valid rate; give bits per second such as 100Gb, or "
		           "bytes such as 12GB",
		           option, arg);
	if (rate < RATE_MIN || rate > RATE_MAX)
		argp_error(state, "%s: '%s' is out of range; give 1Mb to 1PB a second", option,
		           arg);
	return rate;
}

#define ITEM_BYTES 32 /* longer than any number in a list */

/* Copy the text of a list up to its next comma; "" if it is empty or too long, which the callers
 * refuse. @return the text after the comma; NULL at the end */
static const char *parse_item(const char *from, char item[ITEM_BYTES])
{
	size_t length = strcspn(from, ",");

	item[0] = 0;
	if (length == 0 || length >= ITEM_BYTES)
		return NULL;
	memcpy(item, from, length);
	item[length] = 0;
	return from[length] ? from + length + 1 : NULL;
}

static struct tool_fanouts parse_fanouts(const struct argp_state *state, const char *option,
                                         const char *arg, uint32_t least)
{
	struct tool_fanouts fanouts = { 0 };
	char item[ITEM_BYTES];

	for (const char *from = arg; from;) {
		from = parse_item(from, item);
		if (!item[0])
			argp_error(state,
			           "%s: '%s' is not a list of fanouts; give one per hop, such as "
			           "25,10 or 25,all",
			           option, arg);
		if (fanouts.count == RUNG_HOPS_MAX)
			argp_error(state, "%s: '%s' has too many hops; give at most %d", option,
			           arg, RUNG_HOPS_MAX);
		fanouts.hops[fanouts.count++] =
			strcmp(item, "all") == 0
				? UINT32_MAX
				: tool_arg_u32(state, option, item, least, UINT32_MAX - 1);
	}
	return fanouts;
}

struct tool_fanouts tool_arg_fanouts(const struct argp_state *state, const char *option,
                                     const char *arg)
{
	return parse_fanouts(state, option, arg, 1);
}

struct tool_fanouts tool_arg_relation_fanouts(const struct argp_state *state, const char *option,
                                              const char *arg)
{
	return parse_fanouts(state, option, arg, 0);
}

uint32_t tool_arg_gpus(const struct argp_state *state, const char *option, const char *arg,
                       int gpus[RUNG_GPUS_MAX])
{
	uint32_t count = 0;
	char item[ITEM_BYTES];

	for (const char *from = arg; from;) {
		from = parse_item(from, item);
		if (!item[0])
			argp_error(
				state,
				"%s: '%s' is not a list of GPUs; give their numbers, such as 0,1",
				option, arg);
		if (count == RUNG_GPUS_MAX)
			argp_error(state, "%s: '%s' has too many GPUs; give at most %d", option,
			           arg, RUNG_GPUS_MAX);
		gpus[count++] = (int)tool_arg_u32(state, option, item, 0, INT_MAX);
	}
	return count;
}

uint32_t tool_arg_u32s(const struct argp_state *state, const char *option, const char *arg,
                       tool_item_fn *parse, uint32_t low, uint32_t high, uint32_t *numbers,
                       uint32_t room)
{
	uint32_t count = 0;
	char item[ITEM_BYTES];

	for (const char *from = arg; from;) {
		from = parse_item(from, item);
		if (!item[0])
			argp_error(state,
			           "%s: '%s' is not a list of numbers; give one such as 512,4096",
			           option, arg);
		if (count == room)
			argp_error(state, "%s: '%s' has too many numbers; give at most %u", option,
			           arg, room);
		numbers[count++] = parse(state, option, item, low, high);
	}
	return count;
}
