// Paths of mapped files, for the handler of SIGBUS: a truncated file that is mapped raises this signal.
#pragma once

namespace folio::core {

/// Returns the path of the MappedFile that contains `address`, or null. Async-signal-safe.
[[nodiscard]] const char* mapped_path_at(const void* address) noexcept;

}  // namespace folio::core
