/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: streams and events. */
#include <algorithm>
#include <cstring>

#include "runtime.h"

using namespace sim;

/* ---- streams ---- */

static std::shared_ptr<struct stream> make_stream(state &s, int gpu, bool blocking)
{
	auto made = std::make_shared<struct stream>();

	made->ops = s.one_queue ? s.gpus[(size_t)gpu].one_queue : new_queue(s, gpu);
	made->gpu = gpu;
	made->blocking = blocking;
	return made;
}

static std::shared_ptr<struct stream> stream_of_thread(state &s)
{
	std::shared_ptr<struct stream> &st = s.thread_streams[{ thread_number(), current_gpu() }];
	if (!st)
		st = make_stream(s, current_gpu(), true);
	return st;
}

std::shared_ptr<struct stream> sim::find_stream(state &s, cudaStream_t handle)
{
	if (!handle || handle == cudaStreamLegacy)
		return s.gpus[(size_t)current_gpu()].legacy;
	if (handle == cudaStreamPerThread)
		return stream_of_thread(s);
	auto found = s.streams.find(handle);
	if (found == s.streams.end())
		wrong("stream %p was destroyed, or never created", (void *)handle);
	return found->second;
}

/* Needed even if the work is done: no earlier operation has reported that order. */
static void put_wait(state &s, struct stream &to, const mark &until)
{
	if (!until.where || until.where == to.ops)
		return;
	op wait;
	wait.kind = WAIT_MARK;
	wait.until = until;
	to.end = append(s, to.ops, std::move(wait));
}

mark sim::put(state &s, struct stream &to, op what)
{
	struct gpu &gpu = s.gpus[(size_t)to.gpu];

	if (to.capture)
		return to.end;
	if (&to == gpu.legacy.get()) {
		for (const auto &other : s.streams)
			if (other.second->gpu == to.gpu && other.second->blocking)
				put_wait(s, to, other.second->end);
		for (const auto &other : s.thread_streams)
			if (other.second->gpu == to.gpu)
				put_wait(s, to, other.second->end);
	} else if (to.blocking) {
		put_wait(s, to, gpu.legacy->end);
	}
	return to.end = append(s, to.ops, std::move(what));
}

static cudaError_t create_stream(state &s, cudaStream_t *stream_out, unsigned flags)
{
	if (flags & ~(unsigned)cudaStreamNonBlocking)
		return cudaErrorInvalidValue;
	const cudaStream_t handle = (cudaStream_t)(0x5000 + 16 * ++s.handles);
	s.streams[handle] = make_stream(s, current_gpu(), !(flags & cudaStreamNonBlocking));
	*stream_out = handle;
	return cudaSuccess;
}

static entry create("cudaStreamCreate"), create_with_flags("cudaStreamCreateWithFlags");
cudaError_t cudaStreamCreate(cudaStream_t *stream_out)
{
	return call(create, [&](state &s, held_lock &) {
		return create_stream(s, stream_out, cudaStreamDefault);
	});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream_out, unsigned flags)
{
	return call(create_with_flags,
	            [&](state &s, held_lock &) { return create_stream(s, stream_out, flags); });
}

/* Work runs in random order whatever its priority. */
static entry create_with_priority("cudaStreamCreateWithPriority");
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream_out, unsigned flags, int priority)
{
	return call(create_with_priority, [&](state &s, held_lock &) {
		const cudaError_t err = create_stream(s, stream_out, flags);

		if (err == cudaSuccess) /* out of range: the nearest one, as in CUDA */
			s.streams[*stream_out]->priority =
				std::clamp(priority, SIM_PRIORITY_GREATEST, SIM_PRIORITY_LEAST);
		return err;
	});
}

static entry priority_range("cudaDeviceGetStreamPriorityRange");
cudaError_t cudaDeviceGetStreamPriorityRange(int *least_out, int *greatest_out)
{
	return call(priority_range, [&](state &, held_lock &) {
		if (least_out)
			*least_out = SIM_PRIORITY_LEAST;
		if (greatest_out)
			*greatest_out = SIM_PRIORITY_GREATEST;
		return cudaSuccess;
	});
}

/* Queued work still runs. */
static entry destroy("cudaStreamDestroy", RELEASES);
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
	return call(destroy, [&](state &s, held_lock &) {
		if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
			return cudaErrorInvalidResourceHandle;
		if (!s.streams.erase(handle))
			wrong("cudaStreamDestroy: stream %p was destroyed, or never created",
			      (void *)handle);
		s.work.notify_one(); /* an empty queue is removed */
		return cudaSuccess;
	});
}

/* The legacy stream ends only when the streams ordered with it do. */
static void wait_for_blocking_streams(state &s, held_lock &lock, const struct stream &st)
{
	std::vector<mark> marks;

	if (&st != s.gpus[(size_t)st.gpu].legacy.get())
		return;
	for (const auto &other : s.streams)
		if (other.second->gpu == st.gpu && other.second->blocking)
			marks.push_back(other.second->end);
	for (const mark &m : marks)
		wait_for(s, lock, m);
}

static entry synchronize("cudaStreamSynchronize", UNSAFE), query("cudaStreamQuery", UNSAFE);
cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
	return call(synchronize, [&](state &s, held_lock &lock) {
		const auto st = find_stream(s, handle);
		const mark end = st->end;
		const cudaError_t err = check_status(s, *st);

		if (err != cudaSuccess)
			return err;
		wait_for_blocking_streams(s, lock, *st);
		return wait_for(s, lock, end);
	});
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
	return call(query, [&](state &s, held_lock &) {
		const auto st = find_stream(s, handle);
		const cudaError_t err = check_status(s, *st);

		return err != cudaSuccess ? err : passed(st->end) ? cudaSuccess : cudaErrorNotReady;
	});
}

static entry wait_event("cudaStreamWaitEvent");
static struct event &find_event(state &s, cudaEvent_t handle);
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
	return call(wait_event, [&](state &s, held_lock &) {
		const auto st = find_stream(s, handle);

		const struct event &e = find_event(s, event);
		cudaError_t err = flags ? cudaErrorInvalidValue : check_put(s, *st);

		if (err == cudaSuccess)
			err = capture_wait(*st, e);
		if (err == cudaSuccess && !st->capture)
			put_wait(s, *st, e.at);
		return err;
	});
}

static entry launch_host_func("cudaLaunchHostFunc");
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data)
{
	return call(launch_host_func, [&](state &s, held_lock &) {
		op what;

		if (!function)
			return cudaErrorInvalidValue;
		what.kind = HOST_FUNCTION;
		what.run = [=] {
			race::see_locks(true);
			function(data);
			race::see_locks(false);
		};
		const auto st = find_stream(s, handle);
		const cudaError_t err = check_put(s, *st);
		if (err == cudaSuccess)
			put(s, *st, std::move(what));
		return err;
	});
}

/* ---- events ---- */

static struct event &find_event(state &s, cudaEvent_t handle)
{
	auto found = s.events.find(handle);

	if (found == s.events.end())
		wrong("event %p was destroyed, or never created", (void *)handle);
	return found->second;
}

static entry event_create("cudaEventCreateWithFlags"), event_destroy("cudaEventDestroy", RELEASES);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_out, unsigned flags)
{
	return call(event_create, [&](state &s, held_lock &) {
		if ((flags & ~7u) ||
		    ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)))
			return cudaErrorInvalidValue;
		const cudaEvent_t handle = (cudaEvent_t)(0x7000000 + 16 * ++s.handles);
		s.events[handle].gpu = current_gpu();
		s.events[handle].flags = flags;
		*event_out = handle;
		return cudaSuccess;
	});
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
	return call(event_destroy, [&](state &s, held_lock &) {
		if (!s.events.erase(handle))
			wrong("cudaEventDestroy: event %p was destroyed, or never created",
			      (void *)handle);
		return cudaSuccess;
	});
}

/* A separate operation, so that the record is queued even in an empty stream. */
static entry event_record("cudaEventRecord");
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
	return call(event_record, [&](state &s, held_lock &) {
		struct event &e = find_event(s, handle);
		const auto st = find_stream(s, stream);

		if (e.gpu != st->gpu)
			return cudaErrorInvalidResourceHandle;
		const cudaError_t err = check_put(s, *st);
		if (err != cudaSuccess)
			return err;
		e.capture = st->capture;
		if (e.capture)
			return cudaSuccess;
		op now;
		const auto when = std::make_shared<time_point>();
		now.run = [when] { *when = std::chrono::steady_clock::now(); };
		e.when = when;
		e.at = put(s, *st, std::move(now));
		return cudaSuccess;
	});
}

/* Times of the host's clock: they measure the simulation. */
static entry elapsed("cudaEventElapsedTime");
cudaError_t cudaEventElapsedTime(float *ms_out, cudaEvent_t begun, cudaEvent_t ended)
{
	return call(elapsed, [&](state &s, held_lock &) {
		const struct event &from = find_event(s, begun), &to = find_event(s, ended);

		if (!from.when || !to.when || ((from.flags | to.flags) & cudaEventDisableTiming) ||
		    from.gpu != to.gpu)
			return cudaErrorInvalidResourceHandle;
		if (!passed(from.at) || !passed(to.at))
			return cudaErrorNotReady;
		*ms_out = std::chrono::duration<float, std::milli>(*to.when - *from.when).count();
		return cudaSuccess;
	});
}

/* An event that was recorded in a capture has no state, and a query invalidates the capture. */
static cudaError_t check_event(const struct event &e)
{
	if (!e.capture)
		return cudaSuccess;
	e.capture->invalid = true;
	return cudaErrorCapturedEvent;
}

static entry event_query("cudaEventQuery", UNSAFE);
static entry event_synchronize("cudaEventSynchronize", UNSAFE);
cudaError_t cudaEventQuery(cudaEvent_t handle)
{
	return call(event_query, [&](state &s, held_lock &) {
		const struct event &e = find_event(s, handle);
		const cudaError_t err = check_event(e);

		return err != cudaSuccess ? err : passed(e.at) ? cudaSuccess : cudaErrorNotReady;
	});
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
	return call(event_synchronize, [&](state &s, held_lock &lock) {
		const struct event &e = find_event(s, handle);
		const mark at = e.at;
		const cudaError_t err = check_event(e);

		return err != cudaSuccess ? err : wait_for(s, lock, at);
	});
}

/* ---- words that streams wait for ---- */

enum { COMPARES = 4, WAIT_FLUSH = 1 << 30 }; /* GEQ, EQ, AND, NOR */

static entry wait_value("cuStreamWaitValue32"), write_value("cuStreamWriteValue32");
static int wait_value_32(cudaStream_t stream, unsigned long long at, uint32_t value, unsigned flags)
{
	return call(wait_value, [&](state &s, held_lock &) {
		const auto st = find_stream(s, stream);
		op what;

		/* flushes are not simulated: few GPUs support them */
		if (at % 4 != 0 || flags >= COMPARES)
			return flags & WAIT_FLUSH ? cudaErrorNotSupported : cudaErrorInvalidValue;
		checked_range(s, (const void *)at, 4, false, "cuStreamWaitValue32");
		what.kind = WAIT_WORD;
		what.word = { (uintptr_t)at, value, flags, st->gpu };
		put(s, *st, std::move(what));
		return cudaSuccess;
	});
}

static int write_value_32(cudaStream_t stream, unsigned long long at, uint32_t value,
                          unsigned flags)
{
	return call(write_value, [&](state &s, held_lock &) {
		op what;

		if (at % 4 != 0 || flags > 1)
			return cudaErrorInvalidValue;
		checked_range(s, (const void *)at, 4, true, "cuStreamWriteValue32");
		what.run = [&s, at, value] {
			held_lock lock(s.lock);
			void *word =
				real_address(s, (const void *)at, 4, true, "cuStreamWriteValue32");
			lock.unlock();
			race::see(true);
			race::store_word((uint32_t *)word, value);
			race::see(false);
		};
		put(s, *find_stream(s, stream), std::move(what));
		return cudaSuccess;
	});
}

static entry stream_device("cuStreamGetDevice", NEEDS_NO_CONTEXT);
static int device_of_stream(cudaStream_t stream, int *device_out)
{
	return call(stream_device, [&](state &s, held_lock &) {
		*device_out = find_stream(s, stream)->gpu;
		return cudaSuccess;
	});
}

static void *find_function(const char *symbol, unsigned *since_out)
{
	*since_out = 8000;
	if (strcmp(symbol, "cuStreamWaitValue32") == 0)
		return (void *)wait_value_32;
	if (strcmp(symbol, "cuStreamWriteValue32") == 0)
		return (void *)write_value_32;
	*since_out = 12080;
	if (strcmp(symbol, "cuStreamGetDevice") == 0)
		return (void *)device_of_stream;
	*since_out = 0;
	return find_driver_function(symbol);
}

static entry entry_point("cudaGetDriverEntryPointByVersion", NEEDS_NO_CONTEXT);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function_out,
                                             unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result_out)
{
	return call(entry_point, [&](state &, held_lock &) {
		enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
		unsigned since;

		if (!symbol || !function_out || flags > cudaEnablePerThreadDefaultStream)
			return cudaErrorInvalidValue;
		void *const function = find_function(symbol, &since);
		*function_out = nullptr;
		if (function)
			result = version < since ? cudaDriverEntryPointVersionNotSufficent
			                         : cudaDriverEntryPointSuccess;
		if (result == cudaDriverEntryPointSuccess)
			*function_out = function;
		if (result_out)
			*result_out = result;
		return result == cudaDriverEntryPointSuccess || result_out
		               ? cudaSuccess
		               : cudaErrorSymbolNotFound;
	});
}
