// Which file is mapped where, for a handler of SIGBUS, which the system sends where a mapped file has become shorter.
#pragma once

namespace folio::core {

/// The path of the MappedFile that has this address, or null. Async-signal-safe.
[[nodiscard]] const char* mapped_path_at(const void* address) noexcept;

}  // namespace folio::core
