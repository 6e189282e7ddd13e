/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated GPUs: undefined behaviour in CUDA ends the program; data races are reported under
 * ThreadSanitizer. */
#include "sim_case.h"

static void finish(cudaError_t err)
{
	OK(err);
	OK(cudaDeviceSynchronize());
}

static const cudaStream_t legacy = nullptr;
static unsigned plain[64];

static void accesses_of_the_host()
{
	dies("the host reads device memory", nullptr,
	     [] { *(volatile unsigned *)device_words(4); });
	dies("the host writes device memory", nullptr,
	     [] { *(volatile unsigned *)device_words(4) = 1; });
	dies("a handle of a part of a block", "exports everything in the same block", [] {
		cudaIpcMemHandle_t handle;

		(void)cudaIpcGetMemHandle(&handle, device_words(64));
	});
}

static void accesses_of_kernels()
{
	dies("a kernel reads plain host memory", "outside all memory",
	     [] { finish(start_load(legacy, plain)); });
	dies("a kernel reads past an allocation", "outside all memory",
	     [] { finish(start_load(legacy, device_words(63))); });
	dies("a kernel reads freed memory", "outside all memory", [] {
		unsigned *a = device_words(64);
		OK(cudaFree(a));
		finish(start_load(legacy, a));
	});
	dies("a kernel reads a GPU that is not a peer", "outside all memory", [] {
		unsigned *a = device_words(64);
		OK(cudaSetDevice(1));
		finish(start_load(legacy, a));
	});
	dies("a kernel writes memory registered for reading", "for reading", [] {
		void *room = aligned_alloc(4096, 4096);
		OK(cudaHostRegister(room, 4096, cudaHostRegisterReadOnly));
		finish(start_store(legacy, (unsigned *)room, 1));
	});
	dies("memory is unregistered while a kernel is queued", "outside all memory", [] {
		void *room = aligned_alloc(4096, 4096);
		OK(cudaHostRegister(room, 4096, 0));
		sim_hold(true);
		OK(start_store(legacy, (unsigned *)room, 1));
		OK(cudaHostUnregister(room));
		sim_hold(false);
		finish(cudaSuccess);
	});
}

static void copies_and_fills()
{
	dies("an asynchronous copy from plain memory", "not registered", [] {
		(void)cudaMemcpyAsync(device_words(64), plain, 256, cudaMemcpyHostToDevice, legacy);
	});
	dies("a copy past an allocation", "of an allocation of",
	     [] { (void)cudaMemcpy(device_words(63), plain, 256, cudaMemcpyDefault); });
	dies("a fill of freed memory", "has no memory", [] {
		unsigned *a = device_words(64);
		OK(cudaFree(a));
		(void)cudaMemsetAsync(a, 0, 256, legacy);
	});
}

static void streams_events_and_calls()
{
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
	dies("a host function calls CUDA", "host function", [] {
		const cudaHostFn_t calls = [](void *) { (void)cudaGetLastError(); };
		finish(cudaLaunchHostFunc(legacy, calls, nullptr));
	});
	dies("an unknown function name", "unknown function cudaMallocate",
	     [] { sim_fail("cudaMallocate", 1, cudaErrorUnknown); });
}

/* ---- races ---- */

#ifdef RACES_ARE_SEEN
static unsigned seen; /* keeps the reads from being optimised away */

static void races_are_reported()
{
	dies("the host reads memory that a kernel writes", "data race", [] {
		unsigned *words = pinned_words(64);
		OK(start_store(nullptr, words, 1));
		seen = words[0];
		OK(cudaDeviceSynchronize()); /* the kernel ran before or after the read */
	});
	dies("the host writes memory that a copy reads", "data race", [] {
		unsigned *words = pinned_words(64);
		OK(cudaMemcpyAsync(device_words(64), words, 256, cudaMemcpyDefault, new_stream()));
		words[5] = 1;
		OK(cudaDeviceSynchronize());
	});
	dies("the host waits only for earlier work of the stream", "data race", [] {
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
	dies("two streams without an event between them", "data race", [] {
		unsigned *a = zero_words(64);
		OK(start_step(new_stream(), a, 1));
		OK(start_load(new_stream(), a));
		OK(cudaDeviceSynchronize());
	});
	dies("a flag that is written before the data", "data race", [] {
		unsigned *words = pinned_words(64), *flag = pinned_words(1);
		const cudaStream_t stream = new_stream();
		wait_for_word(stream, flag, 1);
		OK(start_load(stream, words));
		__atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
		words[1] = 1; /* should come before the flag */
		OK(cudaDeviceSynchronize());
	});
}
#endif

int main()
{
	accesses_of_the_host();
	accesses_of_kernels();
	copies_and_fills();
	streams_events_and_calls();
#ifdef RACES_ARE_SEEN
	races_are_reported();
#endif
	printf("mistakes: %lu cases\n", cases);
	return 0;
}
