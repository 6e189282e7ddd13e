/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: memory addresses, and the memory that kernels may use. */
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "../../lanes/cuda_language.h"
#include "runtime.h"

using namespace sim;

/* ---- addresses ---- */

/* Reserves several times the memory, so that addresses are not reused soon. */
void sim::reserve_gpu(state &s, struct gpu *gpu)
{
	const size_t bytes = std::max<size_t>(round_up(s.gpu_bytes, PAGE) * 4, (size_t)1 << 30);
	void *at =
		mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

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

const struct range &sim::checked_range(state &s, const void *ptr, size_t bytes, bool write,
                                       const char *what)
{
	const uintptr_t at = (uintptr_t)ptr;
	const struct range *r = find_range(s, at);
	int gpu;

	if (!r && is_device_address(s, at, &gpu))
		wrong("%s: %zu bytes at %p, where GPU %d has no memory", what, bytes, ptr, gpu);
	if (!r)
		wrong("%s: %zu bytes at %p, which is host memory that is not registered", what,
		      bytes, ptr);
	if (bytes > r->bytes - (at - r->begin))
		wrong("%s: %zu bytes at %p, which is byte %zu of an allocation of %zu", what, bytes,
		      ptr, (size_t)(at - r->begin), r->bytes);
	if (write && !r->writable)
		wrong("%s: writes to %p, which is registered for reading only", what, ptr);
	return *r;
}

unsigned char *sim::real_address(state &s, const void *ptr, size_t bytes, bool write,
                                 const char *what)
{
	const struct range &r = checked_range(s, ptr, bytes, write, what);

	return r.real + ((uintptr_t)ptr - r.begin);
}

/* The first address from `from` on with `bytes` free bytes in the reservation; 0 if none. */
static uintptr_t free_address(state &s, const struct gpu &gpu, uintptr_t from, size_t bytes)
{
	uintptr_t at = from;

	for (auto r = s.ranges.lower_bound(gpu.begin); r != s.ranges.end() && r->first < gpu.end;
	     ++r) {
		/* a gap: overruns are detected */
		const uintptr_t end = r->first + round_up(r->second.bytes, ALIGN) + ALIGN;

		if (r->first >= at && r->first - at >= bytes + ALIGN)
			break;
		at = std::max(at, end);
	}
	return at <= gpu.end && gpu.end - at >= bytes ? at : 0;
}

uintptr_t sim::take_address(state &s, struct gpu *gpu, size_t bytes)
{
	uintptr_t at = free_address(s, *gpu, gpu->next, bytes);

	if (!at)
		at = free_address(s, *gpu, gpu->begin, bytes);
	if (at)
		gpu->next = at + round_up(bytes, ALIGN) + ALIGN;
	return at;
}

/* ---- ranges ---- */

void sim::add_range(state &s, const struct range &r)
{
	s.ranges[r.begin] = r;
	s.ranges_changed++;
}

void sim::remove_range(state &s, uintptr_t begin)
{
	s.ranges.erase(begin);
	s.ranges_changed++;
}

struct range *sim::range_at(state &s, const void *ptr, range_kind kind)
{
	auto at = s.ranges.find((uintptr_t)ptr);

	return at != s.ranges.end() && at->second.kind == kind ? &at->second : nullptr;
}

/* ---- what kernels may use ---- */

bool sim::may_use(state &s, const struct range &r, int gpu)
{
	return r.kind == REGISTERED || r.kind == PINNED || r.kind == MANAGED || r.gpu == gpu ||
	       s.gpus[(size_t)gpu].peers[(size_t)r.gpu];
}

/* memory of the running kernel, by address; used only by the device thread */
static std::vector<lanes::region> lent;
static const lanes::region *last_found[lanes::RELEASE + 1];

static const lanes::region *find_in_lent(uintptr_t at, lanes::access_kind kind)
{
	const lanes::region *last = last_found[kind];

	if (last && at - last->begin < last->end - last->begin)
		return last;
	auto after =
		std::upper_bound(lent.begin(), lent.end(), at,
	                         [](uintptr_t a, const lanes::region &r) { return a < r.begin; });
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
		const uintptr_t at = r.begin + (r.combined ? COMBINED_AT : 0);
		if (may_use(s, r, gpu))
			lent.push_back({ at, at + r.bytes, r.writable,
			                 (ptrdiff_t)((uintptr_t)r.real - at) });
	}
	std::sort(lent.begin(), lent.end(),
	          [](const lanes::region &a, const lanes::region &b) { return a.begin < b.begin; });
	lanes::find_region = find_in_lent;
	lanes::on_failure = abort;
}
