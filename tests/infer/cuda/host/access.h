// Defines memory accesses for the race detector, and which accesses conflict.
#pragma once

#include <cstdint>
#include <string>

namespace folio::infer::gpu::host::races {

enum class Action : uint8_t { kRead, kWrite, kAtomic };

[[nodiscard]] inline bool conflict(Action a, Action b) {
  return a != b || a == Action::kWrite;  // two reads don't conflict, nor do two atomics
}

[[nodiscard]] inline const char* past(Action action) {
  return action == Action::kRead ? "read" : action == Action::kWrite ? "written" : "changed by an atomic";
}
[[nodiscard]] inline const char* present(Action action) {
  return action == Action::kRead ? "reads" : action == Action::kWrite ? "writes" : "atomically changes";
}

/// A thread's access to one byte.
struct Access {
  Action action;
  unsigned thread;     ///< index in its block
  const void* caller;  ///< address of the accessing code
};

/// Converts an address in this program's code to a 32-bit offset from the function to_offset(), and back.
[[nodiscard]] int32_t to_offset(const void* code);
[[nodiscard]] const void* from_offset(int32_t offset);
/// Returns the source line of a return address, such as "matmul.cu:12", or its offset in the binary if unknown.
[[nodiscard]] std::string source_of(const void* code);

}  // namespace folio::infer::gpu::host::races
