// Implements device.h with the CUDA runtime.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "infer/cuda/device.h"
#include "infer/cuda/device_error.h"
#include "infer/cuda/kernel.h"

namespace folio::infer::gpu {

namespace {

// Minimum driver version: X.0 for toolkit X.Y, because all minor versions of a major version are compatible.
constexpr int kNeededDriver = CUDART_VERSION / 1000 * 1000;

int driver_version() {
  int version = 0;  // stays 0 without a driver
  cudaDriverGetVersion(&version);
  return version;
}

// Returns one attribute, which is faster than cudaGetDeviceProperties with its hundreds of values.
int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  cudaDeviceGetAttribute(&value, which, device);
  return value;
}

int capability_of(int device) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
         attribute(cudaDevAttrComputeCapabilityMinor, device);
}

std::string where(int device) {
  cudaDeviceProp properties;
  const bool known = cudaGetDeviceProperties(&properties, device) == cudaSuccess;
  return name_of(known ? properties.name : "GPU", device);
}

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

int count_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  const int version = driver_version();
  if (version == 0 || error == cudaErrorStubLibrary) fail_without_driver(kNeededDriver);
  if (error == cudaErrorInsufficientDriver) fail_old_driver(kNeededDriver, version);
  fail_without_devices(cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error));
}

void require_device(int device) {
  const int count = count_devices();
  if (device < 0 || device >= count) fail_no_such_device(device, count);
}

// `wanted`: the bytes of an allocation.
void check(cudaError_t error, const char* what, int device, size_t wanted = 0) {
  if (error == cudaSuccess) return;
  // After an error such as an illegal access, CUDA returns that error from each further call.
  const bool lost = cudaFree(nullptr) == error;
  cudaGetLastError();  // clears the error, or the next call would report it again
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) count_devices();  // throws with the cause
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion) {
    fail_no_kernels(where(device), capability_of(device));
  }
  if (error == cudaErrorMemoryAllocation) {
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    if (wanted > 0) fail_out_of_memory(where(device), wanted, free);
    fail_out_of_memory(what, where(device), free);
  }
  if (lost) fail_lost(what, where(device), cudaGetErrorString(error));
  fail_operation(what, where(device), cudaGetErrorString(error));
}

cudaStream_t stream_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle()); }
cudaEvent_t event_of(const auto& handle) { return static_cast<cudaEvent_t>(handle.get()); }

}  // namespace

DeviceInfo device_info(int device) {
  require_device(device);
  const int before = current_device();
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "querying its properties", device);
  size_t free = 0;
  size_t total = 0;
  check(cudaSetDevice(device), "selecting the device", device);
  check(cudaMemGetInfo(&free, &total), "querying its free memory", device);
  check(cudaSetDevice(before), "selecting the device", before);
  const int version = driver_version();
  return {.index = device,
          .name = properties.name,
          .memory_bytes = total,
          .free_bytes = free,
          .major = properties.major,
          .minor = properties.minor,
          .n_multiprocessors = properties.multiProcessorCount,
          .shared_bytes = properties.sharedMemPerBlockOptin,
          .driver_version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (int i = 0; i < count_devices(); ++i) all.push_back(device_info(i));
  return all;
}

Stream::Stream(int device) : device_(device), handle_(nullptr) {
  require_device(device);
  if (capability_of(device) < kLeastCapability) fail_old_device(where(device), capability_of(device));
  use();
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream", device_);
  handle_ = stream;
}

Stream::~Stream() { cudaStreamDestroy(stream_of(*this)); }

void Stream::use() const { check(cudaSetDevice(device_), "selecting the device", device_); }

void Stream::copy_in(void* device, const void* host, size_t bytes) {
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_of(*this)), "copying to the device",
        device_);
}

void Stream::copy_out(void* host, const void* device, size_t bytes) {
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_of(*this)), "copying from the device",
        device_);
}

void Stream::copy_within(void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(*this)), "copying on the device", device_);
}

void Stream::fill(void* device, uint8_t byte, size_t bytes) {
  check(cudaMemsetAsync(device, byte, bytes, stream_of(*this)), "filling device memory", device_);
}

void Stream::wait() { check(cudaStreamSynchronize(stream_of(*this)), "a kernel or copy", device_); }

Recording Stream::record(const std::function<void()>& issue) {
  check(cudaStreamBeginCapture(stream_of(*this), cudaStreamCaptureModeThreadLocal), "capturing a graph", device_);
  cudaGraph_t graph = nullptr;
  try {
    issue();
  } catch (...) {
    cudaStreamEndCapture(stream_of(*this), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // clears the error, or the next call would report it again
    throw;
  }
  check(cudaStreamEndCapture(stream_of(*this), &graph), "capturing a graph", device_);
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "capturing a graph", device_);
  return Recording(exec);
}

void Stream::run(Recording& recording) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(recording.get()), stream_of(*this)), "launching a graph", device_);
}

void FreeOfRecording::operator()(void* graph) const { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

namespace {

void* allocate(Stream& stream, size_t bytes) {
  if (bytes == 0) return nullptr;
  stream.use();
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), "allocating device memory", stream.device(), bytes);
  return data;
}

void* allocate_pinned(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail_out_of_pinned_memory(bytes);
  }
  check(error, "allocating pinned host memory", current_device());
  return data;
}

}  // namespace

DeviceMemory::DeviceMemory(Stream& stream, size_t bytes)
    : OwnedMemory(allocate(stream, bytes), {stream.device(), bytes}) {}
void FreeOfDevice::operator()(void* data) const { cudaFree(data); }

PinnedMemory::PinnedMemory(size_t bytes) : OwnedMemory(allocate_pinned(bytes), {bytes}) {}
void FreeOfHost::operator()(void* data) const { cudaFreeHost(data); }

void FreeOfEvent::operator()(void* event) const { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

void Event::record(Stream& stream) {
  if (handle_ == nullptr) {
    stream.use();
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "an event", stream.device());
    handle_.reset(event);
  }
  check(cudaEventRecord(event_of(handle_), stream_of(stream)), "an event", stream.device());
}

void Event::wait() {
  if (handle_ == nullptr) return;  // never recorded
  check(cudaEventSynchronize(event_of(handle_)), "a kernel or copy", current_device());
}

double Event::since(Event& start) {
  start.wait();
  wait();
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, event_of(start.handle_), event_of(handle_)), "an event", current_device());
  return static_cast<double>(milliseconds);
}

void check_launch(const void* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  const char* mangled = nullptr;
  const bool known = cudaFuncGetName(&mangled, kernel) == cudaSuccess && mangled != nullptr;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      known ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status) : nullptr, std::free);
  check(error, name ? name.get() : known ? mangled : "a kernel", current_device());
}

}  // namespace folio::infer::gpu
