/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: GPU memory, and its use by other processes. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime.h"

using namespace sim;

static entry malloc_entry("cudaMalloc", UNSAFE);
cudaError_t cudaMalloc(void **ptr_out, size_t bytes)
{
	return call(malloc_entry, [&](state &s, held_lock &) {
		struct gpu &gpu = s.gpus[(size_t)current_gpu()];
		struct range r = {};

		if (bytes == 0) {
			*ptr_out = nullptr;
			return cudaSuccess;
		}
		if (bytes > s.gpu_bytes || round_up(bytes, ALIGN) > s.gpu_bytes - gpu.used ||
		    !(r.begin = take_address(s, &gpu, bytes)))
			return cudaErrorMemoryAllocation;
		r.kind = DEVICE;
		r.bytes = bytes;
		r.gpu = current_gpu();
		r.writable = true;
		r.fd = memfd_create("simulated-gpu", MFD_CLOEXEC);
		void *real = MAP_FAILED;
		if (r.fd >= 0 && ftruncate(r.fd, (off_t)bytes) == 0)
			real = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, 0);
		if (real == MAP_FAILED) {
			if (r.fd >= 0)
				close(r.fd);
			return cudaErrorMemoryAllocation;
		}
		r.real = (unsigned char *)real;
		memset(r.real, GARBAGE, bytes);
		gpu.used += round_up(bytes, ALIGN);
		add_range(s, r);
		*ptr_out = (void *)r.begin;
		return cudaSuccess;
	});
}

static entry free_entry("cudaFree", RELEASES | UNSAFE);
cudaError_t cudaFree(void *ptr)
{
	return call(free_entry, [&](state &s, held_lock &lock) {
		if (!ptr)
			return cudaSuccess;
		const bool managed = range_at(s, ptr, MANAGED);
		if (!managed && !range_at(s, ptr, DEVICE))
			return cudaErrorInvalidValue;
		wait_for_all(s, lock, -1);
		if (managed) {
			remove_range(s, (uintptr_t)ptr);
			free(ptr);
			return s.broken;
		}
		const struct range *r = range_at(s, ptr, DEVICE);
		if (!r)
			wrong("cudaFree of %p by two threads at once", ptr);
		if (flock(r->fd, LOCK_EX | LOCK_NB) != 0)
			wrong("cudaFree of %zu bytes at %p, which another process has open",
			      r->bytes, ptr);
		munmap(r->real, r->bytes);
		close(r->fd);
		s.gpus[(size_t)r->gpu].used -= round_up(r->bytes, ALIGN);
		remove_range(s, r->begin);
		return s.broken;
	});
}

static entry get_info("cudaMemGetInfo");
cudaError_t cudaMemGetInfo(size_t *free_out, size_t *total_out)
{
	return call(get_info, [&](state &s, held_lock &) {
		*total_out = s.gpu_bytes;
		*free_out = s.gpu_bytes - s.gpus[(size_t)current_gpu()].used;
		return cudaSuccess;
	});
}

/* ---- memory of other processes ---- */

struct handle_text {
	char magic[8];
	uint64_t bytes;
	uint64_t dev, ino; /* of the memfd: its number may have been reused for another file */
	int32_t pid, fd, gpu, zero;
};
static_assert(sizeof(handle_text) <= CUDA_IPC_HANDLE_SIZE, "fits a handle");
static const char HANDLE_MAGIC[8] = "simgpu1";

static entry get_handle("cudaIpcGetMemHandle");
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle_out, void *ptr)
{
	return call(get_handle, [&](state &s, held_lock &) {
		const struct range *r = range_at(s, ptr, DEVICE);
		handle_text text = {};
		struct stat st;

		if (!r)
			return cudaErrorInvalidValue;
		if (r->bytes % BLOCK != 0)
			wrong("a handle of %zu bytes at %p exports everything in the same block",
			      r->bytes, ptr);
		if (fstat(r->fd, &st) != 0)
			wrong("the memory at %p: its descriptor was closed", ptr);
		memcpy(text.magic, HANDLE_MAGIC, sizeof(text.magic));
		text.bytes = r->bytes;
		text.dev = st.st_dev;
		text.ino = st.st_ino;
		text.pid = getpid();
		text.fd = r->fd;
		text.gpu = r->gpu;
		memset(handle_out, 0, sizeof(*handle_out));
		memcpy(handle_out, &text, sizeof(text));
		return cudaSuccess;
	});
}

/* Map the exporter's memory, which outlives the exporter. The shared lock marks it as open here. */
static void *map_memory_of(const handle_text &text, int *fd_out)
{
	char path[64];
	struct stat st;
	void *real = MAP_FAILED;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)text.pid, (int)text.fd);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return nullptr;
	if (fstat(fd, &st) == 0 && st.st_dev == text.dev && st.st_ino == text.ino &&
	    (uint64_t)st.st_size == text.bytes)
		real = mmap(nullptr, text.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (real == MAP_FAILED || flock(fd, LOCK_SH | LOCK_NB) != 0) {
		close(fd);
		return nullptr;
	}
	*fd_out = fd;
	return real;
}

/* Implements cudaIpcMemLazyEnablePeerAccess. */
static cudaError_t reach(state &s, int gpu)
{
	std::vector<bool> &peers = s.gpus[(size_t)current_gpu()].peers;

	if (gpu == current_gpu() || peers[(size_t)gpu])
		return cudaSuccess;
	if (!s.may_peer)
		return cudaErrorPeerAccessUnsupported;
	peers[(size_t)gpu] = true;
	s.ranges_changed++;
	return cudaSuccess;
}

static cudaError_t open_memory(state &s, const handle_text &text, void **ptr_out)
{
	struct range r = {};

	for (auto &entry : s.ranges) {
		struct range &known = entry.second;
		if (known.kind == IMPORTED && known.dev == text.dev && known.ino == text.ino) {
			known.references++;
			*ptr_out = (void *)known.begin;
			return cudaSuccess;
		}
	}
	r.real = (unsigned char *)map_memory_of(text, &r.fd);
	if (!r.real)
		return cudaErrorMapBufferObjectFailed;
	r.kind = IMPORTED;
	r.begin = take_address(s, &s.gpus[(size_t)text.gpu], text.bytes);
	if (!r.begin) {
		munmap(r.real, text.bytes);
		close(r.fd);
		return cudaErrorMapBufferObjectFailed;
	}
	r.bytes = text.bytes;
	r.gpu = text.gpu;
	r.writable = true;
	r.references = 1;
	r.dev = text.dev;
	r.ino = text.ino;
	add_range(s, r);
	*ptr_out = (void *)r.begin;
	return cudaSuccess;
}

static entry open_handle("cudaIpcOpenMemHandle", UNSAFE);
cudaError_t cudaIpcOpenMemHandle(void **ptr_out, cudaIpcMemHandle_t handle, unsigned flags)
{
	return call(open_handle, [&](state &s, held_lock &) {
		handle_text text;

		memcpy(&text, &handle, sizeof(text));
		if (flags != cudaIpcMemLazyEnablePeerAccess ||
		    memcmp(text.magic, HANDLE_MAGIC, sizeof(text.magic)) != 0 || text.bytes == 0)
			return cudaErrorInvalidValue;
		if (text.pid == getpid())
			return cudaErrorDeviceUninitialized;
		if (text.gpu < 0 || (size_t)text.gpu >= s.gpus.size())
			return cudaErrorInvalidDevice;
		const cudaError_t err = reach(s, text.gpu);
		return err == cudaSuccess ? open_memory(s, text, ptr_out) : err;
	});
}

static entry close_handle("cudaIpcCloseMemHandle", RELEASES | UNSAFE);
cudaError_t cudaIpcCloseMemHandle(void *ptr)
{
	return call(close_handle, [&](state &s, held_lock &lock) {
		if (!range_at(s, ptr, IMPORTED))
			return cudaErrorInvalidValue;
		wait_for_all(s, lock, -1);
		struct range *r = range_at(s, ptr, IMPORTED);
		if (!r)
			wrong("cudaIpcCloseMemHandle of %p by two threads at once", ptr);
		if (--r->references == 0) {
			munmap(r->real, r->bytes);
			close(r->fd);
			remove_range(s, r->begin);
		}
		return s.broken;
	});
}
