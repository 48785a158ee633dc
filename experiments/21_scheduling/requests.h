// The trace: twelve requests with the step in which each comes, small enough to be drawn. Their prompts are texts that
// the small model of the tests writes, so the study needs no other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/weights.h"
#include "infer/engine/request.h"

namespace folio::experiments {

struct Arrival {
  char name;
  int64_t step;            ///< in which it comes
  size_t n_prompt;         ///< tokens
  size_t n_instructions;   ///< of them the first, which several requests have
  int64_t n_tokens;        ///< that it wants
  bool likeliest = false;  ///< each token the likeliest: a small model soon repeats itself; otherwise drawn
};

inline constexpr std::array kTrace{
    Arrival{'a', 0, 12, 0, 30},         Arrival{'b', 0, 104, 96, 8},       Arrival{'c', 0, 20, 0, 14},
    Arrival{'d', 0, 8, 0, 40, true},    Arrival{'e', 2, 104, 96, 10},      Arrival{'f', 4, 10, 0, 5},
    Arrival{'g', 6, 126, 0, 12},        Arrival{'h', 10, 16, 0, 36, true}, Arrival{'i', 14, 100, 96, 20},
    Arrival{'j', 18, 118, 96, 9, true}, Arrival{'k', 24, 28, 0, 16},       Arrival{'l', 30, 10, 0, 6}};

/// The requests of the trace, in its order. Another seed gives other texts of the same lengths.
[[nodiscard]] std::vector<infer::Request> requests(const core::StoredModel& model, uint64_t seed);

/// The tokens that each request gives alone, by the engine as it is.
[[nodiscard]] std::vector<std::vector<int32_t>> texts_alone(const core::StoredModel& model,
                                                            const std::vector<infer::Request>& requests);

}  // namespace folio::experiments
