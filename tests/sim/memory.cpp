/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: memory of GPUs, host memory that they may use, and who may use what. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lanes/cuda_language.h"
#include "runtime.h"

using namespace sim;

static const size_t PAGE = 4096;
static const size_t ALIGN = 512;              /* of device memory: what CUDA's own allocations have at least */
static const unsigned char GARBAGE = 0xa5;    /* fresh memory is not zero */

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static void *pointer(uintptr_t at)
{
	return (void *)at;
}

/* ---- addresses ----------------------------------------------------------------------------------------------------------- */

/* Several times the memory, so that addresses do not come back soon. */
void sim::reserve_gpu(state &s, struct gpu *gpu)
{
	const size_t bytes = std::max<size_t>(round_up(s.gpu_bytes, PAGE) * 4, (size_t)1 << 30);
	void *at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		wrong("no room for the addresses of a GPU");
	gpu->begin = gpu->next = (uintptr_t)at;
	gpu->end = gpu->begin + bytes;
}

bool sim::is_device_address(state &s, uintptr_t at, int *gpu_out)
{
	for (size_t i = 0; i < s.gpus.size(); i++) {
		if (at >= s.gpus[i].begin && at < s.gpus[i].end) {
			*gpu_out = (int)i;
			return true;
		}
	}
	return false;
}

struct range *sim::find_range(state &s, uintptr_t at)
{
	auto after = s.ranges.upper_bound(at);

	if (after == s.ranges.begin())
		return nullptr;
	struct range &r = std::prev(after)->second;
	return at - r.begin < r.bytes ? &r : nullptr;
}

const struct range &sim::checked_range(state &s, const void *ptr, size_t bytes, bool write, const char *what)
{
	const uintptr_t at = (uintptr_t)ptr;
	const struct range *r = find_range(s, at);
	int gpu;

	if (!r && is_device_address(s, at, &gpu))
		wrong("%s: %zu bytes at %p, where GPU %d has no memory", what, bytes, ptr, gpu);
	if (!r)
		wrong("%s: %zu bytes at %p, which is host memory that is not registered", what, bytes, ptr);
	if (bytes > r->bytes - (at - r->begin))
		wrong("%s: %zu bytes at %p, which is byte %zu of a memory of %zu", what, bytes, ptr, (size_t)(at - r->begin), r->bytes);
	if (write && !r->writable)
		wrong("%s: writes to %p, which is registered for reading only", what, ptr);
	return *r;
}

unsigned char *sim::real_address(state &s, const void *ptr, size_t bytes, bool write, const char *what)
{
	const struct range &r = checked_range(s, ptr, bytes, write, what);

	return r.real + ((uintptr_t)ptr - r.begin);
}

/* Where `bytes` bytes are free in the reservation, at or behind `from`; 0 when nowhere. */
static uintptr_t free_address(state &s, const struct gpu &gpu, uintptr_t from, size_t bytes)
{
	uintptr_t at = from;

	for (auto r = s.ranges.lower_bound(gpu.begin); r != s.ranges.end() && r->first < gpu.end; ++r) {
		const uintptr_t end = r->first + round_up(r->second.bytes, ALIGN) + ALIGN;   /* and something between: what runs over is seen */

		if (r->first >= at && r->first - at >= bytes + ALIGN)
			break;
		at = std::max(at, end);
	}
	return at <= gpu.end && gpu.end - at >= bytes ? at : 0;
}

static uintptr_t take_address(state &s, struct gpu *gpu, size_t bytes)
{
	uintptr_t at = free_address(s, *gpu, gpu->next, bytes);

	if (!at)
		at = free_address(s, *gpu, gpu->begin, bytes);
	if (at)
		gpu->next = at + round_up(bytes, ALIGN) + ALIGN;
	return at;
}

/* ---- what kernels may use ------------------------------------------------------------------------------------------------ */

bool sim::may_use(state &s, const struct range &r, int gpu)
{
	return r.kind == REGISTERED || r.kind == PINNED || r.gpu == gpu || s.gpus[(size_t)gpu].peers[(size_t)r.gpu];
}

static std::vector<lanes::region> lent;   /* to the kernel that runs, by address; the device thread's own */
static const lanes::region *last_found[lanes::ATOMIC + 1];

static const lanes::region *find_in_lent(uintptr_t at, lanes::access_kind kind)
{
	const lanes::region *last = last_found[kind];

	if (last && at - last->begin < last->end - last->begin)
		return last;
	auto after = std::upper_bound(lent.begin(), lent.end(), at, [](uintptr_t a, const lanes::region &r) { return a < r.begin; });
	if (after == lent.begin() || at >= std::prev(after)->end)
		return nullptr;
	return last_found[kind] = &*std::prev(after);
}

void sim::lend_to_kernels(state &s, int gpu)
{
	static uint64_t lent_at;
	static int lent_to = -1;

	if (lent_at == s.ranges_changed && lent_to == gpu)
		return;
	lent_at = s.ranges_changed;
	lent_to = gpu;
	lent.clear();
	memset(last_found, 0, sizeof(last_found));
	for (const auto &entry : s.ranges) {
		const struct range &r = entry.second;
		if (may_use(s, r, gpu))
			lent.push_back({ r.begin, r.begin + r.bytes, r.writable, (ptrdiff_t)((uintptr_t)r.real - r.begin) });
	}
	lanes::find_region = find_in_lent;
	lanes::on_failure = abort;
}

/* ---- memory of a GPU ----------------------------------------------------------------------------------------------------- */

static void add_range(state &s, const struct range &r)
{
	s.ranges[r.begin] = r;
	s.ranges_changed++;
}

static void remove_range(state &s, uintptr_t begin)
{
	s.ranges.erase(begin);
	s.ranges_changed++;
}

/* The range that begins at the pointer and is of the kind, or NULL. */
static struct range *range_at(state &s, const void *ptr, range_kind kind)
{
	auto at = s.ranges.find((uintptr_t)ptr);

	return at != s.ranges.end() && at->second.kind == kind ? &at->second : nullptr;
}

static entry malloc_entry("cudaMalloc");
cudaError_t cudaMalloc(void **ptr_out, size_t bytes)
{
	return call(malloc_entry, [&](state &s, held_lock &) {
		struct gpu &gpu = s.gpus[(size_t)current_gpu()];
		struct range r = {};

		if (bytes == 0) {
			*ptr_out = nullptr;
			return cudaSuccess;
		}
		if (bytes > s.gpu_bytes || round_up(bytes, ALIGN) > s.gpu_bytes - gpu.used || !(r.begin = take_address(s, &gpu, bytes)))
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
		*ptr_out = pointer(r.begin);
		return cudaSuccess;
	});
}

static entry free_entry("cudaFree", RELEASES);
cudaError_t cudaFree(void *ptr)
{
	return call(free_entry, [&](state &s, held_lock &lock) {
		if (!ptr)
			return cudaSuccess;
		if (!range_at(s, ptr, DEVICE))
			return cudaErrorInvalidValue;
		wait_for_all(s, lock, -1);
		const struct range *r = range_at(s, ptr, DEVICE);
		if (!r)
			wrong("cudaFree of %p by two threads at once", ptr);
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

/* ---- host memory --------------------------------------------------------------------------------------------------------- */

/* Are all pages there, and may they be read, and written? */
static bool pages_allow(uintptr_t begin, uintptr_t end, bool write)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uintptr_t at = begin;

	if (!maps)
		wrong("/proc/self/maps cannot be read");
	while (at < end && fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char may[5];
		if (sscanf(line, "%lx-%lx %4s", &from, &to, may) != 3 || to <= at)
			continue;
		if (from > at || may[0] != 'r' || (write && may[1] != 'w'))
			break;
		at = to;
	}
	fclose(maps);
	return at >= end;
}

/* Pages are what gets locked: two registrations have none in common. */
static bool is_registered_in_part(state &s, uintptr_t begin, uintptr_t end)
{
	for (const auto &entry : s.ranges) {
		const struct range &r = entry.second;
		if ((r.kind == REGISTERED || r.kind == PINNED) && r.begin / PAGE * PAGE < end && round_up(r.begin + r.bytes, PAGE) > begin)
			return true;
	}
	return false;
}

static entry host_register("cudaHostRegister");
cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned flags)
{
	return call(host_register, [&](state &s, held_lock &) {
		const uintptr_t begin = (uintptr_t)ptr / PAGE * PAGE, end = round_up((uintptr_t)ptr + bytes, PAGE);
		const bool read_only = flags & cudaHostRegisterReadOnly;
		int gpu;

		if (!ptr || bytes == 0 || (flags & ~0xfu) || is_device_address(s, (uintptr_t)ptr, &gpu))
			return cudaErrorInvalidValue;
		if (read_only && !s.may_register_read_only)
			return cudaErrorNotSupported;
		if (is_registered_in_part(s, begin, end))
			return cudaErrorHostMemoryAlreadyRegistered;
		if (!pages_allow(begin, end, !read_only))
			return cudaErrorInvalidValue;
		struct range r = {};
		r.kind = REGISTERED;
		r.begin = (uintptr_t)ptr;
		r.bytes = bytes;
		r.real = (unsigned char *)ptr;
		r.gpu = current_gpu();
		r.writable = !read_only;
		add_range(s, r);
		return cudaSuccess;
	});
}

/* A kernel that runs still has the memory. Work that is queued finds it gone. */
static void wait_for_kernel(state &s, held_lock &lock)
{
	s.finished.wait(lock, [&] { return !s.running || s.running_host_function; });
}

static entry host_unregister("cudaHostUnregister", RELEASES);
cudaError_t cudaHostUnregister(void *ptr)
{
	return call(host_unregister, [&](state &s, held_lock &lock) {
		wait_for_kernel(s, lock);
		if (!range_at(s, ptr, REGISTERED))
			return find_range(s, (uintptr_t)ptr) ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered;
		remove_range(s, (uintptr_t)ptr);
		return cudaSuccess;
	});
}

static entry host_alloc("cudaHostAlloc");
cudaError_t cudaHostAlloc(void **ptr_out, size_t bytes, unsigned flags)
{
	return call(host_alloc, [&](state &s, held_lock &) {
		struct range r = {};

		if (flags & ~7u)
			return cudaErrorInvalidValue;
		if (bytes == 0) {
			*ptr_out = nullptr;
			return cudaSuccess;
		}
		r.real = (unsigned char *)aligned_alloc(PAGE, round_up(bytes, PAGE));
		if (!r.real)
			return cudaErrorMemoryAllocation;
		memset(r.real, GARBAGE, round_up(bytes, PAGE));
		r.kind = PINNED;
		r.begin = (uintptr_t)r.real;
		r.bytes = bytes;
		r.gpu = current_gpu();
		r.writable = true;
		add_range(s, r);
		*ptr_out = r.real;
		return cudaSuccess;
	});
}

static entry free_host("cudaFreeHost", RELEASES);
cudaError_t cudaFreeHost(void *ptr)
{
	return call(free_host, [&](state &s, held_lock &lock) {
		if (!ptr)
			return cudaSuccess;
		if (!range_at(s, ptr, PINNED))
			return cudaErrorInvalidValue;
		wait_for_all(s, lock, -1);
		remove_range(s, (uintptr_t)ptr);
		free(ptr);
		return s.broken;
	});
}

static entry get_device_pointer("cudaHostGetDevicePointer");
cudaError_t cudaHostGetDevicePointer(void **device_out, void *host, unsigned flags)
{
	return call(get_device_pointer, [&](state &s, held_lock &) {
		const struct range *r = find_range(s, (uintptr_t)host);

		if (flags || !r || (r->kind != REGISTERED && r->kind != PINNED))
			return cudaErrorInvalidValue;
		*device_out = host;
		return cudaSuccess;
	});
}

static entry pointer_attributes("cudaPointerGetAttributes");
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *ptr)
{
	return call(pointer_attributes, [&](state &s, held_lock &) {
		const struct range *r = find_range(s, (uintptr_t)ptr);
		void *const same = const_cast<void *>(ptr);

		*out = {};
		if (!r) {
			out->type = cudaMemoryTypeUnregistered;
			out->device = -2;   /* cudaInvalidDeviceId */
			out->hostPointer = same;
		} else if (r->kind == DEVICE || r->kind == IMPORTED) {
			out->type = cudaMemoryTypeDevice;
			out->device = r->gpu;
			out->devicePointer = may_use(s, *r, current_gpu()) ? same : nullptr;
		} else {
			out->type = cudaMemoryTypeHost;
			out->device = r->gpu;
			out->devicePointer = out->hostPointer = same;
		}
		return cudaSuccess;
	});
}

/* ---- memory of other processes ------------------------------------------------------------------------------------------- */

struct handle_text {
	char magic[8];
	uint64_t bytes;
	uint64_t dev, ino;   /* of the memfd: its number may have come to mean another file */
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
		if (fstat(r->fd, &st) != 0)
			wrong("the memory at %p: its descriptor was closed by somebody", ptr);
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

/* Map the exporter's memory: it stays when the exporter ends. */
static void *map_memory_of(const handle_text &text)
{
	char path[64];
	struct stat st;
	void *real = MAP_FAILED;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)text.pid, (int)text.fd);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return nullptr;
	if (fstat(fd, &st) == 0 && st.st_dev == text.dev && st.st_ino == text.ino && (uint64_t)st.st_size == text.bytes)
		real = mmap(nullptr, text.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return real == MAP_FAILED ? nullptr : real;
}

/* cudaIpcMemLazyEnablePeerAccess */
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
			*ptr_out = pointer(known.begin);
			return cudaSuccess;
		}
	}
	r.real = (unsigned char *)map_memory_of(text);
	if (!r.real)
		return cudaErrorMapBufferObjectFailed;
	r.kind = IMPORTED;
	r.begin = take_address(s, &s.gpus[(size_t)text.gpu], text.bytes);
	if (!r.begin) {
		munmap(r.real, text.bytes);
		return cudaErrorMapBufferObjectFailed;
	}
	r.bytes = text.bytes;
	r.gpu = text.gpu;
	r.writable = true;
	r.references = 1;
	r.dev = text.dev;
	r.ino = text.ino;
	add_range(s, r);
	*ptr_out = pointer(r.begin);
	return cudaSuccess;
}

static entry open_handle("cudaIpcOpenMemHandle");
cudaError_t cudaIpcOpenMemHandle(void **ptr_out, cudaIpcMemHandle_t handle, unsigned flags)
{
	return call(open_handle, [&](state &s, held_lock &) {
		handle_text text;

		memcpy(&text, &handle, sizeof(text));
		if (flags != cudaIpcMemLazyEnablePeerAccess || memcmp(text.magic, HANDLE_MAGIC, sizeof(text.magic)) != 0 || text.bytes == 0)
			return cudaErrorInvalidValue;
		if (text.pid == getpid())
			return cudaErrorDeviceUninitialized;
		if (text.gpu < 0 || (size_t)text.gpu >= s.gpus.size())
			return cudaErrorInvalidDevice;
		const cudaError_t err = reach(s, text.gpu);
		return err == cudaSuccess ? open_memory(s, text, ptr_out) : err;
	});
}

static entry close_handle("cudaIpcCloseMemHandle", RELEASES);
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
			remove_range(s, r->begin);
		}
		return s.broken;
	});
}
