/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the simulated CUDA runtime.
 *
 * One device thread runs the work of all streams of all GPUs, one operation at a time. A stream is
 * a first-in, first-out queue of operations. Among the queues whose first operation can run, the
 * thread draws one at random. One lock protects everything; the thread releases it while an
 * operation runs.
 *
 * Device addresses are in a reservation that cannot be read or written. The bytes are elsewhere, in
 * one memfd per allocation, which other processes open by its number.
 */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "race.h"
#include "sim.h"

namespace sim
{

using held_lock = std::unique_lock<std::mutex>;
using time_point = std::chrono::steady_clock::time_point;

/** Ends the program: the caller did something that CUDA leaves undefined. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void wrong(const char *format, ...);

/* ---- streams ---- */

struct queue;

/** A place in a queue: all operations up to it. */
struct mark {
	std::shared_ptr<struct queue> where; /* null: nothing */
	uint64_t position = 0;
	race::token last; /* of the operation at this position */
};

/** A word that a stream waits for. */
struct awaited_word {
	uintptr_t at = 0;
	uint32_t value = 0;
	unsigned compare = 0;
	int gpu = 0;
};

enum op_kind { WORK, HOST_FUNCTION, WAIT_MARK, WAIT_WORD };

struct op {
	op_kind kind = WORK;
	std::function<void()> run; /* by the device thread, without the lock */
	mark until;
	awaited_word word;
	race::token token;
	time_point not_before = {}; /* unless something waits for it */
};

struct queue {
	int gpu = 0;
	std::deque<op> ops;
	uint64_t queued = 0, done = 0; /* operations in total */
	uint64_t wanted = 0;           /* something waits for operations up to here */
	race::token last;              /* the last operation appended */
	race::context context;
};

/** A capture of work into a graph. */
struct capture {
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
	uint64_t thread = 0; /* the thread that began it */
	bool invalid = false, over = false;
};

struct stream {
	std::shared_ptr<struct queue> ops; /* its own queue, or its GPU's */
	mark end;                          /* its last operation */
	int gpu = 0;
	bool blocking = false; /* ordered with the legacy stream of its GPU */
	int priority = 0;
	std::shared_ptr<struct capture> capture; /* null: its work runs */
};

struct event {
	int gpu = 0;
	unsigned flags = 0;
	mark at;
	std::shared_ptr<struct capture> capture; /* the capture it was last recorded in */
	/* time the record was reached; null before the first record */
	std::shared_ptr<time_point> when;
};

/* ---- memory ---- */

enum range_kind { DEVICE, IMPORTED, REGISTERED, PINNED, MANAGED };

struct range {
	range_kind kind;
	uintptr_t begin;
	size_t bytes;
	unsigned char *real; /* where the bytes are; host memory: at begin */
	int gpu;             /* its owner; host memory: the GPU that was current at registration */
	bool writable;       /* by kernels */
	bool combined;       /* write-combined: kernels have it at another address */
	int fd;              /* DEVICE, IMPORTED: the memfd */
	unsigned references; /* IMPORTED: times opened */
	dev_t dev;           /* IMPORTED: which file */
	ino_t ino;
};

struct gpu {
	uintptr_t begin = 0, end = 0; /* the reservation */
	/* new allocations go here, so that a freed address stays unused for long */
	uintptr_t next = 0;
	size_t used = 0;
	std::vector<bool> peers;                 /* whose memory its kernels may use */
	bool has_context = false;                /* primary */
	std::shared_ptr<struct queue> one_queue; /* only with CUDA_DEVICE_MAX_CONNECTIONS=1 */
	std::shared_ptr<struct stream> legacy;
};

/* ---- everything ---- */

struct state {
	std::mutex lock;
	/* work: the device thread waits; finished: callers wait */
	std::condition_variable work, finished;

	/* from the environment */
	bool driver = true, may_peer = true, may_register_read_only = true, lazy = false,
	     launch_blocking = false, one_queue = false;
	size_t gpu_bytes = 64 << 20;
	std::vector<struct gpu> gpus;

	std::map<uintptr_t, struct range> ranges; /* by begin; none overlap */
	uint64_t ranges_changed = 1;
	std::unordered_map<cudaStream_t, std::shared_ptr<struct stream>> streams;
	std::unordered_map<cudaEvent_t, struct event> events;
	/* by thread and GPU */
	std::map<std::pair<uint64_t, int>, std::shared_ptr<struct stream>> thread_streams;
	uintptr_t handles = 0;                                 /* created so far; never reused */
	std::vector<std::shared_ptr<struct capture>> captures; /* in progress */
	std::set<cudaGraph_t> graphs;

	std::set<const void *> loaded; /* kernels, with CUDA_MODULE_LOADING=LAZY */
	bool lazy_modules = false, loading = false;

	std::vector<std::shared_ptr<struct queue>> queues;
	uint64_t seed = 1;
	bool started = false, stopping = false, held = false;
	bool running = false, running_host_function = false;
	cudaError_t broken = cudaSuccess;
};

/** Created at the first call, never freed: the device thread lives until the process ends. */
state &the_state();
uint64_t draw(state &s);

/** The GPU of the calling thread's current context: the last pushed, else the one it has set. */
int current_gpu();

/* ---- calls ---- */

enum { NEEDS_NO_GPU = 1, RELEASES = 2, NEEDS_NO_CONTEXT = 4, UNSAFE = 8 /* for captures */ };

/** A CUDA function: its name, its number of calls, and the result that a test has set. */
struct entry {
	const char *name;
	unsigned flags;
	unsigned long calls = 0;
	unsigned fail_in = 0, drain_in = 0;
	cudaError_t fail_with = cudaSuccess;
	entry *next;

	explicit entry(const char *name_, unsigned flags_ = 0);
};

struct entered {
	race::unseen unseen;
	state *s = nullptr;
	held_lock lock;
	cudaError_t err = cudaSuccess; /* returned instead of running the call */
	/* skips the call even if err is cudaSuccess, as a test has set */
	bool skip = false;
};
void enter(entry &function, entered *out);
cudaError_t leave(cudaError_t err); /* keeps it as the thread's last error */

/** The body of a CUDA function, under the lock: body(state, lock) -> cudaError_t. */
template <class Body> cudaError_t call(entry &function, Body body)
{
	entered in;

	enter(function, &in);
	if (!in.s || in.skip ||
	    (in.err != cudaSuccess && !(in.s->broken && (function.flags & RELEASES))))
		return leave(in.err);
	if (in.err == cudaSuccess && !(function.flags & (NEEDS_NO_GPU | NEEDS_NO_CONTEXT)))
		in.s->gpus[(size_t)current_gpu()].has_context = true;
	const cudaError_t err = body(*in.s, in.lock);
	return leave(in.err != cudaSuccess ? in.err : err);
}

/* ---- across files ---- */

/** device.cpp */
std::shared_ptr<struct queue> new_queue(state &s, int gpu);
mark append(state &s, const std::shared_ptr<struct queue> &where, op what);
bool passed(const mark &m); /* if true, the caller's later accesses come after it */
cudaError_t wait_for(state &s, held_lock &lock, const mark &m);
cudaError_t wait_for_all(state &s, held_lock &lock, int gpu_or_minus_1);
void drop_work(state &s);
cudaError_t last_error_of_thread(bool reset);
extern entry *first_entry;

/** capture.cpp: checks of calls while streams are captured. A refusal invalidates the capture. */
uint64_t thread_number();           /* of the calling thread, from 1 */
cudaError_t check_unsafe(state &s); /* a call with UNSAFE */
/* a call that submits work to a stream */
cudaError_t check_put(state &s, const struct stream &to);
/* a call that waits for it or queries it */
cudaError_t check_status(state &s, const struct stream &st);
cudaError_t check_device(state &s, int gpu); /* a call that waits for all streams */
cudaError_t capture_wait(struct stream &st, const struct event &e); /* a stream waits */

/** gpu.cpp */
cudaError_t load_kernel(state &s, held_lock &lock, const void *function);
void *find_driver_function(const char *symbol); /* context functions; NULL: another function */

/** stream.cpp */
std::shared_ptr<struct stream> find_stream(state &s, cudaStream_t handle);
/* after the stream's other work, and ordered with the legacy stream */
mark put(state &s, struct stream &to, op what);

/** memory.cpp */
const size_t PAGE = 4096;
const uintptr_t COMBINED_AT = (uintptr_t)1 << 50; /* from the host's address to the GPUs' */
const size_t BLOCK = 2 << 20;                     /* allocations are parts or multiples of it */
const size_t ALIGN = 512; /* of device memory: the least that CUDA's own allocations have */
const unsigned char GARBAGE = 0xa5; /* fresh memory is not zero */
inline size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

void reserve_gpu(state &s, struct gpu *gpu);
bool is_device_address(state &s, uintptr_t at, int *gpu_out);
uintptr_t take_address(state &s, struct gpu *gpu, size_t bytes); /* 0: none is left */

void add_range(state &s, const struct range &r);
void remove_range(state &s, uintptr_t begin);
struct range *find_range(state &s, uintptr_t at); /* the range that holds the byte, or NULL */
/* the range of this kind that begins there, or NULL */
struct range *range_at(state &s, const void *ptr, range_kind kind);
/** The range that holds all `bytes` bytes; without one the program ends. */
const struct range &checked_range(state &s, const void *ptr, size_t bytes, bool write,
                                  const char *what);
unsigned char *real_address(state &s, const void *ptr, size_t bytes, bool write, const char *what);

bool may_use(state &s, const struct range &r, int gpu);
/** Make the GPU's memory accessible to kernels. The device thread calls this before each kernel,
 * with the lock. */
void lend_to_kernels(state &s, int gpu);

} // namespace sim

#endif
