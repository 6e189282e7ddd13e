/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: host memory that GPUs can use, and the attributes of addresses. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime.h"

using namespace sim;

/* Whether all pages exist and may be read, and with `write` also written. */
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

/* Registration locks whole pages: two registrations must not share a page. */
static bool is_registered_in_part(state &s, uintptr_t begin, uintptr_t end)
{
	for (const auto &entry : s.ranges) {
		const struct range &r = entry.second;
		if ((r.kind == REGISTERED || r.kind == PINNED) && r.begin / PAGE * PAGE < end &&
		    round_up(r.begin + r.bytes, PAGE) > begin)
			return true;
	}
	return false;
}

static entry host_register("cudaHostRegister", UNSAFE);
cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned flags)
{
	return call(host_register, [&](state &s, held_lock &) {
		const uintptr_t begin = (uintptr_t)ptr / PAGE * PAGE,
				end = round_up((uintptr_t)ptr + bytes, PAGE);
		const bool read_only = flags & cudaHostRegisterReadOnly;
		int gpu;

		if (!ptr || bytes == 0 || (flags & ~0xfu) ||
		    is_device_address(s, (uintptr_t)ptr, &gpu))
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

/* A running kernel can still use the memory. Queued work that uses it fails. */
static void wait_for_kernel(state &s, held_lock &lock)
{
	s.finished.wait(lock, [&] { return !s.running || s.running_host_function; });
}

static entry host_unregister("cudaHostUnregister", RELEASES | UNSAFE);
cudaError_t cudaHostUnregister(void *ptr)
{
	return call(host_unregister, [&](state &s, held_lock &lock) {
		wait_for_kernel(s, lock);
		if (!range_at(s, ptr, REGISTERED))
			return find_range(s, (uintptr_t)ptr) ? cudaErrorInvalidValue
			                                     : cudaErrorHostMemoryNotRegistered;
		remove_range(s, (uintptr_t)ptr);
		return cudaSuccess;
	});
}

/* Host memory that CUDA has allocated itself; its initial content is undefined. */
static cudaError_t alloc_host(state &s, range_kind kind, size_t bytes, bool combined,
                              void **ptr_out)
{
	struct range r = {};

	r.real = (unsigned char *)aligned_alloc(PAGE, round_up(bytes, PAGE));
	if (!r.real)
		return cudaErrorMemoryAllocation;
	memset(r.real, GARBAGE, round_up(bytes, PAGE));
	r.kind = kind;
	r.begin = (uintptr_t)r.real;
	r.bytes = bytes;
	r.gpu = current_gpu();
	r.writable = true;
	r.combined = combined;
	add_range(s, r);
	*ptr_out = r.real;
	return cudaSuccess;
}

static entry host_alloc("cudaHostAlloc", UNSAFE);
cudaError_t cudaHostAlloc(void **ptr_out, size_t bytes, unsigned flags)
{
	return call(host_alloc, [&](state &s, held_lock &) {
		if (flags & ~7u)
			return cudaErrorInvalidValue;
		if (bytes == 0) {
			*ptr_out = nullptr;
			return cudaSuccess;
		}
		return alloc_host(s, PINNED, bytes, flags & cudaHostAllocWriteCombined, ptr_out);
	});
}

static entry free_host("cudaFreeHost", RELEASES | UNSAFE);
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

static entry malloc_managed("cudaMallocManaged", UNSAFE);
cudaError_t cudaMallocManaged(void **ptr_out, size_t bytes, unsigned flags)
{
	return call(malloc_managed, [&](state &s, held_lock &) {
		if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
			return cudaErrorInvalidValue;
		return alloc_host(s, MANAGED, bytes, false, ptr_out);
	});
}

static entry mem_advise("cudaMemAdvise");
cudaError_t cudaMemAdvise(const void *ptr, size_t bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
	return call(mem_advise, [&](state &s, held_lock &) {
		const struct range *r = find_range(s, (uintptr_t)ptr);
		const bool device = location.type == cudaMemLocationTypeDevice;

		if (advice < cudaMemAdviseSetReadMostly || advice > cudaMemAdviseUnsetAccessedBy ||
		    bytes == 0)
			return cudaErrorInvalidValue;
		if (!r || r->kind != MANAGED || bytes > r->bytes - ((uintptr_t)ptr - r->begin))
			return cudaErrorInvalidValue;
		if (device && (location.id < 0 || (size_t)location.id >= s.gpus.size()))
			return cudaErrorInvalidDevice;
		return device || location.type == cudaMemLocationTypeHost ? cudaSuccess
		                                                          : cudaErrorInvalidValue;
	});
}

static entry get_device_pointer("cudaHostGetDevicePointer");
cudaError_t cudaHostGetDevicePointer(void **device_out, void *host, unsigned flags)
{
	return call(get_device_pointer, [&](state &s, held_lock &) {
		const struct range *r = find_range(s, (uintptr_t)host);

		if (flags || !r || (r->kind != REGISTERED && r->kind != PINNED))
			return cudaErrorInvalidValue;
		*device_out = (char *)host + (r->combined ? COMBINED_AT : 0);
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
			out->device = -2; /* cudaInvalidDeviceId */
			out->hostPointer = same;
		} else if (r->kind == DEVICE || r->kind == IMPORTED) {
			out->type = cudaMemoryTypeDevice;
			out->device = r->gpu;
			out->devicePointer = may_use(s, *r, current_gpu()) ? same : nullptr;
		} else {
			out->type = r->kind == MANAGED ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
			out->device = r->gpu;
			out->hostPointer = same;
			out->devicePointer = (char *)same + (r->combined ? COMBINED_AT : 0);
		}
		return cudaSuccess;
	});
}
