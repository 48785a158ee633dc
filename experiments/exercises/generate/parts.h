// The functions used for generation: those that the reader has written, and the engine's in place of the others.
#pragma once

#include <string_view>
#include <vector>

#include "experiments/exercises/engine/kernels.h"

namespace folio::exercises {

struct Parts {
  std::vector<std::string_view> own{};      ///< names of the functions written by the reader
  std::vector<std::string_view> missing{};  ///< names of the functions not yet written

  decltype(&exercises::rms_norm) rms_norm = nullptr;
  decltype(&exercises::rope) rope = nullptr;
  decltype(&exercises::swiglu) swiglu = nullptr;
  decltype(&exercises::matmul) matmul = nullptr;
  decltype(&exercises::attention) attention = nullptr;
  decltype(&exercises::sample) sample = nullptr;  ///< null if not written; infer::Sampler is used instead
};

/// Calls each of the reader's functions once to find out which are written, and returns the functions to use.
[[nodiscard]] Parts find_parts();

}  // namespace folio::exercises
