/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated GPUs: captured streams, calls that invalidate a capture, and kernels that are loaded
 * lazily. */
#include "sim_case.h"

static const cudaStreamCaptureMode global = cudaStreamCaptureModeGlobal;
static const cudaStreamCaptureMode local = cudaStreamCaptureModeThreadLocal;
static const cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
static const cudaStreamCaptureStatus none = cudaStreamCaptureStatusNone;
static const cudaStreamCaptureStatus active = cudaStreamCaptureStatusActive;

static void begin(cudaStream_t stream, enum cudaStreamCaptureMode mode = global)
{
	OK(cudaStreamBeginCapture(stream, mode));
}

/* @return whether the capture was valid */
static bool end(cudaStream_t stream)
{
	cudaGraph_t graph = nullptr;
	const cudaError_t err = cudaStreamEndCapture(stream, &graph);

	CHECK(err == (graph ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
	if (graph)
		OK(cudaGraphDestroy(graph));
	return graph;
}

static enum cudaStreamCaptureStatus status_of(cudaStream_t stream)
{
	enum cudaStreamCaptureStatus status;

	OK(cudaStreamIsCapturing(stream, &status));
	return status;
}

static void set_mode(enum cudaStreamCaptureMode mode)
{
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
}

static cudaError_t query_elsewhere(cudaEvent_t event, enum cudaStreamCaptureMode mode)
{
	cudaError_t err = cudaErrorUnknown;

	std::thread([&] {
		set_mode(mode);
		err = cudaEventQuery(event);
	}).join();
	return err;
}

static void captured_work_is_not_done()
{
	const cudaStream_t stream = new_stream(), other = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *a = zero_words(64);

	begin(stream);
	CHECK(status_of(stream) == active && status_of(other) == none);
	OK(start_store(stream, a, 1));
	OK(cudaEventRecord(event, stream));
	OK(cudaStreamWaitEvent(other, event, 0)); /* which joins the capture */
	CHECK(status_of(other) == active);
	OK(start_store(other, a, 1));
	CHECK(end(stream));
	CHECK(status_of(stream) == none && status_of(other) == none);
	OK(cudaDeviceSynchronize());
	CHECK(word_at(a + 5) == 0);
	CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
	CHECK(cudaStreamBeginCapture(nullptr, global) == cudaErrorStreamCaptureUnsupported);
}

static void what_spoils_a_capture()
{
	const cudaStream_t stream = new_stream(), other = new_stream();
	const cudaEvent_t event = new_event(), outside = new_event();
	const cudaError_t unsafe = cudaErrorStreamCaptureUnsupported;
	void *ptr;
	const struct {
		const char *what;
		cudaError_t err;
		std::function<cudaError_t()> call;
	} each[] = {
		{ "its stream is queried", unsafe, [&] { return cudaStreamQuery(stream); } },
		{ "an event outside is queried", unsafe, [&] { return cudaEventQuery(outside); } },
		{ "memory is allocated", unsafe, [&] { return cudaMalloc(&ptr, 4); } },
		{ "a call waits for everything", unsafe, [] { return cudaDeviceSynchronize(); } },
		{ "a kernel is loaded", unsafe, [] { return sim_load(); } },
		{ "work outside", cudaErrorStreamCaptureIsolation,
		  [&] { return cudaStreamWaitEvent(stream, outside, 0); } },
	};

	OK(cudaEventRecord(outside, other));
	for (const auto &c : each) {
		case_name = c.what;
		begin(stream);
		CHECK(c.call() == c.err && status_of(stream) == cudaStreamCaptureStatusInvalidated);
		CHECK(cudaEventRecord(event, stream) == cudaErrorStreamCaptureInvalidated);
		CHECK(!end(stream));
	}
}

/* Whether a query is allowed: depends on the modes of the capture and the thread. */
static void modes()
{
	const cudaStream_t stream = new_stream();
	const cudaEvent_t event = new_event();
	const struct {
		cudaStreamCaptureMode capture, thread;
		bool own, elsewhere; /* allowed in the capturing thread, in another thread */
	} each[] = {
		{ global, global, false, false }, { global, local, false, true },
		{ global, relaxed, true, true },  { local, global, false, true },
		{ local, relaxed, true, true },   { relaxed, global, true, true },
	};

	for (const auto &c : each) {
		begin(stream, c.capture);
		set_mode(c.thread);
		CHECK((cudaEventQuery(event) == cudaSuccess) == c.own);
		set_mode(global);
		CHECK(end(stream) == c.own);
		begin(stream, c.capture);
		CHECK((query_elsewhere(event, c.thread) == cudaSuccess) == c.elsewhere);
		CHECK(end(stream) == c.elsewhere);
	}
}

static void the_legacy_stream_and_captures()
{
	const cudaStream_t apart = new_stream();
	unsigned *a = zero_words(64);
	enum cudaStreamCaptureStatus status;
	cudaStream_t blocking;

	begin(apart); /* does not affect the legacy stream */
	OK(start_store(nullptr, a, 1));
	CHECK(status_of(nullptr) == none && end(apart));
	OK(cudaStreamCreate(&blocking));
	begin(blocking);
	CHECK(cudaStreamIsCapturing(cudaStreamLegacy, &status) == cudaErrorStreamCaptureImplicit);
	CHECK(end(blocking)); /* the query did not invalidate it */
	begin(blocking, relaxed);
	CHECK(start_store(nullptr, a, 1) == cudaErrorStreamCaptureImplicit && !end(blocking));
}

/* A load waits for the GPU, and other threads' calls for the load. */
static void a_load_holds_the_lock()
{
	const cudaStream_t stream = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *word = pinned_words(1), *a = device_words(64);
	int loaded = 0, queried = 0;

	OK(start_store(stream, a, 1));
	OK(start_store(stream, a, 1));
	CHECK(sim_calls("cuModuleLoadData") == 1); /* loaded once */
	wait_for_word(stream, word, 1);
	std::thread loads([&] {
		OK(start_copy(new_stream(), a, a));
		__atomic_store_n(&loaded, 1, __ATOMIC_RELEASE);
	});
	while (sim_calls("cuModuleLoadData") < 2)
		usleep(100);
	std::thread queries([&] {
		OK(cudaEventQuery(event));
		__atomic_store_n(&queried, 1, __ATOMIC_RELEASE);
	});
	while (sim_calls("cudaEventQuery") == 0)
		usleep(100);
	usleep(20000);
	CHECK(!__atomic_load_n(&loaded, __ATOMIC_ACQUIRE));
	CHECK(!__atomic_load_n(&queried, __ATOMIC_ACQUIRE));
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	loads.join();
	queries.join();
	CHECK(loaded && queried);
}

int main()
{
	passes("captured work is not done", {}, captured_work_is_not_done);
	passes("calls that invalidate a capture", {}, what_spoils_a_capture);
	passes("modes of captures", {}, modes);
	passes("the legacy stream and captures", {}, the_legacy_stream_and_captures);
	passes("a load holds the lock", { { "CUDA_MODULE_LOADING", "LAZY" } },
	       a_load_holds_the_lock);
	printf("capture: %lu cases\n", cases);
	return 0;
}
