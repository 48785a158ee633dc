// An access to memory, and two that conflict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace folio::infer::gpu::host::races {

enum class Action : uint8_t { kRead, kWrite, kAtomic };

[[nodiscard]] inline bool conflict(Action a, Action b) {
  return a != b || a == Action::kWrite;  // of reads and of atomics alone, there is no order to keep
}

[[nodiscard]] inline const char* past(Action action) {
  return action == Action::kRead ? "read" : action == Action::kWrite ? "written" : "changed by an atomic";
}
[[nodiscard]] inline const char* present(Action action) {
  return action == Action::kRead ? "reads" : action == Action::kWrite ? "writes" : "atomically changes";
}

/// What a thread does to a byte.
struct Access {
  Action action;
  unsigned thread;     ///< in its block
  const void* caller;  ///< the code that does it
};

/// A place in this program's code, in 32 bits.
[[nodiscard]] int32_t to_offset(const void* code);
[[nodiscard]] const void* from_offset(int32_t offset);
/// "matmul.cu:12", as far as addr2line finds it; `code` is a return address.
[[nodiscard]] std::string source_of(const void* code);

}  // namespace folio::infer::gpu::host::races
