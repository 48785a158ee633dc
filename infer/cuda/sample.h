// Samples tokens on the device, with the results of sampling/sampler.h except for rounding. Logits stay on the device.
// Only the uploaded DrawInputs and token IDs change between steps, so the launches can be recorded in a CUDA graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/cuda/kernels.h"
#include "infer/sampling/sampler.h"

namespace folio::infer::gpu {

/// Parameters of one draw. From ids[first_id] on: n_penalized penalized token IDs, then n_never forbidden ones.
struct DrawInput {
  double uniform;  ///< random number in [0, 1)
  uint32_t row;    ///< row of the logits
  uint32_t first_id;
  uint32_t n_penalized;
  uint32_t n_never;
  uint32_t top_k;  ///< less than the vocabulary size; 0: off
  float top_p;
  float min_p;
  float temperature;
  float repetition_penalty;
};

inline constexpr size_t kMostTokens = size_t{1} << 19U;  ///< maximum vocabulary size of draw_tokens()

/// Returns the parameters of the draw Sampler(options, never).draw(logits of `row`, history, position). Appends its
/// penalized and forbidden token IDs to `ids`. Throws core::Error if one of these IDs is not in [0, vocab_size).
[[nodiscard]] DrawInput draw_input(size_t row, const SamplerOptions& options, std::span<const int32_t> never,
                                   std::span<const int32_t> history, int64_t position, size_t vocab_size,
                                   std::vector<int32_t>& ids);

/// Returns the workspace size in bytes for n_draws. The workspace must be zeroed before the first draw_tokens(); each
/// call leaves it ready for the next one with as many draws or fewer.
[[nodiscard]] size_t draw_workspace_bytes(size_t n_draws);

/// Sets tokens (n_draws) to each draw's token, or to kNotFinite if a logit is not finite, or to kNothingLeft if no
/// token may be drawn. All pointers are to device memory. logits (rows, vocab_size) are only read; vocab_size is at
/// most kMostTokens. Results are deterministic, and a draw does not depend on other draws.
void draw_tokens(Stream& stream, const float* logits, size_t vocab_size, const DrawInput* draws, const int32_t* ids,
                 size_t n_draws, void* workspace, int32_t* tokens);

}  // namespace folio::infer::gpu
