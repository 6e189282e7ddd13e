/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated GPUs: streams, events, and words that streams wait for. */
#include "sim_case.h"

static void a_stream_keeps_its_order()
{
	const cudaStream_t stream = new_stream();
	unsigned *a = device_words(64), *out = pinned_words(64), expected = 0;

	OK(cudaMemsetAsync(a, 0, 256, stream));
	for (unsigned i = 0; i < 20; i++) {
		OK(start_step(stream, a, i));
		expected = expected * 3 + i;
	}
	OK(cudaMemcpyAsync(out, a, 256, cudaMemcpyDeviceToHost, stream));
	OK(cudaStreamSynchronize(stream));
	CHECK(out[0] == expected && out[63] == expected);
	CHECK(sim_calls("cudaLaunchKernel") == 20 && sim_calls("cudaStreamSynchronize") == 1);
	OK(cudaStreamDestroy(stream));
	OK(cudaFree(a));
	OK(cudaFreeHost(out));
	CHECK(sim_live() == 0);
}

static int came_first;

static void come(void *who)
{
	if (!came_first)
		came_first = *(int *)who;
}

/* CUDA does not promise which of two streams runs first. */
static int first_of_two_streams()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	int names[2] = { 1, 2 };

	sim_hold(true);
	OK(cudaLaunchHostFunc(one, come, &names[0]));
	OK(cudaLaunchHostFunc(two, come, &names[1]));
	sim_hold(false);
	OK(cudaDeviceSynchronize());
	return came_first;
}

static void streams_are_in_no_order()
{
	unsigned first[2] = { 0, 0 };

	for (unsigned seed = 1; seed <= 12; seed++) {
		const std::string text = std::to_string(seed);
		std::string said;
		const int status = in_child(
			{ { "RUNG_SIM_SEED", text.c_str() } }, [] { exit(first_of_two_streams()); },
			&said);
		CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2));
		first[WEXITSTATUS(status) - 1]++;
	}
	CHECK(first[0] > 0 && first[1] > 0);
}

static void an_event_orders_two_streams()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event(), never = new_event();
	unsigned *a = zero_words(64);

	OK(cudaEventQuery(never));
	OK(cudaStreamWaitEvent(two, never, 0));
	for (unsigned i = 0; i < 10; i++) {
		sim_hold(true);
		OK(start_step(one, a, 1));
		OK(cudaEventRecord(event, one));
		OK(cudaStreamWaitEvent(two, event, 0));
		OK(start_step(two, a, 5));
		CHECK(cudaEventQuery(event) == cudaErrorNotReady &&
		      cudaStreamQuery(two) == cudaErrorNotReady);
		sim_hold(false);
		OK(cudaStreamSynchronize(two));
		OK(cudaEventQuery(event));
		OK(cudaDeviceSynchronize());
	}
	unsigned expected = 0;
	for (unsigned i = 0; i < 10; i++)
		expected = (expected * 3 + 1) * 3 + 5;
	CHECK(word_at(a) == expected);
}

/* A new record moves the event; existing waits still refer to the old place. */
static void an_event_is_a_place_in_a_stream()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *word = pinned_words(1);

	OK(cudaEventRecord(event, one));
	OK(cudaStreamWaitEvent(two, event, 0));
	wait_for_word(one, word, 1);
	OK(cudaEventRecord(event, one));
	OK(cudaStreamSynchronize(two));
	CHECK(cudaEventQuery(event) == cudaErrorNotReady);
	OK(cudaEventDestroy(event)); /* still in use */
	OK(cudaStreamDestroy(two));
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(one));
}

static void waiting_and_writing_words()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	unsigned *words = pinned_words(64), *a = zero_words(64);
	int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	int (*write_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
	enum cudaDriverEntryPointQueryResult found;
	void *none;

	OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait_value, 12000,
	                                    cudaEnableDefault, &found));
	CHECK(found == cudaDriverEntryPointSuccess);
	OK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", (void **)&write_value, 12000,
	                                    cudaEnableDefault, &found));
	CHECK(found == cudaDriverEntryPointSuccess);
	OK(cudaGetDriverEntryPointByVersion("cuNothing", &none, 12000, cudaEnableDefault, &found));
	CHECK(found == cudaDriverEntryPointSymbolNotFound && !none);
	/* cyclic: 2 is past 0xfffffffe */
	words[0] = 0xfffffff0;
	wait_for_word(one, words, 0xfffffffe);
	OK(start_step(one, a, 7));
	CHECK(write_value(one, (uintptr_t)(words + 1), 99, 0) == 0);
	CHECK(cudaStreamQuery(one) == cudaErrorNotReady);
	/* equal to the value that the first stream writes */
	CHECK(wait_value(two, (uintptr_t)(words + 1), 99, 1) == 0);
	OK(start_copy(two, words, a));
	__atomic_store_n(words, 2u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(two));
	CHECK(words[0] == 7 && words[63] == 7);
}

/* All streams of the GPU share one queue: a waiting operation at its head holds the others. */
static void one_queue_is_held_by_its_head()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	unsigned *word = pinned_words(1), *a = device_words(64);
	cudaStream_t other;

	wait_for_word(one, word, 1);
	OK(start_store(two, a, 1));
	OK(cudaSetDevice(1));
	other = new_stream();
	unsigned *b = device_words(64);
	/* another GPU has another queue; its turns give a wrong order a chance to show */
	for (int i = 0; i < 30; i++) {
		OK(start_store(other, b, 1));
		OK(cudaStreamSynchronize(other));
	}
	CHECK(cudaStreamQuery(two) == cudaErrorNotReady);
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(two));
}

static void streams_of_their_own_are_not_held()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	unsigned *word = pinned_words(1), *a = device_words(64);

	wait_for_word(one, word, 1);
	OK(start_store(two, a, 1));
	OK(cudaStreamSynchronize(two));
	CHECK(cudaStreamQuery(one) == cudaErrorNotReady);
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaDeviceSynchronize());
}

static void the_legacy_stream_waits_for_blocking_ones()
{
	const cudaStream_t apart = new_stream();
	unsigned *word = pinned_words(1), *a = zero_words(64);
	cudaStream_t blocking;

	OK(cudaStreamCreate(&blocking));
	wait_for_word(blocking, word, 1);
	OK(start_step(blocking, a, 1));
	OK(start_step(nullptr, a, 2));
	OK(start_step(cudaStreamPerThread, a, 3));
	OK(cudaEventRecord(new_event(), apart));
	OK(cudaStreamSynchronize(apart));
	CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady &&
	      cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
	__atomic_store_n(word, 1u, __ATOMIC_RELEASE);
	OK(cudaStreamSynchronize(cudaStreamPerThread));
	CHECK(word_at(a) == (1 * 3 + 2) * 3 + 3);
}

static void lazy_work_is_done_in_time_and_when_waited_for()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *a = zero_words(64), expected = 0;
	int flag = 0;

	for (unsigned i = 0; i < 300; i++) {
		OK(start_step(i % 2 ? one : two, a, i));
		OK(cudaEventRecord(event, i % 2 ? one : two));
		OK(cudaStreamWaitEvent(i % 2 ? two : one, event, 0));
		expected = expected * 3 + i;
	}
	OK(cudaEventSynchronize(event));
	CHECK(word_at(a) == expected);
	OK(cudaLaunchHostFunc(one, set_flag, &flag)); /* runs although nothing waits for it */
	while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE))
		usleep(100);
}

/* Host threads, each with its own stream; every second thread destroys it while it is in use. */
static void threads_do_not_meet()
{
	std::vector<std::thread> threads;

	for (unsigned t = 0; t < 4; t++) {
		threads.emplace_back([t] {
			unsigned *words = pinned_words(64), *a = device_words(64);
			for (unsigned turn = 0; turn < 40; turn++) {
				const cudaStream_t stream = new_stream();
				const cudaEvent_t event = new_event();
				for (unsigned i = 0; i < 64; i++)
					words[i] = t + turn + i;
				OK(cudaMemcpyAsync(a, words, 256, cudaMemcpyHostToDevice, stream));
				OK(start_step(stream, a, t));
				OK(cudaMemcpyAsync(words, a, 256, cudaMemcpyDeviceToHost, stream));
				OK(cudaEventRecord(event, stream));
				if (t % 2)
					OK(cudaStreamDestroy(stream));
				OK(cudaEventSynchronize(event));
				for (unsigned i = 0; i < 64; i++)
					CHECK(words[i] == (t + turn + i) * 3 + t);
				if (t % 2 == 0)
					OK(cudaStreamDestroy(stream));
				OK(cudaEventDestroy(event));
			}
			OK(cudaFree(a));
			OK(cudaFreeHost(words));
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	CHECK(sim_live() == 0);
}

static void launches_that_block()
{
	const cudaStream_t stream = new_stream();
	unsigned *a = device_words(64), *out = pinned_words(64);

	OK(start_store(stream, a, 1));
	OK(cudaStreamQuery(stream));
	OK(cudaMemcpyAsync(out, a, 256, cudaMemcpyDefault, stream));
	CHECK(out[63] == 63);
}

static void orders_are_no_races()
{
	const cudaStream_t one = new_stream(), two = new_stream();
	const cudaEvent_t event = new_event();
	unsigned *words = pinned_words(64), *flag = pinned_words(1), *a = zero_words(64),
		 *count = zero_words(1);
	int done = 0;

	for (unsigned turn = 1; turn <= 20; turn++) {
		wait_for_word(one, flag, turn);
		OK(start_copy(one, a, words));
		std::thread([&] {
			words[3] = turn;
			__atomic_store_n(flag, turn, __ATOMIC_RELEASE);
		}).join();
		OK(cudaEventRecord(event, one));
		OK(cudaStreamWaitEvent(two, event, 0));
		OK(start_step(two, a, 1));
		OK(start_copy(two, words, a));
		OK(start_count(one, count)); /* atomics of two streams */
		OK(start_count(two, count));
		OK(cudaEventRecord(event, two));
		OK(cudaLaunchHostFunc(two, set_flag, &done));
		while (cudaEventQuery(event) != cudaSuccess)
			usleep(50);
		CHECK(words[3] == turn * 3 + 1);
	}
	OK(cudaDeviceSynchronize());
	CHECK(done == 1 && word_at(count) == 20 * 2 * 128);
}

static void the_time_between_two_events()
{
	const cudaStream_t st = new_stream();
	cudaEvent_t begun, ended, untimed;
	float ms = -1;

	OK(cudaEventCreateWithFlags(&begun, cudaEventDefault));
	OK(cudaEventCreateWithFlags(&ended, cudaEventDefault));
	OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
	/* never recorded */
	CHECK(cudaEventElapsedTime(&ms, begun, ended) == cudaErrorInvalidResourceHandle);
	OK(cudaEventRecord(untimed, st));
	OK(cudaEventRecord(begun, st));
	OK(cudaLaunchHostFunc(
		st, [](void *) { usleep(3000); }, nullptr));
	sim_hold(true);
	OK(cudaEventRecord(ended, st));
	CHECK(cudaEventElapsedTime(&ms, begun, ended) == cudaErrorNotReady);
	sim_hold(false);
	OK(cudaStreamSynchronize(st));
	OK(cudaEventElapsedTime(&ms, begun, ended));
	CHECK(ms >= 3);
	CHECK(cudaEventElapsedTime(&ms, untimed, ended) == cudaErrorInvalidResourceHandle);
	for (cudaEvent_t event : { begun, ended, untimed })
		OK(cudaEventDestroy(event));
	OK(cudaStreamDestroy(st));
}

int main()
{
	for (const char *lazy : { "0", "1" }) {
		passes("a stream keeps its order", { { "RUNG_SIM_LAZY", lazy } },
		       a_stream_keeps_its_order);
		passes("an event orders two streams", { { "RUNG_SIM_LAZY", lazy } },
		       an_event_orders_two_streams);
		passes("an event is a place in a stream", { { "RUNG_SIM_LAZY", lazy } },
		       an_event_is_a_place_in_a_stream);
		passes("words", { { "RUNG_SIM_LAZY", lazy } }, waiting_and_writing_words);
		passes("threads", { { "RUNG_SIM_LAZY", lazy } }, threads_do_not_meet);
		passes("lazy work", { { "RUNG_SIM_LAZY", lazy } },
		       lazy_work_is_done_in_time_and_when_waited_for);
	}
	case_name = "streams have no order";
	streams_are_in_no_order();
	passes("threads, one queue", { { "CUDA_DEVICE_MAX_CONNECTIONS", "1" } },
	       threads_do_not_meet);
	passes("one queue", { { "RUNG_SIM_GPUS", "2" }, { "CUDA_DEVICE_MAX_CONNECTIONS", "1" } },
	       one_queue_is_held_by_its_head);
	passes("many queues", {}, streams_of_their_own_are_not_held);
	passes("the legacy stream", {}, the_legacy_stream_waits_for_blocking_ones);
	passes("the time between two events", {}, the_time_between_two_events);
	passes("launches that block", { { "CUDA_LAUNCH_BLOCKING", "1" }, { "RUNG_SIM_LAZY", "1" } },
	       launches_that_block);
	for (const char *seed : { "1", "2", "3" })
		passes("ordered accesses are not races", { { "RUNG_SIM_SEED", seed } },
		       orders_are_no_races);
	printf("streams: %lu cases\n", cases);
	return 0;
}
