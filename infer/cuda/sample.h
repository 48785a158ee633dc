// Tokens drawn on the device, from logits that stay there: the draws of sampling/sampler.h, but for roundings. A
// program that draws brings DrawInputs and ids to the device before; nothing else changes from step to step, so the
// launches can be recorded and run again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/cuda/kernels.h"
#include "infer/sampling/sampler.h"

namespace folio::infer::gpu {

/// What one draw needs beside the logits. Of `ids`, n_penalized begin at first_id, and n_never follow; none twice.
struct DrawInput {
  double uniform;  ///< in [0, 1)
  uint32_t row;    ///< of the logits
  uint32_t first_id;
  uint32_t n_penalized;
  uint32_t n_never;
  uint32_t top_k;
  float top_p;
  float min_p;
  float temperature;
  float repetition_penalty;
};

inline constexpr size_t kMostTokens = size_t{1} << 19U;  ///< of a vocabulary that is drawn from

/// The input of the draw that Sampler(options, never).draw(logits of `row`, history, position) is; appends its ids.
/// Throws core::Error if an id of `never` or `history` is outside the vocabulary.
[[nodiscard]] DrawInput draw_input(size_t row, const SamplerOptions& options, std::span<const int32_t> never,
                                   std::span<const int32_t> history, int64_t position, size_t vocab_size,
                                   std::vector<int32_t>& ids);

/// Bytes of the workspace for so many draws. It has to be zero before the first draw_tokens(), which leaves it ready
/// for the next, of as many draws or fewer.
[[nodiscard]] size_t draw_workspace_bytes(size_t n_draws);

/// tokens (n_draws) = for each draw a token, kNotFinite or kNothingLeft. logits are (rows, vocab_size), and stay as
/// they are; vocab_size is at most kMostTokens. `draws` and `ids` are on the device, too. The same bits each time, and
/// for a draw the same whatever the others are.
void draw_tokens(Stream& stream, const float* logits, size_t vocab_size, const DrawInput* draws, const int32_t* ids,
                 size_t n_draws, void* workspace, int32_t* tokens, Form form = Form::Fast);

}  // namespace folio::infer::gpu
