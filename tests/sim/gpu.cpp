/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated runtime: GPUs and their properties, kernels, errors and their names. */
#include <cstdio>
#include <cstring>

#include "cuda_runtime.h"
#include "runtime.h"

using namespace sim;

/* ---- errors ---- */

static const struct {
	cudaError_t err;
	const char *name, *text;
} error_names[] = {
#define ERROR(name, text)                                                                          \
	{                                                                                          \
		name, #name, text                                                                  \
	}
	ERROR(cudaSuccess, "no error"),
	ERROR(cudaErrorInvalidValue, "invalid argument"),
	ERROR(cudaErrorMemoryAllocation, "out of memory"),
	ERROR(cudaErrorInitializationError, "initialization error"),
	ERROR(cudaErrorCudartUnloading, "driver shutting down"),
	ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
	ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
	ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
	ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
	ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
	ERROR(cudaErrorInsufficientDriver,
	      "CUDA driver version is insufficient for CUDA runtime version"),
	ERROR(cudaErrorCallRequiresNewerDriver,
	      "API call is not supported in the installed CUDA driver"),
	ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
	ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
	ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
	ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
	ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
	ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
	ERROR(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
	ERROR(cudaErrorNoKernelImageForDevice,
	      "no kernel image is available for execution on the device"),
	ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
	ERROR(cudaErrorPeerAccessUnsupported,
	      "peer access is not supported between these two devices"),
	ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
	ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
	ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
	ERROR(cudaErrorNotReady, "device not ready"),
	ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
	ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
	ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
	ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
	ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
	ERROR(cudaErrorTooManyPeers, "peer mapping resources exhausted"),
	ERROR(cudaErrorHostMemoryAlreadyRegistered,
	      "part or all of the requested memory range is already mapped"),
	ERROR(cudaErrorHostMemoryNotRegistered,
	      "pointer does not correspond to a registered memory region"),
	ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
	ERROR(cudaErrorNotPermitted, "operation not permitted"),
	ERROR(cudaErrorNotSupported, "operation not supported"),
	ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
	ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
	ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted in a capture"),
	ERROR(cudaErrorStreamCaptureInvalidated, "an earlier error in the same capture"),
	ERROR(cudaErrorStreamCaptureMerge, "the call would merge two captures"),
	ERROR(cudaErrorStreamCaptureIsolation, "a capture would depend on work outside it"),
	ERROR(cudaErrorStreamCaptureImplicit, "the legacy stream would depend on a capture"),
	ERROR(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
	ERROR(cudaErrorStreamCaptureWrongThread, "the capture is another thread's"),
	ERROR(cudaErrorUnknown, "unknown error"),
#undef ERROR
};

const char *cudaGetErrorName(cudaError_t err)
{
	for (const auto &e : error_names)
		if (e.err == err)
			return e.name;
	return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t err)
{
	for (const auto &e : error_names)
		if (e.err == err)
			return e.text;
	return "unrecognized error code";
}

static cudaError_t last_error(entry &function, bool reset)
{
	entered in;

	enter(function, &in);
	return in.err != cudaSuccess ? in.err : last_error_of_thread(reset);
}

static entry get_last("cudaGetLastError", NEEDS_NO_GPU),
	peek_last("cudaPeekAtLastError", NEEDS_NO_GPU);
cudaError_t cudaGetLastError()
{
	return last_error(get_last, true);
}

cudaError_t cudaPeekAtLastError()
{
	return last_error(peek_last, false);
}

static entry runtime_version("cudaRuntimeGetVersion", NEEDS_NO_GPU),
	driver_version("cudaDriverGetVersion", NEEDS_NO_GPU);
cudaError_t cudaRuntimeGetVersion(int *version_out)
{
	return call(runtime_version, [&](state &, held_lock &) {
		*version_out = CUDART_VERSION;
		return cudaSuccess;
	});
}

cudaError_t cudaDriverGetVersion(int *version_out)
{
	return call(driver_version, [&](state &s, held_lock &) {
		*version_out = s.driver ? CUDART_VERSION : 0;
		return cudaSuccess;
	});
}

/* ---- GPUs ---- */

static const int SM_COUNT = 3, BLOCKS_PER_SM = 2;
static thread_local int current;
static thread_local std::vector<int> pushed; /* contexts, by their GPUs */

int sim::current_gpu()
{
	return pushed.empty() ? current : pushed.back();
}

static bool is_gpu(const state &s, int number)
{
	return number >= 0 && (size_t)number < s.gpus.size();
}

static entry get_device_count("cudaGetDeviceCount", NEEDS_NO_CONTEXT);
cudaError_t cudaGetDeviceCount(int *count_out)
{
	*count_out = 0;
	return call(get_device_count, [&](state &s, held_lock &) {
		*count_out = (int)s.gpus.size();
		return cudaSuccess;
	});
}

static entry get_device("cudaGetDevice", NEEDS_NO_CONTEXT);
static entry set_device("cudaSetDevice", NEEDS_NO_CONTEXT);
cudaError_t cudaGetDevice(int *device_out)
{
	return call(get_device, [&](state &, held_lock &) {
		*device_out = current_gpu();
		return cudaSuccess;
	});
}

cudaError_t cudaSetDevice(int device)
{
	return call(set_device, [&](state &s, held_lock &) {
		if (!is_gpu(s, device))
			return cudaErrorInvalidDevice;
		/* replaces the last pushed context */
		(pushed.empty() ? current : pushed.back()) = device;
		s.gpus[(size_t)device].has_context = true;
		return cudaSuccess;
	});
}

static entry device_attribute("cudaDeviceGetAttribute", NEEDS_NO_CONTEXT);
cudaError_t cudaDeviceGetAttribute(int *value_out, enum cudaDeviceAttr attribute, int device)
{
	return call(device_attribute, [&](state &s, held_lock &) {
		int value;

		if (!is_gpu(s, device))
			return cudaErrorInvalidDevice;
		switch (attribute) {
		case cudaDevAttrMaxThreadsPerBlock:
			value = lanes::BLOCK_LANES_MAX;
			break;
		case cudaDevAttrWarpSize:
			value = lanes::WARP;
			break;
		case cudaDevAttrMultiProcessorCount:
			value = SM_COUNT;
			break;
		case cudaDevAttrConcurrentKernels:
		case cudaDevAttrCanMapHostMemory:
		case cudaDevAttrUnifiedAddressing:
		case cudaDevAttrCanUseHostPointerForRegisteredMem:
		case cudaDevAttrConcurrentManagedAccess:
		case cudaDevAttrCooperativeLaunch:
		case cudaDevAttrHostRegisterSupported:
		case cudaDevAttrIpcEventSupport:
			value = 1;
			break;
		case cudaDevAttrAsyncEngineCount:
			value = 2;
			break;
		case cudaDevAttrComputeCapabilityMajor:
			value = 9;
			break;
		case cudaDevAttrComputeCapabilityMinor:
		case cudaDevAttrIntegrated:
		case cudaDevAttrHostNativeAtomicSupported:
		case cudaDevAttrPageableMemoryAccess:
		case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
			value = 0;
			break;
		case cudaDevAttrHostRegisterReadOnlySupported:
			value = s.may_register_read_only;
			break;
		default:
			return cudaErrorInvalidValue;
		}
		*value_out = value;
		return cudaSuccess;
	});
}

static entry device_properties("cudaGetDeviceProperties", NEEDS_NO_CONTEXT);
static entry pci_bus_id("cudaDeviceGetPCIBusId", NEEDS_NO_CONTEXT);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties_out, int device)
{
	return call(device_properties, [&](state &s, held_lock &) {
		if (!is_gpu(s, device))
			return cudaErrorInvalidDevice;
		*properties_out = {};
		snprintf(properties_out->name, sizeof(properties_out->name), "simulated GPU");
		return cudaSuccess;
	});
}

cudaError_t cudaDeviceGetPCIBusId(char *id_out, int room, int device)
{
	return call(pci_bus_id, [&](state &s, held_lock &) {
		char id[32];

		if (!is_gpu(s, device))
			return cudaErrorInvalidDevice;
		if (snprintf(id, sizeof(id), "0000:%02X:00.0", 0x10 + device) >= room)
			return cudaErrorInvalidValue;
		strcpy(id_out, id);
		return cudaSuccess;
	});
}

static entry can_access_peer("cudaDeviceCanAccessPeer", NEEDS_NO_CONTEXT);
cudaError_t cudaDeviceCanAccessPeer(int *can_out, int device, int peer)
{
	return call(can_access_peer, [&](state &s, held_lock &) {
		if (!is_gpu(s, device) || !is_gpu(s, peer))
			return cudaErrorInvalidDevice;
		*can_out = s.may_peer && device != peer;
		return cudaSuccess;
	});
}

static cudaError_t set_peer(state &s, int peer, bool enable)
{
	const int from = current_gpu();

	if (!is_gpu(s, peer) || peer == from)
		return cudaErrorInvalidDevice;
	if (!s.may_peer)
		return enable ? cudaErrorPeerAccessUnsupported : cudaErrorPeerAccessNotEnabled;
	if (s.gpus[(size_t)from].peers[(size_t)peer] == enable)
		return enable ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
	s.gpus[(size_t)from].peers[(size_t)peer] = enable;
	s.gpus[(size_t)peer].has_context = true;
	s.ranges_changed++;
	return cudaSuccess;
}

static entry enable_peer("cudaDeviceEnablePeerAccess"), disable_peer("cudaDeviceDisablePeerAccess");
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	return call(enable_peer, [&](state &s, held_lock &) {
		return flags ? cudaErrorInvalidValue : set_peer(s, peer, true);
	});
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	return call(disable_peer, [&](state &s, held_lock &) { return set_peer(s, peer, false); });
}

static entry device_synchronize("cudaDeviceSynchronize", UNSAFE);
cudaError_t cudaDeviceSynchronize()
{
	return call(device_synchronize, [&](state &s, held_lock &lock) {
		const cudaError_t err = check_device(s, current_gpu());

		return err != cudaSuccess ? err : wait_for_all(s, lock, current_gpu());
	});
}

/* ---- contexts: a GPU's primary one is its address -------------------------------------------- */

static entry retain_entry("cuDevicePrimaryCtxRetain", NEEDS_NO_CONTEXT);
static entry push_entry("cuCtxPushCurrent", NEEDS_NO_CONTEXT);
static entry pop_entry("cuCtxPopCurrent", NEEDS_NO_CONTEXT | RELEASES);

static int retain_context(void **context_out, int device)
{
	return call(retain_entry, [&](state &s, held_lock &) {
		if (!is_gpu(s, device))
			return cudaErrorInvalidDevice;
		s.gpus[(size_t)device].has_context = true;
		*context_out = &s.gpus[(size_t)device];
		return cudaSuccess;
	});
}

static int push_context(void *context)
{
	return call(push_entry, [&](state &s, held_lock &) {
		for (size_t i = 0; i < s.gpus.size(); i++) {
			if (context == &s.gpus[i]) {
				pushed.push_back((int)i);
				return cudaSuccess;
			}
		}
		return cudaErrorDeviceUninitialized;
	});
}

static int pop_context(void **context_out)
{
	return call(pop_entry, [&](state &s, held_lock &) {
		if (pushed.empty())
			wrong("cuCtxPopCurrent: this thread has not pushed a context");
		*context_out = &s.gpus[(size_t)pushed.back()];
		pushed.pop_back();
		return cudaSuccess;
	});
}

void *sim::find_driver_function(const char *symbol)
{
	static const struct {
		const char *symbol;
		void *function;
	} functions[] = {
		{ "cuDevicePrimaryCtxRetain", (void *)retain_context },
		{ "cuCtxPushCurrent", (void *)push_context },
		{ "cuCtxPopCurrent", (void *)pop_context },
	};

	for (const auto &f : functions)
		if (strcmp(f.symbol, symbol) == 0)
			return f.function;
	return nullptr;
}

/* ---- kernels ---- */

/* The first use of a kernel: waits for the GPU's queues while it holds the context's lock. */
static entry load_module("cuModuleLoadData");
static cudaError_t load_now(state &s, held_lock &lock)
{
	const cudaError_t err = check_unsafe(s);

	if (err != cudaSuccess)
		return err;
	load_module.calls++;
	s.loading = true;
	wait_for_all(s, lock, current_gpu());
	s.loading = false;
	s.finished.notify_all();
	return s.broken;
}

cudaError_t sim::load_kernel(state &s, held_lock &lock, const void *function)
{
	if (!s.lazy_modules || s.loaded.count(function))
		return cudaSuccess;
	s.loaded.insert(function);
	return load_now(s, lock);
}

static entry load_entry("sim_load");
cudaError_t sim_load()
{
	return call(load_entry, [](state &s, held_lock &lock) { return load_now(s, lock); });
}

static entry func_attributes("cudaFuncGetAttributes"),
	occupancy("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
cudaError_t sim::function_attributes(const void *function, struct cudaFuncAttributes *out)
{
	return call(func_attributes, [&](state &s, held_lock &lock) {
		const cudaError_t err = load_kernel(s, lock, function);

		if (err != cudaSuccess)
			return err;
		*out = {};
		out->maxThreadsPerBlock = lanes::BLOCK_LANES_MAX;
		out->numRegs = 32;
		out->ptxVersion = out->binaryVersion = 90;
		return cudaSuccess;
	});
}

cudaError_t sim::blocks_per_sm(const void *function, int *blocks_out, int threads)
{
	return call(occupancy, [&](state &s, held_lock &lock) {
		const cudaError_t err = load_kernel(s, lock, function);

		if (err != cudaSuccess)
			return err;
		if (threads < 1 || threads > (int)lanes::BLOCK_LANES_MAX)
			return cudaErrorInvalidValue;
		*blocks_out = BLOCKS_PER_SM;
		return cudaSuccess;
	});
}
