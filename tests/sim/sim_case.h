/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared by the tests of the simulated GPUs. Each case runs in its own process, because the
 * environment configures the GPUs and because the cases with mistakes end their process. The
 * kernels are in sim_case.cu: host code and kernels are compiled separately, as for CUDA.
 */
#ifndef SIM_CASE_H
#define SIM_CASE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

#if defined(__SANITIZE_THREAD__)
#define RACES_ARE_SEEN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_ARE_SEEN 1
#endif
#endif
#ifdef RACES_ARE_SEEN /* ThreadSanitizer sleeps for a second before a process ends */
extern "C" const char *__tsan_default_options();
extern "C" const char *__tsan_default_options()
{
	return "atexit_sleep_ms=20";
}
#endif

inline const char *case_name = "";
inline unsigned long cases;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s is false\n  in: %s\n", __FILE__, __LINE__,      \
			        #condition, case_name);                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define OK(call) CHECK((call) == cudaSuccess)

/* ---- processes ---- */

using environment = std::vector<std::pair<const char *, const char *>>;

/* @return the child's exit status; *said is its output on stderr */
static inline int in_child(const environment &env, const std::function<void()> &body,
                           std::string *said)
{
	int ends[2], status = 0;
	char text[512];
	ssize_t got;

	fflush(nullptr);
	CHECK(pipe(ends) == 0);
	const pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		dup2(ends[1], 2);
		close(ends[0]);
		close(ends[1]);
		for (const auto &e : env)
			setenv(e.first, e.second, 1);
		body();
		exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], text, sizeof(text))) > 0)
		said->append(text, (size_t)got);
	close(ends[0]);
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static inline void passes(const char *name, const environment &env,
                          const std::function<void()> &body)
{
	std::string said;

	case_name = name;
	cases++;
	const int status = in_child(env, body, &said);
	if (status != 0) {
		fprintf(stderr, "%s: status %x\n%s", name, (unsigned)status, said.c_str());
		exit(1);
	}
}

/* The body must end its process. `says` is in the message; NULL: it dies of a memory access,
 * without a message. */
static inline void dies(const char *name, const char *says, const std::function<void()> &body)
{
	std::string said;

	case_name = name;
	cases++;
	const int status = in_child({ { "RUNG_SIM_GPUS", "2" } }, body, &said);
	if (status == 0 || (says && said.find(says) == std::string::npos)) {
		fprintf(stderr, "%s: status %x\n%s", name, (unsigned)status, said.c_str());
		exit(1);
	}
}

/* ---- streams and memory ---- */

static inline cudaStream_t new_stream()
{
	cudaStream_t stream;

	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	return stream;
}

static inline cudaEvent_t new_event()
{
	cudaEvent_t event;

	OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	return event;
}

static inline unsigned *device_words(size_t count)
{
	void *ptr = nullptr;

	OK(cudaMalloc(&ptr, count * 4));
	return (unsigned *)ptr;
}

/* The fill is on the legacy stream, which other streams do not wait for. */
static inline unsigned *zero_words(size_t count)
{
	unsigned *words = device_words(count);

	OK(cudaMemset(words, 0, count * 4));
	OK(cudaStreamSynchronize(nullptr));
	return words;
}

static inline unsigned *pinned_words(size_t count)
{
	void *ptr = nullptr;

	OK(cudaHostAlloc(&ptr, count * 4, cudaHostAllocDefault));
	memset(ptr, 0, count * 4);
	return (unsigned *)ptr;
}

/* Later work of the stream waits until *word - value >= 0, cyclically. */
static inline void wait_for_word(cudaStream_t stream, const unsigned *word, unsigned value)
{
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000,
	                                    cudaEnableDefault, nullptr));
	CHECK(wait_value(stream, (uintptr_t)word, value, 0) == 0);
}

static inline unsigned word_at(const unsigned *device)
{
	unsigned word;

	OK(cudaMemcpy(&word, device, 4, cudaMemcpyDeviceToHost));
	return word;
}

static inline void set_flag(void *flag)
{
	__atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/* ---- kernels: blocks of 64 threads ---- */

/** a[i] = a[i] * 3 + add: the result of two of them depends on their order. One block. */
cudaError_t start_step(cudaStream_t stream, unsigned *a, unsigned add);
/** to[i] = from[i]. One block. */
cudaError_t start_copy(cudaStream_t stream, unsigned *to, const unsigned *from);
/** Reads from[i]. One block. */
cudaError_t start_load(cudaStream_t stream, const unsigned *from);
/** to[i] = i within the block. */
cudaError_t start_store(cudaStream_t stream, unsigned *to, unsigned blocks);
/** *to += threads, by atomics. Two blocks. */
cudaError_t start_count(cudaStream_t stream, unsigned *to);

#endif
