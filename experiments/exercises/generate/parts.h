// The functions that a text is generated with: the reader's where they are written, and the engine's where they still
// throw Unfilled.
#pragma once

#include <string_view>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

struct Parts {
  std::vector<std::string_view> own{};      ///< names of the reader's
  std::vector<std::string_view> missing{};  ///< names of those that are still to be written

  decltype(&exercises::rms_norm) rms_norm = nullptr;
  decltype(&exercises::rope) rope = nullptr;
  decltype(&exercises::swiglu) swiglu = nullptr;
  decltype(&exercises::matmul) matmul = nullptr;
  decltype(&exercises::attention) attention = nullptr;
  decltype(&exercises::sample) sample = nullptr;  ///< null: infer::Sampler draws
};

/// Calls each of the reader's functions once, to see whether it is written.
[[nodiscard]] Parts find_parts();

}  // namespace folio::exercises
