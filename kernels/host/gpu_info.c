/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and their properties, the current GPU of a call, the exit of the process, and captures. */
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/gpu.h"
#include "placement/placement.h"

#define CONTEXTS_MAX 64   /* maximum number of GPUs, whose contexts are kept */
#define EXIT_WAIT_MS 5000 /* longest wait at exit for threads inside CUDA */

struct CUctx_st; /* a CUcontext is a pointer to it */

/* Functions of the driver that the runtime does not have. They return the runtime's error codes. */
static struct {
	/* protects all members */
	pthread_mutex_t lock;
	bool found;                                            /* the functions are set */
	int (*retain)(struct CUctx_st **context_out, int gpu); /* cuDevicePrimaryCtxRetain */
	int (*push)(struct CUctx_st *context);                 /* cuCtxPushCurrent */
	int (*pop)(struct CUctx_st **context_out);             /* cuCtxPopCurrent */
	/* retained until the process ends, as by the runtime */
	struct CUctx_st *contexts[CONTEXTS_MAX];
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER };

int rung__gpu_find(const char *name, unsigned version, const char *cure, void *function_out)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	void *function = NULL;
	char what[96];
	int rc;

	snprintf(what, sizeof(what), "finding %s in the driver", name);
	rc = cuda_status(cudaGetDriverEntryPointByVersion(name, &function, version,
	                                                  cudaEnableDefault, &found),
	                 what);
	if (rc == 0 && (found != cudaDriverEntryPointSuccess || !function))
		rc = rung__fail(RUNG_E_NOSUP, "cuda: this driver does not have %s; %s", name, cure);
	if (rc == 0)
		memcpy(function_out, &function, sizeof(function));
	return rc;
}

/* Under the lock. */
static int find_driver(void)
{
	static const char cure[] = "use a newer driver";
	int rc = 0;

	if (!driver.found)
		rc = rung__gpu_find("cuDevicePrimaryCtxRetain", 7000, cure, &driver.retain);
	if (!driver.found && rc == 0)
		rc = rung__gpu_find("cuCtxPushCurrent", 4000, cure, &driver.push);
	if (!driver.found && rc == 0)
		rc = rung__gpu_find("cuCtxPopCurrent", 4000, cure, &driver.pop);
	driver.found = rc == 0;
	return rc;
}

/* The primary context of a GPU, which is created by the first call for it. */
static int find_context(int gpu, struct CUctx_st **context_out)
{
	struct CUctx_st *context = NULL;
	int rc;

	if (gpu < 0 || gpu >= CONTEXTS_MAX)
		return cuda_status(cudaErrorInvalidDevice, "making a GPU current");
	pthread_mutex_lock(&driver.lock);
	rc = find_driver();
	context = driver.contexts[gpu];
	if (rc == 0 && !context)
		rc = cuda_status((cudaError_t)driver.retain(&context, gpu), "making a GPU current");
	if (rc == 0)
		driver.contexts[gpu] = *context_out = context;
	pthread_mutex_unlock(&driver.lock);
	return rc;
}

/*
 * Exit handlers unload CUDA while the store's threads still run. A handler that is registered after
 * them, and therefore runs before them, closes this gate and waits for the threads inside. A thread
 * counts itself before it checks whether the gate is closed, and the handler closes the gate before
 * it reads the count, so at least one of the two sees the other.
 */
static struct {
	pthread_once_t once;
	/* the process that registered the handler: a child of fork() has none of its threads */
	pid_t process;
	atomic_uint inside; /* number of threads */
	atomic_bool closed;
} gate = { .once = PTHREAD_ONCE_INIT };

static _Thread_local unsigned gate_depth; /* the nesting depth of calls on this thread */

static void gate_leave(void)
{
	if (--gate_depth == 0)
		atomic_fetch_sub(&gate.inside, 1);
}

static int gate_enter(void)
{
	if (gate_depth++ > 0)
		return 0;
	atomic_fetch_add(&gate.inside, 1);
	if (!atomic_load(&gate.closed))
		return 0;
	gate_leave();
	return rung__fail(RUNG_E_CANCELED, "cuda: the process is exiting; close stores earlier");
}

static void close_gate(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const unsigned own = gate_depth > 0; /* exit() was called from inside: do not wait for it */

	if (getpid() != gate.process)
		return;
	atomic_store(&gate.closed, true);
	for (unsigned ms = 0; ms < EXIT_WAIT_MS && atomic_load(&gate.inside) > own; ms++)
		nanosleep(&pause, NULL);
}

static void register_gate(void)
{
	gate.process = getpid();
	(void)atexit(close_gate); /* if it fails, exit behaves as without the gate */
}

void rung__gpu_close_at_exit(void)
{
	pthread_once(&gate.once, register_gate);
}

int rung__gpu_adopt(struct rung__device *device)
{
	int rc = gate_enter();

	if (rc < 0)
		return rc;
	rc = cuda_status(cudaSetDevice(device->gpu), "making a GPU current");
	gate_leave();
	return rc;
}

/* State for rung__gpu_leave(): a pushed context, and above that bit the thread's capture mode. */
enum { PUSHED = 1, MODE_SHIFT = 1 };

static void leave_context(int before)
{
	struct CUctx_st *context;

	if (before & PUSHED)
		/* the pushed context, even if the GPU has failed since then */
		(void)driver.pop(&context);
}

/*
 * CUDA considers some calls unsafe while a stream is captured into a graph, such as
 * cudaEventQuery(), and one of them in any thread makes the capture fail. No call of rung uses a
 * captured stream (rung__gpu_check_capture()) or depends on one, so they are safe, and the thread's
 * capture mode is relaxed while it is in here.
 *
 * The runtime works on the current context, and pushing a context does not change the thread's own
 * choice of a GPU. cudaSetDevice() is not an alternative: since CUDA 12, switching back creates a
 * context of some hundreds of MiB on a GPU that was never chosen, and without switching back the
 * caller's next allocation would be on rung's GPU.
 */
static int enter_context(int gpu, int *before_out)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	struct CUctx_st *context = NULL;
	int current, rc = cuda_status(cudaGetDevice(&current), "querying the current GPU");
	bool pushes = rc == 0 && current != gpu;

	*before_out = RUNG__GPU_SAME;
	if (pushes)
		rc = find_context(gpu, &context);
	if (pushes && rc == 0)
		rc = cuda_status((cudaError_t)driver.push(context), "making a GPU current");
	if (rc < 0)
		return rc;
	*before_out = pushes ? PUSHED : 0;
	rc = cuda_status(cudaThreadExchangeStreamCaptureMode(&mode),
	                 "allowing calls during a capture");
	if (rc < 0) {
		leave_context(*before_out);
		*before_out = RUNG__GPU_SAME;
		return rc;
	}
	*before_out |= (int)mode << MODE_SHIFT;
	return 0;
}

/* The gate comes first, because once this thread is inside, CUDA stays loaded until it leaves. */
int rung__gpu_enter(int gpu, int *before_out)
{
	int rc = gate_enter();

	*before_out = RUNG__GPU_EXITING;
	if (rc < 0)
		return rc;
	rc = enter_context(gpu, before_out);
	if (rc < 0)
		gate_leave();
	return rc;
}

void rung__gpu_leave(int before)
{
	enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode)(before >> MODE_SHIFT);

	if (before < 0)
		return;
	/* in reverse order of entering */
	(void)cudaThreadExchangeStreamCaptureMode(&mode);
	leave_context(before);
	gate_leave();
}

int rung__gpu_check_capture(cudaStream_t stream, const char *what)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaError_t err = cudaStreamIsCapturing(stream, &status);

	/* the legacy default stream, while a blocking stream is captured; the query itself fails */
	if (err == cudaErrorStreamCaptureImplicit) {
		(void)cudaGetLastError();
		return rung__fail(RUNG_E_NOSUP,
		                  "%s: the default stream waits for a stream that is being "
		                  "captured into a CUDA graph; use another stream, or wait until "
		                  "the capture has ended",
		                  what);
	}
	if (err != cudaSuccess)
		return cuda_status(err, "querying whether a stream is captured");
	if (status != cudaStreamCaptureStatusNone)
		return rung__fail(RUNG_E_NOSUP,
		                  "%s: stream %p is being captured into a CUDA graph; use another "
		                  "stream, or wait until the capture has ended",
		                  what, (void *)stream);
	return 0;
}

/* The first call to CUDA, so a missing driver is reported here. */
static int check_gpu(int gpu)
{
	int count, rc = cuda_status(cudaGetDeviceCount(&count), "looking for GPUs");

	if (rc < 0)
		return rc;
	if (gpu < 0 || gpu >= count)
		return rung__fail(RUNG_E_NODEV,
		                  "cuda: GPU %d does not exist; CUDA shows %d GPUs to this process "
		                  "(see CUDA_VISIBLE_DEVICES)",
		                  gpu, count);
	return 0;
}

int rung__gpu_current(void)
{
	int gpu, rc = check_gpu(0);

	if (rc == 0)
		rc = cuda_status(cudaGetDevice(&gpu), "querying the current GPU");
	return rc < 0 ? rc : gpu;
}

/* The NUMA node of a PCI device; -1 if the kernel reports none, as on machines with one node. */
static int node_of(const char *bus_id)
{
	char path[512];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node", rung__machine_root,
	         bus_id);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}

/* Needs a context on the GPU: creates one if necessary. */
static int memory_of(int gpu, struct rung_gpu_info *info)
{
	size_t free_bytes = 0, total_bytes = 0;
	int before, rc = rung__gpu_enter(gpu, &before);

	if (rc < 0)
		return rc;
	rc = cuda_status(cudaMemGetInfo(&free_bytes, &total_bytes), "querying a GPU's free memory");
	rung__gpu_leave(before);
	info->free_bytes = free_bytes;
	info->total_bytes = total_bytes;
	return rc;
}

int rung__gpu_info(int gpu, struct rung_gpu_info *info_out)
{
	struct rung_gpu_info info = { .size = sizeof(info) };
	struct cudaDeviceProp prop;
	int rc = check_gpu(gpu);

	if (rc == 0)
		rc = cuda_status(cudaGetDeviceProperties(&prop, gpu),
		                 "querying a GPU's properties");
	if (rc == 0)
		rc = cuda_status(cudaDeviceGetPCIBusId(info.bus_id, (int)sizeof(info.bus_id), gpu),
		                 "querying a GPU's PCI address");
	if (rc == 0)
		rc = memory_of(gpu, &info);
	if (rc < 0)
		return rc;
	snprintf(info.name, sizeof(info.name), "%.*s", (int)sizeof(info.name) - 1, prop.name);
	for (char *c = info.bus_id; *c; c++) /* sysfs uses lower case */
		*c = (char)tolower((unsigned char)*c);
	info.node = node_of(info.bus_id);
	*info_out = info;
	return 0;
}

int rung__gpu_can_read(int gpu, int peer)
{
	int can = 0, rc = check_gpu(gpu);

	if (rc == 0)
		rc = check_gpu(peer);
	if (rc == 0)
		rc = cuda_status(cudaDeviceCanAccessPeer(&can, gpu, peer),
		                 "querying whether a GPU can access another");
	return rc < 0 ? rc : can;
}

int rung__gpu_check_addresses(int gpu)
{
	int same = 0;
	int rc = cuda_status(
		cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, gpu),
		"querying a GPU's attributes");

	if (rc == 0 && !same)
		rc = rung__fail(
			RUNG_E_NOSUP,
			"cuda: GPU %d cannot read host memory at the addresses that the CPU uses; "
			"use the CPU device",
			gpu);
	return rc;
}

/* With blocking launches, each launch would wait for the blocked stream. */
int rung__gpu_check_launches(void)
{
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");

	if (!blocking || atoi(blocking) == 0)
		return 0;
	return rung__fail(RUNG_E_NOSUP,
	                  "cuda: nothing can be timed while CUDA_LAUNCH_BLOCKING is %s; unset it",
	                  blocking);
}
