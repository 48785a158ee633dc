// Log-probabilities of the tokens of a text, from which perplexity is computed. The text is scored in windows that do
// not overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "infer/engine/engine.h"
#include "infer/engine/prompt_report.h"

namespace folio::infer {

/// Receives ln p of consecutive scored tokens. Returns false to stop scoring.
using OnLogProbs = std::function<bool(std::span<const double> log_probs)>;

/// Returns how many of `n_tokens` tokens score_windows() scores: all except the first token of each window.
[[nodiscard]] int64_t scored_tokens(int64_t n_tokens, int64_t window);

/// Scores `tokens` in consecutive windows of `window` tokens; the last one may be shorter. Each token except a window's
/// first is scored, given the tokens before it in the window. Throws core::Error if there is no token to score, if the
/// window is not in [2, the model's context], or if a logit is not finite.
void score_windows(Engine& engine, std::span<const int32_t> tokens, int64_t window, const OnLogProbs& on_log_probs,
                   int32_t adapter = kNoAdapter);

}  // namespace folio::infer
