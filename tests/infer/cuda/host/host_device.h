// Declares the state of the emulated device and its streams that device.cpp shares with launches and the race detector.
#pragma once

#include <functional>
#include <vector>

#include "tests/infer/cuda/host/emulator.h"

namespace folio::infer::gpu::host {

[[nodiscard]] DeviceShape device_shape();

/// The state that a Stream's handle points to.
struct StreamState {
  bool recording = false;
  std::vector<std::function<void()>> recorded;

  /// Runs an operation now, or stores it while the stream is recording.
  template <typename Operation>
  void issue(Operation operation) {
    if (recording) {
      recorded.emplace_back(std::move(operation));
    } else {
      operation();
    }
  }
};

}  // namespace folio::infer::gpu::host
