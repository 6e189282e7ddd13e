/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPUs: that they do what CUDA promises and no more, and that what CUDA leaves undefined ends the program. Each case
 * runs in a process of its own, because the environment says what GPUs there are.
 */
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"
#include "sim.h"
#include "test_sim.h"

#if defined(__SANITIZE_THREAD__)
#define RACES_ARE_SEEN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_ARE_SEEN 1
#endif
#endif
#ifdef RACES_ARE_SEEN   /* by ThreadSanitizer, which sleeps for a second before a process ends */
extern "C" const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() { return "atexit_sleep_ms=20"; }
#endif

static const char *case_name = "";
static unsigned long cases;

#define CHECK(condition)                                                                                         \
	do {                                                                                                     \
		if (!(condition)) {                                                                              \
			fprintf(stderr, "%s:%d: %s is not so\n  in: %s\n", __FILE__, __LINE__, #condition, case_name); \
			exit(1);                                                                                 \
		}                                                                                                \
	} while (0)
#define OK(call) CHECK((call) == cudaSuccess)

/* ---- processes ----------------------------------------------------------------------------------------------------------- */

using environment = std::vector<std::pair<const char *, const char *>>;

/* The child's status; what it said on stderr. */
static int in_child(const environment &env, const std::function<void()> &body, std::string *said)
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

static void passes(const char *name, const environment &env, const std::function<void()> &body)
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

/* `says` NULL: dies of touching memory, of which nobody says anything. */
static void dies(const char *name, const char *says, const std::function<void()> &body)
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

/* ---- things to work on --------------------------------------------------------------------------------------------------- */

static cudaStream_t new_stream()
{
	cudaStream_t stream;

	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	return stream;
}

static cudaEvent_t new_event()
{
	cudaEvent_t event;

	OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	return event;
}

static unsigned *device_words(size_t count)
{
	void *ptr = nullptr;

	OK(cudaMalloc(&ptr, count * 4));
	return (unsigned *)ptr;
}

/* The fill is on the legacy stream, which the others do not wait for. */
static unsigned *zero_words(size_t count)
{
	unsigned *words = device_words(count);

	OK(cudaMemset(words, 0, count * 4));
	OK(cudaStreamSynchronize(nullptr));
	return words;
}

static unsigned *pinned_words(size_t count)
{
	void *ptr = nullptr;

	OK(cudaHostAlloc(&ptr, count * 4, cudaHostAllocDefault));
	memset(ptr, 0, count * 4);
	return (unsigned *)ptr;
}

static unsigned word_at(const unsigned *device)
{
	unsigned word;

	OK(cudaMemcpy(&word, device, 4, cudaMemcpyDeviceToHost));
	return word;
}

/* ---- streams and events -------------------------------------------------------------------------------------------------- */

static void a_stream_keeps_its_order()
{
	const cudaStream_t stream = new_stream();
	unsigned *a = device_words(64), *out = pinned_words(64), expected = 0;

	OK(cudaMemsetAsync(a, 0, 256, stream));
	for (unsigned i = 0; i < 20; i++) {
		OK(start_step(stream, a, i));
		expected = expected * 3 + i;
	}
	OK(cudaMemcpyAsync(out, a, 256, cudaMemcpyDeviceToHost, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(out[0] == expected && out[63] == expected);
	CHECK(sim_calls("cudaLaunchKernel") == 20 && sim_calls("cudaStreamSynchronize") == 1);
	OK(cudaStreamDestroy(stream));
	OK(cudaFree(a));
	OK(cudaFreeHost(out));
	CHECK(sim_live() == 0);
}

static int came_first;

static void come(void *who)
{
	if (!came_first)
		came_first = *(int *)who;
}

/* Which of two streams goes first is nobody's promise. */
static int first_of_two_streams()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	int names[2] = { 1, 2 };

	sim_hold(true);
	OK(cudaLaunchHostFunc(one, come, &names[0]));
	OK(cudaLaunchHostFunc(two, come, &names[1]));
	sim_hold(false);
	OK(cudaDeviceSynchronize());
	return came_first;
}

static void streams_are_in_no_order()
{
	unsigned first[2] = { 0, 0 };

	for (unsigned seed = 1; seed <= 12; seed++) {
		const std::string text = std::to_string(seed);
		std::string said;
		const int status = in_child({ { "RUNG_SIM_SEED", text.c_str() } }, [] { exit(first_of_two_streams()); }, &said);
		CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2));
		first[WEXITSTATUS(status) - 1]++;
	}
	CHECK(first[0] > 0 && first[1] > 0);
}

static void an_event_orders_two_streams()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event(), never = new_event();
	unsigned *a = zero_words(64);

	OK(cudaEventQuery(never));
	OK(cudaStreamWaitEvent(two, never, 0));
	for (unsigned i = 0; i < 10; i++) {
		sim_hold(true);
		OK(start_step(one, a, 1));
		OK(cudaEventRecord(event, one));
		OK(cudaStreamWaitEvent(two, event, 0));
		OK(start_step(two, a, 5));
		CHECK(cudaEventQuery(event) == cudaErrorNotReady && cudaStreamQuery(two) == cudaErrorNotReady);
		sim_hold(false);
		OK(cudaStreamSynchronize(two));
		OK(cudaEventQuery(event));
		OK(cudaDeviceSynchronize());
	}
	unsigned expected = 0;
	for (unsigned i = 0; i < 10; i++)
		expected = (expected * 3 + 1) * 3 + 5;
	CHECK(word_at(a) == expected);
}

/* Recorded again, an event stands for the new place; who waits already waits for the old one. */
static void an_event_is_a_place_in_a_stream()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *word = pinned_words(1);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
	OK(cudaEventRecord(event, one));
	OK(cudaStreamWaitEvent(two, event, 0));
	CHECK(wait_value(one, (uintptr_t)word, 1, 0) == 0);
	OK(cudaEventRecord(event, one));
	OK(cudaStreamSynchronize(two));
	CHECK(cudaEventQuery(event) == cudaErrorNotReady);
	OK(cudaEventDestroy(event));   /* in use */
	OK(cudaStreamDestroy(two));
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(one));
}

static void waiting_and_writing_words()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	unsigned *words = pinned_words(64), *a = zero_words(64);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	int (*write_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	enum cudaDriverEntryPointQueryResult found;
	void *none;

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, &found));
	CHECK(found == cudaDriverEntryPointSuccess);
	OK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", (void **)&write_value, 12000, cudaEnableDefault, &found));
	CHECK(found == cudaDriverEntryPointSuccess);
	OK(cudaGetDriverEntryPointByVersion("cuNothing", &none, 12000, cudaEnableDefault, &found));
	CHECK(found == cudaDriverEntryPointSymbolNotFound && !none);
	/* cyclic: 2 is behind 0xfffffffe */
	words[0] = 0xfffffff0;
	CHECK(wait_value(one, (uintptr_t)words, 0xfffffffe, 0) == 0);
	OK(start_step(one, a, 7));
	CHECK(write_value(one, (uintptr_t)(words + 1), 99, 0) == 0);
	CHECK(cudaStreamQuery(one) == cudaErrorNotReady);
	CHECK(wait_value(two, (uintptr_t)(words + 1), 99, 1) == 0);   /* equal: what the first stream writes */
	OK(start_copy(two, words, a));
	__atomic_store_n(words, 2u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(two));
	CHECK(words[0] == 7 && words[63] == 7);
}

/* All streams of the GPU are one queue: what waits in front holds the others. */
static void one_queue_is_held_by_its_head()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	unsigned *word = pinned_words(1), *a = device_words(64);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	cudaStream_t other;

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
	CHECK(wait_value(one, (uintptr_t)word, 1, 0) == 0);
	OK(start_store(two, a, 1));
	OK(cudaSetDevice(1));
	other = new_stream();
	unsigned *b = device_words(64);
	OK(start_store(other, b, 1));
	OK(cudaStreamSynchronize(other));   /* another GPU has another queue; and time for the wrong thing to happen */
	CHECK(cudaStreamQuery(two) == cudaErrorNotReady);
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(two));
}

static void streams_of_their_own_are_not_held()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	unsigned *word = pinned_words(1), *a = device_words(64);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
	CHECK(wait_value(one, (uintptr_t)word, 1, 0) == 0);
	OK(start_store(two, a, 1));
	OK(cudaStreamSynchronize(two));
	CHECK(cudaStreamQuery(one) == cudaErrorNotReady);
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaDeviceSynchronize());
}

static void the_legacy_stream_waits_for_blocking_ones()
{
	const cudaStream_t apart = new_stream();
	unsigned *word = pinned_words(1), *a = zero_words(64);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	cudaStream_t blocking;

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
	OK(cudaStreamCreate(&blocking));
	CHECK(wait_value(blocking, (uintptr_t)word, 1, 0) == 0);
	OK(start_step(blocking, a, 1));
	OK(start_step(nullptr, a, 2));
	OK(start_step(cudaStreamPerThread, a, 3));
	OK(cudaEventRecord(new_event(), apart));
	OK(cudaStreamSynchronize(apart));
	CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady && cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(cudaStreamPerThread));
	CHECK(word_at(a) == (1 * 3 + 2) * 3 + 3);
}

static void set_flag(void *flag)
{
	__atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

static void lazy_work_is_done_in_time_and_when_waited_for()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *a = zero_words(64), expected = 0;
	int flag = 0;

	for (unsigned i = 0; i < 300; i++) {
		OK(start_step(i % 2 ? one : two, a, i));
		OK(cudaEventRecord(event, i % 2 ? one : two));
		OK(cudaStreamWaitEvent(i % 2 ? two : one, event, 0));
		expected = expected * 3 + i;
	}
	OK(cudaEventSynchronize(event));
	CHECK(word_at(a) == expected);
	OK(cudaLaunchHostFunc(one, set_flag, &flag));   /* nobody waits: it comes all the same */
	while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void launches_that_block()
{
	const cudaStream_t stream = new_stream();
	unsigned *a = device_words(64), *out = pinned_words(64);

	OK(start_store(stream, a, 1));
	OK(cudaStreamQuery(stream));
	OK(cudaMemcpyAsync(out, a, 256, cudaMemcpyDefault, stream));
	CHECK(out[63] == 63);
}

/* ---- memory -------------------------------------------------------------------------------------------------------------- */

static void memory_runs_out_and_comes_back()
{
	void *a, *b, *c = &c;
	size_t room, total;

	OK(cudaMalloc(&a, 600 * 1024));
	CHECK(cudaMalloc(&c, 600 * 1024) == cudaErrorMemoryAllocation && c == &c);
	CHECK(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
	OK(cudaMemGetInfo(&room, &total));
	CHECK(total == 1024 * 1024 && room == 424 * 1024);
	OK(cudaMalloc(&b, room));
	OK(cudaFree(a));
	CHECK(cudaFree(a) == cudaErrorInvalidValue);
	OK(cudaMalloc(&c, 600 * 1024));
	CHECK(c != a);   /* an old address is not given out again soon */
	OK(cudaFree(nullptr));
	OK(cudaFree(b));
	for (int i = 0; i < 3000; i++) {   /* round the addresses */
		OK(cudaFree(c));
		OK(cudaMalloc(&c, 1000 * 1024));
	}
	CHECK(sim_live() == 1);
	CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
}

static void copies_of_rectangles_and_between_gpus()
{
	const cudaStream_t stream = new_stream();
	unsigned *a = device_words(64), *host = pinned_words(64);

	OK(cudaSetDevice(1));
	unsigned *b = device_words(64);
	for (unsigned i = 0; i < 64; i++)
		host[i] = i;
	OK(cudaMemcpyAsync(a, host, 256, cudaMemcpyHostToDevice, stream));
	OK(cudaMemcpyAsync(b, a, 256, cudaMemcpyDeviceToDevice, stream));   /* needs no peer access */
	OK(cudaMemsetAsync(a, 0xff, 256, stream));
	OK(cudaMemcpy2DAsync(a + 1, 32, b, 16, 8, 4, cudaMemcpyDefault, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(word_at(b + 63) == 63 && word_at(a) == 0xffffffffu && word_at(a + 1) == 0 && word_at(a + 2) == 1);
	CHECK(word_at(a + 3) == 0xffffffffu && word_at(a + 9) == 4 && word_at(a + 26) == 13);
	CHECK(cudaMemcpyAsync(a, host, 256, cudaMemcpyDeviceToDevice, stream) == cudaErrorInvalidValue);
	CHECK(cudaMemcpy2DAsync(a, 4, b, 16, 8, 4, cudaMemcpyDefault, stream) == cudaErrorInvalidPitchValue);
}

static void registered_memory()
{
	const size_t bytes = 3 * 4096;
	unsigned char *room = (unsigned char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const cudaStream_t stream = new_stream();
	unsigned *words = (unsigned *)(room + 64);
	struct cudaPointerAttributes about;
	void *seen;

	OK(cudaHostRegister(room + 64, 4096, cudaHostRegisterPortable | cudaHostRegisterMapped));
	CHECK(cudaHostRegister(room, 64, 0) == cudaErrorHostMemoryAlreadyRegistered);   /* the same page */
	CHECK(cudaHostRegister(room + 8000, 64, 0) == cudaErrorHostMemoryAlreadyRegistered);
	OK(cudaHostRegister(room + 8192, 4096, cudaHostRegisterReadOnly));
	OK(cudaHostGetDevicePointer(&seen, words, 0));
	CHECK(seen == words);
	OK(start_store(stream, words, 2));
	OK(start_copy(stream, words + 64, (const unsigned *)(room + 8192)));
	OK(cudaStreamSynchronize(stream));
	CHECK(words[0] == 0 && words[63] == 63 && words[64] == 0);
	OK(cudaPointerGetAttributes(&about, words + 3));
	CHECK(about.type == cudaMemoryTypeHost && about.hostPointer == words + 3 && about.devicePointer == words + 3);
	OK(cudaHostUnregister(words));
	CHECK(cudaHostUnregister(words) == cudaErrorHostMemoryNotRegistered);
	OK(cudaPointerGetAttributes(&about, words));
	CHECK(about.type == cudaMemoryTypeUnregistered && !about.devicePointer);
	OK(cudaHostUnregister(room + 8192));
	CHECK(mprotect(room, 4096, PROT_READ) == 0);
	CHECK(cudaHostRegister(room, 4096, 0) == cudaErrorInvalidValue);   /* cannot be written: only for reading */
	OK(cudaHostRegister(room, 4096, cudaHostRegisterReadOnly));
	CHECK(munmap(room + 4096, 4096) == 0 && cudaHostRegister(room + 4096, 4096, 0) == cudaErrorInvalidValue);
}

static void peers()
{
	unsigned *mine = device_words(64);
	int can = -1;
	struct cudaPointerAttributes about;

	OK(cudaDeviceCanAccessPeer(&can, 0, 1));
	CHECK(can == 1);
	OK(cudaDeviceCanAccessPeer(&can, 0, 0));
	CHECK(can == 0);
	OK(cudaSetDevice(1));
	OK(cudaPointerGetAttributes(&about, mine + 5));
	CHECK(about.type == cudaMemoryTypeDevice && about.device == 0 && !about.devicePointer);
	OK(cudaDeviceEnablePeerAccess(0, 0));
	CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
	CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorInvalidDevice);
	const cudaStream_t stream = new_stream();
	OK(start_store(stream, mine, 1));
	OK(cudaStreamSynchronize(stream));
	CHECK(word_at(mine + 9) == 9);
	OK(cudaSetDevice(0));
	CHECK(start_store(stream, mine, 1) == cudaErrorInvalidResourceHandle);   /* a stream of the other GPU */
}

/* ---- several processes --------------------------------------------------------------------------------------------------- */

static void read_all(int fd, void *to, size_t bytes)
{
	CHECK(read(fd, to, bytes) == (ssize_t)bytes);
}

static void import_outlives_the_exporter()
{
	int to_us[2], to_them[2], status;
	cudaIpcMemHandle_t handle, bad;
	void *at, *again;
	char go = 'g';

	CHECK(pipe(to_us) == 0 && pipe(to_them) == 0);
	const pid_t exporter = fork();
	CHECK(exporter >= 0);
	if (exporter == 0) {
		OK(cudaSetDevice(1));
		unsigned *a = device_words(64);
		OK(start_store(nullptr, a, 1));
		OK(cudaDeviceSynchronize());
		OK(cudaIpcGetMemHandle(&handle, a));
		CHECK(cudaIpcGetMemHandle(&bad, a + 1) == cudaErrorInvalidValue);
		CHECK(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) == cudaErrorDeviceUninitialized);
		CHECK(write(to_us[1], &handle, sizeof(handle)) == (ssize_t)sizeof(handle));
		read_all(to_them[0], &go, 1);
		CHECK(word_at(a) == 1000);   /* what the other wrote */
		_exit(0);
	}
	read_all(to_us[0], &handle, sizeof(handle));
	CHECK(cudaIpcOpenMemHandle(&at, handle, 0) == cudaErrorInvalidValue);
	OK(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess));
	OK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
	CHECK(at == again && word_at((unsigned *)at + 9) == 9 && sim_live() == 1);
	CHECK(cudaFree(at) == cudaErrorInvalidValue);
	const unsigned thousand = 1000;
	OK(cudaMemcpy(at, &thousand, 4, cudaMemcpyDefault));
	CHECK(write(to_them[1], &go, 1) == 1);
	CHECK(waitpid(exporter, &status, 0) == exporter && status == 0);
	unsigned *mine = device_words(64);   /* on GPU 0: opening has made a peer of GPU 1 */
	OK(start_copy(nullptr, mine, (const unsigned *)at));
	CHECK(word_at(mine) == 1000 && word_at(mine + 63) == 63);
	CHECK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);   /* still open here */
	for (int i = 0; i < 3; i++)
		OK(cudaIpcCloseMemHandle(at));
	CHECK(cudaIpcCloseMemHandle(at) == cudaErrorInvalidValue);
	CHECK(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) == cudaErrorMapBufferObjectFailed);
	memset(&bad, 0x55, sizeof(bad));
	CHECK(cudaIpcOpenMemHandle(&at, bad, cudaIpcMemLazyEnablePeerAccess) == cudaErrorInvalidValue);
	OK(cudaFree(mine));
	CHECK(sim_live() == 0);
}

static void cuda_does_not_survive_fork()
{
	int status, count;

	OK(cudaGetDeviceCount(&count));
	const pid_t child = fork();
	if (child == 0) {
		void *ptr;
		const bool refused = cudaMalloc(&ptr, 16) == cudaErrorInitializationError && cudaGetLastError() == cudaErrorInitializationError;
		exit(refused ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	(void)device_words(4);
}

/* ---- what tests do to it ------------------------------------------------------------------------------------------------- */

static void calls_fail_when_told()
{
	void *ptr;

	sim_fail("cudaMalloc", 2, cudaErrorUnknown);
	sim_fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
	unsigned *a = device_words(64);
	CHECK(cudaMalloc(&ptr, 16) == cudaErrorUnknown && cudaPeekAtLastError() == cudaErrorUnknown);
	OK(cudaMalloc(&ptr, 16));
	CHECK(start_store(nullptr, a, 1) == cudaErrorLaunchOutOfResources);
	OK(start_store(nullptr, a, 1));
	sim_fail("cudaFree", 1, cudaErrorUnknown);
	sim_fail("cudaFree", 0, cudaSuccess);
	OK(cudaFree(ptr));
	CHECK(sim_calls("cudaMalloc") == 3);
	CHECK(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
}

static void a_broken_gpu_stays_broken()
{
	const cudaStream_t stream = new_stream();
	unsigned *word = pinned_words(1), *a = device_words(64);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	cudaError_t end = cudaSuccess;

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
	CHECK(wait_value(stream, (uintptr_t)word, 1, 0) == 0);
	std::thread waiting([&] { end = cudaStreamSynchronize(stream); });
	while (sim_calls("cudaStreamSynchronize") == 0)
		usleep(100);
	sim_break(cudaErrorIllegalAddress);
	waiting.join();
	CHECK(end == cudaErrorIllegalAddress && cudaGetLastError() == end && cudaGetLastError() == end);
	CHECK(start_store(stream, a, 1) == end && cudaStreamQuery(stream) == end);
	CHECK(sim_live() == 3);
	CHECK(cudaFree(a) == end && cudaFreeHost(word) == end && cudaStreamDestroy(stream) == end && sim_live() == 0);
}

static void leaks_are_listed()
{
	char text[1024] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)device_words(25);
	(void)new_stream();
	(void)new_event();
	(void)pinned_words(7);
	CHECK(sim_live() == 4);
	sim_leaks(out);
	fclose(out);
	CHECK(strstr(text, "device memory, 100 bytes") && strstr(text, "stream") && strstr(text, "event") && strstr(text, "pinned memory, 28"));
}

static void no_gpu_and_no_driver()
{
	int count = 7, version = 7;
	const bool driver = strcmp(getenv("RUNG_SIM_GPUS"), "none") != 0;

	CHECK(cudaGetDeviceCount(&count) == (driver ? cudaErrorNoDevice : cudaErrorInsufficientDriver) && count == 0);
	OK(cudaDriverGetVersion(&version));
	CHECK(version == (driver ? CUDART_VERSION : 0));
	unsigned blocks = 0;
	CHECK(rung__cuda_gather_blocks(&blocks) == RUNG_E_NODEV && strstr(rung_last_error(), "cuda"));
}

/* The launch functions of kernels/ in this program are the simulated ones, with or without CUDA in the library. */
static void the_gather_runs_here()
{
	const cudaStream_t stream = new_stream();
	unsigned char *rows = (unsigned char *)device_words(250), *out = (unsigned char *)device_words(30);
	unsigned *ids = pinned_words(10);
	struct rung__cuda_gather g = {};
	unsigned char got[60], blocks_known;
	unsigned blocks = 0;

	for (unsigned i = 0; i < 100; i++) {
		unsigned char row[10];
		memset(row, (int)i, sizeof(row));
		OK(cudaMemcpy(rows + 10 * i, row, sizeof(row), cudaMemcpyHostToDevice));
	}
	blocks_known = rung__cuda_gather_blocks(&blocks) == 0 && blocks > 0;
	CHECK(blocks_known);
	g.ids = ids;
	g.id_count = 6;
	g.id_dtype = RUNG_U32;
	g.row_count = 120;
	g.row_bytes = 10;
	g.view_count = 1;
	g.views[0].base[0] = rows;
	g.views[0].base_count = 1;
	g.views[0].stride = 10;
	g.views[0].rank_end = 100;
	g.out = out;
	g.out_stride = 10;
	g.miss_ranks = (uint64_t *)device_words(20);
	g.miss_rows = device_words(10);
	g.report = (struct rung__cuda_report *)device_words(6);
	const unsigned wanted[6] = { 3, 99, 110, 0, 50, 120 };
	memcpy(ids, wanted, sizeof(wanted));
	CHECK(rung__cuda_gather_launch(&g, blocks, stream) == 0);
	OK(cudaStreamSynchronize(stream));
	struct rung__cuda_report report;
	OK(cudaMemcpy(&report, g.report, sizeof(report), cudaMemcpyDeviceToHost));
	OK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(report.miss_count == 1 && report.bad_count == 1 && rung__cuda_bad_index(&report) == 5);
	CHECK(got[0] == 3 && got[9] == 3 && got[10] == 99 && got[30] == 0 && got[49] == 50);
	CHECK(sim_calls("cudaLaunchKernel") == 1);
}

/* ---- mistakes ------------------------------------------------------------------------------------------------------------ */

static void finish(cudaError_t err)
{
	OK(err);
	OK(cudaDeviceSynchronize());
}

static void mistakes_end_the_program()
{
	static unsigned plain[64];
	const cudaStream_t legacy = nullptr;

	dies("the host reads device memory", nullptr, [] { *(volatile unsigned *)device_words(4); });
	dies("the host writes device memory", nullptr, [] { *(volatile unsigned *)device_words(4) = 1; });
	dies("a kernel reads plain host memory", "outside all memory",
	     [=] { finish(start_load(legacy, plain)); });
	dies("a kernel reads past an allocation", "outside all memory",
	     [=] { finish(start_load(legacy, device_words(63))); });
	dies("a kernel reads what was freed", "outside all memory", [=] {
		unsigned *a = device_words(64);
		OK(cudaFree(a));
		finish(start_load(legacy, a));
	});
	dies("a kernel reads a GPU that is no peer", "outside all memory", [=] {
		unsigned *a = device_words(64);
		OK(cudaSetDevice(1));
		finish(start_load(legacy, a));
	});
	dies("a kernel writes what is registered for reading", "for reading", [=] {
		void *room = aligned_alloc(4096, 4096);
		OK(cudaHostRegister(room, 4096, cudaHostRegisterReadOnly));
		finish(start_store(legacy, (unsigned *)room, 1));
	});
	dies("memory is unregistered while a kernel is queued", "outside all memory", [=] {
		void *room = aligned_alloc(4096, 4096);
		OK(cudaHostRegister(room, 4096, 0));
		sim_hold(true);
		OK(start_store(legacy, (unsigned *)room, 1));
		OK(cudaHostUnregister(room));
		sim_hold(false);
		finish(cudaSuccess);
	});
	dies("an asynchronous copy from plain memory", "not registered",
	     [=] { (void)cudaMemcpyAsync(device_words(64), plain, 256, cudaMemcpyHostToDevice, legacy); });
	dies("a copy past an allocation", "of a memory of", [=] { (void)cudaMemcpy(device_words(63), plain, 256, cudaMemcpyDefault); });
	dies("a fill of what was freed", "has no memory", [=] {
		unsigned *a = device_words(64);
		OK(cudaFree(a));
		(void)cudaMemsetAsync(a, 0, 256, legacy);
	});
	dies("a destroyed stream is used", "destroyed", [] {
		const cudaStream_t stream = new_stream();
		OK(cudaStreamDestroy(stream));
		(void)cudaStreamSynchronize(stream);
	});
	dies("a destroyed event is used", "destroyed", [] {
		const cudaEvent_t event = new_event();
		OK(cudaEventDestroy(event));
		(void)cudaEventQuery(event);
	});
	dies("a host function calls CUDA", "host function",
	     [=] { finish(cudaLaunchHostFunc(legacy, [](void *) { (void)cudaGetLastError(); }, nullptr)); });
	dies("a name that is no function", "no function cudaMallocate", [] { sim_fail("cudaMallocate", 1, cudaErrorUnknown); });
}

/* ---- races --------------------------------------------------------------------------------------------------------------- */

#ifdef RACES_ARE_SEEN
static unsigned seen;   /* so that reading is not optimised away */

static void races_are_reported()
{
	dies("the host reads what a kernel writes", "data race", [] {
		unsigned *words = pinned_words(64);
		OK(start_store(nullptr, words, 1));
		usleep(10000);
		seen = words[0];
	});
	dies("the host writes what a copy reads", "data race", [] {
		unsigned *words = pinned_words(64);
		OK(cudaMemcpyAsync(device_words(64), words, 256, cudaMemcpyDefault, new_stream()));
		words[5] = 1;
		OK(cudaDeviceSynchronize());
	});
	dies("the host waits for what was put on the stream before", "data race", [] {
		unsigned *words = pinned_words(64);
		const cudaStream_t stream = new_stream();
		const cudaEvent_t event = new_event();
		OK(cudaEventRecord(event, stream));
		OK(start_store(stream, words, 1));
		OK(cudaEventRecord(new_event(), stream));
		OK(cudaEventSynchronize(event));
		seen = words[0];
		OK(cudaDeviceSynchronize());
	});
	dies("two streams without an event between", "data race", [] {
		unsigned *a = zero_words(64);
		OK(start_step(new_stream(), a, 1));
		OK(start_load(new_stream(), a));
		OK(cudaDeviceSynchronize());
	});
	dies("a word that is written first and means nothing", "data race", [] {
		unsigned *words = pinned_words(64), *flag = pinned_words(1);
		const cudaStream_t stream = new_stream();
		int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
		OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
		CHECK(wait_value(stream, (uintptr_t)flag, 1, 0) == 0);
		OK(start_load(stream, words));
		__atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
		words[1] = 1;   /* should have been before */
		OK(cudaDeviceSynchronize());
	});
}
#endif

static void orders_are_no_races()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *words = pinned_words(64), *flag = pinned_words(1), *a = zero_words(64), *count = zero_words(1);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	int done = 0;

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000, cudaEnableDefault, nullptr));
	for (unsigned turn = 1; turn <= 20; turn++) {
		CHECK(wait_value(one, (uintptr_t)flag, turn, 0) == 0);
		OK(start_copy(one, a, words));
		std::thread([&] {
			words[3] = turn;
			__atomic_store_n(flag, turn, __ATOMIC_RELEASE);
		}).join();
		OK(cudaEventRecord(event, one));
		OK(cudaStreamWaitEvent(two, event, 0));
		OK(start_step(two, a, 1));
		OK(start_copy(two, words, a));
		OK(start_count(one, count));   /* atomics of two streams */
		OK(start_count(two, count));
		OK(cudaEventRecord(event, two));
		OK(cudaLaunchHostFunc(two, set_flag, &done));
		while (cudaEventQuery(event) != cudaSuccess)
			usleep(50);
		CHECK(words[3] == turn * 3 + 1);
	}
	OK(cudaDeviceSynchronize());
	CHECK(done == 1 && word_at(count) == 20 * 2 * 128);
}

int main()
{
	for (const char *lazy : { "0", "1" }) {
		passes("a stream keeps its order", { { "RUNG_SIM_LAZY", lazy } }, a_stream_keeps_its_order);
		passes("an event orders two streams", { { "RUNG_SIM_LAZY", lazy } }, an_event_orders_two_streams);
		passes("an event is a place in a stream", { { "RUNG_SIM_LAZY", lazy } }, an_event_is_a_place_in_a_stream);
		passes("words", { { "RUNG_SIM_LAZY", lazy } }, waiting_and_writing_words);
		passes("lazy work", { { "RUNG_SIM_LAZY", lazy } }, lazy_work_is_done_in_time_and_when_waited_for);
	}
	case_name = "streams are in no order";
	streams_are_in_no_order();
	passes("one queue", { { "RUNG_SIM_GPUS", "2" }, { "CUDA_DEVICE_MAX_CONNECTIONS", "1" } }, one_queue_is_held_by_its_head);
	passes("many queues", {}, streams_of_their_own_are_not_held);
	passes("the legacy stream", {}, the_legacy_stream_waits_for_blocking_ones);
	passes("launches that block", { { "CUDA_LAUNCH_BLOCKING", "1" }, { "RUNG_SIM_LAZY", "1" } }, launches_that_block);
	passes("memory runs out", { { "RUNG_SIM_GPU_BYTES", "1048576" } }, memory_runs_out_and_comes_back);
	passes("copies", { { "RUNG_SIM_GPUS", "2" } }, copies_of_rectangles_and_between_gpus);
	passes("registered memory", {}, registered_memory);
	passes("no read-only registrations", { { "RUNG_SIM_READ_ONLY", "0" } }, [] {
		int can = 7;
		OK(cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterReadOnlySupported, 0));
		CHECK(can == 0 && cudaHostRegister(&can, 4, cudaHostRegisterReadOnly) == cudaErrorNotSupported);
	});
	passes("peers", { { "RUNG_SIM_GPUS", "2" } }, peers);
	passes("no peers", { { "RUNG_SIM_GPUS", "2" }, { "RUNG_SIM_PEERS", "0" } },
	       [] { CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported); });
	passes("memory of another process", { { "RUNG_SIM_GPUS", "2" } }, import_outlives_the_exporter);
	passes("fork", {}, cuda_does_not_survive_fork);
	passes("calls fail when told", {}, calls_fail_when_told);
	passes("a broken GPU", {}, a_broken_gpu_stays_broken);
	passes("leaks", {}, leaks_are_listed);
	passes("no GPU", { { "RUNG_SIM_GPUS", "0" } }, no_gpu_and_no_driver);
	passes("no driver", { { "RUNG_SIM_GPUS", "none" } }, no_gpu_and_no_driver);
	passes("the gather", {}, the_gather_runs_here);
	mistakes_end_the_program();
#ifdef RACES_ARE_SEEN
	races_are_reported();
#endif
	for (const char *seed : { "1", "2", "3" })
		passes("orders that are no races", { { "RUNG_SIM_SEED", seed } }, orders_are_no_races);
	printf("simulated GPUs: %lu cases\n", cases);
	return 0;
}
