// Formats source locations in kernels for error messages.
#pragma once

#include <cstring>
#include <source_location>
#include <string>
#include <string_view>

#include "core/error.h"

namespace folio::infer::gpu::host {

inline bool same_place(const std::source_location& a, const std::source_location& b) {
  if (std::memcmp(&a, &b, sizeof a) == 0) return true;
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0 &&
         std::strcmp(a.function_name(), b.function_name()) == 0;
}

/// Returns a location such as "matmul.cu:12".
inline std::string place(const std::source_location& at) {
  const std::string_view file = at.file_name();
  const size_t slash = file.rfind('/');
  return core::message("{}:{}", slash == std::string_view::npos ? file : file.substr(slash + 1), at.line());
}

}  // namespace folio::infer::gpu::host
