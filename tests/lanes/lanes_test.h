/* SPDX-License-Identifier: Apache-2.0 */
/** Shared by the lane tests: checks, memory of exact size that is lent to the kernel, and rows
 * whose bytes follow from a formula. */
#ifndef LANES_TEST_H
#define LANES_TEST_H

#include <cstdarg>
#include <string>

#include "cuda_lanes.h"

static unsigned long cases;
static std::string scenario_text;

__attribute__((format(printf, 1, 2))) static inline void scenario(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	scenario_text = text;
	lanes::scenario = scenario_text.c_str();
	cases++;
}

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s is false\n  in: ", __FILE__, __LINE__,          \
			        #condition);                                                       \
			fprintf(stderr, "%s\n  ", lanes::scenario);                                \
			fprintf(stderr, " " __VA_ARGS__);                                          \
			fprintf(stderr, "\n");                                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/** Heap memory of `bytes` bytes that begins `misaligned` bytes after a multiple of 128 and ends
 * where the heap block ends. */
struct memory {
	unsigned char *block = nullptr, *at = nullptr;
	size_t bytes = 0;

	memory(size_t bytes_, size_t misaligned, bool writable) : bytes(bytes_)
	{
		void *ptr = nullptr;
		if (posix_memalign(&ptr, 128, misaligned + bytes + (misaligned + bytes == 0)) != 0)
			abort();
		block = (unsigned char *)ptr;
		at = block + misaligned;
		lanes::lend(at, bytes, writable);
	}
	memory(memory &&other) noexcept : block(other.block), at(other.at), bytes(other.bytes)
	{
		other.block = nullptr;
	}
	memory(const memory &) = delete;
	memory &operator=(const memory &) = delete;
	~memory()
	{
		free(block);
	}
};

/** Byte `at` of the row of a rank. */
static inline unsigned char row_byte(uint64_t rank, uint64_t at)
{
	uint64_t x = rank * 0x9e3779b97f4a7c15u + at * 0xc2b2ae3d27d4eb4fu + 1;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (unsigned char)(x >> 56);
}

static inline void fill_row(unsigned char *at, uint64_t rank, uint64_t bytes)
{
	for (uint64_t k = 0; k < bytes; k++)
		at[k] = row_byte(rank, k);
}

struct random_numbers {
	uint64_t state;
	uint64_t below(uint64_t limit) /* uniform enough for tests */
	{
		state = state * 6364136223846793005u + 1442695040888963407u;
		return (state >> 20) % limit;
	}
};

#endif
