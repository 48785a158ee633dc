// Host API for a GPU: memory, streams, recorded operations and events. device.cu implements it with the CUDA runtime,
// tests/infer/cuda/host/device.cpp in host memory, as an emulator. Errors throw core::Error with a one-line message
// that states the problem, the remedy and, for most errors, the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace folio::infer::gpu {

struct DeviceInfo {
  int index = 0;
  std::string name;
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;
  int major = 0;  ///< compute capability major.minor
  int minor = 0;
  int n_multiprocessors = 0;
  size_t shared_bytes = 0;     ///< maximum shared memory of a block
  std::string driver_version;  ///< CUDA version that the driver supports, such as "13.0"
};

/// Returns this machine's devices. Throws core::Error if there is no driver or it is too old.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// Returns one device without initializing other devices. Throws like devices(), and if the device does not exist.
[[nodiscard]] DeviceInfo device_info(int device);

struct FreeOfRecording {
  void operator()(void* graph) const;
};
/// A recorded sequence of operations that runs as a whole: a CUDA graph.
using Recording = std::unique_ptr<void, FreeOfRecording>;

/// A CUDA stream: operations of one device that run in the order in which they are issued.
class Stream {
 public:
  explicit Stream(int device);  ///< throws if the device does not exist or is too old
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] void* handle() const { return handle_; }
  /// Makes the stream's device current for this thread. Required after another device's stream was used.
  void use() const;

  void copy_in(void* device, const void* host, size_t bytes);  ///< `host` must stay unchanged until the copy is done
  void copy_out(void* host, const void* device, size_t bytes);
  void copy_within(void* to, const void* from, size_t bytes);
  void fill(void* device, uint8_t byte, size_t bytes);
  /// Waits for all operations. Throws if one has failed since the last wait.
  void wait();

  /// Returns a recording of the operations that issue() issues to this stream, without running them.
  [[nodiscard]] Recording record(const std::function<void()>& issue);
  void run(Recording& recording);

 private:
  int device_;
  void* handle_;
};

/// Owns an allocation and frees it. Movable.
template <typename Free>
class OwnedMemory {
 public:
  OwnedMemory() = default;

  [[nodiscard]] size_t bytes() const { return data_ == nullptr ? 0 : data_.get_deleter().bytes; }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_.get());
  }

 protected:
  OwnedMemory(void* data, Free free) : data_(data, free) {}

 private:
  std::unique_ptr<void, Free> data_;
};

struct FreeOfDevice {
  int device = 0;
  size_t bytes = 0;
  void operator()(void* data) const;
};
struct FreeOfHost {
  size_t bytes = 0;
  void operator()(void* data) const;
};

class DeviceMemory : public OwnedMemory<FreeOfDevice> {
 public:
  DeviceMemory() = default;
  /// Allocates device memory. Throws core::Error with the sizes if too little is free.
  DeviceMemory(Stream& stream, size_t bytes);
};

/// Page-locked host memory, for copies that run while the host continues.
class PinnedMemory : public OwnedMemory<FreeOfHost> {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes);
};

struct FreeOfEvent {
  void operator()(void* event) const;
};
/// A CUDA event: a point in a stream.
class Event {
 public:
  void record(Stream& stream);
  void wait();  ///< waits until the stream reaches the event; returns at once if it was never recorded
  /// Waits for both events and returns the milliseconds from `start` to this one.
  [[nodiscard]] double since(Event& start);

 private:
  std::unique_ptr<void, FreeOfEvent> handle_;  ///< null until the first record(), which sets the event's device
};

}  // namespace folio::infer::gpu
