/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: the controls for tests (sim.h). */
#include <cstring>

#include "runtime.h"

using namespace sim;

static entry &entry_named(const char *name)
{
	for (entry *e = first_entry; e; e = e->next)
		if (strcmp(e->name, name) == 0)
			return *e;
	wrong("unknown function %s", name);
}

void sim_fail(const char *function, unsigned nth, cudaError_t err)
{
	race::unseen unseen;
	held_lock lock(the_state().lock);
	entry &e = entry_named(function);

	e.fail_in = nth;
	e.fail_with = err;
}

void sim_drain(const char *function, unsigned nth)
{
	race::unseen unseen;
	held_lock lock(the_state().lock);

	entry_named(function).drain_in = nth;
}

unsigned long sim_calls(const char *function)
{
	race::unseen unseen;
	held_lock lock(the_state().lock);

	return entry_named(function).calls;
}

void sim_break(cudaError_t err)
{
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);

	s.broken = err;
	drop_work(s);
}

void sim_hold(bool hold)
{
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);

	s.held = hold;
	s.work.notify_one();
	s.finished.wait(lock, [&] { return !hold || !s.running || s.running_host_function; });
}

bool sim_has_context(int gpu)
{
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);

	return s.gpus.at((size_t)gpu).has_context;
}

size_t sim_streams(int priority)
{
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);
	size_t count = 0;

	for (const auto &stream : s.streams)
		count += stream.second->priority == priority;
	return count;
}

size_t sim_live(void)
{
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);

	return s.ranges.size() + s.streams.size() + s.events.size() + s.graphs.size();
}

void sim_leaks(FILE *out)
{
	static const char *const kinds[] = { "device memory", "memory of another process",
		                             "registered memory", "pinned memory",
		                             "managed memory" };
	race::unseen unseen;
	state &s = the_state();
	held_lock lock(s.lock);

	for (const auto &r : s.ranges)
		fprintf(out, "%s, %zu bytes at %p, GPU %d\n", kinds[r.second.kind], r.second.bytes,
		        (void *)r.second.begin, r.second.gpu);
	for (const auto &st : s.streams)
		fprintf(out, "stream %p, GPU %d\n", (void *)st.first, st.second->gpu);
	for (const auto &e : s.events)
		fprintf(out, "event %p, GPU %d\n", (void *)e.first, e.second.gpu);
	for (const auto &graph : s.graphs)
		fprintf(out, "graph %p\n", (void *)graph);
}
