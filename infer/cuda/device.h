// A GPU as the host sees it: memory, a stream of operations in order, recorded steps, and the time between two points.
// device.cu does this with CUDA's runtime, tests/infer/cuda/host/device.cpp with the host's own memory. What fails throws core::Error:
// one line with what, where and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace folio::infer::gpu {

struct DeviceInfo {
  int index = 0;
  std::string name;
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;
  int major = 0;  ///< compute capability
  int minor = 0;
  int n_multiprocessors = 0;
  size_t shared_bytes = 0;     ///< of a block, at most
  std::string driver_version;  ///< the CUDA version that the driver runs, such as "13.0"
};

/// The devices of this machine. Throws if there is no driver, or one that is too old.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// One of them; the others are left alone. Throws if there is no such device, too.
[[nodiscard]] DeviceInfo device_info(int device);

/// Whatever was recorded, to be run again at once: a CUDA graph.
class Recording {
 public:
  struct Impl;
  explicit Recording(std::unique_ptr<Impl> impl);
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Operations of one device, done in the order in which they are issued.
class Stream {
 public:
  explicit Stream(int device);  ///< throws if there is no such device
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] void* handle() const { return handle_; }
  /// Makes its device the one of this thread. Before the first operation after another stream was used.
  void use() const;

  void copy_in(void* device, const void* host, size_t bytes);  ///< host memory is read until it is done
  void copy_out(void* host, const void* device, size_t bytes);
  void copy_within(void* to, const void* from, size_t bytes);
  void fill(void* device, uint8_t byte, size_t bytes);
  /// Waits until all is done. Throws if an operation since the last wait failed.
  void wait();

  /// From here to the end, operations are recorded and not done.
  void begin_recording();
  [[nodiscard]] Recording end_recording();
  void run(Recording& recording);

 private:
  int device_;
  void* handle_;
};

/// Bytes that are given back at the end; movable.
template <typename Free>
class Memory {
 public:
  Memory() = default;

  [[nodiscard]] size_t bytes() const { return data_ == nullptr ? 0 : data_.get_deleter().bytes; }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_.get());
  }

 protected:
  Memory(void* data, Free free) : data_(data, free) {}

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

class DeviceMemory : public Memory<FreeOfDevice> {
 public:
  DeviceMemory() = default;
  /// Throws core::Error with the sizes if the device has not so much.
  DeviceMemory(Stream& stream, size_t bytes);
};

/// Memory of the host that copies run from and to while the host goes on.
class PinnedMemory : public Memory<FreeOfHost> {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes);
};

/// A point in a stream.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Stream& stream);
  void wait();  ///< until the stream has come here; at once if it was never recorded
  /// Milliseconds from `start` to this one; waits for both.
  [[nodiscard]] double since(Event& start);

 private:
  void* handle_;
};

}  // namespace folio::infer::gpu
