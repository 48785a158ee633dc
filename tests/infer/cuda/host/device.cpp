// Implements device.h for the emulator, in host memory. Operations complete when they are issued.
#include "infer/cuda/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "core/error.h"
#include "tests/infer/cuda/host/host_device.h"
#include "tests/infer/cuda/host/races.h"

namespace folio::infer::gpu {

using Operations = std::vector<std::function<void()>>;

namespace host {
namespace {

constexpr std::align_val_t kAlignment{256};  // the alignment of cudaMalloc

/// The emulated devices, shared by all host threads.
struct Devices {
  std::mutex mutex;
  DeviceShape shape;
  std::vector<uint64_t> used;  // allocated bytes of each device
};

Devices& devices_of_host() {
  static Devices devices;
  return devices;
}

void* allocate(int device, size_t bytes) {
  Devices& all = devices_of_host();
  {
    const std::lock_guard lock(all.mutex);
    const auto d = static_cast<size_t>(device);
    if (all.used.size() <= d) all.used.resize(d + 1);
    const uint64_t free = all.shape.memory_bytes - std::min(all.shape.memory_bytes, all.used[d]);
    core::require(bytes <= free, "GPU {}: {} bytes are asked for, and {} of {} are free: use a smaller model or cache",
                  device, bytes, free, all.shape.memory_bytes);
    all.used[d] += bytes;
  }
  void* data = static_cast<unsigned char*>(::operator new(bytes + 2 * races::kRedZone, kAlignment)) + races::kRedZone;
  std::memset(data, 0xFF, bytes);
  races::allocated(data, bytes);
  return data;
}

void release(int device, void* data, size_t bytes) {
  races::freed(data);
  ::operator delete(static_cast<unsigned char*>(data) - races::kRedZone, kAlignment);
  Devices& all = devices_of_host();
  const std::lock_guard lock(all.mutex);
  all.used[static_cast<size_t>(device)] -= bytes;
}

DeviceShape set_shape(DeviceShape shape) {
  Devices& all = devices_of_host();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.shape, shape);
}

void require_device(int device) {
  const int n = device_shape().n_devices;
  core::require(device >= 0 && device < n, "GPU {}: this machine has {}: choose one from 0 on", device, n);
}

StreamState& state(void* handle) { return *static_cast<StreamState*>(handle); }

using Clock = std::chrono::steady_clock;

}  // namespace

DeviceShape device_shape() {
  Devices& all = devices_of_host();
  const std::lock_guard lock(all.mutex);
  return all.shape;
}

DeviceScope::DeviceScope(DeviceShape shape) : before_(set_shape(shape)) {}
DeviceScope::~DeviceScope() { set_shape(before_); }

}  // namespace host

using host::state;

DeviceInfo device_info(int device) {
  host::require_device(device);
  host::Devices& all = host::devices_of_host();
  const std::lock_guard lock(all.mutex);
  const auto d = static_cast<size_t>(device);
  const uint64_t used = d < all.used.size() ? all.used[d] : 0;
  return {.index = device,
          .name = "host emulation of a GPU",
          .memory_bytes = all.shape.memory_bytes,
          .free_bytes = all.shape.memory_bytes - std::min(all.shape.memory_bytes, used),
          .major = 8,
          .minor = 0,
          .n_multiprocessors = 4,
          .shared_bytes = all.shape.shared_bytes,
          .driver_version = "0.0"};
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (int i = 0; i < host::device_shape().n_devices; ++i) all.push_back(device_info(i));
  return all;
}

void FreeOfRecording::operator()(void* graph) const { delete static_cast<Operations*>(graph); }

Stream::Stream(int device) : device_(device), handle_(nullptr) {
  host::require_device(device);
  handle_ = new host::StreamState;
}
Stream::~Stream() { delete static_cast<host::StreamState*>(handle_); }

void Stream::use() const {}

void Stream::copy_in(void* device, const void* host, size_t bytes) { copy_within(device, host, bytes); }
void Stream::copy_out(void* host, const void* device, size_t bytes) { copy_within(host, device, bytes); }

void Stream::copy_within(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  state(handle_).issue([=] { std::memmove(to, from, bytes); });
}

void Stream::fill(void* device, uint8_t byte, size_t bytes) {
  if (bytes == 0) return;
  state(handle_).issue([=] { std::memset(device, byte, bytes); });
}

void Stream::wait() {
  core::require(!state(handle_).recording, "a stream that records is waited for: end the recording first");
}

Recording Stream::record(const std::function<void()>& issue) {
  host::StreamState& s = state(handle_);
  core::require(!s.recording, "a stream records already: end that recording first");
  s.recording = true;
  try {
    issue();
  } catch (...) {
    s = {};
    throw;
  }
  return Recording(new Operations(std::exchange(s, {}).recorded));
}

void Stream::run(Recording& recording) {
  for (const auto& operation : *static_cast<Operations*>(recording.get())) {
    state(handle_).issue([&operation] { operation(); });
  }
}

DeviceMemory::DeviceMemory(Stream& stream, size_t bytes)
    : OwnedMemory(bytes == 0 ? nullptr : host::allocate(stream.device(), bytes), {stream.device(), bytes}) {}
void FreeOfDevice::operator()(void* data) const { host::release(device, data, bytes); }

PinnedMemory::PinnedMemory(size_t bytes)
    : OwnedMemory(bytes == 0 ? nullptr : ::operator new(bytes, host::kAlignment), {bytes}) {}
void FreeOfHost::operator()(void* data) const { ::operator delete(data, host::kAlignment); }

void FreeOfEvent::operator()(void* event) const { delete static_cast<host::Clock::time_point*>(event); }

void Event::record(Stream& stream) {
  if (!handle_) handle_.reset(new host::Clock::time_point{});
  state(stream.handle()).issue([at = static_cast<host::Clock::time_point*>(handle_.get())] {
    *at = host::Clock::now();
  });
}
void Event::wait() {}
double Event::since(Event& start) {
  const auto at = [](const Event& e) { return *static_cast<host::Clock::time_point*>(e.handle_.get()); };
  return std::chrono::duration<double, std::milli>(at(*this) - at(start)).count();
}

}  // namespace folio::infer::gpu
