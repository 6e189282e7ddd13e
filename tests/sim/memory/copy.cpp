/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: copies, fills and kernels, submitted to streams. */
#include <cstring>

#include "cuda_runtime.h"
#include "runtime.h"

using namespace sim;

/* ---- copies ---- */

struct rectangle {
	unsigned char *to;
	const unsigned char *from;
	size_t to_pitch, from_pitch;
	size_t width, height;
};

static size_t span(size_t pitch, size_t width, size_t height)
{
	return (height - 1) * pitch + width;
}

static bool direction_fits(state &s, const rectangle &c, enum cudaMemcpyKind kind)
{
	int gpu;
	const bool to_gpu = is_device_address(s, (uintptr_t)c.to, &gpu),
		   from_gpu = is_device_address(s, (uintptr_t)c.from, &gpu);

	switch (kind) {
	case cudaMemcpyHostToHost:
		return !to_gpu && !from_gpu;
	case cudaMemcpyHostToDevice:
		return to_gpu && !from_gpu;
	case cudaMemcpyDeviceToHost:
		return !to_gpu && from_gpu;
	case cudaMemcpyDeviceToDevice:
		return to_gpu && from_gpu;
	default:
		return kind == cudaMemcpyDefault;
	}
}

/* The address of one side of a copy. Only calls that wait accept plain host memory. */
static unsigned char *side(state &s, const unsigned char *at, size_t bytes, bool write,
                           bool pageable, const char *what)
{
	int gpu;

	if (pageable && !is_device_address(s, (uintptr_t)at, &gpu))
		return const_cast<unsigned char *>(at);
	return real_address(s, at, bytes, write, what);
}

/* CUDA refuses bytes that begin in one registration and continue in the next. */
static bool crosses_registrations(state &s, const unsigned char *at, size_t bytes)
{
	const struct range *r = find_range(s, (uintptr_t)at);

	if (!r || r->kind != REGISTERED || bytes <= r->bytes - ((uintptr_t)at - r->begin))
		return false;
	r = find_range(s, r->begin + r->bytes);
	return r && r->kind == REGISTERED;
}

static void copy_now(state &s, rectangle c, bool pageable, const char *what)
{
	held_lock lock(s.lock);

	c.to = side(s, c.to, span(c.to_pitch, c.width, c.height), true, pageable, what);
	c.from = side(s, c.from, span(c.from_pitch, c.width, c.height), false, pageable, what);
	lock.unlock();
	race::see(true);
	for (size_t row = 0; row < c.height; row++)
		memmove(c.to + row * c.to_pitch, c.from + row * c.from_pitch, c.width);
	race::see(false);
}

static cudaError_t put_copy(state &s, held_lock &lock, const rectangle &c, enum cudaMemcpyKind kind,
                            cudaStream_t stream, bool wait, const char *what)
{
	const auto st = find_stream(s, stream);
	const cudaError_t err = check_put(s, *st);
	op copy;

	if (err != cudaSuccess)
		return err;
	if (c.width > c.to_pitch || c.width > c.from_pitch)
		return cudaErrorInvalidPitchValue;
	if (c.width == 0 || c.height == 0)
		return cudaSuccess;
	if (!direction_fits(s, c, kind) ||
	    crosses_registrations(s, c.to, span(c.to_pitch, c.width, c.height)) ||
	    crosses_registrations(s, c.from, span(c.from_pitch, c.width, c.height)))
		return cudaErrorInvalidValue;
	/* check now, and again when the copy runs */
	side(s, c.to, span(c.to_pitch, c.width, c.height), true, wait, what);
	side(s, c.from, span(c.from_pitch, c.width, c.height), false, wait, what);
	copy.run = [&s, c, wait, what] { copy_now(s, c, wait, what); };
	const mark end = put(s, *st, std::move(copy));
	return wait || s.launch_blocking ? wait_for(s, lock, end) : cudaSuccess;
}

static rectangle line(void *to, const void *from, size_t bytes)
{
	return { (unsigned char *)to, (const unsigned char *)from, bytes, bytes, bytes, 1 };
}

/* Between device memories, even cudaMemcpy does not wait. */
static entry copy_entry("cudaMemcpy", UNSAFE), copy_async("cudaMemcpyAsync");
static entry copy_2d_async("cudaMemcpy2DAsync");
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	return call(copy_entry, [&](state &s, held_lock &lock) {
		int gpu;
		const bool wait = !is_device_address(s, (uintptr_t)to, &gpu) ||
		                  !is_device_address(s, (uintptr_t)from, &gpu);

		return put_copy(s, lock, line(to, from, bytes), kind, cudaStreamLegacy, wait,
		                "cudaMemcpy");
	});
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
	return call(copy_async, [&](state &s, held_lock &lock) {
		return put_copy(s, lock, line(to, from, bytes), kind, stream, false,
		                "cudaMemcpyAsync");
	});
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
	return call(copy_2d_async, [&](state &s, held_lock &lock) {
		const rectangle c = { (unsigned char *)to,
			              (const unsigned char *)from,
			              to_pitch,
			              from_pitch,
			              width,
			              height };

		return put_copy(s, lock, c, kind, stream, false, "cudaMemcpy2DAsync");
	});
}

/* ---- fills ---- */

static cudaError_t put_fill(state &s, held_lock &lock, void *at, int value, size_t bytes,
                            cudaStream_t stream, const char *what)
{
	const auto st = find_stream(s, stream);
	const cudaError_t err = check_put(s, *st);
	op fill;

	if (err != cudaSuccess)
		return err;
	if (bytes == 0)
		return cudaSuccess;
	checked_range(s, at, bytes, true, what);
	fill.run = [=, &s] {
		held_lock inner(s.lock);
		unsigned char *real = real_address(s, at, bytes, true, what);
		inner.unlock();
		race::see(true);
		memset(real, value, bytes);
		race::see(false);
	};
	const mark end = put(s, *st, std::move(fill));
	return s.launch_blocking ? wait_for(s, lock, end) : cudaSuccess;
}

static entry fill_entry("cudaMemset"), fill_async("cudaMemsetAsync");
cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
	return call(fill_entry, [&](state &s, held_lock &lock) {
		return put_fill(s, lock, at, value, bytes, cudaStreamLegacy, "cudaMemset");
	});
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
	return call(fill_async, [&](state &s, held_lock &lock) {
		return put_fill(s, lock, at, value, bytes, stream, "cudaMemsetAsync");
	});
}

/* ---- kernels ---- */

static bool is_shape(const dim3 &grid, const dim3 &block)
{
	return grid.x > 0 && block.x > 0 && block.x <= lanes::BLOCK_LANES_MAX &&
	       grid.y * grid.z * block.y * block.z == 1;
}

static entry launch_kernel("cudaLaunchKernel");
cudaError_t sim::launch(const void *function, dim3 grid, dim3 block, std::function<void()> lane,
                        cudaStream_t stream)
{
	return call(launch_kernel, [&](state &s, held_lock &lock) {
		const auto st = find_stream(s, stream);
		const int gpu = st->gpu;
		op kernel;

		if (gpu != current_gpu())
			return cudaErrorInvalidResourceHandle;
		if (!is_shape(grid, block))
			return cudaErrorInvalidConfiguration;
		cudaError_t err = load_kernel(s, lock, function);
		if (err == cudaSuccess)
			err = check_put(s, *st);
		if (err != cudaSuccess)
			return err;
		kernel.run = [&s, gpu, grid, block, lane = std::move(lane)] {
			held_lock inner(s.lock);
			lend_to_kernels(s, gpu);
			inner.unlock();
			lanes::scenario = "a kernel of the simulated GPU";
			lanes::kernel = lane;
			lanes::run_grid(grid.x, block.x);
		};
		const mark end = put(s, *st, std::move(kernel));
		return s.launch_blocking ? wait_for(s, lock, end) : cudaSuccess;
	});
}
