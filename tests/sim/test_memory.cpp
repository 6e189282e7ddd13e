/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated GPUs: their own memory, host memory, and memory of peers and other processes. */
#include <sys/mman.h>

#include "sim_case.h"

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
	CHECK(c != a); /* a freed address is not reused soon */
	OK(cudaFree(nullptr));
	OK(cudaFree(b));
	for (int i = 0; i < 3000; i++) { /* wrap around the address range */
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
	OK(cudaMemcpyAsync(b, a, 256, cudaMemcpyDeviceToDevice, stream)); /* needs no peer access */
	OK(cudaMemsetAsync(a, 0xff, 256, stream));
	OK(cudaMemcpy2DAsync(a + 1, 32, b, 16, 8, 4, cudaMemcpyDefault, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(word_at(b + 63) == 63 && word_at(a) == 0xffffffffu && word_at(a + 1) == 0 &&
	      word_at(a + 2) == 1);
	CHECK(word_at(a + 3) == 0xffffffffu && word_at(a + 9) == 4 && word_at(a + 26) == 13);
	sim_hold(true);
	OK(cudaMemcpy(a, b, 256, cudaMemcpyDeviceToDevice)); /* does not wait, as CUDA's does not */
	CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
	sim_hold(false);
	CHECK(word_at(a + 9) == 9);
	CHECK(cudaMemcpyAsync(a, host, 256, cudaMemcpyDeviceToDevice, stream) ==
	      cudaErrorInvalidValue);
	CHECK(cudaMemcpy2DAsync(a, 4, b, 16, 8, 4, cudaMemcpyDefault, stream) ==
	      cudaErrorInvalidPitchValue);
}

static void registered_memory()
{
	const size_t bytes = 3 * 4096;
	unsigned char *room = (unsigned char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
	                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const cudaStream_t stream = new_stream();
	unsigned *words = (unsigned *)(room + 64);
	struct cudaPointerAttributes about;
	void *seen;

	OK(cudaHostRegister(room + 64, 4096, cudaHostRegisterPortable | cudaHostRegisterMapped));
	/* shares a page with the first */
	CHECK(cudaHostRegister(room, 64, 0) == cudaErrorHostMemoryAlreadyRegistered);
	CHECK(cudaHostRegister(room + 8000, 64, 0) == cudaErrorHostMemoryAlreadyRegistered);
	OK(cudaHostRegister(room + 8192, 4096, cudaHostRegisterReadOnly));
	OK(cudaHostGetDevicePointer(&seen, words, 0));
	CHECK(seen == words);
	OK(start_store(stream, words, 2));
	OK(start_copy(stream, words + 64, (const unsigned *)(room + 8192)));
	OK(cudaStreamSynchronize(stream));
	CHECK(words[0] == 0 && words[63] == 63 && words[64] == 0);
	OK(cudaPointerGetAttributes(&about, words + 3));
	CHECK(about.type == cudaMemoryTypeHost && about.hostPointer == words + 3 &&
	      about.devicePointer == words + 3);
	OK(cudaHostUnregister(words));
	CHECK(cudaHostUnregister(words) == cudaErrorHostMemoryNotRegistered);
	OK(cudaPointerGetAttributes(&about, words));
	CHECK(about.type == cudaMemoryTypeUnregistered && !about.devicePointer);
	OK(cudaHostUnregister(room + 8192));
	CHECK(mprotect(room, 4096, PROT_READ) == 0);
	/* cannot be written: must be registered for reading only */
	CHECK(cudaHostRegister(room, 4096, 0) == cudaErrorInvalidValue);
	OK(cudaHostRegister(room, 4096, cudaHostRegisterReadOnly));
	CHECK(munmap(room + 4096, 4096) == 0 &&
	      cudaHostRegister(room + 4096, 4096, 0) == cudaErrorInvalidValue);
}

static void registrations_side_by_side()
{
	const size_t page = 4096;
	unsigned char *room = (unsigned char *)aligned_alloc(page, 2 * page), *border = room + page;
	const cudaStream_t stream = new_stream();
	unsigned *device = device_words(1024);

	OK(cudaHostRegister(room, page, 0));
	OK(cudaHostRegister(border, page, 0));
	OK(start_store(stream, (unsigned *)(border - 128), 1)); /* kernels may cross the boundary */
	OK(cudaStreamSynchronize(stream));
	const cudaError_t no = cudaErrorInvalidValue;
	CHECK(cudaMemcpyAsync(device, border - 4, 8, cudaMemcpyDefault, stream) == no);
	CHECK(cudaMemcpyAsync(border - 4, device, 8, cudaMemcpyDefault, stream) == no);
	CHECK(cudaMemcpy2DAsync(device, 4, border - 4, 4, 4, 2, cudaMemcpyDefault, stream) == no);
	OK(cudaMemcpyAsync(device, border - 4, 4, cudaMemcpyHostToDevice, stream));
	OK(cudaMemcpyAsync(device + 1, border, 4, cudaMemcpyHostToDevice, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(word_at(device) == 31 && word_at(device + 1) == 32);
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
	/* a stream of the other GPU */
	CHECK(start_store(stream, mine, 1) == cudaErrorInvalidResourceHandle);
}

static void write_combined_memory()
{
	unsigned *words, *seen;
	struct cudaPointerAttributes about;

	OK(cudaHostAlloc((void **)&words, 256, cudaHostAllocWriteCombined | cudaHostAllocMapped));
	OK(cudaHostGetDevicePointer((void **)&seen, words, 0));
	OK(cudaPointerGetAttributes(&about, words));
	CHECK(seen != words && about.devicePointer == seen && about.hostPointer == words);
	OK(start_store(nullptr, seen, 1));
	OK(cudaDeviceSynchronize());
	CHECK(words[63] == 63);
	OK(cudaFreeHost(words));
}

static void *driver_function(const char *name)
{
	void *function;

	OK(cudaGetDriverEntryPointByVersion(name, &function, 12080, cudaEnableDefault, nullptr));
	return function;
}

static void contexts()
{
	const auto retain = (int (*)(void **, int))driver_function("cuDevicePrimaryCtxRetain");
	const auto push = (int (*)(void *))driver_function("cuCtxPushCurrent");
	const auto pop = (int (*)(void **))driver_function("cuCtxPopCurrent");
	const auto device_of = (int (*)(cudaStream_t, int *))driver_function("cuStreamGetDevice");
	void *context, *popped;
	int gpu = -1, count;

	OK(cudaGetDeviceCount(&count));
	OK(cudaGetDevice(&gpu));
	CHECK(gpu == 0 && !sim_has_context(0) && !sim_has_context(1));
	CHECK(retain(&context, 3) == cudaErrorInvalidDevice);
	CHECK(push(&gpu) == cudaErrorDeviceUninitialized);
	CHECK(retain(&context, 1) == 0 && push(context) == 0);
	CHECK(sim_has_context(1));
	OK(cudaGetDevice(&gpu));
	CHECK(gpu == 1);
	const cudaStream_t stream = new_stream();
	CHECK(device_of(stream, &gpu) == 0 && gpu == 1);
	OK(cudaStreamSynchronize(stream));
	OK(cudaSetDevice(2)); /* lasts until the context is popped */
	CHECK(pop(&popped) == 0 && sim_has_context(2));
	OK(cudaGetDevice(&gpu));
	CHECK(gpu == 0 && !sim_has_context(0));
	(void)device_words(4);
	CHECK(sim_has_context(0));
}

/* ---- several processes ---- */

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
		unsigned *a = device_words(512 << 10); /* a whole block */
		OK(start_store(nullptr, a, 1));
		OK(cudaDeviceSynchronize());
		OK(cudaIpcGetMemHandle(&handle, a));
		CHECK(cudaIpcGetMemHandle(&bad, a + 1) == cudaErrorInvalidValue);
		CHECK(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) ==
		      cudaErrorDeviceUninitialized);
		CHECK(write(to_us[1], &handle, sizeof(handle)) == (ssize_t)sizeof(handle));
		read_all(to_them[0], &go, 1);
		CHECK(word_at(a) == 1000); /* written by the other process */
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
	unsigned *mine = device_words(64); /* on GPU 0: opening has made a peer of GPU 1 */
	OK(start_copy(nullptr, mine, (const unsigned *)at));
	CHECK(word_at(mine) == 1000 && word_at(mine + 63) == 63);
	/* still open here */
	CHECK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
	for (int i = 0; i < 3; i++)
		OK(cudaIpcCloseMemHandle(at));
	CHECK(cudaIpcCloseMemHandle(at) == cudaErrorInvalidValue);
	CHECK(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) ==
	      cudaErrorMapBufferObjectFailed);
	memset(&bad, 0x55, sizeof(bad));
	CHECK(cudaIpcOpenMemHandle(&at, bad, cudaIpcMemLazyEnablePeerAccess) ==
	      cudaErrorInvalidValue);
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
		const bool refused = cudaMalloc(&ptr, 16) == cudaErrorInitializationError;
		exit(refused && cudaGetLastError() == cudaErrorInitializationError ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	(void)device_words(4);
}

static void managed_memory()
{
	const struct cudaMemLocation host = { cudaMemLocationTypeHost, 0 },
				     gpu = { cudaMemLocationTypeDevice, 0 },
				     other = { cudaMemLocationTypeDevice, 9 };
	struct cudaPointerAttributes about;
	unsigned char *memory, *copy;

	OK(cudaMallocManaged((void **)&memory, 5000, cudaMemAttachGlobal));
	OK(cudaMemAdvise(memory, 5000, cudaMemAdviseSetPreferredLocation, host));
	OK(cudaMemAdvise(memory + 4096, 904, cudaMemAdviseSetAccessedBy, gpu));
	CHECK(cudaMemAdvise(memory, 5001, cudaMemAdviseSetAccessedBy, gpu) ==
	      cudaErrorInvalidValue);
	CHECK(cudaMemAdvise(memory, 5000, cudaMemAdviseSetAccessedBy, other) ==
	      cudaErrorInvalidDevice);
	OK(cudaPointerGetAttributes(&about, memory));
	CHECK(about.type == cudaMemoryTypeManaged);
	OK(cudaMalloc((void **)&copy, 5000));
	CHECK(cudaMemAdvise(copy, 5000, cudaMemAdviseSetAccessedBy, gpu) == cudaErrorInvalidValue);
	memset(memory, 7, 5000);
	OK(cudaMemcpy(copy, memory, 5000, cudaMemcpyHostToDevice));
	memset(memory, 0, 5000);
	OK(cudaMemcpy(memory, copy, 5000, cudaMemcpyDeviceToHost));
	CHECK(memory[0] == 7 && memory[4999] == 7);
	OK(cudaFree(copy));
	OK(cudaFree(memory));
	CHECK(cudaFree(memory) == cudaErrorInvalidValue && sim_live() == 0);
}

int main()
{
	passes("memory runs out", { { "RUNG_SIM_GPU_BYTES", "1048576" } },
	       memory_runs_out_and_comes_back);
	passes("copies", { { "RUNG_SIM_GPUS", "2" } }, copies_of_rectangles_and_between_gpus);
	passes("registered memory", {}, registered_memory);
	passes("two registrations", {}, registrations_side_by_side);
	passes("managed memory", {}, managed_memory);
	passes("no read-only registrations", { { "RUNG_SIM_READ_ONLY", "0" } }, [] {
		int can = 7;
		OK(cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterReadOnlySupported, 0));
		CHECK(can == 0 &&
		      cudaHostRegister(&can, 4, cudaHostRegisterReadOnly) == cudaErrorNotSupported);
	});
	passes("peers", { { "RUNG_SIM_GPUS", "2" } }, peers);
	passes("write-combined memory", {}, write_combined_memory);
	passes("contexts", { { "RUNG_SIM_GPUS", "3" } }, contexts);
	passes("no peers", { { "RUNG_SIM_GPUS", "2" }, { "RUNG_SIM_PEERS", "0" } },
	       [] { CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported); });
	passes("memory of another process", { { "RUNG_SIM_GPUS", "2" } },
	       import_outlives_the_exporter);
	passes("fork", {}, cuda_does_not_survive_fork);
	printf("memory: %lu cases\n", cases);
	return 0;
}
