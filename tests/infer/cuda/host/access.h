// A memory access, and the condition under which two conflict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace folio::infer::gpu::host::races {

enum class Action : uint8_t { kRead, kWrite, kAtomic };

[[nodiscard]] inline bool conflict(Action a, Action b) {
  return a != b || a == Action::kWrite;  // reads, or atomics, don't conflict among themselves
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
  unsigned thread;     ///< in its block
  const void* caller;  ///< address of the accessing code
};

/// Returns an address in this program's code as a 32-bit offset.
[[nodiscard]] int32_t to_offset(const void* code);
[[nodiscard]] const void* from_offset(int32_t offset);
/// Returns the source line of a return address, such as "matmul.cu:12", if addr2line finds it.
[[nodiscard]] std::string source_of(const void* code);

}  // namespace folio::infer::gpu::host::races
