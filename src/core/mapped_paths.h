// Paths of mapped files, for the handler of SIGBUS, which is raised when a mapped file has been truncated.
#pragma once

namespace folio::core {

/// Returns the path of the MappedFile that contains this address, or null. Async-signal-safe.
[[nodiscard]] const char* mapped_path_at(const void* address) noexcept;

}  // namespace folio::core
