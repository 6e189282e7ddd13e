/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated runtime: streams whose work is captured into a graph instead of being run, and
 * calls that are not allowed during a capture. Graphs are empty, since they are never launched. The
 * rule that a capture must end on the stream it began on, with all other streams joined, is not
 * checked.
 */
#include <algorithm>
#include <atomic>

#include "runtime.h"

using namespace sim;

static thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

uint64_t sim::thread_number()
{
	static std::atomic<uint64_t> threads;
	static thread_local uint64_t number;

	if (!number)
		number = ++threads;
	return number;
}

/* By default an unsafe call invalidates the captures of this thread and all captures in global
 * mode. */
cudaError_t sim::check_unsafe(state &s)
{
	const auto global = cudaStreamCaptureModeGlobal, relaxed = cudaStreamCaptureModeRelaxed;
	cudaError_t err = cudaSuccess;

	for (const auto &c : s.captures) {
		const bool own = c->thread == thread_number();

		if (thread_mode == relaxed || c->mode == relaxed)
			continue;
		if (!own && (c->mode != global || thread_mode != global))
			continue;
		c->invalid = true;
		err = cudaErrorStreamCaptureUnsupported;
	}
	return err;
}

static bool is_legacy(const state &s, const struct stream &st)
{
	return &st == s.gpus[(size_t)st.gpu].legacy.get();
}

/* Whether the other stream's order with the legacy stream would have to be captured. */
static bool blocks_legacy(const struct stream &legacy, const struct stream &other)
{
	return other.gpu == legacy.gpu && other.blocking && other.capture;
}

cudaError_t sim::check_put(state &s, const struct stream &to)
{
	cudaError_t err = cudaSuccess;

	if (to.capture)
		return to.capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
	for (const auto &other : s.streams) {
		if (is_legacy(s, to) && blocks_legacy(to, *other.second)) {
			other.second->capture->invalid = true;
			err = cudaErrorStreamCaptureImplicit;
		}
	}
	return err;
}

cudaError_t sim::check_status(state &s, const struct stream &st)
{
	if (!st.capture)
		return check_put(s, st);
	st.capture->invalid = true;
	return cudaErrorStreamCaptureUnsupported;
}

cudaError_t sim::check_device(state &s, int gpu)
{
	cudaError_t err = cudaSuccess;

	for (const auto &st : s.streams)
		if (st.second->gpu == gpu && st.second->capture)
			err = check_status(s, *st.second);
	return err;
}

cudaError_t sim::capture_wait(struct stream &st, const struct event &e)
{
	if (st.capture && !e.capture && e.at.where) {
		st.capture->invalid = true;
		return cudaErrorStreamCaptureIsolation;
	}
	if (st.capture && e.capture && st.capture != e.capture) {
		st.capture->invalid = e.capture->invalid = true;
		return cudaErrorStreamCaptureMerge;
	}
	if (e.capture && !e.capture->over)
		st.capture = e.capture;
	return cudaSuccess;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static entry begin_capture("cudaStreamBeginCapture"), end_capture("cudaStreamEndCapture", RELEASES);
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
	return call(begin_capture, [&](state &s, held_lock &) {
		const auto st = find_stream(s, handle);

		if (is_legacy(s, *st))
			return cudaErrorStreamCaptureUnsupported;
		if (st->capture)
			return cudaErrorIllegalState;
		st->capture = std::make_shared<struct capture>();
		st->capture->mode = mode;
		st->capture->thread = thread_number();
		s.captures.push_back(st->capture);
		return cudaSuccess;
	});
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph_out)
{
	return call(end_capture, [&](state &s, held_lock &) {
		const std::shared_ptr<struct capture> capture = find_stream(s, handle)->capture;

		const auto relaxed = cudaStreamCaptureModeRelaxed;

		*graph_out = nullptr;
		if (!capture)
			return cudaErrorIllegalState;
		if (capture->mode != relaxed && capture->thread != thread_number())
			return cudaErrorStreamCaptureWrongThread;
		capture->over = true;
		s.captures.erase(std::find(s.captures.begin(), s.captures.end(), capture));
		for (const auto &st : s.streams)
			if (st.second->capture == capture)
				st.second->capture = nullptr;
		if (capture->invalid)
			return cudaErrorStreamCaptureInvalidated;
		*graph_out = (cudaGraph_t)(0x9000000 + 16 * ++s.handles);
		s.graphs.insert(*graph_out);
		return cudaSuccess;
	});
}

static entry graph_destroy("cudaGraphDestroy", RELEASES);
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return call(graph_destroy, [&](state &s, held_lock &) {
		if (!s.graphs.erase(graph))
			wrong("cudaGraphDestroy: %p is not a graph", (void *)graph);
		return cudaSuccess;
	});
}

static entry is_capturing("cudaStreamIsCapturing");
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status_out)
{
	return call(is_capturing, [&](state &s, held_lock &) {
		const auto st = find_stream(s, handle);

		for (const auto &other : s.streams) /* this query does not invalidate a capture */
			if (is_legacy(s, *st) && blocks_legacy(*st, *other.second))
				return cudaErrorStreamCaptureImplicit;
		*status_out = cudaStreamCaptureStatusNone;
		if (st->capture && st->capture->invalid)
			*status_out = cudaStreamCaptureStatusInvalidated;
		else if (st->capture)
			*status_out = cudaStreamCaptureStatusActive;
		return cudaSuccess;
	});
}

static entry exchange_mode("cudaThreadExchangeStreamCaptureMode", NEEDS_NO_CONTEXT | RELEASES);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return call(exchange_mode, [&](state &, held_lock &) {
		std::swap(thread_mode, *mode);
		return cudaSuccess;
	});
}
